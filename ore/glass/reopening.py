"""Recorded runs opened again with their own models: to be asked once more, followed, or scored."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ore.artifact.canonical import DIGITS_SHOWN, text_digest
from ore.backends import Backend
from ore.backends.choice import Choice, nobody, open_backend
from ore.backends.model_options import as_pairs, checked_seconds, parse_options
from ore.backends.settings import Settings
from ore.errors import ArtifactError, CapabilityError, CheckFailedError, OreError, UsageError
from ore.files.neutral import brief, one_line
from ore.files.strictjson import part
from ore.glass.choosing import reasoner_of
from ore.glass.earlier import Earlier
from ore.glass.provenance import Sourced
from ore.glass.recall import recorded_messages, recorded_settings, recorded_template
from ore.glass.rerun import Rerun, find_model, not_there
from ore.reasoner import Reasoner
from ore.reasoner.closing import Closing
from ore.types import ExecutionArtifact

MOST_UNLOADS = 3
"""After how many runs in a row a model is unloaded no more, where that changed no answer: it takes long."""


@dataclass(frozen=True)
class Recalled:
    """What a recorded run is asked again with.

    Attributes:
        rerun: The model, and where it is.
        settings: What is asked of the model.
        how: Whether the messages were ``"embedded"`` in the artifact, or are ``"rebuilt"``.
        messages: What is sent, with the source of each.
        apart: The backend where they were sent as they are and are to be so again; None is no such one.
    """

    rerun: Rerun
    settings: Settings
    how: str
    messages: list[Sourced]
    apart: str | None = None


@dataclass(frozen=True)
class Opened:
    """What a recorded run was, with the model that it was asked of.

    Attributes:
        messages: What was sent, with the source of each.
        reasoner: Has the options of the run; what opened it closes it.
        backend: Where it comes from.
        joins: Whether messages were joined.
    """

    messages: list[Sourced]
    reasoner: Reasoner
    backend: Backend
    joins: bool


def _connect(wanted: Choice) -> Backend:
    return open_backend(wanted, os.environ)


def _unseen(phase: Callable[[], str]) -> AbstractContextManager[None]:
    return nullcontext()


class Reopening(Closing):
    """Opens recorded runs again, each with its own model; the last one stays loaded until ``close``.

    A run is asked of the model that it names, on the backend that it was made with where that is on
    this machine; of a file as its model, one that is installed and has its digest. The arguments say
    what is to be another one. As a context manager it closes the model at the end of the block.

    Args:
        model: What answers in the place of each run's own model: a name, maybe with its pin, or the
            path of a GGUF file.
        backend: ``"ollama"``, ``"embedded"``, ``"openai"`` or ``"auto"``; None is where each run was
            made, or what ``ORE_BACKEND`` names.
        host: The server's address; None is what the environment names, else the default one.
        options: The model's options in the place of the recorded ones of these names; or texts
            ``KEY=VALUE``.
        timeout: The longest silence to accept, in seconds; None waits.
        deadline: The longest a whole turn, or a scoring, may take, in seconds; None waits.
        strict_context: A prompt that does not fit the context window is an error.
        chat_template: The text of the chat template in the place of the recorded one.
        others: Where the answer is looked for that a run went on from: artifacts, or paths of their
            files, which are read when one is needed; None where the user can't name any.
        notice: Called with what to know of how messages were rebuilt, and of an answer that is not what
            was asked for, a sentence each.
        waiting: Entered while a model is asked; it is given what says what the model is doing.
        connect: What opens a backend; None is ``ore.backends.choice.open_backend``.

    Raises:
        UsageError: An option is unknown, or has a value of another type; or a limit is not a time to wait.
    """

    def __init__(
        self,
        model: str | None = None,
        *,
        backend: str | None = None,
        host: str | None = None,
        options: Mapping[str, Any] | Sequence[str] = (),
        timeout: float | None = None,
        deadline: float | None = None,
        strict_context: bool = False,
        chat_template: str | None = None,
        others: Iterable[ExecutionArtifact | Path | str] | None = (),
        notice: Callable[[str], None] = nobody,
        waiting: Callable[[Callable[[], str]], AbstractContextManager[None]] = _unseen,
        connect: Callable[[Choice], Backend] | None = None,
    ) -> None:
        bounds = {"timeout": timeout, "deadline": deadline}
        given = [checked_seconds(name, each) for name, each in bounds.items()]
        seconds = min((each for each in given if each is not None), default=None)
        self.wanted: Choice = Choice(backend=backend, model=model, host=host, seconds=seconds)
        texts = as_pairs(options) if isinstance(options, Mapping) else list(options)
        self.option_texts: list[str] = texts
        self.options: dict[str, Any] = parse_options(texts)
        self.chat_template = chat_template
        self.waiting = waiting
        self.unloads_in_vain: Counter[tuple[str | None, str]] = Counter()
        self._bounds: dict[str, Any] = {**bounds, "strict_context": strict_context}
        self.notice = notice
        self._others = None if others is None else Earlier(others)
        self._connect = connect or _connect
        self._backends: dict[str | None, Backend] = {}
        self._stack = ExitStack()
        self._last: tuple[tuple[Backend, str, Settings], Reasoner] | None = None

    def recall(self, artifact: ExecutionArtifact) -> Recalled:
        """Return what a run is asked again with; no server and no model is asked anything.

        Args:
            artifact: The run.

        Raises:
            ArtifactError: It does not hold enough of the run, or its model can't be found.
            OreError: What it names can't be read, or an option can't be used.
        """
        rerun = find_model(artifact, "It", self.wanted, follows=True)
        template = recorded_template(artifact, self.chat_template)
        settings = recorded_settings(artifact, self.options, chat_template=template, **self._bounds)
        how, messages = recorded_messages(artifact, self.notice, self._others)
        apart, provenance = None, artifact.provenance or {}
        if rerun.is_recorded and rerun.backend in (None, provenance.get("backend")):
            is_told = settings.choices is None and "logprobs" in artifact.output.metadata
            settings = replace(settings, logprobs=is_told)
        if rerun.is_recorded and self.chat_template is None and provenance.get("joined", 0) is None:
            apart = provenance.get("backend")
        return Recalled(rerun, settings, how, messages, apart)

    def backend(self, recalled: Recalled) -> Backend:
        """Return the backend that the user chose, else the one that the run was made with.

        Args:
            recalled: What ``recall`` returned.

        Raises:
            OreError: It can't be used.
        """
        where = recalled.rerun.backend
        if where not in self._backends:
            self._backends[where] = recalled.rerun.connect(self.wanted, self._connect)
        return self._backends[where]

    def settings(self, recalled: Recalled) -> Settings:
        """Return what is asked of the model there: only Ollama is told how long it keeps a model.

        Messages that were not joined are sent as they are again, to the server that took them so; the
        engine refuses what would get lost, and answers whatever does not.

        Args:
            recalled: What ``recall`` returned.
        """
        name, settings = self.backend(recalled).name, recalled.settings
        settings = settings if name == "ollama" else replace(settings, keep_alive=None)
        is_apart = recalled.apart == name != "embedded"
        return replace(settings, joins=False) if is_apart else settings

    def reasoner(self, recalled: Recalled, settings: Settings) -> Reasoner:
        """Return what asks the model; the last one where it fits, for loading one may take long.

        Args:
            recalled: What ``recall`` returned.
            settings: What is asked of the model.

        Raises:
            ModelNotFoundError: The model is not here.
            CapabilityError: The backend does not have what is asked of it.
        """
        backend, model = self.backend(recalled), recalled.rerun.model
        if self._last is None or self._last[0] != (backend, model, settings):
            self.close()
            made = self._stack.enter_context(closing(reasoner_of(backend, model, settings)))
            self._last = ((backend, model, settings), made)
        return self._last[1]

    def open(self, artifact: ExecutionArtifact) -> Opened:
        """Return what a run was, once it is sure that its model is here and is the same.

        Words that were chosen from are no part of it: an answer is followed, or scored, as it is.

        Args:
            artifact: The run.

        Raises:
            CheckFailedError: The model is another one by now.
            ArtifactError: The artifact does not hold enough of the run, or had another chat template.
            ModelNotFoundError: The model is not here.
            CapabilityError: The backend does not have what the run was asked with.
        """
        recalled = self.recall(artifact)
        backend = self.backend(recalled)
        settings = replace(self.settings(recalled), choices=None)
        recalled.rerun.check(backend)
        model = recalled.rerun.model
        _check_model(artifact, backend, model)
        _check_template(artifact, self.chat_template)
        try:
            reasoner = self.reasoner(recalled, settings)
        except UsageError as exc:
            if self.options:
                raise
            raise ArtifactError(f"its options can't be used: {exc}") from exc
        except CapabilityError as exc:
            why = not_there(artifact, backend, exc)
            if why is None:
                raise
            raise ArtifactError(why) from exc
        joins = bool((artifact.provenance or {}).get("joined"))
        return Opened(recalled.messages, reasoner, backend, joins)

    def close(self) -> None:
        """Close the model that is loaded. May be called twice; a run that is opened loads one anew."""
        self._last = None
        self._stack.close()


def _check_model(artifact: ExecutionArtifact, backend: Backend, model: str) -> None:
    here = backend.provenance(model)["model_digest"]
    recorded = (artifact.provenance or {}).get("model_digest")
    if not isinstance(recorded, str):
        raise ArtifactError("it has no digest of its model: nobody knows which one that was")
    if here is None:
        why = _why_unknown(backend, model)
        raise ArtifactError(f"the digest of {brief(model)} is not known here{why}")
    made_with = (artifact.provenance or {}).get("backend")
    if here != recorded and "ollama" in (made_with, backend.name) and made_with != backend.name:
        advice = f"ask its prompt of the backend {backend.name}, and take that run"
        if backend.name == "ollama":  # which neither follows an answer nor scores one
            advice = "ask the engine that made it, with `backend='embedded'`"
        raise ArtifactError(
            f"Ollama's digests are of manifests and the embedded engine's of weights, so nobody knows "
            f"whether the model is the same: {advice}"
        )
    if here != recorded:
        raise CheckFailedError(
            f"the model is another one: the SHA-256 of {brief(model)} begins with "
            f"{one_line(here)[:DIGITS_SHOWN]} here, and with {one_line(recorded)[:DIGITS_SHOWN]} in the run"
        )


def _check_template(artifact: ExecutionArtifact, given: str | None) -> None:
    """Raise ``ArtifactError`` where the run is known to have been asked with another template."""
    provenance = artifact.provenance or {}
    recorded = part(provenance, "chat_template").get("sha256")
    if recorded is None:
        recorded = part(provenance, "effective").get("template_sha256")
    here = recorded if given is None else text_digest(given)
    if isinstance(recorded, str) and here != recorded:
        raise ArtifactError(
            f"the chat template is another one: its SHA-256 begins with {str(here)[:DIGITS_SHOWN]}, and that "
            f"of the run's with {one_line(recorded)[:DIGITS_SHOWN]}"
        )


def _why_unknown(backend: Backend, model: str) -> str:
    """Return why nobody says the digest of a model, as the end of a sentence; empty if that is unknown."""
    try:
        backend.reasoner(model, Settings()).close()  # raises where it knows that there is none
        names = backend.models()
    except OreError as exc:
        return f": {str(exc).rstrip('.')}"
    is_there = backend.name != "ollama" or {model, f"{model}:latest"} & set(names)
    return "" if is_there else ": there is no such model; `Backend.models()` shows what there is"
