"""What it costs to start, to take one turn, and to stream: ORE beside the least that does the same.

    python -m benchmarks.startup [--runs 15]

Every figure is a ratio of medians from interleaved fresh processes in one run. The server is the
tests' stand-in for Ollama in a process of its own, so that only the client is measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import interleaved, median, spread, table

ROOT = Path(__file__).parent.parent
PYTHON = sys.executable
MAIN = str(ROOT / "main.py")
CHUNKS = 20_000

ONE_CALL = """
import sys, ollama
client = ollama.Client(host=sys.argv[1])
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
print(client.chat(model="llama3.2", messages=messages).message.content)
"""
BARE_STREAM = """
import sys, time, ollama
client = ollama.Client(host=sys.argv[1])
messages = [{"role": "user", "content": "Hi"}]
started = None
for part in client.chat(model="llama3.2", messages=messages, stream=True):
    started = started or time.perf_counter()
    sys.stdout.write(part.message.content)
    sys.stdout.flush()
sys.stderr.write(str(time.perf_counter() - started))
"""
ORE_STREAM = """
import sys, time
sys.path.insert(0, sys.argv[2])
from ore.console import Console
started = None
chunk = Console.chunk
def first(self, text):
    global started
    started = started or time.perf_counter()
    Console.chunk = chunk
    chunk(self, text)
Console.chunk = first
from ore.cli import main
code = main(["--host", sys.argv[1], "--model", "llama3.2", "-s", "-q", "Hi"])
sys.stderr.write(str(time.perf_counter() - started))
sys.exit(code)
"""


def timed(*command: str, environ: dict[str, str]) -> float:
    """Run a command to its end and return the seconds that it took."""
    started = time.perf_counter()
    subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, check=True
    )
    return time.perf_counter() - started


def streamed(script: str, url: str, environ: dict[str, str]) -> float:
    """Run a streaming script into a pipe and return the seconds from first to last chunk."""
    done = subprocess.run(
        [PYTHON, "-c", script, url, str(ROOT)],
        env=environ,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        check=True,
        text=True,
    )
    return float(done.stderr.split()[-1])


@contextmanager
def server(*options: str):
    """A stand-in server in a process of its own; yields its address."""
    command = [PYTHON, "-m", "tests.fake_ollama", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate()


def report(title: str, samples: dict[str, list[float]], pairs: list[tuple[str, str, str]]) -> None:
    """Print the medians, and the ratio of each pair with what it should be."""
    print(f"\n{title}")
    print(table([("", "median", "spread"), *_rows(samples)]))
    for case, floor, wanted in pairs:
        ratio = median(samples[case]) / median(samples[floor])
        print(f"  {case} / {floor} = {ratio:.2f}  (wanted: {wanted})")


def _rows(samples: dict[str, list[float]]) -> list[tuple[str, str, str]]:
    return [
        (name, f"{median(values) * 1000:.1f} ms", f"{spread(values) * 100:.0f} %")
        for name, values in samples.items()
    ]


def start_up(runs: int, environ: dict[str, str]) -> None:
    """--version, --help and ``import ore`` against Python's own modules, beside a .env file."""
    commands = {
        "import argparse": (PYTHON, "-c", "import argparse"),
        "--version": (PYTHON, MAIN, "--version"),
        "--help": (PYTHON, MAIN, "--help"),
        "import dataclasses, json, uuid": (PYTHON, "-c", "import dataclasses, json, uuid"),
        "import ore": (PYTHON, "-c", "import ore"),
    }
    cases = {
        name: (lambda command=command: timed(*command, environ=environ))
        for name, command in commands.items()
    }
    report(
        "Start-up",
        interleaved(cases, runs),
        [
            ("--version", "import argparse", "at most 2"),
            ("--help", "import argparse", "at most 2"),
            ("import ore", "import dataclasses, json, uuid", "at most 1"),
        ],
    )


def one_turn(runs: int, environ: dict[str, str]) -> None:
    """A whole turn as a process, with and without --model, against a script with one call."""
    with server() as url:
        ore = (PYTHON, MAIN, "--host", url, "Hi")
        cases = {
            "one call": lambda: timed(PYTHON, "-c", ONE_CALL, url, environ=environ),
            "one call again": lambda: timed(PYTHON, "-c", ONE_CALL, url, environ=environ),
            "ore": lambda: timed(*ore, environ=environ),
            "ore --model": lambda: timed(*ore, "--model", "llama3.2", environ=environ),
        }
        pairs = [("one call again", "one call", "the gap of the same against itself")]
        pairs += [(case, "one call", "at most 1.1") for case in ("ore", "ore --model")]
        report("One turn, whole process", interleaved(cases, runs), pairs)


def streaming(runs: int, environ: dict[str, str]) -> None:
    """20,000 chunks into a pipe, from the first chunk to the last, against a bare loop."""
    with server("--scenario", "prerendered") as url:
        cases = {
            "bare": lambda: streamed(BARE_STREAM, url, environ),
            "ore -s": lambda: streamed(ORE_STREAM, url, environ),
        }
        samples = interleaved(cases, runs)
    report(f"Streaming {CHUNKS:,} chunks", samples, [])
    speed = median(samples["bare"]) / median(samples["ore -s"])
    print(f"  chunks per second, ore -s / bare = {speed:.2f}  (wanted: at least 0.9)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as home:
        (Path(home) / ".ore").mkdir()
        (Path(home) / ".ore/.env").write_text("ORE_BACKEND=ollama\n")
        environ = {name: v for name, v in os.environ.items() if not name.startswith("ORE_")}
        environ.update(HOME=home, PYTHONPATH=str(ROOT), PYTHONPYCACHEPREFIX=f"{home}/bytecode")
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiled once, as for whoever installed it
        start_up(runs, environ)
        one_turn(runs, environ)
        streaming(max(runs // 2, 3), environ)


if __name__ == "__main__":
    main()
