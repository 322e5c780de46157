"""What only the whole file of a model says: its digest, its template, how many parameters it has."""

from __future__ import annotations

from pathlib import Path

from ore.backends import Model, gguf, weights
from ore.backends.effective import in_short, template_digest
from ore.errors import FileAccessError


def with_digests(model: Model, path: Path) -> Model:
    """Return a model with what its whole file says; as it is, where the file can't be read."""
    try:
        digest, (template, count) = weights.file_digest(path), gguf.read_template(path)
    except FileAccessError:
        return model
    return model._replace(
        parameters=in_short(count) or model.parameters,
        digest=digest,
        template_sha256=template_digest(template),
    )
