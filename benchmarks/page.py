"""The page that shows a run: what it was made on, how, and a table for each topic."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from benchmarks.drawing import file_name
from benchmarks.measure import HEAD, Comparison, markdown
from benchmarks.place import Topic

HOW = """\
# What ORE costs

This page is written by `python -m benchmarks`, which takes about an hour on a quiet machine of two
cores. It can be done in pieces, and a section can be measured anew: `python -m benchmarks -h` says how.
It needs the packages of `requirements-dev.txt` and `requirements-embedded.txt`. If something can't be
measured, the page says why.

Each figure of ORE stands beside another: that of the smallest program that does the same, or that of
[llm](https://llm.datasette.io) with its plugin for Ollama. All figures of a section are from one run:

- Every process is a fresh one. The cases take turns, and every other round goes backwards, so a machine
  that slows down slows them all. One round comes before and does not count: it compiles bytecode, and
  brings the files into memory.
- ORE and the scripts beside it run with the packages of `requirements.txt` and no others. `llm` runs
  with its own. Both are installed for the run, and removed after it.
- The server is a stand-in in a process of its own. It answers at once, and is the same for all.
- The tables show medians. After ± comes half the distance between the quartiles.
- *ratio* is ORE's figure, as a multiple of the other's from the same round. It is the median of all
  rounds, so it is not quite the ratio of the two medians shown.
- *same again* is the other's figure, as a multiple of its own from a second run in each round. How far it
  is from 1 shows what this machine can't tell from chance.
- *wanted* is the limit that ORE sets itself, and whether this run kept it. If it did not, nothing fails.
- The pictures show *ratio*, from the same numbers. If a bar ends to the left of 1×, ORE takes less than
  the other. A black line is the limit. A bar is green if the limit was kept, orange if not, and blue if
  there is none. The grey diamond is *same again*.
"""


RUN = "## The run\n"


def write_page(
    machine: Sequence[tuple[str, str]],
    results: Iterable[tuple[Topic, Sequence[Comparison] | str]],
    remarks: Sequence[str],
    drawn: Collection[str] = (),
) -> str:
    """Return the page as Markdown.

    Args:
        machine: What the run was made on, as names and values.
        results: Each topic with its comparisons, or with the reason why there are none.
        remarks: What else has to be said of the run, as whole sentences.
        drawn: The names of the pictures that there are, without their ending.
    """
    parts = [HOW, RUN, _table(machine)]
    parts += [f"{remark}\n" for remark in remarks]
    parts += [_section(topic, found, drawn) for topic, found in results]
    return "\n".join(parts)


def renewed(
    page: str,
    machine: Sequence[tuple[str, str]],
    results: Iterable[tuple[Topic, Sequence[Comparison] | str]],
    drawn: Collection[str] = (),
) -> str:
    """Return a page with the sections of some topics measured anew, the others as they are.

    ``machine``, ``results`` and ``drawn`` are those of ``write_page``.

    Raises:
        ValueError: The page was measured on something else, or has no such section.
    """
    _, *sections = re.split(r"(?m)^(?=## )", page)
    if f"{RUN}\n{_table(machine)}" not in sections[0]:
        raise ValueError("it was measured on another machine, or with other packages")
    places = {section.partition("\n")[0]: at for at, section in enumerate(sections)}
    for topic, found in results:
        if (at := places.get(f"## {topic.title}")) is None:
            raise ValueError(f"it has no section '{topic.title}'")
        end = "" if at == len(sections) - 1 else "\n"
        sections[at] = _section(topic, found, drawn) + end
    return f"{HOW}\n{''.join(sections)}"


def _table(machine: Sequence[tuple[str, str]]) -> str:
    return markdown([("", "of this run"), *machine]) + "\n"


def _section(topic: Topic, found: Sequence[Comparison] | str, drawn: Collection[str] = ()) -> str:
    parts = [f"## {topic.title}\n\n{topic.text}\n"]
    if isinstance(found, str):
        parts.append(f"Not measured: {found}.\n")
    else:
        if (name := file_name(topic)) in drawn:
            parts.append(f"![{topic.title}, beside others, with limits](images/{name}.svg)\n")
        parts.append(markdown([HEAD, *(row.cells() for row in found)]) + "\n")
    return "\n".join(parts)
