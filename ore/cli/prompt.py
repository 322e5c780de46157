"""What is asked: the prompt from argv, stdin or an artifact, and what the flags add to it.

All of it is read and checked before anything is sent.
"""

from __future__ import annotations

import io
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from ore.backends.chat_template import read_chat_template
from ore.backends.images import read_image
from ore.backends.model_options import parse_keep_alive, parse_options, parse_think
from ore.backends.schema import read_schema
from ore.backends.settings import Settings
from ore.cli.options import Options, with_default_system
from ore.cli.parser import LONG_DASHES, decode
from ore.cli.rules import DEFAULT_SYSTEM, VERBS
from ore.cli.terminal.console import Console
from ore.errors import OreError, UsageError
from ore.files import reason
from ore.glass.choosing import read_choices
from ore.types import ExecutionArtifact
from ore.types.speakers import AYA, UNNAMED

if TYPE_CHECKING:  # a turn that is made from no artifact does not load it
    from ore.cli.chain import Link
    from ore.glass.planned import Planned
    from ore.rows.given import Given

PATIENCE = 2.0
"""Seconds without a byte on stdin after which ORE says that it is reading it."""

LONGEST_PROMPT = 64 << 20
"""Bytes: the most that is read from stdin."""

_PART = 1 << 20  # bytes of stdin that are asked for at once

_COMMANDS = {
    **{"chat": "ore -c", "serve": "ollama serve", "sessions": "ore --list-sessions"},
    **dict.fromkeys(("list", "ls", "models"), "ore --list-models"),
    **{
        flag[2:]: f"ore {flag}"
        for flag in (*VERBS, "--run", "--interactive", "--help", "--version")
    },
}
"""What may be meant by a word: a command of another program's, or a flag that does something by itself."""

_BESIDE_A_COMMAND = frozenset(("a prompt", "--model", "--backend", "--host"))


class Asked(NamedTuple):
    """What is asked first; in a REPL there may be nothing yet.

    Attributes:
        prompt: The user's text as it is sent, or None.
        typed: The part of it that the user wrote as an argument, or all of it where it came from
            stdin alone. Only this may choose a route: what is piped in below it is data.
        source: ``"prompt"``, ``"stdin"``, or ``"prompt+stdin"`` where both make one message.
        model: The model that was named, or None for the default one.
        link: The artifact whose prompt is asked, or whose answer is gone on from, or None.
        system_prompt: None is Aya's, ``""`` is none at all.
        system_from: What chose it: a flag (``--run`` for what its file says), ``ORE_SYSTEM``,
            ``session:NAME`` for how that was begun, or ``default``.
        speaker: Whose answers they are, as their label says: the persona's name, or ``answer`` where
            the system prompt is none or has no name.
        settings: What the flags ask of the model.
        images: The bytes of the images that belong to the prompt.
        given: What a run file or a plan has given, or None.
    """

    prompt: str | None
    typed: str | None
    source: str = "prompt"
    model: str | None = None
    link: Link | None = None
    system_prompt: str | None = None
    system_from: str = "default"
    speaker: str = AYA
    settings: Settings = Settings()
    images: tuple[bytes, ...] = ()
    given: Given | None = None

    @property
    def planned(self) -> Planned | None:
        """The turn of a plan, whose messages are there already, or None."""
        return self.given.planned if self.given is not None else None

    @property
    def after(self) -> ExecutionArtifact | None:
        """The artifact whose answer is sent before the prompt, or None."""
        return self.link.after if self.link is not None else None


