"""Tools of the user's own: what a tool.toml may say, how its command is bounded, what is recorded."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import re
import select
import signal
import stat
import subprocess
import sys
import time
from contextlib import redirect_stderr
from importlib.metadata import EntryPoint
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from ore.backends.http import Deadline
from ore.errors import ExtraNotInstalledError, GateError, ToolFailedError, UnknownToolError
from ore.gate import Gate
from ore.tools import Permission, Tool, all_tools, find_tool, own
from ore.types import ToolResult
from tests.support.harness import run_ore
from tests.support.process import ROOT, end, environment, start, until

WEATHER = """\
name = "weather"
description = "The weather of a place: place=PLACE."
permissions = ["network"]
arguments = ["place"]
command = ["./weather.sh", "--place", "{{place}}"]
hints = ["weather in"]
"""
BASE = """\
from ore.tools import Tool
class T(Tool):
    name, description, required_permissions = "odd", "Odd.", frozenset()
    def run(self, args): ...
"""
SLOW = pytest.mark.slow
LEAVES = "import os, time; os.fork() or (os.setsid(), time.sleep(6))"
SCRIPT = "#!/bin/sh\nprintf '%s: rain\\n' \"$2\"\n"


def put(home: Path, text: str = WEATHER, name: str = "weather", script: str = SCRIPT) -> Path:
    folder = home / ".ore/tools" / name
    folder.mkdir(parents=True, mode=0o700)
    (folder / "tool.toml").write_text(text)
    (folder / "weather.sh").write_bytes(script.encode("utf-8", "surrogateescape"))
    (folder / "weather.sh").chmod(0o700)
    return folder


def command(*argv: str, more: str = "") -> str:
    """A definition of a command that takes ``text``."""
    given = ["arguments", *(["text"] if "{{text}}" in " ".join(argv) else [])][1:]
    return (
        f'name = "own"\ndescription = "Mine."\narguments = {json.dumps(given)}\n'
        f"command = {json.dumps(list(argv))}\n{more}"
    )


def ran(home: Path, *argv: str, more: str = "", **args: str) -> ToolResult:
    put(home, command(*argv, more=more), "own")
    return Gate({Permission.SHELL}).run(find_tool("own"), args)


ASKED = ["--tool", "weather", "--tool-arg", "place=Rome; rm -rf /", "Umbrella?"]


@pytest.mark.invariant
def test_a_tool_of_a_folder_runs_only_with_shell_and_what_it_names(home, tmp_path):
    folder = put(home)
    for grants in ([], ["--grant", "shell"], ["--grant", "network"]):
        denied = run_ore(*ASKED, *grants)
        assert (denied.code, denied.calls) == (1, []) and "was not run" in denied.err
    path = tmp_path / "run.json"
    grants = ["--grant", "shell", "--grant", "network", "--artifact-out", str(path)]
    done = run_ore(*ASKED, *grants)
    assert done.code == 0, done.err
    assert done.calls[0][1].content == "[Tool:weather]\nRome; rm -rf /: rain\n"
    digest = hashlib.sha256((folder / "tool.toml").read_bytes())
    digest.update((folder / "weather.sh").read_bytes())
    known = json.loads(path.read_text())["provenance"]
    assert known["tool_definitions"] == {"weather": digest.hexdigest()}


def test_it_is_listed_and_routed_to(home):
    put(home)
    listed = json.loads(run_ore("--list-tools", "--json").out)
    assert [each["name"] for each in listed] == ["echo", "read-file", "weather"]
    assert listed[2]["permissions"] == ["network", "shell"]
    routed = run_ore("--route", "weather in Rome", "--grant", "shell", "--grant", "network")
    assert routed.calls[0][1].content == "[Tool:weather]\nweather in Rome: rain\n"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(home):
    put(home, "\ufeff" + WEATHER.replace("\n", "\r\n"))
    assert find_tool("weather").routing_hints() == ("weather in",)


@pytest.mark.parametrize(
    "needed, found", [((), {}), (("a",), {"a": "Why?"}), (("a", "b"), {})], ids=len
)
def test_a_prompt_is_the_argument_of_a_tool_that_needs_just_one(home, needed, found):
    argv = ["echo", *(f"{{{{{name}}}}}" for name in needed)]
    text = f'name = "own"\ndescription = "Mine."\narguments = {json.dumps(needed)}\n'
    put(home, f"{text}command = {json.dumps(argv)}\n", "own")
    assert find_tool("own").extract_args("Why?") == found


def test_a_value_is_one_argument_and_no_shell_sees_it(home):
    code = "import json, sys; print(json.dumps(sys.argv[1:]))"
    text = "a b' \" $(id) `id` * \n {{text}} -x"
    result = ran(home, sys.executable, "-c", code, "{{text}}", "<{{text}}>", text=text)
    assert json.loads(result.output) == [text, f"<{text}>"]


def test_the_command_gets_few_variables(home, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("WANTED", "yes")
    usual = {"LANG": "C", "LC_TIME": "C", "TMPDIR": "/tmp", "TZ": "UTC", "USER": "ada"}
    for name, value in usual.items():
        monkeypatch.setenv(name, value)
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    found = json.loads(
        ran(home, sys.executable, "-c", code, more='environment = ["WANTED"]').output
    )
    assert found["WANTED"] == "yes" and "OPENAI_API_KEY" not in found
    assert {"HOME", "PATH", *usual} <= found.keys()


def test_the_command_has_no_input():
    code = "from ore.tools.running import run_bounded; print(run_bounded(['cat'], {}, 20, 10))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, input=b"secret", stdout=subprocess.PIPE, cwd=ROOT, check=True)
    assert done.stdout == b"b''\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code, more, said",
    [
        ("import sys; sys.exit('no such place')", "", "ended with exit code 1: no such place"),
        ("import sys; sys.exit('one\\ntwo\\n\\n')", "", "ended with exit code 1: two."),
        ("import os; os.kill(os.getpid(), 9)", "", "was ended by signal 9"),
        (
            "import time; time.sleep(60)",
            "seconds = 0.3",
            "took longer than 0.3 s: give it more seconds in its tool.toml.",
        ),
        pytest.param(LEAVES, "seconds = 3", "it left behind still has its output open", marks=SLOW),
        ("import os, time; os.close(1); os.close(2); time.sleep(60)", "seconds = 0.3", "longer"),
        ("print('x' * 2_000_000)", "", "wrote more than 1,048,576 bytes"),
        ("import sys; sys.stdout.buffer.write(b'\\xff')", "", "not UTF-8"),
        ("import sys; sys.stderr.write('x' * 10_000_000); sys.exit(2)", "", "exit code 2: xxx"),
        (
            "import sys\nwhile True: sys.stderr.write('x' * 65536)",
            "seconds = 0.5",
            "longer than 0.5",
        ),
    ],
)
def test_a_command_that_fails_or_goes_too_far_is_an_error_in_a_sentence(home, code, more, said):
    result = ran(home, sys.executable, "-c", code, more=more)
    assert result.status == "error" and said in result.output and len(result.output) < 600


@pytest.mark.parametrize(
    "script, said",
    [
        ("#!/bin/sh\r\ntrue\r\n", "can't be started: its first line ends in CR LF"),
        ("#!/usr/bin/env sh\r\ntrue\r\n", "ended with exit code 127: its first line ends in CR LF"),
        (
            "#!/usr/bin/env -S sh\r\necho boom >&2; exit 3 #\r\n",
            "ended with exit code 3: boom; its first line ends in CR LF",
        ),
        ("#!/no/such/sh -e\ntrue\n", "can't be started: its first line names /no/such/sh, which"),
        ("#!/no/\udcff\n", "can't be started: its first line names /no/\ufffd, which"),
        ("#!/no\0\n", "weather.sh can't be started: "),
        ("\ufeff#!/bin/sh\ntrue\n", "can't be started: it is neither a program of this system nor"),
        ("#!/bin/sh\t-e\nfalse\n", "weather.sh ended with exit code 1."),
    ],
)
def test_a_script_whose_first_line_runs_nothing_is_told_what_is_wrong_with_it(home, script, said):
    put(home, script=script)
    gate = Gate({Permission.SHELL, Permission.NETWORK})
    result = gate.run(find_tool("weather"), {"place": "Rome"})
    assert result.status == "error" and said in result.output


@pytest.fixture
def pipe(tmp_path):
    """A pipe's name; what has it open for writing must be gone at the test's end, and have begun."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield path
    assert os.read(reader, 100) == b"begun\n"
    until(lambda: select.select([reader], [], [], 0)[0], 20)  # at its end: nobody has it open
    assert os.read(reader, 100) == b""
    os.close(reader)


