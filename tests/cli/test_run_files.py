"""``--run``: a turn that a file says, or a plan has planned; what flags change, what is kept of it."""

from __future__ import annotations

import hashlib
import io
import json
import os

import pytest

from ore.cli import main
from ore.cli.terminal.console import Console
from tests.support.harness import ScriptedBackend, run_ore
from tests.support.process import PATIENCE, start
from tests.support.runs import sha256

CITY = """---
options: {temperature: 0, seed: 7}
system: One word.
---
What is the capital of {{country}}?
"""


@pytest.fixture
def city(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "city.ore").write_text(CITY)
    return "city.ore"


def texts(result):
    return [message.content for message in result.calls[0]]


def test_a_run_file_is_one_turn_with_all_that_it_says(city):
    result = run_ore("--run", city, "--set", "country=France")
    assert (result.code, result.out) == (0, "Paris.\n")
    assert [texts(result)] == [["One word.", "What is the capital of France?"]]
    assert result.backend.settings.options == {"temperature": 0.0, "seed": 7}


def test_flags_win_over_the_file(city, tmp_path):
    flags = ["-o", "seed=1", "--no-system", "--model", "b"]
    result = run_ore("--run", city, "--set", "country=Italy", *flags, models=("a", "b"))
    assert texts(result) == ["What is the capital of Italy?"]
    assert result.backend.settings.options == {"temperature": 0.0, "seed": 1}
    assert result.backend.engine.model_id == "b"


def test_a_file_wins_over_the_variable_of_the_system_prompt(city, monkeypatch):
    monkeypatch.setenv("ORE_SYSTEM", "none")
    plan = run_ore("--run", city, "--set", "country=Italy", "--dry-run").json
    assert (plan["messages"][0]["content"], plan["system_from"]) == ("One word.", "--run")


