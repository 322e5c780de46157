"""How long may be spent on what a turn can do without."""

from __future__ import annotations

from ore.backends.http import Deadline
from ore.backends.look_ups import KNOWN_SECONDS, beside_turn, time_for


def test_look_ups_take_what_the_deadline_of_their_turn_leaves_and_little_more():
    assert time_for(9.0) == beside_turn(Deadline(None), time_for, 9.0) == 9.0
    assert beside_turn(Deadline(60.0), time_for, 9.0) == 9.0
    assert KNOWN_SECONDS < beside_turn(Deadline(1.0), time_for, 9.0) <= KNOWN_SECONDS + 1.0
    assert 0.0 < beside_turn(Deadline(0.0), time_for, 9.0) <= KNOWN_SECONDS
    assert beside_turn(Deadline(-9.0), time_for, 9.0) == 0.0
    assert time_for(9.0) == 9.0
