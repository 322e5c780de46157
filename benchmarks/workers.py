"""What ``--rows --scheduler`` does with two workers of this machine, beside one run without them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Comparison, warmed
from benchmarks.place import MAIN, MODEL, PYTHON, ROOT, NotHere, Place, Topic
from benchmarks.processes import seconds
from benchmarks.rows import QUESTION, make_table, stand_in

TEXT = """\
A Dask scheduler and two workers on this machine, each with one thread or with four, and one stand-in for
a server that takes 50 ms. The figures are rows a second, from the start of `ore` to its end. The other is
twice what one run of `--rows` does on this machine, with as many jobs as a worker has threads. The
workers, the scheduler and `ore` share the processors. With four threads, the processors are the limit; on
machines of their own, they are not."""
_PATIENCE = 60.0


def measure(place: Place) -> list[Comparison]:
    """Compare two workers with two times one run."""
    if importlib.util.find_spec("distributed") is None:
        raise NotHere("distributed is not installed")
    return [_compared(place, threads) for threads in (1, 4)]


def _compared(place: Place, threads: int) -> Comparison:
    rows = (40 if place.is_quick else 300) * threads
    with tempfile.TemporaryDirectory(dir=place.folder) as name, stand_in(0.05) as url:
        folder = Path(name)
        table = make_table(folder, rows)
        command = (
            PYTHON,
            MAIN,
            "--model",
            MODEL,
            "--no-system",
            "-q",
            "--rows",
            str(table),
            QUESTION,
        )
        with _cluster(folder, url, threads, place.environ) as address:

            def asked(number: list[int], *more: str) -> float:
                number[0] += 1
                out = ("--artifact-out", str(folder / f"{more[0].strip('-')}-{number[0]}"))
                return rows / seconds((*command, *more, *out), place.environ)

            ours, one = [0], [0]
            cases = {
                "ore": lambda: asked(ours, "--scheduler", address),
                "one": lambda: 2 * asked(one, "--host", url, "--jobs", str(threads)),
            }
            found = warmed(cases, max(place.runs // 3, 1))
    what = f"two workers of {threads} thread{'s' * (threads > 1)}, 50 ms a row"
    least = 0.85 if threads == 1 else None
    beside = "two times one run"
    return Comparison(what, "/s", found["ore"], beside, found["one"], least=least)


@contextmanager
def _cluster(folder: Path, url: str, threads: int, environ: dict[str, str]) -> Iterator[str]:
    """A scheduler with two workers, each a process; yields its address when they are there."""
    started: list[subprocess.Popen[bytes]] = []
    variables = {**environ, "PYTHONPATH": str(ROOT), "OLLAMA_HOST": url}

    def start(*arguments: str) -> None:
        null = subprocess.DEVNULL
        command = [PYTHON, "-m", "dask", *arguments]
        started.append(
            subprocess.Popen(command, cwd=folder, env=variables, stdout=null, stderr=null)
        )

    about = folder / "scheduler.json"
    try:
        start(
            *("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(about)),
        )
        end = time.monotonic() + _PATIENCE
        while not (about.exists() and about.read_text().strip()):
            if time.monotonic() > end:
                raise NotHere("the Dask scheduler does not start")
            time.sleep(0.1)
        address = str(json.loads(about.read_text())["address"])
        for _ in range(2):
            start("worker", address, "--nthreads", str(threads), "--no-nanny", "--no-dashboard")
        _await_workers(address, end)
        yield address
    finally:
        for process in started:
            process.kill()
            process.wait()


def _await_workers(address: str, end: float) -> None:
    script = "import sys, distributed; distributed.Client(sys.argv[1]).wait_for_workers(2, 60)"
    left = max(end - time.monotonic(), 1.0)
    try:
        subprocess.run(
            [PYTHON, "-c", script, address],
            env=dict(os.environ),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=left,
            check=True,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as exc:
        raise NotHere("the Dask workers do not start") from exc


TOPIC = Topic("rows-dask", "Rows of a table, on two workers", TEXT, measure)
