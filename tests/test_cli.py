"""The command line as a whole: exit codes, one place for errors, and no surprise on any stream."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

import ore as package
from ore.cli import main, run
from ore.errors import OreError, Terminated
from tests.support.harness import ScriptedBackend
from tests.support.process import ROOT, environment


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard_again():
    """A ``run`` is the last that its process does and ends with Ctrl-C ignored, which children inherit."""
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


class TestModeValidation:
    """``--interactive`` excludes every flag that keeps a conversation."""

    @pytest.mark.invariant
    @pytest.mark.parametrize(
        "other",
        [
            ["--conversational"],
            ["-c"],
            ["--save-session", "s"],
            ["--resume-session", "s"],
            ["--session", "s"],
        ],
    )
    def test_interactive_excludes(self, other, capsys):
        with pytest.raises(SystemExit) as end:
            run(["--interactive", *other])
        assert end.value.code == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("usage: ore") and "--interactive" in err


class BrokenSources(dict):
    """What is not expected of a caller: it stands for a fault of ORE's own."""

    def items(self):
        raise KeyError("a secret")


@pytest.mark.invariant
def test_a_fault_is_one_sentence_that_says_where_and_no_more(monkeypatch, capsys):
    monkeypatch.delenv("ORE_TRACEBACK")
    with pytest.raises(SystemExit) as end:
        run(["Hi"], env_files=BrokenSources(a="b"))
    assert end.value.code == 1
    out, err = capsys.readouterr()
    assert out == "" and "secret" not in err
    start, _, rest = err.partition(", line ")
    assert start == "ore: ORE has a fault (KeyError in ore/cli/__init__.py"
    assert rest.endswith("again with ORE_TRACEBACK=1 to see where, and please report it.\n")
    assert rest.count("\n") == 1


def test_whoever_looks_for_a_fault_gets_it_as_python_shows_it(monkeypatch):
    monkeypatch.setenv("ORE_TRACEBACK", "1")
    with pytest.raises(KeyError, match="a secret"):
        run(["Hi"], env_files=BrokenSources(a="b"))


class Field:
    """What is interrupted while the class that holds it is made."""

    def __init__(self, interrupt):
        self.interrupt = interrupt

    def __set_name__(self, *_):
        raise self.interrupt


class InterruptedSources(dict):
    """What a signal does that comes while a module is loaded."""

    def items(self):
        type("Loaded", (), {"field": Field(self["interrupt"])})


def test_of_many_lines_of_an_env_file_that_are_bad_some_are_named(home, capsys):
    run(["--list-sessions"], env_files={f"line {n} of .env": "" for n in range(3000)})
    told = capsys.readouterr().err.splitlines()
    assert told[19:21] == [
        "line 19 of .env can't be used, so it was ignored.",
        "And 2,980 more.",
    ]
    assert len(told) == 22


@pytest.mark.parametrize(("interrupt", "code"), [(KeyboardInterrupt(), 130), (Terminated(), 143)])
def test_a_signal_while_a_class_is_made_is_no_fault(interrupt, code, capsys):
    with pytest.raises(SystemExit) as end:
        run(["Hi"], env_files=InterruptedSources(interrupt=interrupt))
    assert end.value.code == code
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    "argv",
    [["--help"], ["-h"], ["--version"]],
)
def test_main_returns_and_never_ends_the_process(argv, capsys):
    assert main(argv) == 0
    out, err = capsys.readouterr()
    assert out and err == ""


def test_a_text_that_a_program_lays_on_stdin_is_read(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO("piped ä"))
    backend = ScriptedBackend(["Paris."])
    assert main(["asked", "--no-system"], open_backend=lambda *_: backend) == 0
    assert capsys.readouterr().out == "Paris.\n"
    assert backend.engine.calls[0][-1].content == "asked\n\npiped ä"


class OnlyWrites:
    """As little as ``print`` needs of a file."""

    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass


def test_an_object_that_only_takes_text_is_a_stdout(monkeypatch):
    monkeypatch.setattr(sys, "stdout", OnlyWrites())
    assert main(["--version"]) == 0
    assert sys.stdout.text == f"ore {package.__version__}\n"


def test_a_stdout_that_a_program_has_closed_is_an_error_in_a_sentence(monkeypatch, capsys):
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stdout", closed)
    assert main(["--version"]) == 1
    monkeypatch.undo()
    assert "The answer can't be written: I/O operation" in capsys.readouterr().err


def test_the_version_is_that_of_the_package(ore):
    assert ore("--version").out == f"ore {package.__version__}\n"


@pytest.mark.parametrize(
    "argv, stdin, named",
    [
        ([], None, "no prompt"),
        ([], "", "stdin is empty"),
        ([""], None, "blank"),
        (["--unknown"], None, "--unknown"),
        (["hi", "--json", "--stream"], None, "--stream"),
        (["hi", "--tool-arg", "a=b"], None, "--tool"),
        (["hi", "--grant", "everything"], None, "everything"),
        (["--artifact-out", "What is it?"], None, "'What is it?'"),
        (["--artifact-out", "run.json"], b"\xff", "byte 0"),
        (["hi"], b"\xff", "byte 0"),
        (["a\udcff"], None, "byte 1"),
        (["--session", "../x", "hi"], None, "../x"),
    ],
)
def test_wrong_usage_is_2_with_the_usage_and_one_sentence(ore, argv, stdin, named):
    result = ore(*argv, stdin=stdin)
    usage, sentence = result.err.splitlines()
    assert (result.code, result.out, result.calls) == (2, "", [])
    assert usage.startswith("usage: ore")
    assert sentence.startswith("ore: ") and named in sentence


