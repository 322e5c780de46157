"""A recorded run asked again, and compared with before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ore.artifact.canonical import text_digest
from ore.artifact.compare import ANSWER, Difference, differences, known_to_one
from ore.backends import Backend
from ore.backends.joining import JoiningReasoner, joined
from ore.backends.openai_request import AFRESH
from ore.backends.settings import Settings
from ore.backends.unloading import beginnings
from ore.errors import OreError
from ore.files.neutral import brief
from ore.files.strictjson import above_zero, part
from ore.glass.earlier import Earlier
from ore.glass.limits import notes_of, seldom_said
from ore.glass.origin import around, backend_of, settings_of
from ore.glass.provenance import (
    Sourced,
    as_sent,
    facts,
    joined_sentence,
    joined_sources,
    sourced,
)
from ore.glass.recall import recorded_messages
from ore.reasoner import Reasoner
from ore.rows.expectations import Expectation, recorded_expectation
from ore.rows.judge import not_as_asked, verdict_of
from ore.types import ExecutionArtifact, Message, Response

DIGEST = "model_digest"

COMPARED = ("model_id", DIGEST, "options", "messages", ANSWER)
"""Of what ``ore.artifact.compare`` compares, what a replay does."""

_OTHER_TEXT = (
    "The chat template made a different text of the same messages this time, as one that writes "
    "the date does: the model was not asked the same."
)

WELL = ("same", "as expected")
"""The states in which a run can be relied on as before."""


@dataclass(frozen=True)
class Replay:
    """What became of a run that was asked again.

    Attributes:
        state: ``"same"``, ``"different"``, or ``"not repeatable"``: asked again, the model gave two
            answers, so that nothing follows from another one than before. Where the run had an
            expectation, it decides on another answer: ``"as expected"`` or ``"not as expected"``.
        messages: ``"embedded"`` in the artifact, ``"rebuilt"`` from what it names, or ``"given"``.
        artifact: The new run, as far as it is compared; it has no seal.
        differences: What is known of both runs and not the same, as texts.
        unknown: What could not be compared.
        expectation: What holds of the new answer, where the run had an expectation.
        notes: What is to be known of how the messages were rebuilt, and of the new answer: see
            ``warnings_beside``. In sentences.
    """

    state: str
    messages: str
    artifact: ExecutionArtifact
    differences: tuple[Difference, ...] = ()
    unknown: tuple[str, ...] = ()
    expectation: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it is the same, or as expected."""
        return self.state in WELL

    def __bool__(self) -> bool:
        """Return whether it ``holds``."""
        return self.holds


def replay(
    artifact: ExecutionArtifact,
    reasoner: Reasoner,
    messages: Sequence[Message] | None = None,
    *,
    others: Iterable[ExecutionArtifact] = (),
    twice: bool = False,
) -> Replay:
    """Ask a recorded run of ``reasoner`` again, by one call, and compare it as ``--replay`` does.

    Compared are the model and its digest, the options, the messages, and the answer. The reasoner is
    asked as it is: give it the options of the run.

    Args:
        artifact: The run. Its messages are taken from it (``record(..., full=True)``), else rebuilt
            from its prompt, and the persona, the skills and the session that it names, as they are.
        reasoner: What answers; it is not closed.
        messages: What is sent instead; None is what was sent then.
        others: Where the answer is looked for that the run went on from.
        twice: Whether it is asked again where only the answer is another one, to find out whether
            the model gives the same answer: at once, and, of an Ollama server, after the model was
            unloaded, and after it began to answer each of two other prompts, for what such a
            server keeps of earlier prompts can change the answer.

    Raises:
        ArtifactError: Its messages can't be had.
        OreError: Whatever the reasoner raises goes through.
    """
    notes: list[str] = []
    expected = recorded_expectation(artifact)
    if messages is None:
        how, known = recorded_messages(artifact, notes.append, Earlier(others))
        sent, sources = as_sent(known), [each.source for each in known]
    else:
        how, sent = "given", list(messages)
        sources = ["given"] * len(sent)
    *_, inner = around(reasoner)
    backend, settings = backend_of(inner), settings_of(inner)
    named = getattr(inner, "model_id", None)

    def ask() -> ExecutionArtifact:
        return answered(artifact, reasoner, backend, named, settings, sent, sources)

    again: list[Callable[[], bool]] = []
    if named is not None and sent:
        again = beginnings(backend, named, settings, as_joined(artifact, sent))
    found = compared(artifact, ask, how, expected, again=again if twice else None)
    notes += warnings_beside(artifact, found.artifact, settings)
    return replace(found, notes=tuple(notes))


