"""A command that is run without a shell: bounded in time and in what it writes."""

from __future__ import annotations

import errno
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from ore.errors import FileAccessError, ToolError
from ore.files import read_regular, reason
from ore.files.in_time import OutOfTime
from ore.files.neutral import one_line
from ore.files.signals import deferred_signals

_BLOCK = 1 << 16
_MOST_SAID = 1 << 14  # bytes of stderr that are kept
_MOST_SHOWN = 300  # characters of its last line
_MOST_OF_LINE = 256  # bytes of a script's first line, of which Linux reads no more
_NOT_FOUND = 127  # the exit code of env, and of a shell, for a program that is not there
_END_SECONDS = 1.0  # to wait for one that was killed, or that ended while ORE was stopped


def run_bounded(
    argv: Sequence[str], environ: Mapping[str, str], seconds: float, most: int
) -> bytes:
    """Return what a command writes to stdout; its process, and those of its group, end with this.

    Args:
        argv: The program and its arguments.
        environ: Its environment.
        seconds: How long it may run.
        most: The most bytes that it may write.

    Raises:
        ToolError: It can't be started, fails or writes too much.
        OutOfTime: It takes too long, and was ended.
    """
    name = one_line(os.path.basename(argv[0])[:100])
    pipe = subprocess.PIPE
    with ExitStack() as held:
        try:
            with deferred_signals(starts_program=True):  # else nobody might know of its process
                child = subprocess.Popen(
                    argv,
                    env=dict(environ),
                    stdin=subprocess.DEVNULL,
                    stdout=pipe,
                    stderr=pipe,
                    start_new_session=True,
                )
                held.callback(_end, child)
        except (OSError, ValueError) as exc:
            why = _of_start(exc, argv[0], environ)
            raise ToolError(f"{name} can't be started: {why}.", name) from exc
        out, said = _read(child, name, seconds, most)
    if child.returncode:
        code, why = child.returncode, _of_end(child.returncode, said, argv[0], environ)
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise ToolError(f"{name} {how}{why}.", name)
    return out


def _of_end(code: int, said: bytes, program: str, environ: Mapping[str, str]) -> str:
    """Return why a program failed, for the end of a sentence: what it said, and its first line's fault."""
    lines = said.decode("utf-8", "replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    shown = one_line(last.strip()[:_MOST_SHOWN]).replace("`", "'")  # no advice of ours
    if not (fault := _of_first_line(program, environ)):
        return f": {shown}" if shown else ""
    if code == _NOT_FOUND or not shown:  # env says it in its own words
        return f": {fault}"
    return f": {shown.rstrip('.')}; {fault}"


def _of_start(exc: Exception, program: str, environ: Mapping[str, str]) -> str:
    """Return why a program can't be started."""
    if isinstance(exc, OSError) and exc.errno == errno.ENOEXEC:
        return "it is neither a program of this system nor a script that begins like #!/bin/sh"
    if os.path.isfile(program) and not os.access(program, os.X_OK):
        with suppress(OSError):  # it is gone
            if os.statvfs(program).f_flag & getattr(os, "ST_NOEXEC", 0):  # macOS does not tell
                return "its disk runs no programs (noexec); move it to another disk"
        return f"it is not marked as a program; run chmod u+x {one_line(shlex.quote(program))}"
    return _of_first_line(program, environ) or reason(exc)


def _of_first_line(program: str, environ: Mapping[str, str]) -> str:
    """Return what is wrong with a script's first line; "" where nothing is."""
    path = shutil.which(program, path=os.pathsep.join(os.get_exec_path(dict(environ))))
    try:
        head = read_regular(path, sys.maxsize, head=_MOST_OF_LINE) if path else b""
    except FileAccessError:
        return ""
    line = head.partition(b"\n")[0]
    if not line.startswith(b"#!") or b"\0" in line:
        return ""
    if line.endswith(b"\r"):
        return "its first line ends in CR LF, as on Windows: let its lines end in LF alone"
    names = line[2:].split()
    if names and not os.access(names[0], os.X_OK):
        named = one_line(names[0].decode("utf-8", "replace"))
        return f"its first line names {named}, which is not there, or can't be run"
    return ""


def _read(
    child: subprocess.Popen[bytes], name: str, seconds: float, most: int
) -> tuple[bytes, bytes]:
    """Return stdout, and the end of stderr, once both are closed and the process has ended."""
    assert child.stdout is not None and child.stderr is not None
    until, out, said = time.monotonic() + seconds, bytearray(), bytearray()
    left = {child.stdout.fileno(): out, child.stderr.fileno(): said}
    late = OutOfTime(f"{name} took longer than {seconds:g} s.")
    poll = select.poll()  # a number may be above what select.select takes
    for number in left:
        poll.register(number, select.POLLIN)
    while left:
        ready = poll.poll(1000 * max(until - time.monotonic(), 0))
        if time.monotonic() > until + _END_SECONDS:  # ORE was stopped, and the tool was not
            until = time.monotonic() + _END_SECONDS
        if not ready or time.monotonic() >= until:  # what floods is always ready
            raise late if child.poll() is None else _left_behind(name)
        for number, _ in ready:
            block = os.read(number, _BLOCK)
            left[number].extend(block)
            if not block:
                poll.unregister(number)
                del left[number]
        if len(out) > most:
            raise ToolError(f"{name} wrote more than {most:,} bytes: make it write less.", name)
        del said[:-_MOST_SAID]
    try:
        child.wait(max(until - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired as exc:
        raise late from exc
    return bytes(out), bytes(said)


def _left_behind(name: str) -> ToolError:
    return ToolError(
        f"{name} ended, but a process that it left behind still has its output open: let that "
        f"process write elsewhere, as in COMMAND >/dev/null 2>&1 &.",
        name,
    )


def _end(child: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):  # all of them have ended, or are another user's
        os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # what ``sudo`` has started can't be ended
        child.wait(_END_SECONDS)
    for stream in (child.stdout, child.stderr):
        if stream is not None:
            stream.close()