def errors(base: type = OreError) -> list[type]:
    return [kind for child in base.__subclasses__() for kind in (child, *errors(child))]


@pytest.mark.parametrize("kind", sorted(set(errors()), key=lambda kind: kind.__name__))
def test_the_class_of_every_error_is_the_exit_code(ore, kind):
    error = kind.__new__(kind)
    Exception.__init__(error, "It went wrong.")
    error.args = ("It went wrong.",)
    result = ore("hi", replies=[error])
    assert result.code == kind.exit_code
    assert result.out == ""
    assert "Traceback" not in result.err


def test_a_bug_is_not_hidden(ore):
    with pytest.raises(ZeroDivisionError):
        ore("hi", replies=[ZeroDivisionError()])


def test_no_model_at_all_is_1_and_names_pull(ore):
    result = ore("hi", models=())
    assert (result.code, result.out) == (1, "")
    assert "--pull" in result.err


def test_an_unknown_model_is_1(ore):
    result = ore("hi", "--model", "nope")
    assert (result.code, result.out) == (1, "") and "nope" in result.err


@pytest.mark.parametrize("name", package.__all__)
def test_every_public_name_is_there(name):
    assert getattr(package, name) is not None


def listing_tools(home, modules):
    """Run ``python -m ore --list-tools`` with the modules of a folder before others."""
    return subprocess.run(
        [sys.executable, "-m", "ore", "--list-tools"],
        cwd=ROOT,
        env=environment(HOME=str(home), PYTHONPATH=str(modules)),
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "error, code, said",
    [
        ("KeyboardInterrupt", 130, ""),
        ("ModuleNotFoundError", 0, "{} can't be used, so it was ignored.\n"),
    ],
)
def test_a_failure_before_the_command_line_starts_is_not_a_traceback(
    home, tmp_path, error, code, said
):
    (tmp_path / "dotenv.py").write_text(f"raise {error}")
    (home / ".ore").mkdir(mode=0o700)
    (home / ".ore/.env").write_text("ORE_MODEL=m")
    done = listing_tools(home, tmp_path)
    assert (done.returncode, done.stderr) == (code, said.format(home / ".ore/.env"))


@pytest.mark.slow
def test_ctrl_c_in_a_text_that_python_runs_is_the_exit_code_of_a_module_too(tmp_path, home):
    # Dataclasses run such texts as they are made; what is loaded here stands for one.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path, target=None):\n"
        "        if name == 'ore.cli.options':\n"
        "            exec('import os; os.kill(os.getpid(), 2)')\n"
        "sys.meta_path.insert(0, Finder)\n"
    )
    done = listing_tools(home, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_a_signal_while_an_error_is_written_is_the_exit_code(monkeypatch):
    class Terminating(io.StringIO):
        def write(self, text: str) -> int:
            signal.raise_signal(signal.SIGTERM)
            return len(text)

    monkeypatch.setattr(sys, "stderr", Terminating())
    with pytest.raises(SystemExit) as end:
        run(["--unknown"])
    assert end.value.code == 143


@pytest.mark.slow
@pytest.mark.parametrize(
    "first, again, code",
    [
        (signal.SIGINT, signal.SIGINT, 130),
        (signal.SIGTERM, signal.SIGTERM, 143),
        (signal.SIGTERM, signal.SIGINT, 143),
    ],
)
def test_a_signal_that_comes_again_while_the_first_unwinds_is_no_traceback(first, again, code):
    program = f"""
import io, signal, sys
from ore.__main__ import start

def cleaned():
    try:
        yield
    finally:
        signal.raise_signal({again:d})

class Interrupted(io.StringIO):
    def write(self, text):
        held = cleaned()
        next(held)
        try:
            signal.raise_signal({first:d})
        finally:
            del held  # nobody can catch what is raised as it goes

sys.stdout, sys.argv[1:] = Interrupted(), ["--list-tools"]
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started it may ignore it
start()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_after_a_run_each_signal_is_what_it_was(monkeypatch):
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    run(["--version"])
    after = [signal.getsignal(number) for number in numbers]
    assert after == [signal.SIG_IGN, *before[1:]]  # the process is to end
    signal.signal(signal.SIGINT, before[0])


def test_a_run_in_another_thread_than_the_main_one_leaves_signals_alone(capsys):
    before = signal.getsignal(signal.SIGTERM)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(run, ["--version"]).result()
    assert capsys.readouterr().out.startswith("ore ")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("argv, pulls", [(["--pull", "small"], True), (["--list-models"], False)])
def test_what_opens_the_backend_is_told_whether_a_model_is_to_be_fetched(ore, argv, pulls):
    asked_for = []

    def open_backend(wanted, *_):
        asked_for.append(wanted.pulls)
        return ScriptedBackend()

    assert ore(*argv, open_backend=open_backend).code == 0
    assert asked_for == [pulls]
