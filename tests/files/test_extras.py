"""What to run for a missing package is said in the words of how ORE came onto the machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import pytest

from tests.support.process import ROOT, environment

SAY = """
import sys
sys.prefix = {prefix!r}
from ore.files.extras import install_command
print(install_command(), install_command("rich"), install_command("rich", again=True), sep="\\n")
"""


def said(project, prefix="/usr") -> list[str]:
    """What the copy of ORE in a folder says for nothing, an extra, and one that does not work."""
    done = subprocess.run(
        [sys.executable, "-c", SAY.format(prefix=str(prefix))],
        env=environment(PYTHONPATH=str(project)),
        cwd=prefix,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def installed(tmp_path):
    """A folder that holds the package alone, as where pip puts it."""
    shutil.copytree(ROOT / "ore", tmp_path / "lib/ore")
    return tmp_path / "lib"


def test_a_copy_of_the_project_names_its_files():
    assert said(ROOT) == [
        "pip install -r requirements.txt",
        "pip install -r requirements-rich.txt",
        "pip install --force-reinstall -r requirements-rich.txt",
    ]


def test_who_installed_ore_by_pip_is_told_the_extra(installed):
    assert said(installed) == [
        "pip install ore-reasoning",
        "pip install 'ore-reasoning[rich]'",
        "pip install --force-reinstall 'ore-reasoning[rich]'",
    ]


def test_who_installed_ore_by_pipx_is_told_so_of_pipx(installed):
    (installed.parent / "pipx_metadata.json").touch()
    assert said(installed, installed.parent) == [
        "pipx install --force ore-reasoning",
        *["pipx install --force 'ore-reasoning[rich]'"] * 2,
    ]


def test_the_commands_in_the_messages_can_be_run():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    names = {line.split(" = ")[0] for line in extras.splitlines()}
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "ore").rglob("*.py"))
    used = set(re.findall(r"install_command\(['\"]([a-z]+)", sources))
    assert used == names
    assert all((ROOT / f"requirements-{name}.txt").is_file() for name in names)
    assert 'name = "ore-reasoning"' in project
