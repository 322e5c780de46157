"""Why a model could not be loaded: one sentence for each kind of failure, from the engine's log."""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from ore.backends import gguf
from ore.backends.http import shorten
from ore.backends.turn_errors import NothingAnswersError, TurnFailedError, TurnRefusedError
from ore.errors import BackendError
from ore.files.extras import install_command
from ore.files.neutral import one_line

_HEAD = re.compile(r"^[\d.]+ E +(?P<said>.*)$")
_ORIGIN = re.compile(r"^(?:[a-z]+ +)?[\w~]+: +")  # who says it: two words at most, none of ours
_ERROR = re.compile(r"^Error: (?:Jinja Exception: )?(?P<said>.+)$", re.M)
_PREFIX = re.compile(r"^(?:error(?: loading model)?: |parser: )+")
_NOISE = ("failed to load model", "exiting due to", "please consider", "for example:")

NO_THREADS = (
    "the system gives it no more threads, or no memory for them: raise the limit (ulimit -u and -v; "
    "in a container, its limit of processes)"
)
_NO_FILES = (
    "the engine may open no more files: raise the limit (ulimit -n), or end the program that connects "
    "to it over and over"
)
KILLED = (
    "process was killed{signal}, as the system does where memory is short. Try again with a smaller "
    "window (`options['num_ctx']`), or use another model"
)
UNREAD = "It was changed meanwhile, or its disk fails, or it is damaged"
"""Why the system may have had no bytes for a part of a file that is mapped into memory."""
_TEMPLATE = r"chat template parsing error|failed to initialize chat template"
_MEMORY = (
    r"bad_alloc|failed to allocate|[Cc]annot allocate|out of memory|unable to allocate|"
    r"insufficient memory|mem_buffer != NULL|(?:\A|\n)MemoryError\s*\Z"
)
_CUT_OFF = r"not within the file bounds|unexpectedly reached end|failed to read key-value pairs"
_SHORTAGES: tuple[tuple[str, str], ...] = (
    (r"Resource temporarily unavailable|Thread creation failed|start new thread", NO_THREADS),
    (r"Too many open files", _NO_FILES),
    (
        _MEMORY,
        "it needs more than the {memory} MB that ORE lets it have, or than the system does (ulimit -v): "
        "use a smaller window (`options['num_ctx']`), or another model",
    ),
)
_KINDS: tuple[tuple[str, str], ...] = (
    *_SHORTAGES,
    (  # https://github.com/moby/moby/issues/42680
        r"\A\W*Operation not permitted\W*\Z",
        "the system forbids the engine to start threads, as Docker before 20.10.10 does: use a newer one",
    ),
    (
        r"couldn't bind HTTP server socket",
        "the engine can make no socket in its temporary folder: free some room there, name another folder "
        "with TMPDIR, or allow Unix sockets (systemd's RestrictAddressFamilies)",
    ),
    (
        r"mmap failed: (?P<why>[^\n]*)",
        "its disk lets no program map a file into memory ({why}): copy it to another disk",
    ),
    (
        r"(?P<why>GGUFv1 is no longer supported|GGUF file is version [^\n]*)",
        "the engine does not read this version of the format ({why}): use another build of the model",
    ),
    (
        r"unknown model architecture: '(?P<why>[^\n]+)'",
        "the engine does not know its architecture, '{why}': use another model",
    ),
    (
        r"error loading model vocabulary: (?P<why>[^\n]*)",
        "the engine can't use its tokenizer ({why}): use another build of the model",
    ),
    (
        _TEMPLATE,
        "its chat template can't be used ({why}): give it another with `chat_template=`, or use "
        "another build of the model",
    ),
    (
        _CUT_OFF,
        "the file is cut off or damaged ({why}): fetch it again",
    ),
    (
        r"invalid split file name",
        "its parts are not named as the engine wants it: rename them to NAME-00001-of-00003.gguf and so "
        "on, with their numbers and their count",
    ),
    (
        r"(?:illegal|invalid) split|GGUF split|tensors expected but \d+ found",
        "its parts do not fit together ({why}): fetch them again",
    ),
)


