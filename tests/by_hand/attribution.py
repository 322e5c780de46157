"""Which of four files an answer came from: is the planted one named first?

By hand: ``python -m tests.by_hand.attribution FILE`` asks the embedded model until 200 answers are right, has
each attributed, and writes a line of JSON for each; where the file is there it goes on, and ``--table`` only
shows the rates. ``ORE_MODEL_DIR`` names the folder with the model. An answer is right that holds the planted
word; one that holds a word of another file's fact, or its other sentence, is mixed, and is told of apart.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ore.backends import Settings
from ore.backends.engine_turn import EmbeddedReasoner
from ore.glass.influence import explained
from ore.glass.provenance import Sourced
from ore.types import Message

MODEL, LONGEST, RIGHT, SEED = "smollm2:135m", 16, 200, 18
SYSTEM = "Answer in a few words."
NAMES = "Ada Boris Clara Dmitri Elena Farid Greta Hugo Ines Jonas Karim Lena Marta Nadia Oscar Paula".split()
THINGS = "boat key letter lamp ladder violin map coat bicycle clock piano suitcase".split()
ROOMS = "kitchen garden cellar attic garage library hall shed bathroom office".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
COLOURS = "red blue green yellow purple orange black white silver golden".split()
ANIMALS = "dog cat horse parrot rabbit goat donkey tortoise".split()
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


@dataclass(frozen=True)
class Case:
    """Four files, a question, the file that answers it, what the answer has to hold, and what not."""

    files: list[str]
    question: str
    planted: int
    answer: str
    others: list[str]


def cases() -> Iterator[Case]:
    """Yield cases without an end, always the same ones."""
    chance = random.Random(SEED)
    while True:
        facts = chance.sample(FACTS, 4)
        pools = {"thing": THINGS, "room": ROOMS, "day": DAYS, "colour": COLOURS}
        pools |= {"animal": ANIMALS, "name": NAMES}
        drawn = {kind: chance.sample(pool, 4) for kind, pool in pools.items()}
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


def is_mixed(case: Case, answer: str) -> bool:
    """Whether an answer holds something of a file that was not asked for."""
    return any(re.search(rf"\b{re.escape(each)}\b", answer, re.I) for each in case.others)


def run(path: Path, wanted: int) -> None:
    """Ask and attribute, and write it line by line."""
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    right, last = sum(not each for _, each in _judged(done)), done[-1]["asked"] if done else 0
    settings = Settings(options={"num_predict": LONGEST})
    with path.open("a") as file, closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        for asked, case in itertools.islice(enumerate(cases(), 1), last, None):
            messages = messages_of(case)
            answer = reasoner.reason([Message(each.role, each.content) for each in messages])
            if case.answer.lower() not in answer.content.lower():
                continue
            started = time.monotonic()
            was_cut = answer.metadata["done_reason"] == "length"
            found, _ = explained(reasoner, messages, answer.content, ended=not was_cut)
            line = {
                "asked": asked,
                "question": case.question,
                "answer": answer.content,
                "planted": f"file:{case.planted + 1}.txt",
                "drops": {each.source: each.drop for each in found.sources},
                "seconds": round(time.monotonic() - started, 2),
            }
            file.write(json.dumps(line) + "\n")
            file.flush()
            right += not is_mixed(case, answer.content)
            if right >= wanted:
                return


def _judged(lines: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield each line, and whether its answer is mixed."""
    made = dict(zip(range(1, lines[-1]["asked"] + 1), cases())) if lines else {}
    for each in lines:
        yield each, is_mixed(made[each["asked"]], each["answer"])


def table(path: Path) -> None:
    """Print how often the planted file is first, and by how much."""
    found = [json.loads(line) for line in path.read_text().splitlines()]
    judged = list(_judged(found))
    print(f"{found[-1]['asked']} questions, {len(found)} right answers")
    for name, wanted in (("of one file", False), ("mixed", True)):
        if kept := [each for each, is_mixed in judged if is_mixed is wanted]:
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
    parser.add_argument("file", type=Path)
    parser.add_argument("--cases", type=int, default=RIGHT, help="right answers; default: 200")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table:
        run(given.file, given.cases)
    table(given.file)


if __name__ == "__main__":
    main()
