"""What it costs to pull a model from a registry on this machine, beside curl and sha256sum.

Both fetch the same bytes from the same stand-in for a registry, put them on the same disk, and know
their hash at the end. ORE also asks for the manifest, notes what has come, and has it on disk for good.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Comparison, warmed
from benchmarks.place import NotHere, Place, Topic, serving

MEGABYTES, QUICK_MEGABYTES = 512, 64
MOST = 1.25
"""Four fifths of the speed."""
TEXT = """\
A model whose weights are random bytes. It comes from a stand-in for a registry on this machine, with a
fresh process and an empty folder each time. Beside it, `curl` fetches the same blob from there, and then
`sha256sum` reads it. ORE hashes while it writes, and puts the file on disk (`fsync`). The others leave
that to the system."""


def measure(place: Place) -> list[Comparison]:
    """Measure one pull, process and all."""
    if not (shutil.which("curl") and shutil.which("sha256sum")):
        raise NotHere("curl and sha256sum are not both there")
    megabytes = QUICK_MEGABYTES if place.is_quick else MEGABYTES
    weights = place.folder / "weights.gguf"
    with open(weights, "wb") as file:
        file.write(b"GGUF")
        for _ in range(megabytes):
            file.write(os.urandom(1 << 20))
    with registry(weights) as (name, blob):
        theirs = f"curl --silent --fail --output fetched {blob} && sha256sum fetched"
        cases = {
            "ore": _case(place, [*place.ore("--backend", "embedded", "--pull", name)]),
            "curl": _case(place, ["sh", "-c", theirs]),
            "curl again": _case(place, ["sh", "-c", theirs]),
        }
        found = warmed(cases, max(place.runs // 2, 3))
    what = f"pull {megabytes} MiB"
    beside = "curl, then sha256sum"
    return [
        Comparison(what, "s", found["ore"], beside, found["curl"], found["curl again"], most=MOST)
    ]


def _case(place: Place, command: list[str]) -> Callable[[], float]:
    folder = place.folder / "pulled"

    def case() -> float:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        environ = {**place.environ, "ORE_MODEL_DIR": str(folder)}
        started = time.perf_counter()
        subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)
        return time.perf_counter() - started

    return case


@contextmanager
def registry(weights: Path) -> Iterator[tuple[str, str]]:
    """A stand-in in a process of its own; yields the model's name and the address of its weights."""
    with serving("-m", "tests.support.fake_registry", str(weights)) as line:
        name, blob = line.split()
        yield name, blob


TOPIC = Topic("pulls", "Pulling a model", TEXT, measure)
