"""``docs/cli.md`` has every flag with an example, and every rule on what goes together.

After a flag or a rule was changed: ``UPDATE_DOCS=1 python -m pytest tests/docs/test_docs_cli.py``.
"""

from __future__ import annotations

import re
import shlex
import textwrap

import pytest

from ore.cli.flags import FLAGS, TOPICS, Flag
from ore.cli.help import EXAMPLES
from ore.cli.options import Options
from ore.cli.parser import build_parser
from ore.cli.rules import (
    ARTIFACT_VERBS,
    BESIDE_ARTIFACT_VERBS,
    BESIDE_MODEL_VERBS,
    BESIDE_VERB,
    BESIDE_VERBS,
    CONFLICTS,
    VERBS,
)
from tests.support.generated import hold
from tests.support.pages import ROOT

WIDTH = 105
PAGE = ROOT / "docs/cli.md"
EVERY = [flag for flags in FLAGS.values() for flag in flags]


def flags() -> str:
    """Every flag under its topic: how it is written, what it does, and an example."""
    parts = []
    for topic, about in TOPICS.items():
        parts.append(f"### {topic.capitalize()}\n\n{about[0].upper()}{about[1:]}.\n")
        rows = [_row(flag) for flag in FLAGS[topic]]
        parts.append("\n".join(["| flag | what it does | example |", "|---|---|---|", *rows, ""]))
    return "\n".join(["", *parts])


def _row(flag: Flag) -> str:
    example = EXAMPLES[flag.long]
    cells = (f"`{flag.written}`", flag.said, f"`{example}`")
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def rules() -> str:
    """Which flags can't be used together, each pair once; and what a verb can be used with."""
    partners: dict[str, list[str]] = {}
    for first, second in CONFLICTS:
        partners.setdefault(first, []).append(second)
    rows = [f"| {_code(one)} | {_listed(others)} |" for one, others in partners.items()]
    own = {verb: _listed(each) for verb, each in BESIDE_VERB.items()}
    of_rows = own.pop("--rows")
    also = "; ".join(f"`{verb}` also with {each}" for verb, each in own.items())
    asks = "; ".join(f"`{verb}` with {_listed(each)}" for verb, each in BESIDE_MODEL_VERBS.items())
    verbs = (
        f"These do one thing and end: {_listed(VERBS)}. They go with {_listed(BESIDE_VERBS)} only; "
        f"{_listed(ARTIFACT_VERBS)} also with {_listed(BESIDE_ARTIFACT_VERBS)}, where `--last` stands "
        f"for a PATH; {also}; and those that ask a model: {asks}. "
        f"`--rows`, too, calls a model: it goes with {of_rows}."
    )
    head = ["| | not with |", "| --- | --- |"]
    return "\n".join([*head, *rows, "", textwrap.fill(verbs, WIDTH, break_on_hyphens=False), ""])


def _code(name: str) -> str:
    """A flag as code; what flags add up to, in words and without its explanation."""
    flag, _, words = name.partition(" ")
    return f"`{flag}` {words}".strip() if flag.startswith("--") else name.partition(" (")[0]


def _listed(names) -> str:
    return ", ".join(map(_code, names))


SECTIONS = {"flags": flags, "rules": rules}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_says_what_the_parser_does(section):
    hold(PAGE, section, SECTIONS[section]())


@pytest.mark.parametrize("flag", EVERY, ids=lambda flag: flag.long)
def test_every_flag_has_an_example_that_may_be_typed(flag):
    name = flag.long
    example = EXAMPLES[name]
    assert len(example) <= 75
    command, *words = shlex.split(re.split(r" [|>] ", example)[0])
    assert command == "ore"
    assert set(flag.written.replace(",", "").split()) & {word.partition("=")[0] for word in words}
    args = build_parser().parse_args(words)
    if args.text is None:
        Options.from_args(args)


def test_no_example_is_of_a_flag_that_is_not_there():
    assert set(EXAMPLES) == {flag.long for flag in EVERY}
