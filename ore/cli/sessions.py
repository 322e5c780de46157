"""What can be done with saved sessions without a model: list, show, search, rename, and so on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import accumulate

from ore.cli.agreed import is_agreed
from ore.cli.options import Options
from ore.cli.terminal.asking import PROMPT_LABEL
from ore.cli.terminal.console import Console
from ore.cli.terminal.text import PREVIEW, preview
from ore.errors import SessionError, SessionNotFoundError, UsageError
from ore.files.neutral import brief
from ore.store import Beginning, FileSessionStore, Found
from ore.store.pages import (
    about_session,
    in_words,
    session_markdown,
    speaker_of,
    time_in_words,
    turns_in_words,
)
from ore.types import Message


def do_session_verb(options: Options, console: Console, *_: object) -> None:
    """Do what the one session verb of the command line asks for."""
    verbs = {
        "--list-sessions": _list,
        "--show-session": _show,
        "--search-sessions": _search,
        "--rename-session": _rename,
        "--delete-session": _delete,
        "--export-session": _export,
        "--salvage-session": _salvage,
    }
    store = FileSessionStore(report=console.notice)
    verbs[options.verb or ""](options, console, store)


def _list(options: Options, console: Console, store: FileSessionStore) -> None:
    left_out: list[str] = []

    def report(text: str) -> None:
        left_out.append(text)
        console.notice(text)

    found = FileSessionStore(store.root, report=report).details_of_all()
    if not found and not left_out:
        console.notice("There are no sessions: begin one with --session NAME.")
    if options.json:
        console.json([asdict(each) for each in found])
        return
    console.rows(
        [
            (
                each.name,
                turns_in_words(each.turns),
                time_in_words(each.last_used),
                preview(each.first_prompt),
            )
            for each in found
        ]
    )


def _show(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.show_session or ""
    session = store.load(name)
    if options.json:
        console.json({**asdict(session), "messages": [_data(m) for m in session.messages]})
        return
    begun = _beginning(console, store, name)
    console.answers_as(speaker_of(begun))
    labels = {"user": PROMPT_LABEL, "assistant": console.answer_label}
    parts = [(labels[message.role], message.content) for message in session.messages]
    about = about_session(session) + (f" with {in_words(begun)}" if begun is not None else "")
    console.transcript(f"{name}: {about}", parts)


def _search(options: Options, console: Console, store: FileSessionStore) -> None:
    text, count = options.search_sessions or "", 0

    def found() -> Iterator[Found]:
        nonlocal count
        for hit in store.each_found(text):
            count += 1
            yield hit

    if options.json:
        with console.telling_below():  # which files were left out
            console.json_list(
                {"name": hit.name, "number": hit.number, **_data(hit.message)} for hit in found()
            )
    else:
        console.rows(
            [
                (hit.name, str(hit.number), hit.message.role, _around(hit.message.content, text))
                for hit in found()
            ]
        )
    if not count:
        raise SessionNotFoundError(
            f"No message of a session that can be read contains '{brief(text)}'.", ""
        )


def _rename(options: Options, console: Console, store: FileSessionStore) -> None:
    old, new = options.rename_session
    store.rename(old, new)
    if options.json:
        console.json({"old": old, "new": new})
    console.notice(f"'{old}' is now called '{new}'.")


def _delete(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.delete_session or ""
    if not store.exists(name):
        store.load(name)  # says that it is missing
    question = f"Delete the session '{name}' for good?"
    if not is_agreed(options, console, question, f"Deleting '{name}'", "deleted"):
        return
    store.delete(name)
    if options.json:
        console.json({"deleted": name})
    console.notice(f"'{name}' is deleted.")


def _export(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.export_session or ""
    session = store.load(name)
    if options.json:
        raise UsageError("--export-session writes Markdown: use --show-session for --json.")
    begun = _beginning(console, store, name)
    console.document(session_markdown(session, name, begun))


def _salvage(options: Options, console: Console, store: FileSessionStore) -> None:
    name = options.salvage_session or ""
    salvaged = store.salvage(name)
    console.notice(
        f"'{salvaged.name}' has {turns_in_words(salvaged.turns)} of '{name}', whose file is unchanged."
    )
    if options.json:
        console.json(asdict(salvaged))
    else:
        console.document(salvaged.name)


def _beginning(console: Console, store: FileSessionStore, name: str) -> Beginning | None:
    """Return what a session was begun with, if that is known; a bad file is said."""
    try:
        return store.beginning(name)
    except SessionError as exc:
        console.notice(str(exc))
        return None


def _data(message: Message) -> dict[str, object]:
    """Return the fields of a message that its session's file has."""
    return {key: value for key, value in asdict(message).items() if key != "images"}


def _around(content: str, text: str) -> str:
    """Return the part of a message that contains what was searched for, on one line."""
    folded = content.casefold()
    place = max(folded.find(text.casefold()), 0)
    if len(folded) != len(content):  # ß is two in lower case
        reached = accumulate(len(letter.casefold()) for letter in content)
        place = next((number for number, end in enumerate(reached) if end > place), 0)
    start = max(place - PREVIEW // 3, 0)
    return ("…" if start else "") + preview(content[start:])
