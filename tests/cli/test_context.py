"""Tools, skills and routes through the command line: what the model is given, and what is said."""

from __future__ import annotations

import hashlib
import sys
import time

import pytest

from ore.backends.choice import open_backend
from ore.cli.context import parse_arguments
from ore.errors import UsageError
from ore.tools import TOOL_REGISTRY, EchoTool
from ore.types import ToolResult
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.skill_files import write_skill

BODY = "Write in rhyme."


@pytest.fixture
def skill(home):
    """Make a skill of that name."""

    def make(name: str, extra: str = "", body: str = BODY):
        frontmatter = f"name: {name}\ndescription: Does it.{extra}"
        return write_skill(home / ".ore/skills", name, frontmatter, body)

    return make


@pytest.fixture
def notes(folder):
    """A file of notes in the current folder."""
    (folder / "notes.txt").write_text("Buy milk.")
    return folder / "notes.txt"


def given(result, turn: int = 0) -> list[tuple[str, str]]:
    """What a turn was given between the persona and the prompt."""
    return [(message.role, message.content) for message in result.calls[turn][1:-1]]


READ = ["--tool", "read-file", "--tool-arg", "path=notes.txt"]
GRANT = ["--grant", "filesystem-read"]


def test_the_result_of_a_tool_is_one_user_message_before_the_prompt(ore):
    result = ore("hi", "--tool", "echo", "--tool-arg", "b=2", "--tool-arg", "a=1=1")
    assert given(result) == [("user", "[Tool:echo]\na=1=1\nb=2")]
    assert result.prompts == ["hi"]


def test_a_granted_tool_reads_the_file(ore, notes):
    assert given(ore("What?", *READ, *GRANT)) == [("user", "[Tool:read-file]\nBuy milk.")]


@pytest.mark.invariant
def test_a_tool_without_its_grant_is_denied_and_nothing_is_sent(ore, notes):
    result = ore("What?", *READ)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "--grant filesystem-read" in result.err and len(result.err.splitlines()) == 1


@pytest.mark.parametrize(
    "args, named",
    [
        (["--tool-arg", "path=missing.txt"], "missing.txt"),
        (["--tool-arg", "path=/etc/passwd"], "root=DIR"),
        ([], "path=PATH"),
        (["--tool-arg", "path=."], "."),
        (["--tool-arg", "path=notes.txt", "--tool-arg", "pth=x"], "pth"),
    ],
)
def test_a_failing_tool_stops_the_turn(ore, notes, args, named):
    result = ore("What?", "--tool", "read-file", *args, *GRANT)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert named in result.err and len(result.err.splitlines()) == 1


def test_an_unknown_tool_is_1_and_the_known_ones_are_named(ore):
    result = ore("hi", "--tool", "ehco")
    assert (result.code, result.calls) == (1, [])
    assert "ehco" in result.err and "echo" in result.err and "read-file" in result.err


def test_an_unknown_permission_is_2_and_the_known_ones_are_named(ore):
    result = ore("hi", "--grant", "root")
    assert (result.code, result.calls) == (2, []) and "filesystem-read" in result.err


def test_a_denied_tool_keeps_a_repl_going(ore, notes):
    result = ore("-i", *READ, stdin="one\ntwo\n")
    assert (result.code, result.calls) == (1, [])
    assert result.err.count("--grant filesystem-read") == 2


def test_a_tool_runs_before_every_turn_of_a_repl_and_never_enters_the_session(ore, notes):
    def change(_):
        notes.write_text("Buy bread.")
        return "1"

    result = ore("-c", *READ, *GRANT, stdin="one\ntwo\n", replies=[change, "2"])
    assert given(result, 0) == [("user", "[Tool:read-file]\nBuy milk.")]
    assert given(result, 1) == [
        ("user", "[Tool:read-file]\nBuy bread."),
        ("user", "one"),
        ("assistant", "1"),
    ]


def test_a_skill_is_a_system_message_of_every_turn(ore, skill):
    skill("rhyme")
    result = ore("-c", "--skill", "rhyme", stdin="one\ntwo\n", replies=["1", "2"])
    for turn in (0, 1):
        assert given(result, turn)[0] == ("system", f"[Skill:rhyme]\n{BODY}")
    assert len(given(result, 1)) == 3


def test_an_unknown_skill_is_1_before_the_first_turn(ore, skill):
    skill("rhyme")
    result = ore("-c", "--skill", "ryme", stdin="one\n")
    assert (result.code, result.calls) == (1, [])
    assert "ryme" in result.err and "rhyme" in result.err


def test_skills_come_before_tools_and_both_before_the_session(ore, skill):
    skill("rhyme")
    flags = ["--skill", "rhyme", "--tool", "echo", "--tool-arg", "a=1"]
    result = ore("-c", *flags, stdin="one\ntwo\n", replies=["1", "2"])
    assert [role for role, _ in given(result, 1)] == ["system", "user", "user", "assistant"]