@pytest.mark.slow
def test_a_command_that_is_ended_leaves_no_child(home, pipe):
    script = f"(echo begun; sleep 60) > {pipe} & sleep 60"
    result = ran(home, "/bin/sh", "-c", script, more="seconds = 0.3")
    assert result.status == "error"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
def test_another_user_s_program_which_can_t_be_ended_is_not_waited_for(home, monkeypatch):
    def refuse(*_: int) -> None:  # as for what ``sudo`` has started
        raise PermissionError

    monkeypatch.setattr(os, "killpg", refuse)
    began = time.monotonic()
    assert "longer than 0.2 s" in ran(home, "sleep", "9", more="seconds = 0.2\n").output
    assert time.monotonic() - began < 6
    gc.collect()  # of what is still running Python warns


@pytest.mark.slow
def test_the_deadline_ends_a_tool_and_what_it_has_started(home, pipe):
    put(home, command("/bin/sh", "-c", f"(echo begun; sleep 60) > {pipe} & sleep 60"), "own")
    asked = ("--tool", "own", "--grant", "shell", "Hi")
    started = time.monotonic()
    late = run_ore(*asked, "--deadline", "0.9")
    assert (late.code, late.calls) == (1, [])
    assert re.fullmatch(  # finding the tools has taken a little
        r"ore: The tool 'own' was not done after 0\.\d+ s, so the turn was ended: give it longer with "
        r"--deadline\.\n",
        late.err,
    )
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_a_tool_has_the_smaller_of_its_own_time_and_the_deadline(home):
    put(home, command("sleep", "60", more="seconds = 0.2"), "own")
    result = run_ore("--tool", "own", "--grant", "shell", "--deadline", "600", "Hi")
    assert result.code == 1 and "sleep took longer than 0.2 s: give it" in result.err


