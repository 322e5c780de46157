"""``docs/cli.md`` has the whole of ``ore --help``, and every rule on what goes together.

After a flag or a rule was changed: ``UPDATE_DOCS=1 python -m pytest tests/docs/test_docs_cli.py``.
"""

from __future__ import annotations

import re
import textwrap

import pytest

from ore.cli.options import BESIDE_REPLAY, BESIDE_VERBS, CONFLICTS, VERBS
from ore.cli.parser import build_parser
from tests.support.generated import hold
from tests.support.pages import ROOT

WIDTH = 105
PAGE = ROOT / "docs/cli.md"


def help_text() -> str:
    """The whole help, as a block."""
    return f"```text\n{build_parser().format_help()}```\n"


def rules() -> str:
    """Which flags can't be used together, each pair once; and what a verb can be used with."""
    partners: dict[str, list[str]] = {}
    for first, second in CONFLICTS:
        partners.setdefault(first, []).append(second)
    rows = [f"| {_code(one)} | {_listed(others)} |" for one, others in partners.items()]
    verbs = (
        f"These do one thing and end: {_listed(VERBS)}. They go with {_listed(BESIDE_VERBS)} only; "
        f"`--replay`, which calls a model, also with {_listed(BESIDE_REPLAY)}."
    )
    head = ["| | not with |", "| --- | --- |"]
    return "\n".join([*head, *rows, "", textwrap.fill(verbs, WIDTH, break_on_hyphens=False), ""])


def _code(name: str) -> str:
    """A flag as code; what flags add up to, in words and without its explanation."""
    flag, _, words = name.partition(" ")
    return f"`{flag}` {words}".strip() if flag.startswith("--") else name.partition(" (")[0]


def _listed(names) -> str:
    return ", ".join(map(_code, names))


def any_python(text: str) -> str:
    """The text as no version of Python breaks its lines, nor writes a flag with two spellings."""
    text = re.sub(r"\s+", " ", text)
    return re.sub(r"(-\w) (\S+), (--[\w-]+) \2", r"\1, \3 \2", text)


SECTIONS = {"help": help_text, "rules": rules}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_says_what_the_parser_does(section, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    hold(PAGE, section, SECTIONS[section](), any_python)


def test_a_flag_of_two_spellings_is_read_alike_from_every_python():
    old = "  -f PATH, --file PATH  a text\n     file"
    new = "  -f, --file PATH  a text file"
    assert any_python(old) == any_python(new)
