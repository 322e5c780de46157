"""What a model's chat template does with messages: each arrives, or it is said that it can't."""

from __future__ import annotations

import random
import time
from contextlib import closing
from dataclasses import astuple, replace

import pytest

from ore.backends import engine_prompt
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine import Engine
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError
from ore.backends.weights import DEFAULT_MODEL
from ore.core import ORE
from ore.errors import BackendError, ContextTruncatedError
from ore.rows.replaying import replay, warnings_beside
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.gguf import CHATML, write_model

pytestmark = needs_engine
SYSTEM = Message("system", "You are a clerk.")
SKILL = Message("system", "[Skill:writing]\nWrite in short sentences.")
FILE = Message("user", "[Tool:file:notes.txt]\nThe bridge is open.\n")
SESSION = [Message("user", "hi"), Message("assistant", "Good morning.")]
PROMPT = Message("user", "hi")
CASES = {
    "prompt": [PROMPT],
    "system": [SYSTEM, PROMPT],
    "skill": [SYSTEM, SKILL, PROMPT],
    "file": [SYSTEM, FILE, PROMPT],
    "session": [SYSTEM, *SESSION, PROMPT],
    "all": [SYSTEM, SKILL, FILE, *SESSION, PROMPT],
}

EACH = "{{ m.role }}: {{ m.content }}\n"
NO_SYSTEM = "{% if m.role == 'system' %}{{ raise_exception('There is no role system') }}{% endif %}"
ALTERNATES = (
    "{% set ns = namespace(i=0) %}{% for m in messages %}{% if m.role != 'system' %}"
    "{% if (m.role == 'user') != (ns.i % 2 == 0) %}{{ raise_exception('Roles must alternate') }}"
    "{% endif %}{% set ns.i = ns.i + 1 %}{% endif %}{% endfor %}"
)
FIRST_SYSTEM = (
    "{% for m in messages %}{% if m.role != 'system' or loop.first %}" + EACH + "{% endif %}"
    "{% endfor %}"
)
LAST_SYSTEM = (
    "{% set ns = namespace(s='') %}{% for m in messages %}{% if m.role == 'system' %}"
    "{% set ns.s = m.content %}{% endif %}{% endfor %}{{ ns.s }}\n"
    "{% for m in messages %}{% if m.role != 'system' %}" + EACH + "{% endif %}{% endfor %}"
)
LAST_ONLY = "{{ messages[-1].role }}: {{ messages[-1].content }}"
TEMPLATES = {
    "ChatML": CHATML,
    "one that trims": "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{% endfor %}",
    "one with a text of its own": (
        "{% if messages[0].role != 'system' %}system: You are kind.\n{% endif %}"
        "{% for m in messages %}" + EACH + "{% endfor %}"
    ),
    "one that repeats the prompt": (
        "{% for m in messages %}" + EACH + "{% endfor %}Remember: {{ messages[-1].content }}"
    ),
    "one that puts the system text last": (
        "{% for m in messages %}{% if m.role != 'system' %}" + EACH + "{% endif %}{% endfor %}"
        "{% for m in messages %}{% if m.role == 'system' %}" + EACH + "{% endif %}{% endfor %}"
    ),
    "one that looks at the texts": (
        "{% for m in messages %}{% if m.content.startswith('[Tool') %}{{ m.content }}{% else %}"
        + EACH
        + "{% endif %}{% endfor %}"
    ),
    "one for the first system message": FIRST_SYSTEM,
    "one for the last system message": LAST_SYSTEM,
    "one that alternates": ALTERNATES + "{% for m in messages %}" + EACH + "{% endfor %}",
    "one that alternates, with one system message": ALTERNATES + FIRST_SYSTEM,
    "one without a system role": "{% for m in messages %}" + NO_SYSTEM + EACH + "{% endfor %}",
    "one for a single message": LAST_ONLY,
    "one that cuts": "{% for m in messages %}{{ m.role }}: {{ m.content[:8] }}\n{% endfor %}",
    "none": None,
}
EVERY = set(CASES)
JOINED = {
    "one for the first system message": {"skill", "all"},
    "one for the last system message": {"skill", "all"},
    "one without a system role": {"skill", "all"},
    "one for a single message": {"skill", "file"},
    "one that alternates": {"file", "all"},
    "one that alternates, with one system message": {"skill", "file", "all"},
}
CAN_NOT = {
    "one for a single message": {"session", "all"},
    "one that cuts": EVERY - {"prompt"},
}


