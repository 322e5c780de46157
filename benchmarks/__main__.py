"""The one command: measures what was asked for, shows it, and writes the page.

Knows nothing about how anything is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import (
    drawing,
    embedded,
    folders,
    memory,
    pulls,
    repl,
    rows,
    scoring,
    sessions,
    skills,
    startup,
    streaming,
    turn,
    workers,
)
from benchmarks.kept import Kept
from benchmarks.machine import described
from benchmarks.measure import HEAD, Comparison, table
from benchmarks.page import renewed, write_page
from benchmarks.place import ROOT, NotHere, Place, Topic, install, place

TOPICS = {
    topic.name: topic
    for topic in (
        startup.TOPIC,
        turn.TOPIC,
        turn.FIRST_TOPIC,
        streaming.TOPIC,
        memory.TOPIC,
        repl.TOPIC,
        repl.FIRST_TOPIC,
        sessions.TOPIC,
        skills.TOPIC,
        embedded.TOPIC,
        scoring.TOPIC,
        pulls.TOPIC,
        rows.TOPIC,
        rows.ENGINE_TOPIC,
        workers.TOPIC,
        folders.TOPIC,
    )
}
PAGE = ROOT / "docs/performance.md"
RUNS = 15
QUICK_RUNS = 3
ON_DISK = Path("/var/tmp")
"""Where there is one, a folder that is on a disk; the usual one for temporary files may not be."""


def main() -> int:
    """Measure; the exit code is 0 whatever the figures are."""
    arguments = _parser().parse_args()
    chosen = [TOPICS[name] for name in arguments.only or TOPICS]
    page = arguments.page
    if page is None and not (arguments.only or arguments.quick):
        page = PAGE
    runs = arguments.runs or (QUICK_RUNS if arguments.quick else RUNS)
    with place(arguments.disk, runs, arguments.quick) as bare_place:
        here, remarks = bare_place, ["Nothing was installed for this run, so llm is left out."]
        if not arguments.as_it_is:
            here, remarks = _equipped(bare_place, arguments.installed)
        if arguments.quick:
            remarks.append("Few runs of small cases: a look, not a measurement.")
        before = page.read_text("utf-8") if arguments.only and page and page.exists() else None
        if before is not None:  # can it be, before much is measured?
            renewed(before, described(here), [(topic, "") for topic in chosen])
        kept = Kept(arguments.keep)
        for topic in chosen:
            if arguments.only or topic.name not in kept.results:
                kept.add(topic.name, _measured(topic, here))
        results = [(topic, kept.results[topic.name]) for topic in chosen]
        if page is not None:
            drawn, missing = _drawn(results, page.resolve().parent / "images", here)
            text = write_page(described(here), results, remarks + missing, drawn)
            if before is not None:
                text = renewed(before, described(here), results, drawn)
            page.write_text(text, encoding="utf-8")
            _say(f"{page} is written, with {len(drawn)} pictures.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few runs, small cases, no page")
    parser.add_argument("--runs", type=int, metavar="N", help=f"of each case; default {RUNS}")
    parser.add_argument(
        "--only",
        action="append",
        choices=TOPICS,
        metavar="NAME",
        help=f"one of {', '.join(TOPICS)}; may be repeated; of a page, with --page, these "
        "sections alone are written anew",
    )
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help=f"default: {PAGE.relative_to(ROOT)}"
    )
    parser.add_argument(
        "--disk",
        type=Path,
        metavar="FOLDER",
        default=ON_DISK if ON_DISK.is_dir() else Path(tempfile.gettempdir()),
        help="a folder of the disk to measure; default: %(default)s",
    )
    parser.add_argument(
        "--installed",
        type=Path,
        metavar="FOLDER",
        help="where what is measured is installed, to be kept for the next time; default: nowhere",
    )
    parser.add_argument(
        "--keep",
        type=Path,
        metavar="FILE",
        help="keep the figures of each topic there; what it has already is measured only if named",
    )
    parser.add_argument(
        "--as-it-is",
        action="store_true",
        help="install nothing: measure with this Python's packages, and without llm",
    )
    return parser


def _equipped(here: Place, folder: Path | None) -> tuple[Place, list[str]]:
    """Install what is measured, ORE's packages and llm apart; return what can't be as remarks.

    The packages that are there for tests would make a client slower and larger: ``httpx`` imports
    ``rich`` and ``click`` where it finds them.
    """
    folder, remarks = folder or here.folder / "installed", []
    for what, requirements in (("ore", "requirements.txt"), ("llm", "benchmarks/requirements.txt")):
        _say(f"Installing the packages of {what} ...")
        try:
            programs = install(folder / what, requirements)
        except (OSError, subprocess.CalledProcessError) as exc:
            remarks.append(f"The packages of {what} could not be installed: {_last_line(exc)}")
        else:
            found = {"python": str(programs / "python")} if what == "ore" else {}
            here = replace(here, **(found or {"peer": str(programs / "llm")}))
    return here, remarks


def _drawn(
    results: list[tuple[Topic, list[Comparison] | str]], folder: Path, here: Place
) -> tuple[set[str], list[str]]:
    """Draw the pictures of a page, and return their names; or the reason why there are none.

    matplotlib is installed for it, beside what is measured; without installing, this Python's is used.
    """
    found, python = drawing.charts(results), sys.executable
    try:
        if here.peer is not None or here.python != sys.executable:
            _say("Installing the packages of the pictures ...")
            programs = install(here.folder / "drawing", "benchmarks/requirements-drawing.txt")
            python = str(programs / "python")
        elif importlib.util.find_spec("matplotlib") is None:
            return set(), ["Without matplotlib there are no pictures."]
        command = [python, "-m", "benchmarks.drawing", str(folder)]
        text, environ = drawing.as_text(found), {**here.environ, "MPLCONFIGDIR": str(here.folder)}
        subprocess.run(command, input=text, text=True, env=environ, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as exc:
        return set(), [f"The pictures could not be drawn: {_last_line(exc)}"]
    return {chart.name for chart in found}, []


def _measured(topic: Topic, here: Place) -> list[Comparison] | str:
    """Measure a topic and show it; return the reason where it can't be measured here."""
    _say(f"\n{topic.title}")
    begun = time.monotonic()
    try:
        found = topic.measure(here)
    except NotHere as exc:
        _say(f"Not measured: {exc}.")
        return str(exc)
    except RuntimeError as exc:  # what was measured before it is worth its page
        _say(f"Failed: {exc}")
        return "it failed"
    rows = [tuple(cell.replace("`", "") for cell in row.cells()) for row in found]
    took = time.monotonic() - begun
    _say(f"{table([HEAD, *rows])}\n{topic.name}: {took:.0f} s for all of it")
    return found


def _say(text: str) -> None:
    print(text, flush=True)


def _last_line(exc: OSError | subprocess.CalledProcessError) -> str:
    """Return the last line of what a command that failed has said, or of the error."""
    return (getattr(exc, "stderr", None) or str(exc)).strip().splitlines()[-1]


def _terminated(*_: object) -> None:
    sys.exit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)  # unwinds, so that nothing is left behind
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
