"""Could this model have said this? Own answers and edited ones, judged by the embedded model.

By hand: ``python -m tests.by_hand.judging run FILE`` records 1,000 answers at temperature 0, edits each, and
writes how far each text is from what the model would have said, a line of JSON a text;
``python -m tests.by_hand.judging table FILE`` shows the rates for some thresholds. ``ORE_MODEL_DIR`` names
the folder with the model.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from ore.backends import hardware
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.types import Message

MODEL, LONGEST, RUNS, SEED = "smollm2:135m", 32, 1000, 18
FAR = 1.0
"""Nats: a text that departs farther than this somewhere is not followed any more."""
THRESHOLDS = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.6, 1.0)
SYSTEM = "Answer in one short sentence."
OWN = "own"
"""How the kinds begin that are answers of the model's, and no edits."""

PLACES = "France Japan Brazil Egypt Kenya Norway Peru India Canada Greece Cuba Chile Iran Mali Nepal Spain".split()
ANIMALS = "spider dog ant crab octopus horse bee duck bat whale frog snake snail eagle cow lobster".split()
FOODS = "banana lemon tomato bread rice cheese honey carrot onion apple plum salt butter tea soup cake".split()
TOPICS = (
    "gravity rust sleep rain friendship electricity memory money magnets erosion music "
    "trade fire snow vaccines clouds tides democracy bridges glass"
).split()
WORDS = "happy fast cold large brave quiet bright angry old simple rich strange warm sad small clever".split()
THINGS = "boat key letter lamp ladder violin map coat bicycle clock".split()
ROOMS = "kitchen garden cellar attic garage library hall shed".split()
BOOKS = "Hamlet|Emma|Dracula|Ulysses|The Odyssey|Walden|Don Quixote|Frankenstein|Moby Dick|Candide".split(
    "|"
)
TEMPLATES: dict[str, tuple[Any, ...]] = {
    "What is the capital of {}?": (PLACES,),
    "How many people live in {}?": (PLACES,),
    "Which language is spoken in {}?": (PLACES,),
    "How many legs does a {} have?": (ANIMALS,),
    "Is a {} a mammal?": (ANIMALS,),
    "What does a {} eat?": (ANIMALS,),
    "What colour is {}?": (FOODS,),
    "How is {} made?": (FOODS,),
    "Explain {}.": (TOPICS,),
    "Why does {} matter?": (TOPICS,),
    "Give a synonym of {}.": (WORDS,),
    "Use the word {} in a sentence.": (WORDS,),
    "Who wrote {}?": (BOOKS,),
    "What is {} plus {}?": (range(3, 60, 4), range(2, 50, 6)),
    "What is {} times {}?": (range(2, 13), range(3, 13)),
    "The {} is in the {}, and the dog sleeps. Where is the {}?": (THINGS, ROOMS),
    "In the year {} a {} was sold for 40 pounds. What was sold, and when?": (
        range(1820, 1990, 12),
        THINGS,
    ),
    "Write a line about a {} in a {}.": (ANIMALS, ROOMS),
    "Compare {} and {}.": (ANIMALS, FOODS),
}
LINKING = "is are was were can has have will does do should".split()
SENTENCES = (
    "This is why it is so popular today.",
    "It was first described in 1902.",
    "Many people do not know this.",
    "However, the opposite is true.",
    "Please pay the invoice by Friday.",
)


def prompts(count: int) -> list[str]:
    """Return so many different prompts, always the same ones."""
    every = []
    for template, values in TEMPLATES.items():
        for chosen in itertools.product(*values):
            more = [*chosen, chosen[0]]
            every.append(template.format(*more))
    random.Random(SEED).shuffle(every)
    assert len(every) == len(set(every)) >= count, len(every)
    return every[:count]


def edits(answers: list[str], count: int) -> Iterator[tuple[int, str, str]]:
    """Yield a number of an answer, the kind of an edit, and the edited text, in turn of each kind."""
    chance = random.Random(SEED)
    words = sorted({word for text in answers for word in re.findall(r"[a-z]{4,}", text)})
    kinds = {"word": _word, "number": _number, "negation": _negation, "sentence": _sentence}
    for kind, edit in kinds.items():
        made = 0
        for turn in range(10_000):
            number = chance.randrange(len(answers)) if turn >= len(answers) else turn
            if made == count // len(kinds):
                break
            edited = edit(answers[number], chance, words)
            if edited is not None and edited != answers[number]:
                made += 1
                yield number, kind, edited


def _word(text: str, chance: random.Random, words: list[str]) -> str | None:
    places = list(re.finditer(r"\b[a-z]{4,}\b", text))
    if not places:
        return None
    place = chance.choice(places)
    return text[: place.start()] + chance.choice(words) + text[place.end() :]


def _number(text: str, chance: random.Random, words: list[str]) -> str | None:
    places = list(re.finditer(r"\d+", text))
    if not places:
        return None
    place = chance.choice(places)
    other = str(int(place[0]) + chance.choice((-3, -2, -1, 1, 2, 3, 10)))
    return text[: place.start()] + other + text[place.end() :]


