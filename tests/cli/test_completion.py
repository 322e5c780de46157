"""Completion scripts, and extras that are missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from ore.cli.flags import SHELLS
from ore.cli.parser import build_parser
from ore.tools import TOOL_REGISTRY, EchoTool
from tests.support.process import ROOT, environment
from tests.support.terminal import OnTerminal

PAGE = ROOT / "docs/install.md"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_knows_every_long_flag(ore, shell):
    pytest.importorskip("shtab")
    result = ore("--print-completion", shell)
    assert (result.code, result.err) == (0, "")
    for action in build_parser()._actions:
        for flag in action.option_strings:
            assert flag.lstrip("-") in result.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=result.out.encode(), check=True)


@pytest.mark.parametrize("shell, name", {"bash": "ore", "zsh": "_ore", "fish": "ore.fish"}.items())
def test_the_script_that_is_installed_is_the_one_that_is_printed(ore, shell, name):
    pytest.importorskip("shtab")
    kept = ROOT / "completions" / shell / name
    printed = ore("--print-completion", shell).out
    if os.environ.get("UPDATE_DOCS"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(printed, encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == printed


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tool_s_name_that_a_shell_would_read_is_in_no_script(ore, shell):
    pytest.importorskip("shtab")
    odd = ("$(touch x)", "`touch x`", "a;b", "a:b", "a b", "a'b", "a|b", "-a", ".a", "~a", "a\\b")
    for name in (*odd, "süß"):
        TOOL_REGISTRY[name] = EchoTool()
    try:
        lines = ore("--print-completion", shell).out.splitlines()
    finally:
        for name in (*odd, "süß"):
            del TOOL_REGISTRY[name]
    named = [line.replace("'", "") for line in lines if "read-file" in line]
    assert len(named) == 1
    assert re.search(r'[(" ](echo read-file süß)[)"]', named[0]), "and none of the others"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_flags_and_files(ore, tmp_path):
    pytest.importorskip("shtab")
    (tmp_path / "notes.txt").touch()
    script = ore("--print-completion", "bash").out + (
        '\nask() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n'
        '_shtab_ore ore "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"\n'
        'echo "${COMPREPLY[@]}"; }\nask ore --artifact-o\nask ore --file not\n'
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert done.stdout.splitlines() == ["--artifact-out", "notes.txt"]


KINDS = {
    "-S tri": "-S trip",
    "--session=tri": "--session=trip",
    "--rename-session tri": "--rename-session trip",
    "--delete-session Zü": "--delete-session Zürich",
    "--persona pi": "--persona pirate",
    "--skill pd": "--skill pdf-tools",
    "--tool re": "--tool read-file",
    "--grant filesystem-r": "--grant filesystem-read",
    "-m mi": "-m mine",
    "-m smollm2:1": "-m smollm2:135m",
    "--model llama3.2:la": "--model llama3.2:latest",
    "-m hf.co/": "-m hf.co/user/repo:Q4",
    "--artifact-in ru": "--artifact-in run.json",
    "--verify run.json old": "--verify run.json older.json",
    "-f no": "-f notes.txt",
    "--help se": "--help sessions",
    "--resume-session a": "--resume-session a",  # what a shell would read is not offered
    "--save-session tri": "--save-session tri",
}
"""What is typed before a Tab, and what stands there after it."""

LINES = dict(
    zip(SHELLS, re.findall(r"^mkdir .*--print-completion .*$", PAGE.read_text("utf-8"), re.M))
)
"""What the page says to type, once, in each shell."""


@pytest.fixture
def shell_home(tmp_path):
    """A fresh home with a few names, and an ``ore`` on the way that only completion is asked of."""
    for name in (
        ".ore/sessions/trip.json",
        ".ore/sessions/trip.meta.json",
        ".ore/sessions/Zürich.json",
        ".ore/sessions/a$(touch hacked).json",
        ".ore/sessions/a`touch hacked`.json",
        ".ore/sessions/a'; touch hacked; '.json",
        ".ore/sessions/-a.json",
        ".ore/personas/pirate.md",
        ".ore/skills/pdf-tools/SKILL.md",
        ".ore/models/mine.gguf",
        ".ore/models/SmolLM2-135M-Instruct.Q4_1.gguf",
        ".ollama/models/manifests/registry.ollama.ai/library/llama3.2/latest",
        ".ollama/models/manifests/hf.co/user/repo/Q4",
        "run.json",
        "older.json",
        "notes.txt",
        ".zshrc",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    ours = f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m ore "$@"'
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin/ore"
    script.write_text(
        f"#!/bin/sh\ncase $1 in --print-completion) {ours} ;; esac\n" 'echo "<<$*>>"\n'
    )
    script.chmod(0o755)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_the_line_on_the_page_makes_a_shell_complete_names(shell, shell_home):
    pytest.importorskip("shtab")
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    env = {
        **dict.fromkeys(("ORE_HOME", "ORE_MODEL_DIR", "OLLAMA_MODELS", "ZDOTDIR"), None),
        **dict.fromkeys(("XDG_CONFIG_HOME", "XDG_DATA_HOME"), None),
        "HOME": str(shell_home),
        "PATH": f"{shell_home / 'bin'}:{os.environ['PATH']}",
        "LC_ALL": "C.UTF-8",
    }
    line = LINES[shell]
    subprocess.run([shell, "-c", line], env=environment(**env), cwd=shell_home, check=True)
    with OnTerminal(command=[shell], env=env, size=(40, 200)) as terminal:
        terminal.type(f"cd {shell_home}; echo re''ady\n")
        terminal.wait_for("ready")
        for typed, wanted in KINDS.items():
            terminal.type(f"ore {typed}\t\x05\n")  # to the end of the line, and Enter
            assert f"<<{wanted}>>" in re.sub(r" +>>", ">>", terminal.wait_for(">>").decode()), typed
        terminal.type("exit\n")
    assert not (shell_home / "hacked").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, args, extra",
    [
        ("rich", ["Hi", "--render"], "requirements-rich.txt"),
        ("shtab", ["--print-completion", "bash"], "requirements-completion.txt"),
    ],
)
def test_a_missing_extra_is_named_before_anything_is_sent(package, args, extra):
    block = (
        "import importlib.util, runpy, sys\n"
        "real = importlib.util.find_spec\n"
        f"importlib.util.find_spec = lambda n, *a: None if n == {package!r} else real(n, *a)\n"
        "sys.argv = ['scripted', '[]'] + sys.argv[1:]\n"
        "runpy.run_module('tests.support.scripted', run_name='__main__')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", block, *args],
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=str(ROOT)),
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert extra in done.stderr and len(done.stderr.splitlines()) == 1
    assert os.path.exists(ROOT / extra)