@pytest.mark.slow
def test_a_tool_that_ends_while_this_process_is_stopped_has_not_taken_too_long():
    """Nor has it left a process behind, of which nobody could find out."""
    code = (
        "from ore.tools.running import run_bounded as run; print(flush=True); "
        "print(run(['sh', '-c', 'sleep 0.3; echo rain'], {'PATH': '/bin:/usr/bin'}, 1, 99))"
    )
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=ROOT, stdin=null, stdout=pipe, stderr=pipe) as asker:
        asker.stdout.readline()
        time.sleep(0.15)
        asker.send_signal(signal.SIGSTOP)
        time.sleep(3)
        asker.send_signal(signal.SIGCONT)
        assert asker.communicate(timeout=60) == (b"b'rain\\n'\n", b"")


@pytest.mark.slow
def test_what_a_tool_took_is_gone_from_the_deadline_of_its_turn_and_of_no_other(home):
    put(home, command("sleep", "0.3"), "own")
    left = []

    def answer(_):
        left.append(Deadline.of_turn(60.0).wait(None))
        return "Yes."

    asked = ("--tool", "own", "--grant", "shell", "--deadline", "60", "Hi")
    assert run_ore(*asked, replies=[answer]).code == 0
    assert run_ore("Hi", replies=[answer]).code == 0
    assert left[0] < 59.75 and left[1] > 59.75


