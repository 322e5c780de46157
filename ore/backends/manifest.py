"""A model's manifest, as a shelf keeps it and a registry sends it: which blobs the model is made of.

It is read without trusting a byte of it.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from ore.files import strictjson

MANIFEST_BYTES = 1 << 22
"""The most that a manifest may have; one of a thousand single tensors has 200,000 bytes."""
_SCHEMA = 2
_MOST_LAYERS = 4096
_MOST_TEXTS = 64  # layers of one kind that are read whole: one blob may stand there often
_MOST_BYTES = 1 << 44  # of one blob, some 17 TB: it comes in parts, and each takes some memory
_LONGEST_TYPE = 200  # characters
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_OLLAMA = "application/vnd.ollama.image."
_READ_WHOLE = ("params", "template", "license")
_NEEDED = ("model", *_READ_WHOLE)
_KINDS = {"prompt": "template"}  # what a kind was called before


class Layer(NamedTuple):
    """One blob of a model.

    Attributes:
        kind: What it is: ``model``, ``params``, ``template``, ``license``, ``projector`` ... of
            Ollama's media types; any other media type whole.
        digest: ``sha256:`` and 64 hexadecimal digits.
        size: How many bytes it has, as the manifest says.
    """

    kind: str
    digest: str
    size: int

    @property
    def hexadecimal(self) -> str:
        """The digits of its SHA-256."""
        return self.digest.removeprefix("sha256:")

    @property
    def file(self) -> str:
        """The name of its file in a shelf's folder of blobs."""
        return f"sha256-{self.hexadecimal}"


class Manifest(NamedTuple):
    """The blobs of a model, in their order; ``config`` is None where it has none."""

    config: Layer | None
    layers: tuple[Layer, ...]

    def of_kind(self, kind: str) -> list[Layer]:
        """Return its layers of one kind."""
        return [layer for layer in self.layers if layer.kind == kind]

    def all_layers(self) -> tuple[Layer, ...]:
        """Return all that it names: its layers, and its config."""
        return self.layers + (() if self.config is None else (self.config,))

    def needed(self) -> tuple[Layer, ...]:
        """Return what the engine needs of it, and what says what it is: no picture's part, no draft."""
        return tuple(
            layer for layer in self.all_layers() if layer.kind in _NEEDED or layer is self.config
        )


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest that a file or an answer holds.

    Raises:
        ValueError: The reason, as the end of a sentence ("it is not JSON ...").
    """
    value = strictjson.parse(data, limit=MANIFEST_BYTES)
    if not isinstance(value, dict) or value.get("schemaVersion") != _SCHEMA:
        raise ValueError(f"it is not a manifest of schemaVersion {_SCHEMA}")
    layers = value.get("layers")
    if not isinstance(layers, list) or not layers:
        raise ValueError("it names no layers")
    if len(layers) > _MOST_LAYERS:
        raise ValueError(f"it names {len(layers):,} layers, and {_MOST_LAYERS:,} are the most")
    config = value.get("config")
    is_empty = isinstance(config, dict) and config.get("digest") == ""  # as Ollama writes none
    found = Manifest(
        None if config is None or is_empty else _layer(config, "config"),
        tuple(_layer(layer, f"layer {number}") for number, layer in enumerate(layers, 1)),
    )
    for kind in _READ_WHOLE:
        if (count := len(found.of_kind(kind))) > _MOST_TEXTS:
            raise ValueError(
                f"it names {count:,} layers of the kind {kind}, and {_MOST_TEXTS} are the most"
            )
    sizes: dict[str, int] = {}
    for layer in found.all_layers():
        if sizes.setdefault(layer.digest, layer.size) != layer.size:
            raise ValueError(f"it gives {layer.digest[:19]}\u2026 two sizes")
    return found


def _layer(value: Any, where: str) -> Layer:
    if not isinstance(value, dict):
        raise ValueError(f"its {where} is not an object")
    kind, digest, size = (value.get(name) for name in ("mediaType", "digest", "size"))
    if not isinstance(kind, str) or not kind.isprintable() or not 0 < len(kind) <= _LONGEST_TYPE:
        raise ValueError(f"its {where} has no media type")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise ValueError(f"its {where} has no SHA-256 digest")
    if type(size) is not int or not 0 <= size <= _MOST_BYTES:
        raise ValueError(f"its {where} has no size that a file can have")
    kind = kind.removeprefix(_OLLAMA)
    return Layer(_KINDS.get(kind, kind), digest, size)
