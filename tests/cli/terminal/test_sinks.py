"""Everything untrusted, through every place where it can reach a terminal: shown, never obeyed."""

from __future__ import annotations

import io
import json

import pytest

from ore.cli.terminal.console import Console
from ore.errors import BackendError
from ore.store import FileSessionStore
from ore.types import Message, Session
from tests.support.harness import XTERM, Terminal
from tests.support.sequences import CONTROLS, FORMATS, SEQUENCES, obeyed
from tests.support.terminal import document_of

TERMINAL = {"terminal": "in out err"}
ALL = " ".join(SEQUENCES) + CONTROLS + FORMATS


def console() -> Console:
    return Console(io.BytesIO(), Terminal(), Terminal(), XTERM)


def answer(target: Console, text: str) -> None:
    target.begin_answer()
    target.chunk(text)
    target.end_answer()


def rendered(target: Console, text: str) -> None:
    pytest.importorskip("rich")
    target.markdown = True
    answer(target, text)


def waited(target: Console, text: str) -> None:
    target._draw(text, " · 1 s")
    drawn = target.stderr.getvalue()
    target.stderr.seek(0)
    target.stderr.truncate()
    target.stderr.write(drawn.removeprefix("\x1b[K\x1b7\x1b[?7l").removesuffix("\x1b[?7h\x1b8"))


def progressed(target: Console, text: str) -> None:
    target.progress(text, 1, 2)
    shown = target.stderr.getvalue()
    target.stderr.seek(0)
    target.stderr.truncate()
    target.stderr.write(shown.removesuffix("\r"))


SINKS = {
    "answer": answer,
    "rendered": rendered,
    "document": lambda target, text: target.document(text),
    "json": lambda target, text: target.json({text: text}),
    "json_list": lambda target, text: target.json_list([{text: text}, text]),
    "rows": lambda target, text: target.rows([(text, text)]),
    "transcript": lambda target, text: target.transcript(text, [("You: ", text)]),
    "notice": lambda target, text: target.notice(text),
    "reply": lambda target, text: target.reply(text),
    "error": lambda target, text: target.error(text),
    "metadata": lambda target, text: target.metadata(text, text, {text: text, "x": {"y": text}}),
    "thinking": lambda target, text: (target.thinking(text), target.end_thinking()),
    "progress": progressed,
    "waiting": waited,
}


@pytest.mark.parametrize(
    "sink",
    [pytest.param(name, marks=pytest.mark.slow if name == "rendered" else ()) for name in SINKS],
)
def test_every_sink_shows_and_never_obeys(sink):
    for text in (ALL, *SEQUENCES):
        target = console()
        SINKS[sink](target, text)
        shown = target.stdout.getvalue() + target.stderr.getvalue()
        assert obeyed(shown) == set(), (sink, text)


def test_there_are_sixty_sequences_and_all_of_them_are_dangerous():
    assert len(set(SEQUENCES)) >= 60
    assert [s for s in SEQUENCES if not obeyed(s) and s != "\ufeff\u200b"] == []


@pytest.mark.parametrize("sequence", SEQUENCES, ids=ascii)
def test_a_streamed_answer_may_be_cut_anywhere(sequence):
    text = f"a {sequence} b"
    whole = console()
    answer(whole, text)
    for cut in range(len(text) + 1):
        target = console()
        target.begin_answer()
        target.chunk(text[:cut])
        target.chunk(text[cut:])
        target.end_answer()
        assert target.stdout.getvalue() == whole.stdout.getvalue()


def test_a_forged_label_on_stderr_is_indented():
    target = console()
    target.error("The tool said:\n[AYA]: yes\nYou: do it")
    assert target.stderr.getvalue() == "ore: The tool said:\n [AYA]: yes\n You: do it\n"


# The same through the command line.


@pytest.mark.parametrize("flags", [[], ["-s"], ["-v"], ["-i"], ["-c", "-s"]])
def test_an_answer_on_a_terminal(ore, flags):
    result = ore("Hi", *flags, stdin="", replies=[[ALL, ALL]], metadata={"x": ALL}, **TERMINAL)
    assert result.code == 0 and obeyed(result.out + result.err) == set()


def test_an_answer_in_a_pipe_is_verbatim(ore):
    assert ore("Hi", "-s", replies=[[ALL, ALL]]).out == ALL + ALL + "\n"


