"""The loop: one call a turn, and a session that grows by whole turns only."""

from __future__ import annotations

import copy
from contextlib import suppress

import pytest

from ore.core import ORE
from ore.errors import BackendError, OreError, ReasonerContractError, UsageError
from ore.reasoner import Reasoner
from ore.types import ExecutionArtifact, Message, Response, Session, ToolResult
from ore.types.sent import sent_with


class FakeReasoner(Reasoner):
    """Counts its calls, keeps what it was sent, and answers in two chunks."""

    def __init__(self, answer="Par-is.", fault: BaseException | None = None):
        self.answer = answer
        self.fault = fault
        self.reason_calls = self.stream_calls = self.closed_streams = 0
        self.sent: list[Message] = []

    def reason(self, messages):
        self.reason_calls += 1
        return self._answer(messages)

    def stream_reason(self, messages):
        self.stream_calls += 1
        try:
            yield "Par-"
            response = self._answer(messages)
            yield "is."
        finally:
            self.closed_streams += 1
        return response

    def _answer(self, messages):
        self.sent = list(messages)
        if self.fault is not None:
            raise self.fault
        return Response(self.answer, "fake") if isinstance(self.answer, str) else self.answer


class Streamless(FakeReasoner):
    """A backend that can't stream: it has the default ``stream_reason``."""

    stream_reason = Reasoner.stream_reason


def execute(engine: ORE, *args, **kwargs) -> Response:
    return engine.execute(*args, **kwargs)


def exhaust(engine: ORE, *args, **kwargs) -> Response:
    """Take a streamed turn to its end and return its response."""
    chunks = engine.execute_stream(*args, **kwargs)
    while True:
        try:
            assert isinstance(next(chunks), str)
        except StopIteration as stop:
            return stop.value


both_ways = pytest.mark.parametrize("take_turn", [execute, exhaust])


def talk(*contents: str) -> Session:
    """Return a session of these messages, the user's first."""
    roles = ["user", "assistant"] * len(contents)
    return Session([Message(role, content) for role, content in zip(roles, contents)])


