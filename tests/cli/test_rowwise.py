"""``--rows``: one prompt asked of every row, against a server on a socket: one call, one artifact a row."""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from ore.backends.choice import open_backend
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.runs import rewrite

TABLE = 'id,city,note\n7,Paris,"a ""q"""\n8,São Paulo,"two\nlines"\n9,🗼,=1+1\n'


def prompt_of(request: dict) -> str:
    return request["messages"][-1]["content"]


@pytest.fixture
def server():
    with FakeOllama(reply=lambda request: f"<{prompt_of(request)}>") as fake:
        yield fake


@pytest.fixture
def rows(server, folder):
    """Run ORE on ``table.csv`` with the prompt ``In {{city}}?`` and flags."""
    (folder / "table.csv").write_text(TABLE, encoding="utf-8")

    def run(*flags: str, prompt: str | None = "In {{city}}?", table: str = "table.csv", **more):
        asked = [] if prompt is None else [prompt]
        args = ["--rows", table, *asked, "--host", server.url, *flags]
        return run_ore(*args, open_backend=open_backend, **more)

    return run


def lines(result) -> list[dict]:
    return [json.loads(line) for line in result.out.splitlines()]


def artifacts(root: Path = Path("out")) -> list[Path]:
    return sorted(root.rglob("*.json"))


def test_every_row_is_one_turn_and_one_line_in_the_order_of_the_table(rows, server):
    result = rows("--key", "id")
    assert result.code == 0, result.err
    assert lines(result) == [
        {"row": 1, "key": "7", "content": "<In Paris?>", "artifact": None, "error": None},
        {"row": 2, "key": "8", "content": "<In São Paulo?>", "artifact": None, "error": None},
        {"row": 3, "key": "9", "content": "<In 🗼?>", "artifact": None, "error": None},
    ]
    assert result.out.isascii() and len(server.chats) == 3


@pytest.mark.slow
def test_order_holds_where_a_later_row_is_answered_first(rows, server):
    def slow(request: dict) -> str:
        time.sleep(0.2 if "Paris" in prompt_of(request) else 0)
        return prompt_of(request)

    server.ollama.reply = slow
    assert [line["row"] for line in lines(rows("--jobs", "3"))] == [1, 2, 3]


@pytest.mark.invariant
def test_each_row_has_an_artifact_that_holds(rows, folder):
    result = rows("--artifact-out", "out/")
    paths = [line["artifact"] for line in lines(result)]
    assert [str(path) for path in artifacts()] == sorted(paths)
    assert all(path.startswith("out/00000001-00001000/0000000") for path in paths)
    found = run_ore("--verify", *paths)
    assert found.code == 0, found.out
    first = json.loads(Path(paths[0]).read_text())
    assert first["input"]["prompt"] == "In Paris?" and first["output"]["content"] == "<In Paris?>"
    assert first["provenance"]["row"] == {"number": 1, "line": 2}
    assert Path(paths[0]).stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_version_digest_and_list_of_models_are_not_asked_for_each_row(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 30)
    rows("--artifact-out", "out", "--jobs", "1", table="many.csv")
    asked = [seen.path for seen in server.requests]
    assert asked.count("/api/chat") == 30
    assert {path: asked.count(path) for path in asked if path != "/api/chat"} == {
        "/api/tags": 3,  # which is the default, its digest, and in the end whether it still has it
        "/api/version": asked.count("/api/version"),
        "/api/ps": 1,
        "/api/show": asked.count("/api/show"),
    }
    assert asked.count("/api/show") <= 2 and asked.count("/api/version") <= 2
    assert len({seen.connection for seen in server.chats}) <= 3


@pytest.mark.invariant
def test_what_is_there_and_holds_is_not_asked_again_and_has_its_line(rows, server):
    first = rows("--artifact-out", "out")
    second = rows("--artifact-out", "out")
    assert second.out == first.out and second.code == 0
    assert len(server.chats) == 3 and "3 already there" in second.err


def test_a_row_whose_artifact_is_gone_or_does_not_hold_is_asked_again(rows, server):
    rows("--artifact-out", "out")
    one, two, three = artifacts()
    one.unlink()
    rewrite(two, lambda run: run["output"].update(content="changed"))
    three.write_text("")
    assert [line["content"] for line in lines(rows("--artifact-out", "out"))][
        1
    ] == "<In São Paulo?>"
    assert len(server.chats) == 6 and len(artifacts()) == 3


