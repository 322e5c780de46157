"""A session as JSON text: written in one form, read strictly.

What is written here is what can be read here, and nothing else is read. Knows nothing about files
or names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ore.types import Message, Session
from ore.types.strictjson import refuse_constant, syntax_problem

MAX_BYTES = 256 * 1024 * 1024
"""The largest session that is read or written, about a million messages."""

_SESSION_KEYS = ("id", "created_at", "messages")
_MESSAGE_KEYS = ("role", "content", "id", "timestamp")
_MOST_DIGITS = 40
_END = b"\n  ]\n}"
_END_OF_NONE = b"]\n}"


class SessionText:
    """The text of one session that grows: a message that was encoded is not encoded again.

    The text is byte for byte ``json.dumps(..., indent=2, ensure_ascii=False)`` of the session with
    its messages as they were first given, but that a message with a lone surrogate, which UTF-8
    can't write, is escaped to ASCII.

    Raises:
        ValueError: The session has no identity; the reason, as the end of a sentence.
    """

    def __init__(self, session: Session) -> None:
        _require(identity_problem(session.id, session.created_at))
        self._identity = session.id, session.created_at
        self._messages: list[Message] = []
        self._ids: set[str] = set()
        self._text = bytearray(_head(session.id, session.created_at) + _END_OF_NONE)

    def grows_into(self, session: Session) -> bool:
        """Return whether the session is this one, with the same messages first.

        The same objects are told by their addresses alone, as lists compare them, so that this takes
        next to nothing. Others may stand in their place if they are equal, as 1 and 1.0 are: what
        was written for the first ones stays.
        """
        id, created_at = self._identity
        if (session.id, session.created_at) != (id, created_at):
            return False
        if type(session.created_at) is not type(created_at):
            return False
        return session.messages[: len(self._messages)] == self._messages

    def extend(self, session: Session) -> bytearray:
        """Return the text of a session that this one grows into.

        It is this object's own: to be used at once, and not kept. After any error but a
        ``ValueError``, an interrupt too, this object is of no use.

        Raises:
            ValueError: A new message could not be read again; the reason, as the end of a
                sentence.
        """
        known = len(self._messages)
        new = session.messages[known:]
        ids = _new_ids(new, self._ids, known)
        if new:
            text = b",\n".join(map(_message_text, new))
            # In place: a text that grows is never copied whole.
            end = len(_END if known else _END_OF_NONE)
            self._text[-end:] = (b",\n" if known else b"\n") + text + _END
            self._messages += new
            self._ids |= ids
        return self._text

    def __len__(self) -> int:
        return len(self._messages)

    def beginning(self, count: int) -> Session:
        """Return the session as it was with its first ``count`` messages."""
        return Session(self._messages[:count], *self._identity)


def decode(data: bytes) -> Session:
    """Return the session that a file holds.

    Exactly the keys of a session, in any order and layout; the roles are ``user`` and
    ``assistant``; ids are text, and a message's own; times are finite numbers. One byte order mark
    is allowed.

    Raises:
        ValueError: The reason, as the end of a sentence ("message 3 has the role 'system', ...").
    """
    value = _parse(data)
    if not isinstance(value, dict):
        raise ValueError("it is no session: its top level is no object with a session's keys")
    problem = _keys_problem(value, _SESSION_KEYS)
    _require(problem and f"it {problem}")
    _require(identity_problem(value["id"], value["created_at"]))
    messages = value["messages"]
    if type(messages) is not list:
        raise ValueError("its messages are no list")
    if not set(map(type, messages)) <= {Message}:
        number, wrong = next(
            (number, item) for number, item in enumerate(messages, 1) if type(item) is not Message
        )
        raise ValueError(f"message {number} {_item_problem(wrong)}")
    if len({message.id for message in messages}) != len(messages):
        _new_ids(messages, set(), 0)
    return Session(messages, value["id"], value["created_at"])


def read_message(pairs: list[tuple[str, Any]]) -> Any:
    """Return a ``Message`` for the keys and values of one, else a dict.

    Made to be the JSON parser's ``object_pairs_hook``: what is checked in the same pass is cheap.

    Raises:
        ValueError: A key stands there twice.
    """
    if len(pairs) == 4:
        (key1, role), (key2, content), (key3, id_), (key4, timestamp) = pairs
        if (
            key1 == "role"
            and key2 == "content"
            and key3 == "id"
            and key4 == "timestamp"
            and type(timestamp) is float
            and message_problem(role, content, id_, timestamp) is None
        ):
            return Message(role, content, id_, timestamp)
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"it has the key {_shown(_twice(pairs))} twice in one object")
    if len(found) == 4 and _keys_problem(found, _MESSAGE_KEYS) is None:
        if message_problem(**found) is None:
            return Message(**found)
    return found


def message_problem(role: Any, content: Any, id: Any, timestamp: Any) -> str | None:
    """Return what keeps a message from being stored, as the end of a sentence, or None."""
    if role != "user" and role != "assistant":
        return f"has the role {_shown(role)}, and only 'user' and 'assistant' are kept"
    if not isinstance(content, str):
        return "has a content that is no text"
    if not isinstance(id, str) or not id:
        return "has no text for an id"
    if not _is_number(timestamp):
        return "has a timestamp that is no finite number"
    return None


def identity_problem(id: Any, created_at: Any) -> str | None:
    """Return what is wrong with a session's id or time, as the end of a sentence, or None."""
    if not isinstance(id, str) or not id:
        return "its id is no text"
    if not _is_number(created_at):
        return "its created_at is no finite number"
    return None


