"""A prompt asked of every row of a table by a program: planned, asked, gone on with, and how it ends."""

from __future__ import annotations

import errno
import json
import math
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

import ore
from ore import ORE, Reasoner, Response
from ore.backends.address import Host
from ore.backends.load_failures import load_error
from ore.backends.refusals import ollama_status_error, openai_status_error
from ore.errors import (
    ArtifactError,
    BackendError,
    CheckFailedError,
    ModelNotFoundError,
    OreError,
    ServerUnreachableError,
    UsageError,
)
from ore.rows.kept import asked_digest
from ore.rows.row_checks import case_of
from ore.rows.row_turns import Outcome
from ore.rows.tally import Tally
from ore.types import ToolResult
from tests.conftest import MODEL_DIR
from tests.support.closed import beside_a_closed_folder
from tests.support.harness import run_ore
from tests.support.keys import allow, make_keys, needs_ssh_keygen
from tests.support.process import until

NO_MEMORY = b'{"error": "model requires more system memory (41 GiB) than is available (7 GiB)"}'
PROMPT = "What is the capital of {{country}}?"
CAPITALS = {"France": "Paris.", "Italy": "Rome.", "Japan": "Tokyo."}


class Capitals(Reasoner):
    """Knows three capitals, and raises what it is given for a country."""

    model_id = "atlas"

    def __init__(self, **errors):
        self.errors, self.asked = errors, []

    def reason(self, messages):
        country = messages[-1].content.split()[-1].rstrip("?")
        self.asked.append([(each.role, each.content) for each in messages])
        if country in self.errors:
            raise self.errors[country]
        return Response(CAPITALS[country], self.model_id, metadata={"total_duration": 10**9})


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "countries.csv"
    path.write_text("country,expected\nFrance,Paris.\nItaly,Milan.\nJapan,Tokyo.\n")
    with ore.open_table(str(path)) as opened:
        yield opened


def ask(reasoner, table, prompt=PROMPT, **more):
    """What became of each row, and the run."""
    with ore.over_rows(ORE(reasoner, "Be brief."), prompt, table, jobs=1, **more) as run:
        return list(run.outcomes()), run


def test_every_row_is_one_turn_and_comes_in_the_order_of_the_table(table):
    reasoner = Capitals()
    found, run = ask(reasoner, table)
    assert [(each.row.number, each.content) for each in found] == [
        (1, "Paris."),
        (2, "Rome."),
        (3, "Tokyo."),
    ]
    assert sorted(reasoner.asked)[0] == [
        ("system", "Be brief."),
        ("user", "What is the capital of France?"),
    ]
    assert run.error() is None and (run.tally.done, run.tally.failed) == (3, 0)


def test_each_row_has_an_artifact_that_holds_and_is_not_asked_twice(table, tmp_path):
    folder = tmp_path / "answers"
    found, _ = ask(Capitals(), table, folder=folder, full=True)
    assert ore.verify([folder]).counts == {"holds": 3}
    first = json.loads(found[0].artifact.read_text())
    assert first["provenance"]["row"] == {"number": 1, "line": 2}
    sources = [each["source"] for each in first["provenance"]["sources"]]
    assert sources == ["system", "prompt"] and first["provenance"]["system_prompt"] == "Be brief."
    again = Capitals()
    found, run = ask(again, table, folder=folder, full=True)
    assert again.asked == [] and run.tally.there == 3
    assert [each.is_new for each in found] == [False] * 3
    _, other = ask(again, table, "Is {{country}} large? Capital of {{country}}?", folder=folder)
    assert other.others() == 3 and len(again.asked) == 3


def test_messages_that_are_never_joined_are_another_question(table, tmp_path):
    folder, never = tmp_path / "answers", Capitals()
    never.settings = ore.Settings(joins=False)
    ask(Capitals(), table, folder=folder)
    found, _ = ask(never, table, folder=folder)
    assert all(each.is_new for each in found) and len(never.asked) == 3
    kept = json.loads(found[0].artifact.read_text())
    assert kept["provenance"]["join_messages"] == "never"


