"""Whether Ollama's log-probabilities are those of the embedded engine, with the same file.

``python -m tests.by_hand.two_engines URL MODEL`` asks an Ollama server, whose MODEL was made of the small
model's file, and the embedded engine for the likeliest first tokens after the same prompts, and says how
far they are apart. Ollama must read as many tokens of each prompt as the engine does.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from contextlib import closing

from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.types import Message

PROMPTS = (
    "What is the capital of France?",
    "Is a whale a mammal? Answer yes or no.",
    "Name three primary colours.",
    "Write one sentence on the sea.",
    "What is 17 plus 25?",
)
SYSTEM = "You are a concise, helpful assistant."
LOOKED_AT = 20


def ollama(url: str, model: str, prompt: str) -> tuple[int, dict[str, float]]:
    """How many tokens Ollama reads of a prompt, and its likeliest first tokens."""
    body = {
        "model": model,
        "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": prompt}],
        "stream": False,
        "logprobs": True,
        "top_logprobs": LOOKED_AT,
        "options": {"temperature": 0, "num_predict": 1, "repeat_penalty": 1.0},
    }
    request = urllib.request.Request(f"{url}/api/chat", json.dumps(body).encode())
    with urllib.request.urlopen(request) as response:
        answer = json.load(response)
    likeliest = answer["logprobs"][0]["top_logprobs"]
    return answer["prompt_eval_count"], {each["token"]: each["logprob"] for each in likeliest}


def main(url: str, model: str) -> None:
    differences: list[float] = []
    other_first = 0
    with closing(EmbeddedReasoner("smollm2:135m", Settings())) as reasoner:
        for prompt in PROMPTS:
            read, theirs = ollama(url, model, prompt)
            texts = [text for text in theirs if text and "\ufffd" not in text]
            messages = [Message("system", SYSTEM), Message("user", prompt)]
            scores = reasoner.score_each(messages, texts)
            assert read == scores[0].prompt_tokens, (read, scores[0].prompt_tokens)
            ours = {each.text: each.logprob for each in scores if len(each.tokens) == 1}
            differences += [abs(ours[text] - theirs[text]) for text in ours]
            other_first += max(ours, key=lambda t: ours[t]) != max(theirs, key=lambda t: theirs[t])
    mean = sum(differences) / len(differences)
    sys.stdout.write(
        f"{len(differences)} tokens after {len(PROMPTS)} prompts: {mean:.3f} nats apart in the mean, "
        f"{max(differences):.3f} at most; another first token in {other_first} prompts.\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
