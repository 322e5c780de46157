"""What it costs to say how likely a given text is, beside writing that text after the same prompt.

Both in one process, with the model loaded: the engine writes an answer, and then scores it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing

from benchmarks.embedded import MODEL, QUESTION, SYSTEM, with_model
from benchmarks.measure import Comparison, warmed
from benchmarks.place import Place, Topic

MOST = 1.15
LENGTHS = (32, 128)
FORGED = "Many hands make light work, as nobody in the harbour said. "
TEXT = f"""\
The model of `--pull {MODEL}` writes an answer of some tokens, without a penalty; then the same tokens are
scored after the same prompt, with their ranks. A text that the model would not have written has more to do:
the grammar is applied to the whole vocabulary wherever the model would go on otherwise."""


def measure(place: Place) -> list[Comparison]:
    """Compare scoring with writing, for the model's own text of two lengths and for another one."""
    os.environ["ORE_MODEL_DIR"] = with_model(place)["ORE_MODEL_DIR"]
    return [
        *(_measured(place, length, None) for length in LENGTHS),
        _measured(place, LENGTHS[0], FORGED),
    ]


def _measured(place: Place, length: int, other: str | None) -> Comparison:
    from ore.backends import Settings
    from ore.backends.engine_turn import EmbeddedReasoner
    from ore.types import Message

    messages = [Message("system", SYSTEM), Message("user", QUESTION)]
    settings = Settings(options={"num_predict": length, "repeat_penalty": 1.0})
    with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        answer = reasoner.reason(messages)
        text = answer.content if other is None else other * 8
        if other is not None:  # as many tokens as were written
            parts = reasoner.score(messages, text, ended=False).tokens[:length]
            text = "".join(token.text for token in parts)

        def score() -> None:
            reasoner.score(messages, text, ended=False)

        def write() -> None:
            reasoner.reason(messages)

        cases = {"score": _seconds(score), "write": _seconds(write), "again": _seconds(write)}
        found = warmed(cases, place.runs)
    what = f"score {length} tokens of {'its own' if other is None else 'another text'}"
    beside = f"writing {length} tokens"
    most = MOST if other is None else None
    return Comparison(what, "s", found["score"], beside, found["write"], found["again"], most)


def _seconds(act: Callable[[], None]) -> Callable[[], float]:
    def timed() -> float:
        started = time.perf_counter()
        act()
        return time.perf_counter() - started

    return timed


TOPIC = Topic("scoring", "Scoring a text", TEXT, measure)
