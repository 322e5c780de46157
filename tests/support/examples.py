"""Running the examples as a user does, with a worker that is killed half-way; a stand-in answers.

By hand: ``python -m tests.support.examples --prompts 200``. Knows nothing about how an example does it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.fake_ollama import FakeOllama
from tests.support.process import ROOT, environment, until

PATIENCE = 3600.0
WORKERS = 2


def write_prompts(folder: Path, count: int) -> Path:
    """Write so many prompts, one a line; some look like flags, blanks, quotes or paths."""
    odd = ["--help", "-", 'say "$(id)" `id`', "a\tb ", "*", "\\n", "Zürich?", "Q" * 2000]
    lines = [odd[n] if n < len(odd) else f"Question {n}?" for n in range(count)]
    path = folder / "prompts.txt"
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return path


def has_dask() -> bool:
    return importlib.util.find_spec("distributed") is not None


def run_dask(folder: Path, count: int) -> list[dict]:
    """Run the example for Dask on two workers, one of them killed; return the artifacts."""
    started: list[subprocess.Popen] = []

    def start(*args: str) -> subprocess.Popen:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen([sys.executable, *args], env=env, cwd=folder, **quiet))
        return started[-1]

    with FakeOllama(delay=0.05) as fake:
        env = environment(OLLAMA_HOST=fake.url, PYTHONPATH=str(ROOT))
        try:
            about = folder / "scheduler.json"
            start(
                *("-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"),
                *("--no-dashboard", "--scheduler-file", str(about)),
            )
            until(lambda: about.exists() and about.read_text().strip(), 60)
            address = json.loads(about.read_text())["address"]
            worker = ("-m", "dask", "worker", address, "--nthreads", "1", "--no-dashboard")
            workers = [start(*worker, "--no-nanny", "--name", str(n)) for n in range(WORKERS)]
            arguments = [str(write_prompts(folder, count)), str(folder / "out")]
            arguments += ["--scheduler", address, "--model", "llama3.2"]
            mapped = start(str(ROOT / "examples/dask/map.py"), *arguments)
            wait_for(lambda: len(artifacts(folder / "out")) >= count // 4)
            workers[0].send_signal(signal.SIGKILL)
            wait_for(lambda: len(artifacts(folder / "out")) >= count // 2)
            mapped.kill()  # the mapping, too, is killed once, and goes on
            mapped.wait()
            assert start(str(ROOT / "examples/dask/map.py"), *arguments).wait(PATIENCE) == 0
        finally:
            for one in started:
                one.kill()
                one.wait()
    return artifacts(folder / "out")


def wait_for(condition: Callable[[], bool]) -> None:
    until(condition, PATIENCE)


def artifacts(folder: Path) -> list[dict]:
    """Return the artifacts of a folder, in the order of their prompts."""
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def expected(folder: Path) -> list[str]:
    text = (folder / "prompts.txt").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line.strip()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.examples", allow_abbrev=False)
    parser.add_argument("--prompts", type=int, default=200)
    count = parser.parse_args().prompts
    for run in (run_dask,):
        with tempfile.TemporaryDirectory() as name:
            began = time.monotonic()
            there = [artifact["input"]["prompt"] for artifact in run(Path(name), count)]
            assert there == expected(Path(name)), f"{len(there)} of {count}"
            seconds = time.monotonic() - began
            print(f"{run.__name__}: {len(there)} artifacts of {count} prompts, {seconds:.0f} s")


if __name__ == "__main__":
    main()
