"""Reading artifacts at the edge, and handing one run's artifact to the next."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from pathlib import Path

import pytest

from ore.artifact import (
    MAX_ARTIFACT_BYTES,
    encode_artifact,
    parse_artifact,
    read_artifact,
    read_bytes,
    write_artifact,
)
from ore.core import ORE
from ore.errors import ArtifactError, InvalidArtifactError
from ore.types import ExecutionArtifact
from tests.support.artifacts import GOOD, changed, encoded
from tests.support.harness import ScriptedReasoner

ARTIFACT = ExecutionArtifact.from_dict(GOOD)

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_file_and_stdin_are_read_alike(folder, bom):
    data = bom + encoded(GOOD)
    (folder / "run.json").write_bytes(data)
    assert read_artifact("run.json") == ARTIFACT
    assert read_artifact(folder / "run.json") == ARTIFACT
    assert read_artifact("-", io.BytesIO(data)) == ARTIFACT


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"[]", "An artifact is a JSON object, not a list"),
        (b"Paris.\n", "it is not JSON: "),
        (b"{} {}", "it is not JSON: "),
        (b"{" * 10_000, "it is not JSON: "),
        (b"[" * 100_000, "it is nested deeper than 64 levels"),
        (encoded(GOOD)[:-1] + b',"x":' + b"[" * 64 + b"]" * 64 + b"}", "it is nested deeper than"),
        (encoded(GOOD)[:-1] + b',"x":NaN}', "it holds NaN"),
        (encoded(GOOD)[:-1] + b',"x":1e999}', "it holds a number that is not finite"),
        (encoded(GOOD)[:-1] + b',"input":{}}', "it has the key 'input' twice"),
        (b'{"artifact_version": "\xff"}', "it is not UTF-8 at byte 22"),
        (json.dumps(GOOD).encode("utf-16"), "it is not UTF-8 at byte 0"),
        (b'{"artifact_version": "ore.exec.v2"}', "Unsupported artifact version 'ore.exec.v2'"),
        (encoded(changed("input.prompt", 1)), "The artifact's input.prompt is a number"),
        (encoded(GOOD).ljust(MAX_ARTIFACT_BYTES + 1), "it is larger than 16,777,216 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_an_artifact_is_refused_in_one_sentence_that_names_it(folder, data, why):
    (folder / "run.json").write_bytes(data)
    for said, source in [("run.json", "run.json"), ("stdin", "-")]:
        with pytest.raises(InvalidArtifactError) as caught:
            read_artifact(source, io.BytesIO(data))
        assert str(caught.value).startswith(f"{said} can't be used as an artifact: {why}")
        assert str(caught.value).endswith("; give one that was written with `ORE.record()`.")
        assert ".;" not in str(caught.value)
        assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


def test_the_largest_artifact_is_read():
    assert parse_artifact(encoded(GOOD).ljust(MAX_ARTIFACT_BYTES), "x") == ARTIFACT


@pytest.mark.parametrize(
    "path, why",
    [
        ("missing.json", "no such file or directory"),
        ("missing/run.json", "no such file or directory"),
        (".", "it is not a regular file"),
        ("", "no such file or directory"),
        ("a\0b", "no file can have that name"),
        ("x" * 300, "file name too long"),
        ("/dev/zero", "it is not a regular file"),
        ("/dev/null", "it is not a regular file"),
    ],
)
def test_what_can_not_be_read_is_an_artifact_error(path, why):
    with pytest.raises(ArtifactError, match=f"can't be read: .*{why}") as caught:
        read_artifact(path)
    assert not isinstance(caught.value, InvalidArtifactError)


def test_a_name_with_control_characters_is_shown_and_not_obeyed():
    with pytest.raises(ArtifactError, match=r"^'x\\n\\x1b\[1m' can't be read"):
        read_artifact("x\n\x1b[1m")
    Path("y\x1b[1m").touch()
    with pytest.raises(InvalidArtifactError, match=r"^y\^\[\[1m can't be used"):
        read_artifact("y\x1b[1m")


class Typed(io.BytesIO):
    def isatty(self):
        return True

    def read(self, size=-1):
        raise AssertionError("a terminal was waited on")


@pytest.mark.parametrize("stdin", [None, Typed(b"")])
def test_a_closed_stdin_or_a_terminal_is_not_waited_on(stdin):
    with pytest.raises(ArtifactError) as caught:
        read_artifact("-", stdin)
    assert str(caught.value) == ("There is no artifact on stdin: pipe one in, or name its file.")


class Unreadable(io.BytesIO):
    def read(self, size=-1):
        raise IsADirectoryError(21, "Is a directory")


def test_a_stdin_that_can_not_be_read_is_an_artifact_error():
    with pytest.raises(ArtifactError, match="^The artifact on stdin can't be read: is a directory"):
        read_artifact("-", Unreadable())


class Endless(io.RawIOBase):
    given = 0

    def readable(self):
        return True

    def readinto(self, buffer):
        self.given += len(buffer)
        return len(buffer)


def test_an_endless_stdin_is_read_no_further_than_the_limit():
    endless = Endless()
    with pytest.raises(InvalidArtifactError, match="it is larger than 16,777,216 bytes"):
        read_artifact("-", io.BufferedReader(endless))
    assert endless.given < MAX_ARTIFACT_BYTES + 2**20


def test_one_byte_beyond_the_limit_is_read_to_know_that_it_is_passed():
    Path("large").write_bytes(b"x" * (MAX_ARTIFACT_BYTES + 9))
    assert len(read_bytes("large")) == MAX_ARTIFACT_BYTES + 1
    with open("large", "rb") as stdin:
        assert len(read_bytes("-", stdin)) == MAX_ARTIFACT_BYTES + 1


def test_a_named_pipe_is_read_to_its_end():
    os.mkfifo("pipe")
    data = encoded(changed("output.content", "x" * 300_000))
    writer = threading.Thread(target=Path("pipe").write_bytes, args=(data,))
    writer.start()
    assert read_artifact("pipe").output.content == "x" * 300_000
    writer.join()


def test_a_pipe_that_the_shell_opened_is_read():
    reading, writing = os.pipe()
    os.write(writing, encoded(GOOD))
    os.close(writing)
    assert read_artifact(f"/dev/fd/{reading}") == ARTIFACT
    os.close(reading)


@pytest.mark.slow
def test_an_artifact_goes_whole_into_a_pipe_that_others_keep_making_non_blocking():
    artifact = ExecutionArtifact.from_dict(changed("output.content", "x" * 150_000))
    for _ in range(4):  # it is a race
        reading, writing = os.pipe()
        is_written, came = threading.Event(), []

        def read(pipe: int = reading, came: list[bytes] = came) -> None:
            while part := os.read(pipe, 8192):
                came.append(part)
                time.sleep(0.001)

        def unblock(pipe: int = writing, is_written: threading.Event = is_written) -> None:
            while not is_written.is_set():
                os.set_blocking(pipe, False)

        threads = [threading.Thread(target=each) for each in (read, unblock)]
        for thread in threads:
            thread.start()
        try:
            write_artifact(artifact, f"/dev/fd/{writing}")
        finally:
            is_written.set()
            threads[1].join()
            os.close(writing)
            threads[0].join()
            os.close(reading)
        assert b"".join(came) == encode_artifact(artifact).encode("ascii")


# Chaining


def run(prompt: str, answer: str) -> tuple[ExecutionArtifact, ScriptedReasoner]:
    """Take one turn with a model that answers ``answer``."""
    reasoner = ScriptedReasoner([answer], model_id="small:1b")
    response = ORE(reasoner, system_prompt="").execute(prompt)
    return ExecutionArtifact.from_response(response, prompt, "small"), reasoner


def test_one_runs_artifact_is_the_next_ones_input():
    first, _ = run("Draft a title.\n", "Blue \u2028 \x1b[1m skies \U0001f30d")
    write_artifact(first, "out.json")

    received = read_artifact("out.json")
    assert received == first
    second, reasoner = run(received.input.prompt, "Grey skies")
    assert [message.content for message in reasoner.calls[0]] == ["Draft a title.\n"]

    write_artifact(second, "out.json")
    assert read_artifact("out.json") == second
    assert second.input.prompt == first.input.prompt
    assert second.execution_id != first.execution_id


def test_artifacts_go_from_one_process_to_the_next_through_a_pipe():
    first, _ = run("Draft a title.", "Blue skies")
    passed_on = io.BytesIO(encode_artifact(first).encode("ascii"))
    assert read_artifact("-", passed_on) == first


@pytest.mark.invariant
def test_what_an_artifact_says_of_tools_and_routing_is_data_that_a_run_does_not_see():
    data = changed("input.tools", ["shell"])
    data["input"]["routing"] = {"target": "read-file", "args": {"path": "/etc/passwd"}}
    _, reasoner = run(parse_artifact(encoded(data), "x").input.prompt, "no")
    assert [(m.role, m.content) for m in reasoner.calls[0]] == [("user", GOOD["input"]["prompt"])]


@pytest.mark.slow
def test_an_artifact_of_countless_values_is_refused_before_they_take_memory():
    with pytest.raises(InvalidArtifactError, match="more than 2,000,000 values"):
        parse_artifact(b"[" + b"0," * 2_000_001 + b"0]", "a.json")
