"""What it costs to scan skills and route a prompt over them, by how many there are.

The yardstick is reading the same files and parsing their YAML with PyYAML's fastest safe loader.
Nothing is checked there and nothing built, so it is what no way of loading skills can beat.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Comparison, warmed
from benchmarks.place import Place, Topic
from ore.router import RuleRouter
from ore.skills import build_skill_registry, build_targets_from_skill_registry

NUMBERS = (10, 100, 1_000)
QUICK = 100
"""The most skills when few and small cases are enough."""
MOST = 3.0
FRONTMATTER = """\
name: merge-report-{number:04}
description: "Merges report number {number}: reads its tables, compares them with those of the
  report before, and says what changed. Use it when the user names the report or asks for a summary."
license: Apache-2.0
compatibility: Needs nothing but text
metadata:
  author: example
  version: '1.{number}'
allowed-tools: Bash(git:*) Read
hints:
  - report {number:04}
  - merge report {number:04}
"""
TEXT = """\
What `--route` does before the model is asked, in a process that has imported what it needs. It scans
every skill (6 kB each), checks it, and routes a prompt. Beside it, the same files are read, and their
YAML is parsed with PyYAML's fastest safe loader; nothing is checked, and nothing built. A turn without
`--route`, `--skill` or a list of skills does none of this."""


def measure(place: Place) -> list[Comparison]:
    """Measure every number of skills."""
    numbers = [number for number in NUMBERS if number <= QUICK or not place.is_quick]
    return [_scanned(place, number) for number in numbers]


def _scanned(place: Place, number: int) -> Comparison:
    root = place.folder / f"skills-{number}"
    files = make_skills(root, number)
    least = seconds(lambda: read_and_parse(files))
    cases = {
        "ore": seconds(lambda: scan_and_route(root, number)),
        "least": least,
        "least again": least,
    }
    found = warmed(cases, place.runs * (1 if number > QUICK else 4))
    theirs, again = found["least"], found["least again"]
    what = f"{number:,} skills"
    return Comparison(what, "ms", found["ore"], "read and parse", theirs, again, most=MOST)


def make_skills(root: Path, number: int) -> list[Path]:
    """Write skills, each with a body of some 6 kB, and return their files."""
    body = (
        "\n# How to merge\n\n" + "Read the first table, then the second, then compare them.\n" * 100
    )
    files = []
    for each in range(number):
        file = root / f"merge-report-{each:04}" / "SKILL.md"
        file.parent.mkdir(parents=True)
        frontmatter = FRONTMATTER.format(number=each)
        file.write_text(f"---\n{frontmatter}---\n{body}", encoding="utf-8")
        files.append(file)
    return files


def read_and_parse(files: list[Path]) -> None:
    """Do the least that anyone has to do."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in files:
        _, frontmatter, _ = file.read_text(encoding="utf-8").split("---\n", 2)
        yaml.load(frontmatter, Loader=loader)


def scan_and_route(root: Path, number: int) -> None:
    """Do what ``--route`` does before the model is called."""
    wanted = f"merge-report-{number // 2:04}"
    prompt = f"Please merge the quarterly report {number // 2:04} and tell me what changed in it."
    lines: list[str] = []
    targets = build_targets_from_skill_registry(build_skill_registry(root, lines.append))
    decision = RuleRouter(0.3).route(prompt, targets)
    if lines or len(targets) != number or decision.target != wanted:
        raise RuntimeError(f"not what was to be measured: {lines[:1]} {len(targets)} {decision}")


def seconds(work: Callable[[], None]) -> Callable[[], float]:
    """Return a case that does the work once and says how long it took."""

    def case() -> float:
        gc.collect()
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return case


TOPIC = Topic("skills", "Routing over skills", TEXT, measure)