def test_the_plan_counts_and_asks_nothing(table, tmp_path):
    folder, reasoner = tmp_path / "answers", Capitals(Italy=BackendError("No."))
    ask(reasoner, table, folder=folder)
    asked = len(reasoner.asked)
    told = []
    run = ore.over_rows(ORE(reasoner, "Be brief."), PROMPT, table, folder=folder, jobs=2)
    plan = run.plan(told.append)
    assert (plan.rows, plan.there, plan.to_ask, plan.jobs, plan.model_id) == (3, 2, 1, 2, "atlas")
    assert plan.seconds is None and told == [1, 2, 3] and len(reasoner.asked) == asked
    assert [each.content for each in plan.first] == ["Be brief.", "What is the capital of Italy?"]
    assert 0 < plan.tokens["least"] <= plan.tokens["likely"] <= plan.tokens["most"]
    document = plan.to_dict()
    assert document["plan_version"] == "ore.rows.v1" and document["first"][0]["source"] == "system"


def test_the_time_of_a_plan_is_that_of_the_rows_which_are_there(tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("country\n" + "France\n" * 14)
    with ore.open_table(str(path)) as table:
        engine, given = ORE(Capitals(), ""), {"folder": tmp_path / "answers"}
        with ore.over_rows(engine, PROMPT, table, jobs=1, **given) as run:
            with pytest.raises(ZeroDivisionError):
                for number, _ in enumerate(run.outcomes(), 1):
                    assert number < 10 or 1 / 0
        there = run.tally.there + run.tally.done
        plan = ore.over_rows(engine, PROMPT, table, jobs=2, **given).plan()
    assert plan.there >= 10 and plan.there + plan.to_ask == 14 and there >= 10
    assert plan.seconds == plan.to_ask / 2


def test_the_document_of_a_plan_is_the_command_line_s(table, tmp_path):
    path = tmp_path / "countries.csv"
    theirs = run_ore("--rows", str(path), PROMPT, "--system", "Be brief.", "--dry-run").json
    mine = ore.over_rows(ORE(Capitals(), "Be brief."), PROMPT, table).plan().to_dict()
    assert [*mine] == [*theirs]
    same = ("plan_version", "rows", "there", "to_ask", "tokens", "seconds", "first")
    assert {name: mine[name] for name in same} == {name: theirs[name] for name in same}


@pytest.mark.parametrize(
    "errors, more, kind, words",
    [
        (
            {"Italy": BackendError("No.")},
            {},
            OreError,
            "^1 row failed, their outcomes say why. Add",
        ),
        (
            {"Italy": ModelNotFoundError("There is none.", model="m")},
            {},
            OreError,
            "^There is none. Add `folder=",
        ),
        (
            {"France": BackendError("No.")},
            {"most_failures": 1},
            OreError,
            "^Stopped after 1 row failed, as `most_failures=` says. Add",
        ),
        ({"Italy": ArtifactError("Full.")}, {"most_failures": 1}, OreError, "^Stopped after 1 row"),
    ],
)
def test_how_a_run_ends_is_an_error_that_says_how_to_go_on(table, errors, more, kind, words):
    found, run = ask(Capitals(**errors), table, **more)
    error = run.error()
    assert type(error) is kind
    with pytest.raises(kind, match=words):
        raise error


def test_a_run_that_halted_asks_no_further_row(tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("country\n" + "France\n" * 500)
    reasoner = Capitals(France=ModelNotFoundError("There is none.", model="m"))
    with ore.open_table(str(path)) as many:
        found, run = ask(reasoner, many)
    assert run.tally.halt is not None and found[0].error is not None
    assert len(reasoner.asked) == len(found) <= 5


def test_a_folder_is_gone_on_with_by_running_again(table, tmp_path):
    _, run = ask(Capitals(Italy=BackendError("No.")), table, folder=tmp_path / "answers")
    assert "Run it again to go on" in str(run.error("see there"))
    assert str(run.error("see there")).startswith("1 row failed, see there.")


def test_what_is_expected_of_each_row_is_judged(table, tmp_path):
    with ore.open_table(str(tmp_path / "countries.csv")) as again:
        found, run = ask(Capitals(), table, expected=again, key="country")
    assert [each.metadata["expectation"]["holds"] for each in found] == [True, False, True]
    error = run.error()
    assert isinstance(error, CheckFailedError)
    assert str(error) == "1 of 3 rows is not what was expected: their outcomes say why."


def test_one_row_is_said_to_be_one(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("country,expected\nItaly,Rom\n")
    with ore.open_table(str(path)) as table, ore.open_table(str(path)) as again:
        _, run = ask(Capitals(), table, expected=again)
    assert "1 of 1 row is not what was expected" in str(run.error())


@pytest.mark.parametrize("folder", ["/dev/null", "a\0b", "a\ud800b"])
def test_a_folder_that_can_t_be_one_is_said_by_the_argument_s_own_name(table, folder):
    with pytest.raises(ArtifactError, match="Name another folder with `folder=`") as raised:
        ore.over_rows(ORE(Capitals()), PROMPT, table, folder=folder)
    assert raised.value.advice == (ore.Advice("folder"),)


def test_no_more_threads_are_started_than_there_are_rows(table):
    class Counting(Capitals):
        def reason(self, messages):
            seen.append(threading.active_count())
            return super().reason(messages)

    seen, before = [], threading.active_count()
    with ore.over_rows(ORE(Counting(), "Be brief."), PROMPT, table, jobs=500) as run:
        assert len(list(run.outcomes())) == 3
    assert max(seen) < before + 20


def test_the_folder_is_one_run_s_alone(table, tmp_path):
    given = {"folder": tmp_path / "answers"}
    with ore.over_rows(ORE(Capitals()), PROMPT, table, **given):
        with pytest.raises(ArtifactError, match="in use by another run of this process"):
            with ore.over_rows(ORE(Capitals()), PROMPT, table, **given):
                pass
    with ore.over_rows(ORE(Capitals()), PROMPT, table, **given) as run:
        assert len(list(run.outcomes())) == 3


@pytest.mark.parametrize(
    "prompt, system, words",
    [
        ("Why?", "", "no place for a row"),
        ("What of {{town}}?", "", "no column 'town'"),
        (PROMPT, "Speak of {{ country }}.", "The system prompt has a place for 'country'"),
    ],
)
def test_what_cannot_be_asked_is_found_before_the_first_row(table, prompt, system, words):
    with pytest.raises(UsageError, match=words):
        ore.over_rows(ORE(Capitals(), system), prompt, table)


def test_a_prompt_whose_places_are_all_filled_is_not_told_to_have_one(table):
    """The place that it is told to write is there, and the values have filled it."""
    with pytest.raises(
        UsageError, match="left: `values=` fills 'country', so leave out what is a col"
    ):
        ore.over_rows(ORE(Capitals()), PROMPT, table, values={"country": "France"})


def test_every_row_is_given_the_same_skills_and_results_of_tools(table, tmp_path, home):
    reasoner, note = Capitals(), tmp_path / "note.txt"
    note.write_text("a note")
    given = {"tool_results": ore.read_files([note]), "skill_context": ["[Skill:atlas]\nBe right."]}
    found, _ = ask(reasoner, table, folder=tmp_path / "answers", **given)
    assert all(
        asked[:-1]
        == [
            ("system", "Be brief."),
            ("system", "[Skill:atlas]\nBe right."),
            ("user", f"[Tool:file:{note}]\na note"),
        ]
        for asked in reasoner.asked
    )
    artifact = ore.read_artifact(found[0].artifact)
    sources = [each["source"] for each in artifact.provenance["sources"]]
    assert sources == ["system", "skill:atlas", f"file:{note}", "prompt"]
    assert artifact.input.skills == ["atlas"] and ore.verify([found[0].artifact]).holds
    other = Capitals()
    ask(other, table, folder=tmp_path / "answers")
    assert len(other.asked) == 3  # which is another question


@pytest.mark.slow
@needs_ssh_keygen
def test_each_artifact_is_signed_as_it_is_written_and_none_that_was_there(table, tmp_path):
    keys, folder = make_keys(tmp_path), tmp_path / "answers"
    lab = allow(tmp_path / "lab", ("ada@tides.example", keys / "ada"))
    wrong = Capitals(Italy=BackendError("No."))
    ask(wrong, table, folder=folder)
    ask(Capitals(), table, folder=folder, sign=keys / "ada")
    assert ore.verify([folder], allowed_signers=lab).counts == {"not signed": 2, "holds": 1}
    reasoner = Capitals()
    with pytest.raises(ArtifactError, match="can't sign"):
        ask(reasoner, table, folder=folder, sign=tmp_path / "none")
    with pytest.raises(UsageError, match="`folder=`"):
        ask(reasoner, table, sign=keys / "ada")
    assert reasoner.asked == []


@pytest.mark.parametrize("jobs", [0, -1, 1.5, "x"])
def test_a_number_of_jobs_that_is_none_is_refused_before_anything_else_is_looked_at(table, jobs):
    with pytest.raises(UsageError, match="The number of jobs is"):
        ore.over_rows(ORE(Capitals(), ""), "no place", table, jobs=jobs)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_system_that_gives_few_threads_has_all_rows_asked_and_keeps_none(
    table, monkeypatch, most
):
    begin, given = threading.Thread.start, []

    def start(thread):
        if len(given) == most:
            raise RuntimeError("can't start new thread")
        given.append(thread)
        begin(thread)

    with ore.over_rows(ORE(Capitals(), ""), PROMPT, table, jobs=200) as run:
        monkeypatch.setattr(threading.Thread, "start", start)
        assert [each.content for each in run.outcomes()] == list(CAPITALS.values())
    for thread in given:
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize(
    "metadata",
    [
        *({"context": 4096}, {"context": "a"}, {"context": {"window": [1], "prompt_tokens": "x"}}),
        *({"eval_count": "x"}, {"options": 5}, {"options": ["x"]}),
    ],
    ids=repr,
)
def test_metadata_that_mean_something_else_to_a_reasoner_stop_nothing(table, tmp_path, metadata):
    class Own(Capitals):
        def reason(self, messages):
            return replace(super().reason(messages), metadata={**metadata, "done_reason": "length"})

    found, run = ask(Own(), table, folder=tmp_path / "answers")
    assert run.error() is None and ore.verify([tmp_path / "answers"]).counts == {"holds": 3}
    engine = ORE(Own(), "")
    response = engine.execute("What is the capital of France?")
    assert [*ore.notices_of(response, in_session=True)] == []
    assert engine.record(response).output.metadata.items() >= metadata.items()


@pytest.mark.parametrize(
    "nobody",
    [
        ServerUnreachableError("Nobody is there."),
        load_error(Path("/m.gguf"), "tensor 'a' data is not within the file bounds", "", 1 << 30),
        openai_status_error(Host("http://h"), "m", 401, b"{}", has_key=True),
        ollama_status_error(Host("http://h"), "m", 500, NO_MEMORY),
    ],
    ids=["no server", "no model", "no key", "no memory"],
)
@pytest.mark.parametrize("answered, done", [((), 10), ((9,), 20), ((5, 15, 25), 30)])
def test_a_run_stops_where_nobody_is_there_ten_times_in_a_row(answered, done, nobody):
    tally = Tally(30)
    for number in range(30):
        error = None if number in answered else nobody
        if tally.halt is None:
            tally.add(Outcome(ore.Row(number + 1, number + 1), error=error))
    assert tally.done == done
    assert tally.halt is (nobody if done < 30 else None)


@pytest.mark.parametrize(
    "code, is_over",
    [(errno.ENOSPC, True), (errno.EROFS, True), (errno.ENOENT, True), (errno.EPERM, False)],
)
def test_a_run_stops_where_no_answer_can_be_kept_any_more(
    table, tmp_path, monkeypatch, code, is_over
):
    def refuse(*_, **__):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("ore.rows.kept.replace_file", refuse)
    found, run = ask(Capitals(), table, folder=str(tmp_path / "out"))
    assert {outcome.content for outcome in found} & set(CAPITALS.values())
    assert (run.tally.halt is not None) is is_over
    assert is_over or run.tally.failed == 3


def test_a_run_stops_where_ten_answers_in_a_row_can_not_be_kept(tmp_path, monkeypatch):
    def refuse(*_, **__):  # as under a limit on the size of files
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))

    monkeypatch.setattr("ore.rows.kept.replace_file", refuse)
    path = tmp_path / "countries.csv"
    path.write_text("country\n" + "France\n" * 200)
    reasoner = Capitals()
    with ore.open_table(str(path)) as table:
        _, run = ask(reasoner, table, folder=str(tmp_path / "out"))
    assert "file too large" in str(run.error()) and run.tally.halt is not None
    assert len(reasoner.asked) < 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "closes, halts", [(lambda file: file.parent, True), (lambda file: file, False)]
)
def test_a_run_stops_where_a_whole_folder_of_its_artifacts_is_closed(
    table, tmp_path, closes, halts
):
    # What is imported, and Aya's prompt, may be in a copy of ORE that the other user can't read.
    ask(Capitals(), table, folder=tmp_path / "out", persona="brief")
    with beside_a_closed_folder() as (there, _):
        path, folder = there / "countries.csv", there / "out"
        path.write_text("country\n" + "France\n" * 50)
        given = {"folder": folder, "persona": "brief"}
        with ore.open_table(str(path)) as opened:
            ask(Capitals(), opened, **given)
            closed = closes(sorted(folder.glob("*/*.json"))[0])
            mode = closed.stat().st_mode
            closed.chmod(0)
            try:
                again = Capitals()
                _, run = ask(again, opened, **given)
            finally:
                closed.chmod(mode)
        assert again.asked == [] and (run.tally.halt is not None) is halts
        assert run.tally.failed < 10 and "permission denied" in str(run.error()) or not halts


