"""What a run asks: the prompt, where its words came from, and with which model.

Knows nothing about modes, backends or sessions.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from ore.cli.input import read_prompt
from ore.cli.options import Options
from ore.errors import ArtifactError, UsageError
from ore.types import ExecutionArtifact

Notice = Callable[[str], None]


@dataclass(frozen=True)
class Asked:
    """What is asked first; in a REPL there may be nothing yet.

    Attributes:
        prompt: The user's text as it is sent, or None.
        typed: The part of it that the user wrote as an argument, or all of it where it came from
            stdin alone. Only this may choose a route: what is piped in below it is data.
        source: ``"prompt"``, ``"stdin"``, or ``"prompt+stdin"`` where both make one message.
        model: The model that was named, or None for the default one.
        parent: ``{"execution_id", "sha256"}`` of the artifact whose prompt is asked, or None.
    """

    prompt: str | None
    typed: str | None
    source: str = "prompt"
    model: str | None = None
    parent: dict[str, str] | None = None


def read_asked(options: Options, stdin: io.BufferedIOBase | None, notice: Notice) -> Asked:
    """Return what argv, stdin or an artifact ask.

    Raises:
        UsageError: There is no prompt, or it is no text.
        ArtifactError: The artifact can't be read, or leaves to it what only the user may choose.
    """
    if options.artifact_in is not None:
        return _from_artifact(options.artifact_in, options.model, stdin, notice)
    written = options.prompt
    if options.is_repl:
        return Asked(written, written, model=options.model)
    try:
        prompt = read_prompt(written, stdin, notice)
    except UsageError as exc:
        if exc.__cause__ is not None:  # there is one, but it can't be read or is no text
            raise
        raise _swallowed(options) or exc from None
    source = "stdin" if written is None else "prompt" if prompt == written else "prompt+stdin"
    return Asked(prompt, prompt if written is None else written, source, options.model)


def _swallowed(options: Options) -> UsageError | None:
    """The error where a bare ``--artifact-out`` has taken the prompt for its PATH."""
    if options.prompt is not None or options.artifact_out in (None, "-"):
        return None
    return UsageError(
        f"There is no prompt: --artifact-out took '{options.artifact_out}' as its PATH. Put the "
        f"prompt before it, or write --artifact-out=-."
    )


def model_of(artifact: ExecutionArtifact, source: str, named: str | None) -> str:
    """Return the model to run an artifact with: the one that the user named, else its own.

    Args:
        artifact: What was read.
        source: What it is called in an error.
        named: The model of ``--model``, or None.

    Raises:
        ArtifactError: It names no model, or a file, which only the user may choose.
    """
    model = named or artifact.input.model_id
    if not model.strip():
        raise ArtifactError(f"{source} names no model: name one with --model.")
    if named is None and model.lower().endswith(".gguf"):
        raise ArtifactError(
            f"{source} names a file as its model: if you trust that file, name it yourself with "
            f"--model."
        )
    return model


def _from_artifact(
    path: str, named: str | None, stdin: io.BufferedIOBase | None, notice: Notice
) -> Asked:
    from ore.artifact import parse_artifact, read_bytes
    from ore.files.neutral import one_line

    data = read_bytes(path, stdin)
    source = "stdin" if path == "-" else path
    artifact = parse_artifact(data, source)
    prompt = artifact.input.prompt
    if not prompt.strip():
        raise ArtifactError(f"The prompt in {source} is blank: there is nothing to ask.")
    model = model_of(artifact, f"The artifact {source}", named)
    run = one_line(artifact.execution_id)
    notice(f"Running the prompt of {run} with the model {one_line(model)}.")
    return Asked(prompt, prompt, model=model, parent=_parent_of(artifact, data))


def _parent_of(artifact: ExecutionArtifact, data: bytes) -> dict[str, str]:
    """Return what a child's ``provenance.parent`` says of an artifact, read as ``data``."""
    from hashlib import sha256

    return {"execution_id": artifact.execution_id, "sha256": sha256(data).hexdigest()}
