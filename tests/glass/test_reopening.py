"""Recorded runs opened again by a program: judged by their model, and what their answers rest on."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import ore
from ore import ExecutionArtifact, Reopening
from ore.backends.embedded import EmbeddedBackend
from ore.errors import (
    ArtifactError,
    CapabilityError,
    CheckFailedError,
    ModelNotFoundError,
    ServerUnreachableError,
    UsageError,
)
from ore.glass.provenance import MadeWith, Sourced, TurnFacts, artifact_of
from ore.glass.rerun import Rerun, not_repeated
from ore.types.score import Score, ScoredToken
from tests.support.harness import ScriptedBackend, ScriptedReasoner

DIGEST = "a" * 64
ANSWER = "The boat is in the cellar."


@dataclass
class Place:
    """A departure, as the engine tells of it."""

    at: int
    said: str
    instead: str
    gap: float


class Model(ScriptedReasoner, ore.Scorer):
    """Follows an answer to the places it was given, and scores one by what it was sent."""

    def __init__(self, places=()):
        super().__init__(["Paris."])
        self.places, self.followed, self.ends = list(places), [], 0

    def departures(self, messages, text, *, was_cut=False, most=math.inf):
        self.followed.append([each.content for each in messages])
        return self.places

    def score(self, messages, text, *, ended=True):
        has_note = any("cellar" in each.content for each in messages)
        return Score(text, (ScoredToken(text, -1.0 if has_note else -4.0),), ended, "m", 3)

    def score_each(self, messages, texts):
        return [self.score(messages, text) for text in texts]

    def close(self):
        self.ends += 1


class Here(ScriptedBackend):
    """Where the scripted model is; it has a digest."""

    digest: str | None = DIGEST

    def __init__(self, engine=None):
        super().__init__()
        self.engine, self.made = engine or Model(), 0

    def provenance(self, model_id):
        return {"server_version": None, "model_digest": self.digest}

    def reasoner(self, model_id, settings):
        self.made += 1
        return super().reasoner(model_id, settings)


def run(backend, content=ANSWER, prompt="Where?", options=None, **metadata) -> ExecutionArtifact:
    """A recorded run whose messages are in it."""
    settings = ore.Settings(options={"temperature": 0.0} if options is None else options)
    made = MadeWith(backend, settings, "scripted", is_full=True)
    sent = [Sourced("user", "The cellar is dry.", "file:a.txt"), Sourced("user", prompt, "prompt")]
    response = ore.Response(content, "scripted", metadata={"done_reason": "stop", **metadata})
    return artifact_of(made, TurnFacts(prompt, sent, {}), response)


@pytest.fixture
def place():
    return Here()


@pytest.fixture
def opening(place):
    with Reopening(connect=lambda wanted: place) as made:
        yield made


@pytest.mark.parametrize(
    "gap, verdict, instead", [(0.29, "accept", None), (0.31, "reject", " garden")]
)
def test_a_program_asks_the_model_whether_it_said_that(opening, place, gap, verdict, instead):
    place.engine.places = [Place(18, " cellar", " garden", gap)]
    found = ore.judge(run(place), opening)
    assert (found.verdict, found.instead) == (verdict, instead)
    assert place.engine.followed == [["The cellar is dry.", "Where?"]]


def test_what_cannot_be_said_has_its_reason_and_advice_in_python_s_words(opening, place):
    warm = ore.judge(run(place, options={"temperature": 1.0}), opening)
    assert (warm.verdict, place.made) == ("cannot say", 0) and "temperature was 1" in warm.reason
    of_model = {"parameters": {"temperature": {"value": 0.7, "from": "model"}}}
    usual = {**run(place, options={}).provenance, "effective": of_model}
    warm = ore.judge(dataclasses.replace(run(place), provenance=usual), opening)
    assert "temperature was 0.7" in warm.reason
    old = run(place)
    known = {name: v for name, v in old.provenance.items() if name != "messages"}
    bare = dataclasses.replace(old, provenance=known)
    assert "`ORE.record(full=True)`" in ore.judge(bare, opening).reason
    place.digest = "b" * 64
    assert "the model is another one" in ore.judge(old, opening).reason
    place.engine = ScriptedReasoner([])
    place.digest = DIGEST
    with Reopening(connect=lambda wanted: place) as again:
        assert "can't follow an answer" in ore.judge(old, again).reason


@pytest.mark.parametrize("name, joins", [("ollama", False), ("embedded", True)])
def test_messages_that_were_not_joined_are_left_so_but_for_the_engine(opening, place, name, joins):
    """The engine refuses what would get lost, and joins what another model of that name can't take."""
    place.name = name
    old = run(place)
    provenance = {**old.provenance, "backend": name, "joined": None}
    recalled = opening.recall(dataclasses.replace(old, provenance=provenance))
    assert (recalled.apart, opening.settings(recalled).joins) == (name, joins)


def test_a_backend_that_is_not_there_is_raised_whatever_the_run(place):
    def gone(wanted):
        raise ServerUnreachableError("Nobody is there.")

    with Reopening(connect=gone) as opening, pytest.raises(ServerUnreachableError):
        ore.judge(run(place), opening)


def test_what_was_checked_is_judged_and_what_is_no_artifact_is_not(opening, place, tmp_path):
    from ore.glass.judging import judge_checked

    (tmp_path / "a.json").write_text(json.dumps(run(place).to_dict()))
    (tmp_path / "b.json").write_text("{}")
    checked = ore.verify([tmp_path]).checked
    found = [judge_checked(each, opening) for each in checked]
    assert [None if each is None else each.verdict for each in found] == ["accept", None]
    (tmp_path / "a.json").unlink()
    gone = judge_checked(checked[0], opening)
    assert (gone.verdict, gone.reason) == ("cannot say", "it was changed meanwhile")


