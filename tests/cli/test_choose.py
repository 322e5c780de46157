"""``--choose``: one of the user's words, how likely it is, and what becomes of it."""

from __future__ import annotations

import json
import math
from contextlib import closing
from pathlib import Path

import pytest

from ore import notices_of
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.glass.choosing import ChoosingReasoner
from ore.reasoner import Scorer
from ore.types import Message
from ore.types.score import Score, ScoredToken
from tests.conftest import MODEL_DIR
from tests.support.harness import ScriptedBackend, ScriptedReasoner

SHARES = {"yes": 0.6, "no": 0.15, "maybe": 0.05, "never": 0.000001}
WHALE = "Is a whale a mammal? Answer yes or no."


class ScoringReasoner(ScriptedReasoner, Scorer):
    """A scripted reasoner that scores words as ``SHARES`` has them."""

    def __init__(self):
        super().__init__([])
        self.scored, self.shares = [], SHARES

    def score(self, messages, text, *, ended=True):
        raise AssertionError("--choose scores all words at once")

    def score_each(self, messages, texts):
        self.scored.append((list(messages), list(texts)))
        more = (False, self.model_id, 9)
        return [
            Score(text, (ScoredToken(text, math.log(self.shares[text]), 0, None, "Well"),), *more)
            for text in texts
        ]


@pytest.fixture
def backend():
    made = ScriptedBackend()
    made.engine = ScoringReasoner()
    return made


@pytest.fixture
def choose(ore, backend):
    """ORE on a backend that scores; its engine has what was asked of it."""

    def run(*argv, **more):
        return ore(*argv, open_backend=lambda *_: backend, **more)

    return run


@pytest.mark.invariant
def test_a_turn_that_chooses_is_one_call_and_adds_nothing_to_the_prompt(choose, backend):
    result = choose("--choose", "no,yes", "--system", "Be brief.", "Is it?")
    assert (result.code, result.out, result.err) == (0, "yes\t0.80\n", "")
    ((messages, words),) = backend.engine.scored
    assert [(m.role, m.content) for m in messages] == [("system", "Be brief."), ("user", "Is it?")]
    assert words == ["no", "yes"] and backend.engine.calls == []


def test_a_person_on_a_terminal_sees_the_same_line(choose):
    result = choose("--choose", "yes,no", "hi", terminal="in out err", stdin="")
    assert result.out == "yes\t0.80\n"


def test_json_has_all_probabilities(choose):
    document = json.loads(choose("--choose", "no,yes,maybe", "--json", "hi").out)
    assert document["content"] == "yes"
    choice = document["metadata"]["choice"]
    assert choice["probabilities"] == pytest.approx({"yes": 0.75, "no": 0.1875, "maybe": 0.0625})
    assert list(choice["probabilities"]) == ["yes", "no", "maybe"]
    assert choice["probability"] == pytest.approx(0.75)
    assert choice["covered"] == pytest.approx(0.8)


def test_the_least_confidence_is_for_the_words_of_a_run_file_too(choose, folder):
    (folder / "f.ore").write_text("---\nchoose: ['yes', 'no']\n---\nhi")
    assert choose("--run", "f.ore", "--min-confidence", "0.8").code == 0
    assert choose("--run", "f.ore", "--min-confidence", "0.81").code == 3
    planned = choose("--run", "f.ore", "--min-confidence", "0.81", "--dry-run")
    (folder / "plan.json").write_text(planned.out)
    assert choose("--run", "plan.json", "--min-confidence", "0.81").code == 3
    (folder / "t.csv").write_text("a\n1\n")
    (folder / "r.ore").write_text("---\nchoose: ['yes', 'no']\n---\n{{a}}")
    rows = choose("--rows", "t.csv", "--run", "r.ore", "--min-confidence", "0.81")
    assert rows.code == 3 and "not what was expected" in rows.err
    (folder / "none.ore").write_text("hi")
    without = choose("--run", "none.ore", "--min-confidence", "0.5")
    assert without.code == 2 and "the file gives no words to choose from" in without.err


