"""The path that a prompt names: what counts as one, and which one is taken."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.tools import find_path


@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        ("read the file notes.txt", "notes.txt"),
        ("read the file notes.txt, then sum it up.", "notes.txt"),
        ("Show me the FILE: src/main.py!", "src/main.py"),
        ("please cat ~/notes", "~/notes"),
        ("open ~", "~"),
        ("open /etc/hosts?", "/etc/hosts"),
        ("open (./run.sh).", "./run.sh"),
        ("read ../up/a.txt", "../up/a.txt"),
        ("cat .bashrc", ".bashrc"),
        ("cat archive.tar.gz now", "archive.tar.gz"),
        ("cat song.mp3 or x.7z", "song.mp3"),
        ("the a.txt is old, read b.txt", "b.txt"),
        ("read file a.txt and b.txt", "a.txt"),
        ("читай: open файл.txt", "файл.txt"),
        ('read the file "my notes.txt" now', "my notes.txt"),
        ("summarise 'my notes.txt'", "my notes.txt"),
        ("read `src/a b.py`", "src/a b.py"),
        ("read “déjà vu.md”", "déjà vu.md"),
        ('say "hello world" and read the file a.txt', "a.txt"),
        ('read a.txt and "b.txt"', "b.txt"),
        ('read the file "Makefile"', "Makefile"),
        ("don't read the file a.txt, it's old", "a.txt"),
        ("don't cat docs/a.txt, the users' one", "docs/a.txt"),
        ("'tis in x/y or it's not: read a.txt", "a.txt"),
        ('OPEN "Makefile"', "Makefile"),
        ("read the users' files in docs/x.md", "docs/x.md"),
    ],
)
def test_a_named_path_is_found(prompt, path):
    assert find_path(prompt) == path


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "read the file",
        "a.txt",
        "notes.txt is what I want to read",
        "read about e.g. that, i.e. this",
        "read 3.14 pages of v1.2",
        "open https://example.com/a.txt",
        "open / or . or .. or ...",
        "show this and/or that",
        'he said "stop", so read',
        'he said "so it ends."',
        "read it. Then stop",
        "read README",
        'say "a/b\nc" twice',
        '"' + "a long/short citation " * 100 + '"',
    ],
)
def test_a_prompt_that_names_no_path_gives_none(prompt):
    assert find_path(prompt) is None


@given(st.text() | st.text(alphabet="\"'`“”‘’«» \nread.~/a"))
def test_what_is_found_stands_in_the_prompt_and_has_no_line_break(prompt):
    path = find_path(prompt)
    assert path is None or (path in prompt and path.strip() and "\n" not in path)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["“", "\"'", "'a", "read ", "a.", "/", "~", "read a/"])
def test_a_long_prompt_is_searched_quickly(unit):
    started = time.process_time()
    find_path(unit * (500_000 // len(unit)))
    assert time.process_time() - started < 5


@pytest.mark.slow
def test_a_path_is_looked_for_in_the_first_characters_of_a_very_long_prompt():
    before = "read " + "x " * (1 << 19)
    assert find_path(before[:-15] + " notes.txt") == "notes.txt"
    assert find_path(before + "notes.txt") is None
