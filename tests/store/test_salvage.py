"""What is found in a damaged session: whole turns, and nothing that was not said."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.store.salvage import salvage_turns
from ore.store.session_text import encode
from ore.types import Message, Session


def session_of(turns: int) -> Session:
    return Session(
        [
            message
            for number in range(turns)
            for message in (
                Message("user", f'question {number}: {{"role": "user"}}, naïve\n'),
                Message("assistant", f"answer {number} [\\"),
            )
        ]
    )


def text_of(session: Session) -> bytes:
    text = bytearray()
    end = encode(session, text, set())
    return bytes(text + end)


def place(data: bytes, text: str) -> int:
    return data.index(text.encode())


WHOLE = session_of(4)
DATA = text_of(WHOLE)
DAMAGES = {
    "nothing": (DATA, [0, 1, 2, 3]),
    "the last bytes are gone": (DATA[:-4], [0, 1, 2, 3]),
    "the last answer is cut": (DATA[: place(DATA, "answer 3")], [0, 1, 2]),
    "the last question has no answer": (DATA[: place(DATA, "answer 3") - 40], [0, 1, 2]),
    "half of it is zero": (
        DATA[: place(DATA, "question 2")] + b"\0" * (len(DATA) - place(DATA, "question 2")),
        [0, 1],
    ),
    "the first bytes are gone": (DATA[place(DATA, "question 1") :], [2, 3]),
    "the head is zero": (b"\0" * place(DATA, '    {\n      "role"') + DATA[100:], [0, 1, 2, 3]),
    "a byte is no UTF-8": (DATA.replace(b"question 1", b"question \xff"), [0, 2, 3]),
    "a quote is gone": (DATA.replace(b'"question 1', b"question 1"), [0, 2, 3]),
    "a closing brace is gone": (DATA.replace(b"\n    },", b",", 1), [1, 2, 3]),
    "a message is zero between question and answer": (
        DATA.replace(DATA[place(DATA, "answer 1") : place(DATA, "question 2")], b"\0" * 300),
        [0, 3],
    ),
    "text between question and answer": (DATA.replace(b"    },", b"    }, 7,", 1), [1, 2, 3]),
    "a comma twice": (DATA.replace(b"    },", b"    },,", 1), [1, 2, 3]),
    "an escape is wrong": (DATA.replace(b"\\n", b"\\x", 1), [1, 2, 3]),
    "a question is last, as in a copy": (DATA + DATA[: place(DATA, "answer 0")], [0, 1, 2, 3]),
    "a role is unknown": (DATA.replace(b'"role": "user"', b'"role": "root"', 1), [1, 2, 3]),
    "a key twice": (
        DATA.replace(b'"role": "user"', b'"role": "user", "role": "user"', 1),
        [1, 2, 3],
    ),
    "twice the same file": (DATA + DATA, [0, 1, 2, 3]),
    "not even JSON": (b"hello", []),
    "empty": (b"", []),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_the_whole_turns_of_a_damaged_file_are_found(damage):
    data, turns = DAMAGES[damage]
    assert salvage_turns(data) == [m for n in turns for m in WHOLE.messages[2 * n : 2 * n + 2]]


@settings(deadline=None)
@given(st.data())
def test_whatever_is_overwritten_every_turn_outside_is_found_and_no_other(data):
    start = data.draw(st.integers(0, len(DATA)))
    end = data.draw(st.integers(start, len(DATA)))
    filler = data.draw(st.sampled_from([b"\0", b"\0" * 100, b"\xff", b"\n\0\n"]))
    found = salvage_turns(DATA[:start] + filler + DATA[end:])
    pairs = list(zip(WHOLE.messages[::2], WHOLE.messages[1::2]))
    places = [pairs.index(pair) for pair in zip(found[::2], found[1::2])]
    assert places == sorted(places) and len(found) == 2 * len(places)
    untouched = [
        number
        for number, (user, answer) in enumerate(pairs)
        if DATA.index(answer.id.encode()) + 100 < start or DATA.index(user.id.encode()) - 200 > end
    ]
    assert set(untouched) <= set(places)


@pytest.mark.parametrize(
    "piece",
    [b'{"role":', b'{"role":[', b'{"role":{"role":1},', b'{"role": "x', b'{"role":1e', b"{"],
)
def test_a_file_that_was_made_to_be_slow_takes_no_time(piece):
    start = time.process_time()
    assert salvage_turns(piece * (1_000_000 // len(piece))) == []
    assert time.process_time() - start < 5


def test_a_number_that_no_session_holds_ends_its_message_only():
    data = DATA.replace(b'"timestamp": ', b'"timestamp": ' + b"9" * 5000, 1)
    assert salvage_turns(data) == WHOLE.messages[2:]