@pytest.mark.parametrize(
    "text, said",
    [
        ("name = ", "can't be used"),
        ('name = "own"', "it has no description"),
        (
            command("true") + 'colour = "red"\n',
            "'colour' is not a key here: use name, desc",
        ),
        (command("true") + "seconds = 0\n", "seconds must be above 0, and at most 600"),
        (command("true") + f"seconds = 1{'0' * 400}\n", "seconds must be above 0, and at most 600"),
        (command("true") + f"hints = {'[' * 30_000}", "nested too deep"),
        (command("true") + ".".join(["a"] * 20_000) + " = 1\n", "nested too deep"),
        (command("true") + "x = {'a' ." + " b." * 20_000 + "c = 1}\n", "nested too deep"),
        (command("true") + "seconds = true\n", "seconds must be a number"),
        (
            'name = "own"\ncommand = "echo hi"\n',
            "own/tool.toml has a mistake: command must be a list of",
        ),
        (command("true") + "hints = [1]\n", "hints must be a list of texts"),
        (command("true") + 'permissions = ["root"]\n', "There is no permission 'root'"),
        (command("true", "{{other}}"), "its arguments have no 'other'"),
        (command("", "x"), "its command names no program"),
        (command("{{text}}"), "can't be the program"),
        (command("true").replace("[]", '["text"]'), "its command has no {{text}}"),
        (command("true").replace('"own"', '"Own Tool"'), "small letters, digits and dashes"),
        (command("true").replace('"own"', '"other"'), "in a folder of another name"),
        ("\0" * 100, "can't be used"),
        ("#" * 100_000, "can't be used"),
        (
            command("true").replace("= []", '= ["a\\nYou: hi\\u001b"]'),
            "the argument 'a\\nYou: hi\\x1b' must be of letters, digits and _, at most 64.",
        ),
        (
            command("echo", "{{full-name}}").replace("[]", '["full-name"]'),
            "the argument 'full-name' must be of letters, digits and _, at most 64.",
        ),
    ],
)
def test_a_definition_that_can_t_be_used_is_named_and_the_others_are_there(home, text, said):
    put(home)
    put(home, text, "own")
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file", "weather"]
    assert len(told) == 1 and said in told[0] and "\n" not in told[0]
    assert run_ore("--tool", "own", "Hi").code == 1


@pytest.mark.invariant
@pytest.mark.parametrize("what", ["tool.toml", "weather.sh", "."])
def test_what_others_can_write_to_is_not_run(home, what):
    folder = put(home)
    path = folder / what
    path.chmod(path.stat().st_mode | stat.S_IWOTH)
    assert "weather" not in all_tools()


NO_NAMES = (
    *("..", ".", "...", "../weather", "weather/", "./weather", "weather/../weather", "/etc/passwd"),
    *("weather/tool.toml", "we.ather", "~", "", "Weather", "weather\x1b[2J", "x" * 1000),
)


@pytest.mark.parametrize("what", ["", "tools", "tools/weather", "tools/weather/weather.sh"])
def test_a_program_that_others_can_write_to_by_now_is_not_run(home, what):
    put(home)
    tool = find_tool("weather")
    (home / ".ore" / what).chmod(0o722)
    result = Gate({Permission.SHELL, Permission.NETWORK}).run(tool, {"place": "Rome"})
    assert result.status == "error" and "others can write to it; " in result.output
    assert ("is not run: " in result.output) is (
        what != "tools/weather"
    )  # that folder is read first


