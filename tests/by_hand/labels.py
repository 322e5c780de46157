"""All of Unicode in tmux: no character of an answer brings a label to the terminal's left edge.

    python -m tests.by_hand.labels [--rendered] [--step N]

Every code point (or every Nth) is put before, into and around a label, as padding of every width; what
ORE shows of it is written to a pane of 40 columns, and every row that the pane then has is looked at.
It takes some minutes. Needs tmux, and rich for ``--rendered``, which shows the texts as Markdown.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from ore.cli.terminal.text import laid_out

WIDTH = 40
BATCH = 4000
FENCES = 10  # that a batch makes, each below what is rendered at most
LABELS = ("You:", "[AYA]:")
SHAPES = {
    "before": lambda c, label: f"{c}{label} x",
    "inside": lambda c, label: f"{label[:2]}{c}{label[2:]} x",
    "a full line": lambda c, label: f"{c * WIDTH}{label} x",
    "half a line": lambda c, label: f"{c * (WIDTH // 2)}{label} x",
    "half a line and a tab": lambda c, label: f"{c * (WIDTH // 2)}\t{label} x",
    "in words": lambda c, label: f"{f'{c} ' * 13} {label} x",
    "joined to nothing": lambda c, label: f"\u200d{c}{label} x",
    "after letters": lambda c, label: f"{'a' * (WIDTH - 1)}{c}{label} x",
}


class Pane:
    """A tmux server of its own with one pane; ``rows`` is what it shows of a text."""

    def __init__(self, folder: str) -> None:
        self._server = ["tmux", "-u", "-L", f"ore-labels-{os.getpid()}", "-f", os.devnull]
        self._file = Path(folder, "text")
        self._done = Path(folder, "done")
        environ = {**os.environ, "LC_ALL": "C.UTF-8"}
        script = f"while read line; do cat {self._file}; touch {self._done}; done"
        size = ["-x", str(WIDTH), "-y", "50"]
        options = ["set-option", "-g", "history-limit", "400000", ";", "new-session", "-d", *size]
        command = [*self._server, *options, f"stty -echo; {script}"]
        subprocess.run(command, check=True, env=environ)
        time.sleep(0.5)

    def rows(self, text: str) -> list[str]:
        """Return the rows of the pane after a text was written to it."""
        self._file.write_text("\x1b[2J\x1b[H" + text + "\n\n", encoding="utf-8", newline="\n")
        self._tmux("clear-history")
        self._tmux("send-keys", "Enter")
        while not self._done.exists():
            time.sleep(0.01)
        self._done.unlink()
        before, rows = None, ""
        while rows != before:  # tmux has read all of it
            before, rows = rows, self._tmux("capture-pane", "-p", "-S", "-")
            time.sleep(0.05)
        return rows.split("\n")

    def _tmux(self, *args: str) -> str:
        done = subprocess.run([*self._server, *args], check=True, capture_output=True)
        return done.stdout.decode("utf-8", "replace")

    def close(self) -> None:
        """End the server."""
        subprocess.run([*self._server, "kill-server"], check=False, capture_output=True)


def code_points(step: int) -> Iterator[str]:
    """Every character but surrogates, or every Nth."""
    for code in range(0, sys.maxunicode + 1, step):
        if not 0xD800 <= code < 0xE000:
            yield chr(code)


def is_forged(row: str) -> bool:
    """Whether a label stands in the first column of a row, seen or behind what has no width."""
    seen = "".join(c for c in row if unicodedata.category(c) not in ("Mn", "Me", "Cf"))
    return row.startswith(LABELS) or seen.startswith(LABELS)


def shown(text: str, rendered: bool) -> str:
    """What ORE writes to a terminal of an answer."""
    if not rendered:
        return laid_out(text, WIDTH)
    from ore.cli.terminal.markdown import Markdown

    blocks = Markdown(WIDTH, has_colour=True)
    lines = blocks.feed(text) + blocks.end()
    assert not blocks.is_plain, "it was too much to render"
    return lines


def main() -> int:
    """Look at every shape; 1 where a label was found at the edge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rendered", action="store_true")
    parser.add_argument("--step", type=int, default=1)
    wanted = parser.parse_args()
    forged = looked = 0
    with tempfile.TemporaryDirectory() as folder:
        pane = Pane(folder)
        try:
            points = list(code_points(wanted.step))
            for shape, make in SHAPES.items():
                for start in range(0, len(points), BATCH):
                    batch = points[start : start + BATCH]
                    texts = [make(c, LABELS[ord(c) % 2]) for c in batch]
                    if wanted.rendered:
                        fenced = ["\n".join(texts[at::FENCES]) for at in range(FENCES)]
                        texts = [*(f"~~~text\n{each}\n~~~\n" for each in fenced), *texts[::40]]
                    rows = pane.rows("\n".join(shown(text, wanted.rendered) for text in texts))
                    looked += len(rows)
                    found = list(filter(is_forged, rows))
                    forged += len(found)
                    if found:
                        where = f"U+{ord(batch[0]):04X} and on"
                        print(f"{shape}, {where}: {len(found)}, the first is {ascii(found[0])}")
                print(f"{shape}: {len(points)} code points, {looked} rows so far", flush=True)
        finally:
            pane.close()
    print(f"{looked} rows, {forged} with a label at the left edge")
    return 1 if forged else 0


if __name__ == "__main__":
    sys.exit(main())
