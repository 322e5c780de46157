"""Writing a prompt in an editor."""

from __future__ import annotations

import os
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from ore.cli.terminal.editor import write_in_editor
from ore.errors import FileAccessError, UsageError
from tests.support.closed import beside_a_closed_folder


@pytest.fixture
def editor(tmp_path):
    def make(script: str) -> dict[str, str]:
        path = tmp_path / "an editor"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)
        return {"EDITOR": f"'{path}' first"}

    return make


def test_what_was_saved_is_returned_and_nothing_is_left(editor, tmp_path):
    note = tmp_path / "note"
    script = f'(echo "$2"; cat "$2") > "{note}"; ls -ld "$(dirname "$2")" >> "{note}"'
    environ = editor(script + '; printf "é\\n\\n" > "$2"')
    assert write_in_editor("begun\n", environ) == "é\n"
    path, begun, folder = note.read_text().splitlines()
    assert begun == "begun" and path.endswith(".md") and folder.startswith("drwx------")
    assert not os.path.exists(os.path.dirname(path))


def test_visual_goes_before_editor(editor):
    assert write_in_editor("kept", {**editor("exit 1"), "VISUAL": "true"}) == "kept"


@pytest.mark.parametrize(
    "environ, error",
    [
        ({}, UsageError),
        ({"EDITOR": "  "}, UsageError),
        ({"EDITOR": "'unfinished"}, UsageError),
        ({"EDITOR": "/nonexistent/editor"}, FileAccessError),
        ({"EDITOR": "false"}, FileAccessError),
    ],
)
def test_a_missing_or_failing_editor_is_reported_in_one_sentence(environ, error):
    with pytest.raises(error) as raised:
        write_in_editor("", environ)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "script, error",
    [
        (r'printf "\377" > "$2"', UsageError),
        (r'printf "a\0b" > "$2"', UsageError),
        ('rm "$2"', FileAccessError),
        ('rm "$2"; mkfifo "$2"', FileAccessError),
        ('head -c 1048577 /dev/zero > "$2"', FileAccessError),
    ],
)
def test_a_file_that_is_not_text_is_not_sent(editor, script, error):
    with pytest.raises(error):
        write_in_editor("", editor(script))


@pytest.mark.parametrize(
    "script, begun, kept",
    [
        (r'printf "\377" > "$2"', "", b"\xff"),
        ('head -c 1048577 /dev/zero > "$2"', "", bytes(1_048_577)),
        ('printf "long work" > "$2"; kill -9 $$', "", b"long work"),
        ("exit 1", "begun", None),
        ('printf "" > "$2"; exit 1', "begun", None),
    ],
)
def test_what_was_written_and_is_not_sent_stays_and_is_named(
    editor, tmp_path, monkeypatch, script, begun, kept
):
    (tmp_path / "t").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    with pytest.raises((UsageError, FileAccessError)) as raised:
        write_in_editor(begun, editor(script))
    paths = list((tmp_path / "t").glob("*/*"))
    assert [path.read_bytes() for path in paths] == ([] if kept is None else [kept])
    assert all(str(raised.value).endswith(f"What you wrote is in {path}.") for path in paths)
    assert paths or not any((tmp_path / "t").iterdir())


def test_what_was_written_stays_where_it_can_t_be_read(editor, monkeypatch):
    with beside_a_closed_folder() as (there, _):
        (there / "an editor").write_text('#!/bin/sh\nprintf "long work" > "$1"; chmod 0 "$1"\n')
        (there / "an editor").chmod(0o700)
        monkeypatch.setattr("tempfile.tempdir", str(there))
        with pytest.raises(FileAccessError) as raised:
            write_in_editor("", {"EDITOR": f"'{there}/an editor'"})
        (path,) = there.glob("*/*")
        assert str(raised.value).endswith(f"What you wrote may be in {path}.")
        path.chmod(0o600)
        assert path.read_bytes() == b"long work"


def test_an_editor_opens_even_where_no_signal_can_be_handled(editor):
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(write_in_editor, "kept", editor("true")).result() == "kept"


def test_where_no_file_can_be_made_no_editor_is_opened(editor, tmp_path):
    environ = editor(f'touch "{tmp_path}/opened"')
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(FileAccessError) as raised:
            write_in_editor("a text", environ)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "file too large" in str(raised.value) and "TMPDIR" in str(raised.value)
    assert not (tmp_path / "opened").exists()