def shown(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


# One call a turn


@pytest.mark.invariant
def test_reasoner_called_exactly_once_per_execute():
    reasoner = FakeReasoner()
    engine = ORE(reasoner)
    for turn in (1, 2, 3):
        engine.execute("Where?", session=talk("a", "b"))
        assert (reasoner.reason_calls, reasoner.stream_calls) == (turn, 0)


@pytest.mark.invariant
def test_reasoner_called_exactly_once_per_execute_stream():
    reasoner = FakeReasoner()
    engine = ORE(reasoner)
    for turn in (1, 2, 3):
        exhaust(engine, "Where?", session=talk("a", "b"))
        assert (reasoner.reason_calls, reasoner.stream_calls) == (0, turn)


@pytest.mark.invariant
@both_ways
def test_a_reasoner_that_fails_is_not_asked_again(take_turn):
    reasoner = FakeReasoner(fault=BackendError("No."))
    with pytest.raises(BackendError, match=r"^No\.$"):
        take_turn(ORE(reasoner), "Where?")
    assert reasoner.reason_calls + reasoner.stream_calls == 1


def test_a_stream_that_nobody_reads_calls_nothing():
    reasoner = FakeReasoner()
    ORE(reasoner).execute_stream("Where?", session=talk()).close()
    assert reasoner.stream_calls == 0


# The session


@pytest.mark.invariant
@both_ways
def test_session_append_only_no_reorder_or_delete(take_turn):
    session = talk("a", "b", "c", "d")
    messages, before, kept = session.messages, list(session.messages), copy.deepcopy(session)
    for turn in (1, 2):
        take_turn(ORE(FakeReasoner()), "Where?", session=session)
        assert session.messages is messages and len(messages) == 4 + 2 * turn
        assert all(now is then for now, then in zip(session.messages, before))
    assert session.messages[:4] == kept.messages, "ids, times and texts are as they were"
    assert (session.id, session.created_at) == (kept.id, kept.created_at)


@pytest.mark.invariant
@both_ways
def test_the_order_is_system_skills_tools_session_prompt(take_turn):
    reasoner = FakeReasoner()
    tools = [ToolResult("echo", "1", "ok"), ToolResult("file:a", "2", "ok")]
    skills = ["[Skill:a]\n3", "[Skill:b]\n4"]
    take_turn(ORE(reasoner, "Be kind."), "Where?", talk("a", "b"), tools, skills)
    assert shown(reasoner.sent) == [
        ("system", "Be kind."),
        ("system", "[Skill:a]\n3"),
        ("system", "[Skill:b]\n4"),
        ("user", "[Tool:echo]\n1"),
        ("user", "[Tool:file:a]\n2"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "Where?"),
    ]


@pytest.mark.invariant
@both_ways
def test_system_prompt_not_in_session(take_turn):
    session = Session()
    tool = ToolResult("echo", "out", "ok")
    take_turn(ORE(FakeReasoner(), "Be kind."), "Where?", session, [tool], ["[Skill:a]\nb"])
    assert shown(session.messages) == [("user", "Where?"), ("assistant", "Par-is.")]


@pytest.mark.invariant
@both_ways
def test_session_grows_after_execute(take_turn):
    reasoner, session = FakeReasoner(), Session()
    for turn in (1, 2, 3):
        take_turn(ORE(reasoner), f"Question {turn}", session=session)
        assert len(session.messages) == 2 * turn
        user, assistant = session.messages[-2:]
        assert user is reasoner.sent[-1], "the very message that was sent"
        assert (assistant.role, assistant.content) == ("assistant", "Par-is.")


@pytest.mark.invariant
@both_ways
def test_an_answer_has_the_id_of_its_response(take_turn):
    session = Session()
    for number in (1, 2):
        response = take_turn(ORE(FakeReasoner()), f"Question {number}", session=session)
        assert session.messages[-1].id == response.id


@both_ways
def test_a_reasoner_that_repeats_an_id_gives_no_two_messages_one_id(take_turn):
    session, response = Session(), Response("Paris.", "fake", id="same")
    for _ in range(3):
        take_turn(ORE(FakeReasoner(response)), "Where?", session=session)
    assert session.messages[1].id == "same"
    assert len({message.id for message in session.messages}) == 6


@pytest.mark.invariant
@both_ways
def test_the_answer_of_an_artifact_comes_after_tools_and_before_the_session(take_turn):
    first = Response("A title.", "fake", id="one")
    artifact = ExecutionArtifact.from_response(first, "Draft a title", "fake")
    reasoner, session = FakeReasoner(), talk("a", "b")
    take_turn(
        ORE(reasoner, "Be kind."),
        "Shorten it",
        session=session,
        tool_results=[ToolResult("echo", "c", "ok")],
        skill_context=["Rhyme."],
        after=artifact,
    )
    assert shown(reasoner.sent) == [
        ("system", "Be kind."),
        ("system", "Rhyme."),
        ("user", "[Tool:echo]\nc"),
        ("user", "[Artifact:one]\nA title."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "Shorten it"),
    ]
    assert shown(session.messages)[2:] == [("user", "Shorten it"), ("assistant", "Par-is.")]


@pytest.mark.invariant
@both_ways
def test_no_session_no_side_effects(take_turn):
    reasoner = FakeReasoner()
    engine = ORE(reasoner, "Be kind.")
    before = dict(vars(engine))
    for _ in range(2):
        take_turn(engine, "Where?")
        assert shown(reasoner.sent) == [("system", "Be kind."), ("user", "Where?")]
    assert vars(engine) == before == {"reasoner": reasoner, "system_prompt": "Be kind."}


@pytest.mark.invariant
@both_ways
def test_with_session_includes_history(take_turn):
    reasoner, session = FakeReasoner(), talk("a", "b")
    engine = ORE(reasoner, "Be kind.")
    take_turn(engine, "Where?", session=session)
    assert shown(reasoner.sent) == [
        ("system", "Be kind."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "Where?"),
    ]
    take_turn(engine, "Alone?")
    assert len(reasoner.sent) == 2, "a session is never kept for the next turn"


@pytest.mark.invariant
@both_ways
@pytest.mark.parametrize("fault", [BackendError("No."), ValueError("bug"), KeyboardInterrupt()])
def test_a_turn_that_fails_leaves_the_session_as_it_was(take_turn, fault):
    session = talk("a", "b")
    before = copy.deepcopy(session)
    with pytest.raises(type(fault)):
        take_turn(ORE(FakeReasoner(fault=fault)), "Where?", session=session)
    assert session == before


@pytest.mark.invariant
@both_ways
@pytest.mark.parametrize("answer", [None, {"content": "Paris."}, Message("assistant", "Paris.")])
def test_what_is_not_a_response_is_refused_and_leaves_the_session_as_it_was(take_turn, answer):
    session = talk("a", "b")
    before = copy.deepcopy(session)
    with pytest.raises(ReasonerContractError) as caught:
        take_turn(ORE(FakeReasoner(answer)), "Where?", session=session)
    assert f"returned {type(answer).__name__}, not a Response" in str(caught.value)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, OreError)
    assert session == before


