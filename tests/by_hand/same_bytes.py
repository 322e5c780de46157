"""The same prompt, seed and temperature 0 on the embedded model: the same bytes, process by process.

By hand: ``python -m tests.by_hand.same_bytes`` runs each prompt in 20 processes; ``ORE_MODEL_DIR`` names the
folder with the model. Knows nothing about why a text is what it is.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from tests.support import process

PROMPTS = ("What is the capital of France?", "Write three short lines about the sea.")
PATIENCE = 300.0
"""Seconds for one run: the machine may be busy with other tests."""
FLAGS = ("--backend", "embedded", "-o", "seed=7", "-o", "temperature=0", "-o", "num_predict=40")


def answers(prompt: str, runs: int) -> list[str]:
    """Return what stdout held after each of so many runs of a prompt, each in its own process."""
    found = []
    for number in range(runs):
        stream = ("-s",) if number % 2 else ()
        running = process.start(*FLAGS, *stream, prompt, stdin=subprocess.DEVNULL)
        out, err = running.communicate(timeout=PATIENCE)
        assert running.returncode == 0, err
        found.append(out.decode())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.same_bytes", allow_abbrev=False)
    parser.add_argument("--runs", type=int, default=20, help="processes a prompt; default: 20")
    runs = parser.parse_args().runs
    differ = 0
    for prompt in PROMPTS:
        different = set(answers(prompt, runs))
        differ += len(different) - 1
        print(f"{runs} runs, {len(different)} answer(s): {prompt!r} -> {min(different)!r}")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
