"""A session as JSON text: written in one form, read strictly.

What is written here is what can be read here, and nothing else is read.
"""

from __future__ import annotations

import json
import math
from typing import Any

from ore.files.strictjson import marks_in, refuse_constant, syntax_problem, without_texts
from ore.types import Message, Session

LARGEST_SESSION = 256 * 1024 * 1024
"""The most bytes of a session that is read or written, about a million messages."""

_SESSION_KEYS = ("id", "created_at", "messages")
_MESSAGE_KEYS = ("role", "content", "id", "timestamp")
_MOST_MESSAGES = 2_000_000
_VALUES = 6  # of a message, as ``marks_in`` counts them: an object with four texts and numbers
_ASTRAY = 100_000  # lists within lists, or objects that are no messages: so many are still read
_MOST_DIGITS = 40
_HEAD = '{\n  "id": %s,\n  "created_at": %s,\n  "messages": ['
_MESSAGE = """    {
      "role": %s,
      "content": %s,
      "id": %s,
      "timestamp": %s
    }"""
_plain = json.JSONEncoder(ensure_ascii=False).encode
_ascii = json.JSONEncoder().encode


def encode(session: Session, text: bytearray, ids: set[str]) -> bytes:
    """Put a session's text at the end of ``text``, and return the bytes that close it.

    Both together are byte for byte ``json.dumps(..., indent=2, ensure_ascii=False)`` of the session,
    but that a message with a lone surrogate, which UTF-8 can't write, is escaped to ASCII.

    ``text`` is empty, or what an earlier call made of the session's first messages, and ``ids`` are
    the ids of those; after an error both are of no use.

    Raises:
        ValueError: The session could not be read again; the reason, as the end of a sentence.
    """
    _check_identity(session.id, session.created_at)
    if len(session.messages) > _MOST_MESSAGES:
        raise ValueError(f"it has more than {_MOST_MESSAGES:,} messages")
    known = len(ids)
    _check_messages(session.messages[known:], ids)
    if not text:
        text += _filled(_HEAD, session.id, session.created_at)
    new = [
        _filled(_MESSAGE, m.role, m.content, m.id, m.timestamp) for m in session.messages[known:]
    ]
    if new:
        text += b",\n" if known else b"\n"
        text += b",\n".join(new)
    return b"\n  ]\n}" if session.messages else b"]\n}"


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
        raise ValueError(
            "it is not a session: its top level is not an object with a session's keys"
        )
    problem = _keys_problem(value, _SESSION_KEYS)
    if problem:
        raise ValueError(f"it {problem}")
    _check_identity(value["id"], value["created_at"])
    messages = value["messages"]
    if type(messages) is not list:
        raise ValueError("its messages are not a list")
    is_whole = set(map(type, messages)) <= {Message}
    if not is_whole or len({message.id for message in messages}) != len(messages):
        _check_messages(messages, set())
    return Session(messages, value["id"], value["created_at"])


def read_json(text: str) -> Any:
    """Return what strict JSON says, each message in it as a ``Message``, or raise ``ValueError``."""
    return json.loads(
        text, object_pairs_hook=_read_object, parse_constant=refuse_constant, parse_int=_integer
    )


def is_continuation(session: Session, stored: Session) -> bool:
    """Return whether ``session`` is ``stored``, or ``stored`` with messages after its last."""
    if (session.id, session.created_at) != (stored.id, stored.created_at):
        return False
    beginning = session.messages[: len(stored.messages)]
    if beginning == stored.messages:
        return True
    # Two surrogates that make a pair are stored as the character they spell.
    return len(beginning) == len(stored.messages) and all(
        one == other or (isinstance(one, Message) and _in_ascii(one) == _in_ascii(other))
        for one, other in zip(beginning, stored.messages)
    )


def _in_ascii(message: Message) -> str:
    return _ascii([message.role, message.content, message.id, message.timestamp])