def test_a_run_stops_where_its_log_can_not_be_written_to_any_more(tmp_path, monkeypatch):
    engine = ORE(Capitals(), "")
    artifact = engine.record(engine.execute("What is the capital of France?"))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ArtifactError, match="the folder .* can't be written to") as raised:
        ore.write_artifact(artifact, tmp_path / "run.json")
    tally = Tally(30)
    tally.add(Outcome(ore.Row(1, 1), error=raised.value))
    assert tally.halt is raised.value


def test_the_artifact_of_another_question_is_no_answer(table, tmp_path):
    folder = tmp_path / "out"
    ask(Capitals(), table, folder=str(folder))
    france, italy, _ = sorted(folder.glob("*/*.json"))
    italy.write_bytes(france.read_bytes())
    reasoner = Capitals()
    found, _ = ask(reasoner, table, folder=str(folder))
    assert [outcome.content for outcome in found] == ["Paris.", "Rome.", "Tokyo."]
    assert len(reasoner.asked) == 1


def test_outcomes_that_are_read_again_are_asked_and_counted_anew(table):
    reasoner = Capitals(Italy=BackendError("It is gone."))
    with ore.over_rows(ORE(reasoner, ""), PROMPT, table, jobs=1, most_failures=1) as run:
        assert any([each.error for each in run.outcomes()]) and run.error() is not None
        reasoner.errors.clear()
        assert [outcome.content for outcome in run.outcomes()] == list(CAPITALS.values())
        assert (run.tally.done, run.tally.failed, run.error()) == (3, 0, None)


