"""Writing artifacts: whole or not at all, and never over anything but an artifact."""

from __future__ import annotations

import errno
import os
import resource
import socket
import stat
import threading
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ore.artifact import (
    MAX_ARTIFACT_BYTES,
    check_output,
    encode_artifact,
    read_artifact,
    write_artifact,
)
from ore.errors import ArtifactError
from ore.types import ExecutionArtifact, Response
from tests.support.artifacts import GOOD, changed, encoded, nested

ARTIFACT = ExecutionArtifact.from_dict(GOOD)
OTHER = ExecutionArtifact.from_dict(changed("output.content", "Dust."))
TEXT = encode_artifact(ARTIFACT)

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def umask():
    """Set the umask for one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@contextmanager
def without_privileges():
    """Root may write anywhere: be nobody for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def mode_of(path: str) -> int:
    return stat.S_IMODE(os.stat(path).st_mode)


def refused(path, why: str) -> BaseException | None:
    """Hold that both the check and the writing refuse ``path``, in the same sentence.

    Return the error that made them refuse it, if there was one.
    """
    said = []
    for attempt in (check_output, lambda target: write_artifact(ARTIFACT, target)):
        with pytest.raises(ArtifactError) as caught:
            attempt(path)
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert said[0].startswith("The artifact can't be written to ") and why in said[0]
    assert said[0].endswith(".") and "\n" not in said[0]
    return caught.value.__cause__


# The text


def test_the_text_is_ascii_on_one_document_that_ends_in_one_newline():
    odd = "\x00\x1b[2J\x7f\x9b\u2028\u202e\ud83d\U0001f30d"
    text = encode_artifact(ExecutionArtifact.from_dict(changed("output.content", odd)))
    assert text.isascii() and text.endswith("}\n") and not text.endswith("\n\n")
    assert not any(ord(c) < 32 and c != "\n" or ord(c) == 127 for c in text)
    assert text.startswith('{\n  "artifact_version": "ore.exec.v1",\n  "execution_id": ')


LOOP: dict = {}
LOOP["self"] = LOOP