def _filled(template: str, *values: object) -> bytes:
    try:
        return (template % tuple(map(_plain, values))).encode()
    except UnicodeEncodeError:  # a lone surrogate
        return (template % tuple(map(_ascii, values))).encode()


def _parse(data: bytes) -> Any:
    if not data:
        raise ValueError("it is empty")
    if b"\0" in data:
        raise ValueError(f"it holds a zero byte, which no text has, at byte {data.index(0)}")
    most = (_MOST_MESSAGES + 1) * _VALUES  # the session itself holds fewer than a message
    if _is_countless(data, most) and _is_countless(without_texts(data, most), most):
        raise ValueError("it holds far more values than its messages would")
    try:
        return read_json(data.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8 at byte {exc.start}") from exc
    except json.JSONDecodeError as exc:
        raise ValueError(syntax_problem(exc)) from exc
    except RecursionError as exc:
        raise ValueError("it is nested too deep for a session") from exc


def _is_countless(data: bytes, most: int) -> bool:
    """Return whether JSON holds so much that is in no session: each value takes far more than its bytes."""
    values = marks_in(data)
    if values > most or data.count(b"[") > _ASTRAY:
        return True
    return data.count(b"{") > values // _VALUES + _ASTRAY


def _read_object(pairs: list[tuple[str, Any]]) -> Any:
    """Return a ``Message`` for the keys and values of one, without a dict where it can; else a dict."""
    if len(pairs) == 4:
        (key1, role), (key2, content), (key3, id), (key4, timestamp) = pairs
        if (key1, key2, key3, key4) == _MESSAGE_KEYS:
            if _message_problem(role, content, id, timestamp) is None:
                return Message(role, content, id, timestamp)
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"it has the key {_shown(key)} twice in one object")
        found[key] = value
    return found if _item_problem(found) else Message(**found)


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)


def _check_messages(messages: list[Message], ids: set[str]) -> None:
    """Add the messages' ids to ``ids``; raise where one can't be stored, or has an id of another."""
    for number, message in enumerate(messages, len(ids) + 1):
        problem = _item_problem(message)
        if problem is None and not isinstance(message, Message):
            problem = f"is {_shown(message)} and not a Message"
        elif problem is None and message.id in ids:
            problem = f"has the id {_shown(message.id)}, which another message has"
        if problem:
            raise ValueError(f"message {number} {problem}")
        ids.add(message.id)


def _item_problem(item: Any) -> str | None:
    if isinstance(item, Message):
        return _message_problem(item.role, item.content, item.id, item.timestamp)
    if not isinstance(item, dict):
        return "is not an object with a message's keys"
    return _keys_problem(item, _MESSAGE_KEYS) or _message_problem(**item)


def _keys_problem(found: dict[str, Any], keys: tuple[str, ...]) -> str | None:
    for key in keys:
        if key not in found:
            return f"lacks the key '{key}'"
    for key in found:
        if key not in keys:
            return f"has the key {_shown(key)}, which ORE does not write"
    return None


def _message_problem(role: Any, content: Any, id: Any, timestamp: Any) -> str | None:
    """Return what keeps a message from being stored, as the end of a sentence, or None."""
    if role != "user" and role != "assistant":
        return f"has the role {_shown(role)}, and only 'user' and 'assistant' are kept"
    if not isinstance(content, str):
        return "has a content that is not text"
    if not isinstance(id, str) or not id:
        return "has an id that is not text, or empty"
    if not _is_number(timestamp):
        return "has a timestamp that is not a finite number"
    return None


def _check_identity(id: Any, created_at: Any) -> None:
    if not isinstance(id, str) or not id:
        raise ValueError("its id is not text, or empty")
    if not _is_number(created_at):
        raise ValueError("its created_at is not a finite number")


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and abs(value) < 10**_MOST_DIGITS


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…").replace("`", "'")
    return f"of type {type(value).__name__}"
