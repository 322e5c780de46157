"""What ORE adds to the embedded engine, and what reuse saves in a conversation.

"The engine" is its package and its port, called directly, with none of ORE's code and with the threads
that are fastest for it on this machine, found first.
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from benchmarks.measure import Comparison, interleaved, warmed
from benchmarks.place import PYTHON, ROOT, NotHere, Place, Topic
from tests.support.shelves import put_model

MODEL = "smollm2:135m"
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
WAITS = {
    "passive": {"OMP_WAIT_POLICY": "passive"},
    "brief": {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "1000"},
    "active": {"OMP_WAIT_POLICY": "active"},
}
"""How threads wait for each other: they sleep, spin for microseconds and then sleep, or spin."""
TEXT = f"""\
Fresh processes with the model of `--pull {MODEL}`, {TOKENS} tokens each. The engine's package is called
directly, in the process that measures, with the fastest of its settings, which is found first: how many
threads generate, how many read, and whether they sleep, spin for microseconds, or spin while they wait.
ORE starts a process for the engine. The blob is a copy of the same file in Ollama's layout. It is asked
for by its name, and its hash is remembered, as that of the file is. In a conversation, ORE computes only
what is new in a prompt. The last row is the tenth turn, beside one that computes everything afresh."""
FIGURES = (
    ("load", "load the model", "s", 1.05, None),
    ("first", "first token", "s", 1.05, None),
    ("rate", "tokens", "/s", None, 0.95),
    ("process", "whole process", "s", 1.05, None),
)


def measure(place: Place) -> list[Comparison]:
    """Compare ORE with the engine, and a conversation with one that reuses nothing."""
    environ = with_model(place)
    best, beside = fastest(environ)
    names = {"engine": best, "ore": "ore", "engine again": best}
    cases = {name: partial(run, program, environ) for name, program in names.items()}
    found = warmed(cases, max(place.runs * 4 // 5, 3))
    rows = []
    for key, what, unit, most, least in FIGURES:
        theirs, ours, again = ([one[key] for one in found[name]] for name in names)
        rows.append(Comparison(what, unit, ours, beside, theirs, again, most, least))
    rows.append(of_a_blob(place, environ))
    talks = {"reused": "reused", "fresh": "fresh", "fresh again": "fresh"}
    cases = {name: partial(run, program, environ) for name, program in talks.items()}
    found = interleaved(cases, max(place.runs // 5, 1))  # each takes long; all is warm by now
    reused, fresh, again = ([one["first"] for one in found[name]] for name in talks)
    what = "first token of turn 10"
    return [*rows, Comparison(what, "s", reused, "no reuse", fresh, again)]


def of_a_blob(place: Place, environ: dict[str, str]) -> Comparison:
    """Compare a turn of a blob with one of the same bytes by their path, process and all."""
    from ore.backends import weights

    shelf, file = place.folder / "shelf", weights.find(MODEL)
    manifest = put_model(shelf, "blob", file.read_bytes())
    environ = {**environ, "OLLAMA_MODELS": str(manifest.parents[4])}
    path = place.folder / "same.gguf"
    shutil.copyfile(file, path)
    programs = {"blob": "ore blob", "path": f"ore {path}", "path again": f"ore {path}"}
    cases = {name: partial(run, program, environ) for name, program in programs.items()}
    found = warmed(cases, max(place.runs * 2 // 5, 3))
    blob, by_path, again = ([one["process"] for one in found[name]] for name in programs)
    return Comparison("a turn of a blob", "s", blob, "by its path", by_path, again, most=1.05)


def fastest(environ: dict[str, str]) -> tuple[str, str]:
    """Return how to run the engine with the setting that generates fastest, and its description."""
    from ore.backends.hardware import thread_count

    reading = thread_count()
    settings = [f"{n} {reading} {wait}" for n in {1, min(2, reading), reading} for wait in WAITS]
    cases = {setting: partial(run, f"engine {setting}", environ) for setting in settings}
    found = interleaved(cases, 3)
    setting = max(settings, key=lambda name: median(one["rate"] for one in found[name]))
    threads, _, wait = setting.split()
    return f"engine {setting}", f"the engine ({threads} and {reading} threads, {wait})"


def with_model(place: Place) -> dict[str, str]:
    """Return the environment of the programs, with the user's models; see whether all is there."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise NotHere("the engine's package is not installed: requirements-embedded.txt names it")
    from ore.backends import weights
    from ore.errors import OreError

    try:
        weights.find(MODEL)
    except OreError as exc:
        raise NotHere(f"the model is not there: --backend embedded --pull {MODEL}") from exc
    return {**place.environ, "ORE_MODEL_DIR": str(weights.models_folder())}


