"""``--pull`` against a real registry: ``python -m tests.by_hand.real_registry HOST:PORT/NS/MODEL:TAG``.

Needs a registry that has the model, as ``ollama push --insecure`` brings it there; its weights best have a
gigabyte, so that kills hit. The model is pulled ``--times`` times: each time the process is killed
(SIGKILL) at random moments until a given number of kills has hit, and then runs to its end. Each time
the model must be whole, and nothing else left. With ``--tmpfs`` (as root), a disk that is too small is
tried, too.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ore.backends.manifest import Layer
from ore.backends.model_names import parse_name
from ore.backends.shelf import Shelf

ROOT = Path(__file__).resolve().parents[2]


def start(name: str, models: Path) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        "ORE_MODEL_DIR": str(models),
        "PYTHONPATH": str(ROOT),
        "ORE_TRACEBACK": "1",
    }
    command = [sys.executable, "-m", "ore", "--pull", name, "--backend", "embedded"]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def digest(path: Path) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            found.update(block)
    return found.hexdigest()


def used(models: Path) -> int:
    """The bytes that a folder takes on disk."""
    found = 0
    for path in models.rglob("*"):
        try:
            found += path.lstat().st_blocks * 512
        except FileNotFoundError:  # gone meanwhile
            continue
    return found


def weights_of(models: Path, name: str) -> tuple[Layer, Path] | None:
    """The weights of a model that is listed, else None."""
    shelf = Shelf(models, is_own=True)
    found = shelf.find(name)
    if found is None:
        return None
    manifest = shelf.manifest(found)
    assert shelf.is_whole(manifest), "it is listed and not whole"
    return manifest.of_kind("model")[0], shelf.weights(found, manifest)


def pull_with_kills(name: str, kills: int, seconds: float) -> str:
    """Pull a model, killed so many times in the first ``seconds`` of a run; return what was seen."""
    with tempfile.TemporaryDirectory(prefix="ore-registry-") as folder:
        models, hit, most = Path(folder, "models"), 0, 0
        while hit < kills:
            process = start(name, models)
            time.sleep(random.uniform(0.2, seconds))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if process.returncode == 0:
                break
            hit, most = hit + 1, max(most, used(models))
            weights_of(models, name)
        process = start(name, models)
        while process.poll() is None:
            most = max(most, used(models))
            time.sleep(0.02)
        said = process.communicate()[1].decode()
        assert process.returncode == 0, said
        found = weights_of(models, name)
        assert found is not None, "it was pulled and is not listed"
        layer, path = found
        assert digest(path) == layer.hexadecimal, "it is listed and has other bytes"
        left = [each.name for each in (models / "blobs").iterdir() if each.name.startswith(".")]
        assert left == [], left
        assert most <= layer.size * 1.05, (most, layer.size)
        return f"{hit} kills, whole, at most {most / layer.size:.3f} of its size on disk"


def pull_to_a_full_disk(name: str) -> str:
    """Pull to a file system of 40 MB, and to one that fills up on the way."""
    said = []
    for filled in (False, True):
        with tempfile.TemporaryDirectory(prefix="ore-small-") as folder:
            mount = [
                "mount",
                "-t",
                "tmpfs",
                "-o",
                f"size={2000 if filled else 40}m",
                "none",
                folder,
            ]
            subprocess.run(mount, check=True)
            try:
                process = start(name, Path(folder, "models"))
                if filled:
                    time.sleep(1.0)
                    with open(Path(folder, "ballast"), "wb") as ballast:
                        try:
                            while True:
                                ballast.write(bytes(1 << 20))
                        except OSError:
                            pass
                error = process.communicate()[1].decode().splitlines()[-1]
                assert process.returncode == 1 and "Traceback" not in error, error
                assert weights_of(Path(folder, "models"), name) is None
                said.append(error)
            finally:
                subprocess.run(["umount", folder], check=True)
    return "\n".join(said)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--tmpfs", action="store_true")
    args = parser.parse_args()
    name = str(parse_name(args.name))
    for number in range(1, args.times + 1):
        sys.stdout.write(f"{number}: {pull_with_kills(name, args.kills, args.seconds)}\n")
        sys.stdout.flush()
    if args.tmpfs:
        sys.stdout.write(f"{pull_to_a_full_disk(name)}\n")


if __name__ == "__main__":
    main()
