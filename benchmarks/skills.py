"""What it costs to scan 1,000 skills and route a prompt over them: ``python -m benchmarks.skills``.

The yardstick is reading the same files and parsing their YAML with PyYAML's fastest safe loader.
Nothing is checked there and nothing built, so it is what no way of loading skills can beat.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from benchmarks.measure import interleaved, median, spread, table
from ore.router import RuleRouter
from ore.skills import build_skill_registry, build_targets_from_skill_registry

SKILLS = 1000
RUNS = 15
MOST = 3.0
PROMPT = "Please merge the quarterly report 0617 and tell me what changed since the last one."
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


def make_skills(root: Path) -> list[Path]:
    """Write the skills, each with a body of some 6 kB, and return their files."""
    body = (
        "\n# How to merge\n\n" + "Read the first table, then the second, then compare them.\n" * 100
    )
    files = []
    for number in range(SKILLS):
        file = root / f"merge-report-{number:04}" / "SKILL.md"
        file.parent.mkdir()
        frontmatter = FRONTMATTER.format(number=number)
        file.write_text(f"---\n{frontmatter}---\n{body}", encoding="utf-8")
        files.append(file)
    return files


def read_and_parse(files: list[Path]) -> None:
    """Do the least that anyone has to do."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in files:
        _, frontmatter, _ = file.read_text(encoding="utf-8").split("---\n", 2)
        yaml.load(frontmatter, Loader=loader)


def scan_and_route(root: Path) -> None:
    """Do what ``--route`` does before the model is called."""
    lines: list[str] = []
    targets = build_targets_from_skill_registry(build_skill_registry(root, lines.append))
    decision = RuleRouter(0.3).route(PROMPT, targets)
    if lines or len(targets) != SKILLS or decision.target != "merge-report-0617":
        raise RuntimeError(f"not what was to be measured: {lines[:1]} {len(targets)} {decision}")


def seconds(work: Callable[[], None]) -> Callable[[], float]:
    """Return a case that does the work once and says how long it took."""

    def case() -> float:
        gc.collect()
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return case


def main() -> int:
    """Measure, show the table, and return 1 when ORE takes more than ``MOST`` times the least."""
    with tempfile.TemporaryDirectory() as folder:
        files = make_skills(Path(folder))
        cases = {
            "read and parse": seconds(lambda: read_and_parse(files)),
            "scan and route": seconds(lambda: scan_and_route(Path(folder))),
        }
        interleaved(cases, 1)  # warm the disk cache and the imports
        results = interleaved(cases, RUNS)
    least = median(results["read and parse"])
    rows = [
        [name, median(values) * 1000, f"{spread(values):.0%}", median(values) / least]
        for name, values in results.items()
    ]
    print(table([[f"{SKILLS:,} skills, {RUNS} runs", "ms", "+-", "ratio"], *rows]))
    ratio = median(results["scan and route"]) / least
    print(
        f"\nScanning and routing takes {ratio:.2f} times the least; the most allowed is {MOST:.0f}."
    )
    return 0 if ratio <= MOST else 1


if __name__ == "__main__":
    sys.exit(main())