def model(tmp_path, text: str | None) -> str:
    return str(write_model(tmp_path / "m.gguf", tokenizer__chat_template=text))


@pytest.mark.invariant
@pytest.mark.parametrize("name", TEMPLATES)
def test_each_message_arrives_or_it_is_said_that_it_can_not(tmp_path, name):
    with closing(EmbeddedReasoner(model(tmp_path, TEMPLATES[name]))) as reasoner:
        was_joined, could_not = set(), set()
        for case, messages in CASES.items():
            try:
                reading = reasoner.reading(messages)
            except BackendError as exc:
                could_not.add(case)
                assert "leaves out a message of the role" in str(exc)
                continue
            assert [m.content for m in messages if m.content.strip() not in reading.rendered] == []
            there = {part.message for part in reading.parts} - {None}
            assert len(there) == len(reading.groups or messages)
            if reading.groups is not None:
                was_joined.add(case)
            assert set(astuple(reading.size)) == {sum(p.tokens for p in reading.parts)}
            assert "".join(part.text for part in reading.parts).endswith(reading.rendered)
    assert was_joined == JOINED.get(name, set())
    assert could_not == CAN_NOT.get(name, set())


SWITCHED = (
    "{% for m in messages %}{{ m.role }}: {{ m.content.replace('/think', '')"
    ".replace('/no_think', '').replace('/system_override', '') | trim }}\n{% endfor %}"
)


@pytest.mark.parametrize(
    ("system", "prompt"),
    [
        ("/no_think", "What is open today?"),
        ("You are a clerk.\n/no_think", "What is open today?"),
        ("You are a clerk. /system_override", "What is open today?"),
        ("You are a clerk.", "Is it open, /think and say so?"),
    ],
)
def test_a_switch_that_the_template_takes_out_is_no_message_that_is_left_out(
    tmp_path, system, prompt
):
    messages = [Message("system", system), Message("user", prompt)]
    with closing(EmbeddedReasoner(model(tmp_path, SWITCHED))) as reasoner:
        reading = reasoner.reading(messages)
    assert "/" not in reading.rendered and "open" in reading.rendered
    assert "".join(part.text for part in reading.parts).endswith(reading.rendered)


@pytest.mark.parametrize("prompt", ["What is in /home/think here?", "Read ./no_think.txt aloud."])
def test_a_path_that_the_template_takes_a_piece_of_is_not_sent(tmp_path, prompt):
    with closing(EmbeddedReasoner(model(tmp_path, SWITCHED))) as reasoner:
        with pytest.raises(BackendError, match="leaves out a message of the role 'user'"):
            reasoner.reading([Message("user", prompt)])


@pytest.mark.parametrize(
    "given, whose, other", [(None, "The model's", "model"), (" \n", "The", "template")]
)
def test_a_template_that_writes_nothing_is_not_mended_by_another_prompt(
    tmp_path, given, whose, other
):
    settings = Settings(chat_template=given)
    with closing(EmbeddedReasoner(model(tmp_path, "{# none #}"), settings)) as reasoner:
        with pytest.raises(BackendError) as caught:
            reasoner.reading(
                [Message("system", "You are a clerk."), Message("user", "Is it open?")]
            )
    assert str(caught.value) == (
        f"{whose} chat template writes nothing, so the model was not asked: use another {other}."
    )


FEW = Settings(options={"num_predict": 1})
REFUSES = (
    "{% for m in messages %}{% if m.role == 'system' and 'clerk' in m.content %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + EACH + "{% endfor %}"
)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["system", "skill", "file"])
def test_a_template_that_refuses_a_system_message_is_blamed_for_it_in_its_own_words(tmp_path, case):
    """The engine tries a template out when it loads it, and knows nothing of this one's dislike."""
    with closing(EmbeddedReasoner(model(tmp_path, REFUSES), FEW)) as reasoner:
        with pytest.raises(BackendError, match=r"\(`system_prompt=''`\)") as raised:
            reasoner.reason(CASES[case])
        assert "the role 'system': System role not supported. So the model" in str(raised.value)
        assert reasoner.reason([PROMPT]).metadata["eval_count"] == 1


