"""Which model a recorded run is asked of again, and where that model is.

What an artifact calls its model is a name. Only the user may name a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ore.artifact.canonical import DIGITS_SHOWN, text_digest
from ore.artifact.sources import PERSONA, SYSTEM, hashed_sources
from ore.backends import Backend, local_models, split_pin, weights
from ore.backends.choice import ON_THIS_MACHINE, Choice, check_name
from ore.backends.model_names import is_name
from ore.errors import ArtifactError, CapabilityError, ModelNotFoundError, UsageError
from ore.files.neutral import brief, one_line
from ore.files.strictjson import is_list, part
from ore.types import ExecutionArtifact

_EMBEDDED = "embedded"
_SERVERS = ("ollama", "openai")
_MOST_NAMED = 10


@dataclass(frozen=True)
class Rerun:
    """The model that a run is asked of again.

    Attributes:
        model: Its name, or the file that the user named.
        backend: Where it is, by the name of the backend; None is where the user says.
        is_recorded: Whether the artifact named it, and not the user.
        pin: What its digest is to begin with, where the user pinned it.
    """

    model: str
    backend: str | None
    is_recorded: bool = True
    pin: str | None = None

    def connect(self, wanted: Choice, connect: Callable[[Choice], Backend]) -> Backend:
        """Open the backend; what an artifact named is never taken for a file.

        Args:
            wanted: What the user said of the backend and the model.
            connect: What opens a backend.
        """
        chosen = wanted._replace(model=self.model, backend=self.backend, is_name=self.is_recorded)
        return connect(chosen)

    def check(self, backend: Backend) -> None:
        """Raise where the model can't be the one that is asked for.

        Args:
            backend: What ``connect`` returned.

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
            if weights.has_pinned_file(self.model):
                raise weights.not_found_error(self.model, ())  # it says what is wrong with the file
            way = "name one with `model=`"
            if is_name(self.model):
                way = f"fetch it with `EmbeddedBackend.pull('{self.model}')`, or {way}"
            raise ModelNotFoundError(
                f"The embedded engine has no model '{brief(self.model)}': {way}.",
                model=self.model,
            )


def find_model(
    artifact: ExecutionArtifact, source: str, wanted: Choice, follows: bool = False
) -> Rerun:
    """Return the model to run an artifact with: the one that the user named, else its own.

    A model of the embedded engine is found among those that are installed by its digest, whatever
    it is called here.

    Args:
        artifact: The run.
        source: What the artifact is called in an error.
        wanted: What the user said of the backend and the model.
        follows: Whether a run goes where it was made, unless the user says where.

    Raises:
        ArtifactError: It names no model, or a file that is not installed.
    """
    if wanted.model is not None:
        model, pin = split_pin(wanted.model)
        return Rerun(model, wanted.backend, is_recorded=False, pin=pin)
    name, provenance = artifact.input.model_id, artifact.provenance or {}
    if not name.strip():
        raise ArtifactError(f"{source} does not name a model: name one with `model=`.")
    recorded, digest = provenance.get("backend"), provenance.get("model_digest")
    chosen = wanted.backend or os.environ.get("ORE_BACKEND")
    if wanted.host or chosen in _SERVERS:
        return Rerun(name, wanted.backend)
    if _EMBEDDED in (chosen, recorded):
        here = local_models.same_as(name, digest if isinstance(digest, str) else None)
        if here is not None:
            return Rerun(here, _EMBEDDED)
    if _is_file(name) and recorded != "ollama":
        raise ArtifactError(f"{source} {_file_problem(name, recorded, digest)}")
    goes_back = follows and not chosen and recorded in ON_THIS_MACHINE
    return Rerun(name, recorded if goes_back else wanted.backend)


