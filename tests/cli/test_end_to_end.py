"""``python main.py`` as a process, against a server on a socket: what a shell script relies on."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from ore.__main__ import load_env_files
from ore.backends.choice import open_backend
from tests.support.artifacts import GOOD
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.process import (
    IN_SHELL,
    MAIN,
    PATIENCE,
    ROOT,
    end,
    environment,
    run,
    running,
    start,
    until,
)


def here(*args, **more):
    """Run ORE in this process, where nothing hangs on the process itself."""
    return run_ore(*args, open_backend=open_backend, **more)


@pytest.fixture
def server(monkeypatch):
    with FakeOllama() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


def sent(server, number: int = -1) -> list[dict]:
    """The messages of one chat request."""
    return server.chats[number].json["messages"]


@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_one_turn_is_one_request_and_the_answer_alone_is_on_stdout(server, flags):
    result = run("Capital of France?", *flags)
    assert (result.code, result.out, result.err) == (0, "Paris.\n", "")
    assert len(server.chats) == 1
    request = server.chats[0].json
    assert (request["model"], request["stream"]) == ("llama3.2:latest", True)
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert request["messages"][1]["content"] == "Capital of France?"


def test_json_has_the_counts_of_the_server(server):
    document = here("Hi", "--json").json
    assert document["content"] == "Paris." and document["model_id"] == "llama3.2:latest"
    assert {"eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration"} <= set(
        document["metadata"]
    )
    assert document["metadata"]["context"]["window"] == 4096


def test_stdin_is_the_prompt_or_joins_it(server):
    here(stdin="naïve\n")
    run("Why?", stdin=b"text\n")
    here("Why?", stdin=b"")
    assert [sent(server, i)[-1]["content"] for i in range(3)] == [
        "naïve\n",
        "Why?\n\ntext\n",
        "Why?",
    ]


@pytest.mark.slow
def test_the_locale_does_not_matter(server, tmp_path):
    plain = environment(LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    server.use("happy")
    server.ollama.reply = "Köln – 東京"
    result = run("Où?".encode(), env=plain)
    assert (result.code, result.out) == (0, "Köln – 東京\n")
    assert sent(server)[-1]["content"] == "Où?"
    path = tmp_path / "été.json"
    assert run(b"Hi", b"--artifact-out", os.fsencode(path), env=plain).err == ""
    assert path.is_file() and run(b"--verify", os.fsencode(path), env=plain).code == 0


def test_a_repl_on_a_pipe_takes_one_turn_per_line(server):
    result = run("-c", stdin=b"one\ntwo\n")
    assert (result.code, result.out, result.err) == (0, "Paris.\nParis.\n", "")
    assert [m["content"] for m in sent(server)[1:]] == ["one", "Paris.", "two"]


def test_a_conversation_goes_on_after_it_was_saved(server, home):
    here("--save-session", "trip", "one")
    assert run("--resume-session", "trip", "--save-session", "trip", "two").code == 0
    assert [m["content"] for m in sent(server)[1:]] == ["one", "Paris.", "two"]
    saved = json.loads((home / ".ore/sessions/trip.json").read_text())
    assert len(saved["messages"]) == 4


def test_a_server_that_is_down_is_one_sentence_and_1(server):
    server.stop()
    result = here("Hi")
    assert (result.code, result.out) == (1, "") and len(result.err.splitlines()) == 1
    assert server.url in result.err and "OLLAMA_HOST" in result.err and "ollama serve" in result.err


def test_an_unknown_model_says_which_there_are_and_how_to_fetch_it(server):
    result = here("Hi", "--model", "nope")
    assert (result.code, result.out) == (1, "")
    assert all(part in result.err for part in ("'nope'", "--pull nope", "llama3.2:latest"))


@pytest.mark.slow
def test_models_are_listed_and_pulled(server):
    known = "2.02 GB\t3.2B\tQ4_K_M\t131072 tokens\tcompletion"
    listed = f"llama3.2:latest\tdefault\t{known}\nmistral:latest\t\t{known}\n"
    assert run("--list-models").out == listed
    assert run("--list-models", env=environment(ORE_MODEL="mistral")).code == 0
    assert run("--pull", "tiny").err.endswith("tiny is ready.\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    "sign, code, flags",
    [
        (signal.SIGINT, 130, []),
        (signal.SIGTERM, 143, ["--stream"]),
        (signal.SIGHUP, 129, []),
        (signal.SIGHUP, 129, ["--stream"]),
    ],
)
def test_a_signal_stops_the_server_and_is_the_exit_code(server, sign, code, flags):
    server.ollama.delay, server.ollama.reply = 20.0 if not flags else 0.2, "word " * 200
    process = start("Hi", *flags, stdin=subprocess.DEVNULL)
    if flags:
        assert process.stdout.read(4) == b"word"
    else:
        until(lambda: server.chats)
    process.send_signal(sign)
    result = end(process)
    assert result.code == code and "Traceback" not in result.err
    until(lambda: server.chats[0].disconnected_at)


@pytest.mark.parametrize(
    "flags", [["-s"], *(pytest.param(f, marks=pytest.mark.slow) for f in (["-n"], ["-S", "one"]))]
)
def test_many_signals_in_quick_succession_end_it_as_one_does(server, flags):
    server.ollama.delay, server.ollama.reply = 0.05, "word " * 400
    for number in range(1, 4):
        process = start("Hi", *flags, stdin=subprocess.DEVNULL)
        until(lambda: len(server.chats) == number)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.001)
        result = end(process)
        assert (result.code, result.err, process.returncode) == (130, "", 130)


# It ends ORE before that knows that it has started, or while ORE waits for it.
AT_ONCE = "#!/bin/sh\nprintf 'long work' > \"$1\"\nkill $PPID\nexec sleep 60\n"
WHEN_TOLD = (
    "#!/bin/sh\ntrap 'printf unsaved > \"$1.save\"; exit 1' TERM\nsleep 0.5; kill -HUP $PPID\n"
    "for each in 1 2 3 4 5 6 7 8 9; do sleep 0.3; done\n"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script, code, name, kept, said",
    [
        (AT_ONCE, 143, "prompt.md", "long work", "What you wrote is in {path}."),
        (WHEN_TOLD, 129, "prompt.md.save", "unsaved", "What the editor kept is in {path.parent}."),
    ],
    ids=["what it wrote", "what it keeps when told to end"],
)
def test_what_is_in_an_editor_when_the_process_is_told_to_end_stays_and_is_named(
    server, tmp_path, script, code, name, kept, said
):
    editor, folder = tmp_path / "editor", tmp_path / "t"
    editor.write_text(script)
    editor.chmod(0o700)
    folder.mkdir()
    ours, terminal = pty.openpty()
    os.write(ours, b"/edit\n")
    process = start("-i", stdin=terminal, env=environment(EDITOR=str(editor), TMPDIR=str(folder)))
    result = end(process)
    os.close(ours)
    os.close(terminal)
    (path,) = folder.glob(f"ore-*/{name}")
    assert (result.code, path.read_text()) == (code, kept)
    assert said.format(path=path) in result.err


@pytest.mark.slow
def test_an_editor_shows_nothing_in_the_file_that_answers_go_to(server, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho its screen\nprintf Hello > "$1"\n')
    editor.chmod(0o700)
    ours, terminal = pty.openpty()
    os.write(ours, b"/edit\n/bye\n")
    result = end(start("-i", stdin=terminal, env=environment(EDITOR=str(editor))))
    os.close(ours)
    os.close(terminal)
    assert result.out == f"{server.ollama.reply}\n"
    assert "its screen" in result.err


@pytest.mark.slow
def test_a_reader_that_goes_away_is_141_and_the_server_is_told(server, home):
    server.ollama.delay, server.ollama.reply = 0.05, "word " * 400
    process = start("--session", "s", "Hi", "--stream", stdin=subprocess.DEVNULL)
    assert process.stdout.read(4) == b"word"
    process.stdout.close()
    process.stdout = None
    result = end(process)
    assert (result.code, result.err) == (141, "")
    until(lambda: server.chats[0].disconnected_at)
    assert not (home / ".ore/sessions/s.json").exists()


@pytest.mark.slow
def test_a_finished_turn_is_saved_even_if_nobody_reads_it(server, home):
    reading, writing = os.pipe()
    os.close(reading)
    result = run("--session", "s", "Hi", stdout=writing)
    os.close(writing)
    assert (result.code, result.err) == (141, "")
    assert (home / ".ore/sessions/s.json").exists()


@pytest.mark.slow
def test_a_full_disk_and_a_closed_stdout_are_1(server):
    with open("/dev/full", "w") as full:
        result = run("Hi", stdout=full)
    assert result.code == 1 and len(result.err.splitlines()) == 1
    shell = subprocess.run(
        f"{IN_SHELL} Hi >&- </dev/null", shell=True, capture_output=True, text=True
    )
    assert shell.returncode == 1 and "stdout is closed" in shell.stderr


@pytest.mark.slow
def test_a_full_disk_under_stderr_changes_neither_answer_nor_exit_code(server):
    with open("/dev/full", "w") as full:
        result = run("Hi", "-v", stderr=full)
        assert (result.code, result.out) == (0, "Paris.\n")
        assert run("--resume-session", "none", "Hi", stderr=full).code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "line, shown",
    [("Hi 2>&- <&-", "Paris.\n"), ("--version 2>&-", "ore "), ("Hi --dry-run <&-", "{")],
)
def test_a_closed_stderr_or_stdin_is_survived(server, line, shown):
    shell = subprocess.run(f"{IN_SHELL} {line}", shell=True, capture_output=True, text=True)
    assert shell.returncode == 0 and shell.stdout.startswith(shown)


def test_bytes_that_are_not_text_are_2_and_nothing_is_sent(server):
    for result in (run(b"a\xff"), run("a", stdin=b"\xff")):
        assert result.code == 2 and "not UTF-8" in result.err
    assert server.requests == []


def test_version_and_help_ask_nobody(server):
    assert run("--version").out.startswith("ore ")
    assert run("--help").out.startswith("usage: ore ")
    assert server.requests == []


@pytest.mark.slow
def test_a_plain_turn_needs_no_home(server, monkeypatch):
    result = run("Hi", env=environment(HOME=None))
    assert (result.code, result.out) == (0, "Paris.\n")
    for home in ("", "relative"):
        monkeypatch.setenv("HOME", home)
        assert run("Hi", "--dry-run").code == 0
        assert here("Hi").out == "Paris.\n"
    result = here("--session", "s", "Hi")
    assert (result.code, result.out) == (1, "") and "HOME" in result.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "args, text", [([], "Hi"), (["-c"], "Hi\n"), (["--artifact-in", "-"], json.dumps(GOOD))]
)
def test_a_pipe_whose_reads_do_not_wait_is_waited_for(server, args, text):
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with running(*args, "--model", "llama3.2", "-q", stdin=reading) as process:
        time.sleep(0.7)  # the first read is under way
        os.write(writing, text.encode())
        os.close(writing)
        os.close(reading)
        result = end(process)
    assert (result.code, result.out, result.err) == (0, "Paris.\n", "")


@pytest.mark.slow
def test_a_full_pipe_whose_writes_do_not_wait_is_waited_for():
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"\n" * 4096)
    with running("--version", stdout=writing) as process, open(reading, "rb") as pipe:
        os.close(writing)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.7)
        assert pipe.read().strip().startswith(b"ore ")
        assert end(process).code == 0


class TestEnvFiles:
    """``.env`` is read beside ``main.py`` and in ORE's home, never where the user stands."""

    @pytest.fixture
    def env_file(self, server, home, monkeypatch):
        monkeypatch.delenv("OLLAMA_HOST")
        (home / ".ore").mkdir()
        return home / ".ore/.env"

    def test_the_file_of_the_home_folder_is_used(self, server, env_file):
        env_file.write_text(f"OLLAMA_HOST={server.url}\nORE_MODEL=mistral\n")
        assert run("Hi").out == "Paris.\n"
        assert server.chats[0].json["model"] == "mistral"

    @pytest.mark.slow
    @pytest.mark.parametrize("prompt", ["--version", "--help", "-h"])
    def test_the_file_is_used_where_a_prompt_looks_like_a_flag(self, server, env_file, prompt):
        env_file.write_text(f"OLLAMA_HOST={server.url}\nORE_MODEL=mistral\n")
        assert run("--", prompt).out == "Paris.\n"
        assert server.chats[0].json["messages"][-1]["content"] == prompt

    def test_a_real_variable_wins(self, server, env_file):
        env_file.write_text("OLLAMA_HOST=http://127.0.0.1:9\n")
        listed = run("--list-models", env=environment(OLLAMA_HOST=server.url))
        assert listed.out.startswith("llama3.2:latest")

    @pytest.mark.slow
    def test_the_file_of_the_current_folder_is_not_read(self, server, env_file, tmp_path):
        (tmp_path / ".env").write_text("OLLAMA_HOST=http://127.0.0.1:9\n")
        env_file.write_text(f"OLLAMA_HOST={server.url}\n")
        assert run("--list-models", cwd=tmp_path).out.startswith("llama3.2:latest")

    @pytest.mark.slow
    def test_a_remote_host_from_a_file_is_named_every_time(self, env_file):
        env_file.write_text("OLLAMA_HOST=http://192.0.2.1:9\n")
        result = run("--list-models", env=environment(HTTP_PROXY="http://127.0.0.1:9"))
        assert result.code == 1
        assert result.err.splitlines()[0].startswith("Prompts go to http://192.0.2.1:9")
        assert str(env_file) in result.err

    @pytest.mark.slow
    def test_an_env_file_that_is_not_text_is_reported(self, server, env_file):
        env_file.write_bytes(b"\xff\xfe")
        result = run("--list-models", env=environment(OLLAMA_HOST=server.url))
        assert result.code == 0 and result.out.startswith("llama3.2:latest")
        assert str(env_file) in result.err

    @pytest.mark.slow
    def test_an_env_file_that_is_too_large_for_one_is_reported(self, server, env_file):
        env_file.write_text("ORE_MODEL=nobody\n" + "# A remark.\n" * 30_000)
        result = run("Hi", env=environment(OLLAMA_HOST=server.url))
        assert result.out == "Paris.\n"
        assert result.err == f"{env_file} can't be used, so it was ignored.\n"

    @pytest.mark.slow
    def test_lines_that_can_not_be_used_are_named_and_the_others_are_used(
        self, server, env_file, monkeypatch
    ):
        monkeypatch.delenv("PYTHONPATH", raising=False)  # else the file's would not matter
        lines = [f"OLLAMA_HOST={server.url}", "ORE_HOME=a\0b", "'a=b'=c", "PYTHONPATH=/x"]
        lines += ["no assignment at all", "ORE_X", "ORE_MODEL=mistral"]
        lines += ["http://me:secret@host/v1?a=b", "c2VjcmV0==", "sk-secret=", "http_proxy=x"]
        env_file.write_text("\n".join(lines) + "\n")
        result = run("Hi")
        assert result.out == "Paris.\n" and server.chats[0].json["model"] == "mistral"
        said = [
            f"the variable 'ORE_HOME' of {env_file}",
            f"a variable of {env_file} (not one that a .env may set)",  # it may be a key
            f"the variable 'PYTHONPATH' of {env_file} (not one that a .env may set)",
            f"the variable 'http_proxy' of {env_file} (not one that a .env may set)",
            f"line 5 of {env_file}",
        ]
        assert sorted(result.err.splitlines()) == sorted(
            f"{each} can't be used, so it was ignored." for each in said
        )

    @pytest.mark.slow
    def test_a_variable_may_use_others_of_the_file_and_of_the_environment(self, server, env_file):
        scheme, _, port = server.url.rpartition(":")
        env_file.write_text(f"ORE_PORT={port}\nOLLAMA_HOST=${{ORE_WHERE}}:${{ORE_PORT}}\n")
        assert run("Hi", env=environment(ORE_WHERE=scheme)).out == "Paris.\n"

    def test_each_variable_that_was_set_is_returned_with_its_file_and_no_other(
        self, env_file, monkeypatch
    ):
        for name in ("ORE_MODEL", "ORE_STREAM"):
            monkeypatch.setenv(name, "")
            monkeypatch.delenv(name)
        monkeypatch.setenv("ORE_BACKEND", "ollama")
        env_file.write_text("ORE_MODEL=mistral\nORE_BACKEND=nothing\nORE_STREAM=a\0b\n")
        assert load_env_files() == {
            "ORE_MODEL": str(env_file),
            f"the variable 'ORE_STREAM' of {env_file}": "",
        }
        assert (os.environ["ORE_MODEL"], os.environ["ORE_BACKEND"]) == ("mistral", "ollama")
        assert "ORE_STREAM" not in os.environ


