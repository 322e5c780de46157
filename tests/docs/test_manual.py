"""``docs/ore.1`` is made from the flags, says all of it, and is shown cleanly by ``man``.

After a flag or the version changed: ``UPDATE_DOCS=1 python -m pytest tests/docs/test_manual.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import pytest

from ore.cli.flags import FLAGS
from ore.cli.help import EXAMPLES
from tests.support import manual
from tests.support.process import ROOT

PAGE = ROOT / "docs/ore.1"


def test_the_page_is_made_from_the_flags():
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(manual.page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == manual.page()


@pytest.mark.parametrize(
    "text, shown",
    [
        ("it's", r"it\(aqs"),
        ("--json", r"\-\-json"),
        (".env is read", r"\&.env is read"),
        ("a\\b `c` ~/^", r"a\eb \(gac\(ga \(ti/\(ha"),
    ],
)
def test_no_text_is_taken_for_an_instruction(text, shown):
    assert manual.roff(text) == shown


@pytest.fixture(scope="module")
def shown() -> str:
    """The page as a terminal shows it, and no warning about it."""
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    done = subprocess.run(
        ["groff", "-ww", "-man", "-Tascii", "-P-c", "-rLL=200n", "-rHY=0", str(PAGE)],
        capture_output=True,
        encoding="ascii",
        check=True,
    )
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)  # bold and underline are overstruck


def test_every_flag_stands_on_a_line_of_its_own_with_its_help(shown):
    text = " ".join(shown.split())
    for flag in (flag for flags in FLAGS.values() for flag in flags):
        assert " ".join(flag.said.split()) in text
        assert re.search(rf"^ +{re.escape(flag.written)}( |$)", shown, re.M), flag.written


def test_the_sections_are_those_of_a_manual_page(shown):
    assert re.findall(r"^[A-Z][A-Z ]+$", shown, re.M) == [
        "NAME",
        "SYNOPSIS",
        "DESCRIPTION",
        "OPTIONS",
        "EXIT STATUS",
        "ENVIRONMENT",
        "FILES",
        "EXAMPLES",
    ]


def test_the_examples_are_shown_as_they_are_typed(shown):
    for flag in (flag for flags in FLAGS.values() for flag in flags if flag.daily):
        assert EXAMPLES[flag.long] in shown


@pytest.mark.parametrize("code", [0, 1, 2, 3, 129, 130, 141, 143])
def test_every_exit_code_is_on_the_page(shown, code):
    status = shown.partition("EXIT STATUS")[2].partition("ENVIRONMENT")[0]
    assert re.search(rf"^ +{code} +\w", status, re.M)
