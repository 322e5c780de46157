"""The package says what the requirements files say, holds what it needs, and works once installed."""

from __future__ import annotations

import email
import importlib.metadata
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from ore import __version__
from tests.by_hand import smoke
from tests.support.fake_ollama import FakeOllama
from tests.support.process import MAIN, ROOT, Ended, end, environment

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
BUILD = "from setuptools import build_meta; print(build_meta.build_{}({!r}))"


def required(name: str) -> list[str]:
    """The packages of a requirements file, without the files that it includes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-r"))]


# What is asked of other packages


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_its_requirements_file(extra):
    assert EXTRAS[extra] == required(f"requirements-{extra}.txt")


def test_every_requirements_file_but_the_developers_and_the_site_s_is_an_extra():
    files = {path.stem.partition("-")[2] for path in ROOT.glob("requirements-*.txt")}
    assert files - {"dev", "docs"} == set(EXTRAS)


def test_the_bill_of_materials_has_every_extra():
    installed = re.search(r"\$wheel\[([\w,]+)\]", (ROOT / ".ci/sbom").read_text(encoding="utf-8"))
    assert installed and set(installed[1].split(",")) == set(EXTRAS)


def test_what_builds_the_package_is_there_for_the_tests():
    assert set(PYPROJECT["build-system"]["requires"]) <= set(required("requirements-dev.txt"))


# What is built


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> Path:
    """A copy of the repository: what git tracks, and what it will once it is committed."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("needs a clone of the repository, and git")
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("needs setuptools 77 (requirements-dev.txt)")
    folder = tmp_path_factory.mktemp("tree") / "ore"
    new = ("ls-files", "-z", "--others", "--exclude-standard", "ore", "tests", "docs")
    for command in (("ls-files", "-z"), new):
        listed = subprocess.run(["git", *command], cwd=ROOT, capture_output=True, check=True)
        for name in filter(None, listed.stdout.decode().split("\0")):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def source(tree) -> set[str]:
    """The files of the copy, before anything was built there."""
    return {p.relative_to(tree).as_posix() for p in tree.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def built(tree, source, tmp_path_factory) -> tuple[Path, Path]:
    """The source distribution and the wheel."""
    folder = tmp_path_factory.mktemp("dist")
    names = []
    for kind in ("sdist", "wheel"):
        done = subprocess.run(
            [sys.executable, "-c", BUILD.format(kind, str(folder))],
            cwd=tree,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        names.append(done.stdout.split()[-1])
    return folder / names[0], folder / names[1]


@pytest.mark.slow
def test_the_source_distribution_is_the_repository(built, source):
    with tarfile.open(built[0]) as archive:
        files = [member.name.partition("/")[2] for member in archive if member.isfile()]
    assert len(files) == len(set(files))
    generated = {name for name in files if name in ("PKG-INFO", "setup.cfg") or ".egg-info" in name}
    assert set(files) - generated == source


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_what_a_shell_reads_of_it_alone(built, source):
    with zipfile.ZipFile(built[1]) as archive:
        files = set(archive.namelist())
    info = f"ore_reasoning-{__version__}.dist-info"
    about = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt")
    assert files == {
        *(name for name in source if name.startswith("ore/")),
        *(f"{info}/{name}" for name in about),
        *(f"ore_reasoning-{__version__}.data/data/{place}" for place in smoke.SHARED),
    }


@pytest.mark.slow
def test_the_metadata_say_what_it_is_and_needs(built):
    with zipfile.ZipFile(built[1]) as archive:
        name = f"ore_reasoning-{__version__}.dist-info/METADATA"
        said = email.message_from_bytes(archive.read(name))
    assert said["Version"] == __version__ and said["License-Expression"] == "MIT"
    assert said["Requires-Python"] == ">=3.10" and said["License-File"] == "LICENSE"
    needed = [line for line in said.get_all("Requires-Dist") if "extra ==" not in line]
    assert sorted(map(_parts, needed)) == sorted(map(_parts, required("requirements.txt")))


def _parts(requirement: str) -> list[str]:
    """A requirement with its bounds in any order."""
    for sign in "><":
        requirement = requirement.replace(sign, f" {sign}")
    return sorted(requirement.replace(",", " ").replace(";", " ").split())


# What is installed


@pytest.fixture(scope="module")
def command(built, tmp_path_factory) -> Path:
    """``ore`` in an environment of its own, which borrows the packages that ORE needs."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("needs pip")
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps"]
    subprocess.run([*pip, "-q", "--no-index", str(built[1])], check=True, capture_output=True)
    [packages] = folder.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin/ore"


@pytest.mark.slow
@pytest.mark.parametrize("check", smoke.CHECKS, ids=lambda check: check.__name__)
def test_once_installed(check, command, tmp_path):
    check(smoke.Installed(command, tmp_path))


LINES = [
    ["--version"],
    ["--help"],
    ["--list-tools"],
    ["--list-tools", "--json"],
    ["--list-skills"],
    ["--list-sessions"],
    ["--print-completion", "bash"],
    [],
    ["--no-such-flag"],
    ["Hi", "there"],
    ["-i", "-c"],
    ["Hi", "--backend", "nowhere"],
    ["Hi", "--tool", "nothing"],
    ["Hi", "--tool", "read-file", "--tool-arg", "path=x"],
    ["Hi", "--resume-session", "nothing"],
    ["--verify", "nothing.json"],
    ["Hi", "--host", "http://127.0.0.1:1"],
    ["Hi", "--system", "Be brief.", "--stream"],
    ["Hi", "--model", "mistral", "--session", "trip"],
    ["Hi", "--model", "nothing"],
    ["--list-models"],
]


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_ore_on_the_path_does_what_main_does(line, command, tmp_path):
    with FakeOllama() as fake:
        ended = []
        for number, program in enumerate(([str(command)], [sys.executable, MAIN])):
            home = tmp_path / str(number)
            home.mkdir()
            ended.append(_run([*program, *line], home, fake.url))
    installed, here = ended
    assert installed == here


def _run(command: list[str], home: Path, host: str) -> Ended:
    """Run a command in a home of its own, which stands as ~ in what it says."""
    ended = end(
        subprocess.Popen(
            command,
            cwd=home,
            env=environment(HOME=str(home), OLLAMA_HOST=host),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    )
    return Ended(
        *(str(part).replace(str(home), "~") for part in (ended.code, ended.out, ended.err))
    )
