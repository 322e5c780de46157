"""What it costs to say how likely a given text is, beside writing that text after the same prompt.

Both in one process, with the model loaded: the engine writes an answer, and then scores it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

from benchmarks.embedded import MODEL, QUESTION, SYSTEM, with_model
from benchmarks.measure import Comparison, warmed
from benchmarks.place import Place, Topic

MOST = 1.15
LENGTHS = (32, 128)
FORGED = "Many hands make light work, as nobody in the harbour said. "
TEXT = f"""\
The model of `--pull {MODEL}` writes an answer of some tokens, without a penalty. Then the same tokens are
scored after the same prompt, with their ranks. A text that the model would not have written takes longer:
wherever the model would go on differently, the grammar is applied to the whole vocabulary. *Processor* rows
are the seconds of all processors that both processes took, so other work on the machine matters less."""


def measure(place: Place) -> list[Comparison]:
    """Compare scoring with writing, for the model's own text of two lengths and for another one."""
    os.environ["ORE_MODEL_DIR"] = with_model(place)["ORE_MODEL_DIR"]
    return [
        *(each for length in LENGTHS for each in _measured(place, length, None)),
        *_measured(place, LENGTHS[0], FORGED),
    ]


def _measured(place: Place, length: int, other: str | None) -> Iterator[Comparison]:
    from ore.backends.engine_turn import EmbeddedReasoner
    from ore.backends.settings import Settings
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
    for number, kind in enumerate(("", ", processor")):
        what = f"score {length} tokens of {'its own' if other is None else 'another text'}{kind}"
        scored, written, again = ([each[number] for each in one] for one in found.values())
        yield Comparison(what, "s", scored, f"writing {length} tokens", written, again, MOST)


def _seconds(act: Callable[[], None]) -> Callable[[], tuple[float, float]]:
    """Return what says how long something takes: by the clock, and of processors."""

    def timed() -> tuple[float, float]:
        before, started = _processor(), time.perf_counter()
        act()
        return time.perf_counter() - started, _processor() - before

    return timed


def _processor() -> float:
    """Return the seconds of processors that this process and those it has started took so far."""
    found = time.process_time()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended since
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


TOPIC = Topic("scoring", "Scoring a text", TEXT, measure)
