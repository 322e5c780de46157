"""Which of four files an answer came from: is the planted one named first?

By hand: ``python -m tests.by_hand.attribution FILE`` asks the embedded model until 200 answers are right, has
each attributed, and writes a line of JSON for each question; where the file is there it goes on. ``--part 1/2``
takes each second question, for two at a time; ``--table FILE FILE`` only shows the rates of them together.
``ORE_MODEL_DIR`` names the folder with the model.

The planted fact stands in one file, and the three others say nothing of it. An answer is right that holds the
planted word, and every right one counts. With ``--rivals`` each other file has a fact of its own, and answers
are longer: then one that holds a word of another file's fact, or of its other sentence, is mixed, and is told
of apart.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.glass.influence import explained
from ore.glass.provenance import Sourced
from ore.types import Message

MODEL, RIGHT = "smollm2:135m", 200
LONGEST, SEED = 8, 19
RIVALS_LONGEST, RIVALS_SEED = 16, 18
SYSTEM = "Answer in a few words."
NAMES = "Ada Boris Clara Dmitri Elena Farid Greta Hugo Ines Jonas Karim Lena Marta Nadia Oscar Paula".split()
THINGS = "boat key letter lamp ladder violin map coat bicycle clock piano suitcase".split()
ROOMS = "kitchen garden cellar attic garage library hall shed bathroom office".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COLOURS = "red blue green yellow purple orange black white silver golden".split()
ANIMALS = "dog cat horse parrot rabbit goat donkey tortoise".split()
POOLS = {"thing": THINGS, "room": ROOMS, "day": DAYS, "colour": COLOURS}
POOLS |= {"animal": ANIMALS, "name": NAMES}
FACTS = (
    ("The {thing} is in the {room}.", "Where is the {thing}?", "room"),
    ("{name} will arrive on {day}.", "On which day will {name} arrive?", "day"),
    ("The colour of the {thing} is {colour}.", "What is the colour of the {thing}?", "colour"),
    ("{name} has a {animal}.", "Which animal does {name} have?", "animal"),
    ("The {thing} costs {number} pounds.", "How many pounds does the {thing} cost?", "number"),
    ("The {thing} belongs to {name}.", "Who owns the {thing}?", "name"),
)
REST = (
    "The weather was fine.",
    "Please keep this note.",
    "Nothing else happened.",
    "It was written in June.",
)
EMPTY = (
    *REST,
    "The road was dry.",
    "There is no more to say.",
    "This came by post.",
    "The shop opens at noon.",
    "Rain is likely tonight.",
    "The meeting went well.",
    "Lunch was served late.",
    "The stairs need some paint.",
)
"""Sentences that say nothing of any fact."""


@dataclass(frozen=True)
class Case:
    """Four files, a question, the file that answers it, what the answer has to hold, and what not."""

    files: list[str]
    question: str
    planted: int
    answer: str
    others: list[str] = field(default_factory=list)


def cases() -> Iterator[Case]:
    """Yield cases without an end, always the same ones: one file has a fact."""
    chance = random.Random(SEED)
    while True:
        text, question, kind = chance.choice(FACTS)
        values = {name: chance.choice(pool) for name, pool in POOLS.items()}
        values["number"] = str(chance.randrange(11, 99))
        planted, rest = chance.randrange(4), chance.sample(EMPTY, 8)
        files = []
        for number in range(4):
            lines = [text.format(**values) if number == planted else rest[4 + number], rest[number]]
            chance.shuffle(lines)
            files.append(" ".join(lines))
        yield Case(files, question.format(**values), planted, values[kind])


def rivals() -> Iterator[Case]:
    """Yield cases without an end, always the same ones: each file has a fact of its own."""
    chance = random.Random(RIVALS_SEED)
    while True:
        facts = chance.sample(FACTS, 4)
        drawn = {kind: chance.sample(pool, 4) for kind, pool in POOLS.items()}
        drawn["number"] = [str(each) for each in chance.sample(range(11, 99), 4)]
        planted, files, others = chance.randrange(4), [], []
        rest = chance.sample(REST, 4)
        for number, (text, _, _) in enumerate(facts):
            values = {kind: found[number] for kind, found in drawn.items()}
            lines = [text.format(**values), rest[number]]
            chance.shuffle(lines)
            files.append(" ".join(lines))
            if number != planted:
                words = [word for kind, word in values.items() if f"{{{kind}}}" in text]
                others += [*words, re.split(r"[ .]", rest[number])[-2]]
        values = {kind: found[planted] for kind, found in drawn.items()}
        _, question, kind = facts[planted]
        yield Case(files, question.format(**values), planted, values[kind], others)


def messages_of(case: Case) -> list[Sourced]:
    """Return what is sent, as ORE makes it of a system prompt and four files."""
    files = [
        Sourced("user", f"[Tool:file:{number}.txt]\n{text}", f"file:{number}.txt")
        for number, text in enumerate(case.files, 1)
    ]
    return [
        Sourced("system", SYSTEM, "system"),
        *files,
        Sourced("user", case.question, "prompt"),
    ]


def is_right(case: Case, answer: str) -> bool:
    return bool(re.search(rf"\b{re.escape(case.answer)}\b", answer, re.I))


def is_mixed(case: Case, answer: str) -> bool:
    """Whether an answer holds something of a file that was not asked for."""
    return any(re.search(rf"\b{re.escape(each)}\b", answer, re.I) for each in case.others)


def run(path: Path, wanted: int, first: int, step: int, has_rivals: bool) -> None:
    """Ask and attribute, and write it line by line."""
    done = _lines(path) if path.exists() else []
    right = sum("drops" in each and not each["is_mixed"] for each in done)
    made, longest = (rivals(), RIVALS_LONGEST) if has_rivals else (cases(), LONGEST)
    own = itertools.islice(made, first - 1 + step * len(done), None, step)
    settings = Settings(options={"num_predict": longest})
    with path.open("a") as file, closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        while right < wanted:
            line = _asked(reasoner, next(own))
            file.write(json.dumps(line) + "\n")
            file.flush()
            right += "drops" in line and not line["is_mixed"]


def _asked(reasoner: EmbeddedReasoner, case: Case) -> dict[str, Any]:
    """Ask a question, and have the answer attributed where it is right."""
    messages = messages_of(case)
    answer = reasoner.reason([Message(each.role, each.content) for each in messages])
    line: dict[str, Any] = {"question": case.question, "answer": answer.content}
    if not is_right(case, answer.content):
        return line
    started = time.monotonic()
    was_cut = answer.metadata["done_reason"] == "length"
    found, _ = explained(reasoner, messages, answer.content, ended=not was_cut)
    return line | {
        "files": case.files,
        "planted": f"file:{case.planted + 1}.txt",
        "is_mixed": is_mixed(case, answer.content),
        "drops": {each.source: each.drop for each in found.sources},
        "seconds": round(time.monotonic() - started, 2),
    }


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def table(paths: list[Path]) -> None:
    """Print how often the planted file is first, and by how much."""
    asked = [each for path in paths for each in _lines(path)]
    found = [each for each in asked if "drops" in each]
    print(f"{len(asked)} questions, {len(found)} right answers")
    for name, wanted in (("of one file", False), ("mixed", True)):
        if kept := [each for each in found if each["is_mixed"] is wanted]:
            print(f"\n{name}: {len(kept)}")
            _rates(kept)


def _rates(found: list[dict[str, Any]]) -> None:
    first = [max(each["drops"], key=each["drops"].get) for each in found]
    held = sum(name == each["planted"] for name, each in zip(first, found, strict=True))
    files = [
        {name: drop for name, drop in each["drops"].items() if name.startswith("file")}
        for each in found
    ]
    own = sorted(each.pop(case["planted"]) for each, case in zip(files, found, strict=True))
    other = sorted(max(each.values()) for each in files)
    print(f"the planted file first: {held} ({held / len(found):.1%})")
    print(f"its drop in nats: least {own[0]:.2f}, median {own[len(own) // 2]:.2f}")
    print(
        f"the largest drop of another file: median {other[len(other) // 2]:.2f}, most {other[-1]:.2f}"
    )
    for name, each in zip(first, found, strict=True):
        if name != each["planted"]:
            print(f"not first: {json.dumps(each)}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.attribution", allow_abbrev=False)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--cases", type=int, default=RIGHT, help="right answers; default: 200")
    parser.add_argument("--part", default="1/1", help="as 1/2: each second question")
    parser.add_argument("--rivals", action="store_true", help="each file has a fact of its own")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        part, parts = map(int, given.part.split("/"))
        run(given.files[0], given.cases // parts, part, parts, given.rivals)
    table(given.files)


if __name__ == "__main__":
    main()
