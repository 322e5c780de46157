"""The link to Dask's client: how long it is waited for, and what it may take; without a scheduler."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import subprocess
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest

import ore
from ore.backends import cluster, cluster_link, cluster_worker
from ore.backends.cluster import ClusterBackend, ClusterReasoner
from ore.backends.cluster_link import ClusterLink, LostCall, Patience, until
from ore.backends.effective import effective
from ore.backends.settings import Settings
from ore.backends.turn_errors import NothingAnswersError, TurnTookLongError
from ore.errors import BackendError, BackendTimeoutError, ModelNotFoundError, UsageError
from ore.files.in_time import OutOfTime
from ore.types import Message, Response
from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE


@pytest.fixture
def clock(monkeypatch):
    """What the link takes for the time, in seconds."""
    now = [0.0]
    monkeypatch.setattr(cluster_link, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def test_what_a_worker_says_is_one_line_without_control_characters():
    class Told:
        host = "tcp://there:8786"

        def take(self, *_):
            return {
                "error": "BackendError",
                "said": "a\nYou: \x1b[2J",
                "warned": ["b\nYou: \x1b[2J"],
            }

    warned: list[str] = []
    settings = Settings(on_warning=warned.append)
    with pytest.raises(BackendError, match=re.escape("a^JYou: ^[[2J")):
        ClusterReasoner(Told(), "m", settings).reason([Message("user", "hi")])
    assert warned == ["b^JYou: ^[[2J"]


def test_the_name_of_a_worker_is_one_short_line_without_control_characters(monkeypatch):
    class Link:
        def ask(self, what, *_, **__):
            names = ["a\nYou: \x1b[2J", "b" * 10**6]
            return {name: "no" for name in names} if what == "about" else None

        def close(self):
            pass

    monkeypatch.setattr(cluster, "_linked", lambda address: Link())
    told: list[str] = []
    with pytest.raises(BackendError, match="No worker of tcp://there:8786 can be used"):
        ClusterBackend("tcp://there:8786", (None, None), None, told.append)
    assert told[0].startswith("The worker a^JYou: ^[[2J is not used: it can't say what it is (no)")
    assert len(told) == 2 and len(told[1]) < 600


@pytest.mark.parametrize("said", ["Stream is closed", LostCall("Stream is closed")])
def test_no_worker_is_blamed_where_the_scheduler_goes_away_as_they_are_asked(monkeypatch, said):
    class Link:
        def ask(self, what, *_, **__):
            if what == "about" and isinstance(said, str):
                return {"tcp://there:1": said}
            if what != "connect":
                raise LostCall("Stream is closed")
            return None

        def close(self):
            pass

    monkeypatch.setattr(cluster, "_linked", lambda address: Link())
    told: list[str] = []
    with pytest.raises(BackendError, match="^The scheduler tcp://there:8786 does not answer"):
        ClusterBackend("tcp://there:8786", (None, None), None, told.append)
    assert not told


@pytest.mark.parametrize("lost", [LostCall("Client lost the connection to the scheduler"), None])
def test_a_cluster_that_goes_away_ends_a_run_after_ten_rows(monkeypatch, tmp_path, lost):
    about = {"ore": ore.__version__, "backend": "ollama", "models": ["m"], "model": "m"}

    class Link:
        def ask(self, what, *_, **__):
            if what == "call" and lost is not None:
                raise lost
            return {"about": {"w": about}, "threads": {"w": 1}}.get(what)

        def close(self):
            pass

    monkeypatch.setattr(cluster, "_linked", lambda address: Link())
    there = ClusterBackend("tcp://there:8786", (None, None), "m", print)
    (tmp_path / "t.csv").write_text("n\n" + "1\n" * 1000)
    with ore.open_table(str(tmp_path / "t.csv")) as table:
        engine = ore.ORE(there.reasoner("m", Settings()))
        with ore.over_rows(engine, "Say {{n}}", table, jobs=2) as run:
            assert 10 <= len(list(run.outcomes())) < 100
    assert "tcp://there:8786" in str(run.error())


@pytest.mark.parametrize(
    "error, least, most",
    [
        (ModelNotFoundError("There is no model 'm'.", model="m"), 1, 99),
        (NothingAnswersError("It wants a password."), 10, 99),
        (BackendError("It failed."), 200, 200),
    ],
)
def test_what_ends_a_run_on_one_machine_ends_it_where_workers_say_it(
    monkeypatch, tmp_path, error, least, most
):
    about = {"ore": ore.__version__, "backend": "ollama", "models": ["m"], "model": "m"}

    def fail(*_):
        raise error

    class Link:
        def ask(self, what, *given, **__):
            if what == "call":
                return [cluster_worker.take((None, None), "m", {}, [])]
            return {"about": {"w": about}, "threads": {"w": 1}}.get(what)

        def close(self):
            pass

    monkeypatch.setattr(cluster, "_linked", lambda address: Link())
    monkeypatch.setattr(cluster_worker, "_reasoner", fail)
    there = ClusterBackend("tcp://there:8786", (None, None), "m", print)
    (tmp_path / "t.csv").write_text("n\n" + "1\n" * 200)
    with ore.open_table(str(tmp_path / "t.csv")) as table:
        engine = ore.ORE(there.reasoner("m", Settings()))
        with ore.over_rows(engine, "Say {{n}}", table, jobs=2) as run:
            assert least <= len(list(run.outcomes())) <= most


@pytest.mark.parametrize("said", [{"odd": 1}, {"ore": 5, "window": "x"}, {"facts": []}, 5, [1]])
def test_what_a_worker_says_was_in_force_may_be_anything(monkeypatch, said):
    about = {"ore": ore.__version__, "backend": "ollama", "models": ["m"], "model": "m"}

    class Link:
        def ask(self, what, *_, **__):
            return {"about": {"w": about}, "threads": {"w": 1}, "call": [said]}.get(what)

        def close(self):
            pass

    monkeypatch.setattr(cluster, "_linked", lambda address: Link())
    there = ClusterBackend("tcp://there:8786", (None, None), "m", print)
    told = effective({"seed": 1}, **there.in_force("m", Settings()))
    assert told["parameters"]["seed"] == {"value": 1, "from": "user"}


def test_two_answers_of_a_worker_have_two_ids_whatever_it_says():
    told = {"warned": [], "content": "", "model_id": "m", "id": "1", "timestamp": 0, "metadata": {}}

    class Told:
        host = "tcp://there:8786"

        def take(self, *_):
            return dict(told)

    reasoner = ClusterReasoner(Told(), "m", Settings())
    ids = {reasoner.reason([Message("user", "hi")]).id for _ in range(2)}
    assert len(ids) == 2 and "1" not in ids


def test_an_error_that_only_the_engine_has_keeps_its_public_class_on_the_way_from_a_worker(
    monkeypatch,
):
    def fail(*_):
        raise TurnTookLongError("It took long.")

    class Local:
        host = "tcp://there:8786"

        def take(self, *_):
            return cluster_worker.take((None, None), "m", {}, [])

    monkeypatch.setattr(cluster_worker, "_reasoner", fail)
    with pytest.raises(BackendTimeoutError, match="It took long"):
        ClusterReasoner(Local(), "m", Settings()).reason([Message("user", "hi")])


def test_silence_is_said_after_a_minute_and_from_then_on_after_twice_as_long(clock):
    told: list[str] = []
    patience = Patience("them", told.append)
    look = patience.look_from_now(None)
    for clock[0] in range(1000):
        look()
    seconds = [int(found[1]) for each in told if (found := re.search(r"for (\d+) s\.", each))]
    assert seconds == [60, 120, 240, 480, 960]
    patience.come()
    for clock[0] in range(1000, 1100):
        look()
    assert len(told) == 6 and "for 60 s." in told[-1], "something had come"


def test_a_turn_is_given_up_where_nothing_comes_of_any_for_its_deadline_and_a_little(clock):
    patience = Patience("them", lambda told: None)
    look = patience.look_from_now(10)
    clock[0] = 12.0
    look()
    patience.come()
    clock[0] = 24.0
    look()
    clock[0] = 24.1
    with pytest.raises(BackendTimeoutError, match="No answer came from them in 10 s"):
        look()
    patience.look_from_now(10)()


def test_of_what_dask_says_of_a_failure_its_traceback_is_left_out(monkeypatch):
    said = r"""0 {"failed": "it can't be sent\nTraceback (most recent call last):\n  File"}"""
    code = f"import sys; sys.stdin.buffer.read(1); print({said!r}, flush=True); sys.stdin.buffer.read()"
    monkeypatch.setattr(cluster_link, "_CODE", code)
    with closing(ClusterLink()) as link, pytest.raises(LostCall, match="^it can't be sent$"):
        link.ask("hello", look=until(PATIENCE))


@pytest.mark.slow
def test_after_half_a_question_the_process_is_asked_nothing_more():
    with closing(ClusterLink()) as link:
        os.kill(link._child.pid, signal.SIGSTOP)
        with pytest.raises(OutOfTime):
            link.ask("call", b"x" * (1 << 20), look=until(0.1))
        os.kill(link._child.pid, signal.SIGCONT)
        with pytest.raises(LostCall, match="its process has ended"):
            link.ask("hello", look=until(PATIENCE))


def test_the_folder_may_be_removed_that_modules_are_also_looked_for_in(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend("")  # as for `python -c`, and in a notebook
    (folder := tmp_path / "gone").mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    ClusterLink().close()


def test_a_system_without_threads_is_said_and_no_process_is_left(monkeypatch):
    begun: list[subprocess.Popen[bytes]] = []

    class Noted(subprocess.Popen):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            begun.append(self)

    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(BackendError, match=r"can't be started \(can't start new thread\): end"):
        ClusterLink()
    assert [each.returncode for each in begun] == [-signal.SIGKILL]


@pytest.mark.slow
def test_a_process_without_threads_is_said_and_no_package_is_blamed(monkeypatch):
    pytest.importorskip("ore.backends.cluster_child", exc_type=ImportError)
    refuse = (
        "import threading\n"
        "def refuse(*_, **__): raise RuntimeError('can\\'t start new thread')\n"
        "threading._start_new_thread = threading._start_joinable_thread = refuse\n"
    )
    monkeypatch.setattr(cluster_link, "_CODE", refuse + cluster_link._CODE)
    with pytest.raises(BackendError, match=r"can't be started \(can't start new thread\): end"):
        cluster._linked("tcp://127.0.0.1:9")


@pytest.mark.slow
def test_the_process_gets_no_more_than_its_share_of_memory():
    child = pytest.importorskip("ore.backends.cluster_child", exc_type=ImportError)
    with closing(ClusterLink()) as link:
        link.ask("hello", look=until(PATIENCE))
        most = resource.prlimit(link._child.pid, resource.RLIMIT_DATA)
    assert most == (child.MOST_MEMORY, child.MOST_MEMORY)


@pytest.mark.parametrize(
    "address",
    [
        *(
            "tcp://127.0.0.1:99999",
            "tcp://127.0.0.1:-1",
            "tcp://127.0.0.1:0",
            "tcp://:8786",
            "tcp://",
        ),
        *(
            "tls://there:65536",
            "there:70000",
            "there",
            "tcp://there:abc",
            "tcp://[::1]",
            "tcp://a b:1",
        ),
        *("tcp://there:8786\n", "http://there:8787", "https://there:8787/"),
    ],
)
def test_an_address_that_no_scheduler_can_have_is_refused_without_asking_there(address):
    with pytest.raises(
        UsageError, match="write a host and a port, as in tcp://HOST:8786"
    ) as refused:
        ClusterBackend(address, (None, None), None, print)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    ["tcp://[::1]:8786", "127.0.0.1:1", "tls://there:65535", "ws://there:1/path", "ucx://there:1"],
)
def test_an_address_that_may_be_a_schedulers_is_left_to_dask(address):
    cluster_link.refuse_no_address(address)


def test_a_scheduler_that_says_nothing_of_its_workers_is_said_to_in_words(monkeypatch):
    child = pytest.importorskip("ore.backends.cluster_child", exc_type=ImportError)
    monkeypatch.setattr(child, "ASK_SECONDS", 0.01)
    asked = child._Asked(-1)
    asked._client = SimpleNamespace(
        scheduler=SimpleNamespace(identity=lambda **_: asyncio.sleep(60))
    )
    with pytest.raises(TimeoutError, match="nothing came for 0.01 s"):
        asyncio.run(asked.threads())


def test_a_worker_passes_on_what_each_of_its_turns_is_warned_of(monkeypatch):
    class Warning:
        def reasoner(self, model, settings):
            def reason(messages):
                settings.on_warning(messages[-1].content)
                return Response("yes", model)

            return SimpleNamespace(reason=reason)

    monkeypatch.setattr(cluster_worker, "_backend", lambda *_: Warning())
    cluster_worker._reasoner.cache_clear()
    for text in ("a", "b"):
        sent = [{"role": "user", "content": text, "images": ()}]
        assert cluster_worker.take((None, None), "m", {}, sent)["warned"] == [text]
    cluster_worker._reasoner.cache_clear()


@pytest.mark.parametrize("model, is_said", [(None, True), ("zeta", False)])
def test_a_default_that_nobody_expects_is_said_of_a_cluster_too(model, is_said):
    with FakeOllama(models=("zeta:latest",)) as fake:
        told = cluster_worker.about(("ollama", fake.url), model)
    made = ClusterBackend.__new__(ClusterBackend)
    made._told = {"tcp://127.0.0.1:1": told}
    said = made.about_default("zeta:latest")
    assert (said is not None and "so zeta:latest answers" in said) is is_said
    made._told = {"tcp://127.0.0.1:1": {"about_default": 5}}
    assert made.about_default("zeta:latest") is None


@pytest.mark.parametrize("versions, known", [(("1", "1"), "1"), (("1", "2"), None)])
def test_no_artifact_names_the_version_of_another_worker_s_server(versions, known):
    class Gone:
        def ask(self, *_, **__):
            raise LostCall("gone")

    made = ClusterBackend.__new__(ClusterBackend)
    made._link, made._where = Gone(), (None, None)
    about = [{"server_version": each, "model_digest": "d"} for each in versions]
    made._told = dict(enumerate(about))
    assert made.provenance("m") == {"server_version": known, "model_digest": "d"}