@pytest.mark.invariant
@both_ways
@pytest.mark.parametrize(
    "field, value",
    [
        *(("content", None), ("content", b"Paris."), ("model_id", None), ("id", 5)),
        *(("timestamp", "now"), ("metadata", None), ("metadata", ["x"])),
    ],
)
def test_a_response_with_a_field_of_another_kind_leaves_the_session_as_it_was(
    take_turn, field, value
):
    session = talk("a", "b")
    before = copy.deepcopy(session)
    answer = Response(**{"content": "Paris.", "model_id": "fake", field: value})
    with pytest.raises(ReasonerContractError, match=f"has a {field} of the type"):
        take_turn(ORE(FakeReasoner(answer)), "Where?", session=session)
    assert session == before


@pytest.mark.invariant
@pytest.mark.parametrize("stream", [None, ["a"], "ab", 5], ids=repr)
def test_a_stream_that_is_none_is_refused(stream):
    reasoner, session = FakeReasoner(), talk("a", "b")
    before = copy.deepcopy(session)
    reasoner.stream_reason = lambda messages: stream
    with pytest.raises(ReasonerContractError, match="not a generator"):
        list(ORE(reasoner).execute_stream("Where?", session=session))
    assert session == before


@pytest.mark.invariant
@pytest.mark.parametrize("piece", [None, b"is.", 5], ids=repr)
def test_a_stream_with_a_piece_that_is_no_text_is_refused_and_closed(piece):
    closed, session = [], talk("a", "b")
    before = copy.deepcopy(session)

    def stream(messages):
        try:
            yield "Par-"
            yield piece
            return Response("Par-is.", "fake")
        finally:
            closed.append(True)

    reasoner = FakeReasoner()
    reasoner.stream_reason = stream
    chunks = ORE(reasoner).execute_stream("Where?", session=session)
    assert next(chunks) == "Par-"
    with pytest.raises(ReasonerContractError, match="has a piece of the type"):
        next(chunks)
    assert closed and session == before


@both_ways
@pytest.mark.parametrize("prompt", [None, b"Where?", 5, ["Where?"]], ids=repr)
def test_a_prompt_that_is_no_text_is_never_sent(take_turn, prompt):
    reasoner, session = FakeReasoner(), Session()
    with pytest.raises(UsageError, match="A prompt is text"):
        take_turn(ORE(reasoner), prompt, session=session)
    assert not reasoner.reason_calls + reasoner.stream_calls and not session.messages


@pytest.mark.invariant
@pytest.mark.parametrize("read", [1, 2])
def test_a_closed_stream_stops_the_model_and_leaves_the_session_as_it_was(read):
    reasoner, session = FakeReasoner(), talk("a", "b")
    before = copy.deepcopy(session)
    chunks = ORE(reasoner).execute_stream("Where?", session=session)
    assert [next(chunks) for _ in range(read)] == ["Par-", "is."][:read]
    assert session == before, "nothing is kept before the end"
    chunks.close()
    assert session == before
    assert reasoner.closed_streams == 1


