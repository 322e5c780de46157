"""What ORE says with a real server of the OpenAI protocol: one row for each check.

By hand: ``python -m tests.by_hand.openai_servers URL MODEL [CHECK ...]``; the key, if one is
wanted, is in ``OPENAI_API_KEY``. Nothing is judged: the rows are for a person to read.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from pathlib import Path

SECONDS = 60
MAIN = Path(__file__).resolve().parents[2] / "main.py"
SHORT = ("Name one colour.", "-o", "num_predict=24")
LONG = " ".join(f"word{number}" for number in range(4000))
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def picture() -> bytes:
    """Return a red PNG of 512 times 512 pixels: of a smaller one a model may make a few tokens."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checked = kind + data
        return struct.pack(">I", len(data)) + checked + struct.pack(">I", zlib.crc32(checked))

    head = struct.pack(">IIBBBBB", 512, 512, 8, 2, 0, 0, 0)
    pixels = zlib.compress((b"\0" + b"\xff\0\0" * 512) * 512)
    start = b"\x89PNG\r\n\x1a\n"
    return start + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def checks(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return what is run, by its name; the files that it wants are made in ``folder``."""
    schema, image, artifact = (str(folder / name) for name in ("s.json", "i.png", "a.json"))
    Path(schema).write_text(json.dumps(SCHEMA), encoding="utf-8")
    Path(image).write_bytes(picture())
    return {
        "--list-models": ("--list-models",),
        "a turn": SHORT,
        "--stream": (*SHORT, "--stream"),
        "--json": (*SHORT, "--json"),
        "--schema": ("Name a colour as JSON.", "-o", "num_predict=64", "--schema", schema),
        "--image": (*SHORT, "--image", image),
        "--artifact-out": (*SHORT, "-o", "seed=1", "--artifact-out", artifact),
        "--verify": ("--verify", artifact),
        "--replay": ("--replay", artifact),
        "--strict-context": (*SHORT, "--strict-context"),
        "too long": (LONG, "-o", "num_predict=8"),
        "too long, --strict-context": (LONG, "-o", "num_predict=8", "--strict-context"),
        "Ctrl-C": ("Write a very long story.", "--stream"),
        "a turn after Ctrl-C": SHORT,
    }


def ran(command: list[str], home: Path, *, interrupts: bool) -> tuple[int | None, str, str]:
    """Return the exit code, None after ``SECONDS``, and both outputs of ``command``."""
    environment = {**os.environ, "ORE_HOME": str(home), "ORE_TRACEBACK": "1"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        limit = threading.Timer(SECONDS, process.kill)
        limit.start()
        begun = process.stdout.read(20) if interrupts else b""
        if interrupts:
            process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        limit.cancel()
    code = None if process.returncode == -signal.SIGKILL else process.returncode
    return code, (begun + out).decode("utf-8", "replace"), err.decode("utf-8", "replace")


def main(url: str, model: str, *only: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        for check, arguments in checks(Path(name)).items():
            if only and check not in only:
                continue
            server = ["--host", url, "--backend", "openai"]
            server += ["--model", model] if check not in ("--replay", "--list-models") else []
            if check == "--verify":
                server = []
            command = [sys.executable, str(MAIN), *arguments, *server]
            code, out, err = ran(command, Path(name), interrupts=check == "Ctrl-C")
            print(
                f"{check} | exit {code} | {out.strip()!r:.300} | {err.strip()!r:.600}", flush=True
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