def not_repeated(
    artifact: ExecutionArtifact,
    *,
    has_system: bool = False,
    usual_system: str = "",
    has_template: bool = False,
    images: Collection[str] = (),
    options: Collection[str] = (),
) -> list[str]:
    """Return what a run was given and its prompt alone does not bring, in a few words each.

    Tools, skills, files, images, its conversation; and what is not given anew of its system prompt,
    its chat template and its options.

    Args:
        artifact: The run.
        has_system: Whether a system prompt is given for this turn, or none on purpose.
        usual_system: The text that is sent otherwise.
        has_template: Whether a chat template is given.
        images: The SHA-256 of those that are given.
        options: The names of the options that are given, ``think``, ``format``, ``choices`` among them.
    """
    sent = hashed_sources(artifact)
    kinds = {re.split("[:#]", source)[0] for source, _ in sent}
    found = [f"tool {name}" for name in artifact.input.tools or () if not name.startswith("file:")]
    found += [f"skill {name}" for name in artifact.input.skills or ()]
    files = (*(artifact.input.tools or ()), *(source for source, _ in sent))
    paths = dict.fromkeys(each for each in files if each.startswith("file:"))
    found += [f"file {path.removeprefix('file:')}" for path in paths]
    seen = artifact.output.metadata.get("images")
    has_all = is_list(seen) and all(each in images for each in seen)
    found += ["its images"] if seen and not has_all else []
    found += ["its conversation"] if "session" in kinds else []
    found += ["the answer that it went on from"] if "artifact" in kinds else []
    provenance = artifact.provenance or {}
    known = {sha256 for source, sha256 in sent if source in (PERSONA, SYSTEM)}
    if not has_system and text_digest(usual_system) not in known:
        persona = provenance.get("persona")
        is_aya = PERSONA in kinds and not isinstance(persona, str)
        found += [f"persona {persona}"] if isinstance(persona, str) else []
        found += ["its system prompt"] if SYSTEM in kinds or is_aya else []
        had_none = sent and usual_system != "" and not kinds & {PERSONA, SYSTEM}
        found += ["having no system prompt"] if had_none else []
    found += ["its chat template"] if provenance.get("chat_template") and not has_template else []
    recorded = part(provenance, "options")
    found += [f"option {name}" for name in recorded if name not in options]
    more = len(found) - _MOST_NAMED
    shown = [brief(each) for each in found[:_MOST_NAMED]]
    return [*shown, f"and {more} more"] if more > 0 else shown


def not_there(artifact: ExecutionArtifact, backend: Backend, error: CapabilityError) -> str | None:
    """Return what to do where the backend lacks a run's own option; None where it is not the run's.

    Args:
        artifact: The run.
        backend: Where it was asked again.
        error: What was raised over it.
    """
    provenance, name = artifact.provenance or {}, error.setting
    if name == "chat_template" and provenance.get("chat_template"):
        what = "its chat template"
    elif name and name in part(provenance, "options"):
        what = f"its option '{name}'"
    else:
        return None
    made_with = provenance.get("backend")
    if name == "think" and made_with == backend.name:
        return f"{what} can't be asked of this model: name one with `model=` that can think"
    is_another = made_with in (_EMBEDDED, *_SERVERS) and made_with != backend.name
    advice = f": ask the one that made it, with `backend='{made_with}'`" if is_another else ""
    return f"{what} can't be asked of the backend {backend.name}{advice}"


def _is_file(name: str) -> bool:
    """Whether a name is that of a file; names of Ollama's may end like one (``hf.co/U/R:X.gguf``)."""
    return name.lower().endswith(".gguf") and ":" not in os.path.basename(name)


def _file_problem(name: str, recorded: object, digest: object) -> str:
    if recorded == "openai":
        return (
            f"was made with a server's model {brief(name)}: ask that server with "
            f"`backend='openai'`, or name a model with `model=`."
        )
    known = f" (SHA-256 {one_line(digest[:DIGITS_SHOWN])}…)" if isinstance(digest, str) else ""
    return (
        f"names a file as its model, {brief(name)}{known}, and no installed model is the same: "
        f"if you have that file and trust it, name it with `model=PATH`."
    )
