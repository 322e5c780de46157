"""A REPL on a real pseudo-terminal: editing, pasting, commands and every state of Ctrl-C."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import stat
import sys
import time
from contextlib import contextmanager

import pytest

from ore.store import FileSessionStore
from ore.types import Session
from tests.support.fake_ollama import FakeOllama
from tests.support.process import MAIN, until
from tests.support.sessions import turn
from tests.support.terminal import OURS, OnTerminal

pytest.importorskip("readline")

PYTHON = shlex.quote(sys.executable)
ASK = "You:\x1b[0m "


def plain(seen: bytes) -> str:
    return OURS.sub(b"", seen).decode().replace("\r\n", "\n")


def test_a_line_is_edited_answered_and_left_with_ctrl_d():
    with OnTerminal("-i", replies=["Paris."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type("Capitul of France?\x1b[D" + "\x1b[D" * 11 + "\x7fa\r")
        terminal.wait_for("[AYA]:\x1b[0m Paris.\r\n")
        terminal.type("\x1b[A")
        assert "Capital of France?" in plain(terminal.wait_for("France?"))
        terminal.type("\x15\x04")
        code, _ = terminal.end()
    assert code == 0


@pytest.mark.slow
def test_a_conversation_goes_on_where_stderr_is_closed():
    with FakeOllama(reply="Paris.") as server:
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, MAIN, "-c"]
        with OnTerminal(command=command, env={"OLLAMA_HOST": server.url}) as terminal:
            terminal.wait_for(ASK)
            terminal.type("Hi\r")
            terminal.wait_for("Paris.")
            terminal.wait_for(ASK)
            terminal.type("\x04")
            assert terminal.end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("to", ["/dev/null", "&-"])
def test_the_line_that_ctrl_c_clears_is_left_where_stderr_is_no_terminal(to):
    with FakeOllama(reply="Paris.") as server:
        command = ["sh", "-c", f'exec "$@" 2>{to}', "sh", sys.executable, MAIN, "-c"]
        with OnTerminal(command=command, env={"OLLAMA_HOST": server.url}) as terminal:
            terminal.wait_for(ASK)
            terminal.type("a long line")
            terminal.wait_for("a long line")
            terminal.interrupt("\x03")
            assert b"\n" in terminal.wait_for(ASK)


@pytest.mark.slow
@pytest.mark.parametrize("to, ask", [("2>&-", ASK), (">/dev/null", "You: ")])
def test_a_line_typed_ahead_is_shown_where_lines_are_not_edited(to, ask):
    with FakeOllama(reply="It is so.", delay=0.4) as server:
        command = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, MAIN, "-c"]
        with OnTerminal(command=command, env={"OLLAMA_HOST": server.url}) as terminal:
            terminal.wait_for(ask)
            terminal.type("first\r")
            until(lambda: any(request.path == "/api/chat" for request in server.requests))
            terminal.type("a\x02head\r")
            assert terminal.wait_for("a^Bhead").endswith(ask.encode() + b"a^Bhead")
            terminal.wait_for(ask)
            terminal.type("typed\r")
            assert terminal.wait_for(ask).count(b"typed") == 1


@pytest.mark.slow
def test_ctrl_d_typed_ahead_ends_the_prompt_s_line_once_whatever_follows_it():
    with FakeOllama(reply="It is so.", delay=0.4) as server:
        command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, MAIN, "-c"]
        with OnTerminal(command=command, env={"OLLAMA_HOST": server.url}) as terminal:
            terminal.wait_for(ASK)
            terminal.type("first\r")
            until(lambda: any(request.path == "/api/chat" for request in server.requests))
            terminal.type("\x04never read\r")
            terminal.wait_for(ASK)
            assert terminal.end() == (0, b"\r\n")


@pytest.mark.slow
def test_a_line_is_free_below_the_last_answer_of_a_session_that_goes_on(home):
    FileSessionStore().save(Session(turn()), "trip")
    with OnTerminal("--session", "trip") as terminal:
        terminal.wait_for("leaves.")
        terminal.wait_for("answer hello\r\n")
        assert plain(terminal.wait_for(ASK)) == "\nYou: "


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["C", "xx_YY.UTF-8"])
def test_letters_are_typed_in_utf8_whatever_the_locale(locale):
    with FakeOllama(reply="Paris.") as server:
        env = {"LC_ALL": locale, "OLLAMA_HOST": server.url}
        with OnTerminal(command=[sys.executable, MAIN, "-c"], env=env) as terminal:
            terminal.wait_for(ASK)
            terminal.type("é字 🧑\u200d🚀 e\u0301 שלום ß\r")
            terminal.wait_for("Paris.")
            terminal.wait_for(ASK)
            terminal.type("\x04")
            assert terminal.end()[0] == 0
        asked = [sent.json["messages"][-1]["content"] for sent in server.chats]
    assert asked == ["é字 🧑\u200d🚀 e\u0301 שלום ß"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "env", [{}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_an_entry_of_the_history_that_no_line_can_hold_is_passed_over(home, tmp_path, env):
    (home / ".ore").mkdir(mode=0o700)
    (home / ".ore/history").write_text("first\na\0b\n語\n", encoding="utf-8")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf '語' > \"$1\"\n")
    editor.chmod(0o700)
    env = {**env, "EDITOR": str(editor), "ORE_HISTORY": "on"}
    with OnTerminal("-i", replies=["Read."], env=env) as terminal:
        terminal.wait_for(ASK)
        terminal.type("\x1b[A" * 3)
        terminal.wait_for("first")
        terminal.type("\x15/edit\r")
        terminal.wait_for("Read.")
        terminal.type("/bye\r")
        assert terminal.end()[0] == 0


LEAVING = """
import os, signal, sys
from ore.cli.terminal.editing import LineEditor
from ore.cli.terminal.history import History

