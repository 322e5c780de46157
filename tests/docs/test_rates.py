"""What is chosen from the rates that the documentation publishes."""

from __future__ import annotations

import re
from pathlib import Path

from ore.glass.judging import MOST_NATS
from tests.by_hand.judging import OWN, chosen

PAGE = Path(__file__).parents[2] / "docs" / "rates.md"


def cells(line: str) -> list[str]:
    return [cell.strip(" *") for cell in line.strip("|\n").split("|")]


def test_the_threshold_of_a_judgement_is_chosen_from_the_published_rates():
    section = PAGE.read_text(encoding="utf-8").partition("## Whether the model said it")[2]
    head, _, *rows = [line for line in section.splitlines() if line.startswith("|")]
    kinds = [re.fullmatch(r"(.+) \(([\d,]+)\)", cell) for cell in cells(head)[1:]]
    rates = {}
    for row in rows:
        threshold, *counts = map(float, cells(row))
        rejects = misses = 0
        for kind, count in zip(kinds, map(int, counts), strict=True):
            if kind[1].startswith(OWN):
                rejects += count
            else:
                misses += int(kind[2].replace(",", "")) - count
        rates[threshold] = (rejects, misses)
    assert len(rates) > 5 and max(misses for _, misses in rates.values()) > 0
    assert chosen(rates) == MOST_NATS
    assert f"| **{MOST_NATS:g}** |" in section


def test_false_rejects_count_before_misses_and_the_middle_is_taken():
    assert chosen({0: (1, 0), 0.2: (0, 3), 0.4: (0, 3), 0.6: (0, 3), 1: (0, 9)}) == 0.4
