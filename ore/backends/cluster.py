"""The cluster backend: models on the workers of a Dask scheduler, each with a server of its own.

A worker that differs from the others, in ORE, in Python's minor version or in the model's digest, is
named and not used. What a lost worker had begun is given to another one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ore import __version__, errors
from ore.backends import Backend, Progress, Settings
from ore.backends.cluster_worker import Where, about, in_force, take
from ore.backends.http import shorten
from ore.errors import BackendError, CapabilityError, ExtraNotInstalledError, OreError, UsageError
from ore.files import reason
from ore.files.extras import install_command
from ore.files.in_time import in_time
from ore.files.neutral import one_line
from ore.reasoner import Reasoner
from ore.types import Message, Response

CONNECT_SECONDS = 15.0
"""How long the scheduler may take to be there, all of it; Dask itself does not bound the handshake."""
ABOUT_SECONDS = 300.0
"""How long the workers may take to say what they are: at first, each may hash its model."""
ALONE_SECONDS = 30.0
"""How long a turn waits where no worker that can be used is left."""
RETRIES = 3
"""How many lost workers a turn survives."""
_LOOK_SECONDS = 2.0
_LOCAL = ("on_thinking", "on_warning", "at_once")


class ClusterBackend(Backend):
    """The workers of one scheduler; making it connects and asks each worker what it is.

    Args:
        address: The scheduler's, as ``tcp://HOST:8786``; TLS is as Dask is configured.
        where: The backend and the host that workers ask, where they were named.
        model: The model that is asked, or None.
        notice: Told of each worker that is not used, and why.
        seconds: How long each of the two questions may take, where it is less than usual.

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
        self.host, self._where, self._model = address, where, model
        self._client = _connected(address, min(CONNECT_SECONDS, seconds or CONNECT_SECONDS))
        try:
            self._told = self._workers(notice, min(ABOUT_SECONDS, seconds or ABOUT_SECONDS))
            threads = self._threads()
        except BaseException:
            self.close()
            raise
        self.name = str(next(iter(self._told.values()))["backend"])
        self.at_once = 2 * max(threads, 1)  # while one is taken, the next is on its way

    def models(self) -> list[str]:
        """Return the names of the models that every worker has."""
        lists = [each["models"] for each in self._told.values()]
        return [name for name in lists[0] if all(name in names for names in lists)]

    def default_model(self) -> str | None:
        """Return the model that the workers choose."""
        return self._model or next(iter(self._told.values()))["model"]

    def pull(self, name: str, progress: Progress, *, insecure: bool = False) -> None:
        """Refuse: models are fetched where they run."""
        raise CapabilityError(
            "A cluster's models are fetched on its workers: run `Backend.pull()` there."
        )

    def provenance(self, model_id: str) -> dict[str, str | None]:
        """Return what the workers, which are alike, say of themselves and of the model."""
        told = next(iter(self._told.values()))
        return {name: told.get(name) for name in ("server_version", "model_digest")}

    def in_force(self, model_id: str, settings: Settings) -> dict[str, Any]:
        """Return what a worker says was in force."""
        try:
            told = self._ask(in_force, self._where, model_id, _plain(settings))
        except OreError:
            return {}
        return dict(told)

    def reasoner(self, model_id: str, settings: Settings) -> Reasoner:
        """Return what has the workers take turns."""
        return ClusterReasoner(self, model_id, settings)

    def close(self) -> None:
        """Leave the scheduler; what is under way is dropped."""
        self._client.close(timeout=_LOOK_SECONDS)

    def take(self, model_id: str, settings: Settings, messages: list[Message]) -> dict[str, Any]:
        """Have some worker take a turn; return what it says of it."""
        sent = [
            {"role": each.role, "content": each.content, "images": tuple(each.images)}
            for each in messages
        ]
        found: dict[str, Any] = self._ask(take, self._where, model_id, _plain(settings), sent)
        return found

    def _ask(self, function: Callable[..., Any], *given: Any) -> Any:
        """Call a function on one of the workers that can be used, and wait for what it returns."""
        distributed, alone_since, dropped = import_module("distributed"), None, 0
        future = self._client.submit(
            function, *given, pure=False, retries=RETRIES, workers=list(self._told)
        )
        is_done = threading.Event()
        future.add_done_callback(lambda _: is_done.set())
        try:
            while True:
                # Nothing is fetched before it is there: several turns are fetched at once, and one that
                # does not wait any longer takes the others with it.
                try:
                    if is_done.wait(_LOOK_SECONDS):
                        return future.result(timeout=ALONE_SECONDS)
                except (TimeoutError, distributed.TimeoutError):
                    pass
                except UnboundLocalError:  # Dask's, where what it fetched for several was dropped
                    dropped += 1
                    if dropped > RETRIES:
                        raise
                now = time.monotonic()
                alone_since = None if self._is_anybody_there() else alone_since or now
                if alone_since is not None and now - alone_since > ALONE_SECONDS:
                    raise BackendError(
                        f"No worker of {self.host} is left that can be used: start one as the "
                        f"others were, and run it again."
                    )
        except OreError:
            raise
        except Exception as exc:  # the cluster's own, of many kinds
            raise BackendError(
                f"The cluster at {self.host} lost a turn ({_why(exc)}): look into "
                f"the workers' logs, and run it again."
            ) from exc
        finally:
            future.release()

    def _is_anybody_there(self) -> bool:
        try:
            return bool(self._told.keys() & self._known().keys())
        except Exception:  # the scheduler has gone, or says nothing
            return False

    def _threads(self) -> int:
        """Return how many threads the workers that can be used have."""
        try:
            known = self._known()
            return sum(int(known[each]["nthreads"]) for each in self._told if each in known)
        except Exception as exc:  # the scheduler has gone, or says what is none
            raise _no_answer(str(self.host), exc) from exc

    def _known(self) -> dict[str, Any]:
        """Return what the scheduler says of its workers, by their addresses."""
        ask = self._client.scheduler.identity
        said = self._client.sync(ask, n_workers=-1, callback_timeout=CONNECT_SECONDS)
        found: dict[str, Any] = said["workers"]
        return found

    def _workers(self, notice: Callable[[str], None], seconds: float) -> dict[str, dict[str, Any]]:
        """Return what each worker that can be used says of itself."""
        try:
            answers = in_time(
                seconds,
                lambda: self._client.run(about, self._where, self._model, on_error="return"),
            )
        except Exception as exc:
            raise BackendError(
                f"The workers of {self.host} can't be asked ({_why(exc)}): install "
                f"ORE {__version__} on each."
            ) from exc
        if not answers:
            raise BackendError(
                f"The scheduler {self.host} has no workers: start some, and try again."
            )
        alike = Counter(_kind(each) for each in answers.values() if _problem(each) is None)
        usual = alike.most_common(1)[0][0] if alike else None
        used = {}
        for worker, told in sorted(answers.items()):
            why = _problem(told)
            if why is None and _kind(told) != usual:
                why = "its model has another digest than the others', or its Python differs"
            if why is None:
                used[worker] = told
            else:
                notice(f"The worker {worker} is not used: {one_line(why).rstrip('.')}.")
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
        for text in told.pop("warned"):
            if self._settings.on_warning is not None:
                self._settings.on_warning(text)
        if "error" in told:
            raise _raised(told["error"], told["said"])
        return Response(**told)

    def close(self) -> None:
        """Leave the cluster."""
        self._backend.close()


