"""``docs/ore.1``, the manual page, made from the parser: what ``man ore`` shows.

Knows how such a page is written (roff), and nothing about what the flags do.
"""

from __future__ import annotations

import argparse
import re

from ore import __version__
from ore.cli.parser import build_parser
from tests.support.configuration import VARIABLES

FILES = {
    "~/.ore/.env": "Variables that are set for every run; a real one wins.",
    "~/.ore/sessions/NAME.json": "A saved conversation.",
    "~/.ore/skills/NAME/SKILL.md": "A skill.",
    "~/.ore/personas/NAME.md": "A system prompt for --persona.",
    "~/.ore/models/": "The models of the embedded engine.",
    "~/.ore/history": "What was typed on a terminal, without the answers.",
}
_HEADER = '.\\" Made from the parser: UPDATE_DOCS=1 python -m pytest tests/docs/test_manual.py\n'
_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"}


def page() -> str:
    """Return the whole page as roff source."""
    parser = build_parser()
    name = parser.prog
    text, _, codes = parser.epilog.partition("exit codes: ")
    sections = [
        ("NAME", f"{roff(name)} \\- {roff(_summary(parser))}\n"),
        ("SYNOPSIS", f"{bold(name)} [{italic('prompt')}] [{italic('flags')}]\n"),
        ("DESCRIPTION", f"{roff(parser.description)}\n{_positionals(parser)}"),
        ("OPTIONS", "".join(_groups(parser))),
        ("EXIT STATUS", "".join(_item(bold(code), said) for code, said in _codes(codes))),
        ("ENVIRONMENT", "".join(_item(bold(n), said) for n, said in VARIABLES.items())),
        ("FILES", "".join(_item(italic(path), said) for path, said in FILES.items())),
        ("EXAMPLES", _examples(text)),
    ]
    head = f'{_HEADER}.TH {roff(name.upper())} 1 "" "{roff(f"{name} {__version__}")}" "User Commands"\n'
    return head + "".join(f".SH {title}\n{body}" for title, body in sections)


def roff(text: str) -> str:
    """Return a line that roff shows as it is: quotes, hyphens, backslashes and a dot in front too."""
    text = re.sub(r"[\\'`~^-]", lambda found: _ESCAPES[found[0]], text)
    return "\\&" + text if text.startswith(".") else text


def bold(text: str) -> str:
    """Return what is written exactly so."""
    return f"\\fB{roff(text)}\\fR"


def italic(text: str) -> str:
    """Return what stands for something else."""
    return f"\\fI{roff(text)}\\fR"


def _summary(parser: argparse.ArgumentParser) -> str:
    first = parser.description.partition(". ")[0]
    return first[0].lower() + first[1:]


def _positionals(parser: argparse.ArgumentParser) -> str:
    return "".join(
        _item(italic(action.dest), action.help)
        for action in parser._actions
        if not action.option_strings
    )


def _groups(parser: argparse.ArgumentParser) -> list[str]:
    """Every group of flags under its heading, in the order of ``--help``."""
    return [
        f".SS {roff(group.title[0].upper() + group.title[1:])}\n"
        + "".join(_item(_written(action), action.help) for action in group._group_actions)
        for group in parser._action_groups
        if any(action.option_strings for action in group._group_actions)
    ]


def _written(action: argparse.Action) -> str:
    taken = _taken(action)
    return ", ".join(bold(flag) for flag in action.option_strings) + (f" {taken}" if taken else "")


def _taken(action: argparse.Action) -> str:
    """What stands after a flag: its value's name, the values that it has, or nothing."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return "|".join(bold(choice) for choice in action.choices)
    names = action.metavar if isinstance(action.metavar, tuple) else (action.metavar,)
    taken = " ".join(italic(name) for name in names)
    return {"?": f"[{taken}]", "+": f"{taken} ..."}.get(action.nargs, taken)


def _codes(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\d+) ([^,]+)", " ".join(text.split()))


def _item(term: str, said: str) -> str:
    """A term and what is said of it, where `code` is bold."""
    parts = said.split("`")
    shown = "".join((bold if n % 2 else roff)(part) for n, part in enumerate(parts) if part)
    return f".TP\n{term}\n{shown}\n"


def _examples(text: str) -> str:
    lines = text.partition("\n")[2].rstrip().splitlines()
    shown = "\n".join(roff(line.removeprefix("  ")) for line in lines)
    return f".nf\n{shown}\n.fi\n"