def test_the_time_left_is_told_once_ten_rows_were_asked():
    tally = Tally(30)
    for number in range(1, 11):
        assert tally.seconds_left() is None
        tally.add(Outcome(ore.Row(number, number), content="Yes."))
    assert tally.seconds_left() is not None and "s left" in tally.in_words()
    tally.halt = BackendError("Gone.")
    assert tally.in_words().startswith("10 of 30 rows") and "left" not in tally.in_words()


@pytest.mark.parametrize("odd", [10**400, 9 * 10**307, -(10**400), float("nan"), float("inf"), "x"])
def test_counts_that_no_turn_has_are_left_out_of_what_is_told(odd):
    metadata = {"eval_count": odd, "load_duration": odd, "eval_duration": odd}
    outcome = Outcome(ore.Row(1, 1), content="Yes.", metadata=metadata)
    tally = Tally(2)
    for _ in range(2):
        tally.add(outcome)
    assert "tokens/s" not in tally.in_words() and case_of(outcome, "t.csv").seconds == 0


def test_no_value_has_a_place_in_the_system_prompt(table):
    values, prompt = {"tongue": "Latin"}, f"{PROMPT} Say it in {{{{tongue}}}}."
    for system in ("Use {{tongue}}.", "Use {{ tongue }}.", "{{country}}"):
        with pytest.raises(UsageError, match="system prompt has a place for '(tongue|country)'"):
            ore.over_rows(ORE(Capitals(), system), prompt, table, values=values)