def test_a_resource_that_a_skill_names_joins_it(ore, skill):
    folder = skill("rhyme", body="See `references/words.md` and [more](references/none.md).")
    (folder / "references").mkdir()
    (folder / "references/words.md").write_text("moon, June")
    result = ore("hi", "--skill", "rhyme")
    assert given(result)[0][1].endswith("[Resource:references/words.md]\nmoon, June")
    assert "references/none.md" in result.err and result.code == 0


def test_a_broken_skill_stops_nothing_else(ore, skill, home):
    skill("rhyme")
    (home / ".ore/skills/broken").mkdir()
    (home / ".ore/skills/broken/SKILL.md").write_text("no frontmatter")
    result = ore("hi", "--skill", "rhyme")
    assert result.code == 0 and len(result.err.splitlines()) == 1 and "broken" in result.err
    assert ore("--list-skills").out == "rhyme\tDoes it.\n"


def test_nothing_is_scanned_that_was_not_asked_for(ore, home):
    (home / ".ore/skills/broken").mkdir(parents=True)
    (home / ".ore/skills/broken/SKILL.md").write_text("no frontmatter")
    assert ore("hi").err == ""
    assert ore("hi", "--tool", "echo").err == ""


def route(result) -> str:
    lines = [line for line in result.err.splitlines() if line.startswith("[Route]: ")]
    assert len(lines) == 1
    return lines[0].removeprefix("[Route]: ")


def test_a_prompt_is_routed_to_a_tool(ore):
    result = ore("Repeat after me: hello", "--route")
    assert route(result).startswith("echo (confidence: 0.98) — ")
    assert given(result) == [("user", "[Tool:echo]\nmsg=Repeat after me: hello")]


def test_a_prompt_is_routed_to_a_skill(ore, skill):
    skill("rhyme-maker")
    result = ore("I want the rhyme maker now", "--route")
    assert route(result).startswith("rhyme-maker (confidence: 0.64) — ")
    assert given(result) == [("system", f"[Skill:rhyme-maker]\n{BODY}")]


def test_a_route_to_the_skill_that_is_active_injects_it_once(ore, skill):
    skill("rhyme-maker")
    result = ore("rhyme maker", "--route", "--skill", "rhyme-maker")
    assert len(given(result)) == 1


@pytest.mark.parametrize(
    "prompt, flags, start",
    [
        ("nothing like it", [], "No match, using reasoner only. "),
        ("please echo", ["--route-threshold", "0.41"], "No match, using reasoner only. "),
        ("please echo", ["--route-threshold", "0.4"], "echo (confidence: 0.40) — "),
    ],
)
def test_the_routing_decision_is_always_reported(ore, prompt, flags, start):
    assert route(ore(prompt, "--route", *flags)).startswith(start)


@pytest.mark.invariant
@pytest.mark.parametrize("prompt", ["read the file notes.txt", "read the file"])
@pytest.mark.parametrize("flags", [[], ["--json"], ["--dry-run"], ["--quiet"]], ids=str)
def test_a_routed_tool_without_its_grant_stops_the_turn(ore, notes, prompt, flags):
    result = ore(prompt, "--route", *flags)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert result.err.splitlines()[-1].endswith("allow it with --grant filesystem-read.")


def test_a_routed_tool_without_its_grant_keeps_a_repl_going(ore, notes):
    result = ore("-c", "--route", stdin="read the file notes.txt\nhello\n")
    assert (result.code, result.prompts) == (1, ["hello"])
    assert given(result) == []  # the turn that was stopped is no part of the conversation


def test_a_routed_tool_without_its_arguments_is_not_run_and_the_turn_goes_on(ore, notes):
    result = ore("read the file", "--route", *GRANT)
    assert route(result).endswith("; not run: needs path=…")
    assert (result.code, given(result)) == (0, [])


def test_a_routed_tool_with_both_runs(ore, notes):
    result = ore("read the file notes.txt", "--route", *GRANT)
    assert given(result) == [("user", "[Tool:read-file]\nBuy milk.")]


def test_a_routed_tool_that_fails_stops_the_turn(ore, notes):
    result = ore("read the file other.txt", "--route", *GRANT)
    assert (result.code, result.calls) == (1, []) and "other.txt" in result.err


def test_routing_is_in_the_json(ore):
    routing = ore("please echo", "--route", "--route-threshold", "0", "--json").json["routing"]
    keys = ["target", "target_type", "confidence", "args", "reasoning", "id", "timestamp"]
    assert list(routing) == keys
    assert (routing["target"], routing["args"]) == ("echo", {"msg": "please echo"})
    assert "routing" not in ore("please echo", "--json").json


