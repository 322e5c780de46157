"""Does a model fit into the memory that is free? It is found out before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ore.backends import gguf, hardware
from ore.backends.local_models import LocalModel, described, find
from ore.backends.turn_errors import NothingAnswersError
from ore.errors import OreError
from ore.files.strictjson import above_zero

_BESIDE = 256 << 20
"""What a process takes besides, in bytes: the engine's code, and what it computes with."""
_NUMBER = 2
"""The bytes of a number that is kept of a token that was read."""


def check_fits(model: LocalModel, window: int, slots: int) -> None:
    """Refuse a model that needs more memory than there is, with what would fit.

    Args:
        window: The context window that is wanted, in tokens, for each of ``slots`` turns at once.

    Raises:
        NothingAnswersError: It does not fit.
        FileAccessError: Its file can't be read.
    """
    free = hardware.free_bytes()
    if free is None:
        return
    head = gguf.read_head(model.path)
    size = gguf.size_of(model.path)
    window = min(window, gguf.window_of(head) or window)
    needed = needed_bytes(head, size, window * slots)
    if needed <= free:
        return
    less = "a smaller window (`options['num_ctx']`)" if needed_bytes(head, size, 0) <= free else ""
    steps = [less, _smaller(model, free)]
    said = " or ".join(filter(None, steps)) or "a smaller model (`EmbeddedBackend.pull(NAME)`)"
    raise NothingAnswersError(
        f"{model.name} needs about {_gigabytes(needed)} of memory, {_gigabytes(size)} of it for its "
        f"file and the rest for a window of {window:,} tokens, and {_gigabytes(free)} are free: end "
        f"other programs, or use {said}."
    )


def needed_bytes(head: dict[str, Any], size: int, tokens: int) -> int:
    """Return about how many bytes a model takes: its file of ``size``, and what is kept of ``tokens``."""
    names = ("block_count", "embedding_length", "attention.head_count", "attention.head_count_kv")
    layers, width, heads, kept = (gguf.architecture_value(head, name) for name in names)
    if not (above_zero(layers) and above_zero(width)):
        return size + _BESIDE
    if above_zero(heads) and above_zero(kept) and kept <= heads:
        width = width * kept // heads
    return size + _BESIDE + 2 * _NUMBER * int(layers * width) * tokens


def _smaller(model: LocalModel, free: int) -> str:
    """Return the name of the largest other model that fits with room to spare; empty without one."""
    best, found = 0, ""
    for other in described():
        if other.can_answer and other.problem is None and other.size and best < other.size:
            if other.size + 2 * _BESIDE <= free and not _is_at(other.name, model.path):
                best, found = other.size, other.name
    return found


def _is_at(name: str, path: Path) -> bool:
    try:
        return find(name).path == path
    except OreError:
        return True  # what can't be run is no advice


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.1f} GB"