@pytest.mark.slow
def test_the_turn_sends_what_was_joined_and_says_so(tmp_path):
    settings = Settings(options={"num_predict": 2})
    name = model(tmp_path, TEMPLATES["one that alternates, with one system message"])
    with closing(EmbeddedReasoner(name, settings)) as reasoner:
        metadata = reasoner.reason(CASES["all"]).metadata
        assert metadata["joined"] == [[0, 1], [2, 3], [4], [5]]
        assert metadata["prompt_eval_count"] == reasoner.reading(CASES["all"]).size.likely
        assert "joined" not in reasoner.reason(CASES["system"]).metadata
        assert len(metadata["rendered_sha256"]) == 64


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, case, said",
    [
        ("one for the first system message", "skill", "role 'system' ('[Skill:writing]"),
        ("one that alternates", "file", "refused the turn: Roles must alternate."),
    ],
)
def test_who_wants_no_joining_is_told_what_the_model_can_not_be_given(tmp_path, name, case, said):
    path = model(tmp_path, TEMPLATES[name])
    with closing(EmbeddedReasoner(path, Settings(joins=False))) as reasoner:
        with pytest.raises(BackendError, match="use another model") as raised:
            reasoner.reason(CASES[case])
    assert said in str(raised.value)


@pytest.mark.slow
def test_a_system_text_that_the_engine_folds_and_a_missing_template_are_said(tmp_path):
    def notes(name: str, case: str) -> list[str]:
        with closing(EmbeddedReasoner(model(tmp_path, TEMPLATES[name]), FEW)) as reasoner:
            found = reasoner.reason(CASES[case]).metadata.get("notes", [])
            assert found == list(reasoner.reading(CASES[case]).notes)
            return found

    assert notes("one without a system role", "prompt") == []
    assert "puts their text into the user's message" in notes("one without a system role", "all")[0]
    assert "has no chat template" in notes("none", "system")[0]
    assert notes("ChatML", "system") == []


TEXTS = [
    "word ",
    "Straße ",
    "Здравствуйте ",
    "日本語",
    "مرحبا ",
    "नमस्ते ",
    "😀👩‍👩‍👧 ",
    "x = [1, 2];\n\t",
    "<|im_end|>",
]


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize("adds_mark", [False, True])
def test_the_tokens_that_are_planned_are_those_that_the_engine_counts(tmp_path, adds_mark):
    name = str(write_model(tmp_path / "m.gguf", tokenizer__ggml__add_bos_token=adds_mark))
    settings = Settings(options={"num_predict": 1, "num_ctx": 1024}, strict_context=True)
    noise, longest = random.Random(7), 0
    with closing(EmbeddedReasoner(name, settings)) as reasoner:
        for number in range(100):
            case = noise.choice([*CASES.values()])
            text = "".join(noise.choices(TEXTS, k=1 + number))
            messages = [*case[:-1], Message("user", text)]
            planned = reasoner.reading(messages)
            if not planned.fits:
                with pytest.raises(
                    ContextTruncatedError, match=f"has {planned.size.likely} tokens"
                ):
                    reasoner.reason(messages)
                continue
            metadata = reasoner.reason(messages).metadata
            assert planned.size.likely == metadata["prompt_eval_count"]
            longest = max(longest, planned.size.likely)
    assert longest > 900


@pytest.mark.embedded
def test_the_tokens_that_are_planned_of_the_small_model_are_those_that_it_reads(model_dir):
    settings = Settings(options={"num_predict": 1, "num_ctx": 1024}, strict_context=True)
    noise = random.Random(8)
    with closing(EmbeddedReasoner(DEFAULT_MODEL, settings)) as reasoner:
        for number in range(1, 41):
            case = noise.choice([*CASES.values()])
            messages = [*case[:-1], Message("user", "".join(noise.choices(TEXTS, k=number)))]
            context = reasoner.reason(messages).metadata["context"]
            assert context["planned_tokens"] == context["prompt_tokens"]
            assert context["planned_tokens"] == reasoner.reading(messages).size.likely


