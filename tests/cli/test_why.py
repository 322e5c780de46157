"""``--why``: what a recorded answer rests on, as it is shown, and what can't be looked into."""

from __future__ import annotations

import pytest

from ore.backends.choice import open_backend
from ore.errors import ContextTruncatedError, UsageError
from tests.cli.test_judged import DIGEST, Model
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.runs import record, rewrite
from tests.support.scores import Scoring

pytestmark = pytest.mark.usefixtures("folder")

ANSWER = "The boat is in the cellar. It is red."
WEIGHTS = {"boat.txt": 6.0, "ada.txt": -0.5, "Be brief.": 2.0}
"""How many nats each text that is there makes the answer likelier by."""


class Known(Model):
    """A backend whose model can be asked how likely a text is."""

    def __init__(self, weights=None, **more) -> None:
        super().__init__(replies=(ANSWER,), **more)
        self.engine = Scoring((ANSWER,), weights or WEIGHTS)
        self.engine.metadata.update({"done_reason": "stop"})


@pytest.fixture
def recorded(folder):
    """A run with two files and a system prompt."""
    for name in ("boat.txt", "ada.txt"):
        (folder / name).write_text(f"What {name} says.")

    def make(*flags: str, metadata=None, **more):
        model = Known(**more)
        model.engine.metadata.update(metadata or {})
        flags = flags or ("-f", "boat.txt", "-f", "ada.txt", "--system", "Be brief.")
        flags += ("--artifact-full",)
        return record(folder / "a.json", "Where?", *flags, open_backend=lambda *_: model)

    return make


def raising(error: Exception):
    """A method that raises it."""

    def score(*_, **__):
        raise error

    return score


def looked_into(*flags: str, model=None, terminal="", path="a.json"):
    model = model or Known()
    result = run_ore("--why", path, *flags, open_backend=lambda *_: model, terminal=terminal)
    assert "Traceback" not in result.err
    return result, model


@pytest.mark.invariant
def test_each_source_is_left_out_once_and_the_most_comes_first(recorded):
    recorded()
    result, model = looked_into()
    assert result.code == 0
    assert result.out == (
        "file:boat.txt\t6.0000\t0.7500\nsystem\t2.0000\t0.2500\nfile:ada.txt\t-0.5000\t0.0000\n"
    )
    assert result.err == "Scoring the answer 4 times, once for each source and once with all.\n"
    asked = [tuple(m.content[:14] for m in messages) for messages, _, _ in model.engine.scored]
    assert len(asked) == 4 and len(set(asked)) == 4 and model.engine.calls == []
    assert all(each[-1] == "Where?" for each in asked)


def test_json_has_the_answer_and_what_each_source_is_worth(recorded):
    recorded()
    shown = looked_into("--json")[0].json
    assert shown["text"] == ANSWER and "sentences" not in shown
    assert shown["sources"][0] == {"source": "file:boat.txt", "drop": 6.0, "share": 0.75}


def test_the_drops_of_the_sentences_add_up_to_those_of_the_answer(recorded):
    recorded()
    result, model = looked_into("--by", "sentence", "--json")
    found = result.json["sentences"]
    assert [each["text"] for each in found] == ["The boat is in the cellar. ", "It is red."]
    assert len(model.engine.scored) == 4
    whole = {each["source"]: each["drop"] for each in result.json["sources"]}
    for source, drop in whole.items():
        parts = [s["drop"] for each in found for s in each["sources"] if s["source"] == source]
        assert sum(parts) == pytest.approx(drop)
    lines = looked_into("--by", "sentence")[0].out.splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1"] * 3 + ["2"] * 3


def test_a_terminal_shows_a_bar_for_each_share(recorded):
    recorded()
    lines = looked_into(terminal="out")[0].out.splitlines()
    assert lines[0].split() == ["file:boat.txt", "6.00", "nats", "75%", "█" * 20]
    assert lines[1].split() == ["system", "2.00", "nats", "25%", "█" * 6 + "▋"]
    assert lines[2].split() == ["file:ada.txt", "-0.50", "nats", "0%"]


@pytest.mark.parametrize(
    "said",
    [{"done_reason": "length"}, {"done_reason": "content_filter"}, {"choice": {"probability": 1}}],
)
def test_an_answer_that_was_cut_or_chosen_is_scored_without_an_end(recorded, said):
    recorded(metadata=said)
    assert {ended for _, _, ended in looked_into()[1].engine.scored} == {False}


def test_rebuilt_messages_will_do(folder):
    record(folder / "a.json", "Where?", "--system", "Be brief.", open_backend=lambda *_: Known())
    result, _ = looked_into()
    assert (result.code, result.out) == (0, "system\t2.0000\t1.0000\n")


@pytest.mark.parametrize(
    "model, code, sentence",
    [
        (
            Known(digest="b" * 64),
            3,
            "the model is another one: the SHA-256 of scripted begins with bbbbbbbbbbbb here",
        ),
        (Known(digest=None), 1, "the digest of scripted is not known here"),
        (Model(), 1, "the backend scripted does not say how likely a given text is"),
    ],
    ids=["another model", "no digest", "can't score"],
)
def test_a_model_that_can_not_be_asked_is_named_and_nothing_is_shown(
    recorded, model, code, sentence
):
    recorded()
    result, _ = looked_into(model=model)
    assert result.code == code and sentence in result.err and result.out == ""