def test_the_digest_is_of_the_program_that_ran_though_the_tool_was_loaded_before(home):
    folder = put(home)
    tool, gate = find_tool("weather"), Gate({Permission.SHELL, Permission.NETWORK})
    said = []
    for script in (SCRIPT, SCRIPT.replace("rain", "snow")):
        (folder / "weather.sh").write_bytes(script.encode("utf-8", "surrogateescape"))
        result = gate.run(tool, {"place": "Rome"})
        whole = (folder / "tool.toml").read_bytes() + script.encode()
        assert result.metadata["definition_sha256"] == hashlib.sha256(whole).hexdigest()
        said.append(result.output)
    assert said == ["Rome: rain\n", "Rome: snow\n"]
    (folder / "weather.sh").unlink()
    assert "its program ./weather.sh is not there" in gate.run(tool, {"place": "Rome"}).output


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_looks_like_a_path_is_no_tool_and_opens_none(home, name):
    put(home)
    put(home, command("true").replace('"own"', '"we.ather"'), "we.ather")
    asked = run_ore("--tool", name, "--grant", "shell", "--grant", "network", "Hi")
    assert asked.code in (1, 2) and asked.calls == []
    last = asked.err.splitlines()[-1]
    assert "\x1b" not in asked.err and str(home) not in asked.err and len(last) < 400
    if name:
        assert "There is no tool '" in last and last.endswith(
            "there are: echo, read-file, weather."
        )
        assert "The tool 'we.ather' can't be used: its folder's name must be small" in asked.err


def test_a_link_is_not_followed(home, tmp_path):
    folder = put(home)
    (folder / "tool.toml").rename(tmp_path / "tool.toml")
    os.symlink(tmp_path / "tool.toml", folder / "tool.toml")
    put(home, command("./../weather.sh"), "own")
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file"]
    there = "put the file itself into its folder."
    assert told == [
        f"The tool 'own' can't be used: its program ./../weather.sh leads out of the folder: {there}",
        "The tool 'weather' can't be used: a file of it leads through a symbolic link; " + there,
    ]


def test_a_program_that_became_a_link_is_not_run(home, tmp_path):
    folder, tool = put(home), find_tool("weather")
    (folder / "weather.sh").rename(tmp_path / "weather.sh")
    os.symlink(tmp_path / "weather.sh", folder / "weather.sh")
    result = Gate({Permission.SHELL, Permission.NETWORK}).run(tool, {"place": "Rome"})
    assert result.output == (
        "its program ./weather.sh leads through a symbolic link: put the file itself into its folder."
    )


def test_a_program_that_is_not_marked_as_one_says_how_to_mark_it(home):
    folder = put(home)
    (folder / "weather.sh").chmod(0o600)
    gate = Gate({Permission.SHELL, Permission.NETWORK})
    said = gate.run(find_tool("weather"), {"place": "Rome"}).output
    command = said.partition("not marked as a program; run ")[2].rstrip(".")
    subprocess.run(command, shell=True, check=True)
    assert gate.run(find_tool("weather"), {"place": "Rome"}).output == "Rome: rain\n"


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="the system does not tell")
def test_a_program_is_not_to_be_marked_on_a_disk_that_runs_none(home, monkeypatch):
    program = home / "run.sh"
    program.write_text("#!/bin/sh\n")
    put(home, command(str(program)), "own")
    there = list(os.statvfs(home))
    there[8] |= os.ST_NOEXEC
    monkeypatch.setattr("os.statvfs", lambda path: os.statvfs_result(there))
    said = Gate({Permission.SHELL}).run(find_tool("own"), {}).output
    assert said.endswith("its disk runs no programs (noexec); move it to another disk.")


