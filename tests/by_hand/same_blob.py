"""One blob, two engines: what a real Ollama answers, and what ORE does with the server's own file.

Start Ollama with a folder of its own, and make a model of a GGUF file::

    OLLAMA_HOST=127.0.0.1:11500 OLLAMA_MODELS=/tmp/shelf ollama serve
    ollama create small -f Modelfile
    OLLAMA_MODELS=/tmp/shelf python -m tests.by_hand.same_blob http://127.0.0.1:11500 small

Each prompt is asked at temperature 0: of Ollama as it is, of ORE's engine as it is, and of Ollama once
more with the very prompt and the parameters that ORE's engine had. Where that one is ORE's answer, the
template or the parameters are why the first differs; else the engines compute differently, from the
character on that is said. ``--threads 1`` has Ollama write with one thread: beside other programs that is
many times as fast as two that wait for each other.
"""

from __future__ import annotations

import argparse
import json
import time
import urllib.request
from contextlib import closing
from typing import Any

from ore.backends.embedded import EmbeddedBackend
from ore.backends.settings import Settings
from ore.types import Message

PROMPTS = (
    "What is the capital of France?",
    "Name three colours.",
    "Reverse a string in Python, in one line.",
)
SECONDS = 1200


def ollama(url: str, path: str, body: dict[str, Any]) -> tuple[str, dict[str, Any], float]:
    """Return the text, the whole answer, and how long it took, in seconds."""
    data = json.dumps({**body, "stream": False}).encode()
    request = urllib.request.Request(url + path, data, {"Content-Type": "application/json"})
    started = time.monotonic()
    with urllib.request.urlopen(request, timeout=SECONDS) as response:
        said = json.load(response)
    text = said["message"]["content"] if "message" in said else said["response"]
    return text, said, time.monotonic() - started


def rate(count: int | None, nanoseconds: int | None) -> str:
    return f"{count / (nanoseconds / 1e9):.1f}/s" if count and nanoseconds else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, help="Ollama's; as many as it likes without it")
    options = parser.parse_args()
    threads = {} if options.threads is None else {"num_thread": options.threads}
    asked = {"temperature": 0, "num_predict": options.tokens}
    backend = EmbeddedBackend()
    print(f"{options.model}: sha256 {backend.provenance(options.model)['model_digest']}")
    settings = Settings(options=asked, rendered=True)
    with closing(backend.reasoner(options.model, settings)) as reasoner:
        for prompt in PROMPTS:
            body = {"model": options.model, "options": {**asked, **threads}}
            chat = {**body, "messages": [{"role": "user", "content": prompt}]}
            theirs, said, took = ollama(options.url, "/api/chat", chat)
            started = time.monotonic()
            answer = reasoner.reason([Message("user", prompt)])
            ours, meta, our_time = answer.content, answer.metadata, time.monotonic() - started
            had = backend.in_force(options.model, settings)
            same = {**had["server"], **had["model"], **had["ore"], **had["user"]}
            same = {k: v for k, v in same.items() if v is not None and k != "cache_prompt"}
            same |= {"seed": 1, **threads}
            raw = {**body, "options": same, "raw": True, "prompt": meta["rendered"]}
            again, repeated, _ = ollama(options.url, "/api/generate", raw)
            print(f"\n{prompt}")
            for name, text, read, written, seconds in (
                (
                    "Ollama",
                    theirs,
                    said.get("prompt_eval_count"),
                    rate(said["eval_count"], said["eval_duration"]),
                    took,
                ),
                (
                    "ORE",
                    ours,
                    meta["prompt_eval_count"],
                    rate(meta["eval_count"], meta["eval_duration"]),
                    our_time,
                ),
                ("Ollama, ORE's prompt", again, repeated.get("prompt_eval_count"), "", 0),
            ):
                print(
                    f"  {name:21} {read} tokens read, {written or '-'}, {seconds:.1f} s: {text!r}"
                )
            why = "the same"
            if theirs != ours:
                why = "the template or the parameters"
            if again != ours:
                pairs = enumerate(zip(again, ours, strict=False))
                at = next((at for at, (one, other) in pairs if one != other), "the shorter's end")
                why = f"the engines, from character {at} on"
            print(f"  where they differ: {why}")


if __name__ == "__main__":
    main()
