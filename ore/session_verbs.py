"""What can be done with saved sessions besides talking: list, show, search, rename, delete, export.

None of it needs a model. Knows nothing about turns or backends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict

from ore.console import LABEL, PROMPT, Console
from ore.errors import UsageError
from ore.options import Options
from ore.store import FileSessionStore
from ore.types import Message, Session

SHOWN = 60
"""How many characters of a message a list shows."""


def run_session_verb(options: Options, console: Console) -> None:
    """Do what the one session verb of the command line asks for.

    Raises:
        SessionError: A session is missing, in use, taken or can't be read.
        UsageError: A deletion that nobody confirmed.
    """
    store = FileSessionStore(report=console.notice)
    _VERBS[options.verb](options, console, store)


def _list(options: Options, console: Console, store: FileSessionStore) -> None:
    found = store.details_of_all()
    if not found:
        console.notice("There are no sessions: begin one with --session NAME.")
    if options.json:
        console.json([asdict(details) for details in found])
        return
    console.rows(
        [
            (
                details.name,
                _turns(details.turns),
                _when(details.last_used),
                _brief(details.first_prompt),
            )
            for details in found
        ]
    )


def _show(options: Options, console: Console, store: FileSessionStore) -> None:
    session = store.load(options.show_session)
    if options.json:
        console.json({**asdict(session), "messages": [_data(m) for m in session.messages]})
        return
    head = f"{options.show_session}: {_turns(_count(session))}, begun {_when(session.created_at)}"
    console.transcript(head, [(_label(message), message.content) for message in session.messages])


def _search(options: Options, console: Console, store: FileSessionStore) -> None:
    text = options.search_sessions
    found = store.search(text)
    if not found:
        console.notice(f"No message of a session holds '{text}'.")
    if options.json:
        console.json(
            [{"name": hit.name, "number": hit.number, **_data(hit.message)} for hit in found]
        )
        return
    console.rows(
        [
            (hit.name, str(hit.number), hit.message.role, _around(hit.message.content, text))
            for hit in found
        ]
    )


def _rename(options: Options, console: Console, store: FileSessionStore) -> None:
    old, new = options.rename_session
    store.rename(old, new)
    if options.json:
        console.json({"old": old, "new": new})
    console.notice(f"'{old}' is now called '{new}'.")


def _delete(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.delete_session
    if not store.exists(name):
        store.load(name)  # says that it is missing
    if not options.yes:
        if not console.can_confirm:
            raise UsageError(f"Deleting '{name}' needs --yes where nobody can be asked.")
        if not console.confirm(f"Delete the session '{name}' for good?"):
            console.notice("Nothing was deleted.")
            return
    store.delete(name)
    if options.json:
        console.json({"deleted": name})
    console.notice(f"'{name}' is deleted.")


def _export(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.export_session
    session = store.load(name)
    if options.json:
        raise UsageError("--export-session writes Markdown: use --show-session for --json.")
    parts = [f"# {name}", f"{_turns(_count(session))}, begun {_when(session.created_at)}"]
    for message in session.messages:
        parts.append("## You" if message.role == "user" else "## Aya")
        parts.append(message.content)
    console.document("\n\n".join(parts))


def _salvage(options: Options, console: Console, store: FileSessionStore) -> None:
    salvaged = store.salvage(options.salvage_session)
    console.notice(
        f"{_turns(salvaged.turns)} of '{options.salvage_session}' are in '{salvaged.name}'; the file "
        f"of '{options.salvage_session}' is as it was."
    )
    if options.json:
        console.json(asdict(salvaged))
    else:
        console.document(salvaged.name)


_VERBS: dict[str, Callable[[Options, Console, FileSessionStore], None]] = {
    "--list-sessions": _list,
    "--show-session": _show,
    "--search-sessions": _search,
    "--rename-session": _rename,
    "--delete-session": _delete,
    "--export-session": _export,
    "--salvage-session": _salvage,
}


def last_exchange(session: Session) -> list[str]:
    """Return the last turn as the two labelled texts that a person saw."""
    return [_label(message) + message.content for message in session.messages[-2:]]


def _data(message: Message) -> dict[str, object]:
    """The fields of a message that its session's file has."""
    return {key: value for key, value in asdict(message).items() if key != "images"}


def _label(message: Message) -> str:
    return PROMPT if message.role == "user" else LABEL


def _count(session: Session) -> int:
    return sum(message.role == "assistant" for message in session.messages)


def _turns(number: int) -> str:
    return "1 turn" if number == 1 else f"{number} turns"


def _when(seconds: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def _brief(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1] + "…"


def _around(content: str, text: str) -> str:
    """The part of a message that holds what was searched for, on one line."""
    place = max(content.casefold().find(text.casefold()), 0)
    start = max(place - SHOWN // 3, 0)
    return ("…" if start else "") + _brief(content[start:])