def read_asked(options: Options, console: Console, given: Given | None) -> Asked:
    """Return what argv, stdin, an artifact or a file asks, with all that the flags add to it."""
    is_planned = given is not None and given.planned is not None
    shaped = options if is_planned else with_default_system(options, os.environ)
    system_from = options.system_flag or ("default" if shaped is options else DEFAULT_SYSTEM)
    try:
        system_prompt = _system_prompt(shaped, given)
    except OreError as exc:
        if system_from != DEFAULT_SYSTEM:
            raise
        raise UsageError(f"{DEFAULT_SYSTEM} can't be used: {exc}") from exc
    settings = _settings(options, console)
    images = tuple(read_image(path) for path in options.image)
    link = None
    if options.artifact_in is not None or options.after is not None:
        from ore.cli.chain import read_link

        link = read_link(options, console, system_prompt, images)
    if link is not None and link.rerun is not None:
        prompt = link.artifact.input.prompt
        asked = Asked(prompt, prompt, model=link.rerun.model, link=link)
    else:
        asked = _from_user(options, console)._replace(link=link)
    if given is not None:
        came_from = given.source if asked.prompt == given.prompt else asked.source
        asked = asked._replace(typed=given.typed, source=came_from, given=given)
        system_from = "--run" if given.says_system else system_from
        given.check_system(system_prompt)
    return asked._replace(
        system_prompt=system_prompt,
        system_from=system_from,
        speaker=UNNAMED if shaped.has_own_system else shaped.persona or AYA,
        settings=settings,
        images=images,
    )


def _system_prompt(options: Options, given: Given | None) -> str | None:
    if given is not None and given.planned is not None:
        return given.planned.system
    if options.no_system:
        return ""
    text = options.system
    if options.persona is None and not (text or "").startswith("@"):
        return text
    from ore.glass.personas import load_persona, read_system_prompt

    return (
        load_persona(options.persona) if options.persona else read_system_prompt((text or "")[1:])
    )


def _settings(options: Options, console: Console) -> Settings:
    """Return the settings that the flags make; each backend refuses what it does not have."""
    return Settings(
        timeout=options.timeout,
        deadline=options.deadline,
        strict_context=options.strict_context,
        conversation=options.is_repl and options.has_session,
        format=None if options.schema is None else read_schema(options.schema),
        choices=None if options.choose is None else read_choices(options.choose),
        logprobs=options.logprobs,
        options=parse_options(options.option) if options.option else {},
        think=parse_think(options.think),
        keep_alive=None if options.keep_alive is None else parse_keep_alive(options.keep_alive),
        on_thinking=None if options.quiet else console.thinking,
        on_warning=console.warning,
        joins=options.join_messages != "never",
        chat_template=read_chat_template(options.chat_template) if options.chat_template else None,
        rendered=options.artifact_full,
    )


def _from_user(options: Options, console: Console) -> Asked:
    written = options.prompt
    if options.is_repl:
        return Asked(written, written, model=options.model)
    prompt = read_prompt(options, console.stdin, console.notice)
    if prompt == written and console.stderr_is_terminal and _BESIDE_A_COMMAND >= {*options.given}:
        meant = _meant(prompt)
        if meant is not None:
            console.notice(meant)
    source = "stdin" if written is None else "prompt" if prompt == written else "prompt+stdin"
    return Asked(prompt, prompt if written is None else written, source, options.model)


def _meant(word: str) -> str | None:
    """Return what to say of a prompt that may be meant as a command or a file; None if nothing."""
    if command := _COMMANDS.get(word):
        return f"'{word}' was taken as a prompt. If it was meant as a command, write {command}."
    if word.startswith(LONG_DASHES) and " " not in word:
        return "The prompt begins with a long dash; a flag begins with - or --."
    if os.path.isfile(word):
        return (
            "The prompt is the name of a file. To have the file read, write -f before it, and a "
            "question after it."
        )
    return None