@pytest.mark.parametrize(
    "flags, prompt",
    [
        ((), "Near {{city}}?"),
        (("-o", "temperature=0"), "In {{city}}?"),
        (("--system", "Be brief."), "In {{city}}?"),
        (("--model", "mistral"), "In {{city}}?"),
        (("--schema", '{"type":"string"}'), "In {{city}}?"),
        (("--join-messages", "always"), "In {{city}}?"),
    ],
)
def test_another_question_is_asked_and_said_to_be_another(rows, server, flags, prompt):
    rows("--artifact-out", "out")
    server.ollama.reply = '"x"'
    result = rows("--artifact-out", "out", *flags, prompt=prompt)
    assert len(server.chats) == 6 and len(artifacts()) == 6
    assert "out has 3 artifacts of other questions too" in result.err


def test_a_row_that_was_changed_is_asked_again_and_no_other(rows, server, folder):
    rows("--artifact-out", "out")
    (folder / "table.csv").write_text(TABLE.replace("Paris", "Rome"), encoding="utf-8")
    rows("--artifact-out", "out")
    assert len(server.chats) == 4


@pytest.mark.parametrize(
    "table, prompt, said",
    [
        ("city\n", "In {{town}}?", "table.csv has no column 'town': it has 'city'."),
        (
            "town;city\n",
            "In {{town}}?",
            "it has 'town;city'; a CSV file has commas between its cells.",
        ),
        ("city,a\nx\ny\n", "{{city}}", "line 2: it has 1 cell, and the header 2\n  line 3: it has"),
        ("city\n \n", "{{city}}", "line 2: its prompt is blank"),
        ("city\nx\n", "In?", "The prompt has no place for a row"),
        ("city\nx\n", None, "There is no prompt for the rows of table.csv"),
        ("city\nx\n", "{{city", "two braces in line 1 that begin no placeholder"),
        ("", "{{city}}", "table.csv is empty"),
        ("city,\nx,y\n", "{{city}}", "no name for column 2"),
        ("city,city\nx,y\n", "{{city}}", "more than one column 'city'"),
        ("city\nx\0\n", "{{city}}", "line 2: it has a NUL"),
        ("city\n\udcff\n", "{{city}}", "line 2: it is not UTF-8 at byte 0 of the line"),
    ],
)
def test_what_would_fail_is_found_before_the_first_call(rows, server, folder, table, prompt, said):
    (folder / "table.csv").write_bytes(table.encode("utf-8", "surrogateescape"))
    result = rows(prompt=prompt)
    assert (result.code, result.out) == (2, "") and said in result.err
    assert server.requests == []


def test_a_row_of_twenty_megabytes_is_named_with_its_line(rows, server, folder):
    (folder / "table.csv").write_bytes(b"city,b\n1," + b"x" * (20 << 20) + b"\n2,3\n")
    result = rows("--artifact-out", "out")
    assert (result.code, result.out) == (2, "") and "1 row that can't be asked" in result.err
    assert result.err.endswith(
        "Correct this line, or leave it out:\n  line 2: it has more than 16 MiB, the most that a "
        "row can have\n"
    )
    assert server.requests == [] and not Path("out").exists()


def test_of_many_bad_rows_the_first_are_named(rows, folder):
    (folder / "table.csv").write_text("city,b\n" + "x\n" * 1000)
    result = rows()
    assert "has 1,000 rows that can't be asked, so nothing was sent" in result.err
    assert result.err.count("\n") < 30 and "and 980 more" in result.err


def test_json_lines_may_miss_a_value_in_a_row(rows, folder):
    (folder / "t.jsonl").write_text('{"city":"x"}\n{"town":"y"}\n{"city":"\\ud800"}\n')
    result = rows(table="t.jsonl")
    assert result.code == 2 and "line 2: it has no 'city'" in result.err
    assert "line 3: it has half a character" in result.err


