"""``--replay``: recorded runs asked again and compared with before.

Each is one model call; where only the answer is another one, a second call shows whether the server
gives the same answer twice, a third one whether it does when it has just loaded the model, and two
more whether it does after other prompts.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace

from ore.artifact.compare import unified
from ore.artifact.many import files_of, has_folder
from ore.backends import Backend
from ore.cli.options import Options
from ore.cli.reopen import reopening
from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import raising_then
from ore.cli.terminal.pace import LOG_SECONDS, REDRAW_SECONDS, in_words
from ore.errors import CheckFailedError
from ore.files.neutral import one_line
from ore.rows.junit import junit_report
from ore.rows.replays import NOT_RUN, Replayed, case_of, replay_file

_FAILED = {
    "different": ("is not the same", "are not the same"),
    "not as expected": ("is not as expected", "are not as expected"),
    "not repeatable": ("has two answers when asked again", "have two answers when asked again"),
    NOT_RUN: ("could not be repeated", "could not be repeated"),
}


def replay(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Run the artifacts that ``options.replay`` names, or whose folders, and write what differs.

    Of each no more is kept than its line. Where the backend fails, what was done until then is written.
    """
    paths = list(files_of(options.replay))
    states: Counter[str] = Counter()
    lines: list[tuple[str, str, str]] = []
    failure: BaseException | None = None
    with ExitStack() as stack:
        report = None
        if options.junit is not None:
            report = stack.enter_context(junit_report(options.junit, "ore --replay"))
        shown = _Shown(console, len(paths), has_folder(options.replay), options.json)
        opening = stack.enter_context(
            reopening(options, console, connect, paths, shows_waiting=shown.waits)
        )

        def outcomes() -> Iterator[Replayed]:
            nonlocal failure
            try:
                for path in paths:
                    shown.begin(path, states)
                    began = time.monotonic()
                    outcome = replay_file(path, opening, console.stdin, console.warning)
                    if outcome.reason is not None:
                        named, why = console.said(path), console.said(outcome.reason)
                        outcome = replace(outcome, path=named, reason=why)
                    states[outcome.state] += 1
                    if report is not None:
                        report.add(case_of(outcome, time.monotonic() - began))
                    yield outcome
            except GeneratorExit:  # nobody takes more
                raise
            except BaseException as exc:  # it is raised when what was done is written
                failure = exc
            finally:
                console.end_progress()

        with raising_then(console, lambda: failure):
            if options.json:
                console.json_list(asdict(each) for each in outcomes())
            else:
                for each in outcomes():
                    if each.differences:
                        console.end_progress()
                        console.document(unified(each.differences, each.path, "replay"))
                    lines.append((each.path, each.state, each.details))
                console.rows(lines)
    found = [
        f"{states[state]} of {len(paths)} {'run' if len(paths) == 1 else 'runs'} "
        f"{one if states[state] == 1 else several}"
        for state, (one, several) in _FAILED.items()
        if states[state]
    ]
    if found:
        raise CheckFailedError(f"{', and '.join(found)}: see above.")


class _Shown:
    """How far a replay is: a line for each artifact that was named; of folders a bar, or a line a minute.

    Where a list of JSON is written to the same terminal, nothing is shown in the middle of it.
    """

    def __init__(self, console: Console, count: int, is_of_folder: bool, as_json: bool) -> None:
        self._console, self._count, self._is_of_folder = console, count, is_of_folder
        self._is_mixed = as_json and console.stdout_is_terminal and count > 1
        self._begun = self._told = time.monotonic()
        self._number = 0

    @property
    def waits(self) -> bool:
        """Whether it is shown of a single run that it is waited for."""
        return not (self._is_mixed or self._is_of_folder)

    def begin(self, path: str, states: Counter[str]) -> None:
        """Show which one is next."""
        done, self._number = self._number, self._number + 1
        if self._is_mixed:
            return
        if not self._is_of_folder:
            if self._count > 1:
                self._console.notice(f"{self._number} of {self._count}: {one_line(path)}")
            return
        now, failed = time.monotonic(), sum(states[state] for state in _FAILED)
        every = REDRAW_SECONDS if self._console.can_redraw else LOG_SECONDS
        if done and now - self._told < every:
            return
        self._told = now
        parts = [f"{done:,} of {self._count:,} run again"]
        parts += [f"{failed:,} not as before"] if failed else []
        if done:
            parts.append(f"{in_words((now - self._begun) / done * (self._count - done))} left")
        text = ", ".join(parts)
        if not self._console.bar(text):
            self._console.notice(f"{text}.")
