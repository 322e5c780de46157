"""A REPL's commands: one table, what each does, and that none of it is sent to the model."""

from __future__ import annotations

import io
import re
import shlex
import sys

import pytest

from ore.backends.settings import Settings
from ore.cli.advice import said
from ore.cli.commands import COMMANDS, ELSEWHERE, KEYS, Talk, complete, perform
from ore.cli.terminal import bytewise
from ore.cli.terminal.console import Console
from ore.errors import BackendError, ModelNotFoundError
from tests.support.harness import ScriptedBackend, ScriptedReasoner, Terminal
from tests.support.process import ROOT

TERMINAL = {"terminal": "in out err"}
PAGE = (ROOT / "docs" / "repl.md").read_text(encoding="utf-8")


def typed(ore, *lines: str, args=("-c",), **more):
    text = "".join(f"{line}\n" for line in lines)
    return ore(*args, stdin=text, **{**TERMINAL, **more})


def talk(models=("scripted", "second")) -> Talk:
    class Run:
        pass

    run = Run()
    run.backend = ScriptedBackend(models=models)
    run.console = Console(None, None, None)
    return Talk(run)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_is_in_help_and_documentation_and_is_never_a_prompt(ore, command, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    assert f"| `{command.usage}` | {command.help} |" in PAGE
    for name in (command.name, *command.also):
        result = typed(ore, name)
        assert (result.code, result.prompts) == (0, []), name
    assert f"{command.usage:<13}  {command.help}\n" in typed(ore, "/help").err


def test_the_page_lists_no_other_command():
    table = PAGE[PAGE.index("<!-- begin commands -->") : PAGE.index("<!-- end commands -->")]
    listed = re.findall(r"^\| `(/\w+)", table, flags=re.MULTILINE)
    assert listed == [command.name for command in COMMANDS]


def test_help_is_shown_with_quiet_too(ore):
    err = typed(ore, "/help", args=("-c", "-q")).err
    assert "/retry" in err and all(key in err and does in err for key, does in KEYS)


@pytest.mark.parametrize("line", ["/unknown", "/helpme", "/", "/HELP", "/etc/passwd is what?"])
def test_an_unknown_command_is_an_error_line_and_not_a_prompt(ore, line):
    result = typed(ore, line, "Hi")
    assert (result.code, result.prompts) == (0, ["Hi"])
    name = line.partition(" ")[0]
    assert f"ore: There is no command {name}: /help lists the commands; " in result.err


@pytest.mark.parametrize("name", ELSEWHERE)
def test_commands_known_from_elsewhere_point_to_ours(ore, name):
    result = typed(ore, f"{name} something")
    assert result.prompts == [] and f"{name}: {ELSEWHERE[name]}." in result.err


def test_two_slashes_send_one(ore):
    assert typed(ore, "//help me", "// x").prompts == ["/help me", "/ x"]


def test_a_command_that_takes_nothing_says_so(ore):
    result = typed(ore, "/bye now", "Hi")
    assert result.prompts == ["Hi"] and "/bye takes no argument" in result.err


@pytest.mark.parametrize("word", ["/bye", "/exit", "quit", " EXIT "])
def test_a_command_or_a_word_leaves(ore, word):
    assert typed(ore, "Hi", word, "Hi").prompts == ["Hi"]


def test_lines_on_a_pipe_are_prompts_as_they_are(ore):
    lines = ["/help", "//x", '"""', "/tmp/a is what?"]
    assert ore("-i", stdin="\n".join(lines) + "\n").prompts == lines


@pytest.mark.parametrize(
    "lines, prompt",
    [
        (['"""', "one", "  two", '"""'], "one\n  two"),
        (['"""one', 'two"""'], "one\ntwo"),
        (['"""one"""'], "one"),
        (['"""', "", "one", "", '"""'], "\none\n"),
        (['"""/help"""'], "/help"),
        (['  """quit""" '], "quit"),
    ],
)
def test_quotes_hold_a_text_of_several_lines(ore, lines, prompt):
    assert typed(ore, *lines).prompts == [prompt]


@pytest.mark.parametrize(
    "bad, why", [(b"caf\xe9", "not UTF-8 at byte 10"), (b"x" * 5000, "has 4,095 bytes")]
)
@pytest.mark.parametrize("first", [b'"""one\n', b'"""one \xe9\n'])
def test_the_rest_of_a_text_in_quotes_with_a_bad_line_is_no_prompt(ore, first, bad, why):
    bad = bad[:4095] + b"\n"  # what a terminal passes on
    typed = first + bad + b'three\n"""\nNext?\n'
    result = ore("-i", stdin=typed, terminal="in err", replies=["Yes."])
    assert result.prompts == ["Next?"]
    assert result.err.count("nothing was sent") == 1
    assert why in " ".join(result.err.split()) or b"\xe9" in first


def test_a_line_that_takes_the_closing_quotes_with_it_is_told_at_once(ore):
    typed = b'"""one\n' + b"x" * 4095 + b"\nNext?\n"
    result = ore("-i", stdin=typed, terminal="in err")
    said = " ".join(result.err.split())
    assert result.prompts == [] and said.index("has 4,095 bytes") < said.index("is missing")
    assert 'The text is dropped, up to the closing """.' in said


def test_a_text_without_closing_quotes_is_dropped_and_reported(ore):
    result = typed(ore, '"""', "one")
    assert (result.code, result.prompts) == (0, [])
    assert 'The text was dropped: the closing """ is missing.' in result.err


def test_retry_asks_again_as_a_new_turn_and_says_what(ore):
    result = typed(ore, "/retry", "Hi", "/retry", replies=[BackendError("Down."), "Fine."])
    assert result.prompts == ["Hi", "Hi"]
    assert "Nothing was asked yet" in result.err and "Asking again: Hi\n" in result.err
    assert [m.content for m in result.calls[1][1:]] == ["Hi"]


def test_retry_in_a_resumed_session_asks_its_last_prompt(ore):
    ore("Where is Rome?", "--session", "s")
    result = typed(ore, "/retry", args=("--session", "s"))
    assert [m.content for m in result.calls[0][1:]] == [
        "Where is Rome?",
        "Paris.",
        "Where is Rome?",
    ]


@pytest.mark.slow
def test_of_a_very_long_prompt_that_is_asked_again_the_beginning_is_shown(ore):
    long = "It is said of Rome. " * 10_000
    ore(long, "--session", "s")
    result = typed(ore, "/retry", args=("--session", "s"), replies=["Fine."])
    assert result.prompts == [long] and result.code == 0
    shown = result.err.partition("Asking again: ")[2]
    assert "It is said of Ro…\n" in shown and len(shown) < 1 << 17


def test_a_model_is_chosen_listed_and_refused(ore):
    models = ("scripted", "second:latest")
    lines = ("/model", "/model third", "/model second", "/model", "Hi")
    result = typed(ore, *lines, models=models)
    assert "* scripted\n  second:latest\n" in result.err
    assert (
        "There is no model 'third': /model lists the installed ones; scripted is still used"
        in result.err
    )
    assert "Model: second:latest (scripted)\n" in result.err
    assert "  scripted\n* second:latest\n" in result.err
    assert result.backend.engine.model_id == "second:latest" and result.prompts == ["Hi"]


def test_of_very_many_models_and_of_very_long_names_a_part_is_listed():
    there = talk(models=("mine", "m" * 1_000_000, *(f"m{number}" for number in range(1500))))
    there.run.model_id = "mine"
    there.run.console = Console(None, None, Terminal())
    perform(there, "/model")
    first, long, *_, last, more = there.run.console.stderr.getvalue().splitlines()
    assert (first, last) == ("* mine", "  m997") and len(long) < 400
    assert more == "  and 502 more: run ore --list-models with this --backend and --host"


def test_a_model_that_was_removed_is_not_used_any_more():
    there = talk(models=("other",))
    there.run.model_id = "mine"
    with pytest.raises(
        ModelNotFoundError, match="'mine' any more: /model lists .*; choose another"
    ):
        perform(there, "/model mine")


def test_where_no_model_is_left_a_flag_says_how_to_fetch_one():
    empty = talk(models=())
    empty.run.model_id = "gone"
    empty.run.console = Console(None, None, io.StringIO())
    empty.run.console.said = said
    perform(empty, "/model")
    shown = empty.run.console.stderr.getvalue()
    assert shown == "No model is installed: fetch one with --pull NAME.\n"


def test_the_conversation_goes_on_with_the_other_model(ore):
    result = typed(ore, "one", "/model second", "two", models=("scripted", "second"))
    assert [m.content for m in result.calls[1][1:]] == ["one", "Paris.", "two"]
    assert isinstance(result.backend.settings, Settings)


@pytest.mark.parametrize("how", ["-c", "-i"])
def test_what_concerns_every_turn_is_said_once_of_each_model(ore, how):
    noted = {"notes": ["The template is an odd one."]}
    lines = ("one", "/model second", "two", "three", "/model scripted", "four")
    models = ("scripted", "second")
    result = typed(ore, *lines, args=(how,), models=models, metadata=noted)
    assert len(result.calls) == 4 and result.err.count("The template is an odd one.") == 2


def test_messages_are_joined_for_the_other_model_too(ore, tmp_path):
    (tmp_path / "notes.txt").write_text("Notes.")
    flags = ("-c", "-f", str(tmp_path / "notes.txt"), "--join-messages", "always")
    lines = ("one", "/model second", "two", "/show")
    result = typed(ore, *lines, args=flags, models=("scripted", "second"))
    assert "--join-messages always" in result.err.split("active")[1]
    assert [m.role for m in result.calls[0]] == ["system", "user"]
    assert [m.role for m in result.calls[1]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "lines, args, model",
    [
        (("/model second", "one"), ("-S", "sea"), "second"),
        (("/model second", "/save sea", "one"), ("-c",), "second"),
        (("/save sea", "/model second", "one"), ("-c",), "second"),
        (("one", "/model second", "two"), ("-S", "sea"), "scripted"),
    ],
)
def test_a_session_is_begun_with_the_model_of_its_first_turn(ore, lines, args, model):
    models = ("scripted", "second")
    typed(ore, *lines, args=args, models=models)
    assert f"with the model {model}\n" in ore("--show-session", "sea").out
    later = ore("-S", "sea", "later", models=models)
    assert later.backend.engine.model_id == model


@pytest.mark.parametrize(
    "name",
    ["second", "SECOND:latest", "library/second", "registry.ollama.ai/library/second:latest"],
)
def test_a_model_is_found_under_each_of_its_names(ore, name):
    result = typed(ore, f"/model {name}", models=("scripted", "second:latest"))
    assert "Model: second:latest (scripted)\n" in result.err


def test_every_reasoner_is_closed_once_it_is_left(ore):
    made = []

    class Counting(ScriptedReasoner):
        is_closed = False

        def close(self):
            self.is_closed = True

    class Several(ScriptedBackend):
        def reasoner(self, model_id, settings):
            made.append(Counting([lambda _: f"{made[0].is_closed}"], model_id))
            return made[-1]

    backend = Several(models=("scripted", "second"))
    assert "[AYA]: True" in typed(ore, "/model second", "Hi", open_backend=lambda *_: backend).out
    assert [reasoner.model_id for reasoner in made] == ["scripted", "second"]
    assert all(reasoner.is_closed for reasoner in made) and len(made[1].calls) == 1


def test_show_says_what_a_turn_is_made_of(ore, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("x")
    context = {"context": {"window": 4096, "prompt_tokens": 20, "status": "complete"}}
    args = ("--session", "s", "-f", str(path), "-v")
    err = typed(ore, "/show", "Hi", "/show", args=args, metadata=context).err
    assert "model    scripted (scripted)\nwindow   known after the first turn\n" in err
    assert "window   4096 tokens; the last prompt had 20\n" in err
    assert "session  s, saved after each turn\nturns    1\n" in err
    assert f"active   --verbose --file {path}\n" in err
    assert "session  none: every turn on its own\n" in typed(ore, "/show", args=("-i",)).err


def test_verbose_is_switched(ore):
    err = typed(ore, "one", "/verbose", "two", "/verbose", "three").err
    assert err.count("[Metadata]: scripted") == 1


def test_verbose_does_not_say_that_it_shows_what_quiet_hides(ore):
    err = typed(ore, "/verbose", "one", "/verbose", args=("-c", "-q")).err
    assert "The [Metadata] line is on, and --quiet hides it." in err and "[Metadata]:" not in err
    assert "The [Metadata] line is off." in err


def test_a_window_that_was_asked_for_is_none_yet(ore):
    err = typed(ore, "/show", args=("-c", "-o", "num_ctx=999999999")).err
    assert "window   known after the first turn, 999999999 tokens were asked for\n" in err


@pytest.mark.parametrize(
    "line, words",
    [
        ("/m", ["/model"]),
        ("/", [command.name for command in COMMANDS]),
        ("/model s", ["scripted", "second"]),
        ("/model sec", ["second"]),
        ("/show s", []),
        ("Hello /m", []),
        ("", []),
    ],
)
def test_completion_knows_commands_and_models(line, words):
    assert complete(talk(), line) == words


def test_completion_leaves_out_names_that_are_not_words():
    assert complete(talk(models=("a b", "a\x1b[31m", "abc")), "/model a") == ["abc"]


def test_completion_offers_no_name_that_is_a_command_of_a_terminal_that_takes_bytes(monkeypatch):
    monkeypatch.setattr(bytewise, "_ARE_THERE", True)
    there = talk(models=("\u011b2J", "\u00c5x", "cafe"))
    assert complete(there, "/model ") == ["cafe"]


def test_completion_offers_no_name_that_passes_for_a_line_of_ores():
    models = ("You:", "Yo\U0001e030u:", "[AYA]:", "ore:", "x" * 80 + "You:", "y" * 1_000, "yi:6b")
    assert complete(talk(models=models), "/model ") == ["yi:6b"]
    persona = talk(models=("[CAFÉ]:", "[café]:yes", "yi:6b"))
    persona.run.console.answers_as("Café")
    assert complete(persona, "/model ") == ["yi:6b"]


def test_completion_offers_a_name_with_letters_that_a_terminal_may_be_too_old_to_show():
    assert complete(talk(models=("к\u04cfа:7b",)), "/model ") == ["к\u04cfа:7b"]


def test_completion_offers_no_model_while_the_server_is_down():
    down = talk()

    def models():
        raise BackendError("The server is down.")

    down.run.backend.models = models
    assert complete(down, "/model s") == []


def test_an_edited_prompt_is_sent_and_one_that_is_empty_is_not(ore, tmp_path, monkeypatch):
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[2], 'w').write(sys.argv[1])")
    for text, prompts in (("What is new?", ["What is new?"]), ("  ", [])):
        monkeypatch.setenv("VISUAL", shlex.join([sys.executable, str(editor), text]))
        result = typed(ore, "/edit a draft")
        assert (result.code, result.prompts) == (0, prompts)
        assert ("nothing is sent" in result.err) == (not prompts)