def test_a_table_without_rows_is_nothing_to_ask(rows, server, folder):
    (folder / "table.csv").write_text("city\n")
    result = rows("--artifact-out", "out")
    assert (result.code, result.out) == (0, "") and "has no rows" in result.err
    assert server.requests == [] and not Path("out").exists()
    assert rows("--csv").out == "city,answer\n"


def test_a_table_without_rows_leaves_no_report_of_an_earlier_run(rows, folder):
    rows("--junit", "report.xml")
    assert "<testcase" in Path("report.xml").read_text()
    (folder / "table.csv").write_text("city\n")
    assert rows("-q", "--junit", "report.xml").code == 0
    report = Path("report.xml").read_text()
    assert "<testcase" not in report and 'tests="0"' in report


def test_text_needs_no_prompt_and_stdin_is_a_table(rows, server):
    result = rows("--rows-format", "text", table="-", prompt=None, stdin="one\n\ntwo\n")
    assert [line["content"] for line in lines(result)] == ["<one>", "<two>"]


def test_stdin_is_not_read_where_the_table_is_a_file(rows, server):
    rows(stdin="something else")
    assert all("something" not in seen.body.decode() for seen in server.chats)


def test_a_value_is_never_looked_into(rows, server, folder):
    (folder / "table.csv").write_text("a,b\n{{b}},secret\n")
    assert lines(rows(prompt="{{a}}"))[0]["content"] == "<{{b}}>"


def test_a_system_prompt_has_no_places(rows, server):
    result = rows("--system", "You know {{city}}.")
    assert result.code == 2 and "The system prompt has a place for 'city'" in result.err
    assert server.chats == []


def test_csv_is_the_table_with_one_more_column(rows, server, folder):
    server.ollama.reply = '=HYPERLINK("x")\nsecond, line'
    result = rows("--csv")
    found = list(csv.reader(io.StringIO(result.out)))
    before = list(csv.reader(io.StringIO(TABLE)))
    assert [row[:-1] for row in found] == before and found[0][-1] == "answer"
    assert {row[-1] for row in found[1:]} == {'\'=HYPERLINK("x")\nsecond, line'}
    assert "Cells of table.csv that begin like a formula: 1" in result.err
    (folder / "table.csv").write_text(result.out)
    assert "has a column 'answer' already" in rows("--csv").err


def test_csv_of_json_lines_has_every_column(rows, folder):
    (folder / "t.jsonl").write_text('{"a":"1","city":"x"}\n{"city":"y","b":[2]}\n')
    result = rows("--csv", table="t.jsonl")
    assert result.out == "a,city,b,answer\n1,x,,<In x?>\n,y,[2],<In y?>\n"


def test_a_schema_makes_the_answer_a_value(rows, server):
    server.ollama.reply = '{"name": "Ä"}'
    result = rows("--schema", "name,")
    assert [line["content"] for line in lines(result)] == [{"name": "Ä"}] * 3


def test_a_row_that_fails_is_named_and_asked_by_the_next_run(rows, server):
    def judged(request: dict) -> str:
        return "no JSON" if "Paulo" in prompt_of(request) else '"x"'

    server.ollama.reply = judged
    result = rows("--schema", '{"type":"string"}', "--artifact-out", "out")
    assert result.code == 1
    assert [line["error"] is None for line in lines(result)] == [True, False, True]
    assert "row 2 (line 3): The answer does not fit the schema" in result.err
    assert "1 row failed, see above. Run it again to go on" in result.err
    server.ollama.reply = '"y"'
    again = rows("--schema", '{"type":"string"}', "--artifact-out", "out")
    assert [line["content"] for line in lines(again)] == ["x", "y", "x"] and again.code == 0
    assert len(server.chats) == 4


def test_a_run_stops_after_so_many_failures(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 200)
    server.ollama.reply = "no JSON"
    flags = ("--schema", '{"type":"string"}', "--max-failures", "3", "--jobs", "1")
    result = rows(*flags, table="many.csv")
    assert result.code == 1 and "Stopped after 3 rows failed" in result.err
    assert 3 <= len(server.chats) <= 6


def test_a_model_that_is_not_there_stops_the_run(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 200)
    result = rows("--model", "nobody", "--jobs", "2", table="many.csv")
    assert result.code == 1 and "nobody" in result.err
    assert len(server.chats) <= 6


