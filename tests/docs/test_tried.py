"""``docs/security.md`` has the sums of the attacks that ``docs/tried.md`` lists.

After a row was added: ``UPDATE_DOCS=1 python -m pytest tests/docs/test_tried.py``.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.generated import hold

DOCS = Path(__file__).parents[2] / "docs"
NUMBER = re.compile(r"(?<![\w.])([0-9][0-9,]*(?:\.[0-9]+)?)( million)?")


def cases(cell: str) -> int:
    """How many cases a cell gives: all its numbers together."""
    found = ((float(n.replace(",", "")), million) for n, million in NUMBER.findall(cell))
    return round(sum(number * (1_000_000 if million else 1) for number, million in found))


def summed() -> str:
    """A table of the attacks: a row an area, with its cases and how many rows have a find."""
    attacks = (DOCS / "tried.md").read_text(encoding="utf-8").partition("\n## Attacks\n")[2]
    lines = ["| what was attacked | kinds of attack | cases | kinds that found something |"]
    lines += ["|---|---|---|---|"]
    for section in attacks.split("\n### ")[1:]:
        title, _, table = section.partition("\n")
        rows = [line.strip("|").split(" | ") for line in table.splitlines() if line[:1] == "|"][2:]
        assert all(len(row) == 3 for row in rows), title
        finds = sum(not row[2].strip().startswith("nothing") for row in rows)
        anchor = re.sub(r"[^\w]+", "-", title.lower())
        name = title.removesuffix(": attacks")
        total = sum(cases(row[1]) for row in rows)
        lines.append(f"| [{name}](tried.md#{anchor}) | {len(rows)} | {total:,} | {finds} |")
    return "\n".join(lines) + "\n"


def test_the_page_on_security_has_the_counts_of_what_was_tried():
    hold(DOCS / "security.md", "attacks", summed())


def test_the_numbers_of_a_cell_are_added():
    assert (
        cases("22, 30 and 29") == 81
        and cases("the 13.6 million rows that tmux shows") == 13_600_000
    )
    assert cases("16 kinds, and 2,000 random heads") == 2_016 and cases("") == 0