@pytest.mark.slow
@pytest.mark.parametrize(
    "metadata, why",
    [
        ({"a": {1, 2}}, "object of type set is not JSON serializable"),
        ({"a": b"x"}, "object of type bytes is not JSON serializable"),
        ({"a": float("nan")}, "out of range float values are not JSON compliant"),
        ({"a": float("inf")}, "out of range float values are not JSON compliant"),
        ({("a", "b"): 1}, "keys must be str"),
        ({1: "a", "1": "b"}, "it has the key '1' twice in one object"),
        ({"a": threading.Lock()}, "object of type lock is not JSON serializable"),
        ({"a": nested(62)}, "it is nested deeper than 64 levels"),
        ({"a": nested(900)}, ""),
        (LOOP, "circular reference detected"),
        ({"a": "x" * MAX_ARTIFACT_BYTES}, "it is larger than 16,777,216 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_metadata_that_could_not_be_read_back_is_refused_and_nothing_is_written(metadata, why):
    made = ExecutionArtifact.from_response(Response("a", "m", metadata=metadata), "p", "m")
    Path("run.json").write_text(TEXT)
    for path in ("run.json", "new.json", "/dev/null"):
        with pytest.raises(ArtifactError) as caught:
            write_artifact(made, path)
        said = str(caught.value)
        assert said.startswith(f"The turn can't be kept as an artifact: {why}")
        assert said.endswith(".") and not said.endswith("..")
    assert os.listdir() == ["run.json"] and Path("run.json").read_text() == TEXT


def test_a_prompt_that_is_not_text_is_refused():
    made = replace(ARTIFACT, input=replace(ARTIFACT.input, prompt=None))
    with pytest.raises(
        ArtifactError, match=r" input\.prompt is null, not text that can be sent\.$"
    ):
        encode_artifact(made)


# Files


def test_a_new_file_is_written_whole_and_is_its_owners_alone(umask):
    umask(0)
    check_output("run.json")
    assert os.listdir() == [], "a check writes nothing"
    write_artifact(ARTIFACT, "run.json")
    assert Path("run.json").read_text(encoding="ascii") == TEXT
    assert mode_of("run.json") == 0o600
    assert os.listdir() == ["run.json"]


@pytest.mark.parametrize("before", [b"", TEXT.encode(), encoded(GOOD)])
@pytest.mark.parametrize("mode, mask, after", [(0o640, 0o022, 0o640), (0o666, 0o027, 0o640)])
def test_an_artifact_or_an_empty_file_is_replaced_and_keeps_its_mode(
    umask, before, mode, mask, after
):
    Path("run.json").write_bytes(before)
    os.chmod("run.json", mode)
    umask(mask)
    check_output("run.json")
    write_artifact(OTHER, Path("run.json"))
    assert read_artifact("run.json") == OTHER
    assert mode_of("run.json") == after
    assert os.listdir() == ["run.json"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_empty_file_does_not_say_who_may_read_what_replaces_it():
    Path("run.json").touch()
    os.chmod("run.json", 0o666)
    os.chown("run.json", 12345, -1)
    write_artifact(OTHER, "run.json")
    assert mode_of("run.json") == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"my notes\n",
        b"\n",
        b"{}",
        TEXT.encode()[:-3],
        TEXT.encode() + b"x",
        encoded(changed("artifact_version", "ore.exec.v2")),
        TEXT.encode().ljust(MAX_ARTIFACT_BYTES + 1),
    ],
    ids=range(7),
)
def test_a_file_that_is_not_an_artifact_is_never_overwritten(content):
    Path("run.json").write_bytes(content)
    why = (
        "run.json: it is there already and is not an artifact, or not a whole one; move it away, or"
    )
    assert str(refused("run.json", why)).startswith("run.json can't be ")
    assert Path("run.json").read_bytes() == content


def test_what_changed_since_the_check_is_not_overwritten():
    check_output("run.json")
    Path("run.json").write_text("my notes\n")
    with pytest.raises(ArtifactError, match="is not an artifact"):
        write_artifact(ARTIFACT, "run.json")
    assert Path("run.json").read_text() == "my notes\n"


@pytest.mark.parametrize("target", ["run.json", "missing.json", "/dev/null", "."])
def test_a_symbolic_link_is_refused_and_its_target_left(target):
    Path("run.json").write_text(TEXT)
    os.symlink(target, "link")
    refused("link", "it is a symbolic link")
    assert os.readlink("link") == target and Path("run.json").read_text() == TEXT


@pytest.mark.parametrize(
    "path, why",
    [
        (".", "it is a folder"),
        ("", "it is a folder"),
        ("new/", "it is a folder"),
        ("missing/run.json", "there is no folder missing; make it first"),
        ("notes/run.json", "not a directory"),
        ("a\0b", "embedded null"),
        ("x" * 256, "file name too long"),
        ("/dev/fd/999999", "bad file descriptor"),
        ("socket", "it is neither a file nor a pipe"),
        ("x\x1b[1m/y", "there is no folder x^[[1m"),
    ],
)
def test_an_unwritable_place_is_refused_before_a_turn(path, why):
    Path("notes").write_text("my notes\n")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        refused(path, why)
    assert sorted(os.listdir()) == ["notes", "socket"]


def test_a_descriptor_that_is_open_for_reading_is_refused():
    Path("log").write_text("before\n")
    with open("log") as log:
        refused(f"/dev/fd/{log.fileno()}", "it is open for reading only")


def test_a_read_only_folder_and_a_read_only_file_are_refused(folder):
    Path("run.json").write_text(TEXT)
    os.chmod("run.json", 0o444)
    os.chmod(folder, 0o555)
    try:
        with without_privileges():
            refused("new.json", "the folder . can't be written to")
            refused("run.json", "permission denied")
    finally:
        os.chmod(folder, 0o755)


def test_a_full_disk_leaves_the_file_as_it_was():
    Path("run.json").write_text(TEXT)
    large = ExecutionArtifact.from_dict(changed("output.content", "x" * 100_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(ArtifactError, match="to run.json: file too large"):
            write_artifact(large, "run.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert Path("run.json").read_text() == TEXT and os.listdir() == ["run.json"]


@pytest.mark.parametrize("name", ["x" * 255, "\U0001d4b3" * 63])
def test_the_longest_name_that_a_file_can_have_is_written(name):
    check_output(name)
    write_artifact(ARTIFACT, name)
    assert os.listdir() == [name]


@pytest.mark.parametrize("name", ["stat", "open"])
@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES])
def test_what_the_system_does_not_tell_of_a_place_is_no_fault_and_blames_no_file(
    name, number, monkeypatch
):
    write_artifact(ARTIFACT, "run.json")
    failing = {"stat": Path(), "open": "run.json"}[name]
    real = getattr(os, name)

    def fails(path, *args, **kwargs):
        if path == failing:
            raise OSError(number, os.strerror(number))
        return real(path, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, name, fails)
        with pytest.raises(ArtifactError, match="written to run.json: ") as caught:
            check_output("run.json")
    assert "is not an artifact" not in str(caught.value)