class Counted(Reasoner):
    """Counts how many turns it takes at once at the most, and waits until there were so many."""

    model_id = "counted"

    def __init__(self, wanted):
        self.lock, self.at_once, self.most, self.wanted = threading.Lock(), 0, 0, wanted

    def reason(self, messages):
        with self.lock:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
        until(lambda: self.most >= self.wanted)
        time.sleep(0.01)
        with self.lock:
            self.at_once -= 1
        return Response("ok", self.model_id)


@pytest.mark.parametrize("places, files, most", [(1, 0, 4), (9, 0, 1), (1, 9, 1)])
def test_prompts_that_are_large_together_are_asked_one_after_another(
    tmp_path, monkeypatch, places, files, most
):
    monkeypatch.setattr("ore.rows.in_order.MOST_AHEAD", 8000)
    path = tmp_path / "rows.txt"
    path.write_text("a" * 120 + "\n" + ("b" * 120 + "\n") * 4)
    reasoner, results = Counted(most), [ToolResult("file:x", "c" * 120, "ok")] * files
    with (
        ore.open_table(str(path)) as table,
        ore.over_rows(
            ORE(reasoner, ""), "{{line}}" * places, table, jobs=4, tool_results=results
        ) as run,
    ):
        assert [each.content for each in run.outcomes()] == ["ok"] * 5
    assert reasoner.most == most