def run(program: str, environ: dict[str, str]) -> dict[str, float]:
    """Run one of the programs in a process of its own and return what it measured."""
    started = time.perf_counter()
    done = subprocess.run(
        [PYTHON, "-m", "benchmarks.embedded", *program.split()],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        check=True,
    )
    return {**json.loads(done.stdout), "process": time.perf_counter() - started}


def ask_ore(model: str = MODEL) -> dict[str, float]:
    from ore.backends.engine_turn import EmbeddedReasoner
    from ore.backends.settings import Settings
    from ore.types import Message

    reasoner = EmbeddedReasoner(model, Settings(options={"num_predict": TOKENS}))
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


def loaded_engine(threads: int, reading: int) -> Any:
    """Return a server of the engine's package, in this process, with the model loaded."""
    import xllamacpp

    from ore.backends import weights  # for the model's file

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(weights.find(MODEL))
    parameters.n_ctx, parameters.n_parallel, parameters.cache_ram_mib = 4096, 1, 0
    parameters.n_batch = parameters.n_ubatch = 64
    parameters.verbosity, parameters.warmup, parameters.ui = -1, False, False
    parameters.api_keys = ["key"]
    parameters.fit_params = False
    parameters.cpuparams.n_threads = threads
    parameters.cpuparams_batch.n_threads = reading
    return xllamacpp.Server(parameters)


def posted(server: Any, messages: list[dict[str, str]], **more: Any) -> http.client.HTTPConnection:
    """Ask a server of ``loaded_engine`` for an answer; return the connection on which it comes."""
    body = {"messages": messages, "temperature": 0, "repeat_penalty": 1.1, "cache_prompt": False}
    headers = {"Authorization": "Bearer key", "Content-Type": "application/json"}
    connection = http.client.HTTPConnection(server.listening_address.removeprefix("http://"))
    connection.request("POST", "/v1/chat/completions", json.dumps({**body, **more}), headers)
    return connection


def ask_engine(threads: str, reading: str, wait: str) -> dict[str, float]:
    os.environ.update(WAITS[wait])
    started = time.perf_counter()
    server = loaded_engine(int(threads), int(reading))
    loaded = time.perf_counter()
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
    connection = posted(server, messages, max_tokens=TOKENS, stream=True)
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
        "load": load,
        "first": arrivals[0] - asked,
        "rate": (len(arrivals) - 1) / (arrivals[-1] - arrivals[0]),
    }


def talk(conversation: bool) -> dict[str, float]:
    """Take ten turns and return how long the first token of the tenth took."""
    from ore.backends.engine_turn import EmbeddedReasoner
    from ore.backends.settings import Settings
    from ore.core import ORE
    from ore.types import Session

    settings = Settings(conversation=conversation, options={"num_predict": 48})
    reasoner, session = EmbeddedReasoner(MODEL, settings), Session()
    engine = ORE(reasoner)
    for turn in TURNS:
        started, first = time.perf_counter(), None
        for _ in engine.execute_stream(turn, session):
            first = first or time.perf_counter() - started
    reasoner.close()
    return {"first": first or 0.0}


PROGRAMS: dict[str, Callable[..., dict[str, float]]] = {
    "ore": ask_ore,
    "engine": ask_engine,
    "fresh": lambda: talk(False),
    "reused": lambda: talk(True),
}
TOPIC = Topic("embedded", "The embedded engine", TEXT, measure)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(PROGRAMS[sys.argv[1]](*sys.argv[2:])))
