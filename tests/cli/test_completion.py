"""Completion scripts, and extras that are missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from ore.cli.flags import SHELLS
from ore.cli.parser import build_parser
from tests.support.process import ROOT, environment


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