def test_a_server_that_went_away_is_not_tried_for_every_row(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 500)

    server.stop()
    result = rows("--jobs", "1", "--model", "llama3.2", table="many.csv")
    assert result.code == 1 and 10 <= len(lines(result)) < 20
    assert "Add --artifact-out FOLDER/ to go on" in result.err


def test_what_an_answer_does_not_show_is_said_with_its_row(rows, server):
    server.ollama.num_ctx = 8
    result = rows("-q")
    assert "row 1 (line 2): The prompt" in result.err and "did not fit" in result.err


def test_an_answer_that_goes_round_in_circles_is_said_with_its_row(rows, server):
    server.ollama.reply = "Round and round.\n" * 12
    flags = ("-q", "--artifact-out", "out")
    for result in (rows(*flags), rows(*flags)):
        assert result.err.count("row 1 (line 2): The answer may go round in circles") == 1
    assert len(server.chats) == 3


@pytest.mark.slow
def test_what_is_there_was_perhaps_cut_too_and_is_no_answer_under_strict_context(rows, server):
    def read() -> int:
        return sum(seen.kept is not None for seen in server.chats)

    server.ollama.num_ctx = 8
    flags = ("-q", "--artifact-out", "out")
    first, again = rows(*flags), rows(*flags)
    assert "row 1 (line 2): The prompt" in again.err and "did not fit" in again.err
    assert first.out == again.out and (read(), len(server.chats)) == (3, 6)
    kept = [path.read_bytes() for path in artifacts()]
    strict = rows(*flags, "--strict-context")
    assert (strict.code, read(), len(server.chats)) == (1, 3, 9) and "does not fit" in strict.err
    assert [path.read_bytes() for path in artifacts()] == kept
    server.ollama.num_ctx = 4096
    assert rows(*flags, "--strict-context").code == 0 and read() == 6
    assert rows(*flags, "--strict-context").code == 0 and len(server.chats) == 12


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["--artifact-full", "--artifact-hashes-only"])
def test_it_is_said_where_an_artifact_that_is_there_has_kept_other_texts(rows, server, flag):
    for first, then in [((), (flag,)), ((flag,), ())]:
        usual = ("--artifact-out", f"out{len(first)}/", "--system", "Be brief.")
        for flags, are_other in [(first, False), (first, False), (then, True)]:
            result = rows(*usual, *flags)
            assert result.code == 0
            said = result.err.count("an earlier run, which kept other texts")
            assert said == (3 if are_other else 0)
    assert len(server.chats) == 6


def test_the_dry_run_counts_and_sends_no_chat(rows, server):
    plan = rows("--dry-run", "--artifact-out", "out").json
    assert (plan["rows"], plan["there"], plan["to_ask"], plan["jobs"]) == (3, 0, 3, 4)
    assert plan["seconds"] is None and not Path("out").exists()
    assert plan["tokens"]["least"] <= plan["tokens"]["likely"] <= plan["tokens"]["most"]
    assert plan["first"][-1]["content"] == "In Paris?" and server.chats == []
    rows("--artifact-out", "out")
    plan = rows("--dry-run", "--artifact-out", "out").json
    assert (plan["there"], plan["to_ask"]) == (3, 0)


def test_after_ten_rows_the_dry_run_knows_how_long_it_takes(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 10)
    rows("--artifact-out", "out", table="many.csv")
    (folder / "many.csv").write_text("city\n" + "x\n" * 30)
    plan = rows("--dry-run", "--artifact-out", "out", "--jobs", "2", table="many.csv").json
    assert (plan["there"], plan["to_ask"]) == (10, 20) and plan["seconds"] > 0


def test_a_terminal_shows_the_plan_as_a_table(rows):
    out = rows("--dry-run", terminal="out").out
    assert "to ask" in out and "3, 4 at once, of llama3.2" in out and "not known until 10" in out


@pytest.mark.parametrize("flag", ["--key id", "--csv", "--jobs 2", "--max-failures 1"])
def test_what_is_said_of_rows_needs_rows(flag):
    result = run_ore("hi", *flag.split())
    assert result.code == 2 and "needs --rows" in result.err


