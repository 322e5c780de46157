"""What a backend is: where models live, and what makes reasoners; only the chosen one is imported."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ore.backends.model_names import checked_name
from ore.backends.turn_errors import NotPinnedError
from ore.errors import BackendTimeoutError, CapabilityError, ModelNotFoundError, UsageError
from ore.files.neutral import brief

if TYPE_CHECKING:  # a list of models does without
    from ore.backends.reading import Reading
    from ore.backends.settings import Settings
    from ore.reasoner import Reasoner
    from ore.types import Message

PREFERRED_MODELS = ("llama3.2", "llama3.1", "llama3", "mistral", "llama2", "qwen2.5")
"""Which model answers when none is named, best first, as Ollama names them."""


class Model(NamedTuple):
    """A model that is there, and what is known of it.

    Attributes:
        name: Its name, as the backend lists it.
        size: The bytes of its file.
        parameters: How many parameters it has, as its server writes it (``"3.2B"``).
        quantization: How its numbers are stored (``"Q4_K_M"``).
        window: The largest context window, in tokens.
        capabilities: What it can do, as Ollama names it (``"completion"``, ``"vision"``).
        digest: Its SHA-256, in hexadecimal digits: what ``split_pin`` pins.
        template_sha256: The SHA-256 of its chat template, in UTF-8.
        where: The folder that it is kept in; None for a server's. ``problem`` is why it can't be run.
    """

    name: str
    size: int | None = None
    parameters: str | None = None
    quantization: str | None = None
    window: int | None = None
    capabilities: tuple[str, ...] | None = None
    digest: str | None = None
    template_sha256: str | None = None
    where: str | None = None
    problem: str | None = None

    @property
    def can_answer(self) -> bool:
        """Whether it answers prompts; one for embeddings alone does not."""
        return self.capabilities is None or "completion" in self.capabilities


Progress = Callable[[str, int, int], None]
"""Called with what is being done, the bytes there are and the bytes expected (0: not known)."""


class Backend(ABC):
    """A place where models run.

    Attributes:
        name: ``"ollama"``, ``"embedded"``, ``"openai"``.
        host: The address of the server, or None without one.
        at_once: How many turns a run over rows takes at once where nobody says it.
    """

    name: str
    at_once: int = 4
    host: str | None = None
    _phase: Callable[[], str] | None = None  # of the reasoner that was made last

    @abstractmethod
    def models(self) -> list[str]:
        """Return the names of the models that are there.

        Raises:
            BackendError: The backend does not answer.
        """

    def described(self, *, whole: bool = False) -> list[Model]:
        """Return what is known of each model that is there, in the order of ``models``.

        With ``whole``, its digest and its template too, which may take long to find out.

        Raises:
            BackendError: The backend does not answer.
        """
        return [Model(name) for name in self.models()]

    @abstractmethod
    def default_model(self) -> str | None:
        """Return the model to use when none is named, or None when there is none."""

    def listed(
        self, *, whole: bool = False, progress: Progress | None = None
    ) -> tuple[list[Model], str | None]:
        """Return what ``described`` and ``default_model`` do, looked up once where that is possible.

        With ``whole``, each model with its digest and its template; ``progress`` is told how far a
        file is that is read for them.
        """
        found, default = self.described(whole=whole), None
        with suppress(BackendTimeoutError):  # what there is can be listed all the same
            default = self.default_model()
        return found, default

    def about_default(self, model_id: str) -> str | None:
        """Return the sentence that ``model_id`` answers, the default, where nobody expects it."""
        return None

    def _not_preferred(self, model_id: str) -> str:
        """Return the sentence that ``model_id`` was chosen because no preferred model is there."""
        name = brief(" ".join(model_id.split()))
        return f"No preferred model is there, so {name} answers: `model_id=` names another one."

    def no_default(self) -> str:
        """Return the sentence for when there is no default model: why, and what to do."""
        where = f" on {self.host}" if self.host else ""
        return (
            f"No model that can answer is installed{where}: fetch one with `Backend.pull(NAME)`, as "
            f"`Backend.pull('llama3.2')`, or name one with `model_id=`, as you must for a model of "
            f"Ollama's cloud."
        )

    def no_models(self) -> str:
        """Return the sentence for when a list of models is empty: what to do."""
        return "No model is installed: fetch one with `Backend.pull(NAME)`."

    @abstractmethod
    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Fetch the model ``name``, whole or not at all, telling ``progress`` how far it is.

        With ``insecure``, a registry on another machine may be asked over http.

        Raises:
            BackendError: It is not there, or can't be fetched.
        """

    def licenses(self, model_id: str) -> list[str]:
        """Return the licences that came with ``model_id``, as texts; raises where it is not there."""
        return []

    def prepare(self) -> None:
        """Import what the first turn needs, so that a user who has typed need not wait for it.

        Raises:
            OreError: It is not installed, or can't be used.
        """

    def name_of(self, model_id: str) -> str:
        """Return what an artifact calls ``model_id``: never a path of this machine."""
        return model_id

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return ``server_version``, and ``model_digest``, the SHA-256 of ``model_id``.

        Each is None where it is not known. May ask the server. Never raises.
        """
        return {"server_version": None, "model_digest": None}

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        """Return what ``ore.backends.effective`` takes of the last turn; asks once at most.

        It was a turn of ``model_id`` with these ``settings``. Never raises.
        """
        return {}

    def check_digest(self, model_id: str, pin: str) -> None:
        """Raise where the digest of ``model_id`` does not begin with the digits of ``pin``.

        Raises:
            CheckFailedError: It is another model.
            CapabilityError: The backend does not know the digest.
            ModelNotFoundError: There is no such model.
            BackendError: The backend does not answer.
        """
        found = self.provenance(model_id)["model_digest"]
        found = found and found.lower().removeprefix("sha256:")
        if found and found.startswith(pin):
            return
        if found:
            raise NotPinnedError(
                f"{model_id} is not the model that is pinned: its digest is sha256:{found}, and the "
                f"pin says sha256:{pin}. Nothing was sent. Fetch the pinned one, or change the pin."
            )
        settings = import_module("ore.backends.settings").Settings()
        self.reasoner(model_id, settings).close()  # raises where it knows that there is none
        names = self.models()
        if not {model_id, f"{model_id}:latest"} & set(names):
            raise ModelNotFoundError(
                f"There is no model '{model_id}', so its pin can't be checked: "
                f"`Backend.models()` shows what there is.",
                model=model_id,
                host=self.host,
                available=tuple(names),
            )
        raise CapabilityError(
            f"The digest of {model_id} is not known, so its pin can't be checked and nothing was "
            f"sent: try again, or leave the pin out.",
            host=self.host,
        )

    def reading(self, model_id: str, messages: list[Message], settings: Settings) -> Reading | None:
        """Return what ``model_id`` reads of ``messages`` with ``settings``; None where nobody knows.

        No chat is sent. Raises what a turn would raise before its answer.
        """
        return None

    def prompt_facts(
        self, model_id: str, messages: list[Message], settings: Settings
    ) -> dict[str, Any]:
        """Return what is known where ``reading`` of ``model_id``, ``messages``, ``settings`` is None.

        ``window`` (tokens), ``template`` and ``parameters`` (texts), ``groups`` and ``notes`` (see
        ``ore.backends.reading``), and ``why`` no more is, a sentence. Raises what a turn would.
        """
        return {"why": "Nothing is known of the model's chat template and tokenizer before a turn."}

    @abstractmethod
    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return a reasoner for ``model_id`` with ``settings``; no turn is taken yet.

        Whether the model exists is checked before the reasoner is called.

        Raises:
            ModelNotFoundError: The backend knows already that there is no such model.
        """

    def phase(self) -> str:
        """Return what a call of the reasoner that was made last is doing, in a few words.

        For a waiting indicator; may be called from another thread at any time and never raises.
        """
        return "waiting" if self._phase is None else self._phase()