def answered(
    old: ExecutionArtifact,
    reasoner: Reasoner,
    backend: Backend,
    model: str | None,
    settings: Settings,
    messages: Sequence[Message],
    sources: Sequence[str],
) -> ExecutionArtifact:
    """Ask once, and return the artifact of it, as far as it is compared.

    Args:
        old: The run that is asked again; where its messages were joined, these are.
        reasoner: What answers, with ``settings``.
        backend: What is known of the model comes from it.
        model: What the backend is asked for; None is what the response names.
        messages: What is sent.
        sources: Where each message came from.
    """
    if (old.provenance or {}).get("joined"):  # by hand, or as it has to be here too
        reasoner = JoiningReasoner(reasoner)
    response = reasoner.reason(list(messages))
    model, known = model or response.model_id, sourced(messages, sources)
    about = facts(backend, settings, model, known)
    digest = about[DIGEST]
    is_same = digest is not None and digest == (old.provenance or {}).get(DIGEST)
    name = old.input.model_id if is_same else backend.name_of(model)
    new = ExecutionArtifact.from_response(response, old.input.prompt, name)
    return replace(new, provenance=about | {"messages": [asdict(each) for each in known]})


def as_joined(old: ExecutionArtifact, messages: Sequence[Message]) -> list[Message]:
    """Return ``messages`` joined if those of the ``old`` run were."""
    is_joined = (old.provenance or {}).get("joined")
    return joined(list(messages))[0] if is_joined else list(messages)


def template_of(run: ExecutionArtifact) -> object:
    """Return the hash of the chat template that a ``run`` was given, or None."""
    return part(run.provenance or {}, "chat_template").get("sha256")


def warnings_beside(
    old: ExecutionArtifact, new: ExecutionArtifact, settings: Settings
) -> list[str]:
    """Return what of a new answer is not what was asked for, and was of the old one, a sentence each.

    Another model gave it, it was cut off, the model has not seen all of the prompt, or read another one,
    or would hardly say the word that was chosen; its messages were joined, or read in another place; or
    the answer is another one, and so is what computed it.

    Args:
        old: The run that was asked again.
        new: What ``answered`` returned.
        settings: What was asked of the model.
    """
    responses = [
        Response(each.content, each.model_id, metadata=each.metadata)
        for each in (old.output, new.output)
    ]
    then, now = (not_as_asked(each, settings) for each in responses)
    if seldom_said(responses[0]) is not None:  # how seldom is said with a number, which may differ
        now = [text for text in now if text != seldom_said(responses[1])]
    then += _of_messages(old, new)
    now += _of_messages(new, new)
    apart = {each.name for each in differences(old, new)} | {*known_to_one(old, new)}
    texts = [each.output.metadata.get("rendered_sha256") for each in (old, new)]
    is_other = None not in texts and texts[0] != texts[1]
    given = None if settings.chat_template is None else text_digest(settings.chat_template)
    if is_other and apart & {*COMPARED} == {ANSWER} and given == template_of(old):
        now.append(_OTHER_TEXT)
    if apart & {*COMPARED} == {ANSWER}:
        now += _computed_otherwise(old, new)
    return [text for text in now if text not in then]


