"""How likely a given text is as an answer of llama.cpp's: its tokens, one after another.

The embedded engine is llama.cpp's server, and one at an address is asked in the same way. A grammar of
the tokens' numbers lets it write only them, and it says how likely each one was before that grammar. It
can't do so for a token that begins or ends within a character, nor for several texts at once: there it
lists the likeliest tokens instead, or its whole vocabulary, in each of the places that are asked for.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ore.backends.http import Deadline, TooLarge, shorten
from ore.backends.llama_tokens import Llama, tokens_of
from ore.backends.reading import as_bytes
from ore.backends.turn_errors import TurnFailedError
from ore.errors import BackendError, CapabilityError, ContextTruncatedError, UsageError
from ore.types.score import Score, ScoredToken
from ore.types.sent import listed

NEXT_BEST = 20
"""How many of the likeliest tokens are looked at for the rank of one."""
MOST_PLACES = 256
"""In how many places the whole vocabulary is listed: that takes a moment and megabytes each time."""
LEAST_LOGPROB = -104.0
"""What stands for a probability that is 0 in the engine's numbers, of 32 bits."""

_MOST_SENT = 1 << 23  # tokens of one request: what a server makes of a prompt may be many
_ROUNDED = 1e-3  # above 0
_LIKELY = 1000  # tokens: listing them takes a hundredth of what listing a vocabulary takes
_ALL = 1 << 24  # more tokens than any vocabulary has
_LONGEST_LIST = 64 << 20  # bytes: an event that lists a vocabulary
ONE_LETTER = 'root ::= "a"'  # something has to be written, or nothing is said
_PATH = "/completion"

Token = tuple[int, bytes]
"""A token's number in the vocabulary, and what it stands for."""
Step = tuple[tuple[int, ...], Token]
"""A place, which is the tokens of a text before it, and the token that follows there."""


