"""What only the whole file of a model says: its digest, its template, how many parameters it has."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from ore.backends import Model, Progress, gguf, weights
from ore.backends.effective import in_short, template_digest
from ore.errors import FileAccessError
from ore.files.neutral import one_line


def with_digests(model: Model, path: Path, progress: Progress | None = None) -> Model:
    """Return a model with what its whole file says; as it is, where the file can't be read."""
    told = None if progress is None else partial(progress, f"reading {one_line(model.name)}")
    try:
        digest = weights.file_digest(path, told=told)
        template, count = gguf.read_template(path)
    except FileAccessError:
        return model
    return model._replace(
        parameters=in_short(count) or model.parameters,
        digest=digest,
        template_sha256=template_digest(template),
    )
