"""GGUF files of Ollama's library that Ollama mends while it loads them, and that the engine does not.

Loaded as they are, they are refused by the engine, or read with a wrong tokenizer, which is worse. The
marks are those of ``llama/compat`` of Ollama's source; a file without them is as llama.cpp expects it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ore.backends.gguf import Tables, read_tables

_EOT, _HEADER = 128009, 128006
"""The numbers of Llama 3's tokens that end a message, and that begin its head."""

RULES = "mended.1"
"""What is remembered of a file is by these rules; others have another name."""

_Check = Callable[[Tables], bool]


def why_mended(path: Path) -> str:
    """Return what of a model Ollama would mend, in a few words; empty where it is fine as it is.

    Raises:
        FileAccessError: The file can't be read.
    """
    found = read_tables(path, strings={"tokenizer.ggml.tokens": (_EOT, _HEADER)})
    check = _MENDED.get(str(found.keys.get("general.architecture")))
    if check is None:
        return ""
    what, is_marked = check
    return what if is_marked(found) else ""


def is_suspect(keys: dict[str, Any]) -> bool:
    """Return whether ``why_mended`` has to look, from the keys at the beginning of a file alone."""
    return keys.get("general.architecture") in _MENDED


def _always(_: Tables) -> bool:
    return True


def _tensors(*starts: str) -> _Check:
    return lambda found: any(name.startswith(starts) for name in found.tensors)


def _keys(*names: str) -> _Check:
    return lambda found: any(_own_key(found, name) in found.keys for name in names)


def _any(*checks: _Check) -> _Check:
    return lambda found: any(check(found) for check in checks)


def _lacks(name: str) -> _Check:
    return lambda found: _own_key(found, name) not in found.keys


def _own_key(found: Tables, name: str) -> str:
    return f"{found.keys.get('general.architecture')}.{name}"


def _gemma3(found: Tables) -> bool:
    added = ("add_padding_token", "add_unknown_token")
    return any(f"tokenizer.ggml.{name}" in found.keys for name in added)


def _gemma3n(found: Tables) -> bool:
    rows = [found.tensors.get(f"{name}token_embd.weight", ()) for name in ("", "per_layer_")]
    return all(len(row) > 1 for row in rows) and rows[0][1] != rows[1][1]


def _lfm2(found: Tables) -> bool:
    return "output_norm.weight" in found.tensors and "token_embd_norm.weight" not in found.tensors


def _llama3(found: Tables) -> bool:
    """Llama 3's tokens without the name of its tokenizer: every text would be cut up wrongly.

    That its end of text is not its end of message, the engine mends itself.
    """
    tokens = found.strings.get("tokenizer.ggml.tokens", {})
    template = str(found.keys.get("tokenizer.chat_template"))
    is_llama3 = tokens.get(_EOT) == "<|eot_id|>" and (
        tokens.get(_HEADER) == "<|start_header_id|>"
        or "<|start_header_id|>" in template
        or "<|eot_id|>" in template
    )
    return is_llama3 and found.keys.get("tokenizer.ggml.pre") in (None, "", "default")


_SIGHT = ("v.", "mm.")
_MEDIA = "it holds the parts for images or sound, which the engine does not take in one file"
_NAMES = "its keys and tensors have other names than the engine expects"
_QWEN35 = _any(
    _keys("vision.block_count", "image_token_id", "ssm.v_head_reordered", "rope.mrope_interleaved"),
    _tensors("mtp.", "v."),
)
_MENDED: dict[str, tuple[str, _Check]] = {
    "gemma3": (
        _NAMES,
        _any(
            _keys("mm.tokens_per_image", "rope.global.freq_base", "rope.local.freq_base"),
            _tensors(*_SIGHT, "dense.0.weight"),
            _lacks("attention.layer_norm_rms_epsilon"),
            _gemma3,
        ),
    ),
    "gemma3n": ("its tokens and its tensors differ in number", _gemma3n),
    "gemma4": (
        _MEDIA,
        _any(
            _tensors("a.", *_SIGHT, "model.vision_tower."),
            lambda found: found.keys.get("tokenizer.ggml.model") == "llama",
        ),
    ),
    "gptoss": (_NAMES, _always),
    "lfm2": (_NAMES, _lfm2),
    "olmo3": (_NAMES, _always),
    "mistral3": (
        _NAMES,
        _any(
            _tensors(*_SIGHT),
            _keys("rope.scaling.beta_fast", "rope.scaling.mscale_all_dim", "rope.scaling_beta"),
        ),
    ),
    "qwen35": (_NAMES, _QWEN35),
    "qwen35moe": (_NAMES, _any(_QWEN35, _keys("feed_forward_length"))),
    "qwen3next": (_NAMES, lambda found: any(name.endswith(".ssm_dt") for name in found.tensors)),
    "qwen25vl": (_NAMES, _always),
    "qwen3vl": (_NAMES, _lacks("rope.dimension_sections")),
    "qwen3vlmoe": (_NAMES, _lacks("rope.dimension_sections")),
    "deepseekocr": (_NAMES, _always),
    "glmocr": (_NAMES, _always),
    "glm4moelite": (_NAMES, _always),
    "laguna": (
        _NAMES,
        _any(
            _keys("rope.swa.dimension_count", "rope.swa.freq_base"),
            _tensors("blk.0.attn_g.weight"),
        ),
    ),
    "nemotron_h_moe": (
        _NAMES,
        _tensors("blk.0.ffn_latent_in", "blk.1.ffn_latent_in", "mtp."),
    ),
    "nemotron_h_omni": (_MEDIA, _tensors("a.", *_SIGHT)),
    "llama4": (_MEDIA, _tensors(*_SIGHT)),
    "llama": ("it does not name its tokenizer, Llama 3's", _llama3),
}
"""What is mended in a model of an architecture, and what shows it."""