AT_ONCE = """
import sys
class Finder:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
from ore.__main__ import start
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ore.errors", "ore.files.signals"])
def test_ctrl_c_before_ore_is_there_is_no_traceback(name):
    command = [sys.executable, "-c", AT_ONCE, name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (130, "")


ENDING = """
import atexit, gc, sys
from ore.__main__ import start
atexit.register(lambda: print(gc.get_freeze_count() > 1000))
sys.argv = ["ore", *sys.argv[1:]]
start()
"""


@pytest.mark.slow
@pytest.mark.parametrize("flag, code", [("--version", 0), ("--bogus", 2)])
def test_a_process_that_ends_does_not_look_through_its_memory_first(flag, code):
    command = [sys.executable, "-c", ENDING, flag]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, "True")


@pytest.mark.parametrize(
    "command, said",
    [
        ('cat list | ore "why?"', ""),
        ('ore "why?" < list', ""),
        ("cat list | ore", ""),
        ('{ read -r c; ore "$c?"; } < list', "6 bytes of stdin were added to the prompt"),
        ('while read -r c; do ore "$c?"; done < list', "6 bytes of stdin were added"),
        ('cat list | while read -r c; do ore "$c?"; done', "6 bytes of stdin were added"),
        ('while read -r c; do ore -q "$c?"; done < list', ""),
        ('while read -r c; do ore -n "$c?"; done < list', ""),
        ('exec 3< list; read -r c <&3; ore "$c?" <&3', "6 bytes of stdin were added"),
        ('read -r c < list; ore "$c?" < /dev/null', ""),
        ('cat list | { exec 3<&0; read -r c; ore "$c?" <&3; :; }', "6 bytes of stdin were added"),
        ('printf "" | ore "why?"', ""),
    ],
)
@pytest.mark.slow
def test_what_others_read_too_is_said_where_a_prompt_was_typed(server, folder, command, said):
    (folder / "list").write_text("Italy\nJapan\n")
    (folder / "ore").write_text(f'#!/bin/sh\nexec "{sys.executable}" "{MAIN}" "$@"\n')
    (folder / "ore").chmod(0o755)
    done = subprocess.run(
        ["sh", "-c", f"{command}; :"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env=environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"),
    )
    assert done.returncode == 0 and said in done.stderr
    assert bool(said) == ("stdin" in done.stderr)
    assert len(server.chats) == (2 if "-n" in command else 1)
