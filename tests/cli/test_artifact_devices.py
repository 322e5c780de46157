"""Writing artifacts into what is no file, and into what does not stay one."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from ore.artifact import check_output, encode_artifact, write_artifact
from ore.errors import ArtifactError, ReaderGoneError
from ore.types import ExecutionArtifact
from tests.support.artifacts import GOOD
from tests.support.faults import Intercepted

ARTIFACT = ExecutionArtifact.from_dict(GOOD)
TEXT = encode_artifact(ARTIFACT)

pytestmark = pytest.mark.usefixtures("folder")


def test_a_named_pipe_gets_the_artifact_and_stays_a_pipe():
    os.mkfifo("pipe")
    check_output("pipe")
    got = []
    reader = threading.Thread(target=lambda: got.append(Path("pipe").read_text()))
    reader.start()
    write_artifact(ARTIFACT, "pipe")
    reader.join()
    assert got == [TEXT] and os.listdir() == ["pipe"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_pipe_that_another_user_has_put_into_a_folder_for_all_gets_nothing(folder):
    os.mkfifo("pipe")
    os.chown("pipe", 12345, -1)
    check_output("pipe")  # nobody else can put one there
    folder.chmod(0o1777)
    for write in (check_output, lambda path: write_artifact(ARTIFACT, path)):
        with pytest.raises(ArtifactError, match="it is another user's pipe, in a folder for all"):
            write("pipe")
    os.chown(folder, 12345, -1)
    check_output("pipe")  # it is that user's own folder
    os.chown(folder, 0, -1)
    os.chown("pipe", 0, -1)
    check_output("pipe")


def test_a_pipe_that_the_shell_opened_gets_the_artifact_and_stays_open():
    reading, writing = os.pipe()
    for _ in range(2):
        write_artifact(ARTIFACT, f"/dev/fd/{writing}")
    os.close(writing)
    with open(reading) as pipe:
        assert pipe.read() == TEXT * 2


def test_a_file_that_the_shell_opened_is_written_to_where_it_stands():
    Path("log").write_text("before\n")
    descriptor = os.open("log", os.O_WRONLY | os.O_APPEND)
    write_artifact(ARTIFACT, f"/dev/fd/{descriptor}")
    os.close(descriptor)
    assert Path("log").read_text() == "before\n" + TEXT


def test_a_reader_that_went_away_is_an_error_of_its_own():
    reading, writing = os.pipe()
    os.close(reading)
    with pytest.raises(ReaderGoneError, match="^Nobody reads /dev/fd/[0-9]* any more.$"):
        write_artifact(ARTIFACT, f"/dev/fd/{writing}")
    os.close(writing)


def test_a_device_is_written_to_as_it_is():
    check_output("/dev/null")
    write_artifact(ARTIFACT, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_a_device_that_takes_no_more_is_an_artifact_error():
    with pytest.raises(ArtifactError, match="to /dev/full: no space left on device"):
        write_artifact(ARTIFACT, "/dev/full")


def test_a_file_that_becomes_a_link_while_it_is_judged_is_not_read_through():
    def judge(at: int) -> str | None:
        """Check a file that makes way for a link to an artifact at the call number ``at``."""
        for name in ("run.json", "other.json"):
            Path(name).unlink(missing_ok=True)
            Path(name).write_text(TEXT)

        def becoming_a_link(name, real, args, kwargs):
            os.remove("run.json")
            os.symlink("other.json", "run.json")
            return real(*args, **kwargs)

        with Intercepted(at, becoming_a_link) as calls:
            try:
                check_output("run.json")
            except ArtifactError as exc:
                assert "run.json: it is there already and is not an artifact" in str(exc)
                return calls.names[at - 1]
        return None

    refused_at: list[str] = []
    while called := judge(len(refused_at) + 1):
        refused_at.append(called)
    assert refused_at[-1:] == ["open"], "what is read once it is open is the file that was judged"