class Wordy(Reasoner):
    """Says much of each turn; the first one waits for others, as for a slow model."""

    model_id = "wordy"

    def __init__(self, said):
        self.said, self.asked, self.ahead, self.are_many = said, 0, 0, threading.Event()

    def reason(self, messages):
        self.asked += 1
        if messages[-1].content == "row 1":
            self.are_many.wait(0.05)
            self.ahead = self.asked
        elif self.asked == 20:
            self.are_many.set()
        return Response("ok", self.model_id, metadata={"said": self.said})


@pytest.mark.slow
@pytest.mark.parametrize("said", ["a" * 20_000, [{"b": 1.5}] * 1000, {"c" * 20_000: None}])
def test_what_is_said_of_rows_counts_where_an_earlier_one_is_slow(tmp_path, monkeypatch, said):
    monkeypatch.setattr("ore.rows.in_order.MOST_AHEAD", 8000)
    path = tmp_path / "rows.txt"
    path.write_text("".join(f"row {number}\n" for number in range(1, 31)))
    reasoner = Wordy(said)
    with (
        ore.open_table(str(path)) as table,
        ore.over_rows(ORE(reasoner, ""), "{{line}}", table, jobs=2) as run,
    ):
        assert [each.content for each in run.outcomes()] == ["ok"] * 30
    assert reasoner.ahead < 10