def is_continuation(session: Session, stored: Session) -> bool:
    """Return whether ``session`` is ``stored``, or ``stored`` with messages after its last."""
    if (session.id, session.created_at) != (stored.id, stored.created_at):
        return False
    beginning = session.messages[: len(stored.messages)]
    if beginning == stored.messages:
        return True
    # Two surrogates that make a pair are stored as the character they spell.
    return len(beginning) == len(stored.messages) and all(
        message == other or _in_ascii(message) == _in_ascii(other)
        for message, other in zip(beginning, stored.messages)
    )


def _parse(data: bytes) -> Any:
    if not data:
        raise ValueError("it is empty")
    if b"\0" in data:
        raise ValueError(f"it holds a zero byte, which no text has, at byte {data.index(0)}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8 at byte {exc.start}") from exc
    try:
        return read_json(text)
    except json.JSONDecodeError as exc:
        raise ValueError(syntax_problem(exc)) from exc
    except RecursionError as exc:
        raise ValueError("it is nested too deep for a session") from exc


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)


def read_json(text: str) -> Any:
    """Return what strict JSON says, each message in it as a ``Message``.

    Raises:
        ValueError: The reason, as the end of a sentence; ``json.JSONDecodeError`` names the place.
    """
    return json.loads(
        text, object_pairs_hook=read_message, parse_constant=refuse_constant, parse_int=_integer
    )


_plain = json.encoder.encode_basestring
_ascii = json.encoder.encode_basestring_ascii


def _head(id: str, created_at: float, quoted: Callable[[str], str] = _plain) -> bytes:
    time = _number_text(created_at)
    text = f'{{\n  "id": {quoted(id)},\n  "created_at": {time},\n  "messages": ['
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return _head(id, created_at, _ascii)


def _message_text(message: Message, quoted: Callable[[str], str] = _plain) -> bytes:
    text = (
        f'    {{\n      "role": {quoted(message.role)},\n      "content": '
        f'{quoted(message.content)},\n      "id": {quoted(message.id)},\n      "timestamp": '
        f"{_number_text(message.timestamp)}\n    }}"
    )
    try:
        return text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return _message_text(message, _ascii)


def _number_text(value: float) -> str:
    return repr(value) if type(value) is float else json.dumps(value)


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 10 ** _MOST_DIGITS and math.isfinite(value)


def _new_ids(messages: list[Message], taken: set[str], before: int) -> set[str]:
    """Return the messages' ids; a message that can't be stored, or an id twice, is an error."""
    ids: set[str] = set()
    for number, message in enumerate(messages, before + 1):
        problem = _item_problem(message)
        if problem is None and (message.id in ids or message.id in taken):
            problem = f"has the id {_shown(message.id)}, which another message has"
        _require(problem and f"message {number} {problem}")
        ids.add(message.id)
    return ids


def _item_problem(item: Any) -> str | None:
    if isinstance(item, Message):
        return message_problem(item.role, item.content, item.id, item.timestamp)
    if not isinstance(item, dict):
        return "is no object with a message's keys"
    return _keys_problem(item, _MESSAGE_KEYS) or message_problem(**item)


def _keys_problem(found: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key not in found:
            return f"lacks the key '{key}'"
    for key in found:
        if key not in keys:
            return f"has the key {_shown(key)}, which ORE does not write"
    return None


def _twice(pairs: list[tuple[str, Any]]) -> str:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    return key


def _in_ascii(message: Message) -> str:
    return json.dumps([message.role, message.content, message.id, message.timestamp])


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    return f"of type {type(value).__name__}"


def _require(problem: str | None) -> None:
    if problem is not None:
        raise ValueError(problem)
