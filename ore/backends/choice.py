"""Choosing the backend of a run, and saying so where it is not the usual one.

A backend is imported only when it is chosen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ore.backends import Backend, split_pin
from ore.backends.model_names import is_name, shown_name
from ore.errors import FileAccessError, ModelNotFoundError, OreError, UsageError
from ore.files import begins_with
from ore.files.extras import install_command
from ore.files.neutral import one_line, value_shown
from ore.files.reached import why_unknown

if TYPE_CHECKING:  # a backend is imported when it is chosen
    from ore.backends.address import Host
    from ore.backends.embedded import EmbeddedBackend
    from ore.backends.ollama import OllamaBackend

BACKENDS = ("auto", "ollama", "embedded", "openai")
ON_THIS_MACHINE = ("ollama", "embedded")
"""What a session or an artifact may choose, where the user named no backend: no other machine."""
_PATHS = ("./", "../", "/", "~/")
"""How paths begin, and no name of a model."""


class Choice(NamedTuple):
    """What a user said of the backend and the model.

    Attributes:
        backend: One of ``BACKENDS``; None leaves it to ``ORE_BACKEND``.
        model: The model that was named, or None.
        host: The server that was named, or None.
        seconds: How long the choice of a model may take; None is as long as any question.
        deadline: How long a turn may take, in seconds; None has no end.
        pulls: Whether a model is to be fetched, not asked.
        is_name: Whether ``model`` is a name whatever it looks like: it is never taken for a file.
        scheduler: The cluster's address, where its workers take the turns.
        answers: Whether a model is asked; a list of models or a plan asks none.
    """

    backend: str | None = None
    model: str | None = None
    host: str | None = None
    seconds: float | None = None
    pulls: bool = False
    is_name: bool = False
    answers: bool = True
    scheduler: str | None = None
    deadline: float | None = None


def nobody(told: str) -> None:
    """Tell nobody: a library, and a worker of a cluster, have no stream to write to."""


def open_backend(
    wanted: Choice,
    environ: Mapping[str, str],
    env_files: Mapping[str, str] = {},
    notice: Callable[[str], None] = nobody,
    warning: Callable[[str], None] = nobody,
) -> Backend:
    """Return the backend that the user and the environment ask for.

    ``auto`` is Ollama, but for one case: no host was named, nothing answers on the default
    address, and the embedded engine has the model (to fetch it, the engine is enough).

    Args:
        env_files: The file that a variable of ``environ`` was read from, where it was.
        notice: Told of a remote host from a file, and of how to do without Ollama.
        warning: Told when ``auto`` went to the embedded model.

    Raises:
        UsageError: ``ORE_BACKEND``, the host or the model's name is illegal, or they contradict each
            other.
    """
    wanted = _without_pin(wanted)
    if wanted.scheduler is not None:
        return _cluster(wanted, wanted.model or _model(environ), notice)
    name = wanted.backend or environ.get("ORE_BACKEND") or "auto"
    if name not in BACKENDS:
        raise UsageError(
            f"ORE_BACKEND is {value_shown(name)}: set it to one of {', '.join(BACKENDS)}."
        )
    named = _usual(wanted, environ)
    if name != "openai" and _is_file(name, named, wanted):
        name = "embedded"
    if name == "embedded":
        return _embedded(named, wanted)
    from ore.backends import address  # which only a server has

    def with_file(host: Host) -> Host:
        """Return the host with the file that named it, if one did; say so where it is remote."""
        file = env_files.get(host.source)
        if not file:
            return host
        if not address.is_loopback(host.url):
            notice(f"Prompts go to {host.url}, which {file} names.")
        return host._replace(source=f"{host.source} in {file}")

    if name == "openai":
        from ore.backends.openai import OpenAIBackend

        host = with_file(address.resolve_openai(wanted.host, environ))
        key = address.openai_key(host.url, environ)
        return OpenAIBackend(host, key, named, seconds=wanted.seconds)
    host = with_file(address.resolve_ollama(wanted.host, environ))
    if name == "auto" and host.source == "default":
        return _auto(host, named, wanted, notice, warning)
    return _ollama(host, named, wanted)


def model_of(
    backend: Backend, named: str | None, environ: Mapping[str, str]
) -> tuple[str, str | None]:
    """Return the model that answers, and the digits that its digest is to begin with, or None.

    Args:
        named: The model that was named, maybe with its pin; None leaves it to the backend.

    Raises:
        ModelNotFoundError: There is none to choose.
    """
    if named is not None:
        return split_pin(named)
    default = backend.default_model()
    if default is None:
        raise ModelNotFoundError(backend.no_default(), model="", host=backend.host)
    return default, split_pin(environ.get("ORE_MODEL", "").strip())[1]


def _cluster(wanted: Choice, model: str | None, notice: Callable[[str], None]) -> Backend:
    room = import_module("ore.backends.cluster")
    made: Backend = room.ClusterBackend(
        wanted.scheduler, (wanted.backend, wanted.host), model, notice, wanted.deadline
    )
    return made


def _without_pin(wanted: Choice) -> Choice:
    """Return the choice of the model's name alone: whoever asks the model checks its pin."""
    if wanted.model is None or wanted.is_name:
        return wanted
    return wanted._replace(model=split_pin(wanted.model)[0])


