"""``--verify --with-model``: what is said of a recorded answer, and the exit code."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass
from typing import Any

import pytest

from ore.backends.turn_errors import TurnRefusedError, TurnTookLongError
from ore.errors import BackendError, ContextTruncatedError
from tests.support.harness import ScriptedBackend, ScriptedReasoner, run_ore
from tests.support.runs import forge, record, rewrite

pytestmark = pytest.mark.usefixtures("folder")

DIGEST = "a" * 64
ANSWER = "The boat is in the cellar."
ENDED = {"done_reason": "stop", "eval_count": 8}


@dataclass
class Place:
    """A departure, as the engine tells of it."""

    at: int
    said: str
    instead: str
    gap: float
    is_bound: bool = False


class Following(ScriptedReasoner):
    """Follows an answer to the places that the test gives."""

    places: list[Any] = []
    followed: list[Any] = []

    def departures(self, messages, text, *, was_cut=False, most=math.inf):
        self.followed.append(([(each.role, each.content) for each in messages], text, was_cut))
        for each in self.places:
            if isinstance(each, Exception):
                raise each
        return self.places


class Stopping:
    """Follows the first answer, and stops at the second one."""

    def __init__(self, stop: BaseException) -> None:
        self.stop, self.calls = stop, 0

    def departures(self, *_, **__):
        self.calls += 1
        if self.calls == 2:
            raise self.stop
        return []


class Model(ScriptedBackend):
    """A backend whose model has a digest, and can follow an answer."""

    name = "scripted"
    digest: str | None = DIGEST

    def __init__(self, places=(), digest: str | None = DIGEST, replies=(ANSWER,)) -> None:
        super().__init__(replies)
        self.engine = Following(replies)
        self.engine.places, self.engine.followed = list(places), []
        self.engine.metadata.update(ENDED)
        self.digest = digest

    def provenance(self, model_id):
        return {"server_version": None, "model_digest": self.digest}


def recorded(folder, *flags: str, metadata=None, **more) -> dict[str, Any]:
    model = Model(**more)
    model.engine.metadata.update(metadata or {})
    flags = flags or ("-o", "temperature=0")
    return record(folder / "a.json", "Where?", *flags, open_backend=lambda *_: model)


def verified(*flags: str, model: Model | None = None, paths=("a.json",)):
    model = model or Model()
    result = run_ore("--verify", "--with-model", *paths, *flags, open_backend=lambda *_: model)
    assert "Traceback" not in result.err
    return result, model


@pytest.mark.invariant
def test_an_answer_that_the_model_says_is_accepted(folder):
    recorded(folder)
    result, model = verified()
    assert (result.code, result.out) == (
        0,
        "a.json\tholds\taccept: the model says this, token by token\n",
    )
    [(messages, text, was_cut)] = model.engine.followed
    assert (messages[-1], text, was_cut) == (("user", "Where?"), ANSWER, False)
    assert model.engine.calls == []


def test_the_answer_that_a_run_of_a_folder_went_on_from_is_found_in_the_folder(folder):
    (folder / "runs").mkdir()
    recorded(folder)
    (folder / "a.json").rename(folder / "runs" / "a.json")
    flags = ("--after", "runs/a.json", "-o", "temperature=0")
    record(folder / "runs" / "b.json", "And?", *flags, open_backend=lambda *_: Model())
    result, model = verified(paths=("runs",))
    assert (result.code, result.out.count("accept:")) == (0, 2), result.out
    assert [sent[0][-2][1].endswith(ANSWER) for sent in model.engine.followed] == [False, True]


@pytest.mark.parametrize("gap, code", [(0.29, 0), (0.31, 3)])
def test_the_threshold_is_three_tenths_of_a_nat(folder, gap, code):
    recorded(folder)
    result, _ = verified(model=Model([Place(18, " cellar", " garden", gap)]))
    assert result.code == code


def test_the_first_token_that_the_model_would_not_have_said_is_named(folder):
    recorded(folder)
    places = [
        Place(3, " boat", " ship", 0.01),
        Place(18, " c", " garden", 3.68),
        Place(25, ".", "", 9),
    ]
    result, _ = verified(model=Model(places))
    assert result.code == 3
    assert result.out == (
        "a.json\tholds\treject: after 'The boat is in the' it has 'cellar.', where the model would go "
        "on with 'garden' (likelier by 3.7 nats)\n"
    )
    assert result.err == ("ore: 1 artifact: 1 holds; 1 not said by its model. Its line says why.\n")
    result, _ = verified("--json", model=Model(places))
    assert result.code == 3
    assert result.json[0]["model"] == {
        "verdict": "reject",
        "reason": None,
        "at": 18,
        "said": " cellar.",
        "instead": " garden",
        "gap": 3.68,
    }


@pytest.mark.parametrize(
    "place, words",
    [
        (Place(26, "", " It", 2.0), "after '…' it ends, where the model would go on with 'It'"),
        (Place(18, " cellar", "", 2.0), "it has 'cellar.', where the model would end"),
        (Place(0, "The", "Le", 2.0), "reject: it has 'The', where the model would go on with 'Le'"),
    ],
    ids=["ends too early", "goes on", "begins"],
)
def test_where_an_answer_begins_and_ends(folder, place, words):
    recorded(folder)
    result, _ = verified(model=Model([place]))
    assert words.replace("…", ANSWER) in result.out and result.code == 3


CANNOT = [
    (
        ["-o", "temperature=0.7"],
        {},
        "its temperature was 0.7, and only at 0 a model has one answer",
    ),
    (["-o", "seed=1"], {}, "it does not say its temperature"),
    (["-o", "temperature=0", "-o", "stop=."], {}, "it was asked with stop texts"),
    (
        ["-o", "temperature=0"],
        {"done_reason": None},
        "it does not say that the answer ended by itself, or at a limit",
    ),
    (
        ["-o", "temperature=0"],
        {"done_reason": "content_filter"},
        "it does not say that the answer ended by itself, or at a limit",
    ),
    (["-o", "temperature=0"], {"choice": {"probability": 1}}, "it was chosen from words"),
    (["-o", "temperature=0"], {"thinking": "Hm."}, "the model thought first"),
]


@pytest.mark.parametrize("flags, metadata, reason", CANNOT, ids=[each[2][:30] for each in CANNOT])
def test_what_cannot_be_said_is_0_and_why(folder, flags, metadata, reason):
    recorded(folder, *flags, metadata=metadata)
    result, model = verified()
    assert result.code == 0 and model.engine.followed == []
    assert result.out.startswith(f"a.json\tholds\tcannot say: {reason}")


@pytest.mark.parametrize(
    "model, reason",
    [
        (Model(digest="b" * 64), "the model is another one"),
        (Model(digest=None), "the digest of scripted is not known here"),
        (Model([ContextTruncatedError("The prompt has 9 tokens.")]), "The prompt has 9 tokens"),
        (Model([TurnRefusedError("The chat template fails.")]), "The chat template fails"),
        (Model([TurnTookLongError("It took too long.")]), "It took too long"),
    ],
    ids=["another digest", "no digest", "too long", "refused", "late"],
)
def test_another_model_or_a_turn_that_fails_by_itself_is_cannot_say(folder, model, reason):
    recorded(folder)
    result, _ = verified(model=model)
    assert result.code == 0 and f"cannot say: {reason}" in result.out


def test_a_backend_that_cannot_follow_is_cannot_say(folder):
    recorded(folder)
    model = Model()
    model.engine = ScriptedReasoner([])
    result, _ = verified(model=model)
    assert result.code == 0
    assert "cannot say: the backend scripted can't follow an answer token by token" in result.out


def test_messages_that_are_not_in_it_any_more_are_cannot_say(folder):
    (folder / "note.txt").write_text("The boat is in the cellar.")
    recorded(folder, "-o", "temperature=0", "-f", "note.txt")
    result, _ = verified()
    assert result.code == 0 and "record such runs with --artifact-full" in result.out
    recorded(folder, "-o", "temperature=0", "-f", "note.txt", "--artifact-full")
    assert "accept" in verified()[0].out


def test_a_changed_persona_is_cannot_say(folder, home):
    (home / ".ore/personas").mkdir(parents=True)
    persona = home / ".ore/personas/poet.md"
    persona.write_text("You rhyme.")
    recorded(folder, "-o", "temperature=0", "--persona", "poet")
    persona.write_text("You do not rhyme.")
    result, _ = verified()
    assert result.code == 0 and "cannot say: its messages are not what they were" in result.out


def test_a_skill_of_one_run_that_is_gone_keeps_no_other_from_being_judged(folder, home, writing):
    recorded(folder)
    (folder / "a.json").rename(folder / "b.json")
    recorded(folder, "-o", "temperature=0", "--skill", "writing")
    shutil.rmtree(home / ".ore/skills/writing")
    result, _ = verified(paths=("a.json", "b.json"))
    assert result.code == 0 and "cannot say: There is no skill 'writing'" in result.out
    assert "b.json\tholds\taccept" in result.out


def test_an_answer_that_was_cut_is_followed_as_one(folder):
    recorded(folder, metadata={"done_reason": "length"})
    assert verified()[1].engine.followed[0][2] is True


def test_an_edit_that_was_sealed_again_is_left_to_the_model(folder):
    recorded(folder)

    forge(folder / "a.json", "cellar", "garden")
    assert run_ore("--verify", "a.json").code == 0
    result, model = verified(model=Model([Place(18, " garden", " cellar", 4.0)]))
    assert result.code == 3 and "it has 'garden.'" in result.out
    assert model.engine.followed[0][1] == "The boat is in the garden."


def test_a_broken_artifact_is_judged_and_broken(folder):
    recorded(folder)
    rewrite(folder / "a.json", lambda document: document["output"].update(content="No."))
    result, _ = verified()
    assert result.code == 3 and result.out.startswith("a.json\tbroken\taccept")


def test_what_is_no_artifact_has_no_judgement(folder):
    (folder / "b.json").write_text("{}")
    recorded(folder)
    result, model = verified("--json", paths=("b.json", "a.json"))
    assert ["model" in each for each in result.json] == [False, True]
    assert len(model.engine.followed) == 1


def test_an_engine_that_fails_is_an_error_and_no_verdict(folder):
    recorded(folder)
    result, _ = verified(model=Model([BackendError("The engine failed.")]))
    assert (result.code, result.out) == (1, "")


@pytest.mark.parametrize("stop", [BackendError("The engine failed."), KeyboardInterrupt()])
def test_what_was_said_until_the_engine_failed_is_written(folder, stop):
    recorded(folder)
    (folder / "b.json").write_bytes((folder / "a.json").read_bytes())
    for flags in ((), ("--json",)):
        model = Model()
        model.engine.departures = Stopping(stop).departures
        result, _ = verified(*flags, model=model, paths=("a.json", "b.json"))
        assert result.code == (1 if isinstance(stop, BackendError) else 130)
        lines = [each["path"] for each in result.json] if flags else result.out.splitlines()
        assert len(lines) == 1 and lines[0].startswith("a.json")


@pytest.mark.parametrize(
    "flags, sentence",
    [
        (["hi", "--with-model"], "--with-model needs --verify"),
        (["--verify", "a.json", "--model", "m"], "--verify asks a model only with --with-model"),
        (["--verify", "--with-model"], "--verify needs at least one value"),
        (["--replay", "a.json", "--with-model"], "--replay can't be used with --with-model"),
    ],
)
def test_flags_that_do_not_go_with_a_judged_check_are_wrong_usage(ore, flags, sentence):
    result = ore(*flags)
    assert result.code == 2 and sentence in result.err


def test_another_model_than_the_pinned_one_is_not_asked_and_the_check_does_not_hold(folder):
    recorded(folder)
    result, _ = verified("--model", f"scripted@sha256:{DIGEST[:12]}")
    assert result.code == 0 and "accept" in result.out
    result, model = verified("--model", f"scripted@sha256:{'0' * 12}")
    assert result.code == 3 and "scripted is not the model that is pinned" in result.err
    assert model.engine.followed == []


@pytest.mark.parametrize("order", ["--verify --with-model a.json", "--with-model --verify a.json"])
def test_it_may_stand_before_the_path(folder, order):
    recorded(folder)
    model = Model()
    assert run_ore(*order.split(), open_backend=lambda *_: model).code == 0