@dataclass(frozen=True)
class Asking:
    """An engine and a prompt, as text and as tokens, and how long may be waited (in seconds)."""

    engine: Llama
    model_id: str
    rendered: str
    prompt: Sequence[int]
    silence: float | None
    deadline: Deadline

    def score(self, text: str, ended: bool) -> Score:
        """Return the score of one text."""
        tokens = self._tokens(text)
        self._check_room(len(tokens) + ended)
        found: list[ScoredToken] = []
        for begin, end, is_whole in _parts(tokens):
            if is_whole:
                found += self._run(tokens, begin, end, ended and end == len(tokens))
            else:
                for first in range(begin, end, MOST_PLACES):
                    places = _places(tokens, first, min(first + MOST_PLACES, end))
                    found += self._looked_up(places)
        if ended and len(found) == len(tokens):
            found += self._run(tokens, len(tokens), len(tokens), True)
        return self._score(text, found, ended)

    def score_each(self, texts: Sequence[str]) -> list[Score]:
        """Return the scores of several texts, without their ends, asked for together."""
        texts = listed("texts", texts)
        tokens = [self._tokens(text) for text in texts]
        _check_places(texts, max(map(len, tokens), default=0))  # a place holds all tokens before it
        paths = [_places(each, 0, None) for each in tokens]
        steps = sorted({step for path in paths for step in path})
        _check_places(texts, len({place for place, _ in steps}))
        self._check_room(max(map(len, paths), default=0))
        found = dict(zip(steps, self._looked_up(steps), strict=True))
        return [
            self._score(text, [found[step] for step in path], False)
            for text, path in zip(texts, paths, strict=True)
        ]

    def _score(self, text: str, tokens: list[ScoredToken], ended: bool) -> Score:
        return Score(text, tuple(tokens), ended, self.model_id, len(self.prompt))

    def _tokens(self, text: str) -> list[Token]:
        """Return the tokens that spell ``text`` after the prompt."""
        wanted = text.encode()
        tokens = tokens_of(self.engine, text, self.deadline, is_prompt=False) if text else []
        if _spells(tokens, wanted):
            return tokens
        both = tokens_of(self.engine, self.rendered + text, self.deadline)  # it marks a beginning
        tokens = both[len(self.prompt) :]
        if [number for number, _ in both[: len(self.prompt)]] == list(self.prompt):
            if _spells(tokens, wanted):
                return tokens
        raise not_spelt_error(self.model_id)

    def _check_room(self, size: int) -> None:
        have, window = len(self.prompt), self.engine.window
        if have + size > window:
            raise ContextTruncatedError(
                f"The prompt has {have} tokens and the text {size}, and the model's window holds "
                f"{window}: nothing was scored. {self.engine.larger_window}"
            )

    def _run(self, tokens: list[Token], begin: int, end: int, ended: bool) -> list[ScoredToken]:
        """Return the scores of whole tokens that follow each other, and of the end, by one request."""
        if begin == end and not ended:
            return []
        forced = " ".join(f"<[{number}]>" for number, _ in tokens[begin:end])
        request = {
            "prompt": [[*self.prompt, *(number for number, _ in tokens[:begin])]],
            "grammar": f"root ::= {forced}" if forced else 'root ::= ""',
            "n_predict": end - begin + ended,
            "n_probs": NEXT_BEST,
            "cache_prompt": begin > 0,
        }
        entries = islice(self._entries(request), end - begin + ended + 1)
        found = [_token(entry) for _, entry in entries]
        numbers = [number for number, _ in tokens[begin:end]]
        if [each.id for each in found[: end - begin]] != numbers or len(found) != len(
            numbers
        ) + ended:
            raise self._off_the_text()
        return found

    def _looked_up(self, steps: Sequence[Step]) -> list[ScoredToken]:
        """Return what the model says of each step; equal places are asked for once.

        One request lists the likeliest tokens of each place. A place where one is wanted that is not
        among them is asked for once more, with the whole vocabulary.
        """
        wanted: dict[tuple[int, ...], list[Token]] = {}
        for place, token in steps:
            wanted.setdefault(place, []).append(token)
        found = self._listed(wanted, _LIKELY)
        rare = {place for place, token in steps if (place, token) not in found}
        found |= self._listed({place: wanted[place] for place in wanted if place in rare}, _ALL)
        return [found[step] for step in steps]

    def _listed(
        self, wanted: dict[tuple[int, ...], list[Token]], most: int
    ) -> dict[Step, ScoredToken]:
        """Return the wanted tokens that are among the ``most`` likeliest of their places."""
        every = list(wanted)
        longest = len(self.prompt) + max(map(len, every), default=0)
        size = max(1, _MOST_SENT // max(1, longest))
        found: dict[Step, ScoredToken] = {}
        for places in (every[first : first + size] for first in range(0, len(every), size)):
            request = {
                "prompt": [[*self.prompt, *place] for place in places],
                "grammar": ONE_LETTER,
                "n_predict": 1,
                "n_probs": most,
                "cache_prompt": True,
            }
            for index, entry in self._entries(request):
                likeliest = entry["top_logprobs"]
                ranks = {each["id"]: rank for rank, each in enumerate(likeliest)}
                for number, piece in wanted[places[index]]:
                    if (rank := ranks.get(number)) is not None:
                        scored = _scored(piece, likeliest[rank], rank, likeliest)
                        found[places[index], (number, piece)] = scored
        return found

    def _entries(self, request: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield what the engine says of each token that it writes, and for which prompt it does."""
        body = {"temperature": 0, "repeat_penalty": 1.0, **request}
        events = self.engine.events(
            body,
            silence=self.silence,
            deadline=self.deadline,
            path=_PATH,
            longest=_LONGEST_LIST,
            is_marked=False,
        )
        with closing(events):
            for event in events:
                if not event.get("stop"):
                    for entry in event.get("completion_probabilities", ()):
                        yield event.get("index", 0), entry

    def _off_the_text(self) -> BackendError:
        return BackendError(
            f"{self.engine.name} did not keep to the text that was to be scored with "
            f"{self.model_id}: nothing was scored; try again, or use another model."
        )


def _token(entry: dict[str, Any]) -> ScoredToken:
    """Return a token that was written, with its place among the likeliest ones."""
    likeliest = entry["top_logprobs"]
    numbers = [each["id"] for each in likeliest]
    rank = numbers.index(entry["id"]) if entry["id"] in numbers else None
    return _scored(as_bytes(entry["bytes"]), entry, rank, likeliest)


def _scored(
    piece: bytes, entry: dict[str, Any], rank: int | None, likeliest: Sequence[dict[str, Any]]
) -> ScoredToken:
    logprob = max(checked_logprob(entry["logprob"]), LEAST_LOGPROB)
    best = as_bytes(likeliest[0]["bytes"]).decode("utf-8", "replace")
    return ScoredToken(piece.decode("utf-8", "replace"), logprob, rank, entry["id"], best)


def not_spelt_error(model_id: str) -> CapabilityError:
    """Return the error for a text that no tokens of a model spell after the prompt."""
    return CapabilityError(
        f"The tokens of {model_id} do not spell the text as it is, so it can't be scored: use another "
        f"model."
    )


def checked_logprob(found: Any) -> float:
    """Return a server's log-probability; ``ValueError`` or ``TypeError`` for what can't be one."""
    if not isinstance(found, (int, float)):  # a text may be a key, which Python would quote
        raise TypeError("a log-probability is not a number")
    logprob = float(found)
    if not logprob <= _ROUNDED:
        raise ValueError(f"a log-probability is {logprob}")
    return logprob


@contextmanager
def well_formed(name: str) -> Iterator[None]:
    """Raise ``TurnFailedError`` where what ``name`` answers in the block is of another shape.

    One whose numbers are damaged finds no token likely; the model of another turn may.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, TooLarge, LookupError, TypeError, ValueError) as exc:
        raise TurnFailedError(
            f"{name} gave an answer that is not of the right shape ({shorten(repr(exc))}): "
            f"nothing was scored; try again, or use another model."
        ) from exc


def _places(tokens: Sequence[Token], begin: int, end: int | None) -> list[Step]:
    """Return the steps of a part of a text."""
    numbers = [number for number, _ in tokens]
    return [(tuple(numbers[:i]), tokens[i]) for i in range(len(tokens))[begin:end]]


def _spells(tokens: Sequence[Token], wanted: bytes) -> bool:
    """Whether tokens are the bytes that are wanted, and none of them stands for nothing."""
    return all(piece for _, piece in tokens) and b"".join(piece for _, piece in tokens) == wanted


def _check_places(texts: Sequence[str], places: int) -> None:
    if places > MOST_PLACES:
        raise UsageError(
            f"The {len(texts)} texts have {places} places where a token may follow another, more than "
            f"{MOST_PLACES}: give fewer of them, or shorter ones."
        )


def _parts(tokens: Sequence[Token]) -> Iterator[tuple[int, int, bool]]:
    """Yield the tokens in parts: where each begins and ends, and whether its tokens are whole.

    A token is whole that begins and ends with a character, of which none is NUL: of other ones the
    engine's grammar knows nothing, and it does not tell how likely they were.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    kinds = []
    for _, piece in tokens:
        was_within = bool(decoder.getstate()[0])
        decoder.decode(piece)
        is_within = bool(decoder.getstate()[0])
        kinds.append(not (was_within or is_within or piece[:1] in (b"", b"\0")))
    begin = 0
    for end in range(1, len(kinds) + 1):
        if end == len(kinds) or kinds[end] != kinds[begin]:
            yield begin, end, kinds[begin]
            begin = end
