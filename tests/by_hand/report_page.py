"""A report of many runs, measured: how it is made, and how it scrolls in headless Chromium.

    python -m tests.by_hand.report_page [NUMBER] [FOLDER]

makes NUMBER runs (10,000) in a new folder below FOLDER (the system's), the page of them with the real
command, and opens it. It prints the page's size, the seconds and the processor's seconds of making it, how
long it takes to load, filter and sort, and what each step of a scroll from the first run to the last costs
the page's thread. Where other programs run, only the processor's time says much. It ends with an error
where the page is over 15 MB, or the last run is not reached.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.support.browser import Browser, browser
from tests.support.process import MAIN
from tests.support.reported import run, write

WORDS = (
    "the of and to in is it you that he was for on are with as his they be at one have this from or "
    "had by hot but some what there we can out other were all your when up use word how said an each "
    "she which do their time if will way about many then them would write like so these her long make"
).split()
MOST_BYTES = 15_000_000
WIDTH, HEIGHT = 1280, 900

STEP = """
(async () => {{
  scrollBy(0, {0});
  for (const each of [1, 2]) await new Promise(requestAnimationFrame);
  const seen = document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest("#runs tbody");
  return [scrollY >= document.documentElement.scrollHeight - innerHeight - 2, Boolean(seen && !seen.filled)];
}})()
"""
TIMED = "(() => {{ const t = performance.now(); {0}; return performance.now() - t; }})()"


def make(folder: Path, number: int) -> None:
    """Write ``number`` runs, a thousand a folder, with prompts and answers of usual lengths."""
    rng = random.Random(0)
    for first in range(0, number, 1000):
        documents = [
            run(
                at,
                prompt="Sum up: " + " ".join(rng.choices(WORDS, k=80)),
                answer=" ".join(rng.choices(WORDS, k=60)),
                metadata={"total_duration": int(rng.lognormvariate(0, 0.6) * 1e9)},
            )
            for at in range(first + 1, min(first + 1000, number) + 1)
        ]
        write(folder / f"{first:08}", *documents)


def made(runs: Path, page: Path) -> None:
    """Make the page with the real command, and print what it took."""
    before, begun = os.times(), time.monotonic()
    child = os.spawnv(
        os.P_WAIT,
        sys.executable,
        [sys.executable, str(MAIN), "--report", str(runs), "--out", str(page)],
    )
    took, after = time.monotonic() - begun, os.times()
    assert child == 0, "no page was made"
    spent = sum(after[2:4]) - sum(before[2:4])
    size = page.stat().st_size
    print(f"page: {size:,} bytes; made in {took:.1f} s, {spent:.1f} s of the processor's")
    assert size < MOST_BYTES, f"over {MOST_BYTES:,} bytes"


def looked_at(page: Path, number: int, profile: Path) -> None:
    """Open the page, use it, and print how long that takes."""
    with browser(profile) as chromium:
        chromium.emulate(width=WIDTH, height=HEIGHT)
        chromium.open(page)
        timing = chromium.run("performance.getEntriesByType('navigation')[0].loadEventEnd")
        print(f"loaded after {timing:,.0f} ms")
        assert f"{number:,} of {number:,}" == chromium.run(
            "document.getElementById('count').textContent"
        )
        for name, script in (
            ("sorted by seconds", "document.querySelector('[data-sort=seconds]').click()"),
            ("the slowest", "document.querySelector('[data-find=slowest]').click()"),
            ("all again", "document.querySelector('[data-find=slowest]').click()"),
        ):
            print(f"{name}: {chromium.run(TIMED.format(script)):,.0f} ms")
        scrolled(chromium)


def scrolled(chromium: Browser) -> None:
    """Scroll a page at a time through the first runs, then in jumps to the last; print what that costs.

    What is counted is the time that the page's thread was given, so that other programs do not matter.
    """
    chromium.ask("Performance.enable")
    costs, blank, is_at_end = [], 0, False
    chromium.run("scrollTo(0, 0)")
    before = spent(chromium)
    for step in range(2000):
        is_at_end, is_blank = chromium.run(STEP.format("700" if step < 100 else "5000"))
        now = spent(chromium)
        costs.append(1000 * (now - before))
        before, blank = now, blank + is_blank
        if is_at_end:
            break
    costs.sort()
    median, most = costs[len(costs) // 2], costs[-1]
    print(
        f"scrolled to the end in {len(costs)} steps: each {median:.0f} ms of the page's thread (median), "
        f"{costs[len(costs) * 99 // 100]:.0f} ms (99 %), {most:.0f} ms (most); {blank} steps saw a gap"
    )
    assert is_at_end, "the last run was not reached"


def spent(chromium: Browser) -> float:
    """Return the seconds that the page's thread has run."""
    told = chromium.ask("Performance.getMetrics")["metrics"]
    return next(each["value"] for each in told if each["name"] == "ThreadTime")


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    base = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(dir=base, ignore_cleanup_errors=True) as place:
        root = Path(place)
        make(root / "runs", number)
        made(root / "runs", root / "page.html")
        looked_at(root / "page.html", number, root / "profile")


if __name__ == "__main__":
    main()