def test_a_run_without_its_messages(folder):
    (folder / "boat.txt").write_text("The boat.")
    record(folder / "a.json", "Where?", "-f", "boat.txt", open_backend=lambda *_: Known())
    result, model = looked_into()
    assert result.code == 1 and model.engine.scored == []
    assert result.err == (
        "ore: a.json can't be looked into: the text of its files is not in it: record such runs "
        "with --artifact-full.\n"
    )


def test_of_a_run_that_went_on_from_another_no_second_file_is_asked_for(folder):
    known = {"open_backend": lambda *_: Known()}
    record(folder / "first.json", "Where?", **known)
    record(folder / "a.json", "And now?", "--after", "first.json", **known)
    result, _ = looked_into()
    assert (result.code, result.err) == (
        1,
        "ore: a.json can't be looked into: the answer it went on from is not in it: record such runs "
        "with --artifact-full.\n",
    )
    assert "name that artifact as well" in run_ore("--replay", "a.json", **known).out


def test_a_persona_that_an_artifact_names_and_can_t_be_one_is_its_own_fault(folder):
    record(folder / "a.json", "Where?", open_backend=lambda *_: Known())
    rewrite(folder / "a.json", lambda document: document["provenance"].update(persona="../aya"))
    result, _ = looked_into()
    assert result.code == 1 and "'../aya' can't be a persona's name" in result.err
    assert "usage:" not in result.err


def test_an_option_of_an_artifact_that_can_t_be_used_is_its_own_fault(recorded):
    recorded()
    model = Known()
    model.reasoner = raising(UsageError("The option 'num_ctx' is 1."))
    result, _ = looked_into(model=model)
    assert (result.code, result.err) == (
        *(
            1,
            "ore: a.json can't be looked into: its options can't be used: The option 'num_ctx' is 1.\n",
        ),
    )


def test_an_artifact_that_names_no_digest(folder, recorded):
    recorded(digest=None)
    result, _ = looked_into()
    assert result.code == 1 and "it has no digest of its model" in result.err


def test_an_empty_answer_and_a_prompt_alone(folder, recorded):
    model = Known()
    model.engine.replies = [""]
    flags = ("--system", "Be brief.", "-o", "temperature=0")
    record(folder / "a.json", "Where?", *flags, open_backend=lambda *_: model)
    result, _ = looked_into()
    assert result.code == 1 and "The answer is empty" in result.err
    recorded("--no-system")
    result, _ = looked_into()
    assert (
        result.code == 1 and "nothing but its prompt" in result.err and "Scoring" not in result.err
    )


def test_an_answer_that_does_not_fit_or_is_no_text_is_an_error_of_the_artifact(recorded):
    recorded()
    for error in (ContextTruncatedError("It has 8001 tokens."), UsageError("Half a character.")):
        model = Known()
        model.engine.score = raising(error)
        result, _ = looked_into(model=model)
        assert (result.code, result.out) == (1, "")
        assert f"a.json can't be looked into: {error}" in result.err


def test_a_model_that_thought_first(recorded):
    recorded(metadata={"thinking": "Hm."})
    result, _ = looked_into()
    assert result.code == 1 and "the model thought first" in result.err


def test_a_source_can_not_speak_for_ore(folder, recorded):
    recorded("-f", "boat.txt")
    from tests.support.runs import rewrite

    def spoil(document):
        document["provenance"]["messages"][1]["source"] = "file:\x1b[2Jx\ty\n"
        document["provenance"]["messages"][0]["source"] = 7

    rewrite(folder / "a.json", spoil)
    out = looked_into(terminal="out")[0].out
    assert "\x1b" not in out and len(out.splitlines()) == 2 and "message 1" in out


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["--by", "sentence", "hi"], "--by needs --why"),
        (["--why", "a.json", "--by", "word"], "--by must be sentence, not 'word'"),
        (["--why", "a.json", "hi"], "can't be used with"),
        (["--why"], "--why needs one value"),
    ],
)
def test_flags_that_do_not_go_with_why_are_wrong_usage(ore, flags, sentence):
    result = ore(*flags)
    assert result.code == 2 and sentence in result.err


def test_the_digest_is_that_of_the_tests():
    assert Known().provenance("scripted")["model_digest"] == DIGEST


def test_a_run_of_the_engine_that_is_asked_of_ollama_is_sent_back_to_the_engine(folder, recorded):
    recorded()
    rewrite(folder / "a.json", lambda document: document["provenance"].update(backend="embedded"))
    with FakeOllama(models=("scripted",)) as server:
        flags = ("--backend", "ollama", "--host", server.url)
        result = run_ore("--why", "a.json", *flags, open_backend=open_backend)
    assert (result.code, result.out) == (1, "")
    assert result.err.endswith("ask the engine that made it, with --backend embedded.\n")


def test_where_no_digest_is_known_it_is_said_why(folder):
    with FakeOllama() as server:
        flags = ("--host", server.url)
        record(folder / "a.json", "Where?", *flags, open_backend=open_backend)
        missing = run_ore("--why", "a.json", "--model", "nosuch", *flags, open_backend=open_backend)
    assert missing.code == 1 and missing.err.endswith(
        "nosuch is not known here: there is no such model; --list-models shows what there is.\n"
    )
    other = looked_into("--model", "scripted")[0]
    assert other.code == 1 and "of manifests and the embedded engine's of weights" in other.err
    gone = run_ore("--why", "a.json", *flags, open_backend=open_backend)
    assert gone.code == 1 and "is not known here: No Ollama server answers at" in gone.err