def test_a_stream_that_is_not_a_generator_is_closed_when_it_fails():
    class Broken:
        is_closed = False

        def __iter__(self):
            return self

        def __next__(self):
            raise BackendError("No.")

        def close(self):
            self.is_closed = True

    class Breaking(FakeReasoner):
        broken = Broken()

        def stream_reason(self, messages):
            return self.broken

    reasoner = Breaking()
    with pytest.raises(BackendError):
        exhaust(ORE(reasoner), "Where?")
    assert reasoner.broken.is_closed


@both_ways
def test_a_reasoner_that_rearranges_its_list_does_not_change_what_is_kept(take_turn):
    class Rearranging(FakeReasoner):
        def _answer(self, messages):
            messages.append(Message("assistant", "Sure: "))
            messages.reverse()
            return super()._answer(messages)

    session = talk("a", "b")
    take_turn(ORE(Rearranging()), "Where?", session=session)
    assert [content for _, content in shown(session.messages)] == ["a", "b", "Where?", "Par-is."]


# Reasoners that can't stream


@pytest.mark.parametrize("take_turn", [execute, exhaust])
@pytest.mark.parametrize("name", ["skill_context", "tool_results", "images"])
def test_what_is_given_for_a_list_is_read_once_and_a_text_is_none(take_turn, name):
    engine, given = ORE(FakeReasoner(), ""), {"tool_results": ToolResult("a", "b", "ok")}
    value = given.get(name, b"\x89PNG" if name == "images" else "Rhyme.")
    sent = sent_with(take_turn(engine, "Hi", **{name: (each for each in [value])}))
    assert len(sent.messages) == 2 - (name == "images")
    assert (sent.skills, sent.tools).count((value,)) == (name != "images")
    for wrong in ["Rhyme.", b"\x89PNG"]:
        with pytest.raises(UsageError, match=f"{name} must be a list"):
            take_turn(engine, "Hi", **{name: wrong})
    assert engine.reasoner.reason_calls + engine.reasoner.stream_calls == 1


@pytest.mark.parametrize("take_turn", [execute, exhaust])
@pytest.mark.parametrize("messages", [(), None, ["Hi"], [{"role": "user", "content": "Hi"}]])
def test_a_session_that_could_not_be_added_to_is_never_sent(take_turn, messages):
    engine = ORE(FakeReasoner(), "")
    with pytest.raises(UsageError, match="a list of Message"):
        take_turn(engine, "Hi", Session(messages))
    assert engine.reasoner.reason_calls + engine.reasoner.stream_calls == 0


def test_a_reasoner_without_streaming_yields_its_answer_as_one_chunk():
    reasoner, session = Streamless("Paris."), Session()
    chunks = ORE(reasoner).execute_stream("Where?", session=session)
    assert list(chunks) == ["Paris."]
    assert reasoner.reason_calls == 1
    assert shown(session.messages) == [("user", "Where?"), ("assistant", "Paris.")]


@both_ways
def test_the_response_is_the_reasoners_own(take_turn):
    response = Response("Paris.", "fake", metadata={"eval_count": 7})
    assert take_turn(ORE(Streamless(response)), "Where?") is response


def test_a_reasoner_has_to_reason():
    with pytest.raises(TypeError, match="abstract"):
        Reasoner()
    FakeReasoner().close()


def test_the_end_of_a_with_block_closes_the_reasoner_whatever_happened_in_it():
    class Open(Reasoner):
        closed = 0

        def reason(self, messages):
            return Response("Paris.", "open")

        def close(self):
            self.closed += 1

    with Open() as reasoner:
        assert reasoner.closed == 0
    with suppress(ZeroDivisionError), reasoner:
        raise ZeroDivisionError
    assert reasoner.closed == 2
    with ORE(reasoner) as engine:
        assert engine.execute("Where?").content == "Paris."
    assert reasoner.closed == 3
