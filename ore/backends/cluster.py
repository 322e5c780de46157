"""The cluster backend: models on the workers of a Dask scheduler, each with a server of its own.

A worker that differs from the others, in ORE, in Python's minor version or in the model's digest, is
named and not used. What a lost worker had begun is given to another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from ore import __version__, errors
from ore.backends import Backend, Progress, turn_errors
from ore.backends.cluster_link import ClusterLink, LostCall, Patience, refuse_no_address, until
from ore.backends.cluster_worker import KNOWN, Where, kind_of, why_unusable
from ore.backends.http import Deadline, shorten
from ore.backends.look_ups import time_for
from ore.backends.settings import Settings
from ore.backends.turn_errors import NothingAnswersError
from ore.errors import BackendError, CapabilityError, ExtraNotInstalledError, OreError
from ore.files.bounded import START_SECONDS
from ore.files.extras import install_command, runs_nowhere
from ore.files.in_time import OutOfTime
from ore.files.neutral import brief, one_line
from ore.reasoner import Reasoner
from ore.types import Message, Response

CONNECT_SECONDS = 15.0
"""How long the scheduler may take to be there, all of it; Dask itself does not bound the handshake."""
ABOUT_SECONDS = 300.0
"""How long the workers may take to say what they are: at first, each may hash its model."""
_NOW_SECONDS = 5.0
"""How long they may take to say it once more."""
MOST_AT_ONCE = 256
"""The most turns that are under way, however many threads the workers say they have."""
_LONGEST = 1000  # characters of what a worker says, a sentence of ORE's there
_MOST_TOLD = 20  # warnings of one turn, and workers that are not used
_YEAR_10000 = 253_402_300_800  # in Unix seconds: no date has more digits
_LAYERS = ("user", "ore", "model", "server", "facts")  # of what was in force
_LOCAL = ("on_thinking", "on_warning", "at_once")


class ClusterBackend(Backend):
    """The workers of one scheduler; making it connects and asks each worker what it is.

    Args:
        address: The scheduler's, as ``tcp://HOST:8786``; TLS is as Dask is configured.
        where: The backend and the host that workers ask, where they were named.
        model: The model that is asked, or None.
        notice: Told of each worker that is not used, and why.
        seconds: How long all of that may take, where it is less than usual.

    Raises:
        ExtraNotInstalledError: Dask is missing.
        BackendError: The scheduler does not answer, or no worker can be used.
    """

    def __init__(
        self,
        address: str,
        where: Where,
        model: str | None,
        notice: Callable[[str], None],
        seconds: float | None = None,
    ) -> None:
        self.host: str = address
        self._where, self._model = where, model
        self._patience = Patience(f"the workers of {one_line(address)}", notice)
        self._link = _linked(address)
        try:
            limit = Deadline(seconds)
            seconds = limit.within(CONNECT_SECONDS).seconds
            self._scheduler(seconds, "connect", address, seconds)
            self._told = self._workers(notice, limit)
            known = self._threads(limit)
        except BaseException:
            self.close()
            raise
        self.name: str = str(next(iter(self._told.values()))["backend"])
        threads = sum(known.get(each, 0) for each in self._told)
        # While one is taken, the next is on its way.
        self.at_once: int = min(2 * max(threads, 1), MOST_AT_ONCE)

    def models(self) -> list[str]:
        """Return the names of the models that every worker has."""
        first, *others = (each["models"] for each in self._told.values())
        everywhere = set(first).intersection(*others)
        return [name for name in first if name in everywhere]

    def default_model(self) -> str | None:
        """Return the model that the workers choose."""
        return self._model or next(iter(self._told.values()))["model"]

    def about_default(self, model_id: str) -> str | None:
        """Return what the workers say of their default model."""
        said = next(iter(self._told.values())).get("about_default")
        return one_line(said[:_LONGEST]) if isinstance(said, str) else None

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Refuse: models are fetched where they run."""
        raise CapabilityError(
            "A cluster's models are fetched on its workers: run `Backend.pull(NAME)` there."
        )

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return what all workers say of themselves and of the model; where one has another by now, of that."""
        said = {name: {each.get(name) for each in self._told.values()} for name in KNOWN}
        known = {name: each.pop() if len(each) == 1 else None for name, each in said.items()}
        seconds = time_for(_NOW_SECONDS)
        with suppress(LostCall, OutOfTime):
            now = self._link.ask("about", self._where, model_id, look=until(seconds))
            found = [now.get(each) for each in self._told]
            digests = {each.get("model_digest") for each in found if why_unusable(each) is None}
            for other in digests - {known["model_digest"], None}:
                known["model_digest"] = other
        return known

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        """Return what a worker says was in force."""
        with suppress(AttributeError, OreError):  # what a worker says may be anything
            told = self._ask("in_force", settings, self._where, model_id, _plain(settings))
            return {name: each for name in _LAYERS if isinstance(each := told.get(name), dict)}
        return {}

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return what has the workers take turns."""
        return ClusterReasoner(self, model_id, settings)

    def close(self) -> None:
        """Leave the scheduler; what is under way is dropped."""
        self._link.close()

    def take(self, model_id: str, settings: Settings, messages: list[Message]) -> Any:
        """Have some worker take a turn; return what it says of it."""
        sent = [
            {"role": each.role, "content": each.content, "images": tuple(each.images)}
            for each in messages
        ]
        return self._ask("take", settings, self._where, model_id, _plain(settings), sent)

    def _ask(self, name: str, settings: Settings, *given: Any) -> Any:
        """Call a function on one of the workers that can be used, and wait for what it returns."""
        look = self._patience.look_from_now(settings.deadline)
        try:
            told = self._link.ask("call", name, given, list(self._told), look=look)
        except LostCall as exc:
            raise NothingAnswersError(
                f"The cluster at {self.host} lost a turn ({shorten(str(exc))}): look into the logs of "
                f"its scheduler and its workers, and run it again."
            ) from exc
        if told is None:
            raise NothingAnswersError(
                f"No worker that {self.host} had at the beginning is left: check that some run "
                f"there, and run it again."
            )
        self._patience.come()
        return told[0]

    def _scheduler(self, seconds: float, *asked: Any) -> Any:
        """Ask the scheduler something; an error says that it does not answer."""
        try:
            return self._link.ask(*asked, look=until(seconds))
        except (LostCall, OutOfTime) as exc:
            tls = ", that Dask is configured for its TLS here"
            raise BackendError(
                f"The scheduler {one_line(str(self.host))} does not answer ({shorten(str(exc))}): check "
                f"that it runs there{tls * self.host.startswith(('tls:', 'wss:'))}, and that its version "
                f"is not far from this one's."
            ) from exc

    def _threads(self, limit: Deadline) -> dict[str, int]:
        """Return how many threads each worker has; an error says that the scheduler has gone."""
        known: dict[str, int] = self._scheduler(limit.within(CONNECT_SECONDS).seconds, "threads")
        return known

    def _workers(self, notice: Callable[[str], None], limit: Deadline) -> dict[str, dict[str, Any]]:
        """Return what each worker that can be used says of itself."""
        end, quiet = until(limit.within(ABOUT_SECONDS).seconds), self._patience.look_from_now(None)

        def look() -> None:
            end()
            quiet()

        try:
            answers = self._link.ask("about", self._where, self._model, look=look)
        except (LostCall, OutOfTime) as exc:
            advice = "check what else they are doing"
            if isinstance(exc, LostCall):
                self._threads(limit)  # no worker is to blame where the scheduler has gone
                advice = f"install ORE {__version__} on each"
            raise BackendError(
                f"The workers of {self.host} can't be asked ({shorten(str(exc))}): {advice}."
            ) from exc
        self._patience.come()
        if any(isinstance(each, str) for each in answers.values()):
            self._threads(limit)
        if not answers:
            raise BackendError(
                f"The scheduler {self.host} has no workers: start some, and try again."
            )
        alike = Counter(kind_of(each) for each in answers.values() if why_unusable(each) is None)
        usual = alike.most_common(1)[0][0] if alike else None
        used, unused = {}, 0
        for worker, told in sorted(answers.items()):
            why = why_unusable(told)
            if why is None and kind_of(told) != usual:
                why = "its model has another digest than the others', or its Python differs"
            if why is None:
                used[worker] = told
            elif (unused := unused + 1) <= _MOST_TOLD:
                said = one_line(why[:_LONGEST]).rstrip(".")
                notice(f"The worker {brief(worker)} is not used: {said}.")
        if unused > _MOST_TOLD:
            notice(f"{unused - _MOST_TOLD:,} more workers are not used.")
        if not used:
            raise BackendError(f"No worker of {self.host} can be used: see above.")
        return used


