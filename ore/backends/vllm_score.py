"""How likely a given text is as an answer of a model on vLLM's server.

The tokens of the prompt and those of the text are sent as one prompt, and the server says how likely each
of them was (``prompt_logprobs``): before any sampling or penalty, computed afresh, in one pass. The names
are those of vLLM's documentation, https://docs.vllm.ai: ``/tokenize``, ``/detokenize``, ``/v1/completions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from ore.backends.address import Host
from ore.backends.answer import known_count
from ore.backends.http import Deadline
from ore.backends.llama_score import LEAST_LOGPROB, checked_logprob, not_spelt_error
from ore.backends.openai_beside import known
from ore.backends.openai_client import Call
from ore.errors import CapabilityError, ContextTruncatedError, UsageError
from ore.types.score import Score, ScoredToken
from ore.types.sent import listed

VLLM = "vllm"
"""The owner of the models that vLLM's server lists."""
MOST_TOKENS = 1 << 16
"""How many tokens one request may have: the answer tells of each, in some 200 bytes."""

_ANSWER = {"role": "assistant", "content": "a"}  # any that a template takes
_NEXT_BEST = 1  # of each token also the likeliest in its place


@dataclass(frozen=True)
class VllmAsking:
    """A model on a server, the messages of a turn, and how long may be waited (in seconds)."""

    host: Host
    key: str | None = field(repr=False)
    model_id: str
    messages: Sequence[dict[str, Any]]
    silence: float | None
    deadline: Deadline

    @property
    def name(self) -> str:
        return f"The server at {self.host}"

    def score(self, text: str, ended: bool) -> Score:
        """Return the score of one text."""
        prompt, window = self._prompt()
        tokens = self._tokens(prompt, text)
        end = self._end() if ended else None
        every = tokens if end is None else [*tokens, end]
        found = self._scored(prompt, [every], window, end)[0]
        return Score(text, found, ended, self.model_id, len(prompt))

    def score_each(self, texts: Sequence[str]) -> list[Score]:
        """Return the scores of several texts, without their ends, by one request."""
        texts = listed("texts", texts)
        prompt, window = self._prompt()
        paths = [self._tokens(prompt, text) for text in texts]
        asked = sorted({tuple(path) for path in paths})
        scored = dict(zip(asked, self._scored(prompt, asked, window, None), strict=True))
        return [
            Score(text, scored[tuple(path)], False, self.model_id, len(prompt))
            for text, path in zip(texts, paths, strict=True)
        ]

    def _prompt(self) -> tuple[list[int], int | None]:
        """Return the tokens of the messages, and the context window."""
        found = self._posted(
            "/tokenize", {"messages": self.messages, "add_generation_prompt": True}
        )
        return _numbers(found["tokens"]), known_count(found.get("max_model_len"))

    def _tokens(self, prompt: list[int], text: str) -> list[int]:
        """Return the tokens that spell ``text`` after the prompt."""
        if not text:
            return []
        before = self._spelt(prompt)
        tokens = self._plain(text)
        most = len(text.encode())  # each stands for a byte or more
        if len(tokens) <= most and self._spelt([*prompt, *tokens]) == before + text:
            return tokens
        both = self._plain(before + text)  # it may put a blank before what stands alone
        is_told = both[: len(prompt)] == prompt and len(both) <= len(prompt) + most
        if is_told and self._spelt(both) == before + text:
            return both[len(prompt) :]
        raise not_spelt_error(self.model_id)

    def _end(self) -> int:
        """Return the token that ends an answer: what the template writes after one.

        Raises:
            CapabilityError: It writes nothing, or the server does not end an answer there.
        """
        asked = {"messages": [*self.messages, _ANSWER], "add_generation_prompt": False}
        closed = _numbers(self._posted("/tokenize", asked)["tokens"])
        asked["continue_final_message"] = True
        opened = _numbers(self._posted("/tokenize", asked)["tokens"])
        if closed[: len(opened)] == opened and len(closed) > len(opened):
            end = closed[len(opened)]
            request = {"prompt": opened, "max_tokens": 2, "allowed_token_ids": [end]}
            found = self._posted("completions", {"temperature": 0, **request})
            is_one = known_count(found["usage"]["completion_tokens"]) == 1
            if is_one and found["choices"][0]["finish_reason"] == "stop":
                return end
        raise CapabilityError(
            f"{self.name} does not say by which token {self.model_id} ends an answer, so the end can't "
            f"be scored: score the text without it (ended=False).",
            host=self.host.url,
        )

    def _scored(
        self,
        prompt: list[int],
        paths: Sequence[Sequence[int]],
        window: int | None,
        end: int | None,
    ) -> list[tuple[ScoredToken, ...]]:
        """Return the scores of the tokens of each path after the prompt, by one request."""
        have, size = len(prompt), max(map(len, paths), default=0)
        if window is not None and have + size >= window:  # it always writes one more
            raise ContextTruncatedError(
                f"The prompt has {have} tokens and the text {size}, and the model's window holds "
                f"{window}: nothing was scored. Start the server with a larger one (its "
                f"--max-model-len), or shorten them."
            )
        if (every := sum(have + len(path) for path in paths)) > MOST_TOKENS:
            raise UsageError(
                f"To score {len(paths)} of them takes {every:,} tokens, more than {MOST_TOKENS:,}, because "
                f"each has the prompt before it: give fewer texts, or a shorter prompt."
            )
        if size == 0:
            return [() for _ in paths]
        request = {
            "prompt": [[*prompt, *path] for path in paths],
            "max_tokens": 1,
            "temperature": 0,
            "prompt_logprobs": _NEXT_BEST,
        }
        choices = {each["index"]: each for each in self._posted("completions", request)["choices"]}
        return [self._told(choices[index], have, path, end) for index, path in enumerate(paths)]

    def _told(
        self, choice: dict[str, Any], have: int, path: Sequence[int], end: int | None
    ) -> tuple[ScoredToken, ...]:
        """Return what one choice says of the tokens after a prompt of so many."""
        places = choice.get("prompt_logprobs")
        if places is None:
            raise CapabilityError(
                f"{self.name} does not say how likely the tokens of a prompt are "
                f"(prompt_logprobs): use a later vLLM, or `reasoner('embedded:NAME')`.",
                host=self.host.url,
            )
        if len(places) != have + len(path):
            raise ValueError("it reports other tokens than were sent")
        found = []
        for number, place in zip(path, places[have:], strict=True):
            entry = place[str(number)]
            rank = known_count(entry["rank"])
            best = next((each for each in place if place[each]["rank"] == 1), None)
            texts = [_text(each, place, end) for each in (str(number), best)]
            logprob = max(checked_logprob(entry["logprob"]), LEAST_LOGPROB)
            found.append(
                ScoredToken(texts[0] or "", logprob, rank - 1 if rank else None, number, texts[1])
            )
        return tuple(found)

    def _plain(self, text: str) -> list[int]:
        asked = {"prompt": text, "add_special_tokens": False}
        return _numbers(self._posted("/tokenize", asked)["tokens"])

    def _spelt(self, tokens: list[int]) -> str:
        return str(self._posted("/detokenize", {"tokens": tokens})["prompt"])

    def _posted(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        call = Call(self.host, self.key, timeout=self.silence, deadline=self.deadline)
        with closing(call), known(call, self.host, path):
            return call.ask(path, {"model": self.model_id, **request})


def _numbers(found: Any) -> list[int]:
    """Return the tokens of an answer; ``TypeError`` for anything else."""
    if not isinstance(found, list) or not all(type(each) is int for each in found):
        raise TypeError("its tokens are not numbers")
    return found


def _text(number: str | None, place: dict[str, Any], end: int | None) -> str | None:
    """Return what a token stands for; the end of an answer stands for nothing."""
    if number is None:
        return None
    text = "" if number == str(end) else place[number].get("decoded_token") or ""
    if not isinstance(text, str):
        raise TypeError("a token stands for no text")
    return text