def test_an_answer_is_explained_by_its_sources(opening, place):
    told = []
    whole, parts = ore.explain(run(place), opening, tell=lambda *said: told.append(said))
    assert [(each.source, each.drop, each.share) for each in whole.sources] == [
        ("file:a.txt", 3.0, 1.0)
    ]
    assert [part.text for part in parts] == [ANSWER]
    assert told == [(1, 2, ""), (2, 2, "file:a.txt")]


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"thinking": "Hm."}, ArtifactError, "The run: the model thought first"),
        ({"content": ""}, ArtifactError, "The answer is empty"),
    ],
)
def test_what_cannot_be_explained_is_an_error(opening, place, change, error, words):
    with pytest.raises(error, match=words):
        ore.explain(run(place, **change), opening)


def test_another_model_or_one_that_scores_nothing_explains_nothing(place):
    old = run(place)
    place.digest = "b" * 64
    with Reopening(connect=lambda wanted: place) as opening:
        with pytest.raises(
            CheckFailedError, match="^It can't be looked into: the model is another"
        ):
            ore.explain(old, opening, name="It")
        place.digest, place.engine = DIGEST, ScriptedReasoner([])
        with pytest.raises(CapabilityError, match="does not say how likely"):
            ore.explain(old, opening)


def test_one_model_is_loaded_for_many_runs_and_closed_with_the_block(place):
    with Reopening(connect=lambda wanted: place) as opening:
        first, second = opening.open(run(place)), opening.open(run(place, prompt="And?"))
        assert first.reasoner is second.reasoner and (place.made, place.engine.ends) == (1, 0)
        opening.open(run(place, options={"temperature": 0.0, "seed": 7}))
        assert (place.made, place.engine.ends) == (2, 1)
    assert place.engine.ends == 2
    opening.close()
    assert place.engine.ends == 2


def test_where_a_run_is_asked_is_what_the_program_says_and_else_what_made_it(place):
    seen = []

    def connect(wanted):
        seen.append((wanted.model, wanted.backend, wanted.is_name))
        return place

    old = run(place)
    made_here = dataclasses.replace(old, provenance={**old.provenance, "backend": "ollama"})
    Reopening(connect=connect).open(made_here)
    Reopening(backend="openai", connect=connect).open(made_here)
    with pytest.raises(ModelNotFoundError):
        Reopening("other", connect=connect).open(made_here)
    assert seen == [
        ("scripted", "ollama", True),
        ("scripted", "openai", True),
        ("other", None, False),
    ]


def test_a_model_is_waited_for_where_somebody_wants_to_know(place):
    seen = []

    @contextmanager
    def waiting(phase):
        seen.append(phase())
        yield
        seen.append("over")

    with Reopening(connect=lambda wanted: place, waiting=waiting) as opening:
        ore.judge(run(place), opening)
    assert seen == ["waiting", "over"]


def test_options_are_names_or_texts_and_are_checked(place):
    for given in ({"seed": 7, "temperature": 0.5}, ["seed=7", "temperature=0.5"]):
        opening = Reopening(options=given, connect=lambda wanted: place)
        assert opening.options == {"seed": 7, "temperature": 0.5}
        assert opening.option_texts == ["seed=7", "temperature=0.5"]
    with pytest.raises(UsageError, match="There is no option 'sed'; the nearest is 'seed'"):
        Reopening(options={"sed": 7})


@pytest.mark.parametrize("stop", [[], ["a", "b"], "a"])
def test_texts_to_stop_at_are_sent_again_as_they_were(stop, place):
    options = {"stop": stop, "seed": 1}
    with Reopening(connect=lambda wanted: place) as opening:
        assert opening.recall(run(place, options=options)).settings.options == options


def test_a_run_that_names_no_model_or_somebody_s_file_says_what_to_do(place):
    old = run(place)
    for name, words in ((" ", "name one with `model=`"), ("own.gguf", "name it with `model=PATH`")):
        nameless = dataclasses.replace(old, input=dataclasses.replace(old.input, model_id=name))
        with pytest.raises(ArtifactError, match=words) as caught:
            Reopening(connect=lambda wanted: place).recall(nameless)
        assert caught.value.advice[-1].what == "model"


def test_what_a_prompt_alone_does_not_bring_is_named(place):
    old = run(place, options={"temperature": 0.0, "seed": 7})
    assert not_repeated(old) == ["file a.txt", "option temperature", "option seed"]
    assert not_repeated(old, usual_system="Rhyme.", options={"seed"}) == [
        "file a.txt",
        "having no system prompt",
        "option temperature",
    ]
    assert not_repeated(dataclasses.replace(old, provenance=None), usual_system="Rhyme.") == []


@pytest.mark.parametrize(
    "name, words",
    [
        ("gone:1b", "fetch it with `EmbeddedBackend.pull('gone:1b')`, or name one with `model=`"),
        ("a `b(c)`", "no model 'a 'b(c)'': name one with `model=`"),
    ],
)
def test_a_model_that_the_engine_has_not_got_can_be_fetched_where_it_is_a_name(home, name, words):
    """Another model would answer a replay, and nothing of what is asked about the run that was."""
    made_with = Rerun(name, "embedded", is_recorded=True)
    with pytest.raises(ModelNotFoundError, match=re.escape(words)):
        made_with.check(EmbeddedBackend())
