"""The record of a turn that was answered: its artifact, in the file and the log that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from ore.artifact import encode_artifact, is_artifact_of, write_encoded
from ore.cli.context import Context
from ore.cli.record import Told, artifact_of, keeps_own_text_here, sent_of, turn_of
from ore.cli.runs import Run
from ore.errors import OreError
from ore.glass.limits import became_another, notes_of
from ore.glass.provenance import Sourced, joined_sentence, joined_sources
from ore.types import Response

_STAYS_HERE = (
    "The artifact has only the hash of its system prompt, and the text is on this machine alone: "
    "--artifact-text keeps it."
)


class Recorded(NamedTuple):
    """What became of the artifact of a turn.

    Attributes:
        document: The artifact, None where there can be none.
        errors: What went wrong.
        unsigned: The file that is to be signed once the answer is shown: a passphrase is asked for.
    """

    document: str | None
    errors: list[OreError]
    unsigned: str | None = None

    def sign(self, run: Run) -> OreError | None:
        """Sign what is unsigned, and return what went wrong."""
        if self.unsigned is None or self.document is None or run.signer is None:
            return None
        try:
            run.signer.sign_written(self.unsigned, self.document.encode("ascii"))
        except OreError as exc:
            return exc
        return None


def record(run: Run, context: Context, response: Response, told: Told) -> Recorded:
    """Write the artifact of a turn wherever it is to be, and note it with its session.

    Args:
        told: Returns what was in force in it: see ``ore.cli.record.in_force``.
    """
    try:
        artifact = artifact_of(run, context, response, told())
        document = encode_artifact(artifact)
    except OreError as exc:
        return Recorded(None, [exc])
    if (warning := became_another(artifact, run.model_id, run.pin)) is not None:
        run.console.warning(warning)
    data, paths = document.encode("ascii"), _paths(run, response)
    errors: list[OreError] = []
    written, unsigned = run.options.artifact_out == "-", None
    for path in paths:
        try:
            if run.log is not None:
                run.log.make_folder_of(path)
            write_encoded(data, path)
            written = True
            if run.signer is not None and run.signer.asks:
                unsigned = path
            elif run.signer is not None:
                run.signer.sign_written(path, data)
        except OreError as exc:
            errors.append(exc)
    if written:
        error = run.conversation.note(response.id, sha256(data).hexdigest())
        errors += [error] if error is not None else []
        tell_what_stays_here(run)
    return Recorded(document, errors, unsigned)


def tell_what_stays_here(run: Run) -> None:
    """Say once a run where only this machine has the system prompt of what was recorded."""
    if run.conversation.says_first(_STAYS_HERE) and keeps_own_text_here(run):  # looked at once
        run.console.notice(_STAYS_HERE)


def tell_of_prompt(run: Run, response: Response) -> None:
    """Say which messages were sent as one, and once a run and model what else became of them."""
    tell_of_messages(run, response.metadata, turn_of(run, sent_of(response)).messages)


def tell_of_messages(run: Run, known: Mapping[str, Any], messages: Sequence[Sourced]) -> None:
    """Say what became of ``messages`` before the model read them, as an answer's metadata say it."""
    joined = joined_sources(known.get("joined"), messages)
    if joined:
        always = run.options.join_messages == "always"
        run.console.notice(joined_sentence(joined, always=always))
    for text in notes_of(known):
        if run.conversation.says_first(f"{run.model_id}: {text}"):  # there may be another one later
            run.console.notice(text)


def is_recorded(run: Run, response: Response) -> bool:
    """Return whether the artifact of a turn is in a file, where it was to be in one."""
    return any(_written(run, response))


def is_signed(run: Run, response: Response) -> bool:
    """Return whether the artifact of a turn is signed wherever it is, or is not to be signed."""
    return run.signer is None or all(map(run.signer.has_signed, _written(run, response)))


def _written(run: Run, response: Response) -> list[str]:
    return [path for path in _paths(run, response) if is_artifact_of(response.id, path)]


def _paths(run: Run, response: Response) -> list[str]:
    paths = [] if run.options.artifact_out in (None, "-") else [str(run.options.artifact_out)]
    if run.log is not None:
        paths.append(str(run.log.path_of(response.id, response.timestamp)))
    return paths
