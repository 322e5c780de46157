"""Whether the model of a GGUF file answers prompts; why not, and what is listed of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ore.backends import Model
from ore.backends.gguf import (
    architecture_value,
    quantization,
    read_head,
    read_tables,
    size_of,
    split_name,
    window_of,
)
from ore.backends.model_names import shown_name
from ore.errors import OreError
from ore.files.neutral import word
from ore.files.strictjson import above_zero

_PIECES = {
    "mmproj": "is the part of a model that takes in images or sound",
    "adapter": "is an adapter, which changes a model and is not one",
    "imatrix": "says how a model's numbers are rounded, and is not a model",
    "draft": "guesses what another model writes, to make that faster, and is not a model by itself",
    "encoder": "reads a prompt with an encoder, which the embedded engine does not run",
    "speech": "writes sounds, which the embedded engine can't make heard, and no text",
}
"""What a file is that answers no prompt, by its ``general.type``, or by its architecture's."""
_TYPES = (
    {"clip": "mmproj", "t5": "encoder"}
    | dict.fromkeys("eagle3 dflash gemma4-assistant".split(), "draft")
    | dict.fromkeys("qwen3tts pockettts".split(), "speech")
)
_DIFFUSES = "writes all words of an answer at once (diffusion), which the embedded engine does not"
_DIFFUSION = "diffusion.shift_logits"
_EMBEDS = "is a model for embeddings and writes no text"
_EMBEDDERS = {"t5encoder", "llama-embed", "gemma-embedding", "gemma-embedding2"}  # may not say so
_AHEAD, _FIRST_BLOCK = "mtp-", "blk.0."


def why_silent(path: Path, head: dict[str, Any]) -> str:
    """Return why a file answers no prompts, in words that go behind its name; empty where it does.

    Args:
        path: The file.
        head: What ``gguf.read_head`` reads of it.
    """
    kind = str(head.get("general.type"))
    if kind not in _PIECES:  # an adapter for an encoder is an adapter
        of_architecture = _TYPES.get(str(head.get("general.architecture")), "")
        kind = "draft" if _is_only_a_draft(path, head) else of_architecture
    return _PIECES.get(kind, "") or _DIFFUSES * (_DIFFUSION in head) or _EMBEDS * embeds(head)


def _is_only_a_draft(path: Path, head: dict[str, Any]) -> bool:
    """Whether a file has those layers of a model that guess ahead, and none of the others.

    It says nothing else of that; llama.cpp names such a file, and finds it, by ``mtp-``. The first
    file of a split model may have no layers at all.
    """
    guesses = above_zero(architecture_value(head, "nextn_predict_layers"))
    if not guesses or _AHEAD not in path.name.casefold() or split_name(path.name):
        return False
    found = read_tables(path)
    has_first = any(name.startswith(_FIRST_BLOCK) for name in found.tensors)
    return found.is_whole and bool(found.tensors) and not has_first


def embeds(head: dict[str, Any]) -> bool:
    """Whether a model turns text into numbers only."""
    is_causal = architecture_value(head, "attention.causal") is not False
    is_pooled = above_zero(architecture_value(head, "pooling_type")) is not None
    is_made_so = not is_causal or is_pooled or head.get("general.architecture") in _EMBEDDERS
    return is_made_so and _DIFFUSION not in head


def described(name: str, path: Path) -> Model:
    """Return what the first file of the model ``name``, at ``path``, says of it, and its size."""
    try:
        head = read_head(path)
        size = size_of(path)
        why = "" if embeds(head) else why_silent(path, head)
    except (OSError, OreError):
        return Model(name)
    return Model(
        name,
        size,
        word(head.get("general.size_label")),
        quantization(head),
        window_of(head),
        ("embedding",) if embeds(head) else ("completion",) * (not why),
        problem=f"{shown_name(name)} {why}, and can't be asked." if why else None,
    )