class ClusterReasoner(Reasoner):
    """Has the workers of a cluster take turns; several threads may ask at once.

    Args:
        backend: The cluster; it is closed with this.
        model_id: The model.
        settings: What a turn needs beyond its messages.
    """

    def __init__(self, backend: ClusterBackend, model_id: str, settings: Settings) -> None:
        self.model_id = model_id
        self._backend, self._settings = backend, settings

    def reason(self, messages: list[Message]) -> Response:
        """Answer with one call on one worker; a lost worker's turn is taken by another one."""
        told = self._backend.take(self.model_id, self._settings, messages)
        if isinstance(told, dict) and isinstance(warned := told.pop("warned", None), list):
            for text in warned[:_MOST_TOLD]:
                if self._settings.on_warning is not None:
                    self._settings.on_warning(one_line(str(text)[:_LONGEST]))
            if "error" in told and told.get("said"):
                said = one_line(str(told.get("said"))[:_LONGEST])
                raise _raised(str(told["error"]), said, self.model_id)
            with suppress(TypeError, ValueError):
                return _response_of(**told)
        raise BackendError(
            f"A worker of {self._backend.host} gives an answer that can't be read: install "
            f"ORE {__version__} on each, and run it again."
        )

    def close(self) -> None:
        """Leave the cluster."""
        self._backend.close()


