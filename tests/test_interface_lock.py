"""``docs/interface-lock.md`` says what the code does, word for word.

A section that no longer fits is a change of the public interface: make it on purpose, say it in the
changelog, and write the page anew with ``UPDATE_DOCS=1 python -m pytest tests/test_interface_lock.py``.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests import interface

PAGE = Path(__file__).parent.parent / "docs/interface-lock.md"
SECTIONS = {
    "flags": interface.flags,
    "exclusions": interface.exclusions,
    "exit codes": interface.exit_codes,
    "public names": interface.names,
    "signatures": interface.signatures,
    "dataclasses": interface.fields,
    "permissions": interface.permissions,
}


def check(section: str, text: str) -> None:
    """Compare a section of the page with what it should say, or write it anew."""
    page = PAGE.read_text(encoding="utf-8")
    pattern = re.compile(rf"(<!-- begin {section} -->)\n(.*?)(<!-- end {section} -->)", re.DOTALL)
    found = pattern.search(page)
    assert found, f"{PAGE.name} has no section '{section}'"
    fresh = f"{page[: found.end(1)]}\n{text}\n{page[found.start(3) :]}"
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(fresh, encoding="utf-8")
    else:
        assert fresh == page, f"{PAGE.name} no longer fits the code; see this file's head"


@pytest.mark.invariant
@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_says_what_the_code_does(section, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    check(section, SECTIONS[section]())


@pytest.mark.invariant
def test_the_page_says_what_is_written(home):
    check("documents", interface.documents(home))


def test_every_section_of_the_page_is_checked():
    named = re.findall(r"<!-- begin (.*?) -->", PAGE.read_text(encoding="utf-8"))
    assert sorted(named) == sorted([*SECTIONS, "documents"])
