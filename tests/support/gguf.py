"""GGUF files of our own: a model so small that it is written for each test, whole or damaged.

It answers with noise. What is tested with it is what the engine does with the file: its template,
its tokenizer, its architecture, its head.
"""

from __future__ import annotations

import random
import struct
from array import array
from functools import cache
from pathlib import Path
from typing import Any

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
EMBEDDING, FEED, HEADS, WINDOW = 32, 64, 2, 8192
FLOAT32, ALIGNMENT = 0, 32
UINT16, UINT32, INT32, FLOAT, BOOL, STRING, ARRAY = 2, 4, 5, 6, 7, 8, 9


class Short(int):
    """A whole number of 16 bits, as a split model's keys are."""


class Signed(int):
    """A whole number of 32 bits with a sign."""


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name: str, kind: int, value: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + value


def entry(name: str, value: Any) -> bytes:
    """One key with its value, of the type that the value has in Python."""
    if isinstance(value, str):
        return key(name, STRING, text(value))
    if isinstance(value, bool):
        return key(name, BOOL, struct.pack("<?", value))
    if isinstance(value, Short):
        return key(name, UINT16, struct.pack("<H", value))
    if isinstance(value, Signed):
        return key(name, INT32, struct.pack("<i", value))
    if isinstance(value, int):
        return key(name, UINT32, struct.pack("<I", value))
    if isinstance(value, float):
        return key(name, FLOAT, struct.pack("<f", value))
    kind = STRING if isinstance(value[0], str) else INT32
    items = b"".join(text(v) if kind == STRING else struct.pack("<i", v) for v in value)
    return key(name, ARRAY, struct.pack("<IQ", kind, len(value)) + items)


def head(*keys: bytes, version: int = 3, count: int | None = None, tensors: int = 0) -> bytes:
    total = len(keys) if count is None else count
    return b"GGUF" + struct.pack("<IQQ", version, tensors, total) + b"".join(keys)


def _bytes_as_letters() -> list[str]:
    """How GPT-2's tokenizer writes each of the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown}
    letters.update({byte: chr(256 + n) for n, byte in enumerate(hidden)})
    return [letters[byte] for byte in range(256)]


TOKENS = [*_bytes_as_letters(), "th", "<|im_start|>", "<|im_end|>"]
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.context_length": WINDOW,
    "llama.embedding_length": EMBEDDING,
    "llama.block_count": 1,
    "llama.feed_forward_length": FEED,
    "llama.rope.dimension_count": EMBEDDING // HEADS,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.vocab_size": len(TOKENS),
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.token_type": [1] * (len(TOKENS) - 2) + [3, 3],
    "tokenizer.ggml.merges": ["t h"],
    "tokenizer.ggml.bos_token_id": len(TOKENS) - 2,
    "tokenizer.ggml.eos_token_id": len(TOKENS) - 1,
    "tokenizer.chat_template": CHATML,
}
SHAPES = {
    "token_embd.weight": (EMBEDDING, len(TOKENS)),
    "output_norm.weight": (EMBEDDING,),
    "blk.0.attn_norm.weight": (EMBEDDING,),
    "blk.0.attn_q.weight": (EMBEDDING, EMBEDDING),
    "blk.0.attn_k.weight": (EMBEDDING, EMBEDDING),
    "blk.0.attn_v.weight": (EMBEDDING, EMBEDDING),
    "blk.0.attn_output.weight": (EMBEDDING, EMBEDDING),
    "blk.0.ffn_norm.weight": (EMBEDDING,),
    "blk.0.ffn_gate.weight": (EMBEDDING, FEED),
    "blk.0.ffn_up.weight": (EMBEDDING, FEED),
    "blk.0.ffn_down.weight": (FEED, EMBEDDING),
}


def tiny_model(**changes: Any) -> bytes:
    """The bytes of a model; ``changes`` are keys with ``__`` for a dot, None takes one away."""
    named = {name.replace("__", "."): value for name, value in changes.items()}
    new = {name: value for name, value in named.items() if name not in METADATA}
    metadata = {**new, **{name: named.get(name, value) for name, value in METADATA.items()}}
    return _file({name: value for name, value in metadata.items() if value is not None}, [*SHAPES])


def _file(metadata: dict[str, Any], tensors: list[str]) -> bytes:
    keys = [entry(name, value) for name, value in metadata.items()]
    infos, data = b"", b""
    for name in tensors:
        shape = SHAPES[name]
        infos += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _numbers(name)
    whole = head(*keys, tensors=len(tensors)) + infos
    return whole + bytes(-len(whole) % ALIGNMENT) + data


@cache
def _numbers(name: str) -> bytes:
    """What a tensor holds: noise, or ones."""
    shape, noise = SHAPES[name], random.Random(name)
    size = shape[0] * (shape[1] if len(shape) > 1 else 1)
    numbers = array("f", [1.0 if len(shape) == 1 else noise.gauss(0, 0.2) for _ in range(size)])
    return numbers.tobytes() + bytes(-len(numbers.tobytes()) % ALIGNMENT)


def write_split_model(folder: Path, parts: int) -> list[Path]:
    """Write a model in several files: all keys in the first, each with some of the tensors."""
    paths = [folder / f"m-{n:05}-of-{parts:05}.gguf" for n in range(1, parts + 1)]
    names = list(SHAPES)
    for number, path in enumerate(paths):
        split = {"no": Short(number), "count": Short(parts), "tensors.count": Signed(len(SHAPES))}
        keys = {f"split.{key}": value for key, value in split.items()}
        path.write_bytes(_file({**(METADATA if number == 0 else {}), **keys}, names[number::parts]))
    return paths


def write_model(path: Path, **changes: Any) -> Path:
    """Write ``tiny_model`` to a file and return its path."""
    path.write_bytes(tiny_model(**changes))
    return path
