"""What a file gives to a turn: its prompt with the values in their places, and what is kept of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ore.artifact.canonical import text_digest
from ore.errors import UsageError
from ore.files.neutral import one_line
from ore.glass.planned import ParsedPlan, Planned
from ore.reasoner import Reasoner
from ore.rows.expectations import Expectation, parse_expectation
from ore.rows.judge import JudgingReasoner
from ore.rows.placeholders import named_in, quoted
from ore.rows.run_file import STDIN, RunFile


@dataclass(frozen=True)
class Given:
    """What a turn has from a file, besides what flags could say.

    Attributes:
        path: The file.
        sha256: Of its bytes.
        prompt: The prompt, with the values in their places.
        typed: The prompt without any value: this alone may choose a route, for a value is data.
        values: The text in each place.
        expectation: What is expected of the answer, or None.
        planned: The turn of a plan, whose messages are there already, or None.
        says_system: Whether the file says which system prompt is sent.
    """

    path: str
    sha256: str
    prompt: str
    typed: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    expectation: Expectation | None = None
    planned: Planned | None = None
    says_system: bool = False

    @property
    def source(self) -> str:
        """Where the prompt came from, as the source of a message has it."""
        if self.planned is not None:
            return self.planned.source
        return "prompt+stdin" if STDIN in self.values else "prompt"

    def around(self, reasoner: Reasoner) -> Reasoner:
        """Return a reasoner that judges the answers of another, where something is expected of them."""
        if self.expectation is None:
            return reasoner
        return JudgingReasoner(reasoner, self.expectation)

    def kept(self, *, is_full: bool) -> dict[str, Any]:
        """Return what an artifact says of the file and its values; with ``is_full`` the values, too."""
        values = [
            {"name": name, "sha256": text_digest(text), **({"value": text} if is_full else {})}
            for name, text in self.values.items()
        ]
        return {"name": os.path.basename(self.path), "sha256": self.sha256, "values": values}

    def check_system(self, text: str | None) -> None:
        """Raise where a system prompt has a place for a value that the prompt has a place for.

        Raises:
            UsageError: The names stand in it.
        """
        places = named_in(text or "")
        if names := [name for name in self.values if name in places]:
            raise UsageError(
                f"The system prompt has the places {quoted(names)}: only the prompt has places, so "
                f"that it stays the same for all values. Move them into the prompt."
            )


def expected(file: RunFile, *, chooses: bool) -> Expectation | None:
    """Return what a run file expects of answers, or None.

    Args:
        file: The run file.
        chooses: Whether an answer is one of some words.

    Raises:
        UsageError: It can't be judged by, or is a choice where nothing is to be chosen.
    """
    if "choice" in file.expect and not chooses:
        way = "leave `schema=` out"
        if file.choose is None:
            way = "write choose instead of the key schema" if file.schema else "add the key choose"
        raise UsageError(
            f"The expectation in {file.shown} is a choice, but there is nothing to choose from: {way}."
        )
    return parse_expectation(file.expect, file.shown) if file.expect else None


def of_plan(plan: ParsedPlan, path: str) -> Given:
    """Return what the plan at ``path`` gives: its turn, as it was planned.

    Raises:
        UsageError: The answer can't be judged by what is expected of it.
    """
    prompt = plan.turn.prompt
    found = Given(path, plan.sha256, prompt, typed=prompt, planned=plan.turn, says_system=True)
    if not plan.expect:
        return found
    return replace(found, expectation=parse_expectation(plan.expect, one_line(path)))


def fill(
    file: RunFile,
    values: Mapping[str, str],
    expectation: Expectation | None = None,
) -> Given:
    """Return what ``file`` gives with ``values`` in its places; values without a place are not kept.

    Raises:
        UsageError: A place has no value, or the prompt is blank or too long.
    """
    used = {name: values[name] for name in file.template.names if name in values}
    prompt = file.template.fill(values)
    if not prompt.strip():
        raise UsageError(f"The prompt of {file.shown} is blank with these values: say what to ask.")
    typed = file.template.fill(dict.fromkeys(file.template.names, ""))
    return Given(file.path, file.sha256, prompt, typed, used, expectation)