def press(frame, event, _):
    if event == "call" and frame.f_code.co_name == "__exit__":
        sys.setprofile(None)
        os.kill(os.getpid(), signal.SIGTSTP)

editor = LineEditor(History(None), lambda line: [])
sys.setprofile(press)
try:
    editor.read("You: ", str)
except KeyboardInterrupt:
    print("interrupted in", editor.typed)
print("read", editor.read("You: ", str))
print("as before", signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL)
"""


@pytest.mark.slow
def test_ctrl_z_in_the_moment_after_ctrl_c_does_not_keep_it_from_being_heard():
    with OnTerminal(command=[sys.executable, "-c", LEAVING]) as terminal:
        terminal.wait_for("You: ")
        terminal.type("one")
        terminal.wait_for("one")
        terminal.interrupt("\x03")
        terminal.wait_for("interrupted in one")
        terminal.wait_for("You: ")
        terminal.type("two\r")
        terminal.wait_for("read b'two\\n'")
        terminal.wait_for("as before True")
        assert terminal.end()[0] == 0


@contextmanager
def completing():
    """A REPL on a terminal in which the names of models are asked for, at a slow server."""
    with FakeOllama(scenario="happy", on="/api/tags", wait=1.0) as ollama:
        command, env = [sys.executable, MAIN, "-i", "-m", "mistral"], {"OLLAMA_HOST": ollama.url}
        with OnTerminal(command=command, env=env) as terminal:
            terminal.wait_for(ASK)
            terminal.type("/model \t")
            until(lambda: any(each.path == "/api/tags" for each in ollama.requests))
            yield terminal


@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_who_is_told_to_end_while_names_are_completed_ends(number, code):
    with completing() as terminal:
        terminal.process.send_signal(number)
        assert terminal.end()[0] == code


@pytest.mark.slow
def test_ctrl_c_while_names_are_completed_leaves_the_line():
    with completing() as terminal:
        terminal.interrupt("\x03")
        terminal.wait_for(ASK)
        terminal.type("/help\r")
        terminal.wait_for("/retry")
        terminal.wait_for(ASK)
        terminal.type("\x04")
        assert terminal.end()[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "signals, prompt, code",
    [
        ("INT TERM", "", 143),
        ("INT HUP", "", 129),
        ("INT HUP", "Hi\r", 129),
        ("TERM HUP", "", 129),
        ("TSTP TERM", "", 143),
    ],
)
def test_of_signals_that_come_at_once_the_one_that_ends_it_does(signals, prompt, code):
    with FakeOllama(reply="word " * 50, delay=0.02) as ollama:
        command, env = [sys.executable, MAIN, "-is", "-m", "mistral"], {"OLLAMA_HOST": ollama.url}
        with OnTerminal(command=command, env=env) as terminal:
            terminal.wait_for(ASK)
            if prompt:
                terminal.type(prompt)
                terminal.wait_for("word word")
            for name in ["STOP", *signals.split(), "CONT"]:
                time.sleep(0.05)
                terminal.process.send_signal(getattr(signal, f"SIG{name}"))
            assert terminal.end()[0] == code


PRESSED_TWICE = """
import signal, sys, threading, time
from ore.cli import _signals_raise
from ore.cli.terminal.editing import LineEditor
from ore.cli.terminal.history import History

