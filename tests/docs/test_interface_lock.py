"""``docs/interface-lock.md`` says what the code does, word for word.

A section that no longer fits is a change of the public interface: make it on purpose, say it in the
changelog, and write the page anew with ``UPDATE_DOCS=1 python -m pytest tests/docs/test_interface_lock.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import interface
from tests.support.generated import hold

PAGE = Path(__file__).parents[2] / "docs/interface-lock.md"
SECTIONS = {
    "flags": interface.flags,
    "exclusions": interface.exclusions,
    "exit codes": interface.exit_codes,
    "public names": interface.names,
    "signatures": interface.signatures,
    "dataclasses": interface.fields,
    "named tuples": interface.named_tuples,
    "permissions": interface.permissions,
}


@pytest.mark.invariant
@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_says_what_the_code_does(section, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    hold(PAGE, section, f"{SECTIONS[section]()}\n")


@pytest.mark.invariant
def test_the_page_says_what_is_written(home):
    hold(PAGE, "documents", f"{interface.documents(home)}\n")


def test_every_section_of_the_page_is_checked():
    named = re.findall(r"<!-- begin (.*?) -->", PAGE.read_text(encoding="utf-8"))
    assert sorted(named) == sorted([*SECTIONS, "documents"])
