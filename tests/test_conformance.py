"""The conformance kit: our own classes pass it, and one that breaks a rule is caught by that rule."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import replace

import pytest

from ore import AyaReasoner, OpenAIReasoner, Permission, Reasoner, Response, Session, ToolResult
from ore.conformance import BROKEN, HOLDS, UNKNOWN, check
from ore.conformance.__main__ import main
from ore.store import FileSessionStore, SessionStore
from ore.tools import EchoTool, ReadFileTool, Tool
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.process import ROOT


class Good(Reasoner):
    """Holds every rule."""

    def reason(self, messages):
        return Response(messages[-1].content.upper(), "good", metadata={"eval_count": 1})


class NoResponse(Good):
    def reason(self, messages):
        return "PARIS"


class ChangesMessages(Good):
    def reason(self, messages):
        messages.append(messages[0])
        return super().reason(messages)


class OtherPieces(Good):
    def stream_reason(self, messages):
        yield "something else"
        return self.reason(messages)


class AsksTwice(Good):
    def stream_reason(self, messages):
        self.reason(messages)
        response = self.reason(messages)
        yield response.content
        return response


class CountsTwo(Good):
    calls = 0

    def reason(self, messages):
        self.calls += 2
        return super().reason(messages)


class Remembers(Good):
    count = 0

    def reason(self, messages):
        self.count += 1
        return Response(f"turn {self.count}", "remembers")


class MoreMetadata(Good):
    used = False

    def reason(self, messages):
        metadata, self.used = ({"warm": True} if self.used else {}), True
        return Response("Paris", "more", metadata=metadata)


class KeepsMessages(Good):
    def reason(self, messages):
        self.last = {"messages": [messages]}
        return super().reason(messages)


class KeepsInItsClass(Good):
    log = []

    def reason(self, messages):
        self.log.append(messages)
        return super().reason(messages)


class KeepsInADefault(Good):
    def reason(self, messages, seen={}):  # noqa: B006
        seen["last"] = messages
        return super().reason(messages)


class KeepsInAClosure(Good):
    def __init__(self):
        kept = []
        self.note = lambda messages: kept.append(messages)

    def reason(self, messages):
        self.note(messages)
        return super().reason(messages)


class KeepsInABuffer(Good):
    def __init__(self, kind):
        self.kept, self.is_text = kind(), kind is io.StringIO

    def reason(self, messages):
        text = messages[-1].content
        add = getattr(self.kept, "write", None) or self.kept.extend
        add(text if self.is_text else text.encode())
        return super().reason(messages)


class KeepsInAContext(Good):
    def __init__(self):
        self.last = ContextVar("last")

    def reason(self, messages):
        self.last.set(messages)
        return super().reason(messages)


class SaysNothing(Good):
    """Right, but its stream has no piece."""

    def reason(self, messages):
        return Response("", "silent")

    def stream_reason(self, messages):
        yield from ()
        return self.reason(messages)


class GoesOn(Good):
    """Reads on in a thread that nobody ends."""

    def stream_reason(self, messages):
        over = threading.Event()
        threading.Thread(target=over.wait, args=(30,), daemon=True).start()
        yield "one"
        return self.reason(messages)


class HasAPool(Good):
    """Right: its stream is read in a thread that waits for the next one, until it is closed."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)

    def stream_reason(self, messages):
        response = self.pool.submit(self.reason, messages).result()
        yield response.content
        return response

    def close(self):
        self.pool.shutdown()


class ClosedForGood(Good):
    is_over = False

    def stream_reason(self, messages):
        try:
            yield "one "
            return self.reason(messages)
        finally:
            self.is_over = True

    def reason(self, messages):
        if self.is_over:
            raise RuntimeError("it was closed")
        return super().reason(messages)


class ClosesOnce(Good):
    is_closed = False

    def close(self):
        assert not self.is_closed, "it is closed"
        self.is_closed = True


