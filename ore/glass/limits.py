"""What an answer does not show by itself: that it was cut, that not all was read, who else gave it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Any

from ore.backends.answer import limit_of
from ore.backends.joining import fewer_read, not_read
from ore.backends.settings import Settings
from ore.backends.window import LARGER_WINDOW
from ore.files.neutral import brief, one_line
from ore.files.strictjson import above_zero, is_list, part
from ore.types import ExecutionArtifact, Response
from ore.types.artifact_fields import cut_off_by, has_uncounted_images, other_model

_MOST_NOTES, _LONGEST_NOTE = 20, 1000  # of a turn, and characters of one
NEARLY_FULL = 0.9
"""The part of the context window from which a prompt is said to fill it."""
SELDOM = 0.01
"""The probability of all words to choose from together below which the model would say something else."""

TOO_OFTEN, RECENT = 10, 100
"""How often the same line comes in an answer that goes round in circles, and in how many lines."""
LONGEST_CIRCLE = 1000
"""How many lines may come again and again, one after the other, in an answer that goes round in circles."""
IN_CIRCLES = (
    "The answer may go round in circles: one of its lines came for the tenth time. "
    "`options['num_predict']` limits an answer."
)
_LONGEST_WORD = 200  # characters of what a model would rather say
_ASKED_FOR_TOOLS = (
    ": the model asked for tools, which ORE does not run for it. Tell it to answer without them, or ask "
    "another one"
)


def warnings_of(response: Response, settings: Settings) -> Iterator[str]:
    """Yield what of an answer is not what was asked for, a sentence each: it was cut, or not all read.

    Args:
        response: The answer; what its metadata say in another way than ORE's reasoners do is left out.
        settings: What was asked of the model.
    """
    fit = fit_of(response)
    window, tokens = fit.get("window"), fit.get("prompt_tokens", 0)
    written = above_zero(response.metadata.get("eval_count")) or 0
    cut = cut_off_by(response.metadata)
    if cut == "a limit":
        limit = limit_of(settings.options.get("num_predict"), fit, written)
        yield f"The answer was cut off by a limit: {limit}."
    elif cut == "the server":
        reason = response.metadata["done_reason"]
        yield f"The answer was cut off by the server itself ({reason}): ask again; its log may say why."
    elif cut is not None:
        yield (
            "The answer was cut off, or held back, by the server's filter: ask in other words, or "
            "another model."
        )
    answered = other_model(response.model_id, response.metadata)
    if answered is not None:
        yield f"The server answered with the model '{brief(answered)}', not the one asked for."
    if response.metadata.get("images_read") is False:
        yield (
            f"The server counted {_tokens(tokens)}, too few for an image: the model may not have seen "
            f"it."
        )
    if isinstance(role := fit.get("left_out"), str):
        yield f"{not_read(brief(role))}."
    elif fit.get("status") == "truncated" and not (window or fit.get("told_by")) and tokens:
        yield f"{fewer_read(tokens)}: the model has not seen all of it."
    elif fit.get("status") == "truncated":
        size = f" of {window} tokens" if window else ""
        overflows = window and tokens < window <= tokens + written
        what = "prompt and its answer" if overflows else "prompt"
        yield f"The {what} did not fit the context window{size}: the model has not seen all of it."
    elif fit.get("status") == "unknown" and window and tokens + written > window:
        yield (
            f"The prompt and its answer have more tokens than the context window of {window}: the model may "
            f"not have seen all of the prompt."
        )


def notices_of(response: Response, *, in_session: bool = False) -> Iterator[str]:
    """Yield what else to know of an answer, a sentence each, though it may be what was asked for.

    It is empty, may be without the image, goes round in circles, is a word that the model would hardly
    say, or nearly fills the context window.

    Args:
        response: The answer; what its metadata say in another way than ORE's reasoners do is left out.
        in_session: Whether the next turn's prompt has this answer in it.
    """
    fit = fit_of(response)
    window, used, advice = fit.get("window"), fit.get("prompt_tokens", 0), ""
    if in_session:
        used += above_zero(response.metadata.get("eval_count")) or 0
        advice = f"; go on with a larger one ({LARGER_WINDOW}), or in another conversation"
    if not response.content.strip():
        asks = response.metadata.get("asked_for_tools") is True
        yield f"The answer is empty{_ASKED_FOR_TOOLS if asks else ''}."
    if has_uncounted_images(response.metadata):
        yield (
            "The server did not say how many tokens it read: whether the model has seen the image is not "
            "known."
        )
    if RepeatedLines().closed_by(response.content + "\n"):
        yield IN_CIRCLES
    if (seldom := seldom_said(response)) is not None:
        yield seldom
    if fit.get("status") != "truncated" and window and used > NEARLY_FULL * window:
        yield f"The context window is nearly full: {min(used, window)} of {window} tokens{advice}."


def seldom_said(response: Response) -> str | None:
    """Return the sentence that the model of a ``response`` would say none of the words, where it is so.

    What its metadata say in another way than ORE's reasoners do is left out.
    """
    choice = part(response.metadata, "choice")
    covered, rather = choice.get("covered"), choice.get("rather")
    if not isinstance(covered, (int, float)) or not 0 <= covered < SELDOM:
        return None
    instead = ""
    if isinstance(rather, str) and rather:
        instead = f", and would rather begin with {rather[:_LONGEST_WORD]!r}"
    return one_line(
        f"The model says one of these words with a probability of {covered:.2g} only"
        f"{instead}: say in the prompt which words there are."
    )


def notes_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return what became of a turn's messages, a line each; what a worker of a cluster says may be anything.

    Args:
        metadata: The response's.
    """
    notes = metadata.get("notes")
    return (
        [one_line(str(note)[:_LONGEST_NOTE]) for note in notes[:_MOST_NOTES]]
        if is_list(notes)
        else []
    )


