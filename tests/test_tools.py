"""The tools that come with ORE, run on real files."""

from __future__ import annotations

import doctest
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.errors import UnknownToolError, UsageError
from ore.tools import (
    MAX_FILE_BYTES,
    TOOL_REGISTRY,
    EchoTool,
    Permission,
    ReadFileTool,
    Tool,
    find_tool,
    parse_permission,
)
from ore.types import ToolResult


@pytest.fixture
def folder(tmp_path, home, monkeypatch) -> Path:
    """The current folder, with files and links in it, a secret beside it and a note at home."""
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a.txt").write_text("not this one")
    (home / "note.txt").write_text("at home")
    path = tmp_path / "here"
    (path / "sub").mkdir(parents=True)
    (path / "a.txt").write_text("a\r\nä\n", encoding="utf-8", newline="")
    (path / "sub" / "b.txt").write_text("b")
    (path / "bom.txt").write_bytes(b"\xef\xbb\xbfx")
    (path / "empty").write_bytes(b"")
    (path / "binary").write_bytes(b"PK\x03\x04\0")
    (path / "latin").write_bytes(b"caf\xe9")
    (path / "utf16").write_text("x", encoding="utf-16")
    (path / "utf16be").write_bytes(b"\xfe\xff\0x")
    (path / "pdf").write_bytes(b"%PDF-1.4\n\xe2\xe3\xcf\xd3\0")
    (path / "full").write_bytes(b"x" * MAX_FILE_BYTES)
    (path / "large").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    (path / "out").symlink_to(tmp_path / "secret")
    (path / "in").symlink_to("a.txt")
    (path / "up").symlink_to("..")
    (path / "self").symlink_to(".")
    (path / "loop").symlink_to("loop")
    os.mkfifo(path / "fifo")
    monkeypatch.chdir(path)
    return path


def read(**args: str) -> ToolResult:
    return ReadFileTool().run(args)


# Permissions and the registry


@pytest.mark.invariant
def test_there_are_exactly_four_permissions():
    names = {permission.value for permission in Permission}
    assert names == {"filesystem-read", "filesystem-write", "shell", "network"}
    assert {parse_permission(name) for name in names} == set(Permission)


@pytest.mark.parametrize("text", ["", "FILESYSTEM_READ", "Shell", "all", " shell", "x\n\x1b"])
def test_an_unknown_permission_is_an_error_that_names_the_four(text):
    with pytest.raises(UsageError) as caught:
        parse_permission(text)
    assert str(caught.value) == (
        f"There is no permission {text!r} to grant: use one of filesystem-read, filesystem-write, "
        f"shell, network."
    )


def test_a_tool_is_found_by_its_name():
    assert [find_tool(name).name for name in TOOL_REGISTRY] == ["echo", "read-file"]
    assert all(isinstance(tool, Tool) and tool.description for tool in TOOL_REGISTRY.values())


def test_an_unknown_tool_is_an_error_that_names_those_there_are():
    with pytest.raises(UnknownToolError) as caught:
        find_tool("x\x1b")
    assert str(caught.value) == r"There is no tool 'x\x1b'; there are: echo, read-file."
    assert caught.value.tool_name == "x\x1b"


# echo


@pytest.mark.parametrize(
    ("args", "output"),
    [
        ({}, "(no arguments)"),
        ({"b": "2", "a": "1"}, "a=1\nb=2"),
        ({"msg": "two\nlines = 2", "": "x"}, "=x\nmsg=two\nlines = 2"),
    ],
)
def test_echo_gives_its_arguments_back_sorted(args, output):
    result = EchoTool().run(args)
    assert (result.tool_name, result.output, result.status) == ("echo", output, "ok")


def test_echo_needs_nothing_and_takes_the_whole_prompt():
    assert EchoTool().required_permissions == frozenset()
    assert EchoTool().required_args == ()
    assert EchoTool().extract_args("echo  this\n") == {"msg": "echo  this\n"}


# read-file


