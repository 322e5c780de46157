"""The process's entry: loads ``.env`` files and hands over to the command line."""

from __future__ import annotations

import errno
import gc
import os
import stat
import sys
import time
from contextlib import suppress
from functools import partial
from io import StringIO

try:
    from pathlib import Path

    from ore.errors import INTERRUPTED, NO_MEMORY, is_shortage
    from ore.files.signals import hear_no_more
except KeyboardInterrupt:  # before there is an INTERRUPTED to end with
    raise SystemExit(130) from None

SETTABLE = frozenset(
    "FORCE_COLOR NO_COLOR OLLAMA_API_KEY OLLAMA_HOST OLLAMA_MODELS OPENAI_API_KEY OPENAI_BASE_URL "
    "ORE_BACKEND ORE_HISTORY ORE_HOME ORE_MODEL ORE_MODEL_DIR ORE_NO_HISTORY ORE_RUNS ORE_STREAM "
    "ORE_SYSTEM ORE_TRACEBACK".split()
)
"""What a ``.env`` file may set: no program to run, no library, proxy, certificate or home folder."""

_MOST_ENV_BYTES = 1 << 16
_LONGEST_VARIABLE = 40  # characters
_THREADS_SECONDS = 3.0


def start() -> None:
    """Load the environment and run the command line; ends the process with its exit code."""
    try:
        try:
            name_files_in_utf8()
            hold_standard_streams()
            from ore.cli import run

            flags = sys.argv[1 : (sys.argv + ["--"]).index("--")]  # what follows it is a prompt
            if {"--version", "--help", "-h"} & set(flags):
                run()
            else:
                run(env_files=load_env_files())
        except Exception as exc:
            if not is_shortage(exc):
                raise
            sys.unraisablehook = id  # says nothing: Python would tell of each failure as it ends
            raise SystemExit(f"ore: {NO_MEMORY}") from None
        finally:
            # The process ends: looking through all its objects for unused ones would take longer
            # than most of what ORE does (https://docs.python.org/3/library/gc.html#gc.freeze).
            gc.freeze()
            hear_no_more()
    except KeyboardInterrupt:  # before the command line was there to catch it, or after
        hear_no_more()
        end_in_time(INTERRUPTED)
        raise SystemExit(INTERRUPTED) from None
    except SystemExit as exc:
        end_in_time(1 if isinstance(exc.code, str) else exc.code)  # a sentence stands for 1
        raise
    end_in_time(0)


def end_in_time(code: object) -> None:
    """Wait so long for what a tool has left behind, threads or calls: the interpreter waits for ever."""
    threads, has_tools = sys.modules.get("threading"), "ore.tools.own" in sys.modules
    if isinstance(code, int) and threads and (has_tools or threads.active_count() > 1):
        end = partial(_end_after, _THREADS_SECONDS, code)
        with suppress(RuntimeError, MemoryError):  # the system gives no more threads
            threads.Thread(target=end, daemon=True).start()


def _end_after(seconds: float, code: int) -> None:
    time.sleep(seconds)
    os._exit(code)  # all that ORE has written is out


def name_files_in_utf8() -> None:
    """Where the locale is of another encoding, begin anew with names of files in UTF-8.

    What is written to and read from the streams is UTF-8 in any case; so a file is found by the bytes
    that its name has in an argument.
    """
    again = ["-X", "utf8"]
    if sys.getfilesystemencoding() != "utf-8" and sys.orig_argv[1:3] != again:
        # Python does not know its own program, or the locale can't write what it has read.
        with suppress(OSError, TypeError, ValueError):
            os.execv(sys.executable, [sys.executable, *again, *sys.orig_argv[1:]])


def hold_standard_streams() -> None:
    """Open nothing in the place of a standard stream that is closed.

    The next file or socket would get its number, and a library that writes to stderr would write
    into it. For Python the stream stays closed.
    """
    with suppress(OSError):  # without a null device nothing can be done about it
        while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
            os.set_inheritable(number, True)
        os.close(number)


def load_env_files() -> dict[str, str]:
    """Read ``.env`` beside ``main.py``, then ``~/.ore/.env``; real variables win over both.

    A file of the current folder is never read: whoever made that folder would choose the server
    that prompts are sent to. A line that can't be used is ignored, and the others are used.

    Returns:
        The file that each variable came from. What can't be used stands for itself, with an empty
        text: ``{path: ""}``, ``{"line 3 of PATH": ""}``.
    """
    found: dict[str, str] = {}
    for path in filter(_may_be_there, _env_files()):
        try:
            why = _distrust(path)
            values, bad = ({}, []) if why else _read(path)
        except (ImportError, OSError, ValueError):
            found[path] = ""
            continue
        if why:
            found[f"{path} ({why})"] = ""
        found.update({f"line {line} of {path}": "" for line in bad})
        for name, value in values.items():
            if value is None or name in os.environ:
                continue
            if name not in SETTABLE:
                found[f"{_shown(name)} of {path} (not one that a .env may set)"] = ""
                continue
            try:
                os.environ[name] = value
            except (OSError, ValueError):  # a NUL in it
                found[f"the variable {name!r} of {path}"] = ""
            else:
                found[name] = path
    return found


def _shown(name: str) -> str:
    """Return how a sentence calls a variable; an unusual name may be a key, or an address with one."""
    is_usual = name.replace("_", "x").isalpha() and name in (name.upper(), name.lower())
    return f"the variable {name!r}" if is_usual and len(name) <= _LONGEST_VARIABLE else "a variable"


def _read(path: str) -> tuple[dict[str, str | None], list[int]]:
    """Return the variables of a file, None for one without a ``=``, and the lines that are bad.

    Raises:
        ImportError: The package that reads such files is missing, or damaged.
        OSError, ValueError: The file can't be read, is too large, or is not UTF-8.
    """
    try:
        from dotenv import main, parser
    except Exception as exc:  # SyntaxError, where a full disk cut it short
        if is_shortage(exc):
            raise
        raise ImportError(str(exc)) from exc

    main.logger.disabled = True  # it would write to stderr
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        data = file.read(_MOST_ENV_BYTES + 1) or b""  # None: what is there has to be waited for
    if len(data) > _MOST_ENV_BYTES:
        raise ValueError(f"it is larger than {_MOST_ENV_BYTES:,} bytes")
    text = data.decode("utf-8-sig")
    bad = [each.original.line for each in parser.parse_stream(StringIO(text)) if each.error]
    return main.dotenv_values(stream=StringIO(text), interpolate=True), bad


def _may_be_there(path: str) -> bool:
    """Whether there is a file, or a folder or a disk that does not tell."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return os.path.lexists(os.path.dirname(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as exc:
        return exc.errno != errno.ENAMETOOLONG  # where nothing can be


def _distrust(path: str) -> str:
    """Return why a file can't be trusted, or its folder; one beside the program is as good as it."""
    from ore.files.trust import distrust_path, is_as_safe

    folder = os.path.dirname(path)
    program = os.path.join(folder, "main.py")
    if folder == _own_folder() and os.path.isfile(program):
        return "" if is_as_safe(path, program) else distrust_path(path)
    return distrust_path(folder) or distrust_path(path)


def _own_folder() -> str:
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _env_files() -> list[str]:
    here = _own_folder()
    files = [os.path.join(here, ".env")] if os.path.isfile(os.path.join(here, "main.py")) else []
    home = os.environ.get("ORE_HOME") or os.path.join(os.path.expanduser("~"), ".ore")
    return [*files, str(Path(home, ".env"))] if os.path.isabs(home) else files


if __name__ == "__main__":
    start()
