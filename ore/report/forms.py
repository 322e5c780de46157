"""Forms that publications ask for, filled from artifacts: Markdown, with *by hand* where nobody can know.

A form is a file in ``published/``: a head that says whose it is and of which day, and a page with places.
``{{key}}`` is a fact in a line, ``{{*key}}`` repeats its line for each value, ``{{text key}}`` is texts in
fences, and ``{{by hand}}``, or ``{{by hand: WHAT}}``, is a field that the writer fills.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ore.artifact.show import fence_around, in_ticks
from ore.report.form_facts import Facts
from ore.report.form_values import NOT_KNOWN, Value, day

NAMES = ("methods", "worldbank", "llm-guidelines", "trailer")
"""The forms there are."""
MOST_IN_LINE, MOST_TEXTS = 20, 20
"""How many values one line shows, and how many texts stand below each other."""

_FOLDER = Path(__file__).parent / "published"
_PLACE = re.compile(r"\{\{([^{}]+)\}\}")
_BY_HAND = "by hand"
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&$!:@])")
_NO_TOKEN = re.compile(r"[^0-9A-Za-z._:/@+-]+")


@dataclass(frozen=True)
class Form:
    """A form.

    Attributes:
        title, source, date: What it is called, where it is published, and the day of that text.
        read: What was read of the text, and when.
        page: Markdown with places.
    """

    title: str
    source: str
    date: str
    read: str
    page: str

    @property
    def places(self) -> list[str]:
        """Every place, in its order."""
        return _PLACE.findall(self.page)


def load(name: str) -> Form:
    """Return a form by its name, one of ``NAMES``."""
    head, page = (_FOLDER / f"{name}.md").read_text(encoding="utf-8").split("\n---\n", 1)
    said = dict(line.split(": ", 1) for line in head.splitlines())
    return Form(said["title"], said["source"], said["date"], said["read"], page)


def filled(name: str, facts: Facts) -> str:
    """Return a form, filled."""
    return "".join(_line_of(line, facts) + "\n" for line in load(name).page.splitlines())


def begin_of(name: str) -> bytes:
    """Return what a filled form begins with."""
    return load(name).page.split("{{", 1)[0].encode("utf-8")[:60]


def _line_of(line: str, facts: Facts) -> str:
    places = _PLACE.findall(line)
    repeated = next((place for place in places if place.startswith("*")), None)
    if repeated is not None:
        return _repeated(line, repeated, facts)
    if len(places) == 1 and places[0].startswith("text "):
        return _texts(places[0].removeprefix("text "), facts)
    in_cell = line.startswith("|")
    # In one pass: what takes a place is not looked into for another.
    return _PLACE.sub(lambda place: _in_line(place[1], facts, in_cell), line)


def _repeated(line: str, place: str, facts: Facts) -> str:
    """Return a line for each value of a field; in one of a table, a value's words are cells."""
    in_cell = line.startswith("|")
    own = facts.values.get(place[1:]) or Counter()
    known = _trailers(facts) if place == "*trailer" else own
    lines = []
    for value, count in known.items():
        shown = " | ".join(_word(word, value, in_cell) for word in value.words)
        filling = {place: shown, "runs": _runs(count)}
        lines.append(_PLACE.sub(lambda each, filling=filling: filling[each[1]], line))  # type: ignore[misc]
    if in_cell and facts.more[place[1:]]:
        lines.append(f"| and more, in {_runs(facts.more[place[1:]])} |")
    return "\n".join(lines)


def _trailers(facts: Facts) -> Counter[Value]:
    """Return who answered, as one word each: no name of a model can begin a line of its own."""
    found: Counter[Value] = Counter()
    for value, count in facts.values["model_exact"].items():
        name, digest = (_NO_TOKEN.sub("-", word) for word in (*value.words, "")[:2])
        pin = f"@sha256:{digest.removeprefix('sha256:')[:12]}" if digest else ""
        ran = (each.words for each in facts.values.get("own_tools", ()))
        tools = [_NO_TOKEN.sub("-", tool) for *of, tool in ran if of == [*value.words]]
        words = " ".join([f"ORE:{name or 'unknown'}{pin}", *tools])
        found[Value((words,), of_run=False)] += count
    return found


def _texts(key: str, facts: Facts) -> str:
    """Return texts in fences that they can't leave, each with the number of its runs."""
    known = facts.values.get(key) or Counter()
    parts = []
    for value, count in list(known.items())[:MOST_TEXTS]:
        fence = fence_around(value.words[0])
        above = f"In {_runs(count)}:\n\n" if len(known) > 1 else ""
        parts.append(f"{above}{fence}text\n{value.words[0]}\n{fence}")
    left = sum(list(known.values())[MOST_TEXTS:]) + facts.more[key]
    if left:
        parts.append(f"And others in {_runs(left)}, each in its artifact.")
    return "\n\n".join(parts)