@pytest.mark.parametrize("jobs", ["0", "-1", "257", "x"])
def test_jobs_are_a_whole_number(rows, server, jobs):
    result = rows("--jobs", jobs)
    assert result.code == 2 and "--jobs must be a whole number" in result.err
    assert server.requests == []


@pytest.mark.parametrize(
    "flag", ["--tool echo", "-c", "--session s", "--stream", "--route", "--after a.json", "-x"]
)
def test_what_is_one_turn_s_own_does_not_go_with_rows(rows, server, flag):
    result = rows(*flag.split())
    assert result.code == 2 and "--rows can't be used with" in result.err
    assert server.requests == []


def test_a_folder_that_leads_nowhere_is_refused_before_the_first_call(rows, server, folder):
    (folder / "out").symlink_to("out")
    result = rows("--artifact-out", "out/")
    assert result.code == 1 and "symbolic links" in result.err and "Traceback" not in result.err
    assert server.chats == []


def test_a_file_where_the_folder_should_be_is_refused_before_the_first_call(rows, server, folder):
    (folder / "out").write_text("mine")
    result = rows("--artifact-out", "out")
    assert result.code == 1 and "it is a file, not a folder" in result.err
    assert server.chats == [] and (folder / "out").read_text() == "mine"
    (folder / "dir").mkdir()
    (folder / "dir/00000001-00001000").write_text("mine")
    assert "a folder of ORE's has this name" in rows("--artifact-out", "dir").err


def test_what_is_foreign_in_the_folder_is_left_alone(rows, server, folder):
    rows("--artifact-out", "out")
    one, two, three = artifacts()
    (folder / "out/notes.txt").write_text("mine")
    one.write_text("not an artifact")
    result = rows("--artifact-out", "out")
    assert one.read_text() == "not an artifact" and (folder / "out/notes.txt").read_text() == "mine"
    found = lines(result)
    assert found[0]["content"] == "<In Paris?>" and "is not an artifact" in found[0]["error"]
    assert result.code == 1 and [line["error"] for line in found[1:]] == [None, None]


@pytest.mark.slow
def test_a_server_that_is_slow_to_name_its_model_is_asked_no_row_twice(rows, server, folder):
    rows("--artifact-out", "out", "-m", "llama3.2")
    server.use("happy", on="/api/tags", wait=2)
    healed = threading.Timer(1, server.use, ["happy"])
    healed.start()
    again = rows("--artifact-out", "out", "-m", "llama3.2")
    healed.join()
    assert len(server.chats) == 3 and "3 already there" in again.err


def test_an_artifact_that_was_cut_off_goes_on_once_it_is_moved_away_as_is_said(
    rows, server, folder
):
    rows("--artifact-out", "out")
    one = artifacts()[0]
    one.write_bytes(one.read_bytes()[:-100])
    assert (
        "is not an artifact, or not a whole one; move it away" in rows("--artifact-out", "out").err
    )
    one.rename(folder / "cut.json")
    again = rows("--artifact-out", "out")
    assert again.code == 0 and one.exists() and "2 already there" in again.err


def test_a_row_whose_artifact_can_not_be_read_is_not_asked_in_vain(rows, server, folder):
    rows("--artifact-out", "out")
    one = artifacts()[0]
    one.rename(folder / "moved.json")
    one.symlink_to(folder / "moved.json")
    asked = len(server.chats)
    again = rows("--artifact-out", "out")
    assert again.code == 1 and len(server.chats) == asked
    why = "can't be read: it is a symbolic link. Move it away, or name another folder with --art"
    assert why in lines(again)[0]["error"]
    assert why in rows("--artifact-out", "out", "--dry-run").err
    one.unlink()
    assert rows("--artifact-out", "out").code == 0 and len(server.chats) == asked + 1


def test_a_folder_is_for_one_run_at_a_time(rows, server, folder):
    from ore.rows.kept import RowFolder

    with RowFolder("out").held():
        result = rows("--artifact-out", "out")
    assert result.code == 1 and "in use by another run of this process" in result.err
    assert server.chats == []


@pytest.mark.slow
def test_a_thousand_rows_a_folder(rows, server, folder):
    (folder / "many.csv").write_text("city\n" + "x\n" * 1001)
    rows("--artifact-out", "out", "--jobs", "8", table="many.csv")
    assert sorted((each.name, len(list(each.iterdir()))) for each in Path("out").iterdir()) == [
        ("00000001-00001000", 1000),
        ("00001001-00002000", 1),
    ]