def read_prompt(
    options: Options, stdin: io.BufferedIOBase | None, notice: Callable[[str], None]
) -> str:
    """Return the prompt, what is piped in, or both: the prompt, a blank line, then stdin.

    stdin is read only where it ``is_readable``, so no inherited terminal or device is waited for, and
    where it is no artifact. ``notice`` is told, from another thread, when nothing has come for
    ``PATIENCE`` seconds; and how much a stdin that others read too has added to the prompt.
    """
    prompt = options.prompt
    read = stdin_of(options, stdin)
    is_own = prompt is None or read is None or _is_own(read)
    way = "write a prompt and add -n" if prompt is None else "add -n or </dev/null"
    piped = None if read is None else read_all(read, notice, f"; to ask without it, {way}")
    if piped is not None and piped.strip():
        if not is_own:
            size = len(piped.encode())
            were = "byte of stdin was" if size == 1 else "bytes of stdin were"
            notice(f"{size:,} {were} added to the prompt: -n leaves stdin alone.")
        return piped if prompt is None else f"{prompt}\n\n{piped}"
    if prompt is not None:
        return prompt
    if options.artifact_out not in (None, "-"):  # a bare --artifact-out takes what follows it
        raise UsageError(
            f"There is no prompt: --artifact-out took '{options.artifact_out}' as its PATH. Put "
            f"the prompt before it, or write --artifact-out=-."
        )
    if piped is None and options.no_stdin:
        raise UsageError("There is no prompt: write one; --no-stdin leaves stdin alone.")
    if piped is None:
        raise UsageError(
            'There is no prompt: write one, as in ore "Why is the sky blue?", or talk with ore -c.'
        )
    raise UsageError("There is no prompt: write one; stdin is empty.")


def stdin_of(options: Options, stdin: io.BufferedIOBase | None) -> io.BufferedIOBase | None:
    """Return stdin where it may have a part of the prompt: it ``is_readable``, and no artifact."""
    if stdin is None or options.no_stdin or options.after == "-" or not is_readable(stdin):
        return None
    return stdin


def is_readable(stdin: io.BufferedIOBase) -> bool:
    """Return whether stdin is a pipe, a regular file or a socket."""
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):  # in memory: a library's caller passed it on purpose
        return not stdin.closed and not stdin.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _is_own(stdin: io.BufferedIOBase) -> bool:
    """Return whether stdin seems to be made for this process alone.

    It is not where something of a file was read before, or where the process that started this one
    has the same pipe. Where the system does not tell (``/proc``), it is.
    """
    try:
        status = os.fstat(stdin.fileno())
        if stat.S_ISREG(status.st_mode):  # a shell may lend it its own stdin for ``< FILE``
            return os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 0
        return not _is_read_by(os.getppid(), status)
    except (OSError, ValueError):
        return True


def _is_read_by(process: int, pipe: os.stat_result) -> bool:
    """Return whether a process has a pipe open for reading; raise ``OSError`` where it can't be told."""
    for number in os.listdir(f"/proc/{process}/fd"):
        with suppress(OSError):  # closed meanwhile
            if os.path.samestat(pipe, os.stat(f"/proc/{process}/fd/{number}")):
                with open(f"/proc/{process}/fdinfo/{number}", encoding="ascii") as lines:
                    flags = next(int(line.split()[1], 8) for line in lines if "flags:" in line)
                if flags & os.O_ACCMODE != os.O_WRONLY:
                    return True
    return False


def read_all(stdin: io.BufferedIOBase, notice: Callable[[str], None], more: str) -> str:
    """Return stdin to its end as text; ``notice`` is told as in ``read_prompt``, with ``more``."""
    timer = threading.Timer(PATIENCE, notice, (f"ore is reading stdin{more}.",))
    timer.daemon = True
    with suppress(RuntimeError):  # the system has no thread left
        timer.start()
    try:
        parts = [stdin.read(1)]
        timer.cancel()
        size = len(parts[0])
        while size <= LONGEST_PROMPT and (part := stdin.read(_PART)):
            parts.append(part)
            size += len(part)
    except OSError as exc:
        raise UsageError(f"stdin can't be read: {reason(exc)}.") from exc
    finally:
        timer.cancel()
    if size > LONGEST_PROMPT:
        raise UsageError(
            f"stdin has more than {LONGEST_PROMPT >> 20} MiB, the most that a prompt can have: send "
            f"a part of it. Nothing was sent."
        )
    return decode(b"".join(parts), "stdin")
