"""``docs/ore.1``, the manual page, made from the parser: what ``man ore`` shows.

Knows how such a page is written (roff), and nothing about what the flags do.
"""

from __future__ import annotations

import re

from ore import __version__
from ore.cli.flags import FLAGS, TOPICS, Flag
from ore.cli.help import CODES, EXAMPLES, SUMMARY
from tests.support.configuration import VARIABLES

NAME = "ore"
FILES = {
    "~/.ore/.env": "Variables that are set for every run; a real one wins.",
    "~/.ore/sessions/NAME.json": "A saved conversation.",
    "~/.ore/skills/NAME/SKILL.md": "A skill.",
    "~/.ore/personas/NAME.md": "A system prompt for --persona.",
    "~/.ore/tools/NAME/tool.toml": "A command as a tool, for --tool.",
    "~/.ore/models/": "The models of the embedded engine.",
    "~/.ore/sessions/NAME.meta.json": "What the session was begun with.",
    "~/.ore/sessions/NAME.typed": "What was typed into its REPL, without the answers.",
    "~/.ore/sessions/NAME.runs": "Which turns of a saved conversation are recorded.",
    "~/.ore/sessions/NAME.sizes": "How many tokens the longest of its prompts had.",
    "~/.ore/history": "The same for all other REPLs, with ORE_HISTORY=on.",
}
_HEADER = '.\\" Made from the parser: UPDATE_DOCS=1 python -m pytest tests/docs/test_manual.py\n'
_ESCAPES = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "`": "\\(ga", "~": "\\(ti", "^": "\\(ha"}


def page() -> str:
    """Return the whole page as roff source."""
    sections = [
        ("NAME", f"{NAME} \\- {roff(SUMMARY[0].lower() + SUMMARY[1:].partition(';')[0])}\n"),
        ("SYNOPSIS", f"{bold(NAME)} [{italic('prompt')}] [{italic('flags')}]\n"),
        ("DESCRIPTION", f"{roff(SUMMARY)}\nstdout carries the answer alone.\n"),
        ("OPTIONS", "".join(map(_topic, TOPICS))),
        ("EXIT STATUS", "".join(_item(bold(code), said) for code, said in _codes(CODES))),
        ("ENVIRONMENT", "".join(_item(bold(n), said) for n, said in VARIABLES.items())),
        ("FILES", "".join(_item(italic(path), said) for path, said in FILES.items())),
        ("EXAMPLES", _examples()),
    ]
    head = f'{_HEADER}.TH {NAME.upper()} 1 "" "{roff(f"{NAME} {__version__}")}" "User Commands"\n'
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


def _topic(topic: str) -> str:
    """The flags of a topic under its heading, in the order of ``--help``."""
    heading = f".SS {roff(topic.capitalize())}\n{roff(_sentence(TOPICS[topic]))}\n"
    return heading + "".join(_item(_written(flag), flag.said) for flag in FLAGS[topic])


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _written(flag: Flag) -> str:
    """A flag's spellings in bold, and the name of its value, or names, in italics."""
    return re.sub(
        "(-[-a-zA-Z]+)|([A-Z|=]+)",
        lambda found: bold(found[1]) if found[1] else italic(found[2]),
        flag.written,
    )


def _codes(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(\d+) ([^,]+)", " ".join(text.split()))


def _item(term: str, said: str) -> str:
    """A term and what is said of it, where `code` is bold."""
    parts = said.split("`")
    shown = "".join((bold if n % 2 else roff)(part) for n, part in enumerate(parts) if part)
    return f".TP\n{term}\n{shown}\n"


def _examples() -> str:
    daily = [flag for flags in FLAGS.values() for flag in flags if flag.daily]
    shown = "\n".join(roff(EXAMPLES[flag.long]) for flag in daily)
    return f".nf\n{shown}\n.fi\n"
