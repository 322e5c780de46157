"""The embedded backend and its reasoner; with a real model where one is marked as needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from ore.artifact import read_artifact
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine_facts import metadata_of
from ore.backends.engine_request import check_settings, request_of
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnTooLargeError
from ore.core import ORE
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    ContextTruncatedError,
    ExtraNotInstalledError,
    IncompleteAnswerError,
    ModelNotFoundError,
    OreError,
    UsageError,
)
from ore.rows.over_rows import over_rows
from ore.rows.tables import open_table
from ore.types import Message, Session
from tests.support.gguf import tiny_model
from tests.support.process import ROOT, environment
from tests.support.shelves import put_model

MODEL = "smollm2:135m"
FEW = {"num_predict": 8}
HI = [
    Message("system", "You are a concise, helpful assistant."),
    Message("user", "Name the capital of France."),
]


def drained(chunks) -> tuple[list[str], object]:
    found = []
    while True:
        try:
            found.append(next(chunks))
        except StopIteration as done:
            return found, done.value


# Without the engine or a model


def test_without_models_there_is_no_default_and_the_error_says_how_to_get_one(home):
    backend = EmbeddedBackend()
    assert (backend.models(), backend.default_model()) == ([], None)
    assert not backend.is_installed()
    assert "`EmbeddedBackend.pull('smollm2:135m')`" in backend.no_default()
    assert str(home / ".ore/models") in backend.no_default()
    assert backend.no_models() == backend.no_default()  # a server that answers would get the model


def test_where_no_model_can_answer_it_is_said_and_not_that_none_is_there(home):
    put_model(home / ".ollama" / "models", "only", tiny_model(general__architecture="gptoss"))
    backend = EmbeddedBackend()
    assert backend.default_model() is None
    assert backend.no_default().startswith("No model that is installed can answer here: name one")


@pytest.mark.parametrize("named, expected", [(None, "mine"), ("/a.gguf", "/a.gguf")])
def test_the_default_is_the_named_model_else_an_installed_one(home, named, expected):
    folder = home / ".ore" / "models"
    folder.mkdir(parents=True)
    (folder / "mine.gguf").write_bytes(b"GGUF")
    assert EmbeddedBackend(named).default_model() == expected
    assert EmbeddedBackend().models() == ["mine"]


def test_a_bad_home_means_not_installed(monkeypatch):
    monkeypatch.setenv("ORE_HOME", "relative")
    assert not EmbeddedBackend().is_installed()
    known = EmbeddedBackend().provenance(MODEL)
    assert known["model_digest"] is None


def test_the_engine_is_looked_for_and_not_imported():
    code = (
        "import sys; from ore.backends.settings import Settings\n"
        "from ore.backends.embedded import EmbeddedBackend\n"
        "backend = EmbeddedBackend(); backend.is_installed(); backend.models()\n"
        "sys.stdout.write(str({'xllamacpp', 'ollama', 'httpx'} & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.stdout == "set()"


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, {"temperature": 0, "repeat_penalty": 1.1, "max_tokens": 1024}),
        (
            {"num_ctx": 512, "num_predict": 3, "num_keep": 4, "temperature": 0.5, "seed": 1},
            {"temperature": 0.5, "repeat_penalty": 1.1, "max_tokens": 3, "n_keep": 4, "seed": 1},
        ),
        (  # as Ollama takes them
            {"num_predict": -2, "num_keep": -7, "repeat_last_n": -1, "temperature": 0},
            {
                **{"temperature": 0, "repeat_penalty": 1.1, "max_tokens": -1, "n_keep": -1},
                "repeat_last_n": 512,
            },
        ),
        (
            {"num_predict": 2**32 - 1, "temperature": 0},
            {"temperature": 0, "repeat_penalty": 1.1, "max_tokens": 2**31 - 1},
        ),
    ],
)
def test_options_reach_the_engine_under_its_own_names(options, expected):
    request = request_of(Settings(options=options), 1024, window=512)
    assert request == {
        **expected,
        "cache_prompt": False,
        "reasoning_format": "auto",
    }


def test_what_the_model_sets_is_taken_as_ollama_takes_it():
    assert request_of(Settings(), 1024, {"repeat_last_n": -1}, 512)["repeat_last_n"] == 512


@pytest.mark.parametrize(
    "options, said",
    [
        ({"num_ctx": 255}, "'num_ctx' is 255: give 256 to 1048576 tokens"),
        ({"num_ctx": "wide"}, "'num_ctx' is wide: give 256 to"),
        ({"num_gpu": "5"}, "'num_gpu' is 5: give a whole number of layers"),
        ({"repeat_last_n": 10**9}, "'repeat_last_n' is 1000000000: give at most 1048576 tokens"),
        (
            {"repeat_penalty": 0},
            "'repeat_penalty' is 0: give a number above 0, where 1 is no penalty",
        ),
    ],
)
def test_a_value_that_the_engine_can_t_have_is_said_before_it_is_asked(options, said):
    with pytest.raises(UsageError, match=said):
        check_settings(Settings(options=options))


def test_an_option_that_is_none_is_not_given():
    none = dict.fromkeys(("num_ctx", "num_gpu", "num_predict", "repeat_last_n", "temperature"))
    check_settings(Settings(options=none))


@pytest.mark.parametrize(
    "last", [{}, {"finish_reason": "stop"}, {"timings": {"predicted_n": 3}}], ids=str
)
def test_an_answer_without_an_end_or_without_its_counts_is_incomplete(last):
    with pytest.raises(IncompleteAnswerError):
        metadata_of(last, 4096)


@pytest.mark.skipif("EmbeddedBackend().has_engine()", reason="the engine is installed")
def test_without_the_engine_a_reasoner_names_what_is_missing():
    with pytest.raises(ExtraNotInstalledError, match="requirements-embedded.txt"):
        EmbeddedReasoner(MODEL)


# With the engine and the model


@pytest.fixture(scope="module")
def kept():
    """One reasoner for the tests that need no other, loaded once."""
    from tests.conftest import MODEL_DIR

    path = next(Path(MODEL_DIR).glob("*.gguf"))
    with closing(EmbeddedReasoner(str(path), Settings(options={"num_predict": 12}))) as reasoner:
        yield reasoner


@pytest.mark.embedded
def test_an_answer_is_the_same_whole_or_in_chunks_and_each_time(kept):
    whole = kept.reason(HI)
    chunks, streamed = drained(kept.stream_reason(HI))
    assert whole.content == streamed.content == "".join(chunks) == kept.reason(HI).content
    assert "Paris" in whole.content and len(chunks) > 3
    assert streamed.metadata["cached_tokens"] == 0


@pytest.mark.embedded
def test_the_metadata_come_from_the_engine(kept):
    metadata = kept.reason(HI).metadata
    for name in ("eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration"):
        assert type(metadata[name]) is int and metadata[name] > 0
    assert metadata["eval_count"] <= 12
    assert (
        metadata["prompt_eval_duration"] + metadata["eval_duration"] <= metadata["total_duration"]
    )
    assert metadata["done_reason"] in ("stop", "length")
    assert metadata["context"] == {
        "status": "complete",
        "window": 4096,
        "prompt_tokens": metadata["prompt_eval_count"],
        "exact": True,
        "planned_tokens": None,
    }
    assert json.loads(json.dumps(metadata)) == metadata


@pytest.mark.embedded
def test_an_answer_that_is_cut_by_its_limit_says_so(model_dir):
    with closing(EmbeddedReasoner(MODEL, Settings(options={"num_predict": 2}))) as reasoner:
        metadata = reasoner.reason(HI).metadata
    assert (metadata["eval_count"], metadata["done_reason"]) == (2, "length")


@pytest.mark.embedded
def test_a_limit_that_is_no_number_is_the_engine_s_to_refuse(model_dir):
    with closing(EmbeddedReasoner(MODEL, Settings(options={"num_predict": "5"}))) as reasoner:
        with pytest.raises(BackendError, match="refused the turn"):
            reasoner.reason(HI)


@pytest.mark.embedded
def test_several_system_messages_and_a_tool_s_result_all_reach_the_model(kept):
    skill, tool = Message("system", "[Skill:x]\nBe kind."), Message("user", "[Tool:x]\nok")
    alone = kept.reason(HI).metadata["prompt_eval_count"]
    more = kept.reason([HI[0], skill, tool, HI[1]])
    assert more.content and more.metadata["prompt_eval_count"] > alone + 10


@pytest.mark.embedded
@pytest.mark.parametrize(
    "messages, error",
    [
        ([], UsageError),
        ([Message("tool", "x")], UsageError),
        ([Message("user", "half \ud800")], UsageError),
        ([Message("user", "look", images=(b"x",))], CapabilityError),
    ],
    ids=["none", "role", "surrogate", "image"],
)
def test_messages_that_a_model_can_t_take_are_refused(kept, messages, error):
    with pytest.raises(error):
        kept.reason(messages)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "settings",
    [
        Settings(keep_alive=5.0),
        Settings(think=True),
        Settings(think="low"),
        Settings(options={"num_gpu": 1}),
    ],
    ids=["keep alive", "think", "think how much", "option"],
)
def test_a_setting_that_the_engine_does_not_have_is_refused(model_dir, settings):
    with pytest.raises(CapabilityError):
        with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
            reasoner.reason(HI)


@pytest.mark.embedded
@pytest.mark.invariant
@pytest.mark.parametrize(
    "strict, error", [(False, TurnTooLargeError), (True, ContextTruncatedError)]
)
def test_a_prompt_that_does_not_fit_is_an_error_and_never_a_cut(model_dir, strict, error):
    settings = Settings(strict_context=strict, options={**FEW, "num_ctx": 256})
    session = Session()
    with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        with pytest.raises(error, match=r"has \d+ tokens .* holds 256") as raised:
            ORE(reasoner, "").execute("word " * 400, session)
        assert type(raised.value) is error and not session.messages
        assert reasoner.reason(HI).content


@pytest.mark.embedded
def test_an_answer_that_fills_the_window_ends_there_and_says_so(model_dir):
    endless = {"type": "array", "items": {"type": "boolean"}, "minItems": 400}
    settings = Settings(format=endless, options={"num_ctx": 256, "num_predict": -1})
    with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        metadata = reasoner.reason(HI).metadata
    assert metadata["done_reason"] == "length"
    assert 250 < metadata["prompt_eval_count"] + metadata["eval_count"] <= 257
    assert metadata["context"]["status"] == "complete"


@pytest.mark.embedded
def test_a_conversation_costs_its_new_tokens_only(model_dir):
    session = Session()
    with closing(EmbeddedReasoner(MODEL, Settings(conversation=True, options=FEW))) as reasoner:
        engine = ORE(reasoner, "You are brief. " * 20)
        first = engine.execute("Name the capital of France.", session).metadata
        second = engine.execute("And of Italy?", session).metadata
    assert first["cached_tokens"] == 0
    assert second["prompt_eval_count"] > first["prompt_eval_count"]
    new = second["prompt_eval_count"] - second["cached_tokens"]
    assert new < first["prompt_eval_count"] / 2


@pytest.mark.embedded
def test_a_turn_that_is_dropped_leaves_the_next_one_as_it_is(kept):
    expected = kept.reason(HI).content
    for prompt in ("Tell a story.", "word " * 2000):
        chunks = kept.stream_reason([Message("user", prompt)])
        if prompt.startswith("Tell"):
            next(chunks)
        chunks.close()
        assert kept.reason(HI).content == expected
    assert kept.phase() == "waiting"


@pytest.mark.embedded
@pytest.mark.parametrize(
    "settings", [Settings(deadline=1.0), Settings(timeout=0.01)], ids=["deadline", "silence"]
)
def test_a_turn_that_takes_too_long_is_an_error_and_the_next_one_works(model_dir, settings):
    with closing(EmbeddedReasoner(MODEL, settings)) as reasoner:
        with pytest.raises(BackendTimeoutError):
            reasoner.reason([Message("user", "word " * 3500)])


@pytest.mark.embedded
def test_a_closed_reasoner_answers_again(model_dir):
    reasoner = EmbeddedReasoner(MODEL, Settings(options=FEW))
    first = reasoner.reason(HI)
    reasoner.close()
    reasoner.close()
    again = reasoner.reason(HI)
    reasoner.close()
    assert first.content == again.content
    assert first.metadata["load_duration"] > 0 and again.metadata["load_duration"] > 0


@pytest.mark.embedded
def test_a_model_is_known_by_its_hash_and_release(model_dir):
    known = EmbeddedBackend().provenance(MODEL)
    assert known["model_digest"].startswith("b179c9523d0e6a0f")
    assert known["server_version"].startswith("xllamacpp ")


@pytest.mark.embedded
def test_names_and_paths_lead_to_models_and_others_to_errors(model_dir, tmp_path):
    with pytest.raises(ModelNotFoundError):
        EmbeddedBackend().reasoner("nope", Settings())
    path = tmp_path / "mein Modell é.gguf"
    os.symlink(next(model_dir.glob("*.gguf")), path)
    with closing(EmbeddedBackend().reasoner(str(path), Settings(options=FEW))) as reasoner:
        response = reasoner.reason(HI)
    assert "Paris" in response.content and response.model_id == str(path)


@pytest.mark.embedded
@pytest.mark.parametrize("size", [100, 5_000_000], ids=["its head only", "half of it"])
def test_a_damaged_model_is_reported_in_one_sentence(model_dir, tmp_path, size, capfd):
    path = tmp_path / "half.gguf"
    with open(next(model_dir.glob("*.gguf")), "rb") as file:
        path.write_bytes(file.read(size))
    with pytest.raises(OreError, match="can't be loaded"):
        with closing(EmbeddedReasoner(str(path))) as reasoner:
            reasoner.reason(HI)
    assert capfd.readouterr() == ("", "")


@pytest.mark.embedded
def test_processes_side_by_side_answer_alike_and_end_cleanly(model_dir, tmp_path):
    command = [sys.executable, str(ROOT / "main.py"), "--backend", "embedded", HI[1].content]
    runs = [
        subprocess.Popen(
            command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    ended = [(*run.communicate(timeout=120), run.returncode) for run in runs]
    assert len(set(ended)) == 1 and ended[0][1:] == ("", 0) and "Paris" in ended[0][0]


@pytest.mark.embedded
def test_a_model_that_became_another_file_is_loaded_anew_and_never_named_for_the_old_one(tmp_path):
    path, other = tmp_path / "m.gguf", tiny_model(general__name="another")
    path.write_bytes(tiny_model())
    backend = EmbeddedBackend()
    with closing(backend.reasoner(str(path), Settings(options={"num_predict": 1}))) as reasoner:

        def answered_by() -> tuple[int, str | None]:
            loaded = reasoner.reason(HI).metadata["load_duration"] > 0
            return loaded, backend.provenance(str(path))["model_digest"]

        assert answered_by() == (True, sha256(tiny_model()).hexdigest())
        path.with_name("new").write_bytes(other)
        path.with_name("new").rename(path)
        assert backend.provenance(str(path))["model_digest"] is None  # it answered nothing yet
        assert answered_by() == (True, sha256(other).hexdigest())
        assert answered_by() == (False, sha256(other).hexdigest())
        path.unlink()
        assert answered_by() == (False, None)


@pytest.mark.embedded
def test_a_program_s_artifact_names_no_file_that_did_not_answer(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_model())
    with ORE(EmbeddedReasoner(path, Settings(options={"num_predict": 1})), "") as engine:
        response = engine.execute("Hi.")
        assert (
            engine.record(response).provenance["model_digest"] == sha256(tiny_model()).hexdigest()
        )
        path.with_name("new").write_bytes(tiny_model(general__name="another"))
        path.with_name("new").rename(path)
        assert engine.record(response).provenance["model_digest"] is None


@pytest.mark.embedded
def test_a_program_s_rows_name_the_file_that_is_loaded_for_them(tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny_model())
    (table := tmp_path / "t.csv").write_text("name\nAda\n")
    with ORE(EmbeddedReasoner(path, Settings(options={"num_predict": 1})), "") as engine:
        engine.execute("Hi.")
        another = tiny_model(general__name="another")
        path.with_name("new").write_bytes(another)
        path.with_name("new").rename(path)
        with (
            open_table(str(table)) as rows,
            over_rows(engine, "Greet {{name}}.", rows, folder=tmp_path / "answers") as run,
        ):
            (outcome,) = run.outcomes()
    assert read_artifact(outcome.artifact).provenance["model_digest"] == sha256(another).hexdigest()


@pytest.mark.embedded
def test_a_model_of_a_shelf_that_was_fetched_anew_is_loaded_anew(home):
    shelf = home / ".ore" / "models"
    put_model(shelf, "mine", tiny_model())
    backend = EmbeddedBackend()
    with closing(backend.reasoner("mine", Settings(options={"num_predict": 1}))) as reasoner:
        for model in (tiny_model(), tiny_model(general__name="another")):
            put_model(shelf, "mine", model)
            assert reasoner.reason(HI).metadata["load_duration"] > 0
            assert backend.provenance("mine")["model_digest"] == sha256(model).hexdigest()


@pytest.mark.embedded
def test_a_model_may_be_named_by_an_open_descriptor(tmp_path):
    (tmp_path / "m.gguf").write_bytes(tiny_model())
    with open(tmp_path / "m.gguf", "rb") as file:
        path = f"/dev/fd/{file.fileno()}"
        with closing(EmbeddedReasoner(path, Settings(options={"num_predict": 1}))) as reasoner:
            assert reasoner.reason(HI).metadata["eval_count"] == 1