def became_another(artifact: ExecutionArtifact, model: str, pin: str | None) -> str | None:
    """Return the sentence that a run may be another model's than the pinned one; None where it is not.

    Args:
        artifact: The run, with the digest that was found after its answer.
        model: What was asked, which had the pinned digest before.
        pin: What the digest begins with; None is no pin.
    """
    digest = (artifact.provenance or {}).get("model_digest") or pin or ""
    if pin is None or digest.lower().removeprefix("sha256:").startswith(pin):
        return None
    return (
        f"{model} became another model than the pinned one during this turn, and that one "
        f"may have answered: ask again."
    )


def fit_of(response: Response) -> dict[str, Any]:
    """Return what a ``response`` says of the context window, without what ORE's reasoners would not say.

    Its ``window`` and ``prompt_tokens`` are whole numbers above 0, or missing.
    """
    found, counts = part(response.metadata, "context"), ("window", "prompt_tokens")
    return {key: v for key, v in found.items() if key not in counts or above_zero(v)}


class RepeatedLines:
    """Finds out, piece by piece, that a line of an answer comes again and again."""

    def __init__(self) -> None:
        self._begun: list[str] = []  # the pieces of a line, which may be many
        self._lines: deque[str] = deque()
        self._times: dict[str, int] = {}  # how often each of them is there
        self._circle = _Circle()
        self._are_found = False

    def closed_by(self, text: str) -> bool:
        """Return whether with this ``text`` a line has come for the tenth time; True once only.

        It must be among the last ``RECENT`` lines each time, or all lines since it came first must
        come in turn; and it must have a letter or a digit: a list or a program repeats short lines.
        """
        if self._are_found:
            return False
        self._begun.append(text)
        if "\n" not in text:
            return False
        *lines, begun = "".join(self._begun).split("\n")
        self._begun = [begun]
        told = (line for line in map(str.strip, lines) if any(map(str.isalnum, line)))
        self._are_found = any(
            self._add(line) == TOO_OFTEN or self._circle.closed_by(line) for line in told
        )
        return self._are_found

    def _add(self, line: str) -> int:
        """Add a line to the last ones, and return how often it is there."""
        if len(self._lines) == RECENT:
            first = self._lines.popleft()
            self._times[first] -= 1
            if not self._times[first]:
                del self._times[first]
        self._lines.append(line)
        times = self._times[line] = self._times.get(line, 0) + 1
        return times


class _Circle:
    """Finds out, line by line, that up to ``LONGEST_CIRCLE`` lines come in turn, again and again."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LONGEST_CIRCLE)
        # Three lines in a row tell where a circle is: one may come several times within it.
        self._recent: tuple[str, ...] = ()
        self._last: dict[tuple[str, ...], int] = {}  # the number of the last line of the same three
        self._number = 0
        self._length = self._same = 0  # of the circle that may be; how many lines have kept to it

    def closed_by(self, line: str) -> bool:
        """Return whether with this ``line`` all lines of a circle came ``TOO_OFTEN`` times."""
        self._number += 1
        self._recent = recent = (*self._recent[-2:], line)
        if self._length and self._lines[-self._length] == line:
            self._same += 1
        else:
            length = self._number - self._last.get(recent, 0)
            is_known = recent in self._last and length <= LONGEST_CIRCLE
            self._length, self._same = (length, len(recent)) if is_known else (0, 0)
        self._last[recent] = self._number
        self._lines.append(line)
        if len(self._last) > 2 * LONGEST_CIRCLE:
            first = self._number - LONGEST_CIRCLE
            self._last = {each: at for each, at in self._last.items() if at > first}
        return self._same >= (TOO_OFTEN - 1) * self._length > 0


def _tokens(number: int) -> str:
    return "1 token" if number == 1 else f"{number} tokens"


def read_whole(stream: Generator[str, None, Response], notice: Callable[[str], object]) -> Response:
    """Return the answer of a ``stream`` that is shown whole; as it goes round in circles, tell ``notice``."""
    circles = RepeatedLines()
    with closing(stream) as pieces:
        try:
            while True:
                if circles.closed_by(next(pieces)):
                    notice(IN_CIRCLES)
        except StopIteration as end:
            response: Response = end.value
            return response
