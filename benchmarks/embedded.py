"""What ORE adds to the embedded engine, and what a conversation saves: ``python -m benchmarks.embedded``.

Every run is a fresh process, and the programs take turns. "engine" calls the engine's package and
its port directly, with ORE's settings and none of ORE's code; "engine again" is the same program,
so that the gap between the two shows what this machine can tell apart.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import time

from benchmarks.measure import interleaved, median, spread, table

QUESTION = "Tell me a story about a dog and a cat."
SYSTEM = "You are a concise, helpful assistant. " * 8
TOKENS = 64
TURNS = (
    "Name the capital of France.",
    "And of Italy?",
    "Which of the two is larger?",
    "What do people eat there?",
    "Name one river.",
    "Name one mountain.",
    "Which month is the warmest?",
    "How do people travel?",
    "What language do they speak?",
    "Say goodbye.",
)


def main() -> None:
    """Run the comparisons and print two tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embedded", description=__doc__)
    parser.add_argument("--runs", type=int, default=12, help="processes of each program")
    parser.add_argument("--conversations", type=int, default=3, help="conversations of each kind")
    parser.add_argument("--program", choices=PROGRAMS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.program:
        sys.stdout.write(json.dumps(PROGRAMS[arguments.program]()))
        return
    compare(arguments.runs)
    converse(arguments.conversations)


def compare(runs: int) -> None:
    """Print ORE beside the engine: medians, spreads and ratios."""
    names = {"engine": "engine", "ore": "ore", "engine again": "engine"}
    found = interleaved({name: lambda p=program: run(p) for name, program in names.items()}, runs)
    rows: list[tuple] = [("", "engine", "ORE", "spread", "ORE / engine", "engine / engine")]
    for figure in ("load s", "first token s", "tokens/s", "process s"):
        values = {name: [each[figure] for each in found[name]] for name in names}
        engine, ore, again = (median(values[name]) for name in ("engine", "ore", "engine again"))
        rows.append((figure, engine, ore, spread(values["ore"]), ore / engine, again / engine))
    sys.stdout.write(f"{runs} processes of each\n{table(rows)}\n\n")


def converse(runs: int) -> None:
    """Print what the tenth turn of a conversation costs with and without reuse."""
    programs = ("fresh", "reused")
    found = interleaved({name: lambda p=name: run(p) for name in programs}, runs)
    rows: list[tuple] = [("turn 10", "first token s", "prompt tokens", "of them computed")]
    for name in programs:
        last = found[name][-1]
        first_token = median([each["first token s"] for each in found[name]])
        rows.append((name, first_token, last["prompt"], last["prompt"] - last["cached"]))
    sys.stdout.write(f"{runs} conversations of each, {len(TURNS)} turns\n{table(rows)}\n")


def run(program: str) -> dict[str, float]:
    """Run one program in a process of its own and return what it measured."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.embedded", "--program", program],
        stdout=subprocess.PIPE,
        check=True,
    )
    return {**json.loads(done.stdout), "process s": time.perf_counter() - started}


def ask_ore() -> dict[str, float]:
    from ore.backends import Settings
    from ore.backends.embedded import EmbeddedReasoner
    from ore.types import Message

    reasoner = EmbeddedReasoner("smollm2:135m", Settings(options={"num_predict": TOKENS}))
    chunks = reasoner.stream_reason([Message("system", SYSTEM), Message("user", QUESTION)])
    started, arrivals = time.perf_counter(), []
    while True:
        try:
            next(chunks)
            arrivals.append(time.perf_counter())
        except StopIteration as done:
            load = done.value.metadata["load_duration"] / 1e9
            break
    reasoner.close()
    return figures(load, started + load, arrivals)


def ask_engine() -> dict[str, float]:
    from ore.backends import hardware, weights  # for the model's file and the number of threads

    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    started = time.perf_counter()
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights.find("smollm2:135m"))
    parameters.n_ctx, parameters.n_parallel, parameters.cache_ram_mib = 4096, 1, 0
    parameters.n_batch = parameters.n_ubatch = 64
    parameters.verbosity, parameters.warmup, parameters.ui = -1, False, False
    parameters.api_keys = ["key"]
    threads = hardware.thread_count()
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(parameters)
    loaded = time.perf_counter()
    body = {
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": QUESTION},
        ],
        "temperature": 0,
        "repeat_penalty": 1.1,
        "max_tokens": TOKENS,
        "cache_prompt": False,
        "stream": True,
    }
    connection = http.client.HTTPConnection(server.listening_address.removeprefix("http://"))
    headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
    response, arrivals = connection.getresponse(), []
    while line := response.readline():
        if b'"content":"' in line:
            json.loads(line.removeprefix(b"data: "))
            arrivals.append(time.perf_counter())
    connection.close()
    del server
    return figures(loaded - started, loaded, arrivals)


def figures(load: float, asked: float, arrivals: list[float]) -> dict[str, float]:
    return {
        "load s": load,
        "first token s": arrivals[0] - asked,
        "tokens/s": (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]),
    }


def talk(conversation: bool) -> dict[str, float]:
    """Take ten turns and return the figures of the tenth."""
    from ore.backends import Settings
    from ore.backends.embedded import EmbeddedReasoner
    from ore.core import ORE
    from ore.types import Session

    settings = Settings(conversation=conversation, options={"num_predict": 48})
    reasoner, session = EmbeddedReasoner("smollm2:135m", settings), Session()
    engine = ORE(reasoner)
    for turn in TURNS:
        started, first = time.perf_counter(), None
        chunks = engine.execute_stream(turn, session)
        while True:
            try:
                next(chunks)
                first = first or time.perf_counter() - started
            except StopIteration as done:
                metadata = done.value.metadata
                break
    reasoner.close()
    return {
        "first token s": first or 0.0,
        "prompt": metadata["prompt_eval_count"],
        "cached": metadata["prompt_cached_count"],
    }


PROGRAMS = {
    "ore": ask_ore,
    "engine": ask_engine,
    "fresh": lambda: talk(False),
    "reused": lambda: talk(True),
}

if __name__ == "__main__":
    main()