def _linked(address: str) -> ClusterLink:
    """Start the process that asks the scheduler, once what it needs is there."""
    refuse_no_address(address)
    if find_spec("distributed") is None:
        raise ExtraNotInstalledError(
            f"`scheduler=` needs the package 'distributed': {install_command('dask')}", "dask"
        )
    link = ClusterLink()
    try:
        link.ask("hello", look=until(START_SECONDS))
    except (LostCall, OutOfTime) as exc:
        link.close()
        link.check_threads()
        if text := runs_nowhere(str(exc)):
            raise BackendError(text) from exc
        raise ExtraNotInstalledError(
            f"The package 'distributed' can't be loaded ({shorten(str(exc))}): correct Dask's "
            f"configuration if that is at fault, or {install_command('dask', again=True)}",
            "dask",
        ) from exc
    except BaseException:
        link.close()
        raise
    return link


def _plain(settings: Settings) -> dict[str, Any]:
    """Return the settings that a worker gets: all but the functions."""
    return {
        each.name: dict(value) if isinstance(value, Mapping) else value
        for each in fields(Settings)
        if each.name not in _LOCAL and (value := getattr(settings, each.name)) is not None
    }


def _raised(name: str, said: str, model: str) -> OreError:
    """Return a worker's error over ``model``, of its own class where that is made from a sentence alone."""
    kind = getattr(errors, name, getattr(turn_errors, name, None))
    more = {"model": model} if kind is errors.ModelNotFoundError else {}
    if not (isinstance(kind, type) and issubclass(kind, OreError)):
        kind = BackendError
    with suppress(TypeError):
        made: OreError = kind(said, **more)
        return made
    return BackendError(said)


def _response_of(
    content: str, model_id: str, id: str, timestamp: float, metadata: dict[str, Any]
) -> Response:
    """Return a worker's response with a new id; ``ValueError`` for what is not a response.

    No worker decides that two rows have the same id.
    """
    texts = all(isinstance(each, str) for each in (content, model_id, id))
    f"{content}{model_id}".encode()  # half a character can't be kept
    is_time = isinstance(timestamp, (int, float)) and 0 <= timestamp < _YEAR_10000
    if not (texts and is_time and isinstance(metadata, dict)):
        raise ValueError("it is not a response")
    return Response(content, model_id, timestamp=timestamp, metadata=metadata)