def test_rows_say_as_a_turn_does_that_the_model_would_say_no_word(choose, backend, folder):
    (folder / "t.csv").write_text("a\nhi\n")
    backend.engine.shares = {"yes": 0.0006, "no": 0.0001}
    said = "with a probability of 0.0007 only, and would rather begin with 'Well'"
    assert said in choose("--choose", "yes,no", "hi").err
    rows = ("--choose", "yes,no", "--rows", "t.csv", "{{a}}", "--artifact-out", "out")
    asked, there = choose(*rows), choose(*rows)
    for result in (asked, there):
        (line,) = (each for each in result.err.splitlines() if said in each)
        assert result.code == 0 and "row 1" in line
    reasoner = ChoosingReasoner(backend.engine, "m", Settings(choices=("yes", "no")))
    (told,) = notices_of(reasoner.reason([Message("user", "hi")]))
    assert said in told
    backend.engine.shares = SHARES
    assert not [*notices_of(reasoner.reason([Message("user", "hi")]))]
    (folder / "t.csv").write_text("a\nho\n")
    assert "The model says" not in choose(*rows).err


def test_below_the_least_confidence_nothing_is_on_stdout(choose):
    said = choose("--choose", "yes,no", "--min-confidence", "0.8", "hi")
    assert (said.code, said.out) == (0, "yes\t0.80\n")
    silent = choose("--choose", "yes,no", "--min-confidence", "0.81", "hi")
    assert (silent.code, silent.out) == (3, "")
    assert "--min-confidence 0.81 asks for: yes 0.8000, no 0.2000." in silent.err
    as_data = choose("--choose", "yes,no", "--min-confidence", "0.81", "--json", "hi")
    assert as_data.code == 3 and json.loads(as_data.out)["content"] == "yes"


def test_words_that_the_model_would_not_say_are_noted(choose):
    result = choose("--choose", "never,never", "hi")
    assert result.code == 2
    result = choose("--choose", "never,no", "hi")
    assert result.err == ""
    SHARES["not ever"] = 0.000003
    result = choose("--choose", "never,not ever", "hi")
    assert result.out == "not ever\t0.75\n"
    assert "probability of 4e-06 only, and would rather begin with 'Well'" in result.err
    assert choose("--choose", "never,not ever", "-q", "hi").err == ""


def test_the_artifact_has_words_and_probabilities_and_holds(choose, tmp_path):
    path = str(tmp_path / "run.json")
    assert choose("--choose", "yes,no", "--artifact-out", path, "hi").code == 0
    kept = json.loads(Path(path).read_text())
    assert kept["provenance"]["options"]["choices"] == ["yes", "no"]
    assert kept["output"]["content"] == "yes"
    assert kept["output"]["metadata"]["choice"]["probabilities"] == pytest.approx(
        {"yes": 0.8, "no": 0.2}
    )
    assert choose("--verify", path).code == 0
    assert "Chosen from: `yes` 0.8000, `no` 0.2000" in choose("--show", path).out
    text = Path(path).read_text().replace("0.2", "0.3", 1)
    Path(path).write_text(text)
    assert choose("--verify", path).code == 3


def test_no_sampling_is_said_to_be_in_force_where_words_are_scored(choose, backend, tmp_path):
    path = str(tmp_path / "run.json")
    sampling = {"repeat_penalty": 1.1, "num_predict": 1024, "cache_prompt": False, "num_ctx": 4096}
    model = {"temperature": 0.6, "stop": ["."], "num_batch": 64}
    backend.in_force = lambda *_: {"ore": sampling, "model": model, "server": {"top_k": 40}}
    argv = ("-o", "temperature=0.7", "-o", "num_thread=2", "--artifact-out", path, "-v", "hi")
    result = choose("--choose", "yes,no", *argv)
    assert result.code == 0 and "temperature=0.7 (user)" not in result.err
    told = json.loads(Path(path).read_text())["provenance"]["effective"]["parameters"]
    known = {name: each["value"] for name, each in told.items() if each != dict.fromkeys(each)}
    assert known == {"num_ctx": 4096, "num_thread": 2, "num_batch": 64} and "temperature" in told
    judged = choose("--verify", path, "--with-model").out
    assert "it was chosen from words" in judged and "temperature" not in judged


