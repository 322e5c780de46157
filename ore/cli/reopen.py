"""Recorded runs opened again as the flags say: which model, which backend, how long it may take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ore.backends import Backend
from ore.backends.chat_template import read_chat_template
from ore.cli.chosen import connector
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.glass.reopening import Reopening


def reopening(
    options: Options,
    console: Console,
    connect: Callable[..., Backend],
    others: Sequence[str] | None,
    *,
    shows_waiting: bool = True,
) -> Reopening:
    """Return what opens recorded runs again.

    Args:
        connect: What makes a backend of options.
        others: Paths of runs that they may have gone on from; None where the user can't name any.
        shows_waiting: Whether it is shown that a model is waited for.
    """

    @contextmanager
    def waiting(phase: Callable[[], str]) -> Iterator[None]:
        if shows_waiting:
            console.begin_waiting(phase)
        try:
            yield
        finally:
            console.end_waiting()

    path = options.chat_template
    return Reopening(
        options.model,
        backend=options.backend,
        host=options.host,
        options=options.option,
        timeout=options.timeout,
        deadline=options.deadline,
        strict_context=options.strict_context,
        chat_template=None if path is None else read_chat_template(path),
        others=others,
        notice=console.notice,
        waiting=waiting,
        connect=connector(options, connect),
    )
