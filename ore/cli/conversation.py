"""The session of a run: where it comes from, where it is kept, and what is not saved yet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ore.backends.window import estimate, most_of
from ore.cli.options import Options
from ore.errors import OreError, SessionError, SessionNotFoundError
from ore.files import reason
from ore.types import Message, Session

if TYPE_CHECKING:  # a turn without a session does not load it
    from pathlib import Path

    from ore.store import Beginning, FileSessionStore


@dataclass
class Conversation:
    """A session, or none, and the name it is saved under, or none.

    Attributes:
        session: What the turns of this run share; None where every turn is stateless.
        name: The name it is saved under after each turn; None where it is not saved.
        source: The name its messages were loaded from; None where there were none.
        store: Where it is saved; None where there is no session to save.
        unsaved: Whether turns were taken that are not on disk.
        recorded: The SHA-256 of the artifact of each turn that is recorded, by the id of its answer;
            None as long as it was not needed.
        is_noted: Whether a turn of this run was noted beside the session as recorded.
        source_id: The identity of the session that was loaded, which a fork does not have.
        beginning: How the session was begun, if that is known; it is kept with its first turn, and again
            where the session is gone.
        sizes: The tokens of prompts that were the conversation alone, and a hash of what they were
            made of, their messages too, by the id of the answer; None as long as it was not needed.
        noted: The ids of those that are noted beside the session.
        doubted: Hashes of what prompts were made of whose cut nothing would tell, as was said once.
        told: What this run has told that concerns each of its turns.
        held: What is given back in the end: the lock of its session.
    """

    session: Session | None = None
    name: str | None = None
    source: str | None = None
    store: FileSessionStore | None = None
    unsaved: bool = False
    recorded: dict[str, str] | None = None
    is_noted: bool = False
    source_id: str | None = None
    beginning: Beginning | None = None
    sizes: dict[str, tuple[int, str]] | None = None
    noted: set[str] = field(default_factory=set[str])
    doubted: set[str] = field(default_factory=set[str])
    told: set[str] = field(default_factory=set[str])
    held: ExitStack = field(default_factory=ExitStack)

    def says_first(self, text: str) -> bool:
        """Return whether a ``text`` that concerns every turn was not told yet, and take it for told."""
        is_new = text not in self.told
        self.told.add(text)
        return is_new

    @property
    def length(self) -> int:
        """How many messages the session has."""
        return len(self.session.messages) if self.session is not None else 0

    @property
    def is_new(self) -> bool:
        """Whether it is saved under a name that had no session before this run."""
        return self.name is not None and (self.source_id is None or self.name != self.source)

    @property
    def typed_file(self) -> Path | None:
        """Where a REPL keeps what was typed: beside the session; None where it is not saved."""
        if self.name is None or self.store is None:
            return None
        return self.store.typed_file(self.name)

    def parent(self) -> dict[str, str] | None:
        """Return what an artifact says of the last turn here that is recorded, if there is one."""
        runs = self._runs()
        for message in reversed(self.session.messages if self.session is not None and runs else []):
            if sha256 := runs.get(message.id):
                return {"execution_id": message.id, "sha256": sha256, "relation": "session"}
        return None

    def note(self, execution_id: str, sha256: str) -> OreError | None:
        """Note that the last turn is recorded; return what went wrong."""
        if self.session is None:
            return None
        known, new = self._runs(), {execution_id: sha256}
        known |= new
        if self.name is None or self.store is None:
            return None
        is_first_of_fork = self.name != self.source and not self.is_noted
        self.is_noted = True
        try:
            self.store.add_runs(self.name, known if is_first_of_fork else new)
        except OSError as exc:
            return SessionError(
                f"The turn is recorded, but not noted beside the session '{self.name}' "
                f"({reason(exc)}): its next artifact will name an earlier parent.",
                self.name,
            )
        return None

    def longest_prompt(self, made_of: str) -> tuple[int, int, int]:
        """Return the tokens of an earlier prompt, and at least and at most how many came since.

        It is the one, of those that were made of the same, with which it and the least are most; zeros
        without any. The least has no answers, for they may be sent in part.
        """
        most, added, since = 0, 0, 0
        for message, tokens, _ in self._counted(made_of):
            text = message.content.encode("utf-8", "surrogatepass")
            if message.role != "user" and tokens > most + added:
                most, added, since = tokens, 0, 0
            elif message.role == "user" and most:
                added += estimate([text]).least
            since += most_of([text], 0)
        return most, added, since if most else 0

    def note_size(self, tokens: int, made_of: str) -> OreError | None:
        """Note how many tokens the last prompt had, where none had more; return what went wrong."""
        counted = [(known, message.id, of) for message, known, of in self._counted(made_of)]
        if not counted:
            return None
        most, id, of = max(max(counted), (tokens, *counted[-1][1:]))
        self._sizes()[id] = most, of
        if self.store is None or self.name is None or self.unsaved or id in self.noted:
            return None
        self.noted.add(id)
        try:
            self.store.add_size(self.name, id, most, of)
        except OSError as exc:
            return SessionError(
                f"How many tokens the prompt has is not noted beside the session '{self.name}' "
                f"({reason(exc)}): a later run can't tell from it that a prompt was cut.",
                self.name,
            )
        return None

    def _counted(self, made_of: str) -> Iterator[tuple[Message, int, str]]:
        """Yield each message with the tokens of what it answers, as far as they are known, and its hash.

        The hash is of ``made_of`` and of all messages before: they may be edited in the file.
        """
        digest, sizes = hashlib.sha256(made_of.encode()), self._sizes()
        for message in self.session.messages if self.session is not None else []:
            of = digest.hexdigest()
            tokens, then = sizes.get(message.id, (0, ""))
            yield message, tokens if of == then else 0, of
            text = f"\n{message.role}\n{message.content}"
            digest.update(text.encode("utf-8", "surrogatepass"))

    def _sizes(self) -> dict[str, tuple[int, str]]:
        if self.sizes is None:
            self.sizes = {}
            if self.store is not None and self.source is not None:
                self.sizes = self.store.sizes(self.source)
                self.noted = set(self.sizes) if self.name == self.source else set()
        return self.sizes

    def _runs(self) -> dict[str, str]:
        if self.recorded is None:
            store, source = self.store, self.source
            self.recorded = store.runs(source) if store is not None and source else {}
        return self.recorded

    def keep(self) -> SessionError | None:
        """Save the session where it has a name; return what went wrong: the answer comes first."""
        if self.name is None or self.store is None or self.session is None:
            return None
        self.unsaved, is_there = True, False
        with suppress(OreError):  # saving says what is wrong
            is_there = self.store.exists(self.name)
        try:
            self.store.save(self.session, self.name)
        except SessionError as exc:
            return exc
        self.unsaved = False
        if not is_there:
            self._begin()
        return None

    def save_as(self, name: str, store: FileSessionStore, beginning: Beginning) -> None:
        """Save the session under a name that must be free, now and after each turn.

        One that was loaded, or that can't be saved under the name that it has, is forked: it gets an
        id of its own.

        Raises:
            SessionError: The name is illegal, taken or in use, or it can't be written.
        """
        assert self.session is not None
        session = self.session
        self._runs()  # of the session that was loaded
        self._sizes()
        if self.source_id is not None or self.name is not None:
            session = Session(list(session.messages))
        with ExitStack() as held:
            held.enter_context(store.lock(name))
            store.refuse_existing(name)
            if session.messages:
                store.create(session, name)
            self.held.push(held.pop_all())
        self.session, self.store, self.name = session, store, name
        self.source_id, self.unsaved = None, False
        self.is_noted, self.noted = False, set()
        self.beginning = replace(beginning, id=session.id)
        if session.messages:
            self._begin()

    def _begin(self) -> None:
        if self.beginning is not None and self.store is not None and self.name is not None:
            self.store.begin(self.name, self.beginning)


@contextmanager
def open_conversation(options: Options, notice: Callable[[str], None]) -> Iterator[Conversation]:
    """Yield the conversation that the flags ask for; its session is locked while it is open.

    A name for ``--save-session`` must be free; a fork gets an id of its own, its messages keep
    theirs; ``--resume-session`` alone saves nothing and says so.

    Raises:
        SessionError: The name is illegal, missing, taken or in use, or the file is not a session.
    """
    if not options.keeps_session:
        with ExitStack() as held:
            yield Conversation(Session() if options.has_session else None, held=held)
        return
    from ore.store import FileSessionStore, check_name

    store = FileSessionStore(report=notice)
    either = _last(store, notice) if options.continue_last else options.session
    target, source = (
        check_name(name) if name else None
        for name in (options.save_session or either, options.resume_session)
    )
    with ExitStack() as held:
        if target is not None:
            held.enter_context(store.lock(target))
            if either is not None and store.exists(target):
                source = target
            elif target != source:
                store.refuse_existing(target)
        loaded = store.load(source) if source is not None else None
        session = loaded or Session()
        if loaded is not None and target not in (None, source):
            session = Session(messages=list(loaded.messages))
        if target is None:
            notice(
                f"New turns are not saved: add --save-session {source} to go on in '{source}', "
                f"or another name to fork it."
            )
        conversation = Conversation(session, target, source or target, store, held=held)
        conversation.source_id = loaded.id if loaded is not None else None
        yield conversation


def _last(store: FileSessionStore, notice: Callable[[str], None]) -> str:
    name = store.latest()
    if name is None:
        raise SessionNotFoundError(
            "There is no session to continue: begin one with --session NAME.", ""
        )
    notice(f"Continuing the session '{name}'.")
    return name