def fill(reasoner: EmbeddedReasoner, tokens: int) -> list[Message]:
    """A prompt that the model reads as so many tokens: of a tiny one a digit is one."""
    own = reasoner.reading([Message("user", "1")]).size.likely - 1
    return [Message("user", "1" * (tokens - own))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "prompt, limit, strict, error, warned",
    [
        (256, 0, False, "has 256 tokens and the model's window holds 256", ""),
        (256, 0, True, "has 256 tokens and the model's window holds 256", ""),
        (300, 9, True, "nothing was sent to the model", ""),
        (255, 1, True, "", ""),
        (250, 6, True, "", ""),
        (
            250,
            7,
            False,
            "",
            "6 are left for the answer, less than `options[num_predict=7]`; `options['num_ctx']`",
        ),
        (255, 7, True, "255 of the 256 tokens of the context window: 1 is left", ""),
        (250, 7, True, "250 of the 256 tokens of the context window: 6 are left", ""),
        (250, -1, True, "", ""),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_computed(
    tmp_path, prompt, limit, strict, error, warned
):
    said: list[str] = []
    settings = Settings(
        strict_context=strict,
        options={"num_ctx": 256, **({"num_predict": limit} if limit else {})},
        on_warning=said.append,
    )
    with closing(EmbeddedReasoner(model(tmp_path, CHATML), settings)) as reasoner:
        messages, sent = fill(reasoner, prompt), []
        engine = reasoner._engine
        events = engine.events
        engine.events = lambda *a, **k: sent.append(len(said)) or events(*a, **k)
        if error:
            with pytest.raises(ContextTruncatedError if strict else TurnFailedError) as raised:
                reasoner.reason(messages)
            assert error in str(raised.value) and not sent and not said
            assert isinstance(raised.value, ContextTruncatedError) is strict
            return
        context = reasoner.reason(messages).metadata["context"]
        assert context["exact"] and context["planned_tokens"] == context["prompt_tokens"] == prompt
        assert sent == [1 if warned else 0] and warned in "".join(said)


@pytest.mark.slow
def test_a_prompt_that_surely_fits_is_not_counted_unless_that_is_asked_for(tmp_path, monkeypatch):
    asked: list[str] = []
    posted = Engine.posted
    monkeypatch.setattr(
        Engine, "posted", lambda self, path, *rest: asked.append(path) or posted(self, path, *rest)
    )
    for strict, paths in [(False, []), (True, ["/tokenize"])]:
        settings = Settings(strict_context=strict, options={"num_predict": 1})
        with closing(EmbeddedReasoner(model(tmp_path, CHATML), settings)) as reasoner:
            asked.clear()
            context = reasoner.reason([PROMPT]).metadata["context"]
            assert asked == ["/apply-template"] * 2 + paths
            assert (context["planned_tokens"] is None) is not strict


@pytest.mark.slow
def test_a_backend_reads_without_keeping_the_model(tmp_path):
    name = model(tmp_path, CHATML)
    reading = EmbeddedBackend().reading(name, CASES["system"], FEW)
    assert (reading.window, reading.limit, reading.fits) == (4096, 1, True)
    assert [part.text for part in reading.parts] == [
        "<|im_start|>system\n",
        "You are a clerk.",
        "<|im_end|>\n<|im_start|>user\n",
        "hi",
        "<|im_end|>\n<|im_start|>assistant\n",
    ]


@pytest.mark.slow
def test_a_prompt_that_is_far_too_long_is_refused_before_its_tokens_are_counted(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(engine_prompt, "_pieces", None)
    settings = Settings(strict_context=True, options={"num_ctx": 256})
    with closing(EmbeddedReasoner(model(tmp_path, CHATML), settings)) as reasoner:
        with pytest.raises(ContextTruncatedError, match=r"has \d+ tokens at least and the model's"):
            reasoner.reason([Message("user", "one two " * 500)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked, words, advice",
    [
        (256, 500, "raise the window with `options['num_ctx']`."),
        (256, 100_000, "use a model with a larger window."),
        (1 << 20, 100_000, "use a model with a larger window."),
    ],
)
def test_a_larger_window_is_advised_where_the_prompt_fits_into_it(tmp_path, asked, words, advice):
    settings = Settings(strict_context=True, options={"num_ctx": asked})
    with closing(EmbeddedReasoner(model(tmp_path, CHATML), settings)) as reasoner:
        with pytest.raises(ContextTruncatedError) as raised:
            reasoner.reason([Message("user", "word " * words)])
    assert str(raised.value).endswith(f"shorten the prompt, or {advice}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "longest, advice",
    [
        (8000, "raise the window with `options['num_ctx']`."),
        (8192, "use a model with a larger window."),
    ],
)
def test_a_shorter_answer_is_advised_where_it_may_be_longer_than_the_window(
    tmp_path, longest, advice
):
    settings = Settings(strict_context=True, options={"num_ctx": 256, "num_predict": longest})
    with closing(EmbeddedReasoner(model(tmp_path, CHATML), settings)) as reasoner:
        with pytest.raises(ContextTruncatedError) as raised:
            reasoner.reason([PROMPT])
    assert str(raised.value).endswith(f"to the model: lower `options['num_predict']`, or {advice}")


@pytest.mark.slow
def test_a_replay_says_that_the_template_made_another_text_than_then(tmp_path):
    """Templates of Llama 3 and others write the date."""
    dated = "{{ strftime_now('%H:%M:%S') }}" + CHATML
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=dated)
    with closing(EmbeddedReasoner(str(path), Settings(options={"num_predict": 4}))) as reasoner:
        engine = ORE(reasoner, "Be kind.")
        run = engine.record(engine.execute("Why?"), full=True)
        time.sleep(1.01)
        apart = replay(replace(run, output=replace(run.output, content="Paris.")), reasoner)
        text = apart.artifact.output.metadata["rendered_sha256"]
        known = {**run.output.metadata, "rendered_sha256": text}
        other = replace(run.output, content="Paris.", metadata=known)
        alike = warnings_beside(replace(run, output=other), apart.artifact, reasoner.settings)
    assert apart.state == "different" and not alike
    assert [
        note for note in apart.notes if note.startswith("The chat template made a different text")
    ]


@pytest.mark.slow
def test_a_replay_says_that_several_turns_were_computed_at_once(tmp_path):
    path, few = str(write_model(tmp_path / "m.gguf")), {"num_predict": 4}
    with closing(EmbeddedReasoner(path, Settings(options=few, at_once=2))) as reasoner:
        engine = ORE(reasoner, "Be kind.")
        run = engine.record(engine.execute("Why?"), full=True)
        other = replace(run, output=replace(run.output, content="Paris."))
        assert replay(other, reasoner).notes == ()
    with closing(EmbeddedReasoner(path, Settings(options=few))) as reasoner:
        (note,) = replay(other, reasoner).notes
    assert ", 2 at once, and now by " in note and ", 1 at once: that may be why" in note


@pytest.mark.slow
def test_a_replay_says_that_a_turn_of_a_conversation_was_computed_with_its_prompt_cache(tmp_path):
    path, few = str(write_model(tmp_path / "m.gguf")), {"num_predict": 4}
    with closing(EmbeddedReasoner(path, Settings(options=few, conversation=True))) as reasoner:
        engine = ORE(reasoner, "Be kind.")
        first, run = (engine.record(engine.execute("Why?"), full=True) for _ in range(2))
    others = [replace(each, output=replace(each.output, content="Paris.")) for each in (first, run)]
    with closing(EmbeddedReasoner(path, Settings(options=few))) as reasoner:
        before, now = (replay(other, reasoner).notes for other in others)
    assert before == () and run.output.metadata["cached_tokens"]
    assert ", with its prompt cache, and now by " in now[0]
    assert ", without its prompt cache: that may be why" in now[0]