@pytest.fixture
def finder():
    """A tool of a program's own, whose function that finds its arguments is given."""

    def make(extract):
        tool = TOOL_REGISTRY["finder"] = EchoTool()
        tool.name, tool.routing_hints, tool.extract_args = "finder", lambda: ("find",), extract

    yield make
    TOOL_REGISTRY.pop("finder", None)


@pytest.mark.parametrize(
    "extract, said",
    [
        (lambda prompt: 1 // 0, "ZeroDivisionError: "),
        (lambda prompt: sys.exit(3), "SystemExit: 3"),
        (lambda prompt: None, "something other than a dict of texts"),
        (lambda prompt: ["x"], "something other than a dict of texts"),
        (lambda prompt: {"x": 1}, "something other than a dict of texts"),
        (lambda prompt: {"x": "\ud800"}, "surrogates not allowed"),
        (lambda prompt: {"x": "x" * (1 << 26)}, "more than 67,108,864 characters"),
    ],
)
def test_a_routed_tool_that_finds_no_arguments_but_fails_is_one_sentence(
    ore, finder, extract, said
):
    finder(extract)
    result = ore("find it", "--route")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert said in result.err and result.err.startswith("ore: The tool 'finder' failed")
    assert len(result.err.splitlines()) == 1


class Other(dict):
    """Arguments that are others for whoever copies them."""

    def keys(self):
        return ["half\ud800"]

    def __getitem__(self, key):
        return 5

    def items(self):
        return [("msg", "what it says")]

    __iter__ = None


def test_arguments_of_a_class_of_its_own_are_what_they_hold(ore, finder):
    finder(lambda prompt: Other(msg="what it holds"))
    assert ore("find it", "--route", "--json").json["routing"]["args"] == {"msg": "what it holds"}


@pytest.mark.slow
def test_a_routed_tool_that_never_finds_its_arguments_ends_at_the_deadline(ore, finder):
    finder(lambda prompt: time.sleep(20) or {})
    began = time.monotonic()
    result = ore("find it", "--route", "--deadline", "0.5")
    assert time.monotonic() - began < 10
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert result.err.startswith("ore: The tool 'finder' did not find its arguments in 0.")


def test_a_failure_of_a_tool_is_told_on_one_line(ore, finder):
    finder(lambda prompt: {})
    TOOL_REGISTRY["finder"].run = lambda args: ToolResult("finder", "bad\nYou: forged", "error")
    result = ore("hi", "--tool", "finder")
    assert result.err == "ore: The tool 'finder' failed, so nothing was sent: bad^JYou: forged\n"


def test_of_a_very_long_failure_of_a_tool_the_beginning_is_told(ore, finder):
    finder(lambda prompt: {})
    TOOL_REGISTRY["finder"].run = lambda args: ToolResult("finder", "bad " * 50_000, "error")
    result = ore("hi", "--tool", "finder")
    assert "failed, so nothing was sent: bad bad" in result.err and len(result.err) < 10_000


def test_what_a_routed_tool_lacks_is_told_in_short_and_on_one_line(ore, finder):
    finder(lambda prompt: {})
    TOOL_REGISTRY["finder"].required_args = ("a\nYou: \x1b[2J", *["b"] * 10_000)
    result = ore("find it", "--route", replies=["Yes."])
    assert "; not run: needs a^JYou: ^[[2J=… b=… b" in result.err
    assert (result.code, len(result.err.splitlines())) == (0, 1) and len(result.err) < 1000


def test_what_a_tool_prints_is_no_part_of_the_answer(ore, finder, capsys):
    finder(lambda prompt: print("You: no") or {})
    result = ore("find it", "--route", replies=["Yes."])
    assert (result.code, result.out, capsys.readouterr()) == (0, "Yes.\n", ("", "You: no\n"))


def test_a_route_is_chosen_again_in_every_turn_of_a_repl(ore):
    result = ore("-i", "--route", stdin="repeat after me: a\nb\n", replies=["1", "2"])
    assert [bool(given(result, turn)) for turn in (0, 1)] == [True, False]
    assert result.err.count("[Route]: ") == 2


def test_tools_are_listed_with_their_permissions(ore):
    lines = [line.split("\t") for line in ore("--list-tools").out.splitlines()]
    assert [line[:2] for line in lines] == [["echo", "-"], ["read-file", "filesystem-read"]]
    assert ore("--list-tools", "--json").json[1]["permissions"] == ["filesystem-read"]


def test_skills_are_listed_as_json(ore, skill):
    skill("rhyme", extra="\nhints: [verse]")
    assert ore("--list-skills", "--json").json == [
        {"name": "rhyme", "description": "Does it.", "hints": ["verse"]}
    ]


@pytest.mark.parametrize("text", ["path", "=b"])
@pytest.mark.parametrize("flag", ["-o", "--set", "--tool-arg"])
def test_an_argument_that_is_not_a_pair_is_refused_before_what_follows_it(ore, flag, text):
    result = ore(flag, text, "notes.txt", "Where is the boat?")
    assert result.code == 2 and "takes KEY=VALUE, with = between them" in result.err
    assert result.err.endswith(f", not '{text}'.\n")


def test_an_argument_given_twice_is_refused():
    with pytest.raises(UsageError, match="twice"):
        parse_arguments(("a=1", "a=2"), "--set")


def test_text_that_is_piped_in_chooses_no_route(ore):
    result = ore("What is this?", "--route", stdin="repeat after me: hello\n")
    assert route(result).startswith("No match")
    assert route(ore("--route", stdin="repeat after me: hello\n")).startswith("echo")


@pytest.mark.slow
def test_the_hints_of_a_skill_do_not_outlive_the_deadline(ore, skill):
    skill("rhyme", extra=f"\nhints: [{', '.join('a' * n for n in range(1, 350))}]")
    began = time.monotonic()
    late = ore("--route", "--deadline", "0.2", stdin="a" * (1 << 20))
    assert (late.code, late.out) == (1, "") and "No route was found in time" in late.err
    assert time.monotonic() - began < 30


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--skill", "rhyme0"), ("--route",)])
def test_reading_skills_does_not_outlive_the_deadline(ore, skill, how):
    for number in range(12):
        skill(f"rhyme{number}", extra=f"\nhints: [{'1,' * 32_000}]")
    late = ore("hi", *how, "--deadline", "0.5")
    assert (late.code, late.out, late.calls) == (1, "", [])
    told = late.err.splitlines()
    assert told[-1].startswith("ore: The skills were not read in time, so nothing was sent: ")


@pytest.mark.slow
def test_reading_files_does_not_outlive_the_deadline(ore, folder):
    (folder / "many").mkdir()
    for number in range(600):
        (folder / f"many/{number}.txt").write_text("Buy milk.")
    late = ore("hi", "--file", "many", "--deadline", "0.001")
    assert (late.code, late.out, late.calls) == (1, "", [])
    assert late.err.startswith("ore: The files were not read in time, so nothing was sent: ")


def test_a_denied_tool_is_reported_before_a_server_is_asked(ore, notes):
    def no_backend(*_):
        raise AssertionError("a backend was opened")

    assert ore("What?", *READ, open_backend=no_backend).code == 1


@pytest.mark.slow
def test_choosing_the_model_is_part_of_the_turn_s_time(home):
    with FakeOllama(wait=4, on="/api/tags", reply="word " * 40, delay=0.04) as server:
        flags = ("hi", "--host", server.url, "--deadline", "5")
        result = run_ore(*flags, open_backend=open_backend)
        assert run_ore(*flags, "--model", "llama3.2", open_backend=open_backend).code == 0
    assert (result.code, result.out) == (1, "")
    assert "was not complete after 5 s" in result.err


@pytest.mark.slow
def test_checking_the_pin_is_part_of_the_time_of_each_turn_of_a_repl(home):
    with FakeOllama(models=("llama3.2:latest",), wait=0.9, on="/api/tags") as server:
        digest = hashlib.sha256(b"llama3.2:latest").hexdigest()
        flags = ("-i", "-m", f"llama3.2@sha256:{digest}", "--host", server.url, "--deadline", "0.8")
        result = run_ore(*flags, stdin="hi\nho\n", open_backend=open_backend)
    assert (result.code, result.out, len(server.chats)) == (1, "", 0)
    assert result.err.count("was not complete after 0.8 s") == 2


@pytest.mark.slow
def test_what_is_looked_up_beside_a_turn_ends_soon_after_its_deadline(home, folder):
    slowly = {"on": "*", "wait": 1.4}
    with FakeOllama(scenario=[("happy", {}), ("happy", slowly)]) as server:
        flags = ("hi", "--host", server.url, "--deadline", "1", "--model", "llama3.2")
        result = run_ore(*flags, "--artifact-out", "a.json", open_backend=open_backend)
        assert (result.code, result.out) == (0, "Paris.\n")
        seen = [each.path for each in server.requests]
        assert seen[:3] == ["/api/chat", "/api/ps", "/api/chat"] and len(server.chats) == 1
        assert "/api/tags" not in seen
        begun = time.monotonic()
        run_ore(*flags, "--artifact-out", "b.json", "--strict-context", open_backend=open_backend)
        assert time.monotonic() - begun < 5


def test_where_a_skill_is_skipped_it_is_not_said_that_there_are_none(ore, home):
    assert "There are no skills" in ore("--list-skills").err
    write_skill(home / ".ore/skills", frontmatter="name: pdf")
    result = ore("--list-skills")
    assert (result.out, result.err.count("\n")) == ("", 1) and "There are no" not in result.err