first, second = (signal.Signals[each] for each in sys.argv[1:3])
when, main = sys.argv[3], threading.get_ident()

def press():
    time.sleep(0.3)
    signal.pthread_kill(main, first)
    if when == "at once":
        signal.pthread_kill(main, second)
        sys._clear_type_cache()  # what Python looks up anew drops what it is raising

def noting(*args):
    signal.signal(first, hear)
    if when == "as it begins":
        signal.raise_signal(second)
    try:
        hear(*args)
    finally:
        if when == "as it unwinds":
            signal.raise_signal(second)

editor = LineEditor(History(None), lambda line: [])
with _signals_raise():
    hear = signal.getsignal(first)
    if when != "at once":
        signal.signal(first, noting)
    threading.Thread(target=press).start()
    try:
        editor.read("You: ", str)
    except BaseException as exc:
        print("raised", type(exc).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "first, second, moments, raised",
    [
        ("SIGINT", "SIGINT", "as it unwinds", "KeyboardInterrupt"),
        ("SIGINT", "SIGTSTP", "at once|as it begins|as it unwinds", "KeyboardInterrupt"),
        ("SIGINT", "SIGTERM", "at once|as it begins|as it unwinds", "Terminated"),
        ("SIGINT", "SIGHUP", "at once|as it begins|as it unwinds", "HungUp"),
        ("SIGTERM", "SIGTSTP", "at once|as it begins|as it unwinds", "Terminated"),
        ("SIGHUP", "SIGTSTP", "at once|as it begins|as it unwinds", "HungUp"),
        ("SIGTERM", "SIGINT", "at once|as it unwinds", "Terminated"),
        ("SIGHUP", "SIGINT", "at once|as it unwinds", "HungUp"),
    ],
)
def test_of_two_that_come_at_once_a_key_does_not_end_the_repl_and_a_signal_does(
    first, second, moments, raised
):
    for when in moments.split("|"):
        command = [sys.executable, "-c", PRESSED_TWICE, first, second, when]
        with OnTerminal(command=command) as terminal:
            terminal.wait_for("You: ")
            assert f"raised {raised}\r\n".encode() in terminal.end()[1], when


def test_a_paste_of_several_lines_is_one_prompt():
    with OnTerminal("-i", "-v", replies=["Read.", "Again."]) as terminal:
        assert b"\x1b[?2004h" in terminal.wait_for(ASK)
        terminal.type("\x1b[200~/one\ntwo\r\n/bye\x1b[201~")
        terminal.type("\r")
        terminal.wait_for("Read.")
        terminal.type("/retry\r")
        assert "Asking again: /one\ntwo\n\n/bye\n" in plain(terminal.wait_for("Again."))


@pytest.mark.slow
def test_what_is_typed_during_an_answer_is_not_shown_and_a_paste_is_the_next_prompt():
    replies = [{"late": "Read."}, "Again.", "Once more."]
    with OnTerminal("-i", "-s", replies=replies) as terminal:
        terminal.wait_for(ASK)
        terminal.type("Hello\r")
        terminal.wait_for("Hello\r\n")
        terminal.wait_for("\x1b[?2004h")
        assert b"[AYA]" not in terminal.seen
        terminal.type("\x1b[200~one\ntwo\x1b[201~")
        assert "one" not in plain(terminal.wait_for(ASK))
        terminal.wait_for("two")
        terminal.type("\r")
        terminal.wait_for("Again.")
        terminal.type("/retry\r")
        assert "Asking again: one\ntwo\n" in plain(terminal.wait_for("Once more."))