@pytest.mark.slow
def test_many_columns_are_looked_up_in_a_long_system_prompt_at_once(tmp_path):
    path, names = tmp_path / "wide.csv", [f"c{n}" for n in range(50_000)]
    path.write_text(f"{','.join(names)}\n{',' * (len(names) - 1)}\n")
    system, began = " ".join(f"{{{{d{n}}}}}" for n in range(50_000)), time.process_time()
    with ore.open_table(str(path)) as wide:
        ore.over_rows(ORE(Capitals(), system), "Hi {{c1}}", wide)
        with pytest.raises(UsageError, match="system prompt has a place for 'c9'"):
            ore.over_rows(ORE(Capitals(), f"{system} {{{{c9}}}}"), "Hi {{c1}}", wide)
    assert time.process_time() - began < 5


def test_a_question_is_asked_of_a_model_s_bytes_and_else_of_its_name():
    known = {"backend": "ollama", "messages_sha256": "1", "options": {}, "model_id": "atlas"}
    asked = asked_digest({**known, "model_digest": "a"})
    assert asked != asked_digest({**known, "model_digest": "b"})
    assert asked == asked_digest({**known, "model_digest": "a", "model_id": "globe"})
    assert asked_digest(known) != asked_digest({**known, "model_id": "globe"})
    given = {**known, "chat_template": {"sha256": "1"}}
    assert asked_digest(known) == asked_digest({**known, "chat_template": None})
    assert len({asked_digest(each) for each in (known, given, {**given, "chat_template": {}})}) == 3


@pytest.mark.embedded
def test_another_chat_template_is_another_question(tmp_path, table):
    model = f"embedded:{next(Path(str(MODEL_DIR)).glob('*.gguf'))}"
    there = []
    for template in (None, "{{ messages[0].content }}:", "{{ messages[0].content }}!"):
        settings = {"options": {"num_predict": 1}, "chat_template": template}
        with ore.reasoner(model, **settings) as reasoner:
            with ore.over_rows(ORE(reasoner, ""), PROMPT, table, folder=tmp_path / "out") as run:
                there.append(run.plan().there)
                assert [outcome.error for outcome in run.outcomes()] == [None] * 3
                there.append(run.plan().there)
    assert there == [0, 3] * 3


def test_an_answer_that_is_there_without_its_logprobs_is_asked_for_them(tmp_path, table):
    asked = []
    for wanted in (False, True, True, False):
        reasoner = Capitals()
        reasoner.settings = ore.Settings(logprobs=wanted)
        reason, more = reasoner.reason, {"logprobs": []} if wanted else {}

        def with_logprobs(messages, reason=reason, more=more):
            response = reason(messages)
            return replace(response, metadata={**response.metadata, **more})

        reasoner.reason = with_logprobs
        outcomes, _ = ask(reasoner, table, folder=tmp_path / "out")
        assert all("logprobs" in each.metadata for each in outcomes) or not wanted
        asked.append(len(reasoner.asked))
    assert asked == [3, 3, 0, 0]


def test_what_is_there_of_a_row_that_failed_is_not_said_to_be_of_another_question(tmp_path, table):
    out = tmp_path / "out"
    settings = ore.Settings(strict_context=True)
    _, run = ask(Capitals(), table, folder=out)
    assert run.others() == 0
    reasoner = Capitals(Italy=BackendError("It is not known whether all was read."))
    reasoner.settings = settings
    _, run = ask(reasoner, table, folder=out)
    assert (run.tally.failed, run.others()) == (1, 0)
    _, run = ask(Capitals(), table, folder=out, prompt="The capital of {{country}}?")
    assert run.others() == 3


@pytest.mark.parametrize("least", [math.nan, 1.5, -1, "0.8"])
def test_a_probability_that_none_can_be_is_refused_before_a_row_is_asked(table, least):
    """Every word passed where ``least`` was no number, and a text failed once all rows were paid for."""
    with pytest.raises(UsageError, match="`least=` must be a number from 0 to 1, not"):
        ore.over_rows(ORE(Capitals()), PROMPT, table, least=least)


@pytest.mark.parametrize("most", [0, -1, "2", 1.5])
def test_a_count_of_failures_that_none_can_be_is_refused_before_a_row_is_asked(table, most):
    with pytest.raises(UsageError, match="`most_failures=` must be a whole number above 0, not"):
        ore.over_rows(ORE(Capitals()), PROMPT, table, most_failures=most)