@pytest.mark.parametrize("what, there", [("tools/shut", ["own"]), ("tools", [])])
def test_a_folder_that_can_t_be_read_is_named_and_hides_no_other_tool(home, what, there):
    put(home, command("true"), "own")
    put(home, WEATHER.replace('"weather"', '"shut"'), "shut")
    folder, told = home / ".ore" / what, list[str]()
    folder.chmod(0)
    try:
        if os.access(folder, os.R_OK):
            pytest.skip("root reads all")
        assert sorted(all_tools(told.append)) == ["echo", *there, "read-file"]
    finally:
        folder.chmod(0o700)
    assert len(told) == 1 and str(folder) in told[0] and "permission denied" in told[0]


def test_arguments_are_checked(home):
    put(home)
    gate = Gate({Permission.SHELL, Permission.NETWORK})
    tool = find_tool("weather")
    for args, said in (({}, "needs `args['place']`"), ({"city": "x"}, "it takes place")):
        assert said in gate.run(tool, args).output
    assert "NUL" in gate.run(tool, {"place": "a\0b"}).output


def test_ore_s_own_names_are_taken(home):
    put(home, command("true").replace('"own"', '"echo"'), "echo")
    told: list[str] = []
    assert type(all_tools(told.append)["echo"]).__name__ == "EchoTool"
    assert told == ["Your tool 'echo' is hidden: one of ORE's own has that name. Rename yours."]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Puts a package with one tool there: its code, and what in it the entry point names."""

    def put_there(code: str, made: str = "T") -> list[EntryPoint]:
        (tmp_path / "odd_package.py").write_text(code, encoding="utf-8")
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "odd_package", raising=False)
        points = [EntryPoint("odd", f"odd_package:{made}", "ore.tools")]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
        return points

    return put_there


def test_of_two_tools_with_one_name_the_hidden_one_is_said(home, monkeypatch):
    put(home, command("true").replace('"own"', '"shout"'), "shout")
    points = [EntryPoint("shout", "tests.test_tools_own:Shout", "ore.tools")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    told: list[str] = []
    assert type(all_tools(told.append)["shout"]).__name__ == "CommandTool"
    assert told == ["The tool 'shout' of a package is hidden: another has that name."]


ALIKE = ["READ-FILE", "read\u2010file", "\uff52ead-file", "read file "]
ALIKE += [
    "read-file\ufe0f",
    "read\u034f-file",
    "read-file\u3164",
    "read-file\u2800",
    "\u115fread-file",
]


@pytest.mark.parametrize("name", ALIKE)
def test_no_tool_of_a_package_has_a_name_that_looks_like_another_s(home, package, name):
    package(f"{BASE}T.name = {ascii(name)}")
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file"]
    assert told == [f"The tool '{name}' of a package is hidden: 'read-file' looks like it."]


def test_a_tool_of_a_package_is_asked_once_for_its_hints(home, package):
    hints = "    asked = iter([['be odd']])\n    def routing_hints(self): return next(self.asked)\n"
    frozen = "import dataclasses\nT = dataclasses.dataclass(frozen=True)(T)\n"
    package(BASE + hints + frozen)
    tool = find_tool("odd")
    assert [tool.routing_hints(), tool.routing_hints()] == [("be odd",)] * 2


def test_a_tool_of_a_package_is_asked_once_what_it_is(home, package):
    """Else one that was listed as harmless runs with what nobody granted."""
    package(CHANGES, "Changes")
    tool = find_tool("odd0")
    seen = [(tool.name, tool.description, tool.required_args) for _ in range(2)]
    assert seen == [("odd0", "odd1", ("odd2",))] * 2
    assert tool.required_permissions == {Permission.SHELL}
    with pytest.raises(GateError):
        Gate().run(tool, {})
    result = Gate(["shell"]).run(tool, {}, seconds=5)
    assert (result.tool_name, result.output) == ("odd0", "done")
    assert result.metadata["checked_permissions"] == ["shell"]


@pytest.mark.slow
def test_how_long_a_tool_of_a_package_takes_is_not_left_to_it(home, package):
    waits = "    def run_within(self, args, seconds): __import__('time').sleep(60)\n"
    package(BASE + waits)
    began = time.monotonic()
    with pytest.raises(ToolFailedError, match="was not done after 0.1 s"):
        Gate().run(find_tool("odd"), {}, seconds=0.1)
    assert time.monotonic() - began < 30


def test_tools_of_packages_are_found(home, monkeypatch):
    points = [
        EntryPoint("shout", "tests.test_tools_own:Shout", "ore.tools"),
        EntryPoint("broken", "tests.no_such_module:Tool", "ore.tools"),
        EntryPoint("none", "json:dumps", "ore.tools"),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file", "shout"]
    assert "'broken'" in told[0] and "is not a tool" in told[1]
    with pytest.raises(UnknownToolError, match="there are: echo, read-file, shout"):
        find_tool("whisper")
    with pytest.raises(GateError):
        Gate().run(find_tool("shout"), {})


def test_a_route_loads_the_tools_of_packages_once(home, package):
    """Else one that is slow to begin takes its time again, whatever the deadline."""
    made = "    def __init__(self): print('made')\n    def routing_hints(self): return ['be odd now']\n"
    package(BASE + made)
    with redirect_stderr(StringIO()) as told:
        result = run_ore("be odd now", "--route", replies=["Yes."])
    assert "[Route]: odd" in result.err and told.getvalue() == "made\n"


CHANGES = """\
from itertools import count
from ore.tools import Permission, Tool
from ore.types import ToolResult
class Changes(Tool):
    asked = count()
    name = description = property(lambda self: f"odd{next(self.asked)}")
    required_args = property(lambda self: (f"odd{next(self.asked)}",))
    needs = iter([{Permission.SHELL}])
    required_permissions = property(lambda self: next(self.needs, frozenset()))
    def run(self, args): return ToolResult("odd", "done", "ok")
