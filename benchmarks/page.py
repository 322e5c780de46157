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
It needs the packages of `requirements-dev.txt` and `requirements-embedded.txt`. What can't be measured
is said, with its reason.

Every figure stands beside the least that does the same, or beside [llm](https://llm.datasette.io) with
its plugin for Ollama. Those of a section are from one run:

- Every process is a fresh one, and the cases take turns, in reversed order every other round, so that
  a machine that slows down slows them all. One round before does not count: bytecode is compiled, files
  are in memory.
- ORE and the scripts beside it run with the packages of `requirements.txt` and no others, `llm` with its
  own; both are installed for the run and taken away after it.
- The server is a stand-in in a process of its own that answers at once, the same for all.
- Shown are medians, and after ± half the distance between the quartiles.
- *ratio* is ORE's figure as a multiple of the other's from the same round, the median of all rounds, so
  that it is not quite the ratio of the two medians shown; *same again* is the other's as a multiple of
  its own from a second run in each round: what it differs from 1 by, this machine can't tell apart.
- *wanted* is what ORE sets itself, and whether this run kept it. Nothing fails where it did not.
- The pictures show *ratio*, from the same numbers: a bar to the left of 1× is less than the other takes.
  A black line is the limit; a bar is green where it was kept, orange where not, blue where none is set.
  The grey diamond is *same again*.
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
