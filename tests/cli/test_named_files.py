"""``-f``: a file's text is context, and naming it is all the permission that it needs."""

from __future__ import annotations

import os

import pytest

from ore.cli.context import ContextSource
from ore.cli.options import Options
from ore.tools import named_files
from ore.tools.named_files import LARGEST_FILE
from tests.support.runs import record, rewrite, sha256


@pytest.fixture
def notes(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("\ufeffRemember\nthe milk.\n", encoding="utf-8")
    return path


def test_each_file_is_one_message_in_the_order_given_before_the_tool(ore, notes, tmp_path):
    plan = tmp_path / "plan"
    plan.write_text("")
    args = ("-f", str(notes), "--file", str(plan), "--tool", "echo", "--tool-arg", "a=b")
    result = ore("What is left?", *args)
    assert [(m.role, m.content) for m in result.calls[0][1:]] == [
        ("user", f"[Tool:file:{notes}]\nRemember\nthe milk.\n"),
        ("user", f"[Tool:file:{plan}]\n"),
        ("user", "[Tool:echo]\na=b"),
        ("user", "What is left?"),
    ]


@pytest.mark.parametrize("more, tools", [([], None), (["--tool", "echo"], ["echo"])])
def test_an_artifact_records_the_file_by_its_hash_and_not_as_a_tool(notes, tmp_path, more, tools):
    document = record(tmp_path / "run.json", "Hi", "-f", str(notes), *more)
    content = f"[Tool:file:{notes}]\nRemember\nthe milk.\n"
    assert document["input"]["tools"] == tools
    assert [each["name"] for each in document["provenance"]["tools"]] == (tools or [])
    of_file = {"source": f"file:{notes}", "sha256": sha256(content)}
    assert of_file in document["provenance"]["sources"]


def test_an_artifact_that_names_its_files_as_tools_is_still_read(ore, notes, tmp_path):
    def as_before(document):
        document["input"]["tools"] = [f"file:{notes}"]

    record(tmp_path / "new.json", "Hi", "-f", str(notes))
    record(tmp_path / "old.json", "Hi", "-f", str(notes), "--artifact-full")
    rewrite(tmp_path / "old.json", as_before)
    names = [str(tmp_path / name) for name in ("old.json", "new.json")]
    assert "tools" not in ore("--diff", *names).err and ore("--diff", *names).code == 0
    assert ore("--replay", names[0]).code == 0
    assert ore("--artifact-in", names[0]).code == 0


def test_a_run_with_a_file_is_repeated_only_where_its_text_is(ore, notes, tmp_path):
    path = str(tmp_path / "run.json")
    record(tmp_path / "run.json", "Hi", "-f", str(notes))
    again = ore("--replay", path)
    assert (again.code, again.calls) == (3, [])
    assert "the text of its files is not in it: record such runs with --artifact-full" in again.out
    record(tmp_path / "run.json", "Hi", "-f", str(notes), "--artifact-full")
    assert ore("--replay", path).code == 0


def test_a_single_turn_reads_a_file_once_and_is_given_what_was_checked(notes):
    source = ContextSource(Options(prompt="Hi", file=(str(notes),)), lambda _: None)
    notes.unlink()
    for _ in range(2):
        assert [result.output for result in source.gather("Hi").tool_results] == [
            "Remember\nthe milk.\n"
        ]


def test_a_repl_reads_the_file_again_each_turn_and_keeps_it_out_of_the_conversation(ore, notes):
    def change(messages):
        notes.write_text("Changed.")
        return "1"

    result = ore("-c", "-f", str(notes), stdin="one\ntwo\n", replies=[change, "2"])
    assert [m.content for m in result.calls[1][1:]] == [
        f"[Tool:file:{notes}]\nChanged.",
        "one",
        "1",
        "two",
    ]


def test_a_file_that_has_gone_fails_the_turn_and_not_the_repl(ore, notes):
    def remove(messages):
        notes.unlink()
        return "1"

    result = ore("-i", "-f", str(notes), stdin="one\ntwo\n", replies=[remove])
    assert (result.code, result.prompts) == (1, ["one"])
    assert f"ore: {notes} can't be read: " in result.err


def test_a_link_is_followed_because_the_user_named_it(ore, notes, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(notes)
    assert "the milk" in ore("Hi", "-f", str(link)).calls[0][1].content


@pytest.mark.parametrize(
    "kind, why",
    [
        ("missing", "no such file"),
        ("folder", "no text file to read"),
        ("fifo", "not a regular file"),
        ("large", "larger than 1,048,576 bytes"),
        ("bytes", "not UTF-8 at byte 1"),
        ("binary", "a NUL at byte 1"),
    ],
)
def test_what_is_not_a_text_file_stops_the_turn_before_anything_is_opened(ore, tmp_path, kind, why):
    path = tmp_path / "it"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.write_bytes(
            {"large": b"x" * (LARGEST_FILE + 1), "bytes": b"a\xff", "binary": b"a\0b"}[kind]
        )

    def no_backend(*_):
        raise AssertionError("a backend was opened")

    for args in (["Hi"], ["-i"]):
        result = ore(*args, "-f", str(path), stdin="", open_backend=no_backend)
        assert (result.code, result.calls, result.out) == (1, [], "")
        assert why.lower() in result.err.lower()
        assert len(result.err.splitlines()) == 1


@pytest.fixture
def folder(tmp_path):
    """A folder with four texts, and one of everything that is left out."""
    root = tmp_path / "docs"
    (root / "b").mkdir(parents=True)
    (root / ".git").mkdir()
    for name in ("c.md", "a.txt", "b/z.txt", "b/a.txt", ".secret", ".git/config"):
        (root / name).write_text(f"text of {name}")
    (root / "d.bin").write_bytes(b"a\0b")
    (root / "e.txt").write_bytes(b"a\xff")
    (root / "f.log").write_bytes(b"x" * (LARGEST_FILE + 1))
    (root / "g").write_bytes(b"\n")
    (root / "h").symlink_to(root / "a.txt")
    (root / "i").symlink_to(tmp_path)
    os.mkfifo(root / "j")
    return root


def test_a_folder_is_its_text_files_in_order_of_name_and_says_what_it_left_out(ore, folder):
    result = ore("Hi", "-f", str(folder))
    names = ("a.txt", "b/a.txt", "b/z.txt", "c.md")
    assert [message.content for message in result.calls[0][1:-1]] == [
        f"[Tool:file:{folder}/{name}]\ntext of {name}" for name in names
    ]
    assert result.err == (
        f"The folder {folder}: 4 files are read; left out: empty (g); hidden (.git, .secret); link (h, i); "
        f"not UTF-8 text (d.bin, e.txt); not a file (j); too large (f.log).\n"
    )
    assert ore("Hi", "-f", str(folder), "-q").err == ""
    assert ore("Hi", "-f", f"{folder}/").err == result.err


def test_a_file_whose_name_is_not_utf_8_is_sent_under_a_name_that_can_be_sent(ore, tmp_path):
    root = tmp_path / "docs"
    root.mkdir()
    (root / "a.txt").write_text("one")
    (root / os.fsdecode(b"\xfc.txt")).write_text("two")
    result = ore("Hi", "-f", str(root))
    assert (result.code, result.err) == (0, f"The folder {root}: 2 files are read.\n")
    assert [message.content for message in result.calls[0][1:-1]] == [
        f"[Tool:file:{root}/a.txt]\none",
        f"[Tool:file:{root}/\\udcfc.txt]\ntwo",
    ]


def test_a_repl_says_once_what_a_folder_has_and_again_where_that_changed(ore, folder):
    def add(messages):
        (folder / "k.txt").write_text("more")
        return "1"

    result = ore("-i", "-f", str(folder), stdin="one\ntwo\nthree\n", replies=["0", add, "2"])
    assert [line.partition("; ")[0] for line in result.err.splitlines() if "read;" in line] == [
        f"The folder {folder}: 4 files are read",
        f"The folder {folder}: 5 files are read",
    ]
    assert [len(call) for call in result.calls] == [6, 6, 7]


@pytest.mark.parametrize("name", ["You", "[AYA]", "ore"])
def test_the_name_of_a_folder_is_no_label_of_a_line(ore, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).mkdir()
    (tmp_path / name / "a.txt").write_text("a")
    assert ore("Hi", "-f", name).err == f"The folder {name}: 1 file is read.\n"


def test_many_names_that_are_left_out_are_counted(ore, tmp_path):
    for number in range(2000):
        (tmp_path / f"{number:04}.bin").write_bytes(b"\0")
    (tmp_path / "a.txt").write_text("a")
    said = ore("Hi", "-f", str(tmp_path)).err
    assert said.count(".bin") == 3 and " and 1,997 more)" in said and "1 file is read" in said


@pytest.mark.parametrize(
    "limit, value", [("MOST_FILES", 3), ("MOST_CHARACTERS", 30), ("_MOST_LOOKED_AT", 5)]
)
def test_a_folder_with_too_much_in_it_stops_the_turn(ore, folder, monkeypatch, limit, value):
    monkeypatch.setattr(named_files, limit, value)
    result = ore("Hi", "-f", str(folder))
    assert (result.code, result.calls) == (1, [])
    assert " has more " in result.err and result.err.count("\n") == 1


@pytest.mark.slow
def test_a_run_file_that_names_one_file_often_stops_the_turn(ore, tmp_path):
    (tmp_path / "big.txt").write_text("word " * 200_000)
    (tmp_path / "run.md").write_text(f"---\nfiles: [{'big.txt,' * 70}]\n---\nHi\n")
    result = ore("--run", str(tmp_path / "run.md"))
    assert (result.code, result.calls) == (1, [])
    assert "have more than 64 Mi characters together: name fewer." in result.err


def test_a_folder_that_is_named_often_stops_the_turn(ore, tmp_path, monkeypatch):
    monkeypatch.setattr(named_files, "_MOST_LOOKED_AT", 5)
    (tmp_path / "a.txt").write_text("a")
    assert ore("Hi", *["-f", str(tmp_path)] * 5).code == 0
    result = ore("Hi", *["-f", str(tmp_path)] * 6)
    assert (result.code, result.calls) == (1, [])
    assert "are more than 5, or" in result.err


@pytest.mark.parametrize("hidden", [True, False])
def test_of_very_many_folders_no_line_each_is_written(ore, tmp_path, monkeypatch, hidden):
    (tmp_path / "a").mkdir()
    if hidden:
        (tmp_path / "a" / ".b").touch()
    (tmp_path / "a" / "a.txt").write_text("a")
    monkeypatch.chdir(tmp_path)
    spelled = ["./" * number + "a" for number in range(150)]
    (tmp_path / "run.md").write_text(f"---\nfiles: {spelled}\n---\nHi\n")
    result = ore("--run", "run.md")
    assert (result.code, len(result.calls[0])) == (0, 152)
    assert result.err.count("1 file is read") == 100
    more = "What was left out of further folders is not listed: 50.\n"
    assert result.err.endswith(more) is hidden  # of those that are read whole nothing is to be said


def test_what_is_looked_at_in_folders_is_bounded_for_all_of_them_together(
    ore, tmp_path, monkeypatch
):
    monkeypatch.setattr(named_files, "_MOST_IN_ALL", 24)  # a folder is one of them, too
    folder = tmp_path / "folder"
    for name in ("a.txt", ".b", "c/d", "c/e"):
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text("a" if name == "a.txt" else "")
    assert ore("Hi", *["-f", str(folder)] * 4).code == 0
    result = ore("Hi", *["-f", str(folder)] * 5)
    assert (result.code, result.calls) == (1, [])
    assert "have more than 24 files together" in result.err and "GiB that is not text" in result.err


@pytest.mark.parametrize("data", [b"\xff" * 40, b" " * 40])
def test_bytes_of_what_is_no_text_are_bounded_for_all_folders_together(
    ore, tmp_path, monkeypatch, data
):
    monkeypatch.setattr(named_files, "_MOST_IN_VAIN", 99)
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b").write_bytes(data)
    assert ore("Hi", *["-f", str(tmp_path)] * 2).code == 0
    result = ore("Hi", *["-f", str(tmp_path)] * 3)
    assert (result.code, result.calls) == (1, [])
    assert result.err.endswith("that is not text: name files, or fewer folders.\n")


def test_a_folder_without_a_text_stops_the_turn_and_says_what_is_in_it(ore, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\0")
    result = ore("Hi", "-f", str(tmp_path))
    assert (result.code, result.calls) == (1, [])
    assert result.err.endswith("has no text file to read: not UTF-8 text (a.png). Name another.\n")


@pytest.mark.parametrize("address", ["https://example.com/a.txt", "http://[", "file:///etc/hosts"])
def test_an_address_is_refused_with_the_reason(ore, address):
    result = ore("Hi", "-f", address)
    assert (result.code, result.calls) == (2, [])
    assert "the network has no part in a turn" in result.err and address in result.err


def test_a_file_and_an_artifact_to_run_do_not_go_together(ore, notes):
    result = ore("-f", str(notes), "--artifact-in", "x.json")
    assert result.code == 2 and "--artifact-in can't be used with --file" in result.err
