"""The session of a run: where it comes from, where it is kept, and what is not saved yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ore.cli.options import Options
from ore.errors import OreError, SessionError, SessionNotFoundError
from ore.files import reason
from ore.types import Session

if TYPE_CHECKING:  # a turn without a session does not load it
    from pathlib import Path

    from ore.store import FileSessionStore


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
        is_noted: Whether that was noted beside the session in this run.
    """

    session: Session | None = None
    name: str | None = None
    source: str | None = None
    store: FileSessionStore | None = None
    unsaved: bool = False
    recorded: dict[str, str] | None = None
    is_noted: bool = False

    @property
    def length(self) -> int:
        """How many messages the session has."""
        return len(self.session.messages) if self.session is not None else 0

    @property
    def typed_file(self) -> Path | None:
        """Where a REPL keeps what was typed: beside the session; None where it is not saved."""
        if self.name is None or self.store is None:
            return None
        return self.store.typed_file(self.name)

    def parent(self) -> dict[str, str] | None:
        """Return what an artifact says of the last turn here that is recorded, if there is one."""
        for message in reversed(self.session.messages if self.session is not None else []):
            if sha256 := self._runs().get(message.id):
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

    def _runs(self) -> dict[str, str]:
        if self.recorded is None:
            store, source = self.store, self.source
            self.recorded = store.runs(source) if store is not None and source else {}
        return self.recorded

    def keep(self) -> SessionError | None:
        """Save the session where it has a name; return what went wrong: the answer comes first."""
        if self.name is None or self.store is None or self.session is None:
            return None
        self.unsaved = True
        try:
            self.store.save(self.session, self.name)
        except SessionError as exc:
            return exc
        self.unsaved = False
        return None


@contextmanager
def open_conversation(options: Options, notice: Callable[[str], None]) -> Iterator[Conversation]:
    """Yield the conversation that the flags ask for; its session is locked while it is open.

    A name for ``--save-session`` must be free; a fork gets an id of its own, its messages keep
    theirs; ``--resume-session`` alone saves nothing and says so.

    Raises:
        SessionError: The name is illegal, missing, taken or in use, or the file is not a session.
    """
    if not options.keeps_session:
        yield Conversation(Session() if options.has_session else None)
        return
    from ore.store import FileSessionStore, check_name

    store = FileSessionStore(report=notice)
    either = _last(store, notice) if options.continue_last else options.session
    target, source = (
        check_name(name) if name else None
        for name in (options.save_session or either, options.resume_session)
    )
    with store.lock(target) if target else nullcontext():
        session = _open(store, source, target, may_exist=either is not None)
        if target is None:
            notice(
                f"New turns are not saved: add --save-session {source} to go on in '{source}', "
                f"or another name to fork it."
            )
        yield Conversation(session, target, source or target, store)


def _last(store: FileSessionStore, notice: Callable[[str], None]) -> str:
    name = store.latest()
    if name is None:
        raise SessionNotFoundError(
            "There is no session to continue: begin one with --session NAME.", ""
        )
    notice(f"Continuing the session '{name}'.")
    return name


def _open(
    store: FileSessionStore, source: str | None, target: str | None, *, may_exist: bool
) -> Session:
    """Return the session to go on with; ``may_exist`` says whether ``target`` may, unloaded."""
    if target is not None and target != source:
        if not may_exist:
            store.refuse_existing(target)
        elif store.exists(target):
            return store.load(target)
    if source is None:
        return Session()
    session = store.load(source)
    return session if target in (None, source) else Session(messages=list(session.messages))
