"""Shelves of models in Ollama's layout, written by hand, right or wrong."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ore.backends.model_names import parse_name

MODEL_TYPE = "application/vnd.ollama.image.model"
CONFIG = {"model_format": "gguf", "model_family": "llama", "model_type": "134.52M"}


def as_bytes(value: Any) -> bytes:
    """Return bytes as they are, a text in UTF-8, and anything else as JSON."""
    if isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()


def put_blob(root: Path, data: bytes) -> dict[str, Any]:
    """Write a blob and return what a manifest says of it, but for its media type."""
    digest = hashlib.sha256(data).hexdigest()
    path = root / "blobs" / f"sha256-{digest}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def put_model(root: Path, name: str, *models: bytes, config: Any = None, **layers: Any) -> Path:
    """Write a model and return the path of its manifest.

    ``models`` are the bytes of its GGUF files, ``layers`` bytes, texts, lists of them (as many layers),
    or what becomes JSON.
    """
    found = [{"mediaType": MODEL_TYPE, **put_blob(root, model)} for model in models]
    for kind, value in layers.items():
        for each in value if isinstance(value, list) and kind != "messages" else [value]:
            media_type = f"application/vnd.ollama.image.{kind}"
            found.append({"mediaType": media_type, **put_blob(root, as_bytes(each))})
    said = put_blob(root, json.dumps(CONFIG if config is None else config).encode())
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json", **said},
        "layers": found,
    }
    return put_manifest(root, name, json.dumps(manifest).encode())


def put_manifest(root: Path, name: str, data: bytes) -> Path:
    path = root.joinpath("manifests", *parse_name(name))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
