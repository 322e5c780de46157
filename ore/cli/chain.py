"""A turn that is made from an earlier run: the artifact that is read for it, and what is kept of that.

What an artifact says is data: it is sent or shown, and never obeyed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ore.artifact import parse_artifact, read_bytes
from ore.artifact.sources import ANSWER, PROMPT, answered_by
from ore.artifact.verify import HOLDS, check
from ore.cli.chosen import wanted_of
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.core import load_aya_system_prompt
from ore.errors import ArtifactError, CheckFailedError, UsageError
from ore.files.neutral import brief, one_line
from ore.glass.rerun import Rerun, find_model, not_repeated
from ore.types import ExecutionArtifact
from ore.types.artifact_fields import cut_off_by


@dataclass(frozen=True)
class Link:
    """An artifact that a turn is made from.

    Attributes:
        artifact: What was read.
        parent: ``execution_id``, ``sha256`` of the bytes that were read, and ``relation``, which is
            ``PROMPT`` or ``ANSWER``.
        rerun: The model that its prompt is asked of; None where its answer is gone on from.
    """

    artifact: ExecutionArtifact
    parent: dict[str, str]
    rerun: Rerun | None = None

    @property
    def after(self) -> ExecutionArtifact | None:
        """The artifact whose answer is sent, if that is what is taken of it."""
        return self.artifact if self.parent["relation"] == ANSWER else None


def read_link(
    options: Options, console: Console, system: str | None, images: Sequence[bytes]
) -> Link:
    """Read the artifact of ``--artifact-in``, whose prompt is asked anew, or of ``--after``.

    What a user should know of it is said: a continuation, what of its run is not repeated.

    Args:
        system: The system prompt that is sent; None is Aya's.
        images: What is sent with the prompt.

    Raises:
        ArtifactError: It can't be read, is not an artifact, or its prompt can't be asked.
        CheckFailedError: Its answer is to be sent, and it does not verify.
        UsageError: What is written would replace it.
    """
    is_prompt = options.artifact_in is not None
    relation, path = (PROMPT, options.artifact_in) if is_prompt else (ANSWER, options.after)
    path = path or ""
    if path != "-" and options.artifact_out not in (None, "-"):
        if os.path.realpath(path) == os.path.realpath(str(options.artifact_out)):
            flag = "--artifact-in" if is_prompt else "--after"
            raise UsageError(
                f"--artifact-out would replace the artifact that {flag} reads: name another file, or "
                f"the chain could not be checked."
            )
    data = read_bytes(path, console.stdin)
    source = "stdin" if path == "-" else one_line(path)
    if path == "-" and not data:
        raise ArtifactError(
            "There is no artifact on stdin: the command before this one wrote none; see what it says."
        )
    artifact = parse_artifact(data, source)
    if relation == ANSWER:
        _require_whole(data, source)
        if not artifact.execution_id.isprintable():
            raise ArtifactError(
                f"{source} can't be continued, because its execution_id is not one line of plain text: "
                f"ask its prompt again with --artifact-in, or continue another artifact."
            )
        _tell_answer(artifact, console)
    if artifact.continuation.requested:
        why = brief(artifact.continuation.reason or "it gives no reason")
        shown = brief(artifact.execution_id)
        console.notice(f"The run {shown} declares a continuation: {why}")
    digest = sha256(data).hexdigest()
    parent = {"execution_id": artifact.execution_id, "sha256": digest, "relation": relation}
    if not is_prompt:
        return Link(artifact, parent)
    return Link(artifact, parent, _rerun(artifact, source, options, console, system, images))


def _rerun(
    artifact: ExecutionArtifact,
    source: str,
    options: Options,
    console: Console,
    system: str | None,
    images: Sequence[bytes],
) -> Rerun:
    if not artifact.input.prompt.strip():
        raise ArtifactError(
            f"The prompt in {source} is blank: name an artifact that asks something."
        )
    rerun = find_model(artifact, f"The artifact {source}", wanted_of(options))
    left = not_repeated(
        artifact,
        has_system=options.system_flag is not None,
        usual_system=load_aya_system_prompt() if system is None else system,
        has_template=bool(options.chat_template),
        images=[sha256(each).hexdigest() for each in images],
        options=_options_given(options),
    )
    run = brief(artifact.execution_id)
    console.notice(f"Running the prompt of {run} with the model {brief(rerun.model)}.")
    if left:
        console.notice(f"Not repeated from that run: {', '.join(left)}.")
    return rerun


def _options_given(options: Options) -> set[str]:
    """Return the names of the options that the flags set for this turn, as artifacts name them."""
    flags = {"think": options.think, "format": options.schema, "choices": options.choose}
    return options.options_set | {name for name, value in flags.items() if value}


def _require_whole(data: bytes, source: str) -> None:
    checked = check(data, source)
    if checked.state != HOLDS:
        why = one_line("; ".join(checked.problems or checked.notes))
        raise CheckFailedError(
            f"{source} does not verify, so nothing was sent: {why}. Continue an artifact that was "
            f"not changed."
        )


def _tell_answer(artifact: ExecutionArtifact, console: Console) -> None:
    run, model = brief(artifact.execution_id), brief(answered_by(artifact))
    how = "" if cut_off_by(artifact.output.metadata) is None else ", which was cut off"
    how = how if artifact.output.content.strip() else ", which is empty"
    console.notice(f"Going on from the answer of {run} ({model}){how}.")
