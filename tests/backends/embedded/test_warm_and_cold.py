"""A reasoner keeps nothing of a turn: a used one answers as a new one does."""

from __future__ import annotations

from contextlib import closing

import pytest

from ore.backends.choice import open_backend
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.core import ORE
from ore.types import Session
from tests.support.engine import needs_engine
from tests.support.gguf import write_model
from tests.support.held import texts_held_by
from tests.support.process import run

TURNS = ["Name a colour.", "And one more, please.", "Which of them is warmer?", "Say goodbye."]
COUNTED = ("eval_count", "prompt_eval_count", "done_reason", "context")


@pytest.fixture
def model(tmp_path) -> str:
    return str(write_model(tmp_path / "m.gguf"))


def settings(**options) -> Settings:
    return Settings(conversation=True, options={"num_predict": 24, **options})


def talk(model: str, *, anew: bool, **options) -> list:
    """The responses of a conversation, with one reasoner, or with a new one for each turn."""
    session, responses, reasoner = Session(), [], EmbeddedReasoner(model, settings(**options))
    for turn in TURNS:
        if anew:
            reasoner.close()
            reasoner = EmbeddedReasoner(model, settings(**options))
        responses.append(ORE(reasoner, "Be brief.").execute(turn, session))
    reasoner.close()
    return responses


def counted(response) -> dict:
    return {name: response.metadata[name] for name in COUNTED}


@pytest.mark.slow
@needs_engine
@pytest.mark.invariant
def test_without_the_cache_a_used_reasoner_answers_as_a_new_one_byte_for_byte(model):
    warm = talk(model, anew=False, cache_prompt=False)
    cold = talk(model, anew=True, cache_prompt=False)
    assert [response.content for response in warm] == [response.content for response in cold]
    assert [counted(response) for response in warm] == [counted(response) for response in cold]
    assert {response.metadata["cached_tokens"] for response in warm + cold} == {0}


@pytest.mark.slow
@needs_engine
@pytest.mark.invariant
def test_with_the_cache_a_used_reasoner_reports_the_prompt_as_a_new_one_does(model):
    session = Session()
    with closing(EmbeddedReasoner(model, settings())) as warm:
        for number, turn in enumerate(TURNS):
            asked = Session(list(session.messages))
            used = ORE(warm, "Be brief.").execute(turn, session).metadata
            with closing(EmbeddedReasoner(model, settings())) as cold:
                new = ORE(cold, "Be brief.").execute(turn, asked).metadata
            assert (used["prompt_eval_count"], used["context"]) == (
                new["prompt_eval_count"],
                new["context"],
            )
            assert new["cached_tokens"] == 0
            assert 0 < used["cached_tokens"] < used["prompt_eval_count"] or number == 0


@needs_engine
@pytest.mark.invariant
def test_a_closed_reasoner_holds_no_text_of_any_turn(model):
    reasoner = EmbeddedReasoner(model, settings())
    response = ORE(reasoner, "Be brief.").execute("the marigold question")
    reasoner.close()
    held = "\n".join(texts_held_by(reasoner))
    assert "marigold" not in held and response.content not in held
    assert model in held  # it was looked for in the right place


@pytest.mark.embedded
@pytest.mark.slow
def test_a_turn_of_a_repl_without_the_cache_is_that_of_a_process_of_its_own(model_dir, monkeypatch):
    monkeypatch.setenv("ORE_BACKEND", "embedded")
    flags = ("-o", "num_predict=24", "-o", "cache_prompt=false")
    repl = run("-c", *flags, stdin="\n".join(TURNS).encode())
    single = "".join(run("--session", "s", *flags, turn).out for turn in TURNS)
    assert repl.code == 0 and repl.out == single


def test_no_server_is_sent_an_option_that_it_would_pass_over(ore):
    flags = ("--model", "m", "-o", "cache_prompt=false")
    done = ore("Hi", "--backend", "ollama", *flags, open_backend=open_backend)
    assert done.code == 1 and "Ollama has no option 'cache_prompt'" in done.err
