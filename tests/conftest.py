"""What every test gets: a home of its own, a scripted reasoner, and ``ore(...)``."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ore.store import FileSessionStore
from tests.support.harness import run_ore
from tests.support.skill_files import write_skill

# Enough to find what breaks, few enough for a suite that is run often; the long runs are
# ``python -m tests.by_hand.sweeps`` and ``python -m tests.by_hand.fuzz_ndjson``. The examples are the
# same each time, and may take their time: no change is refused for what it did not bring, or a busy machine.
settings.register_profile(
    "suite",
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job, and all it starts
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # nohup; what the tests start inherits it
    signal.signal(signal.SIGHUP, lambda *_: None)

# Looked at once, before the tests' own home and environment take its place.
MODEL_DIR = os.environ.get("ORE_MODEL_DIR")

MEMORY = Path("/dev/shm")
"""A file system in memory, as most Linux machines have one."""


def why_no_embedded_model() -> str | None:
    """The reason why tests of the embedded backend can't run here, or None."""
    if importlib.util.find_spec("xllamacpp") is None:
        return "the engine is not installed (requirements-embedded.txt)"
    if MODEL_DIR is None or not any(Path(MODEL_DIR).glob("*.gguf")):
        return "ORE_MODEL_DIR names no folder with a model"
    return None


def pytest_addoption(parser):
    parser.addoption(
        "--require-embedded",
        action="store_true",
        help="fail where the tests of the embedded backend can't run",
    )
    parser.addoption("--slow", action="store_true", help="run the tests marked slow as well")


def pytest_configure(config):
    """Keep the tests' files in memory: a disk takes time to sync and to remove them."""
    if config.option.basetemp is None and _has_room(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def _has_room(folder: Path) -> bool:
    """Whether two gigabytes are free there, for anybody, and programs can be started: a container's may not."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    free = found.f_bavail * found.f_frsize
    return free > 2 << 30 and not found.f_flag & os.ST_NOEXEC and os.access(folder, os.W_OK)


@pytest.fixture(scope="session", autouse=True)
def _memory_is_given_back(request, tmp_path_factory):
    """Remove the tests' files from memory, unless somebody may want to look at them."""
    yield
    base = tmp_path_factory.getbasetemp()
    if MEMORY in base.parents and not request.session.testsfailed:
        shutil.rmtree(base, ignore_errors=True)


def pytest_collection():
    """Look for no garbage while the tests are collected: nearly all of it stays until the end."""
    gc.disable()


def pytest_collection_finish():
    """Leave that out of every later search, and search less often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(config, items):
    _skip_slow(config, items)
    reason = why_no_embedded_model()
    if reason is None:
        return
    if config.getoption("--require-embedded"):
        raise pytest.UsageError(f"--require-embedded: {reason}")
    for item in items:
        if item.get_closest_marker("embedded"):
            item.add_marker(pytest.mark.skip(reason=reason))  # no engine, or no model: it says


def _skip_slow(config, items):
    if config.getoption("--slow"):
        return
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.skip(reason="slow: run with --slow, as .ci/run does"))


@pytest.fixture
def model_dir(monkeypatch) -> Path:
    """The folder with the real model, for tests marked ``embedded``; ORE finds it there too."""
    monkeypatch.setenv("ORE_MODEL_DIR", str(MODEL_DIR))
    return Path(MODEL_DIR)


_folders = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory) -> Path:
    """A new folder. pytest's own looks at every other one, and moves a link, for each test."""
    folder = tmp_path_factory.getbasetemp() / f"t{next(_folders)}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture(autouse=True)
def _no_server_has_answered_yet():
    """Forget which addresses have answered: a test's server may get the port of an earlier test's."""
    if client := sys.modules.get("ore.backends.openai_client"):
        client._heard.clear()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """An empty home folder; nothing of the developer's own home or environment is seen.

    A fault in ORE is a traceback here, and not the sentence that is in its place for users.
    """
    for name in list(os.environ):
        if name.startswith(("ORE_", "OLLAMA_", "OPENAI_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("ORE_TRACEBACK", "1")
    return folder


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A current folder of its own, so that a test can name files as a user does."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def far_away(monkeypatch):
    """A system whose time is thirteen hours ahead."""
    monkeypatch.setenv("TZ", "FAR-13")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def no_authorities(monkeypatch):
    """Nobody whom TLS trusts: to read all of the system's takes far longer than a request."""
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)


@pytest.fixture
def writing(home):
    """The skill ``writing`` in the home folder; its instructions are ``Be brief.``"""
    write_skill(home / ".ore/skills", "writing", "name: writing\ndescription: d", "Be brief.")


@pytest.fixture
def reported() -> list[str]:
    """The sentences that ``store`` reported."""
    return []


@pytest.fixture
def store(tmp_path, reported) -> FileSessionStore:
    """A store of its own, whose folder is not made yet."""
    return FileSessionStore(tmp_path / "sessions", report=reported.append)


@pytest.fixture
def ore():
    """Run the real ``main`` in this process with a scripted reasoner: see ``run_ore``."""
    return run_ore
