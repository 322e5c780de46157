"""Whatever a server does, in every mode: exit code, both streams, the session file, what was sent.

One row per scenario of the stand-in server. A failed turn shows at most what had arrived, says why in
one line, saves nothing, and a REPL goes on with the next.
"""

from __future__ import annotations

import json

import pytest

from ore.backends.choice import open_backend
from tests.support.fake_ollama import SCENARIOS, FakeOllama

NOT_OLLAMA = "but not as Ollama does"
BROKE_OFF = "broke off"
NOT_DONE = "without saying that it was done"
DEADLINE = "not complete after"
TOO_LONG = "does not fit the model's context window"

# What a turn ends with, whether its answer is shown as it comes or whole: None is success, anything
# else is in the error's line. The second is what had arrived of the answer.
TABLE = {
    "after-done": (None, "Paris."),
    "bad-gateway": ("502", ""),
    "bad-gzip": (NOT_OLLAMA, ""),
    "bad-json": (NOT_OLLAMA, "Paris."),
    "bad-utf8": (None, "Paris.a\ufffd\ufffdb"),
    "blank-line": (None, "Paris."),
    "busy": ("try again later", ""),
    "canceled": ("refused", ""),
    "closed": (BROKE_OFF, ""),
    "closed-rst": (BROKE_OFF, ""),
    "cloud-disabled": ("cloud is disabled", ""),
    "context-exceeded": (TOO_LONG, ""),
    "cut": (BROKE_OFF, "Paris."),
    "deep-json": (NOT_OLLAMA, "Paris."),
    "drip": (DEADLINE, ""),
    "empty-200": ("ended the answer before it had begun", ""),
    "empty-500": ("500", ""),
    "endless-head": (NOT_OLLAMA, ""),
    "endless-line": ("larger than 1 MiB", ""),
    "endless-stream": (DEADLINE, "Paris.Paris."),
    "eof": (NOT_DONE, "Paris."),
    "error-line": ("failed", "Paris."),
    "error-line-nested": (TOO_LONG, "Paris."),
    "error-line-number": ("failed: 42", "Paris."),
    "error-line-object": ("failed", "Paris."),
    "error-line-unterminated": ("failed", "Paris."),
    "error-list": (NOT_OLLAMA, ""),
    "error-number": (NOT_OLLAMA, ""),
    "error-string": (NOT_OLLAMA, ""),
    "final-content": (None, "Paris. Indeed."),
    "forbidden": ("refuses to be asked", ""),
    "half-head": (BROKE_OFF, ""),
    "half-line": (BROKE_OFF, "Paris."),
    "happy": (None, "Paris."),
    "html-200": (NOT_OLLAMA, ""),
    "html-502": ("502", ""),
    "huge-metrics": (None, "Paris."),
    "huge-number": (NOT_OLLAMA, "Paris."),
    "joined": (None, "Paris."),
    "list-line": (NOT_OLLAMA, "Paris."),
    "load-crash": ("too little memory", ""),
    "load-memory": ("too little memory", ""),
    "load-missing": ("--pull llama3.2", ""),
    "load-stalled": ("timed out waiting", ""),
    "loading": (None, "Paris."),
    "nel": (None, "Paris.a\x85b"),
    "no-message": (NOT_OLLAMA, "Paris."),
    "no-metrics": (None, "Paris."),
    "not-found-text": ("404", ""),
    "not-http": (BROKE_OFF, ""),
    "null": (NOT_OLLAMA, "Paris."),
    "null-content": (None, "Paris."),
    "null-message": (NOT_OLLAMA, "Paris."),
    "number-content": (NOT_OLLAMA, "Paris."),
    "odd-metrics": (NOT_OLLAMA, "Paris."),
    "one-write": (None, "Paris."),
    "rate-limited": ("try again later", ""),
    "redirect": ("follows no redirects", ""),
    "rst": (BROKE_OFF, "Paris."),
    "runner-dead": ("stopped", ""),
    "silent": (DEADLINE, ""),
    "slow": (None, "Paris."),
    "slow-start": (None, "Paris."),
    "split": (None, "Paris."),
    "stall": (DEADLINE, "Paris."),
    "surrogate": (None, "Paris.a\ufffdb"),
    "thinking": (None, "Paris."),
    "tool-calls": (None, "Paris."),
    "unauthorized": ("sign in", ""),
}
# Other look-ups than the chat, the window's size (test_reasoner_context), or bytes of a test's own.
ELSEWHERE = {"body", "overflow-native", "overflow-old", "overflow-rendered", "prerendered"}
ELSEWHERE |= {"pull-missing", "raw", "show-bare", "show-old", "tags-empty", "tags-null"}

ENDLESS = {"drip", "endless-stream", "silent", "stall"}
AGAIN = {"context-exceeded"}  # refused unread, and then also where it may be cut


def test_the_table_has_every_scenario():
    assert set(TABLE) | ELSEWHERE == set(SCENARIOS)


@pytest.fixture(params=sorted(TABLE))
def scenario(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request):
    return request.param


@pytest.fixture
def server(scenario, monkeypatch):
    options = {"wait": 0.0, **({"seconds": 0.02} if scenario in ("loading", "slow-start") else {})}
    times = 2 if scenario in AGAIN else 1
    with FakeOllama(scenario=[*[(scenario, options)] * times, "happy"]) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


@pytest.fixture
def turn(ore, scenario, streamed):
    """Run ORE against the server, and say what the first turn should end with."""
    error, shown = TABLE[scenario]
    if not streamed and error:
        shown = ""
    flags = ["--model", "llama3.2", *(["--stream"] if streamed else [])]
    flags += ["--deadline", "0.15" if scenario in ENDLESS else "20"]

    def run(*args, **more):
        return ore(*args, *flags, open_backend=open_backend, **more), error, shown

    return run


def check_error(result, error):
    assert "Traceback" not in result.err
    lines = [line for line in result.err.splitlines() if not line.startswith("[THINKING]: ")]
    assert len(lines) == (1 if error else 0)
    assert (error or "") in result.err


def test_a_single_turn(server, scenario, turn):
    result, error, shown = turn("one")
    assert result.code == (1 if error else 0)
    check_error(result, error)
    if scenario == "endless-stream":
        assert result.out.startswith(shown)
    else:
        assert result.out == (shown + "\n" if shown else "")
    assert len(server.chats) == (2 if scenario in AGAIN else 1)


def test_a_conversation_goes_on_and_saves_whole_turns_only(server, scenario, turn, home):
    result, error, shown = turn("-c", "--save-session", "s", stdin="one\ntwo\n")
    assert result.code == (1 if error else 0)
    check_error(result, error)
    assert result.out.endswith("Paris.\n")
    asked = ["one", *(["one"] if scenario in AGAIN else []), "two"]
    assert [chat.json["messages"][-1]["content"] for chat in server.chats] == asked
    first = [] if error else ["one", shown]
    saved = json.loads((home / ".ore/sessions/s.json").read_text())["messages"]
    assert [message["content"] for message in saved] == [*first, "two", "Paris."]
    history = [message["content"] for message in server.chats[-1].json["messages"][1:]]
    assert history == [*first, "two"]