def _is_file(backend: str, named: str | None, wanted: Choice) -> bool:
    """Whether the model is a file; ``UsageError`` where a server is to run it, which can't."""
    model = wanted.model or (named if backend == "auto" and wanted.host is None else None)
    of_server = backend == "ollama" or wanted.host is not None
    if model is None or wanted.is_name or wanted.model is None and not _looks_like_path(model):
        return False
    if not _is_gguf_file(model, of_server):
        return False
    if of_server:
        raise UsageError(
            f"{model} is a file, which only the embedded backend runs: use "
            f"`reasoner('embedded:NAME')`, and no `host=`."
        )
    return True


def _looks_like_path(model: str) -> bool:
    """Whether ``ORE_MODEL`` may be a file: it counts in every folder, whoever has made that."""
    is_file = model.lower().endswith(".gguf") and ":" not in os.path.basename(model)
    return is_file or model.startswith(_PATHS)


def _is_gguf_file(model: str, of_server: bool) -> bool:
    """Whether a model is a file; names of Ollama's may end like one (``hf.co/U/R:X.gguf``).

    So is what can only be a path (``./NAME``). Another without the ending is one by its first bytes; a
    bare name is never a file, so that none of the current folder answers in a model's place.
    """
    if not model.lower().endswith(".gguf") and (of_server or not model.startswith(_PATHS)):
        return os.sep in model and begins_with(model, b"GGUF")
    if os.path.isfile(model):
        return True
    if of_server or ":" in os.path.basename(model):
        return False
    if os.path.exists(model):  # a FIFO, a device or a folder, which whoever reads it refuses
        return True
    if why := why_unknown(model):
        raise FileAccessError(f"{one_line(model)} can't be read: {why}.", model)
    raise ModelNotFoundError(f"There is no file {one_line(model)}: check the path.", model=model)


def _model(environ: Mapping[str, str]) -> str | None:
    """Return the model that ``ORE_MODEL`` names, without its pin; None where it is blank."""
    return split_pin(environ.get("ORE_MODEL", "").strip())[0] or None


def _usual(wanted: Choice, environ: Mapping[str, str]) -> str | None:
    """Return what ``_model`` does; a variable that is wrong is no model where it chooses none.

    That is so where the user named one, or wants to look at the models, or to fetch one.
    """
    try:
        return _model(environ)
    except UsageError:
        if wanted.model is None and wanted.answers and not wanted.pulls:
            raise
        return None


def _embedded(model: str | None, wanted: Choice) -> EmbeddedBackend:
    if wanted.host is not None:
        raise UsageError(
            "`host=` can't be used with the embedded backend, which has no server: leave it out, or "
            "name another with `backend=`."
        )
    room = import_module("ore.backends.embedded")
    made: EmbeddedBackend = room.EmbeddedBackend(model, wanted.deadline)
    return made


def _ollama(host: Host, model: str | None, wanted: Choice) -> OllamaBackend:
    from ore.backends.ollama import OllamaBackend

    if not wanted.is_name:
        check_name(wanted.model or "-")
    return OllamaBackend(host, model, seconds=wanted.seconds)


def check_name(model: str) -> None:
    """Raise ``UsageError`` for what can't be ``model`` of Ollama's, which says only that it needs one."""
    parts = model.rpartition("://")[2].split("/")
    if len(parts) > 3 or not all(parts):
        raise UsageError(
            f"'{shown_name(model)}' can't be a model's name: Ollama's are NAME, NAMESPACE/NAME or "
            f"HOST/NAMESPACE/NAME, each with :TAG or without."
        )


def _auto(
    host: Host,
    model: str | None,
    wanted: Choice,
    notice: Callable[[str], None],
    warning: Callable[[str], None],
) -> Backend:
    """Return Ollama where it answers, else the embedded engine where it has the model, else Ollama."""
    backend = _ollama(host, model, wanted)
    if backend.answers():
        return backend
    embedded = _embedded(model, wanted)
    has_engine = embedded.has_engine()
    if has_engine and wanted.pulls:
        notice("Ollama does not answer: the model is fetched for the embedded engine.")
        return embedded
    if has_engine and embedded.is_installed():
        if not wanted.answers and wanted.model is None:
            return embedded
        chosen = wanted.model or embedded.default_model()
        if chosen is not None and embedded.has(chosen):
            if wanted.answers:
                warning(f"Ollama does not answer: the embedded {chosen} does.")
            return embedded
        if chosen is not None:
            fetch = f", and `Backend.pull('{chosen}')` fetches it" if is_name(chosen) else ""
            notice(
                f"The embedded engine has no {shown_name(chosen)}: `Backend.models()` shows what there "
                f"is{fetch}."
            )
        return backend  # says what became of the model that was asked for
    if has_engine:
        try:
            embedded.models()
        except OreError as exc:
            notice(f"The embedded engine is not used: {exc}")
            return backend
    first = "" if has_engine else f", after {install_command('embedded')}"
    notice(f"To try ORE without Ollama: `Backend.pull('smollm2:135m')`{first}")
    return backend