@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({"path": "a.txt"}, "a\r\nä\n"),
        ({"path": "./sub//b.txt"}, "b"),
        ({"path": "sub/../a.txt"}, "a\r\nä\n"),
        ({"path": "../here/sub/b.txt"}, "b"),
        ({"path": "{here}/a.txt"}, "a\r\nä\n"),
        ({"path": "{alias}/sub/b.txt"}, "b"),
        ({"path": "bom.txt"}, "x"),
        ({"path": "empty"}, ""),
        ({"path": "full"}, "x" * MAX_FILE_BYTES),
        ({"path": "secret", "root": ".."}, "secret"),
        ({"path": "../secret", "root": ".."}, "secret"),
        ({"path": "{here}/../secret", "root": "{here}/.."}, "secret"),
        ({"path": "a.txt", "root": ".."}, "a\r\nä\n"),
        ({"path": "here/a.txt", "root": ".."}, "a\r\nä\n"),
        ({"path": "b.txt", "root": "sub"}, "b"),
        ({"path": "sub/b.txt", "root": "sub"}, "b"),
        ({"path": "sub/b.txt", "root": "{alias}"}, "b"),
        ({"path": "note.txt", "root": "~"}, "at home"),
        ({"path": "~/note.txt", "root": "~"}, "at home"),
        ({"path": "/dev/../{here}/a.txt", "root": "/"}, "a\r\nä\n"),
    ],
)
def test_a_text_file_below_the_folder_is_read(folder, args, text):
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    result = read(**{key: value.format(here=folder, alias=alias) for key, value in args.items()})
    assert (result.tool_name, result.output, result.status) == ("read-file", text, "ok")
    assert Path(result.metadata["path"]).read_bytes().endswith(text.encode())


OUT = "leads out of the current folder: name the folder to read in with `args['root']`."
LINK = (
    "leads through a symbolic link: name the file that it leads to, with `args['root']` if "
    "that is elsewhere."
)
OTHER = "name another text file, of at most 1 MiB."


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({}, "read-file needs `args['path']`."),
        ({"path": " "}, "read-file needs `args['path']`."),
        ({"root": "."}, "read-file needs `args['path']`."),
        ({"path": "a.txt", "x\n": "1"}, r"read-file has no argument 'x\n': it takes path, root."),
        ({"path": "missing"}, "There is no file 'missing' in the current folder: check the path."),
        ({"path": "no/a"}, "There is no file 'no/a' in the current folder: check the path."),
        ({"path": "../secret"}, f"'../secret' {OUT}"),
        ({"path": ".."}, f"'..' {OUT}"),
        ({"path": "sub/../../secret"}, f"'sub/../../secret' {OUT}"),
        ({"path": "/etc/passwd"}, f"'/etc/passwd' {OUT}"),
        ({"path": "/dev/zero"}, f"'/dev/zero' {OUT}"),
        ({"path": "~/note.txt"}, f"'~/note.txt' {OUT}"),
        ({"path": "~"}, f"'~' {OUT}"),
        ({"path": "."}, "'.' is a folder: name a text file in it."),
        ({"path": "out"}, f"'out' {LINK}"),
        ({"path": "in"}, f"'in' {LINK}"),
        ({"path": "up/secret"}, f"'up/secret' {LINK}"),
        ({"path": "self/a.txt"}, f"'self/a.txt' {LINK}"),
        ({"path": "sub"}, f"sub can't be read: it is not a regular file; {OTHER}"),
        ({"path": "fifo"}, f"fifo can't be read: it is not a regular file; {OTHER}"),
        ({"path": "large"}, f"large can't be read: it is larger than 1,048,576 bytes; {OTHER}"),
        ({"path": "a.txt/b"}, f"a.txt/b can't be read: not a directory; {OTHER}"),
        ({"path": "binary"}, "'binary' is not text: it has a NUL at byte 4; name a text file."),
        ({"path": "latin"}, "'latin' is not UTF-8 at byte 3: convert it to UTF-8 first."),
        ({"path": "utf16"}, "'utf16' is not UTF-8 at byte 0: convert it to UTF-8 first."),
        ({"path": "utf16be"}, "'utf16be' is not UTF-8 at byte 0: convert it to UTF-8 first."),
        ({"path": "pdf"}, "'pdf' is a PDF: turn it into text first, for example with pdftotext."),
        ({"path": "a\0b"}, r"'a\x00b' can't be read: no file can have that name."),
        ({"path": "\ud800"}, rf"'\ud800' can't be read: no file can have that name; {OTHER}"),
        ({"path": "a.txt", "root": ""}, "There is no folder '' for root=DIR: check it."),
        ({"path": "a.txt", "root": "no\0"}, r"There is no folder 'no\x00' for root=DIR: check it."),
        ({"path": "a.txt", "root": "a.txt"}, "There is no folder 'a.txt' for root=DIR: check it."),
        (
            {"path": "a.txt", "root": "loop"},
            "The folder 'loop' can't be read: too many levels of symbolic links.",
        ),
        ({"path": "x", "root": "sub"}, "There is no file 'x' in the folder 'sub': check the path."),
        (
            {"path": "zero", "root": "/dev"},
            f"/dev/zero can't be read: it is not a regular file; {OTHER}",
        ),
        (
            {"path": "/etc/passwd", "root": "sub"},
            "'/etc/passwd' leads out of the folder 'sub': name the folder to read in with "
            "`args['root']`.",
        ),
    ],
)
def test_what_can_not_be_read_is_one_sentence_and_never_a_wait(folder, args, sentence):
    result = read(**args)
    assert (result.output, result.status) == (sentence, "error")