def _in_line(place: str, facts: Facts, in_cell: bool) -> str:
    if place.startswith(_BY_HAND):
        what = place.removeprefix(_BY_HAND).removeprefix(":").strip()
        return f"*by hand*: {what}" if what else "*by hand*"
    if place in _COUNTED:
        return _COUNTED[place](facts)
    known = facts.values.get(place) or Counter()
    parts = []
    for value, count in list(known.items())[:MOST_IN_LINE]:
        words = " ".join(_word(word, value, in_cell) for word in value.words)
        parts.append(words if count == facts.runs else f"{words} ({_runs(count)})")
    left = len(known) - len(parts)
    over = "over " if facts.more[place] else ""  # of what is not kept, the runs alone are counted
    parts += [f"and {over}{left:,} more values"] if left > 0 else []
    return "; ".join(parts) or "none"


def _word(word: str, value: Value, in_cell: bool) -> str:
    if not value.of_run or word == NOT_KNOWN:
        return word
    if not word.strip() or in_cell and "|" in word and "\\" in word:
        return _SPECIAL.sub(r"\\\1", word) or "(empty)"
    return in_ticks(word.replace("|", "\\|") if in_cell else word)  # a table has that in code, too


def _runs(count: float) -> str:
    return "1 run" if count == 1 else f"{count:,.0f} runs"


def _dates(facts: Facts) -> str:
    found = {day(at) for at in facts.at}
    days = sorted(found - {NOT_KNOWN}) or [NOT_KNOWN]
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]} ({len(days):,} days)"
    return span if found <= {*days} else f"{span}, and others that are not known"


def _prompts(facts: Facts) -> str:
    count = len(facts.prompts)
    return "1 prompt" if count == 1 else f"{count:,} different prompts"


def _sum(name: str, facts: Facts) -> str:
    """Return a sum of all runs, and of how many it is where some do not say it."""
    known, figure = facts.sums[f"{name} known"], facts.sums[name]
    if not known:
        return NOT_KNOWN
    said = f"{figure / 1e9:,.1f} seconds" if name == "nanoseconds" else f"{figure:,.0f}"
    return said if known == facts.runs else f"{said} (known of {known:,} of {_runs(facts.runs)})"


def _count(name: str, facts: Facts) -> str:
    """Return how many runs are something, and of how many it is not known."""
    unknown = facts.sums[f"{name} not known"]
    of = f" (not known of {_runs(unknown)})" if unknown else ""
    return f"{facts.sums[name]:,}{of}"


def _expected(facts: Facts) -> str:
    if not facts.sums["expected"]:
        return "nothing was said of what was expected"
    return f"{facts.sums['as_expected']:,} of {facts.sums['expected']:,} answers were as expected"


def _repeats(facts: Facts) -> str:
    again, unknown = facts.sums["again"], facts.sums["again not known"]
    of = f"; not known of {_runs(unknown)}" if unknown else ""
    if not again:
        return f"no question was asked twice in the same way among these runs{of}"
    what = "1 question was" if again == 1 else f"{again:,} questions were"
    return (
        f"{what} asked more than once in the same way (model, messages, images, options); answered alike "
        f"each time: {facts.sums['alike']:,}{of}"
    )


def _processing(facts: Facts) -> str:
    rows = f"; {facts.sums['rows']:,} of them were rows of a table" if facts.sums["rows"] else ""
    return (
        f"individually, not batched: a call with one prompt for each of {_runs(facts.runs)}{rows}"
    )


def _standalone(facts: Facts) -> str:
    parts = [f"one call of the model for each of {_runs(facts.runs)}, and no call by itself"]
    for key, words in (
        ("in_session", "with earlier messages of a conversation"),
        ("made_from", "made from another run"),
        ("shaped", "with an answer held to a schema or to given words"),
    ):
        if count := facts.sums[key]:
            parts.append(f"{count:,} {words}")
    return "; ".join(parts)


def _signed(facts: Facts) -> str:
    if all(each.signature is None for each in facts.checked):
        return "not looked for (no allowed signers were named)"
    return _in_line("signed_by", facts, True)


_COUNTED: dict[str, Callable[[Facts], str]] = {
    "runs": lambda facts: _runs(facts.runs),
    "dates": _dates,
    "different_prompts": _prompts,
    "prompt_tokens": partial(_sum, "prompt_tokens"),
    "answer_tokens": partial(_sum, "answer_tokens"),
    "seconds": partial(_sum, "nanoseconds"),
    "cut": partial(_count, "cut"),
    "truncated": partial(_count, "truncated"),
    "expected": _expected,
    "repeats": _repeats,
    "processing": _processing,
    "standalone": _standalone,
    "signed": _signed,
}
"""What is computed of all runs together."""
