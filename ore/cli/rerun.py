"""Which model a recorded run is asked of again, and where that model is.

What an artifact calls its model is a name. Only the user may name a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from ore.artifact.sources import sources_of
from ore.backends import Backend, Settings, local_models, split_pin
from ore.backends.choice import ON_THIS_MACHINE, check_name
from ore.cli.options import Options
from ore.errors import ArtifactError, ModelNotFoundError, UsageError
from ore.files.neutral import one_line
from ore.glass.choosing import reasoner_of
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact

_EMBEDDED = "embedded"
_SERVERS = ("ollama", "openai")
_DIGEST_SHOWN = 12
_MOST_NAMED = 10


@dataclass(frozen=True)
class Rerun:
    """The model that a run is asked of again.

    Attributes:
        model: Its name, or the file that the user named.
        backend: Where it is, by the name of the backend; None is where the flags say.
        is_recorded: Whether the artifact named it, and not the user.
        pin: What its digest is to begin with, where the user pinned it.
    """

    model: str
    backend: str | None
    is_recorded: bool = True
    pin: str | None = None

    def connect(self, options: Options, connect: Callable[..., Backend]) -> Backend:
        """Open the backend; what an artifact named is never taken for a file."""
        chosen = replace(options, model=self.model, backend=self.backend)
        return connect(chosen, is_name=self.is_recorded)

    def check(self, backend: Backend) -> None:
        """Raise where the model can't be the one that is asked for.

        Raises:
            ModelNotFoundError: What the artifact named can't be a model's name there.
            OreError: The user's pin does not hold; see ``Backend.check_digest``.
        """
        if self.pin is not None:
            backend.check_digest(self.model, self.pin)
        if self.is_recorded and backend.name == "ollama":
            try:
                check_name(self.model)
            except UsageError as exc:
                raise ModelNotFoundError(str(exc), model=self.model) from exc
        if self.is_recorded and backend.name == _EMBEDDED and self.model not in backend.models():
            raise ModelNotFoundError(
                f"The embedded engine has no model '{one_line(self.model)}': name one with --model.",
                model=self.model,
            )


class Models:
    """The backends that recorded runs are asked of, and the last reasoner, which ``stack`` closes."""

    def __init__(self, options: Options, connect: Callable[..., Backend], stack: ExitStack) -> None:
        self._options = options
        self._connect = connect
        self._stack = stack
        self._backends: dict[str | None, Backend] = {}
        self._last: tuple[tuple[Backend, str, Settings], Reasoner] | None = None

    def backend(self, rerun: Rerun) -> Backend:
        """Return the backend that the user chose, else the one that the artifact was made with."""
        if rerun.backend not in self._backends:
            self._backends[rerun.backend] = rerun.connect(self._options, self._connect)
        return self._backends[rerun.backend]

    def reasoner(self, backend: Backend, model: str, settings: Settings) -> Reasoner:
        """Return the last reasoner where it fits, for loading a model may take long."""
        key = (backend, model, settings)
        if self._last is None or self._last[0] != key:
            self._last = None
            self._stack.close()
            made = reasoner_of(backend, model, settings)
            self._last = (key, self._stack.enter_context(closing(made)))
        return self._last[1]


def find_model(
    artifact: ExecutionArtifact, source: str, options: Options, follows: bool = False
) -> Rerun:
    """Return the model to run an artifact with: the one that the user named, else its own.

    A model of the embedded engine is found among those that are installed by its digest, whatever
    it is called here.

    Args:
        source: What the artifact is called in an error.
        follows: Whether a run goes where it was made, unless the user says where.

    Raises:
        ArtifactError: It names no model, or a file that is not installed.
    """
    if options.model is not None:
        model, pin = split_pin(options.model)
        return Rerun(model, options.backend, is_recorded=False, pin=pin)
    name, provenance = artifact.input.model_id, artifact.provenance or {}
    if not name.strip():
        raise ArtifactError(f"{source} does not name a model: name one with --model.")
    recorded, digest = provenance.get("backend"), provenance.get("model_digest")
    chosen = options.backend or os.environ.get("ORE_BACKEND")
    if options.host or chosen in _SERVERS:
        return Rerun(name, options.backend)
    if _EMBEDDED in (chosen, recorded):
        here = local_models.same_as(name, digest if isinstance(digest, str) else None)
        if here is not None:
            return Rerun(here, _EMBEDDED)
    if _is_file(name) and recorded != "ollama":
        raise ArtifactError(f"{source} {_file_problem(name, recorded, digest)}")
    goes_back = follows and not chosen and recorded in ON_THIS_MACHINE
    return Rerun(name, recorded if goes_back else options.backend)


def not_repeated(artifact: ExecutionArtifact, options: Options) -> list[str]:
    """Return what a run was given and its prompt alone does not bring, in a few words each.

    Tools, skills, files, images and options; the system prompt where the user gave none for this turn.
    """
    kinds = {re.split("[:#]", source)[0] for source in sources_of(artifact)}
    found = [f"tool {name}" for name in artifact.input.tools or () if not name.startswith("file:")]
    found += [f"skill {name}" for name in artifact.input.skills or ()]
    files = (*(artifact.input.tools or ()), *sources_of(artifact))
    paths = dict.fromkeys(each for each in files if each.startswith("file:"))
    found += [f"file {path.removeprefix('file:')}" for path in paths]
    found += ["its images"] if artifact.output.metadata.get("images") else []
    found += ["its conversation"] if "session" in kinds else []
    found += ["the answer that it went on from"] if "artifact" in kinds else []
    if not (options.persona or options.system or options.no_system):
        persona = (artifact.provenance or {}).get("persona")
        found += [f"persona {persona}"] if isinstance(persona, str) else []
        found += ["its system prompt"] if "system" in kinds else []
    given = (artifact.provenance or {}).get("chat_template")
    found += ["its chat template"] if given and not options.chat_template else []
    found += [f"option {key}" for key in _options_left(artifact, options)]
    more = len(found) - _MOST_NAMED
    shown = [one_line(each) for each in found[:_MOST_NAMED]]
    return [*shown, f"and {more} more"] if more > 0 else shown


def _options_left(artifact: ExecutionArtifact, options: Options) -> list[str]:
    """Return the names of a run's options that the user did not set for this turn."""
    recorded = (artifact.provenance or {}).get("options")
    now = {pair.partition("=")[0].strip() for pair in options.option}
    now |= {"think"} if options.think else set()
    now |= {"format"} if options.schema else set()
    now |= {"choices"} if options.choose else set()
    return [key for key in recorded if key not in now] if isinstance(recorded, dict) else []


def _is_file(name: str) -> bool:
    """Whether a name is that of a file; names of Ollama's may end like one (``hf.co/U/R:X.gguf``)."""
    return name.lower().endswith(".gguf") and ":" not in os.path.basename(name)


def _file_problem(name: str, recorded: object, digest: object) -> str:
    if recorded == "openai":
        return (
            f"was made with a server's model {one_line(name)}: ask that server with --backend "
            f"openai, or name a model with --model."
        )
    known = f" (SHA-256 {one_line(digest[:_DIGEST_SHOWN])}…)" if isinstance(digest, str) else ""
    return (
        f"names a file as its model, {one_line(name)}{known}, and no installed model is the same: "
        f"if you have that file and trust it, name it with --model PATH."
    )