def test_an_artifact_is_kept_of_what_was_not_likely_enough(choose, tmp_path):
    path = str(tmp_path / "run.json")
    argv = ["--choose", "yes,no", "--min-confidence", "0.9", "--artifact-out", path, "hi"]
    assert choose(*argv).code == 3
    assert choose("--verify", path).code == 0


def test_a_replay_chooses_again(choose, backend, tmp_path):
    path = str(tmp_path / "run.json")
    choose("--choose", "yes,no", "--artifact-out", path, "hi")
    assert choose("--replay", path).out.split("\t")[1] == "same"
    assert [words for _, words in backend.engine.scored] == [["yes", "no"]] * 2
    assert backend.engine.calls == []
    backend.engine.shares = {"yes": 0.0006, "no": 0.0001}
    again = choose("--replay", path)
    assert again.out.split("\t")[1] == "same"
    assert "run.json: The model says one of these words with a probability of 0.0007" in again.err
    choose("--choose", "yes,no", "--artifact-out", path, "hi")
    backend.engine.shares = {"yes": 0.0005, "no": 0.0001}  # as another device computes it
    assert "one of these words" not in choose("--replay", path).err


@pytest.mark.parametrize(
    "choices", ["yes,no", ["yes"], ["@/etc/passwd"], ["yes", 1], ["a\n", "b"], {"yes": 1}]
)
def test_choices_that_somebody_changed_are_not_chosen_from(choose, backend, tmp_path, choices):
    path = tmp_path / "run.json"
    choose("--choose", "yes,no", "--artifact-out", str(path), "hi")
    kept = json.loads(path.read_text())
    kept["provenance"]["options"]["choices"] = choices
    path.write_text(json.dumps(kept))
    result = choose("--replay", str(path))
    assert result.code == 3 and "\tnot run\t" in result.out and "option 'choices'" in result.out
    assert len(backend.engine.scored) == 1


def test_a_dry_run_shows_the_words_and_asks_nothing(choose, backend):
    plan = json.loads(choose("--choose", "yes,no", "--dry-run", "hi").out)
    assert plan["options"]["choices"] == ["yes", "no"]
    assert backend.engine.scored == []