def _negation(text: str, chance: random.Random, words: list[str]) -> str | None:
    if re.search(r"\bnot ", text):
        return re.sub(r"\bnot ", "", text, count=1)
    places = list(re.finditer(rf"\b({'|'.join(LINKING)})\b", text))
    if not places:
        return None
    place = chance.choice(places)
    return text[: place.end()] + " not" + text[place.end() :]


def _sentence(text: str, chance: random.Random, words: list[str]) -> str | None:
    if not text.endswith("."):
        return None
    return f"{text} {chance.choice(SENTENCES)}"


def judged(reasoner: EmbeddedReasoner, prompt: str, text: str, was_cut: bool) -> dict[str, Any]:
    """Return how far a text is from what the model would have said, and where."""
    started = time.monotonic()
    found = reasoner.departures(messages(prompt), text, was_cut=was_cut, most=FAR)
    farthest = max(found, key=lambda each: each.gap, default=None)
    return {
        "gap": farthest.gap if farthest else 0.0,
        "at": (farthest.at, farthest.said, farthest.instead) if farthest else None,
        "seconds": round(time.monotonic() - started, 3),
    }


def messages(prompt: str) -> list[Message]:
    return [Message("system", SYSTEM), Message("user", prompt)]


def run(path: Path, count: int) -> None:
    """Record, edit and judge, and write it line by line; go on where the file ends."""
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    seen = Counter(each["kind"] for each in done)
    settings, asked = Settings(options={"num_predict": LONGEST}), prompts(count)
    with path.open("a") as file, closing(EmbeddedReasoner(MODEL, settings)) as usual:

        def judge(
            reasoner: EmbeddedReasoner, kind: str, cases: Iterable[tuple[int, Answer]]
        ) -> None:
            for number, answer in itertools.islice(cases, seen[kind], None):
                found = judged(reasoner, asked[number], *answer)
                about = {"prompt": asked[number], "text": answer[0], "was_cut": answer[1]}
                file.write(json.dumps({"kind": kind} | about | found) + "\n")
                file.flush()
                seen[kind] += 1

        own = [(each["text"], each["was_cut"]) for each in done if each["kind"] == "own"]
        own += answers(usual, asked[len(own) :])
        judge(usual, "own", enumerate(own))
        made: dict[str, list[tuple[int, Answer]]] = defaultdict(list)
        for number, kind, text in edits([text for text, _ in own], count):
            made[kind].append((number, (text, own[number][1])))
        part = count // 10
        for kind, cases in made.items():
            judge(usual, kind, cases[:part])
        with closing(EmbeddedReasoner(MODEL, replace(settings, conversation=True))) as cached:
            kept = ((number, answers(cached, [asked[number]])[0]) for number in range(part))
            judge(usual, "own, made with the prompt cache", kept)
        with (
            mock.patch.object(hardware, "thread_count", lambda: 1),
            mock.patch.object(hardware, "generating_threads", lambda *_: 2),
            closing(EmbeddedReasoner(MODEL, settings)) as other,
        ):
            judge(other, "own, other threads", list(enumerate(own))[:part])
            for kind, cases in made.items():
                judge(other, f"{kind}, other threads", cases[: part // 4])
        for kind, cases in made.items():
            judge(usual, kind, cases)


Answer = tuple[str, bool]
"""A text, and whether a limit cut it off."""


def answers(reasoner: EmbeddedReasoner, asked: list[str]) -> list[Answer]:
    """Return what the model answers."""
    found = []
    for prompt in asked:
        response = reasoner.reason(messages(prompt))
        found.append((response.content, response.metadata["done_reason"] == "length"))
    return found


def table(path: Path) -> None:
    """Print how many texts of each kind depart farther than each threshold."""
    gaps = defaultdict(list)
    for line in path.read_text().splitlines():
        found = json.loads(line)
        if "gap" in found:
            gaps[found["kind"]].append(found["gap"])
    print("| nats | " + " | ".join(f"{kind} ({len(found)})" for kind, found in gaps.items()) + " |")
    print("|---" * (len(gaps) + 1) + "|")
    rates = {}
    for threshold in THRESHOLDS:
        beyond = [sum(gap > threshold for gap in found) for found in gaps.values()]
        print(f"| {threshold} | " + " | ".join(map(str, beyond)) + " |")
        pairs = list(zip(gaps, beyond, strict=True))
        rejects = sum(count for kind, count in pairs if kind.startswith(OWN))
        misses = sum(len(gaps[kind]) - count for kind, count in pairs if not kind.startswith(OWN))
        rates[threshold] = (rejects, misses)
    print(f"\nThe threshold: {chosen(rates)}")


def chosen(rates: Mapping[float, tuple[int, int]]) -> float:
    """Return the threshold in nats that rates allow: false rejects and misses, of each threshold.

    Of those with the fewest false rejects, those with the fewest misses; of these the middle.
    """
    least = min(rates.values())
    allowed = [threshold for threshold, rate in rates.items() if rate == least]
    return (min(allowed) + max(allowed)) / 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.judging", allow_abbrev=False)
    parser.add_argument("what", choices=["run", "table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--runs", type=int, default=RUNS)
    given = parser.parse_args()
    if given.what == "run":
        run(given.file, given.runs)
    table(given.file)


if __name__ == "__main__":
    main()