def test_the_log_of_runs_has_every_row(rows, server, folder):
    rows("--runs", str(folder / "log"))
    assert len(artifacts(folder / "log")) == 3


def test_a_log_that_takes_no_artifact_costs_the_folder_none(rows, server, folder):
    (folder / "log").mkdir(mode=0o700)
    for days in (0, 1):  # the test may run at midnight
        at = datetime.now(timezone.utc) + timedelta(days=days)
        (folder / "log" / at.date().isoformat()).write_text("")
    result = rows("--runs", str(folder / "log"), "--artifact-out", "out", "--max-failures", "9")
    assert result.code == 1 and "not a directory" in result.err
    found = [(line["row"], line["artifact"]) for line in lines(result)]
    assert found and [str(each) for each in artifacts()] == [path for _, path in found]
    assert all("not a directory" in line["error"] for line in lines(result))


def test_a_run_file_is_asked_of_every_row(rows, server, folder):
    (folder / "in.md").write_text(
        "---\nmodel: mistral\noptions: {temperature: 0}\n---\n{{kind}} {{city}}?\n"
    )
    flags = ("--run", "in.md", "--set", "kind=Old", "--artifact-out", "out")
    result = rows(*flags, prompt=None)
    assert [line["content"] for line in lines(result)][0] == "<Old Paris?>"
    assert {seen.json["model"] for seen in server.chats} == {"mistral"}
    kept = json.loads(artifacts()[0].read_text())["provenance"]
    assert kept["run_file"]["name"] == "in.md" and kept["options"] == {"temperature": 0}
    twice = rows(*flags, "--set", "city=b", prompt=None)
    assert "no place for a row left: --set fills 'kind', 'city', so leave out" in twice.err
    an_artifact = rows("--run", str(artifacts()[0]), prompt=None)
    assert (
        "is JSON, as the plan of a turn is: --rows takes a prompt or a run file." in an_artifact.err
    )
    assert "has no column 'kind'" in rows("--run", "in.md", prompt=None).err


@pytest.mark.embedded
def test_the_embedded_engine_is_loaded_once_and_words_are_chosen(folder, model_dir):
    (folder / "table.csv").write_text(TABLE, encoding="utf-8")
    args = ("--rows", "table.csv", "Is {{city}} a city?", "--backend", "embedded", "--no-system")
    result = run_ore(
        *args, "--choose", "yes,no", "--artifact-out", "out", open_backend=open_backend
    )
    assert result.code == 0, result.err
    found = lines(result)
    assert [line["row"] for line in found] == [1, 2, 3]
    assert all(
        line["content"] in ("yes", "no") and 0.5 <= line["probability"] <= 1 for line in found
    )
    assert json.loads(artifacts()[0].read_text())["provenance"]["row"]["number"] == 1
    args = (*args, "--choose", "yes,no", "--artifact-out", "out", "--junit", "rows.xml")
    result = run_ore(*args, "--min-confidence", "1", open_backend=open_backend)
    assert result.code == 3 and "3 already there" in result.err
    assert 'tests="3" failures="3" errors="0"' in (folder / "rows.xml").read_text()


def test_a_table_that_can_not_be_read_to_its_end_is_told_beside_a_report_that_can_not_be_written(
    folder,
):
    table, reports = folder / "table.csv", folder / "reports"
    reports.mkdir()

    def reply(request: dict) -> str:  # the disk of both goes away
        if reports.exists():
            reports.rmdir()
            table.write_text("city\n", encoding="utf-8")
        return "A."

    table.write_text("city\n" + "Paris\n" * 50, encoding="utf-8")
    with FakeOllama(reply=reply) as server:
        args = ["--rows", "table.csv", "{{city}}?", "--host", server.url, "--jobs", "1"]
        result = run_ore(*args, "--junit", "reports/r.xml", open_backend=open_backend)
    last = result.err.splitlines()[-1]
    assert result.code == 1 and last.startswith("ore: table.csv ")
    assert "The JUnit report can't be written to reports/r.xml: " in last