def test_files_of_the_file_and_of_flags_add_up_and_relative_paths_are_the_files_own(tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    for name in ("style.md", "voice.md"):
        (folder / name).write_text(f"This is {name}.")
    (tmp_path / "mine.txt").write_text("Mine.")
    (folder / "f.ore").write_text("---\nfiles: style.md\nsystem: '@voice.md'\n---\nReview.")
    result = run_ore("--run", str(folder / "f.ore"), "-f", str(tmp_path / "mine.txt"))
    assert result.code == 0
    sent = texts(result)
    assert sent[0] == "This is voice.md." and sent[-1] == "Review."
    assert sent[1].endswith("This is style.md.") and sent[2].endswith("Mine.")


def test_a_value_is_text_and_is_never_looked_into(city):
    result = run_ore("--run", city, "--set", "country={{stdin}} {{country}} =x", stdin="piped")
    assert texts(result)[1] == "What is the capital of {{stdin}} {{country}} =x?\n\npiped"


def test_a_place_whose_name_has_an_equals_sign_gets_its_value(tmp_path):
    (tmp_path / "f.ore").write_text("{{P(x=1)}}, {{P(x}}, {{c}}")
    at, given = str(tmp_path / "f.ore"), ("--set", "P(x=1)=a=b", "--set", "c=", "--set")
    assert run_ore("--run", at, *given, "P(x=2)=3").prompts == ["a=b, 2)=3, "]
    result = run_ore("--run", at, *given, "P(x=1)=2")
    assert (result.code, result.calls) == (2, []) and "gives 'P(x=1)' twice" in result.err


def test_stdin_goes_where_the_file_says_else_below_the_prompt(tmp_path):
    (tmp_path / "a.ore").write_text("Sum up: {{stdin}}!")
    (tmp_path / "b.ore").write_text("Sum up.")
    a, b = str(tmp_path / "a.ore"), str(tmp_path / "b.ore")
    assert run_ore("--run", a, stdin="One.\n").prompts == ["Sum up: One.\n!"]
    assert run_ore("--run", b, stdin="One.").prompts == ["Sum up.\n\nOne."]
    assert run_ore("--run", b, "-n", stdin="One.").prompts == ["Sum up."]
    for flags, stdin, said in (
        ([], None, "no value for 'stdin': give a text on stdin"),
        ([], " \n", "no value for 'stdin': give a text on stdin"),
        (["-n"], "One.", "a.ore has a place for {{stdin}}: leave --no-stdin out."),
    ):
        result = run_ore("--run", a, *flags, stdin=stdin)
        assert (result.code, result.calls) == (2, [])
        assert said in result.err


@pytest.mark.slow
def test_who_waits_for_what_goes_into_a_place_is_not_told_to_leave_it_out(tmp_path):
    (tmp_path / "a.ore").write_text("Sum up: {{stdin}}!")
    with start("--run", "a.ore", "--host", "127.0.0.1:9", cwd=tmp_path) as waiting:
        said = waiting.stderr.readline()
        waiting.communicate(b"One.", timeout=PATIENCE)
    assert said.startswith(b"ore is reading stdin, for a.ore has a place for {{stdin}}: pipe")


WRONG = [
    ([], "no value for 'country'"),
    (["--set", "country=a", "--set", "x=1", "--set", "y=2"], "no place for 'x', 'y'"),
    (["--set", "country=a", "--set", "country=b"], "--set gives 'country' twice"),
    (["--set", "country"], "--set takes KEY=VALUE, with = between them"),
    (["--set", "=a"], "--set takes KEY=VALUE"),
    (["--set", "stdin=a"], "is what is piped in"),
    (["--set", "country=a", "hi"], "--run can't be used with a prompt"),
    (["--set", "country=a", "-c"], "--run can't be used with a REPL"),
    (["--set", "country=a", "--artifact-in", "x"], "can't be used with"),
    (["--set", "country=a", "--list-models"], "--list-models can't be used with --run"),
]


@pytest.mark.parametrize("flags, said", WRONG)
def test_what_was_asked_wrongly_sends_nothing(city, flags, said):
    result = run_ore("--run", city, *flags)
    assert (result.code, result.out, result.calls) == (2, "", [])
    assert said in result.err


def test_set_without_a_file_is_an_error():
    result = run_ore("hi", "--set", "a=b")
    assert (result.code, result.calls) == (2, []) and "--set needs --run" in result.err


def test_what_the_file_says_and_the_flags_must_go_together(tmp_path):
    (tmp_path / "f.ore").write_text("---\nschema: name\n---\nhi")
    result = run_ore("--run", str(tmp_path / "f.ore"), "--stream")
    assert (result.code, result.calls) == (2, [])
    assert "f.ore says, --schema can't be used with --stream" in result.err


def test_a_place_in_a_system_prompt_is_an_error_wherever_that_came_from(tmp_path):
    (tmp_path / "f.ore").write_text("Hello {{name}}")
    (tmp_path / "s.txt").write_text("You know {{ name }}.")
    at = str(tmp_path / "f.ore")
    for system in ("You know {{name}}.", f"@{tmp_path}/s.txt"):
        result = run_ore("--run", at, "--set", "name=Bo", "--system", system)
        assert (result.code, result.calls) == (2, [])
        assert "The system prompt has the places 'name'" in result.err
    assert run_ore("--run", at, "--set", "name=Bo", "--system", "{{other}}").code == 0


def test_no_value_chooses_a_route(tmp_path):
    (tmp_path / "f.ore").write_text("Please: {{x}}")
    result = run_ore(
        *("--run", str(tmp_path / "f.ore"), "--set", "x=echo back all", "--route", "-j"),
    )
    assert result.code == 0 and result.json["routing"]["target_type"] == "fallback"


@pytest.mark.parametrize("flag", ["--stream", "--json", "--verbose", "--no-stream"])
def test_it_works_with_every_way_to_show_an_answer(city, flag):
    result = run_ore("--run", city, "--set", "country=France", flag)
    assert result.code == 0 and "Paris." in result.out


def test_a_session_has_the_prompt_with_its_values(city):
    for name in ("France", "Italy"):
        assert run_ore("--run", city, "--set", f"country={name}", "-S", "trip").code == 0
    shown = run_ore("--show-session", "trip", "--json").json
    asked = [each["content"] for each in shown["messages"] if each["role"] == "user"]
    assert asked == ["What is the capital of France?", "What is the capital of Italy?"]


@pytest.mark.invariant
def test_the_artifact_has_the_hash_of_the_file_and_of_its_values(city, tmp_path):
    flags = ["--run", city, "--set", "country=France", "--artifact-out"]
    result = run_ore(*flags)
    kept = result.json["provenance"]["run_file"]
    file = hashlib.sha256((tmp_path / city).read_bytes()).hexdigest()
    values = [{"name": "country", "sha256": sha256("France")}]
    assert kept == {"name": city, "sha256": file, "values": values}
    full = run_ore(*flags, "--artifact-full").json["provenance"]["run_file"]
    assert full["values"] == [values[0] | {"value": "France"}]
    (tmp_path / "a.json").write_text(result.out)
    assert run_ore("--verify", "a.json").code == 0
    (tmp_path / "a.json").write_text(result.out.replace(file, "0" * 64))
    assert run_ore("--verify", "a.json").code == 3


def test_a_replay_asks_the_prompt_with_its_values_again(city, tmp_path):
    run_ore("--run", city, "--set", "country=France", "--artifact-out", "a.json")
    result = run_ore("--replay", "a.json")
    assert result.code == 0
    assert texts(result) == ["One word.", "What is the capital of France?"]


HOSTILE = {
    "a folder": lambda path: path.mkdir(),
    "a FIFO": lambda path: os.mkfifo(path),
    "100 MB": lambda path: os.truncate(os.open(path, os.O_CREAT | os.O_RDWR), 100_000_000),
    "a NUL": lambda path: path.write_bytes(b"a\0b"),
    "not UTF-8": lambda path: path.write_bytes(b"caf\xe9"),
    "nothing": lambda path: None,
    "a link to itself": lambda path: path.symlink_to(path),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_run_file_is_one_sentence(tmp_path, what):
    path = tmp_path / "f.ore"
    HOSTILE[what](path)
    result = run_ore("--run", str(path))
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert len(result.err) < 500 and str(path) in result.err


def test_a_value_of_20_mb_goes_through_and_ten_of_them_do_not(tmp_path):
    (tmp_path / "f.ore").write_text("{{x}}")
    (tmp_path / "g.ore").write_text("{{x}}" * 10)
    text = "x=" + "a" * 20_000_000
    assert len(run_ore("--run", str(tmp_path / "f.ore"), "--set", text).prompts[0]) == 20_000_000
    result = run_ore("--run", str(tmp_path / "g.ore"), "--set", text)
    assert (result.code, result.calls) == (2, []) and "more than 64 Mi characters" in result.err


# Plans


def planned(tmp_path, *flags, stdin=None):
    result = run_ore(*flags, "--dry-run", stdin=stdin)
    assert result.code == 0, result.err
    (tmp_path / "plan.json").write_text(result.out)
    return result.json


PLANNED = {
    "a prompt": (["hi"], None),
    "a run file": (["--run", "city.ore", "--set", "country=France"], None),
    "stdin": (["hi"], "more"),
    "options": (["hi", "-o", "seed=1", "-o", "stop=a", "-o", "stop=b", "--think", "low"], None),
    "thinking": (["hi", "--think", "on"], None),
    "no system prompt": (["hi", "--no-system"], None),
    "a system prompt like a file": (["hi", "--system", "@voice.md"], None),
    "a persona": (["hi", "--persona", "aya"], None),
    "a file": (["hi", "-f", "voice.md"], None),
    "a tool": (["hi", "--tool", "echo", "--tool-arg", "a=b]\nc", "--grant", "network"], None),
    "a route": (["echo it", "--route", "--route-threshold=0"], None),
    "a schema": (["hi", "--schema", '{"type": "string"}'], None),
    "a session": (["and now?", "-S", "trip"], None),
}


@pytest.mark.invariant
@pytest.mark.parametrize("what", PLANNED)
def test_a_plan_that_is_run_differs_in_nothing_but_the_answer(city, tmp_path, monkeypatch, what):
    flags, stdin = PLANNED[what]
    if "--schema" in flags:
        pytest.importorskip("jsonschema")
    (tmp_path / "voice.md").write_text("@home: Rhyme.\n")
    run_ore("My name is Bo.", "-S", "trip", replies=["Hello Bo."])
    planned(tmp_path, *flags, stdin=stdin)
    answer = '"Rome"'
    run_ore(*flags, "--artifact-out", "a.json", stdin=stdin, replies=['"Paris"'])
    (tmp_path / "voice.md").write_text("It is another one by now.")
    monkeypatch.setenv("ORE_SYSTEM", "none")
    result = run_ore("--run", "plan.json", "--artifact-out", "b.json", replies=[answer])
    assert (result.code, result.out) == (0, answer + "\n"), result.err
    found = run_ore("--diff", "a.json", "b.json", "--json").json
    assert [each["name"] for each in found["differences"]] == ["answer"]
    assert run_ore("--verify", "b.json").code == 0
    for run in ("a.json", "b.json"):
        found = run_ore("--diff", "plan.json", run, "--json")
        assert (found.code, found.json["differences"]) == (0, [])
        assert found.json["not_known"][-1] == "answer"


def test_a_plan_whose_messages_are_joined_sends_them_so_unless_a_flag_says_more(city, tmp_path):
    (tmp_path / "voice.md").write_text("Rhyme.\n")
    turn = ["hi", "-f", "voice.md", "--no-system", "--join-messages", "always"]
    plan = planned(tmp_path, *turn)
    result, sent = run_ore("--run", "plan.json"), run_ore(*turn)
    assert [[each.content for each in call] for call in result.calls] == [
        [each.content for each in call] for call in sent.calls
    ]
    assert result.err == sent.err and len(result.calls[0]) == 1
    assert run_ore("--run", "plan.json", "--dry-run").json["joined"] == plan["joined"]
    run_ore(*turn, "--artifact-out", "run.json")
    assert run_ore("--diff", "plan.json", "run.json", "--json").json["differences"] == []
    apart = run_ore("--run", "plan.json", "--join-messages", "never")
    assert [each.content for each in apart.calls[0]][-1] == "hi" and len(apart.calls[0]) == 2
    planned(tmp_path, *turn[:4])
    assert len(run_ore("--run", "plan.json").calls[0]) == 2


def test_flags_win_over_a_plan_and_can_not_change_its_messages(city, tmp_path):
    planned(tmp_path, "hi", "-o", "seed=1", "-o", "top_k=3")
    result = run_ore("--run", "plan.json", "-o", "seed=2", "--model", "b", models=("scripted", "b"))
    assert result.backend.settings.options == {"seed": 2, "top_k": 3}
    assert result.backend.engine.model_id == "b"
    for flag in (["--system", "x"], ["-f", "x"], ["-S", "x"], ["--set", "a=b"], ["--tool", "echo"]):
        result = run_ore("--run", "plan.json", *flag)
        assert (result.code, result.calls) == (2, []), flag


def test_a_plan_and_a_run_that_differ(city, tmp_path):
    planned(tmp_path, "hi", "-o", "seed=1")
    run_ore("ho", "--artifact-out", "a.json")
    found = run_ore("--diff", "plan.json", "a.json")
    assert found.code == 3 and "differ in prompt, options, messages." in found.err
    (tmp_path / "bad.json").write_text('{"plan_version": "ore.plan.v2"}')
    assert run_ore("--diff", "bad.json", "a.json").code == 1


def test_stdin_is_not_added_to_a_plan(city, tmp_path):
    planned(tmp_path, "hi")
    assert run_ore("--run", "plan.json", stdin="more").prompts == ["hi"]


def changed(plan, **values):
    return json.dumps(plan | values)


def test_a_plan_that_was_changed_or_is_none_is_not_run(city, tmp_path):
    plan = planned(tmp_path, "hi")
    hostile = [
        "{}",
        "[]",
        "",
        "{",
        '{"plan_version": "ore.plan.v2"}',
        '{"plan_version": NaN}',
        changed(plan, messages=[]),
        changed(plan, messages=[1]),
        changed(plan, messages="x"),
        changed(plan, messages=plan["messages"][:1]),
        changed(plan, messages_sha256=None),
        changed(plan, messages=[*plan["messages"][:1], plan["messages"][1] | {"content": "ho"}]),
        changed(plan, options={"choices": 5}),
        changed(plan, options={"choices": ["a", 5]}),
        changed(plan, options={"choices": ["a"]}),
        changed(plan, options=[]),
        changed(plan, model_id=1),
        changed(plan, grants=[1]),
        changed(plan, persona=1),
        changed(plan, expect=1),
        changed(plan, routing=1),
        changed(plan, routing={"target": "x"}),
        changed(plan, options={"seed": "x"}),
        changed(plan, options={"nope": 1}),
        changed(plan, options={"seed": [1]}),
        changed(plan, options={"think": "never"}),
        changed(plan, expect={"nope": "x"}),
        changed(plan, grants=["everything"]),
    ]
    for text in hostile:
        (tmp_path / "bad.json").write_text(text)
        result = run_ore("--run", "bad.json")
        assert result.code in (1, 2) and result.calls == [], text
        assert "Traceback" not in result.err and result.out == ""


def test_nobody_is_told_to_write_a_plan_over_the_file_that_is_none(city, tmp_path):
    run_ore("hi", "--artifact-out", "run.json")
    result = run_ore("--run", "run.json")
    assert (result.code, result.calls) == (1, [])
    assert result.err.endswith("ore.plan.v1. Give one that was written with --dry-run.\n")


def test_a_plan_with_images_or_a_run_gone_on_from_says_why_it_can_not_be_run(city, tmp_path):
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(16))
    planned(tmp_path, "hi", "--image", "a.png")
    result = run_ore("--run", "plan.json")
    assert result.code == 1 and result.err.endswith("only: ask without a plan, with --image.\n")
    run_ore("hi", "--artifact-out", "a.json")
    planned(tmp_path, "on", "--after", "a.json")
    result = run_ore("--run", "plan.json")
    assert result.code == 1
    assert result.err.endswith(
        "its turn goes on from an artifact: ask without a plan, with --after.\n"
    )


def test_the_expectation_of_a_file_is_part_of_its_plan(city, tmp_path):
    (tmp_path / "f.ore").write_text("---\nexpect: {contains: Rome}\n---\nhi")
    assert planned(tmp_path, "--run", "f.ore")["expect"] == {"contains": ["Rome"]}
    result = run_ore("--run", "plan.json")
    assert (result.code, result.out) == (3, "Paris.\n")


def test_a_run_file_on_a_program_s_own_streams(city):
    """A library's caller has streams in memory: nothing of the process is read."""
    out, err = io.StringIO(), io.StringIO()
    backend = ScriptedBackend(["Paris."])
    console = Console(io.BytesIO(b""), out, err, {})
    assert main(["--run", city, "--set", "country=x"], console, lambda *_: backend) == 0
    assert out.getvalue() == "Paris.\n"


def test_a_plan_advises_no_other_system_prompt_which_it_would_refuse(tmp_path, monkeypatch):
    path = tmp_path / "plan.json"
    path.write_text(run_ore("Hi", "--dry-run").out)
    monkeypatch.setenv("ORE_SYSTEM", "nonsense")  # a plan has its own, and does not look at it
    result = run_ore("--run", str(path), "-v")
    assert result.code == 0 and "System prompt: that of the plan.\n" in result.err
