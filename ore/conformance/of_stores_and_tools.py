"""The rules of a session store, and of a tool."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from ore.conformance.verdicts import Broken, Unknown, expect
from ore.errors import GateError, SessionNotFoundError
from ore.gate import Gate
from ore.store import SessionStore
from ore.tools import Permission, Tool
from ore.types import Message, Session, ToolResult


def _name() -> str:
    """Return a name of a session that no earlier check has left in the store."""
    return f"conformance-{uuid4().hex[:8]}"


def _session() -> Session:
    return Session([Message("user", " Ünïcode 🙂\r\n "), Message("assistant", "Rome.")])


def gives_back_what_was_saved(make: Callable[[], SessionStore]) -> None:
    """another store of the same place loads the session that was saved, whole"""
    session, name = _session(), _name()
    make().save(session, name)
    expect(make().load(name) == session, "what is loaded is not what was saved")


def loads_a_session_of_its_own(make: Callable[[], SessionStore]) -> None:
    """what is loaded is nobody else's: adding to it changes no other"""
    store, session, name = make(), _session(), _name()
    store.save(session, name)
    store.load(name).messages.append(Message("user", "More?"))
    expect(len(store.load(name).messages) == 2, "a loaded session is shared")
    session.messages.append(Message("user", "More?"))
    expect(len(store.load(name).messages) == 2, "the saved session is shared")


def saves_again(make: Callable[[], SessionStore]) -> None:
    """a session that went on is saved over what it continues, and save changes no session"""
    store, session, name = make(), _session(), _name()
    store.save(session, name)
    session.messages += [Message("user", "And?"), Message("assistant", "Paris.")]
    before = list(session.messages)
    store.save(session, name)
    expect(session.messages == before, "save changed the session")
    expect(store.load(name).messages == before, "the later turn is not there")


def says_what_is_not_there(make: Callable[[], SessionStore]) -> None:
    """a name that is not there is a SessionNotFoundError, and the list has those that are, sorted"""
    store, saved = make(), sorted((_name(), _name()), reverse=True)
    for name in saved:
        store.save(Session(), name)
    names = store.list()
    expect(names == sorted(names), "the list is not sorted")
    expect(set(saved) <= set(names), "the list lacks what was saved")
    try:
        store.load(_name())
    except SessionNotFoundError:
        return
    raise Broken("a missing session was loaded")


def says_what_it_is(make: Callable[[], Tool]) -> None:
    """a tool has a name, a description and the permissions that it needs"""
    tool = make()
    expect(isinstance(tool.name, str) and tool.name, "it has no name")
    expect(isinstance(tool.description, str) and tool.description, "it has no description")
    permissions = tool.required_permissions
    expect(isinstance(permissions, frozenset), "required_permissions is not a frozenset")
    expect(
        all(isinstance(each, Permission) for each in permissions),
        "a permission is not a Permission",
    )
    hints, args = tool.routing_hints(), tool.extract_args("do it")
    expect(isinstance(hints, tuple), "routing_hints is not a tuple")
    expect(all(isinstance(each, str) for each in hints), "a routing hint is not text")
    expect(isinstance(args, dict), "extract_args returns no dict")
    texts = [*args, *args.values()]
    expect(all(isinstance(each, str) for each in texts), "extract_args returns what is not text")


def gives_one_result(make: Callable[[], Tool]) -> None:
    """run returns a ToolResult in the tool's name, and leaves its arguments as they are"""
    tool = make()
    args = {name: "conformance" for name in tool.required_args}
    before = dict(args)
    result: object = tool.run(args)
    expect(isinstance(result, ToolResult), f"it returned {type(result).__name__}")
    assert isinstance(result, ToolResult)
    expect(result.tool_name == tool.name, "the result has another name")
    expect(result.status in ("ok", "error"), f"its status is {result.status!r}")
    expect(isinstance(result.output, str), "its output is not text")
    expect(args == before, "it changed its arguments")


def runs_with_its_permissions_only(make: Callable[[], Tool]) -> None:
    """a gate without its permissions does not run it"""
    tool = make()
    if not tool.required_permissions:
        raise Unknown("it needs no permission")
    for missing in tool.required_permissions:
        try:
            Gate(tool.required_permissions - {missing}).run(tool, {})
        except GateError:
            continue
        raise Broken(f"it ran without {missing.value}")
