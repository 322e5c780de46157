"""What ``--verify`` of a folder costs, beside reading and hashing its files, and what memory it needs."""

from __future__ import annotations

import json
import os
import tempfile
import uuid
from functools import partial
from pathlib import Path

from benchmarks.measure import Comparison, warmed
from benchmarks.place import MODEL, Place, Topic
from benchmarks.processes import peak, seconds
from benchmarks.rows import QUESTION, make_table, stand_in

COUNT, FEWER = 100_000, 5_000
SAMPLES = 50
BARE = """
import hashlib, os, sys
for folder, _, names in os.walk(sys.argv[1]):
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            hashlib.sha256(file.read()).hexdigest()
"""
TEXT = f"""\
{COUNT:,} artifacts as `--rows` writes them, a thousand in each folder. The figures are files a second,
from the start of a process to its end. The other reads each file with Python and hashes it with
`hashlib`, in one process. ORE has a process for each processor. The memory is that of the largest
process; those that ORE starts share most of theirs with it."""


def measure(place: Place) -> list[Comparison]:
    """Compare the check of a folder with the hashing of its files."""
    count = FEWER if place.is_quick else COUNT
    with tempfile.TemporaryDirectory(dir=place.folder) as name:
        folder = Path(name) / "out"
        _fill(place, Path(name), folder, count)
        ours = place.ore("--verify", str(folder))
        bare = place.script(BARE, str(folder))
        commands = {"ore": ours, "bare": bare, "again": bare}

        def rate(command: tuple[str, ...]) -> float:
            return count / seconds(command, place.environ)

        runs = max(place.runs // 5, 1)
        found = warmed({each: partial(rate, commands[each]) for each in commands}, runs)
        held = [peak(ours, place.environ) for _ in range(runs)]
        script = [peak(bare, place.environ) for _ in range(runs)]
    what, beside = f"`--verify` of {count:,} artifacts", "`hashlib` over their bytes"
    return [
        Comparison(what, "/s", found["ore"], beside, found["bare"], found["again"], least=0.5),
        Comparison(what, "MB", held, beside, script),
    ]


def _fill(place: Place, beside: Path, folder: Path, count: int) -> None:
    """Write so many artifacts of rows: a few that ORE wrote, each again with other values, sealed."""
    from ore.artifact.seal import seal  # what is measured is run in processes of its own

    with stand_in(0.0) as url:
        flags = ("--host", url, "--model", MODEL, "--no-system", "-q")
        table, made = make_table(beside, SAMPLES), beside / "made"
        command = place.ore(*flags, "--rows", str(table), QUESTION, "--artifact-out", str(made))
        seconds(command, place.environ)
    samples = [json.loads(path.read_bytes()) for path in sorted(made.glob("*/*.json"))]
    for number in range(1, count + 1):
        document = samples[number % SAMPLES]
        document["execution_id"] = document["output"]["id"] = str(uuid.uuid4())
        document["timestamp"] = document["output"]["timestamp"] = 1.8e9 + number / 64
        document["input"]["prompt"] = f"Where is {number}?"
        document["output"]["content"] = f"In the place {number * 7919 % count}."
        document["output"]["metadata"]["eval_duration"] = number * 7919
        document["provenance"]["row"] = {"number": number, "line": number + 1}
        part = folder / f"{number // 1000:08}"
        os.makedirs(part, exist_ok=True)
        data = json.dumps(seal(document), indent=2) + "\n"
        (part / f"{number:08}.json").write_bytes(data.encode("ascii"))


TOPIC = Topic("folders", "A folder of artifacts", TEXT, measure)
