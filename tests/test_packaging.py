"""What the package says of itself is what the requirements files and the folders say."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def required(name: str) -> list[str]:
    """The packages of a requirements file, without the files that it includes."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "-r"))]


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_is_its_requirements_file(extra):
    assert EXTRAS[extra] == required(f"requirements-{extra}.txt")


def test_every_requirements_file_but_the_developers_is_an_extra():
    files = {path.stem.partition("-")[2] for path in ROOT.glob("requirements-*.txt")}
    assert files - {"dev"} == set(EXTRAS)


def test_every_package_and_its_data_are_shipped():
    folders = {path.parent for path in (ROOT / "ore").rglob("*.py")}
    packages = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    assert set(PROJECT["tool"]["setuptools"]["packages"]) == packages
    data = PROJECT["tool"]["setuptools"]["package-data"]["ore"]
    shipped = {path for pattern in data for path in (ROOT / "ore").glob(pattern)}
    others = {path for path in (ROOT / "ore").rglob("*") if path.is_file()}
    others = {p for p in others if p.suffix not in (".py", ".pyc")}
    assert shipped == others
