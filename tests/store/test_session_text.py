"""A session as text: what is written, and what is refused when it is read."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.store import session_text
from ore.store.session_text import decode, encode, is_continuation
from ore.types import Message, Session
from tests.support.sessions import plain

FINITE = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30)
MESSAGES = st.builds(
    Message, st.sampled_from(["user", "assistant"]), st.text(), st.text(min_size=1), FINITE
)
SESSIONS = st.builds(
    Session,
    st.lists(MESSAGES, max_size=6, unique_by=lambda message: message.id),
    st.text(min_size=1),
    FINITE,
)

USER = {"role": "user", "content": "q", "id": "1", "timestamp": 1.5}
ANSWER = {"role": "assistant", "content": "a", "id": "2", "timestamp": 2}
WHOLE = {"id": "s", "created_at": 1.0, "messages": [USER, ANSWER]}


def encoded(session: Session) -> bytes:
    text = bytearray()
    end = encode(session, text, set())
    return bytes(text + end)


def text_of(value: object) -> bytes:
    return json.dumps(value).encode()


def message_with(**changed: object) -> bytes:
    return text_of({**WHOLE, "messages": [USER, {**ANSWER, **changed}]})


def refusal(data: bytes) -> str:
    with pytest.raises(ValueError) as caught:
        decode(data)
    return str(caught.value)


@pytest.mark.invariant
@settings(deadline=None)
@given(SESSIONS)
def test_a_session_is_written_as_plain_indented_json_and_reads_back_equal(session):
    assert encoded(session) == plain(session)
    assert decode(encoded(session)) == session


@settings(deadline=None)
@given(SESSIONS)
def test_a_session_that_grows_is_written_like_one_that_is_written_at_once(session):
    text, ids = bytearray(), set()
    for count in range(len(session.messages) + 1):
        begun = Session(session.messages[:count], session.id, session.created_at)
        for _ in range(2):
            assert text + encode(begun, text, ids) == plain(begun)


def test_a_session_continues_only_the_same_messages_of_the_same_session():
    first, second = Message("user", "x", "1", 1), Message("user", "y", "2", 2)
    stored = Session([first], "s", 1)
    assert is_continuation(Session([first], "s", 1), stored)
    assert is_continuation(Session([first, second], "s", 1), stored)
    assert is_continuation(Session([Message("user", "x", "1", 1.0), second], "s", 1), stored)
    for messages, id, created_at in (
        ([], "s", 1),
        ([second, first], "s", 1),
        ([Message("assistant", "x", "1", 1)], "s", 1),
        ([Message("user", "z", "1", 1), second], "s", 1),
        ([Message("user", "x", "2", 1)], "s", 1),
        ([Message("user", "x", "1", 1.5)], "s", 1),
        ([first], "t", 1),
        ([first], "s", 2),
        ([first], "s", None),
    ):
        assert not is_continuation(Session(messages, id, created_at), stored)


@pytest.mark.parametrize("content", ["\ud800", "x\udfffé", "\udc80"])
def test_a_message_with_a_lone_surrogate_is_escaped_and_the_others_are_not(content):
    session = Session([Message("user", "é"), Message("assistant", content)])
    data = encoded(session)
    assert "é".encode() in data and b"\\ud" in data
    assert decode(data) == session


def test_an_id_with_a_lone_surrogate_is_escaped_too():
    session = Session([Message("user", "é", "\ud800")], "\udc80", 1.0)
    assert decode(encoded(session)) == session


def test_surrogates_that_make_a_pair_come_back_as_the_character_and_still_continue():
    session = Session([Message("user", "\ud83d\ude00")])
    stored = decode(encoded(session))
    assert stored.messages[0].content == "😀"
    assert is_continuation(session, stored)


def test_images_are_not_kept_and_do_not_keep_a_session_from_being_continued():
    session = Session([Message("user", "what is this?", images=(b"png",))])
    stored = decode(encoded(session))
    assert encoded(session) == plain(session) and stored.messages[0].images == ()
    assert is_continuation(session, stored)


def _seconds(action) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


UNSAVABLE = [
    (Message("system", "x"), "message 2 has the role 'system', and only"),
    (Message("user", None), "message 2 has a content that is not text"),
    (Message("user", b"x"), "message 2 has a content that is not text"),
    (Message("user", "x", id=""), "message 2 has an id that is not text"),
    (Message("user", "x", id=7), "message 2 has an id that is not text"),
    (Message("user", "x", id="1"), "message 2 has the id '1', which another message has"),
    (
        Message("user", "x", timestamp=float("nan")),
        "message 2 has a timestamp that is not a finite",
    ),
    (Message("user", "x", timestamp=True), "message 2 has a timestamp that is not a finite number"),
    (
        Message("user", "x", timestamp=10**400),
        "message 2 has a timestamp that is not a finite number",
    ),
    ({"role": "user"}, "message 2 lacks the key 'content'"),
    ({"role": "user", "content": "x", "id": "2", "timestamp": 1}, "message 2 is of type dict"),
    ("hello", "message 2 is not an object with a message's keys"),
]


@pytest.mark.parametrize("message, problem", UNSAVABLE, ids=[case[1] for case in UNSAVABLE])
def test_what_could_not_be_read_again_is_not_written(message, problem):
    session = Session([Message("user", "x", id="1"), message])
    for ids in (set(), {"1"}):
        with pytest.raises(ValueError) as caught:
            encode(session, bytearray(), ids)
        assert str(caught.value).startswith(problem)


@pytest.mark.parametrize(
    "session", [Session(id=""), Session(id=None), Session(created_at=float("inf"))]
)
def test_a_session_without_an_identity_is_not_written(session):
    with pytest.raises(ValueError, match="^its (id|created_at) is not"):
        encoded(session)


READABLE = [
    plain(Session()),
    text_of(WHOLE),
    b"\xef\xbb\xbf" + text_of(WHOLE),
    json.dumps(WHOLE, indent="\t").replace("\n", "\r\n").encode(),
    text_of(dict(reversed(list(WHOLE.items())))),
    text_of({**WHOLE, "messages": [dict(reversed(list(USER.items())))]}),
    text_of({**WHOLE, "messages": [ANSWER]}),
    message_with(content=""),
    message_with(timestamp=-1),
    message_with(timestamp=1e300),
]


@pytest.mark.parametrize("data", READABLE, ids=range(len(READABLE)))
def test_a_session_in_any_layout_is_read(data):
    expected = json.loads(data.decode("utf-8-sig"))
    session = decode(data)
    assert (session.id, session.created_at) == (expected["id"], expected["created_at"])
    assert session.messages == [Message(**message) for message in expected["messages"]]


def test_an_empty_list_of_messages_is_a_session():
    assert decode(b'{"id": "s", "created_at": 1, "messages": []}') == Session([], "s", 1)


BAD = [
    (b"", "it is empty"),
    (b"\0" * 512, "it holds a zero byte, which no text has, at byte 0"),
    (text_of(WHOLE)[:-9] + b"\0" * 9, "it holds a zero byte, which no text has, at byte 164"),
    (b"\xff\xfe{", "it is not UTF-8 at byte 0"),
    (
        text_of(WHOLE).decode().encode("utf-16"),
        "it holds a zero byte, which no text has, at byte 3",
    ),
    (text_of(WHOLE).replace(b'"q"', b'"\xed\xa0\x80"'), "it is not UTF-8 at byte 73"),
    (text_of(WHOLE)[:100], "it is not JSON: expecting value at line 1, column 101"),
    (text_of(WHOLE) + b"}", "it is not JSON: extra data at line 1, column 174"),
    (
        text_of(WHOLE).replace(b'"q"', b'"\n"'),
        "it is not JSON: invalid control character at line 1",
    ),
    (text_of(WHOLE)[:56], "it is not JSON: unterminated string starting at line 1, column 54"),
    (b"[" * 100_000, "it is nested too deep for a session"),
    (b'{"a":' * 100_000, "it is nested too deep for a session"),
    (b"[]", "it is not a session: its top level is not an object"),
    (b"null", "it is not a session: its top level is not an object"),
    (text_of(USER), "it is not a session: its top level is not an object"),
    (b"{}", "it lacks the key 'id'"),
    (text_of({**WHOLE, "title": "x"}), "it has the key 'title', which ORE does not write"),
    (text_of(WHOLE)[:-1] + b', "id": "t"}', "it has the key 'id' twice in one object"),
    (text_of({**WHOLE, "id": 7}), "its id is not text"),
    (text_of({**WHOLE, "id": USER}), "its id is not text"),
    (text_of({**WHOLE, "created_at": True}), "its created_at is not a finite number"),
    (text_of({**WHOLE, "created_at": None}), "its created_at is not a finite number"),
    (text_of({**WHOLE, "messages": {}}), "its messages are not a list"),
    (text_of({**WHOLE, "messages": USER}), "its messages are not a list"),
    (text_of({**WHOLE, "messages": [[]]}), "message 1 is not an object with a message's keys"),
    (text_of({**WHOLE, "messages": [WHOLE]}), "message 1 lacks the key 'role'"),
    (text_of({**WHOLE, "messages": [USER, USER]}), "message 2 has the id '1', which another"),
    (message_with(role="system"), "message 2 has the role 'system', and only 'user' and"),
    (message_with(role="USER"), "message 2 has the role 'USER'"),
    (message_with(role=["user"]), "message 2 has the role of type list"),
    (message_with(role="x\x1b" + "y" * 5000), "message 2 has the role 'x\\x1by"),
    (message_with(content=None), "message 2 has a content that is not text"),
    (message_with(content=["a"]), "message 2 has a content that is not text"),
    (message_with(id=2), "message 2 has an id that is not text"),
    (message_with(id=""), "message 2 has an id that is not text"),
    (message_with(timestamp="1"), "message 2 has a timestamp that is not a finite number"),
    (message_with(timestamp=False), "message 2 has a timestamp that is not a finite number"),
    (message_with(timestamp=float("nan")), "it holds NaN, which is not JSON"),
    (message_with(timestamp=float("-inf")), "it holds -Infinity, which is not JSON"),
    (message_with(x=1), "message 2 has the key 'x', which ORE does not write"),
    (text_of(WHOLE).replace(b"1.5", b"1e999"), "message 1 has a timestamp that is not a finite"),
    (text_of(WHOLE).replace(b"1.5", b"9" * 50), "it holds a number of 50 digits"),
    (text_of(WHOLE).replace(b"1.5", b"9" * 5000), "it holds a number of 5000 digits"),
    (
        text_of(WHOLE).replace(b'"role": "user"', b'"role": "user", "role": "assistant"'),
        "it has the key 'role' twice in one object",
    ),
]


@pytest.mark.parametrize("data, problem", BAD, ids=[problem for _, problem in BAD])
def test_a_bad_session_is_refused_with_what_and_where(data, problem):
    said = refusal(data)
    assert said.startswith(problem)
    assert said.isprintable() and len(said) < 200


SLOW = {
    "a key twice among many": b"{" + b"".join(b'"%d":0,' % n for n in range(100_000)) + b'"7":0}',
    "many messages that are none": b'{"id":"s","created_at":1,"messages":['
    + b"{}," * 300_000
    + b"0]}",
    "many zeros": b"[" + b"0," * 500_000,
    "nested": b'[{"a":' * 100_000,
    "a long number": b"1" * 1_000_000,
    "many escapes": b'"' + b"\\u0000" * 200_000,
    "one id for all": text_of({**WHOLE, "messages": [USER] * 10_000}),
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SLOW)
def test_a_session_that_was_made_to_be_slow_takes_no_time(what):
    assert _seconds(lambda: refusal(SLOW[what])) < 5


@pytest.mark.parametrize("name", ["role", "content", "id", "timestamp"])
def test_a_message_without_one_of_its_keys_is_refused(name):
    lacking = {key: value for key, value in ANSWER.items() if key != name}
    data = text_of({**WHOLE, "messages": [USER, lacking]})
    assert refusal(data) == f"message 2 lacks the key '{name}'"


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner)
        | st.dictionaries(st.text() | st.sampled_from(list(WHOLE)), inner),
    ).map(text_of)
)
def test_anything_else_is_refused_and_never_another_error(data):
    try:
        decode(data)
    except ValueError as exc:
        assert str(exc).isprintable()


CONTINUATIONS = [
    ([], [], True),
    ([USER], [], True),
    ([USER, ANSWER], [USER], True),
    ([USER, ANSWER], [USER, ANSWER], True),
    ([USER], [USER, ANSWER], False),
    ([], [USER], False),
    ([ANSWER, USER], [USER, ANSWER], False),
    ([{**USER, "content": "other"}, ANSWER], [USER], False),
    ([{**USER, "timestamp": 9}, ANSWER], [USER], False),
]


@pytest.mark.parametrize("ours, theirs, expected", CONTINUATIONS)
def test_only_what_begins_with_all_that_is_stored_continues_it(ours, theirs, expected):
    session, stored = (Session([Message(**m) for m in part], "s", 1.0) for part in (ours, theirs))
    assert is_continuation(session, stored) is expected
    assert not is_continuation(session, Session(stored.messages, "t", 1.0))
    assert not is_continuation(session, Session(stored.messages, "s", 2.0))


def test_what_is_not_a_message_continues_nothing():
    stored = Session([Message("user", "x", "1", 1)], "s", 1)
    other = {"role": "user", "content": "x", "id": "1", "timestamp": 1}
    assert not is_continuation(Session([other], "s", 1), stored)


@pytest.mark.parametrize(
    "part, closed",
    [("[", "]"), ('{"":', "}"), ('""', "")],
    ids=["lists", "objects", "texts"],
)
@pytest.mark.slow
def test_countless_values_are_refused_before_they_take_memory(part, closed):
    depth = 60 if closed else 1
    each = part * depth + ("1" if ":" in part else "") + closed * depth + ","
    countless = each * ((4_000_000 if closed else 12_100_000) // depth)
    data = f'{{"id": "s", "created_at": 1, "messages": [{countless}0]}}'.encode()
    began = time.process_time()
    with pytest.raises(ValueError, match="far more values than its messages would"):
        decode(data)
    assert time.process_time() - began < 4


@pytest.mark.slow
def test_lists_and_objects_in_texts_count_for_nothing():
    marks = '[{"a\\' * 150_000
    messages = [Message("user", marks, "1", 1.0), Message("assistant", marks, "2", 2.0)]
    assert decode(encoded(Session(messages, "s", 1.0))).messages == messages


def test_as_many_messages_as_can_be_written_can_be_read(monkeypatch):
    monkeypatch.setattr(session_text, "_MOST_MESSAGES", 3)
    full = Session([Message("user", "[{,") for _ in range(3)])
    assert decode(encoded(full)) == full
    with pytest.raises(ValueError, match="more than 3 messages"):
        encode(Session([*full.messages, Message("user", "")]), bytearray(), set())