def split_pin(model: str) -> tuple[str, str | None]:
    """Return the name in ``model``, ``NAME@sha256:HEX``, and its digits; None for no digits.

    Raises:
        UsageError: What follows the name is no such pin; or it is an address with a password, which
            would stand in plans and artifacts.
    """
    if "@sha256" not in checked_name(model).lower():
        return model, None
    found = re.fullmatch(_PINNED, model)
    if not found:
        raise UsageError(
            f"{model!r} does not pin a model: write NAME@sha256: and the first 12 to 64 digits of "
            f"its digest, which `Backend.described(whole=True)` shows."
        )
    return found["name"], found["digits"].lower()


_PINNED = r"(?P<name>.+)@sha256:(?P<digits>[0-9a-fA-F]{12,64})"


def choose_default(names: Iterable[str]) -> str | None:
    """Return the first of ``PREFERRED_MODELS`` among ``names``, else the first by name, else None.

    A name's part before ``:`` counts; of several, the one tagged ``latest`` (or not at all) wins.
    """
    return next(by_choice(list(names)), None)


def by_choice(names: Sequence[str]) -> Iterator[str]:
    """Yield ``names`` as ``choose_default`` would choose them if those before were not there."""
    yield from preferred_of(names)
    others = (name for name in names if not is_preferred(name))
    yield from sorted(others, key=lambda name: (name.casefold(), name))


def preferred_of(names: Sequence[str]) -> Iterator[str]:
    """Yield those of ``names`` that are preferred, best first; of several sizes, the one tagged latest."""
    for preferred in PREFERRED_MODELS:
        tagged = [name for name in names if name.lower().partition(":")[0] == preferred]
        yield from sorted(tagged, key=lambda name: ":" in name and name[-7:].lower() != ":latest")


def is_preferred(name: str) -> bool:
    """Whether the model ``name`` is one of ``PREFERRED_MODELS``, in whatever size and letters."""
    return name.lower().partition(":")[0] in PREFERRED_MODELS
