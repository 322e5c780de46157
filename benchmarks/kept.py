"""Figures that are kept in a file, topic by topic, so that a long run can be done in pieces."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks.measure import Comparison


class Kept:
    """The results of topics: those of a file, and those that are added.

    Args:
        path: The file, as JSON; None keeps nothing. It need not exist.

    Attributes:
        results: What was measured of each topic, by its name; or the reason why nothing was.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.results: dict[str, list[Comparison] | str] = {}
        if path is not None and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            self.results = {
                name: [Comparison(**each) for each in found] for name, found in kept.items()
            }

    def add(self, name: str, found: list[Comparison] | str) -> None:
        """Take in the result of a topic; a reason is not written down: it may be measured again."""
        self.results[name] = found
        if self._path is None:
            return
        measured = {
            topic: [asdict(each) for each in rows]
            for topic, rows in self.results.items()
            if not isinstance(rows, str)
        }
        self._path.write_text(json.dumps(measured), encoding="utf-8")
