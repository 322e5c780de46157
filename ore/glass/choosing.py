"""One of the user's words as the answer, and how likely it is: nothing is written by the model."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import exp, isfinite
from typing import TYPE_CHECKING, Any

from ore.backends import Backend
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError
from ore.errors import CheckFailedError, UsageError
from ore.files import read_regular
from ore.files.neutral import one_line
from ore.glass.scoring import scorer_of
from ore.reasoner import Reasoner, Scorer
from ore.types import Message, Response

if TYPE_CHECKING:  # a turn that chooses from no words does not load it
    from ore.types.score import Score

MOST_WORDS, LONGEST_WORD = 1000, 200
"""How many words there may be, and how many characters each may have."""

_MOST_BYTES = 1 << 20


def read_choices(text: str) -> tuple[str, ...]:
    """Return the words of ``text``, trimmed; after ``@`` it is the name of a file that holds them.

    They are separated by line ends, where there are any, else by commas.

    Raises:
        FileAccessError: The file can't be read.
        UsageError: They are fewer than two or too many; one is empty, too long, or not printable;
            two are equal.
    """
    where = "`choices=`"
    if text.startswith("@") and "\n" not in text:
        if not (where := one_line(text[1:])).strip():
            raise UsageError("What follows @ does not name a file: write its path there, or words.")
        try:
            text = read_regular(text[1:], _MOST_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as exc:
            raise UsageError(f"{where} is not text in UTF-8: write one word a line.") from exc
        text = text.removesuffix("\n")
    words = [word.strip() for word in text.split("\n" if "\n" in text else ",")]
    return checked_choices(words, where)


def checked_choices(words: Sequence[str], where: str) -> tuple[str, ...]:
    """Return words that can be chosen from; ``where`` is where they stand, for an error.

    Raises:
        UsageError: They can't.
    """
    if reason := problem_of(words):
        raise UsageError(f"The words of {where} can't be chosen from: {reason}.")
    return tuple(words)


def problem_of(words: Sequence[str]) -> str:
    """Return what is wrong with the words, in a clause; nothing where they can be chosen from."""
    if len(words) < 2 and not any(words):
        return "there is none; give two or more, as in yes,no"
    if len(words) < 2:
        return "there is one only, so there is nothing to choose; give two or more, as in yes,no"
    if len(words) > MOST_WORDS:
        return f"there are {len(words):,} of them; give at most {MOST_WORDS:,}"
    seen: set[str] = set()
    for number, word in enumerate(words, 1):
        if not word:
            return f"the {_ordinal(number)} is empty; take it out"
        if not word.isprintable() or len(word) > LONGEST_WORD:
            return (
                f"the {_ordinal(number)} has characters that can't be printed, or more than "
                f"{LONGEST_WORD}; change it"
            )
        if word in seen:
            return f"'{word}' is there twice; take one out"
        seen.add(word)
    return ""


def _ordinal(number: int) -> str:
    is_teen = number % 100 in (11, 12, 13)
    ending = "th" if is_teen else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def reasoner_of(backend: Backend, model_id: str, settings: Settings) -> Reasoner:
    """Return the backend's reasoner; with choices, one that chooses.

    Args:
        backend: Where the model runs.
        model_id: The model.
        settings: What is asked of it.

    Raises:
        CapabilityError: There are choices, and the backend can't say how likely a word is.
        ModelNotFoundError: The backend knows already that there is no such model.
    """
    if settings.choices is None:
        return backend.reasoner(model_id, settings)
    return ChoosingReasoner(scorer_of(backend, model_id, settings), model_id, settings)


class ChoosingReasoner(Reasoner):
    """Answers with one of the words of ``settings.choices``: the likeliest, by one call of a scorer.

    ``metadata["choice"]`` has its ``probability``, the ``probabilities`` of all words, the likeliest
    first, of which the sum is 1; and ``covered``, how likely it is that the model would say any of
    them by itself.

    Args:
        scorer: What says how likely a word is; it is closed with this one.
        model_id: The model.
        settings: What was asked for.
    """

    def __init__(self, scorer: Scorer, model_id: str, settings: Settings) -> None:
        self.scorer = scorer
        self.model_id = model_id
        self.settings = settings

    @property
    def inner(self) -> Scorer:
        """The scorer: the reasoner that this one is put around, of whose backend the answer is."""
        return self.scorer

    def reason(self, messages: list[Message]) -> Response:
        """Choose with one call; see ``Scorer.score_each`` for what is raised."""
        started = time.monotonic()
        scores = self.scorer.score_each(messages, self.settings.choices or ())
        probabilities, covered = shares(scores)
        word, probability = next(iter(probabilities.items()))
        chosen = next(score for score in scores if score.text == word)
        taken = int((time.monotonic() - started) * 1e9)
        metadata = {
            "eval_count": len(chosen.tokens),
            "prompt_eval_count": chosen.prompt_tokens,
            "eval_duration": None,
            "prompt_eval_duration": None,
            "total_duration": taken,
            "done_reason": "stop",
            "context": {
                "status": "complete",
                "window": None,
                "prompt_tokens": chosen.prompt_tokens,
            },
            "choice": {
                "probability": probability,
                "probabilities": probabilities,
                "covered": covered,
                "rather": chosen.tokens[0].best if chosen.tokens else None,
            },
            **self.settings.asked(),
        }
        if chosen.model_id != self.model_id:
            metadata["response_model"] = chosen.model_id
        return Response(word, self.model_id, metadata=metadata)

    def close(self) -> None:
        """Close the scorer."""
        self.scorer.close()


def shares(scores: Sequence[Score]) -> tuple[dict[str, float], float]:
    """Return the probability of each text among them all, and of all of them among every answer.

    A text's probability is that an answer begins with it, and does not go on to a longer one of them.
    The likeliest is first; of equal ones, the first by its characters.

    Raises:
        TurnFailedError: None of them has a probability.
    """
    most = max(score.logprob for score in scores)
    if not isfinite(most):
        raise TurnFailedError(
            "The model gives none of the words a probability: nothing was chosen."
        )
    paths = {tuple((t.id, t.text) for t in score.tokens): score for score in scores}
    weights = {path: exp(score.logprob - most) for path, score in paths.items()}
    own = dict(weights)
    for path in paths:
        shorter = (path[:length] for length in range(len(path) - 1, 0, -1))
        if (nearest := next((each for each in shorter if each in own), None)) is not None:
            own[nearest] = max(own[nearest] - weights[path], 0.0)
    total = sum(own.values())
    found = {paths[path].text: weight / total for path, weight in own.items()}
    ordered = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(ordered), min(total * exp(most), 1.0)


def said(response: Response) -> str:
    """Return the line that says what was chosen: the word, a tab, and its probability."""
    return f"{response.content}\t{response.metadata['choice']['probability']:.2f}"


def check(response: Response, least: float) -> None:
    """Raise ``CheckFailedError`` where the word that was chosen is less likely than ``least``."""
    choice: dict[str, Any] = response.metadata["choice"]
    if choice["probability"] < least:
        shown = ", ".join(f"{word} {p:.4f}" for word, p in choice["probabilities"].items())
        raise CheckFailedError(f"No word is as likely as `least={least:g}` asks for: {shown}.")