"""
LIKE = "from ore import Permission\nclass Like: __class__ = Permission\n"
ENDLESS = f"""\
{BASE}
class Endless:
    def __iter__(self):
        while True: yield "odd"
"""


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("raise SystemExit(7)", "7"),
        ("class Odd(Exception):\n    __str__ = None\nraise Odd", "Odd"),
        (f"{BASE}del T.name", "no attribute 'name'"),
        (f"{BASE}T.name = 5", "must be texts"),
        (f"{BASE}T.name = 'odd\\nYou: hi'", "characters that can't be shown"),
        (
            f"class N(str):\n    def isprintable(self): return True\n{BASE}T.name = N('\\nYou: hi')",
            "characters that can't be shown",
        ),
        (f"{BASE}del T.description", "no attribute 'description'"),
        (f"{BASE}del T.required_permissions", "no attribute 'required_permissions'"),
        (f"{BASE}T.required_permissions = 'shell'", "set of ore.Permission"),
        (f"{BASE}T.required_permissions = iter(())", "set of ore.Permission"),
        (f"{BASE}T.required_args = 'path'", "lists of texts"),
        (f"{BASE}T.required_args = iter(['path'])", "lists of texts"),
        (f"{BASE}T.routing_hints = lambda self: 'be odd'", "lists of texts"),
        (f"{BASE}T.routing_hints = lambda self: 1 / 0", "division by zero"),
        (f"{ENDLESS}T.routing_hints = lambda self: Endless()", "at most 10,000"),
        (f"{ENDLESS}T.required_args = Endless()", "at most 10,000"),
        (f"{ENDLESS}T.required_permissions = Endless()", "at most 10,000"),
        (f"{BASE}T.routing_hints = lambda self: None", "lists of texts"),
        (f"{BASE}{LIKE}T.required_permissions = [Like()]", "set of ore.Permission"),
        (f"{BASE}T.name = ' '", "1 to 64"),
        (f"{BASE}T.name = 'o' * 65", "1 to 64"),
        (f"{BASE}T.routing_hints = lambda self: (1,)", "must be texts"),
    ],
)
def test_a_bad_tool_of_a_package_stops_no_other(home, package, module, said):
    points = package(module)
    points.append(EntryPoint("shout", "tests.test_tools_own:Shout", "ore.tools"))
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file", "shout"]
    assert len(told) == 1 and "'odd' of a package can't be used" in told[0] and said in told[0]


@pytest.mark.parametrize("damage", [b"[ore.tools]\nhalf", b"[console_scripts]\nx = a:\xff\n"])
def test_a_package_whose_entry_points_are_damaged_hides_no_tool(
    home, tmp_path, monkeypatch, damage
):
    for name, text in [("bad", damage), ("fine", b"[ore.tools]\ns=tests.test_tools_own:Shout")]:
        (tmp_path / f"{name}-1.0.dist-info").mkdir()
        (tmp_path / f"{name}-1.0.dist-info/entry_points.txt").write_bytes(text)
    monkeypatch.syspath_prepend(tmp_path)
    told: list[str] = []
    assert sorted(all_tools(told.append)) == ["echo", "read-file", "shout"]
    assert len(told) == 1 and f"{tmp_path}/bad-1.0.dist-info can't be read: " in told[0]


WAITS = "\n        ThreadPoolExecutor().submit(time.sleep, 60).result()\n"
SLOW = "import time\nfrom concurrent.futures import ThreadPoolExecutor\n" + BASE.replace(
    " ...\n", WAITS
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "module, how, said",
    [
        (SLOW, ("--tool", "odd"), "was not done after"),
        ("import time\ntime.sleep(60)", ("--tool", "odd"), "The tools were not loaded in time"),
        (
            f"import atexit, time\natexit.register(time.sleep, 60)\n{BASE}",
            ("--tool", "odd"),
            "failed",
        ),
        ("while True: pass", ("--route",), "The tools were not loaded in time"),
    ],
)
def test_nothing_that_a_tool_of_a_package_does_outlives_the_deadline_by_long(
    home, tmp_path, module, how, said
):
    about = tmp_path / "odd-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ore.tools]\nodd = odd_package:T\n")
    (tmp_path / "odd_package.py").write_text(module)
    began = time.monotonic()
    env = environment(PYTHONPATH=str(tmp_path))
    ended = end(start(*how, "--deadline", "2", "Hi", env=env, stdin=subprocess.DEVNULL))
    assert (ended.code, ended.out) == (1, "") and said in ended.err
    assert time.monotonic() - began < 30


class Shout(Tool):
    name, description = "shout", "Shout."
    required_permissions = frozenset({Permission.SHELL})

    def run(self, args):
        return ToolResult(self.name, "HEY", "ok")


@pytest.mark.slow
def test_what_a_command_starts_takes_the_signals_that_end_it(home, tmp_path):
    """Else ``timeout 1 PROGRAM`` in a command would not end it."""
    seen = tmp_path / "seen"
    code = f"import signal; open({str(seen)!r}, 'w').write(str(signal.pthread_sigmask(0, ())))"
    put(home, command(sys.executable, "-c", code), "own")
    end(start("Hi", "--tool", "own", "--grant", "shell", stdin=subprocess.DEVNULL))  # no server
    assert seen.read_text() == "set()"


@pytest.mark.slow
def test_a_command_that_fails_is_heard_of_where_ore_inherits_that_ends_of_children_are_ignored(
    home,
):
    put(home, command("sh", "-c", "echo half; exit 3"), "own")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        done = start("Hi", "--tool", "own", "--grant", "shell", stdin=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert "ended with exit code 3" in end(done).err


def test_a_reader_of_definitions_that_is_missing_is_to_be_installed(monkeypatch):
    monkeypatch.setattr(own, "sys", SimpleNamespace(version_info=(3, 10)))
    monkeypatch.setitem(sys.modules, "tomli", None)
    with pytest.raises(ExtraNotInstalledError, match="^The package 'tomli' is not installed: run "):
        own._parsed(b"")