def _of_messages(run: ExecutionArtifact, new: ExecutionArtifact) -> list[str]:
    """Return what became of the messages of ``new`` before the model of a ``run`` read them, in sentences."""
    known, messages = run.output.metadata, (new.provenance or {})["messages"]
    sources = joined_sources(known.get("joined"), [Sourced(**each) for each in messages])
    return notes_of(known) + ([joined_sentence(sources, always=False)] if sources else [])


def _computed_otherwise(old: ExecutionArtifact, new: ExecutionArtifact) -> list[str]:
    """Return a sentence where of two runs is known what computed them, or how, and that is not the same."""
    known = [pair for pair in zip(_computed_by(old), _computed_by(new)) if None not in pair]
    hows = [pair for pair in zip(_computed_how(old), _computed_how(new)) if None not in pair]
    apart = [(then, now) for then, now in hows if then != now]
    if not apart and all(then == now for then, now in known):
        return []
    ways = zip(*known, *apart)
    then, now = (", ".join(brief(str(each)) for each in way) for way in ways)
    return [f"Then it was computed by {then}, and now by {now}: that may be why it differs."]


def _computed_by(run: ExecutionArtifact) -> list[object]:
    """Return the backend, its release and the device, each None where it is not known."""
    about = run.provenance or {}
    return [about.get("backend"), about.get("server_version"), run.output.metadata.get("device")]


def _computed_how(run: ExecutionArtifact) -> list[str | None]:
    """Return how a run was computed: prompt cache, turns at once, window, and threads that wrote."""
    of_turn = run.output.metadata
    slots, cached = map(of_turn.get, ("at_once", "cached_tokens"))
    window = above_zero(part(of_turn, "context").get("window"))
    in_force = part(run.provenance or {}, "effective")
    threads = above_zero(of_turn.get("threads") or in_force.get("threads"))
    return [
        None if cached is None else f"{'with' if cached else 'without'} its prompt cache",
        None if slots is None else f"{slots} at once",
        None if window is None else f"in a window of {window} tokens",
        None if threads is None else f"with {threads} thread{'s' * (threads > 1)}",
    ]


def compared(
    old: ExecutionArtifact,
    ask: Callable[[], ExecutionArtifact],
    how: str,
    expected: Expectation | None,
    changed: Callable[[ExecutionArtifact], Collection[str]] = lambda new: (),
    *,
    again: Sequence[Callable[[], bool]] | None = None,
) -> Replay:
    """Ask for a new run, and compare it with the ``old`` one.

    Args:
        ask: Asks once, and returns what ``answered`` does.
        how: What ``Replay.messages`` is.
        expected: What the old run had of an expectation, or None.
        changed: Returns what is another one on purpose in the new run, and is not compared.
        again: With it, it is asked again where only the answer is another one, and nothing was changed
            or expected: at once, and after each of these, which has the model answer from another
            beginning, and returns whether it could.
    """
    new = ask()
    apart = changed(new)
    names = [name for name in COMPARED if name not in apart]
    found = [each for each in differences(old, new) if each.name in names]
    is_answer = [each.name for each in found] == [ANSWER]
    state, verdict = "different" if found else "same", None
    if expected is not None:
        verdict = verdict_of(expected, new)
        if not verdict["holds"]:
            state = "not as expected"
        elif is_answer:
            state = "as expected"
    elif again is not None and is_answer and not apart and _has_another(ask, new, again):
        state = "not repeatable"
    unknown = tuple(name for name in known_to_one(old, new) if name in names)
    return Replay(state, how, new, tuple(found), unknown, verdict)


def _has_another(
    ask: Callable[[], ExecutionArtifact],
    new: ExecutionArtifact,
    again: Sequence[Callable[[], bool]],
) -> bool:
    """Return whether the model has another answer than that of ``new``, now or after one of ``again``."""
    if ask().output.content != new.output.content:
        return True
    try:
        for is_ready in again:
            if not is_ready():
                return False
            if ask().output.content != new.output.content:
                return True
    except OreError:  # it can't be loaded again, or not in time
        pass
    finally:
        AFRESH.set(False)
    return False
