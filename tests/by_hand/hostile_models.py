"""Models that do harm, more than the suite tries: ``python -m tests.by_hand.hostile_models [HEADS]``.

Every chat template of a list, at the load and in a turn, and so many heads (500) damaged at random.
What comes of each is counted; a traceback ends the program. It needs the engine and no model.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.errors import OreError
from ore.types import Message
from tests.support.gguf import CHATML, tiny_model, write_model

NS = "{% set ns = namespace(x='a', l=[]) %}"
TEMPLATES = {
    "a list without an end": "{{ range(10000000000)|list|length }}",
    "a text without an end": "{{ range(100000000)|join('x') }}",
    "a product": "{{ 'ab' * 4000000000 }}",
    "doubled": NS + "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    "replaced": NS + "{% for i in range(60) %}{% set ns.x = ns.x|replace('a', 'aa') %}{% endfor %}",
    "sorted": "{{ range(30000000)|sort|length }}",
    "indented": "{{ 'a\nb'|indent(2000000000) }}",
    "indented JSON": "{{ messages|tojson(indent=1000000000) }}",
    "deep parentheses": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "deep lists": "{{ " + "[" * 30_000 + "]" * 30_000 + " }}",
    "deep conditions": "{% if 1 %}" * 5000 + "{% endif %}" * 5000,
    "itself": "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
    "each other": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}",
    "nested": NS
    + "{% for i in range(40) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
    "a negative index": "{{ messages[-99999999999] }}",
    "a huge index": "{{ 'abc'[99999999999999999999] }}",
    "no step": "{{ 'abc'[::0] }}",
    "a wide slice": "{{ range(10)[-99999999999999:99999999999999:-1] }}",
    "a long format": "{{ strftime_now('%' * 1 ~ '" + "%" * 100_000 + "') }}",
    "a remainder": "{{ 1 % 0 }}",
    "another file": "{% include '/etc/passwd' %}",
    "an import": "{% import '/etc/passwd' as x %}{{ x }}",
    "an unknown filter": "{{ 1|foo }}",
    "a NUL": "a\x00b",
    "nothing": " ",
    "3 MB": "y" * 3_000_000,
    "20 MB": "y" * 20_000_000,
}
NUMBERS = (b"\xff" * 8, bytes(8), bytes(7) + b"\x80", b"\xff" * 7 + b"\x7f")
SECONDS = 8.0


def outcome(path: Path, text: str) -> str:
    """Ask a model once; return what came of it, in a few words."""
    settings = Settings(options={"num_predict": 3}, deadline=SECONDS)
    try:
        with closing(EmbeddedReasoner(str(path), settings)) as reasoner:
            reasoner.reason([Message("user", text)])
    except OreError as exc:
        said = str(exc)
        assert said.isprintable() and said.endswith("."), said
        return said.replace(str(path), "It")[:160]
    return "an answer"


def damaged(whole: bytes, until: int, chance: random.Random) -> bytes:
    """Change a few bytes of a model's head, or leave some out, or cut it."""
    data = bytearray(whole)
    for _ in range(chance.choice([1, 1, 2, 5])):
        at, how = chance.randrange(4, until), chance.random()
        if how < 0.6:
            data[at] = chance.choice([0, 255, 127, 128, chance.randrange(256)])
        elif how < 0.95:
            data[at : at + 8] = chance.choice(NUMBERS)
        else:
            del data[at : at + chance.randrange(1, 40)]
    return bytes(data if chance.random() > 0.05 else data[: chance.randrange(until)])


def main(heads: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.gguf")
        for name, text in TEMPLATES.items():
            trap = f"{CHATML}{{% if messages[-1]['content'] == 'Trap.' %}}{text}{{% endif %}}"
            for when, template in (("load", text), ("turn", trap)):
                write_model(path, tokenizer__chat_template=template)
                started = time.monotonic()
                said = outcome(path, "Trap.")
                sys.stdout.write(f"{time.monotonic() - started:4.1f} s  {when}  {name}: {said}\n")
        whole, chance, counts = tiny_model(), random.Random(7), Counter[str]()
        until = whole.index(b"blk.0.ffn_down.weight") + 60
        for _ in range(heads):
            path.write_bytes(damaged(whole, until, chance))
            counts[outcome(path, "Hi.").partition(" (")[0].partition(", '")[0]] += 1
        for said, count in counts.most_common():
            sys.stdout.write(f"{count:5}  {said}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 500)