def load_error(
    path: Path,
    log: str,
    ended: str,
    memory: int,
    *,
    has_given_template: bool = False,
    began: bool = True,
) -> BackendError:
    """Return the error for a model that was not loaded: of the turn, where its own template may be why.

    Args:
        log: What the engine wrote.
        ended: How its process ended, in a few words, where it did not say why.
        memory: How many bytes it might have had.
        has_given_template: Whether a chat template was given in the place of the file's own.
        began: Whether the engine had been loaded itself, and went on to the model.
    """

    def not_loaded(why: str) -> NothingAnswersError:
        return NothingAnswersError(f"{path} can't be loaded: {why}.")

    for pattern, sentence in _KINDS:
        if found := re.search(pattern, log):
            if pattern == _TEMPLATE and has_given_template:
                return TurnRefusedError(
                    f"The chat template can't be used ({one_line(_reason(log))}): correct it, or leave "
                    f"`chat_template=` out."
                )
            if pattern == _CUT_OFF and gguf.is_part(path.name):
                sentence = "one of its parts is cut off or damaged ({why}): fetch them again"
            why = found.groupdict().get("why") or _reason(log)
            said = sentence.format(why=one_line(shorten(why)), memory=f"{memory // 1_000_000:,}")
            if pattern == _MEMORY and has_given_template:
                said = f"{said}; or correct the chat template, or leave `chat_template=` out"
                return TurnFailedError(f"{path} can't be loaded: {said}.")
            return not_loaded(said)
    if said := out_of_time(ended):
        return not_loaded(said)
    if ended == signal.SIGKILL.name:
        return not_loaded(f"the engine's {KILLED.format(signal=f' ({ended})')}")
    if ended.startswith("SIG") and not began:
        return _unstarted_error(ended)
    if ended == signal.SIGBUS.name:
        said = f"the engine could not read all of it ({ended}). {UNREAD}"
        return not_loaded(f"{said}: try again, or fetch it again")
    if ended.startswith("exit code"):  # native code ends with a signal, and the child says the rest
        return no_python_error(f"{ended}: {one_line(_reason(log))}")
    if ended and has_given_template:
        return TurnRefusedError(
            f"{path} can't be loaded: the engine crashed over it, or over the chat template that is to "
            f"take the place of its own ({ended}). Leave `chat_template=` out, or use another model."
        )
    if ended:
        said = f"the engine crashed over it ({ended}). It is damaged, or made to do harm"
        return not_loaded(f"{said}; use another model")
    damage, again = "it is damaged, or not as the engine expects it", "Fetch it again"
    if gguf.is_part(path.name):
        damage, again = "its parts do not fit together, or are damaged", "Fetch them again"
    return not_loaded(f"{damage} ({one_line(_reason(log))}). {again}, or use another model")


def python() -> str:
    """Return what runs the engine; a program that Python is a part of may not say where one is."""
    return sys.executable or "python3"


def no_python_error(why: str) -> NothingAnswersError:
    """Return the error for an engine that can't be started, or is another program than Python."""
    return NothingAnswersError(
        f"The embedded engine can't be started ({why}): check that {python()} is a Python that runs, or "
        f"use Ollama."
    )


def _unstarted_error(ended: str) -> NothingAnswersError:
    return NothingAnswersError(
        f"The embedded engine can't be started ({ended} before it read a model): where memory is "
        f"limited (ulimit -v), raise the limit; else {install_command('embedded', again=True)}"
    )


def read_outcome(said: bytes) -> dict[str, Any]:
    """Return what the engine's process says of a model; raises where another program says it."""
    try:
        return dict[str, Any](json.loads(said))
    except (TypeError, ValueError, RecursionError) as exc:
        why = one_line(shorten(said.decode("utf-8", "replace")))
        raise no_python_error(f"it says {why!r}") from exc


def shortage(log: str, memory: int) -> str:
    """Return what the engine lacked as it crashed, from what it wrote; empty where it lacked nothing."""
    for pattern, sentence in _SHORTAGES:
        if re.search(pattern, log):
            return sentence.format(memory=f"{memory // 1_000_000:,}")
    return ""


def out_of_time(ended: str) -> str:
    """Return that the engine had all its processor time, where the system limits it; else nothing.

    A busy system counts less of that time for who asks than for its limit: a fifth less, or more.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    is_at_limit = 3 * (used.ru_utime + used.ru_stime) >= 2 * limit
    is_ended = ended == signal.SIGXCPU.name or (ended == signal.SIGKILL.name and is_at_limit)
    if limit == resource.RLIM_INFINITY or not is_ended:
        return ""
    return f"the system lets a process compute for {limit:,} seconds: raise the limit (ulimit -t)"


def endless_load_error(path: Path, *, has_given_template: bool, is_late: bool) -> BackendError:
    """Return the error for a model with which the engine does not come to an end.

    ``is_late`` is that its time is over: it may have waited for the disk, and computed nothing.
    """
    kind = TurnRefusedError if has_given_template else NothingAnswersError
    whose, step = "Its chat template", "give it another with `chat_template=`, or use another model"
    if has_given_template:
        whose, step = "The chat template", "correct it, or leave `chat_template=` out"
    if is_late:
        step = f"{step}. Or its disk is slow: try again, or move the file to a faster one"
    return kind(
        f"{path} can't be loaded: the engine does not finish with it. {whose} may go round in "
        f"circles: {step}."
    )


def _reason(log: str) -> str:
    """Return what the engine says went wrong, in its own words: an exception's, else the first."""
    if errors := _ERROR.findall(log):
        return shorten(errors[-1])
    said = [found["said"] for line in log.splitlines() if (found := _HEAD.match(line))]
    said = [_ORIGIN.sub("", line) for line in said if not any(noise in line for noise in _NOISE)]
    last = log.strip().rpartition("\n")[2]
    return shorten(_PREFIX.sub("", said[0]) if said else last) or "no reason"


def signal_name(code: int) -> str:
    """Return the name of the signal that ended a process, by its exit code below 0."""
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"