@pytest.mark.slow
def test_what_is_typed_ahead_is_still_there_after_ctrl_c():
    with OnTerminal("-i", replies=[{"slow": "Once upon "}, "Fine."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type("Tell a story\r")
        terminal.wait_for("upon")
        terminal.type("typed ahead")
        terminal.interrupt("\x03")
        terminal.wait_for("the turn was dropped")
        assert "typed ahead" in plain(terminal.wait_for("ahead"))
        terminal.type("\r")
        terminal.wait_for("Fine.")


VERY_MUCH = [
    ("xterm-256color", b"x" * 9000),
    ("dumb", b"word\r" * 1800),
    ("dumb", b"word\r" + b"x" * 6000),
]


@pytest.mark.slow
@pytest.mark.parametrize("term, typed", VERY_MUCH, ids=["marks", "lines", "a line"])
def test_ctrl_c_gets_through_where_very_much_was_typed_ahead(term, typed):
    replies = [{"slow": "Once upon "}, "Fine."]
    with OnTerminal("-i", replies=replies, env={"TERM": term}) as terminal:
        terminal.wait_for("You:")
        terminal.type("Tell a story\r")
        terminal.wait_for("upon")
        terminal.type(typed)
        terminal.interrupt("\x03")
        terminal.wait_for("the turn was dropped", 10)
        terminal.wait_for("is gone: it was more than 2,048 bytes.", 10)
        terminal.wait_for("You:")
        terminal.type("Go on\r")
        terminal.wait_for("Fine.")


@pytest.mark.slow
def test_a_text_in_quotes_has_several_lines_and_ctrl_c_drops_it():
    with OnTerminal("-i", replies=["Read.", "Again."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type('"""dropped\r')
        terminal.wait_for("...\x1b[0m ")
        terminal.interrupt("\x03")
        terminal.wait_for("The text was dropped.")
        terminal.type('"""\rone\r  two\r"""\r')
        terminal.wait_for("Read.")
        terminal.type("/retry\r")
        assert "Asking again: one\n  two\n" in plain(terminal.wait_for("Again."))


@pytest.mark.slow
def test_ctrl_d_inside_a_text_drops_it_and_leaves():
    with OnTerminal("-i", replies=["Read."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type('"""lost\r')
        terminal.wait_for("...\x1b[0m ")
        terminal.type("\x04")
        terminal.wait_for('The text was dropped: the closing """ is missing.')
        assert terminal.end()[0] == 0


@pytest.mark.slow
def test_ctrl_c_clears_a_line_says_how_to_leave_and_stops_an_answer():
    with OnTerminal("-c", "-s", replies=[{"slow": "Once upon "}, "Fine."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type("half a thought")
        terminal.wait_for("half a thought")
        terminal.interrupt("\x03")
        assert "leaves" not in plain(terminal.wait_for(ASK))
        terminal.interrupt("\x03")
        assert "Ctrl-D or /bye leaves.\n" in plain(terminal.wait_for(ASK))
        terminal.type("Tell me a story\r")
        terminal.wait_for("upon")
        terminal.interrupt("\x03")
        assert "Stopped: the turn was dropped.\n" in plain(terminal.wait_for(ASK))
        terminal.type("/show\r")
        assert "turns    0\n" in plain(terminal.wait_for("active"))
        terminal.type("Still there?\r")
        terminal.wait_for("Fine.")
        terminal.type("/bye\r")
        assert terminal.end()[0] == 0


def test_ctrl_c_in_a_single_turn_says_what_became_of_it():
    with OnTerminal("-s", "Tell me a story", replies=[{"slow": "Once upon "}]) as terminal:
        terminal.wait_for("upon")
        terminal.interrupt("\x03")
        assert "Stopped: the turn was dropped." in plain(terminal.wait_for("dropped."))
        code, rest = terminal.end()
        assert (code, plain(rest)) == (130, "\n")


@pytest.mark.slow
def test_commands_and_models_are_completed_and_the_model_is_changed():
    with OnTerminal("-i", replies=["From the second."]) as terminal:
        terminal.wait_for(ASK)
        terminal.type("/mo\t sec\t\r")
        terminal.wait_for("Model: second (scripted)")
        terminal.type("/show\r")
        assert "model    second (scripted)\n" in plain(terminal.wait_for("window"))
        terminal.type("/sho \t\r/unknown\r")
        terminal.wait_for("There is no command /unknown")


@pytest.mark.slow
def test_words_stay_whole_in_a_terminal_that_was_resized():
    with OnTerminal("-i", replies=["word " * 30], size=(24, 40)) as terminal:
        terminal.wait_for(ASK)
        terminal.resize(24, 60)
        terminal.type("Go on\r")
        terminal.wait_for("[AYA]:")
        lines = plain(terminal.wait_for(ASK)).splitlines()[1:-1]
        assert [line.strip() for line in lines[:-2]] == [("word " * 12).strip()]


@pytest.mark.skipif(shutil.which("dash") is None, reason="needs a shell that leaves modes alone")
@pytest.mark.slow
def test_a_terminal_shows_what_is_typed_while_an_answer_is_stopped():
    with OnTerminal(command=["dash", "-i"], env={"PS1": "$ "}) as terminal:
        terminal.type(f'{PYTHON} -m tests.support.scripted \'[{{"slow": "Once upon "}}]\' -i -s\r')
        terminal.wait_for(ASK)
        terminal.type("Go\r")
        terminal.wait_for("upon")
        terminal.type("rm something")
        terminal.interrupt("\x1a")
        assert b"\x1b[?2004l" in terminal.wait_for("Stopped")
        assert "rm" not in plain(terminal.wait_for("$ "))
        terminal.type("echo $((40 + 2))\r")
        assert "echo $((40 + 2))" in plain(terminal.wait_for("\r\n42"))
        terminal.type("fg\r")
        terminal.interrupt("\x03")
        terminal.wait_for("the turn was dropped")
        assert "What was typed ahead is gone: Ctrl-Z took it." in plain(terminal.wait_for(ASK))
        terminal.type("/bye\r")
        terminal.wait_for("$ ")
        terminal.type("exit\r")
        assert terminal.end()[0] == 0


@pytest.mark.slow
def test_what_ctrl_z_took_is_told_where_ctrl_c_follows_at_once():
    with OnTerminal("-i", "-s", replies=[{"slow": "Once upon "}]) as terminal:
        terminal.wait_for(ASK)
        terminal.type("Go\r")
        terminal.wait_for("upon")
        terminal.type("And then?\r")
        time.sleep(0.1)  # the terminal has it
        terminal.type("\x1a")
        time.sleep(0.01)
        terminal.type("\x03")
        terminal.wait_for("the turn was dropped")
        assert "What was typed ahead is gone: Ctrl-Z took it." in plain(terminal.wait_for(ASK))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell that controls jobs")
def test_a_repl_is_stopped_and_continued_with_its_line(tmp_path):
    env = {"PS1": "$ ", "INPUTRC": os.devnull, "HISTFILE": str(tmp_path / "history")}
    with OnTerminal(command=["bash", "--norc", "-i"], env=env) as terminal:
        terminal.type(f"{PYTHON} -m tests.support.scripted '[\"Fine.\"]' -i\r")
        terminal.wait_for(ASK)
        terminal.type("half")
        terminal.wait_for("half")
        terminal.interrupt("\x1a")
        terminal.wait_for("Stopped")
        terminal.wait_for("$ ")  # what is typed before the prompt stands before it
        terminal.type("echo $((40 + 2))\r")
        terminal.wait_for("\r42\r\n")
        terminal.type("fg\r")
        terminal.wait_for(b"half")
        terminal.type("\x01The other \r")
        terminal.wait_for("[AYA]:\x1b[0m Fine.")
        terminal.type("\x1b[A\r")
        assert "The other half" in plain(terminal.wait_for("(no reply was scripted)"))
        terminal.wait_for(ASK)
        terminal.type("\x04")
        terminal.wait_for("$ ")
        terminal.type("exit\r")
        assert terminal.end()[0] == 0


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell that controls jobs")
@pytest.mark.parametrize("args", ["-i", "-i Go"])
def test_a_repl_that_was_in_the_background_shows_what_is_typed(tmp_path, args):
    env = {"PS1": "$ ", "INPUTRC": os.devnull, "HISTFILE": str(tmp_path / "history")}
    with OnTerminal(command=["bash", "--norc", "-i"], env=env) as terminal:
        command = f"{PYTHON} -m tests.support.scripted '[\"Fine.\"]' {args}"
        terminal.type(f"{command} &\r")
        while b"Stopped" not in terminal.wait_for("$ "):
            time.sleep(0.2)
            terminal.type("jobs\r")
        terminal.type("fg\r")
        terminal.wait_for(ASK)
        terminal.type("seen")
        terminal.wait_for("seen", 20)
        terminal.type("\x15\x04")
        terminal.wait_for("$ ")
        terminal.type("exit\r")
        assert terminal.end()[0] == 0


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize(
    "flags, wish, file",
    [
        (["-i"], None, None),
        (["-c"], None, None),
        (["--session", "trip"], None, "sessions/trip.typed"),
        (["--session", "trip"], "on", "sessions/trip.typed"),
        (["--session", "trip"], "off", None),
        (["-i"], "on", "history"),
        (["-c"], "ON", "history"),
        (["-i"], "off", None),
    ],
)
def test_what_was_typed_is_kept_only_where_that_was_asked_for(home, flags, wish, file):
    old = home / ".ore" / "history"
    old.parent.mkdir(mode=0o700)
    old.write_text("from before\n")
    with OnTerminal(*flags, replies=["Yes."], env={"ORE_HISTORY": wish}) as terminal:
        terminal.wait_for(ASK)
        terminal.type('"""\rtwo\rlines\r"""\r')
        terminal.wait_for("Yes.")
        terminal.wait_for(ASK)
        terminal.type("/show\r")
        shown = plain(terminal.wait_for("active")).replace("\n", "")
        terminal.wait_for(ASK)
        terminal.type("\x04")
        terminal.end()
    kept = home / ".ore" / (file or "nothing")
    assert f"history  {f'kept in {kept}' if file else 'in memory'}" in shown
    assert old.read_text().startswith("from before\n")
    assert ("two" in old.read_text()) == (file == "history")
    typed = {path.name for path in (home / ".ore").rglob("*.typed")}
    assert typed == ({"trip.typed"} if file == "sessions/trip.typed" else set())
    if file:
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        with OnTerminal(*flags, replies=["Yes."], env={"ORE_HISTORY": wish}) as terminal:
            terminal.wait_for(ASK)
            terminal.type("\x1b[A\x1b[A\r")
            terminal.wait_for("Yes.")
            terminal.type("/retry\r")
            terminal.wait_for("Asking again: two\r\nlines\r\n")


@pytest.mark.slow
def test_a_session_in_which_nothing_was_said_leaves_no_file(home):
    with OnTerminal("--session", "trip") as terminal:
        terminal.wait_for(ASK)
        terminal.type("/show\r")
        terminal.wait_for("history  kept in")
        terminal.type("/bye\r")
        terminal.end()
    assert not [
        path for path in (home / ".ore").rglob("*") if path.suffix != ".lock" and path.is_file()
    ]


@pytest.mark.slow
def test_what_others_could_have_typed_is_not_brought_back_and_that_is_said(home):
    (home / ".ore").mkdir(mode=0o700)
    (home / ".ore/history").write_text("theirs\n")
    (home / ".ore/history").chmod(0o666)
    with OnTerminal("-i", env={"ORE_HISTORY": "on"}) as terminal:
        shown = " ".join(plain(terminal.wait_for(ASK)).split())
        assert "What you type is kept in memory only: " in shown
        assert "is not used: others can write to it; run chmod go-w " in shown
        terminal.type("/bye\r")
        terminal.end()
    assert (home / ".ore/history").read_text() == "theirs\n"


@pytest.mark.slow
def test_the_older_variable_keeps_nothing_too(home):
    env = {"ORE_NO_HISTORY": "1", "ORE_HISTORY": "on"}
    with OnTerminal("--session", "trip", replies=["Yes."], env=env) as terminal:
        terminal.wait_for(ASK)
        terminal.type("/show\r")
        assert "history  in memory" in plain(terminal.wait_for("active"))
        terminal.type("/bye\r")
        terminal.end()
    assert not list((home / ".ore").rglob("*.typed")) and not (home / ".ore/history").exists()


@pytest.mark.slow
def test_an_editor_writes_the_prompt(tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nprintf "and more\\n" >> "$1"\n')
    editor.chmod(0o700)
    with OnTerminal("-i", replies=["Read."], env={"VISUAL": f"'{editor}'"}) as terminal:
        terminal.wait_for(ASK)
        terminal.type("/edit Once, \r")
        assert "Sending:\nOnce,and more\n" in plain(terminal.wait_for("Read."))


@pytest.mark.slow
def test_what_an_editor_wrote_is_not_lost_where_ctrl_c_comes_while_it_is_shown(tmp_path):
    editor, written = tmp_path / "editor", tmp_path / "written"
    editor.write_text(f'#!/bin/sh\n[ -e {written} ] || seq 30000 >"$1"\ntouch {written}\n')
    editor.chmod(0o700)
    with OnTerminal("-i", replies=["Read."], env={"VISUAL": f"'{editor}'"}) as terminal:
        terminal.wait_for(ASK)
        terminal.type("/edit\r")
        until(written.exists)  # from here on nobody reads what is shown, so that it does not end
        time.sleep(1)
        terminal.process.send_signal(signal.SIGINT)
        terminal.wait_for(ASK)
        terminal.interrupt("\x10\r")  # the entry before
        terminal.wait_for("Read.")


@pytest.mark.slow
def test_after_an_editor_the_terminal_is_as_it_was(tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nstty raw -echo\necho "${COLUMNS:-no size}" > "$1"\n')
    editor.chmod(0o700)
    replies = [{"slow": "Once upon "}]
    with OnTerminal(
        "-i", replies=replies, env={"VISUAL": f"'{editor}'", "COLUMNS": None}
    ) as terminal:
        terminal.wait_for(ASK)
        terminal.type("/edit\r")
        assert "Sending:\nno size\n" in plain(terminal.wait_for("upon"))
        terminal.interrupt("\x03")
        terminal.wait_for("the turn was dropped", 20)


@pytest.mark.slow
def test_without_readline_everything_but_editing_works(tmp_path):
    (tmp_path / "readline.py").write_text("raise ImportError('there is none')\n")
    path = os.pathsep.join([str(tmp_path), os.getcwd()])
    with OnTerminal("-i", replies=["Paris."], env={"PYTHONPATH": path}) as terminal:
        terminal.wait_for(ASK)
        terminal.type("Capital of France?\r")
        terminal.wait_for("Paris.")
        terminal.wait_for(ASK)
        terminal.interrupt("\x03")
        terminal.wait_for("Ctrl-D or /bye leaves.")
        terminal.type("/help\r")
        terminal.wait_for("/retry")
        terminal.type("\x04")
        assert terminal.end()[0] == 0


@pytest.mark.slow
def test_what_was_typed_before_a_question_does_not_answer_it():
    FileSessionStore().save(Session(), "precious")
    with OnTerminal("--delete-session", "precious") as terminal:
        terminal.type("y\r")
        terminal.wait_for("for good? [y/N] ")
        terminal.interrupt("n\r")
        code, seen = terminal.end()
    assert code == 0 and b"Nothing was deleted." in seen
    assert FileSessionStore().exists("precious")


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_it_is_not_wanted(more):
    with OnTerminal("-i", "-v", replies=["Paris."], env=more) as terminal:
        terminal.wait_for("You: ")
        terminal.type("Hi\r")
        seen = terminal.wait_for("[Metadata]: scripted") + terminal.wait_for("You: ")
    assert b"\x1b[1" not in seen and b"\x1b[2m" not in seen


def test_hostile_bytes_never_reach_the_terminal():
    hostile = "".join(map(chr, range(256))) + "\u202e\u2066\U000e0041\x1b]52;c;aGk=\x07 You: yes"
    replies = [list(hostile), hostile]
    with OnTerminal("-i", "-s", replies=replies, env={"NO_COLOR": "1"}) as terminal:
        for _ in replies:
            terminal.wait_for("You: ")
            terminal.type("Hi\r")
            shown = OURS.sub(b"", terminal.wait_for("You: yes")).decode()
            left = {c for c in shown if not c.isprintable()}
            assert left <= {"\r", "\n", "\t", "\xa0", "\xad"}, left


@pytest.mark.slow
def test_a_stream_in_a_pipe_has_no_colour_and_no_indicator():
    script = [
        "sh",
        "-c",
        '"$0" -m tests.support.scripted \'["Paris."]\' Hi -s | cat',
        sys.executable,
    ]
    with OnTerminal(command=script) as terminal:
        code, seen = terminal.end()
    notice, answer, rest = seen.split(b"\r\n")
    assert (code, plain(notice)) == (0, "Model: scripted (scripted)")
    assert (answer, rest) == (b"Paris.", b"")


@pytest.mark.slow
def test_ctrl_z_stops_nothing_where_the_parent_ignores_it():
    ignoring = ["sh", "-c", 'trap "" TSTP; exec "$@"', "sh"]
    with OnTerminal(
        command=[*ignoring, sys.executable, "-m", "tests.support.scripted", '["Fine."]', "-i"]
    ) as terminal:
        terminal.wait_for(ASK)
        terminal.type("half")
        terminal.wait_for("half")
        terminal.interrupt("\x1a")
        terminal.type(" a word\r")
        terminal.wait_for("Fine.")


@pytest.mark.parametrize("flags", [(), ("--render",)])
def test_no_part_of_a_letter_is_a_command_of_a_terminal_that_takes_bytes(flags):
    """There half of Å goes to the next line, and half of ě begins a sequence."""
    env = {"LANG": "C", "LC_ALL": None, "LC_CTYPE": None, "TERM": "screen"}
    replies = ["\u00c5You: yes \u011b2J &Aring;[AYA]: caf\u00e9"]
    with OnTerminal("hi", *flags, replies=replies, env=env) as terminal:
        code, out = terminal.end()
    assert code == 0 and b"\\xc5You: yes \\u011b2J" in out and rb"caf\xe9" in out
    assert out.isascii()


def test_a_placeholder_may_have_letters_that_the_terminal_can_t_take(tmp_path):
    (tmp_path / "t.csv").write_text("gr\u00f6\u00dfe\n12\n", encoding="utf-8")
    env = {"LANG": "C", "LC_ALL": None, "LC_CTYPE": None, "TERM": "screen"}
    flags = ("--rows", str(tmp_path / "t.csv"))
    with OnTerminal("{{gr\u00f6\u00dfe}}", *flags, replies=["\u00dfYou: yes"], env=env) as terminal:
        code, out = terminal.end()
    assert code == 0 and b"You: yes" in out


def test_what_a_model_and_a_file_get_does_not_depend_on_the_terminal(tmp_path):
    """A file's name stands in the prompt, and a report is a page."""
    named, kept = tmp_path / "\u65e5\u672c.txt", tmp_path / "run.json"
    named.write_text("It is open.")
    env = {"LANG": "C", "LC_ALL": None, "LC_CTYPE": None, "TERM": "screen"}
    hashes = []
    for each in (env, {}):
        flags = ("-f", str(named), "--artifact-out", str(kept), "\u201cOpen?\u201d")
        with OnTerminal(*flags, replies=["\u201cYes.\u201d"], env=each) as terminal:
            assert terminal.end()[0] == 0
        hashes.append(json.loads(kept.read_text())["provenance"]["messages_sha256"])
    assert hashes[0] == hashes[1]
    page = tmp_path / "page.html"
    command = ["sh", "-c", f"'{sys.executable}' -m ore --report '{kept}' >'{page}'"]
    with OnTerminal(env=env, command=command) as terminal:
        assert terminal.end()[0] == 0
    assert "\u201cYes.\u201d</td>" in page.read_text(encoding="utf-8")


def test_a_persona_s_label_is_no_command_of_a_terminal_that_takes_bytes(tmp_path):
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "\u00e5sa.md").write_text("Be brief.")
    env = {
        "LANG": "C",
        "LC_ALL": None,
        "LC_CTYPE": None,
        "TERM": "screen",
        "ORE_HOME": str(tmp_path),
    }
    flags = ("hi", "--persona", "\u00e5sa")
    with OnTerminal(*flags, replies=["One.\n[\\xc5SA]: two"], env=env) as terminal:
        code, out = terminal.end()
    assert code == 0 and b"[\\xc5SA]:" in out and not [each for each in out if each >= 0x80]
    assert b"\n [\\xc5SA]: two" in out


def test_a_terminal_is_asked_for_utf_8_before_anybody_types():
    env = {"LANG": "C", "LC_ALL": None, "LC_CTYPE": None}
    with OnTerminal("-i", env=env) as terminal:
        assert b"\x1b%G" in terminal.wait_for("You:")
