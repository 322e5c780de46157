"""A recorded run opened again with its own model, to be looked into: its messages and its reasoner."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from ore.artifact import read_artifact
from ore.backends import Backend
from ore.backends.chat_template import read_chat_template
from ore.cli.options import Options
from ore.cli.rerun import Models, find_model
from ore.cli.terminal.console import Console
from ore.errors import ArtifactError, CheckFailedError
from ore.files.neutral import one_line
from ore.glass.provenance import Sourced
from ore.glass.recall import recorded_messages, recorded_settings, recorded_template
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact

_DIGITS = 12


@dataclass(frozen=True)
class Opened:
    """What a recorded run was.

    Attributes:
        messages: What was sent.
        reasoner: Has the options of the run.
        backend: Where it comes from.
        joins: Whether messages were joined.
    """

    messages: list[Sourced]
    reasoner: Reasoner
    backend: Backend
    joins: bool


class Reopening:
    """Opens recorded runs; ``stack`` closes the last reasoner. ``paths`` may name what they went on from."""

    def __init__(
        self,
        options: Options,
        console: Console,
        connect: Callable[..., Backend],
        stack: ExitStack,
        paths: Sequence[str] = (),
    ) -> None:
        self._options = options
        self._console = console
        self._models = Models(options, connect, stack)
        self._paths = paths
        path = options.chat_template
        self._template = None if path is None else read_chat_template(path)

    def open(self, artifact: ExecutionArtifact) -> Opened:
        """Return what a run was.

        Raises:
            CheckFailedError: The model is another one by now.
            ArtifactError: The artifact does not hold enough of the run.
            ModelNotFoundError: The model is not here.
            CapabilityError: The backend does not have what the run was asked with.
        """
        rerun = find_model(artifact, "It", self._options, follows=True)
        settings = recorded_settings(
            artifact,
            {},
            timeout=self._options.timeout,
            deadline=self._options.deadline,
            chat_template=recorded_template(artifact, self._template),
        )
        _, messages = recorded_messages(artifact, self._console.notice, self._others)
        backend = self._models.backend(rerun)
        settings = replace(settings, choices=None)  # a given text is followed, or scored
        if backend.name != "ollama":
            settings = replace(settings, keep_alive=None)
        rerun.check(backend)
        _check_model(artifact, backend.provenance(rerun.model)["model_digest"], rerun.model)
        reasoner = self._models.reasoner(backend, rerun.model, settings)
        joins = bool((artifact.provenance or {}).get("joined"))
        return Opened(messages, reasoner, backend, joins)

    def _others(self) -> Iterator[ExecutionArtifact]:
        for path in self._paths:
            if os.path.isfile(path):
                with suppress(ArtifactError):
                    yield read_artifact(path)


def _check_model(artifact: ExecutionArtifact, here: str | None, model: str) -> None:
    recorded = (artifact.provenance or {}).get("model_digest")
    if not isinstance(recorded, str):
        raise ArtifactError("it has no digest of its model: nobody knows which one that was")
    if here is None:
        raise ArtifactError(f"the digest of {one_line(model)} is not known here")
    if here != recorded:
        raise CheckFailedError(
            f"the model is another one: the SHA-256 of {one_line(model)} begins with "
            f"{one_line(here)[:_DIGITS]} here, and with {one_line(recorded)[:_DIGITS]} in the run"
        )
