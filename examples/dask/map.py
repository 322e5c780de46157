"""Ask every prompt of a file, one a line, on the workers of a Dask cluster; one artifact a prompt.

    python map.py PROMPTS FOLDER --scheduler tcp://HOST:8786 --model NAME

Each worker asks the Ollama server of its own machine (``OLLAMA_HOST``). Artifacts are written here, as
they arrive; what is there is not asked again, so a run that was killed goes on where it stopped. What
a lost worker had begun, the scheduler gives to another one.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path
from typing import Any

from distributed import Client, as_completed

from ore import ExecutionArtifact
from ore.artifact import write_artifact

RETRIES = 2


def ask(prompt: str, model: str) -> dict[str, Any]:
    """Take one turn, on a worker; return its artifact."""
    from ore import ORE, AyaReasoner, ExecutionArtifact, OreError

    try:
        response = ORE(AyaReasoner(model)).execute(prompt)
    except OreError as exc:
        raise RuntimeError(str(exc)) from None  # one that every scheduler can pass on
    return ExecutionArtifact.from_response(response, prompt, model).to_dict()


def missing(prompts: Path, folder: Path) -> dict[Path, str]:
    """Return the prompts without an artifact, by the path of the one they are to have."""
    found = {}
    for number, line in enumerate(prompts.read_text(encoding="utf-8").split("\n"), 1):
        if line.strip():
            digest = hashlib.sha256(line.encode()).hexdigest()[:8]
            found[folder / f"{number:06d}-{digest}.json"] = line
    return {path: prompt for path, prompt in found.items() if not path.exists()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Ask prompts on a Dask cluster.")
    parser.add_argument("prompts", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scheduler", required=True)
    parser.add_argument("--model", required=True)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with Client(args.scheduler) as client:
        paths = {
            client.submit(ask, prompt, args.model, pure=False, retries=RETRIES): path
            for path, prompt in missing(args.prompts, args.folder).items()
        }
        for future in as_completed(list(paths)):
            if future.status == "finished":
                write_artifact(ExecutionArtifact.from_dict(future.result()), str(paths[future]))
            else:
                failed += 1
                print(f"{paths[future].name}: {future.exception()}", file=sys.stderr)
            future.release()
    if failed:
        print(f"{failed} prompts have no artifact: run it again", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
