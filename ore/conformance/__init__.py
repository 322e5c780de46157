"""The rules of ORE's contracts, run against somebody else's reasoner, session store or tool.

``python -m ore.conformance my.module:MyReasoner [ARGUMENT ...]`` makes what it tests with the arguments, as
texts, as often as it needs a new one. From Python: ``check``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ore.conformance import of_reasoners
from ore.conformance import of_stores_and_tools as other
from ore.conformance.verdicts import Broken, Unknown, in_words
from ore.reasoner import Reasoner
from ore.store import SessionStore
from ore.tools import Tool

HOLDS, BROKEN, UNKNOWN = "holds", "BROKEN", "can't say"


@dataclass(frozen=True)
class Finding:
    """What one rule came to: ``state`` is ``HOLDS``, ``BROKEN`` or ``UNKNOWN``, ``why`` one line."""

    rule: str
    state: str
    why: str = ""


RULES: dict[type, tuple[Callable[[Any], None], ...]] = {
    Reasoner: (
        of_reasoners.answers_with_a_response,
        of_reasoners.streams_what_it_answers,
        of_reasoners.calls_once,
        of_reasoners.is_both_or_neither,
        of_reasoners.is_pure,
        of_reasoners.stops_when_closed,
        of_reasoners.keeps_nothing,
        of_reasoners.closes_twice,
    ),
    SessionStore: (
        other.gives_back_what_was_saved,
        other.loads_a_session_of_its_own,
        other.saves_again,
        other.says_what_is_not_there,
    ),
    Tool: (other.says_what_it_is, other.gives_one_result, other.runs_with_its_permissions_only),
}
"""What is checked of each contract. If a class can't hold its rules, it does not belong behind it."""


def check(make: Callable[[], Any]) -> list[Finding]:
    """Return what becomes of each rule for what ``make`` makes.

    Args:
        make: Makes a new one at each call: a ``Reasoner``, a ``SessionStore`` or a ``Tool``. A store
            that it makes later must find what an earlier one has saved.

    Raises:
        TypeError: It makes something else.
    """
    made = make()
    for kind, rules in RULES.items():
        if isinstance(made, kind):
            return [_judged(rule, make) for rule in rules]
    raise TypeError(f"{type(made).__name__} is not a Reasoner, SessionStore or Tool")


def _judged(rule: Callable[[Callable[[], Any]], None], make: Callable[[], Any]) -> Finding:
    name = (rule.__doc__ or rule.__name__.replace("_", " ")).strip()  # python -OO has no docstrings
    try:
        rule(make)
    except Broken as exc:
        return Finding(name, BROKEN, str(exc))
    except Unknown as exc:
        return Finding(name, UNKNOWN, str(exc))
    except KeyboardInterrupt:
        raise
    except BaseException as exc:  # theirs may end the process, too, and say that all is well
        return Finding(name, BROKEN, in_words(exc))
    return Finding(name, HOLDS)