def test_a_full_path_that_comes_back_through_a_link_is_still_refused(folder):
    assert read(path=f"{folder}/self/a.txt").output == f"'{folder}/self/a.txt' {LINK}"


def test_a_path_of_any_length_is_refused_at_once(folder):
    started = time.process_time()
    result = read(path="/a" * 1_000_000)
    assert result.status == "error" and len(result.output) < 300
    assert time.process_time() - started < 5


def test_a_current_folder_that_is_gone_is_a_sentence(folder, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert read(path="a.txt").output.startswith("There is no file 'a.txt' in the current folder")
    assert read(path="../a.txt").output == f"'../a.txt' {OUT}"
    assert read(path="a.txt", root=str(folder)).status == "ok"


@pytest.mark.invariant
@given(
    st.text(alphabet="./~secrtoup\\\0")
    | st.lists(st.sampled_from(["..", "here", "secret", "up", "self", "out", ".", "", "~"])).map(
        "/".join
    )
)
def test_no_path_whatever_reads_the_file_outside(tmp_path_factory, path):
    base = tmp_path_factory.getbasetemp() / "outside"
    here = base / "here"
    if not here.is_dir():
        here.mkdir(parents=True)
        (base / "secret").write_text("secret")
        (here / "out").symlink_to(base / "secret")
        (here / "up").symlink_to(base)
        (here / "self").symlink_to(here)
    before = os.getcwd()
    os.chdir(here)
    try:
        for candidate in (path, f"{here}/{path}", f"{base}/{path}"):
            result = read(path=candidate)
            assert result.output != "secret"
            assert result.status == "error" and "\n" not in result.output
    finally:
        os.chdir(before)


def test_a_tool_that_says_nothing_of_routes_is_never_routed_to_and_takes_nothing():
    class Plain(Tool):
        name, description, required_permissions = "plain", "Do nothing.", frozenset()

        def run(self, args):
            return ToolResult(self.name, "", "ok")

    assert (Plain().routing_hints(), Plain().extract_args("plain")) == ((), {})


def test_the_page_about_tools_is_true(folder):
    page = Path(__file__).parent.parent / "docs" / "tools.md"
    try:
        failed, tried = doctest.testfile(str(page), module_relative=False)
    finally:
        TOOL_REGISTRY.pop("count-words", None)
    assert (failed, tried > 3) == (0, True)