def test_an_error_a_list_of_models_and_an_artifact(ore, tmp_path):
    assert obeyed(ore("Hi", replies=[BackendError(ALL)], **TERMINAL).err) == set()
    models = [ALL, "second"]
    assert obeyed(ore("--list-models", models=models, **TERMINAL).out) == set()
    result = ore("-i", stdin="/model\n/show\n/model x\n", models=models, **TERMINAL)
    assert obeyed(result.out + result.err) == set()
    path = tmp_path / "run.json"
    assert ore("Hi", "--artifact-out", str(path)).code == 0
    data = json.loads(path.read_text())
    data["execution_id"] = data["output"]["id"] = data["input"]["model_id"] = ALL
    path.write_text(json.dumps(data))
    result = ore("--artifact-in", str(path), models=models, **TERMINAL)
    assert obeyed(result.out + result.err) == set()


@pytest.mark.parametrize(
    "args",
    [["--list-sessions"], ["--show-session", "s"], ["--search-sessions", "a"], ["--session", "s"]],
)
def test_no_session_verb_lets_a_message_command_the_terminal(ore, args):
    messages = [Message("user", f"a {ALL}"), Message("assistant", f"{ALL}\nYou: forged")]
    FileSessionStore().save(Session(messages), "s")
    result = ore(*args, stdin="", **TERMINAL)
    assert result.code == 0 and obeyed(result.out + result.err) == set()
    assert "\nYou: forged" not in result.out + result.err


def test_no_name_of_a_skill_tool_or_file_commands_the_terminal(ore, home, tmp_path, monkeypatch):
    folder = home / ".ore" / "skills" / "odd"
    folder.mkdir(parents=True)
    description = json.dumps(f"Does {ALL}")
    (folder / "SKILL.md").write_text(f"---\nname: odd\ndescription: {description}\n---\nBody.\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a\x1b[31m\n[AYA]: b").write_text("text")
    for args in (
        ["--list-skills"],
        ["--list-tools"],
        ["Hi", "--tool", "a\x1b[31m"],
        ["Hi", "--skill", "a\x1b[31m"],
        ["Hi", "--tool", "read-file", "--tool-arg", "path=no\x1b[31m\n[AYA]: b"],
        ["Hi", "-f", "no\x1b[31m\n[AYA]: b"],
        ["Hi", "-f", "a\x1b[31m\n[AYA]: b"],
        ["--\x1b[31m"],
    ):
        result = ore(*args, **TERMINAL)
        assert obeyed(result.out + result.err) == set(), args
        assert "\n[AYA]: b" not in result.out + result.err


FORGED = ("You: do it", "[AYA]: yes", "ORE: all holds", "ore: warning: x", "[ЕVA]: x")


@pytest.mark.parametrize("line", FORGED)
@pytest.mark.parametrize("sink", ["document", "rows"])
def test_no_label_begins_a_line_of_a_document_or_a_list(sink, line):
    target = console()
    target.answers_as("Eva")
    texts = {"document": f"a: 1\n{line}\n  b\n", "rows": line}
    SINKS[sink](target, texts[sink])
    shown = target.stdout.getvalue().splitlines()
    assert all(not each.startswith(line) for each in shown)
    assert f" {line}" in "\n".join(shown) and (sink == "rows" or shown[2] == "  b")


def test_a_document_keeps_its_lines_where_the_terminal_cuts_them():
    """But where a label would begin the next one."""
    long = "x" * 100 + " def f():\n\treturn 1\n"
    assert document_of(long, 40) == long
    for before in range(30, 90):
        whole = document_of("x" * before + "You: do it\n", 40)
        rows = [row for line in whole.splitlines() for row in _cut(line, 40)]
        assert not any(row.startswith("You:") for row in rows), whole


@pytest.mark.parametrize("sink", ["document", "json", "json_list"])
def test_a_value_of_a_document_brings_no_label_to_the_edge_where_the_terminal_cuts_it(sink):
    target = console()
    target._columns = lambda stream: 40
    SINKS[sink](target, "You: x " * 40)
    lines = target.stdout.getvalue().splitlines()
    assert not [row for line in lines for row in _cut(line, 40) if row.startswith("You:")]


def _cut(line, width):
    return [line[at : at + width] for at in range(0, max(len(line), 1), width)]


@pytest.mark.parametrize(
    "args", [["--show", "run.json"], ["-x", "Hi"], ["--export-session", "s"], ["--verify", "."]]
)
def test_what_a_model_or_a_name_says_is_not_ores_own(ore, folder, args):
    """In a pipe it is verbatim."""
    answer = "```\nYou: forged\n[AYA]: forged\n```"
    assert ore("Hi", "--artifact-out", "run.json", replies=[answer]).code == 0
    (folder / "You: forged.json").write_text("{}")
    ore("Hi", "--save-session", "s", replies=[answer])
    shown = ore(*args, replies=[answer], **TERMINAL).out
    assert "You: forged" in shown and "\nYou: forged" not in f"\n{shown}"
    if args[0] == "-x":
        assert ore(*args, replies=[answer]).out == "You: forged\n[AYA]: forged\n"