CAUGHT = [
    (NoResponse, "reason returns one Response"),
    (ChangesMessages, "reason returns one Response"),
    (OtherPieces, "stream_reason yields text"),
    (AsksTwice, "a turn is one call"),
    (CountsTwo, "a turn is one call"),
    (Remembers, "a used one answers"),
    (MoreMetadata, "a used one answers"),
    (KeepsMessages, "nothing of a system prompt"),
    (KeepsInItsClass, "nothing of a system prompt"),
    (KeepsInADefault, "nothing of a system prompt"),
    (KeepsInAClosure, "nothing of a system prompt"),
    (KeepsInAContext, "nothing of a system prompt"),
    (GoesOn, "closing a stream"),
    (ClosedForGood, "closing a stream"),
    (ClosesOnce, "close may be called twice"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind, rule", CAUGHT, ids=[kind.__name__ for kind, _ in CAUGHT])
def test_a_reasoner_that_breaks_a_rule_is_caught_by_it(kind, rule, monkeypatch):
    monkeypatch.setattr("ore.conformance.of_reasoners.STOP_SECONDS", 0.2)
    broken = [each.rule for each in check(kind) if each.state == BROKEN]
    assert any(each.startswith(rule) for each in broken), broken


@pytest.mark.parametrize("kind", [bytearray, io.BytesIO, io.StringIO])
def test_what_is_kept_in_a_buffer_is_found(kind):
    found = {each.rule: each.state for each in check(lambda: KeepsInABuffer(kind))}
    assert found.pop("nothing of a system prompt, a session or an answer is kept") == BROKEN
    assert set(found.values()) == {HOLDS}


@pytest.mark.parametrize("kind", [Good, pytest.param(HasAPool, marks=pytest.mark.slow)])
def test_a_reasoner_that_holds_every_rule_passes(kind, monkeypatch):
    monkeypatch.setattr("ore.conformance.of_reasoners.STOP_SECONDS", 0.2)
    assert {each.state for each in check(kind)} == {HOLDS}


def test_metadata_that_differ_are_told_by_their_names_whatever_these_are():
    class Odd(MoreMetadata):
        def reason(self, messages):
            metadata, self.used = ({1: 1, "a": 1} if self.used else {}), True
            return Response("Paris", "odd", metadata=metadata)

    assert "its metadata differ in 1, a" in [each.why for each in check(Odd)]


def test_an_answer_without_a_piece_breaks_no_rule():
    assert BROKEN not in {finding.state for finding in check(SaysNothing)}


def test_two_new_ones_that_differ_are_not_judged():
    class Dice(Good):
        def reason(self, messages):
            return Response(str(time.perf_counter_ns()), "dice")

    assert [each.state for each in check(Dice)].count(UNKNOWN) == 1


@pytest.mark.slow
def test_our_servers_reasoners_pass():
    with FakeOllama(reply="one two three") as server:
        assert {each.state for each in check(lambda: AyaReasoner("llama3.2", server.url))} == {
            HOLDS
        }
    with FakeOpenAI(("one ", "two")) as server:
        found = check(lambda: OpenAIReasoner("small", server.url))
        assert {each.state for each in found} == {HOLDS}


@pytest.mark.embedded
@pytest.mark.slow
def test_the_embedded_reasoner_passes(model_dir):
    from ore import EmbeddedReasoner

    assert {each.state for each in check(lambda: EmbeddedReasoner("smollm2:135m"))} == {HOLDS}


class MemoryStore(SessionStore):
    """Keeps the very objects."""

    kept: dict = {}

    def save(self, session, name):
        self.kept[name] = session

    def load(self, name):
        return self.kept[name]

    def list(self):
        return list(self.kept)


class Forgets(MemoryStore):
    def __init__(self):
        self.kept = {}


def test_our_store_passes_and_one_that_shares_or_forgets_is_caught(tmp_path):
    for _ in range(2):  # the second finds what the first has saved
        assert {each.state for each in check(lambda: FileSessionStore(tmp_path / "s"))} == {HOLDS}
    shared = {each.rule: each.state for each in check(MemoryStore)}
    assert [rule[:20] for rule, state in shared.items() if state == BROKEN] == [
        "what is loaded is no",
        "a name that is not t",
    ]
    assert check(Forgets)[0].state == BROKEN


class Strips(MemoryStore):
    """Keeps texts as lines of a file, with the ends that a system's lines have."""

    kept: dict = {}

    def save(self, session, name):
        lines = [replace(each, content=each.content.rstrip()) for each in session.messages]
        self.kept[name] = Session(lines, session.id, session.created_at)


def test_a_store_that_changes_the_ends_of_texts_is_caught():
    assert check(Strips)[0].state == BROKEN


class Wrong(Tool):
    name, description = "wrong", "Takes what it wants."
    required_permissions = frozenset({Permission.SHELL})
    required_args = ("what",)

    def run(self, args):
        args.clear()
        return ToolResult("other", 3, "fine")


class Vague(EchoTool):
    description = ""
    required_permissions = {"shell"}


class Counts(EchoTool):
    def routing_hints(self):
        return ("one", 2)


class Numbers(EchoTool):
    def extract_args(self, prompt):
        return {1: prompt}


def test_our_tools_pass_and_those_that_break_a_rule_are_caught():
    assert {each.state for each in check(ReadFileTool)} == {HOLDS}
    assert [each.state for each in check(EchoTool)] == [HOLDS, HOLDS, UNKNOWN]
    assert [each.state for each in check(Wrong)] == [HOLDS, BROKEN, HOLDS]
    assert [check(kind)[0].state for kind in (Vague, Counts, Numbers)] == [BROKEN] * 3


@pytest.mark.parametrize(
    "argv, code",
    [
        (["tests.test_conformance:Good"], 0),
        (["tests.test_conformance:KeepsMessages"], 3),
        (["tests.test_conformance:Session"], 2),
        (["tests.test_conformance:Nobody"], 2),
        (["tests.no_such_module:Good"], 2),
        (["tests.test_conformance"], 2),
        ([], 2),
    ],
)
def test_the_program_says_it_with_its_exit_code(argv, code, capsys):
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert (len(out.splitlines()) == 8) == (code != 2)
    assert ("usage:" in err) == (code == 2)


class Quits(Good):
    """Says that all is well, and ends the process."""

    def reason(self, messages):
        raise SystemExit(0)


class Odd(Exception):
    def __str__(self):
        raise ValueError("it has no text")


class Shows(Good):
    """What it raises drives a terminal, and passes for other lines of the kit's."""

    def reason(self, messages):
        raise Odd if len(messages) > 2 else ValueError("\x1b[2J\nholds      all of it")


class NotMade(Good):
    def __init__(self, how):
        raise {"quit": SystemExit(0), "odd": Odd(), "escape": ValueError("\x1b[2J")}[how]


class Interrupted(Good):
    def reason(self, messages):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "argv, code",
    [
        (["tests.test_conformance:Quits"], 3),
        (["tests.test_conformance:Shows"], 3),
        (["tests.test_conformance:NotMade", "quit"], 2),
        (["tests.test_conformance:NotMade", "odd"], 2),
        (["tests.test_conformance:NotMade", "escape"], 2),
        (["tests.test_conformance:Interrupted"], 130),
    ],
)
def test_what_their_code_raises_is_no_verdict_of_ours(argv, code, capsys):
    assert main(argv) == code
    out, err = capsys.readouterr()
    assert "\x1b" not in out + err and "\nholds      all" not in out + err
    assert len(out.splitlines()) == (8 if code == 3 else 0)


@pytest.mark.slow
def test_the_rules_have_names_without_docstrings_too():
    command = [sys.executable, "-OO", "-m", "ore.conformance", "ore.tools:EchoTool"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert "holds      gives one result\n" in done.stdout