def _connected(address: str, seconds: float) -> Any:
    if "@" in address:  # it is not shown, for it may be a password
        raise UsageError(
            "The address of `scheduler=` can't hold a user name or password: write tcp://HOST:8786."
        )
    if find_spec("distributed") is None:
        raise ExtraNotInstalledError(
            f"`scheduler=` needs the package 'distributed': {install_command('dask')}", "dask"
        )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said here
    try:
        client = import_module("distributed").Client
        return in_time(seconds, lambda: client(address, timeout=seconds, set_as_default=False))
    except Exception as exc:  # of many kinds
        raise _no_answer(address, exc) from exc


def _no_answer(address: str, error: Exception) -> BackendError:
    return BackendError(
        f"The scheduler {one_line(address)} does not answer ({_why(error)}): check that it runs there, "
        f"and that its version is not far from this one's."
    )


def _why(error: Exception) -> str:
    """Return what Dask says happened, on one line."""
    return shorten(reason(error))


def _plain(settings: Settings) -> dict[str, Any]:
    """Return the settings that a worker gets: all but the functions."""
    return {
        each.name: dict(value) if isinstance(value, Mapping) else value
        for each in fields(Settings)
        if each.name not in _LOCAL and (value := getattr(settings, each.name)) is not None
    }


def _kind(told: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be the same on all workers."""
    minor = str(told.get("python")).rpartition(".")[0]
    return told.get("backend"), told.get("model"), told.get("model_digest"), minor


def _problem(told: Any) -> str | None:
    if isinstance(told, BaseException):
        return f"it can't say what it is ({reason(told)}): install ORE {__version__} there"
    if told["ore"] != __version__:
        return f"it has ORE {told['ore']}, and this is {__version__}"
    problem: str | None = told["problem"]
    return problem


def _raised(name: str, said: str) -> OreError:
    """Return the error that a worker has told of, of its class where a sentence is enough for it."""
    kind = getattr(errors, name, BackendError)
    try:
        made: OreError = kind(said)
    except TypeError:
        made = BackendError(said)
    return made
