"""What a session may be called, as a table of what is allowed and what is not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.errors import SessionNameError
from ore.store.names import MOST_CHARACTERS, MOST_NAME_BYTES, check_name, salvaged_name
from tests.support.house import ROOT

LEGAL = [
    "a",
    "7",
    "notes",
    "Notes-2026_11.v2",
    "a..b",
    "x" * 100,
    "naïve",
    "Ελληνικά",
    "日本語",
    "हिन्दी",
    "עברית",
    "٣",
    "foo.lock",
    "foo.json",
    "console",
    "com",
    "com10",
    "lpt",
    "nul-2",
    "字" * 83,
]

ILLEGAL = [
    ("", "it is empty"),
    (".", "it does not start with a letter or a digit"),
    ("..", "it does not start with a letter or a digit"),
    (".hidden", "it does not start with a letter or a digit"),
    ("-rf", "it does not start with a letter or a digit"),
    ("_x", "it does not start with a letter or a digit"),
    ("\u0301x", "it does not start with a letter or a digit"),
    ("a.", "it ends with a dot"),
    ("a/b", "it holds '/'"),
    ("../a", "it holds '/'"),
    ("a\\b", "it holds '\\\\'"),
    ("C:x", "it holds ':'"),
    ("a b", "it holds ' '"),
    (" a", "it holds ' '"),
    ("a\0b", "it holds '\\x00'"),
    ("a\nb", "it holds '\\n'"),
    ("a\x1b[2J", "it holds '\\x1b'"),
    ("a\u202eb", "it holds '\\u202e'"),
    ("a\u200db", "it holds '\\u200d'"),
    ("a\ufe0f", "it holds '\ufe0f'"),
    ("\u3164", "it holds '\u3164'"),
    ("a\ud800", "it holds '\\ud800'"),
    ("a😀", "it holds '😀'"),
    ("a*", "it holds '*'"),
    ("a~", "it holds '~'"),
    ("x²", "it holds '²'"),
    ("x" * 101, "it is longer than 100 characters"),
    ("x" * 10_000_000, "it is longer than 100 characters"),
    ("字" * 84, "it is longer than 249 bytes, which is too long for a file's name"),
    ("CON", "Windows keeps it for a device"),
    ("nul", "Windows keeps it for a device"),
    ("Aux.notes", "Windows keeps it for a device"),
    ("com1", "Windows keeps it for a device"),
    ("LPT9.x", "Windows keeps it for a device"),
]


@pytest.mark.parametrize("name", LEGAL)
def test_a_legal_name_is_returned_as_it_is(name):
    assert check_name(name) == name


@pytest.mark.parametrize("name, problem", ILLEGAL, ids=[repr(name[:12]) for name, _ in ILLEGAL])
def test_an_illegal_name_is_refused_with_the_rule_that_it_breaks(name, problem):
    with pytest.raises(SessionNameError) as caught:
        check_name(name)
    assert f"can't be a session's name: {problem}." in str(caught.value)
    assert len(str(caught.value)) < 250
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", [None, 7, b"a"])
def test_a_name_that_is_not_text_is_refused(name):
    with pytest.raises(SessionNameError, match="is text, not"):
        check_name(name)


def test_two_spellings_of_an_accent_are_one_name():
    assert check_name("cafe\u0301") == check_name("caf\u00e9") == "caf\u00e9"


@settings(deadline=None)
@given(st.text(max_size=110))
def test_every_name_that_is_accepted_fits_every_file_that_is_made_of_it(name):
    try:
        checked = check_name(name)
    except SessionNameError:
        return
    assert check_name(checked) == checked
    assert 1 <= len(checked) <= MOST_CHARACTERS and checked[0].isalnum()
    for file in (f"{checked}.json", f".{checked}.lock", f".{checked}.tmp"):
        assert len(os.fsencode(file)) <= 255
        assert os.path.basename(file) == file and file.isprintable()


@pytest.mark.parametrize("number, expected", [(1, "a.salvaged"), (2, "a.salvaged-2")])
def test_the_first_salvaged_name_has_no_number(number, expected):
    assert salvaged_name("a", number) == expected


@pytest.mark.parametrize("name", ["x" * 100, "字" * 83, "é" * 100])
@pytest.mark.parametrize("number", [1, 2, 12345])
def test_a_salvaged_name_of_a_long_one_is_cut_to_a_legal_one(name, number):
    salvaged = salvaged_name(name, number)
    assert check_name(salvaged) == salvaged
    assert name.startswith(salvaged.partition(".")[0])
    assert len(salvaged) > 90 or len(salvaged.encode()) > MOST_NAME_BYTES - 3


@pytest.mark.slow
def test_a_name_that_the_locale_has_no_letters_for_is_refused():
    """The command line begins anew in UTF-8; a program is as it was begun."""
    program = (
        "from ore.store import check_name\nprint(check_name('trip'))\ncheck_name('gr\\xf6\\xdfe')"
    )
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    argv, env = [sys.executable, "-c", program], {**os.environ, **plain}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.stdout == "trip\n" and done.returncode == 1
    assert "SessionNameError" in done.stderr and "PYTHONUTF8=1" in done.stderr
