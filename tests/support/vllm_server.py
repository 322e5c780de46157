"""A stand-in for vLLM's server: what its documentation says of scoring, over a made-up model.

The documentation is that of ``/tokenize``, ``/detokenize`` and ``/v1/completions`` with
``prompt_logprobs`` (https://docs.vllm.ai). It was never held to a real one.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from tests.support.fake_openai import FakeOpenAI, refusal, whole

BEGIN, END, OTHER = "<|im_start|>", "<|im_end|>", "<|other|>"
MARKS = [BEGIN, END, OTHER]
WORDS = ["Paris", " Paris", " is", " the", " capital", "No", "Not", " sure", "\n\n"]
VOCABULARY = [*(bytes([n]) for n in range(256)), *(w.encode() for w in [*WORDS, *MARKS])]
NUMBER = {piece: number for number, piece in enumerate(VOCABULARY)}
WINDOW, MOST_LOGPROBS = 1024, 20


def tokens_of(text: str) -> list[int]:
    """The longest pieces first; marks are tokens of their own, in any text."""
    data, found = text.encode(), []
    while data:
        piece = max((each for each in VOCABULARY if data.startswith(each)), key=len)
        found.append(NUMBER[piece])
        data = data[len(piece) :]
    return found


def text_of(tokens: list[int]) -> str:
    return b"".join(VOCABULARY[each] for each in tokens).decode("utf-8", "replace")


@cache
def likeliest(last: int) -> dict[int, tuple[float, int]]:
    """Each token after another one: its log-probability, and its rank from 1."""
    weights = {n: (n * 7919 + last * 104729) % 1009 + 1 for n in range(len(VOCABULARY))}
    total = sum(weights.values())
    ordered = sorted(weights, key=lambda n: -weights[n])
    return {n: (math.log(weights[n] / total), rank) for rank, n in enumerate(ordered, 1)}


def rendered(messages: list[dict[str, str]], closing: str, add: bool, opened: bool) -> str:
    text = "".join(f"{BEGIN}{each['role']}\n{each['content']}{closing}\n" for each in messages)
    if opened:
        return text.removesuffix(f"{closing}\n")
    return f"{text}{BEGIN}assistant\n" if add else text


class FakeVllm(FakeOpenAI):
    """A server as ``vllm serve`` starts one.

    Args:
        closing: What the template writes after a message.
        ends: What the server ends an answer at.
        late: Whether it does so one token later.
        space: What the tokenizer puts before a text that no mark begins.
        folds: Whether it makes small letters of large ones.
        tells: Whether it knows ``prompt_logprobs``.
    """

    def __init__(
        self,
        *,
        closing: str = END,
        ends: str = END,
        late: bool = False,
        space: str = "",
        folds: bool = False,
        tells: bool = True,
    ) -> None:
        super().__init__(about={"owned_by": "vllm", "max_model_len": WINDOW})
        self.closing, self.ends, self.space = closing, NUMBER[ends.encode()], space
        self.late, self.folds, self.tells = late, folds, tells
        self.beside = {
            "/tokenize": self._tokenized,
            "/detokenize": lambda sent: [whole({"prompt": text_of(sent["tokens"])})],
            "/v1/completions": self._completed,
        }

    def _tokenized(self, sent: dict[str, Any]) -> list[Any]:
        if "messages" in sent:
            add = sent.get("add_generation_prompt", True)
            opened = sent.get("continue_final_message", False)
            if add and opened:
                return [refusal(400, "Cannot set both to True.")]
            text = rendered(sent["messages"], self.closing, add, opened)
        else:
            text = sent["prompt"].lower() if self.folds else sent["prompt"]
            text = text if text.startswith("<|") else self.space + text
        found = tokens_of(text)
        said = {"count": len(found), "max_model_len": WINDOW, "tokens": found}
        return [whole({**said, "token_strs": None})]

    def _completed(self, sent: dict[str, Any]) -> list[Any]:
        prompts = sent["prompt"] if isinstance(sent["prompt"][0], list) else [sent["prompt"]]
        asked = sent.get("prompt_logprobs")
        if any(len(prompt) + sent["max_tokens"] > WINDOW for prompt in prompts):
            return [refusal(400, "This model's maximum context length is 1024 tokens.")]
        if asked is not None and asked > MOST_LOGPROBS:
            return [refusal(400, "Requested prompt logprobs are greater than max allowed.")]
        choices, written = [], 0
        for index, prompt in enumerate(prompts):
            told = self._told(prompt, asked) if asked is not None and self.tells else None
            is_end = sent.get("allowed_token_ids") == [self.ends]
            written += 1 + self.late if is_end else sent["max_tokens"]
            reason = "stop" if is_end else "length"
            about = {"index": index, "text": "", "logprobs": None, "finish_reason": reason}
            choices.append({**about, "stop_reason": None, "prompt_logprobs": told})
        usage = {"completion_tokens": written, "prompt_tokens": sum(map(len, prompts))}
        return [whole({"object": "text_completion", "choices": choices, "usage": usage})]

    def _told(self, prompt: list[int], asked: int) -> list[Any]:
        """What is told of each token of a prompt: of the first nothing, of each other its own first."""
        found: list[Any] = [None]
        for last, number in zip(prompt, prompt[1:]):
            every = likeliest(last)
            best = [each for each, (_, rank) in every.items() if rank <= asked]
            found.append(
                {
                    str(each): {
                        "logprob": every[each][0],
                        "rank": every[each][1],
                        "decoded_token": text_of([each]),
                    }
                    for each in dict.fromkeys([number, *best])
                }
            )
        return found
