"""Whether the probabilities of ``--choose`` are what they say, over 300 generated questions.

``python -m tests.by_hand.calibration [MODEL]`` asks a model of the embedded engine (the small one) and
writes a table in Markdown: of the words that were given a probability in a range, how many were right.
"""

from __future__ import annotations

import random
import sys
from contextlib import closing
from dataclasses import dataclass

from ore.backends.embedded import EmbeddedBackend
from ore.backends.settings import Settings
from ore.glass.choosing import reasoner_of
from ore.types import Message

SEED, EACH = 7, 100
KINDS = {
    "animal": "dog cat horse cow sheep goat lion tiger eagle sparrow shark whale snake frog bee ant",
    "plant": "oak rose tulip fern moss pine birch cactus daisy clover ivy bamboo wheat barley palm",
    "tool": "hammer saw drill wrench pliers chisel shovel rake axe screwdriver ladder knife spade",
    "city": "Paris London Rome Berlin Madrid Tokyo Cairo Lima Oslo Vienna Athens Dublin Moscow",
}
CAPITALS = (
    "France:Paris Spain:Madrid Italy:Rome Germany:Berlin Japan:Tokyo Egypt:Cairo Peru:Lima "
    "Norway:Oslo Austria:Vienna Greece:Athens Ireland:Dublin Russia:Moscow Portugal:Lisbon"
)
RANGES = ((0, 0.05), (0.05, 0.2), (0.2, 0.4), (0.4, 0.6), (0.6, 0.8), (0.8, 0.95), (0.95, 1.0))


@dataclass(frozen=True)
class Item:
    question: str
    words: tuple[str, ...]
    right: str


def items() -> list[Item]:
    """The 300 questions, the same each time."""
    chance, made = random.Random(SEED), []
    nouns = [(noun, kind) for kind, names in KINDS.items() for noun in names.split()]
    pairs = [pair.split(":") for pair in CAPITALS.split()]
    for _ in range(EACH):
        low, high = sorted(chance.sample(range(1, 1000), 2))
        swapped = chance.random() < 0.5
        one, other = (high, low) if swapped else (low, high)
        question = f"Is {one} larger than {other}? Answer with one word: Yes or No."
        made.append(Item(question, ("Yes", "No"), "Yes" if swapped else "No"))
        noun, kind = chance.choice(nouns)
        words = tuple(chance.sample(sorted(KINDS), len(KINDS)))
        question = f"What is {noun}: {', '.join(words)}? Answer with one of these words."
        made.append(Item(question, words, kind))
        (land, city), (_, wrong) = chance.sample(pairs, 2)
        is_right = chance.random() < 0.5
        question = f"Is {city if is_right else wrong} the capital of {land}? Answer Yes or No."
        made.append(Item(question, ("Yes", "No"), "Yes" if is_right else "No"))
    return made


def main(model: str) -> None:
    given: list[tuple[float, bool]] = []
    first = 0
    for item in items():
        settings = Settings(choices=item.words)
        reasoner.settings = settings
        found = reasoner.reason([Message("user", item.question)]).metadata["choice"]
        given += [(p, word == item.right) for word, p in found["probabilities"].items()]
        first += next(iter(found["probabilities"])) == item.right
    write(f"{model}: {len(items())} questions, the likeliest word was right {first} times.\n")
    write("| probability | words | mean probability | right |\n|---|---|---|---|")
    for low, high in RANGES:
        inside = [(p, right) for p, right in given if low <= p < high or p == high == 1]
        if inside:
            mean, share = (sum(each) / len(inside) for each in zip(*inside, strict=True))
            write(f"| {low:g} to {high:g} | {len(inside)} | {mean:.2f} | {share:.2f} |")
    off = sum((p - right) ** 2 for p, right in given) / len(given)
    write(f"\nBrier score of a word: {off:.3f}")


def write(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    name = sys.argv[1] if len(sys.argv) > 1 else "smollm2:135m"
    with closing(reasoner_of(EmbeddedBackend(), name, Settings(choices=("Yes", "No")))) as reasoner:
        main(name)