def test_a_plan_with_words_is_taken(choose, backend, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(choose("--choose", "yes,no", "--dry-run", "hi").out)
    assert choose("--run", str(plan)).out == "yes\t0.80\n"


def test_a_plan_and_flags_go_together_as_a_run_file_and_flags_do(choose, backend, tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text(choose("--choose", "yes,no", "--dry-run", "hi").out)
    for flag in ("--stream", "--extract", "--render", "--think=off"):
        result = choose("--run", str(plan), flag)
        assert (result.code, result.out) == (2, ""), flag
        assert f"With what {plan} says, --choose can't be used with {flag[:7]}" in result.err
    assert backend.engine.scored == []
    plan.write_text(choose("--schema", "a str", "--dry-run", "hi").out)
    assert choose("--run", str(plan), "--choose", "yes,no").out == "yes\t0.80\n"


def test_a_session_has_the_word(choose):
    assert choose("--session", "mail", "--choose", "yes,no", "Is it spam?").code == 0
    kept = json.loads(choose("--show-session", "mail", "--json").out)
    assert [each["content"] for each in kept["messages"]] == ["Is it spam?", "yes"]


BAD = [
    (["--choose", "yes"], "there is one only"),
    (["--choose", "yes, yes"], "is there twice"),
    (["--choose", ","], "is empty"),
    (["--choose", " "], "--choose needs a value"),
    (["--min-confidence", "0.5"], "--min-confidence needs --choose"),
    (["--choose", "a,b", "--min-confidence", "nan"], "must be a number from 0 to 1, not nan"),
    (["--choose", "a,b", "--min-confidence", "1.1"], "must be a number from 0 to 1"),
    (["--choose", "a,b", "--min-confidence", "-0.1"], "must be a number from 0 to 1"),
    (["--choose", "a,b", "--stream"], "--choose can't be used with --stream"),
    (["--choose", "a,b", "--schema", "name, age int"], "--choose can't be used with --schema"),
    (["--choose", "a,b", "--extract"], "--choose can't be used with --extract"),
    (["--choose", "a,b", "--logprobs"], "--choose can't be used with --logprobs"),
    (["--choose", "a,b", "-c"], "--choose can't be used with a REPL"),
]


@pytest.mark.parametrize("argv, said", BAD, ids=[" ".join(argv) for argv, _ in BAD])
def test_what_makes_no_sense_is_refused_before_anything_is_asked(choose, backend, argv, said):
    result = choose(*argv, "hi")
    assert result.code == 2 and said in result.err
    assert backend.engine.scored == backend.engine.calls == []


def test_a_backend_that_can_not_score_is_said(ore):
    result = ore("--choose", "yes,no", "hi")
    assert (result.code, result.out) == (1, "")
    assert "'scripted' can't say how likely a given text is" in result.err


# The real model

QUESTIONS = [WHALE, "Which colour has the sky? Answer in one word.", "Is 7 an even number?"]


@pytest.fixture(scope="module")
def plain():
    model = str(next(Path(str(MODEL_DIR)).glob("*.gguf")))
    with closing(EmbeddedReasoner(model, Settings())) as reasoner:
        yield reasoner


def unconstrained(reasoner, messages):
    """The probabilities of the first token in a run without choices, as the engine gives them."""
    engine = reasoner._engine
    request = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
    request |= {"logprobs": True, "top_logprobs": 5000, "max_tokens": 1, "cache_prompt": False}
    found = engine.posted("/v1/chat/completions", request, 1 << 24, _no_end())
    top = found["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    return {each["token"]: math.exp(each["logprob"]) for each in top}


def _no_end():
    from ore.backends.http import Deadline

    return Deadline(None)


@pytest.mark.embedded
@pytest.mark.parametrize("question", QUESTIONS)
def test_the_probabilities_are_those_of_a_run_without_choices(plain, question):
    messages = [Message("system", "You are a clerk."), Message("user", question)]
    words = ("Yes", "No", "The", "Blue", "I")
    chosen = ChoosingReasoner(plain, "m", Settings(choices=words)).reason(messages)
    found = chosen.metadata["choice"]["probabilities"]
    alone = unconstrained(plain, messages)
    total = sum(alone[word] for word in words)
    assert found == pytest.approx({word: alone[word] / total for word in words}, abs=1e-3)
    assert chosen.metadata["choice"]["covered"] == pytest.approx(total, abs=1e-3)


@pytest.mark.embedded
def test_words_of_several_tokens_are_scored_whole_and_in_any_order(plain):
    messages = [Message("user", "What is the capital of France?")]
    words = ("The capital of Spain", "The capital of France", "The cat", "La France", "Paris")
    one = ChoosingReasoner(plain, "m", Settings(choices=words)).reason(messages)
    found = one.metadata["choice"]["probabilities"]
    other = ChoosingReasoner(plain, "m", Settings(choices=words[::-1])).reason(messages)
    assert found == pytest.approx(other.metadata["choice"]["probabilities"], abs=1e-3)
    alone = {w: math.exp(plain.score(messages, w, ended=False).logprob) for w in words}
    total = sum(alone.values())
    assert found == pytest.approx({w: p / total for w, p in alone.items()}, abs=1e-3)
    assert one.content == "The capital of France"


@pytest.mark.embedded
@pytest.mark.parametrize("rare, requests", [((), 1), (("never",), 2)])
def test_a_turn_that_chooses_is_one_request_and_one_more_for_rare_words(
    plain, monkeypatch, rare, requests
):
    plain.reason([Message("user", "hi")])
    paths = []
    events = plain._engine.events

    def counted(request, **how):
        paths.append(how.get("path", "/v1/chat/completions"))
        return events(request, **how)

    monkeypatch.setattr(plain._engine, "events", counted)
    words = ("not at all", "not sure", "🦊", *rare)
    ChoosingReasoner(plain, "m", Settings(choices=words)).reason([Message("user", WHALE)])
    assert paths == ["/completion"] * requests
