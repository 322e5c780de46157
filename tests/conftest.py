"""What every test gets: a home of its own, a scripted reasoner, and ``ore(...)``."""

from __future__ import annotations

import os

import pytest

from tests.harness import run_ore


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home folder; nothing of the developer's own home or environment is seen."""
    for name in list(os.environ):
        if name.startswith(("ORE_", "OLLAMA_", "OPENAI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def ore():
    """Run the real ``main`` in this process with a scripted reasoner: see ``run_ore``."""
    return run_ore
