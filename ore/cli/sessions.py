"""What can be done with saved sessions without a model: list, show, search, rename, and so on."""

from __future__ import annotations

import time
from dataclasses import asdict

from ore.cli.options import Options
from ore.cli.terminal.console import ANSWER_LABEL, PROMPT_LABEL, Console
from ore.errors import UsageError
from ore.store import FileSessionStore
from ore.types import Message, Session

SHOWN = 60
"""How many characters of a message a list shows."""


def do_session_verb(options: Options, console: Console) -> None:
    """Do what the one session verb of the command line asks for.

    Raises:
        SessionError: A session is missing, in use, taken or can't be read.
        UsageError: A deletion that nobody confirmed, or an export as JSON.
    """
    store = FileSessionStore(report=console.notice)
    if options.show_session is not None:
        _show(options.show_session, console, store, options.json)
    elif options.search_sessions is not None:
        _search(options.search_sessions, console, store, options.json)
    elif options.rename_session:
        old, new = options.rename_session
        _rename(old, new, console, store, options.json)
    elif options.delete_session is not None:
        if _may_delete(options.delete_session, console, store, options.yes):
            _delete(options.delete_session, console, store, options.json)
    elif options.export_session is not None:
        _export(options.export_session, console, store, options.json)
    elif options.salvage_session is not None:
        _salvage(options.salvage_session, console, store, options.json)
    else:
        _list(console, store, options.json)


def _list(console: Console, store: FileSessionStore, as_json: bool) -> None:
    found = store.details_of_all()
    if not found:
        console.notice("There are no sessions: begin one with --session NAME.")
    if as_json:
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


def _show(name: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    session = store.load(name)
    if as_json:
        console.json({**asdict(session), "messages": [_data(m) for m in session.messages]})
        return
    parts = [(_label(message), message.content) for message in session.messages]
    console.transcript(f"{name}: {_about(session)}", parts)


def _search(text: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    found = store.search(text)
    if not found:
        console.notice(f"No message of a session holds '{text}'.")
    if as_json:
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


def _rename(old: str, new: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    store.rename(old, new)
    if as_json:
        console.json({"old": old, "new": new})
    console.notice(f"'{old}' is now called '{new}'.")


def _may_delete(name: str, console: Console, store: FileSessionStore, yes: bool) -> bool:
    if not store.exists(name):
        store.load(name)  # says that it is missing
    if yes:
        return True
    answer = console.confirm(f"Delete the session '{name}' for good?")
    if answer is None:
        raise UsageError(f"Deleting '{name}' needs --yes where nobody can be asked.")
    if not answer:
        console.notice("Nothing was deleted.")
    return answer


def _delete(name: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    store.delete(name)
    if as_json:
        console.json({"deleted": name})
    console.notice(f"'{name}' is deleted.")


def _export(name: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    session = store.load(name)
    if as_json:
        raise UsageError("--export-session writes Markdown: use --show-session for --json.")
    parts = [f"# {name}", _about(session)]
    for message in session.messages:
        parts.append("## You" if message.role == "user" else "## Aya")
        parts.append(message.content)
    console.document("\n\n".join(parts))


def _salvage(name: str, console: Console, store: FileSessionStore, as_json: bool) -> None:
    salvaged = store.salvage(name)
    console.notice(
        f"'{salvaged.name}' has {_turns(salvaged.turns)} of '{name}', whose file is as it was."
    )
    if as_json:
        console.json(asdict(salvaged))
    else:
        console.document(salvaged.name)


def last_exchange(session: Session) -> list[tuple[str, str]]:
    """Return the last turn as two texts, each after the label that a person saw."""
    return [(_label(message), message.content) for message in session.messages[-2:]]


def _data(message: Message) -> dict[str, object]:
    """The fields of a message that its session's file has."""
    return {key: value for key, value in asdict(message).items() if key != "images"}


def _label(message: Message) -> str:
    return PROMPT_LABEL if message.role == "user" else ANSWER_LABEL


def _about(session: Session) -> str:
    answers = sum(message.role == "assistant" for message in session.messages)
    return f"{_turns(answers)}, begun {_when(session.created_at)}"


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
