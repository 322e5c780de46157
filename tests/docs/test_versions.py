"""The versions that there were: the changelog and the foundation list the same ones."""

from __future__ import annotations

import re
from pathlib import Path

from ore import __version__

ROOT = Path(__file__).parents[2]
VERSION = r"\d+\.\d+\.\d+"


def released() -> list[str]:
    """The versions of the changelog, the newest first."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    return re.findall(rf"^## ({VERSION})$", text, re.MULTILINE)


def test_the_foundation_lists_the_versions_of_the_changelog():
    text = (ROOT / "docs/foundation.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| ({VERSION}) \|", text, re.MULTILINE)
    assert rows == released()[::-1]


def test_the_changelog_begins_with_this_version():
    assert released()[0] == __version__


def test_a_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", text, re.MULTILINE) == [__version__]
