"""``--rows`` on a real Dask scheduler with two workers: in order, alike, and nothing lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ore.backends.cluster import ClusterBackend, ClusterReasoner
from ore.backends.cluster_worker import Where
from ore.backends.http import Deadline
from ore.backends.settings import Settings
from ore.errors import BackendError, UsageError
from ore.types import Message
from tests.support.fake_ollama import FakeOllama
from tests.support.process import IN_SHELL, MAIN, PATIENCE, ROOT, environment, until
from tests.support.terminal import OnTerminal

pytest.importorskip("distributed", reason="distributed is not installed (requirements-dask.txt)")
cluster_child = pytest.importorskip("ore.backends.cluster_child")
pytestmark = pytest.mark.slow

COUNT = 24


@contextmanager
def cluster(folder, *hosts, python_path=ROOT):
    """A scheduler and a worker for each host; yields its address and the workers."""
    started = []

    def start(*args, **variables):
        env = environment(PYTHONPATH=str(variables.pop("path", ROOT)), **variables)
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(
            subprocess.Popen([sys.executable, "-m", "dask", *args], env=env, cwd=folder, **quiet)
        )
        return started[-1]

    about = folder / "scheduler.json"
    try:
        start(
            *("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", str(about)),
        )
        until(lambda: about.exists() and about.read_text().strip())
        address = json.loads(about.read_text())["address"]
        worker = ("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
        paths = python_path if isinstance(python_path, list) else [python_path] * len(hosts)
        yield address, [
            start(*worker, OLLAMA_HOST=host, path=path)
            for host, path in zip(hosts, paths, strict=True)
        ]
    finally:
        for one in started:
            one.kill()
            one.wait()


def rows(folder, address, *more, **options):
    """Start ORE over a table of so many rows."""
    (folder / "t.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(COUNT)))
    command = [sys.executable, MAIN, "--rows", "t.csv", "Say {{n}}", "-m", "llama3.2"]
    command += ["--scheduler", address, "--artifact-out", "out/", *more]
    env = environment(HOME=str(folder), ORE_HOME=str(folder / "ore"))
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=env, stdout=pipe, stderr=pipe, **options)


def wait_for_workers(address, count):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(count, timeout=60)


@contextmanager
def busy_worker(folder, host):
    """A cluster whose only worker says what it is, and is at somebody else's work."""
    from distributed import Client

    with cluster(folder, host) as (address, _):
        wait_for_workers(address, 1)
        with Client(address, set_as_default=False) as other:
            at_work = other.submit(time.sleep, 600)
            until(lambda: any(other.processing().values()))
            yield address
            at_work.release()


def prompts(folder):
    return sorted(
        json.loads(path.read_text())["input"]["prompt"] for path in folder.glob("out/**/*.json")
    )


ALL = sorted(f"Say {n}" for n in range(COUNT))


def test_rows_come_back_in_order_though_a_worker_and_the_caller_are_killed(tmp_path):
    with (
        FakeOllama(delay=0.05) as fake,
        cluster(tmp_path, fake.url, fake.url) as (address, workers),
    ):
        wait_for_workers(address, 2)
        first = rows(tmp_path, address)
        until(lambda: len(prompts(tmp_path)) >= 4)
        workers[0].send_signal(signal.SIGKILL)
        until(lambda: len(prompts(tmp_path)) >= 8)
        first.kill()
        first.communicate()
        again = rows(tmp_path, address)
        out, err = again.communicate(timeout=120)
        assert again.returncode == 0, err.decode()
        found = [json.loads(line) for line in out.decode().splitlines()]
        assert [each["row"] for each in found] == list(range(1, COUNT + 1))
        assert prompts(tmp_path) == ALL
        [artifact] = [p for p in (tmp_path / "out").glob("**/*.json") if "000003" in p.name]
        known = json.loads(artifact.read_text())["provenance"]
        assert known["backend"] == "ollama" and known["model_digest"] and known["server_version"]


def test_a_worker_that_differs_is_named_and_not_used(tmp_path):
    other = tmp_path / "other"
    (other / "ore").mkdir(parents=True)
    for each in (ROOT / "ore").iterdir():
        if each.name != "__init__.py":
            os.symlink(each, other / "ore" / each.name)
    text = (ROOT / "ore/__init__.py").read_text()
    (other / "ore/__init__.py").write_text(text.replace('__version__ = "', '__version__ = "0.'))
    with FakeOllama() as fake, FakeOllama(models=("mistral",)) as lacking:
        hosts = (fake.url, lacking.url, fake.url)
        with cluster(tmp_path, *hosts, python_path=[ROOT, ROOT, other]) as (address, _):
            wait_for_workers(address, 3)
            out, err = rows(tmp_path, address).communicate(timeout=120)
    said = err.decode()
    assert prompts(tmp_path) == ALL, said
    assert "it has ORE 0." in said and "it has no model 'llama3.2'" in said
    assert len(fake.chats) == COUNT and not lacking.chats


def test_a_worker_whose_model_becomes_another_one_in_a_run_is_told(tmp_path):
    with FakeOllama() as fake, FakeOllama() as other:

        def swapped(_):
            other.ollama.copies["llama3.2:latest"] = "mistral:latest"
            return "Paris."

        said = b"llama3.2 became another model during this run"
        with cluster(tmp_path, fake.url, other.url) as (address, _):
            wait_for_workers(address, 2)
            out, err = rows(tmp_path, address).communicate(timeout=120)
            assert out.count(b"\n") == COUNT and said not in err
            shutil.rmtree(tmp_path / "out")
            other.ollama.reply = swapped
            out, err = rows(tmp_path, address).communicate(timeout=120)
        assert out.count(b"\n") == COUNT and said in err and len(other.chats) > 1
        assert b"run it again with another folder" in err


@pytest.mark.parametrize(
    "address, code, said",
    [
        ("tcp://127.0.0.1:9", 1, "does not answer"),
        ("nonsense", 2, "write a host and a port"),
        ("http://[::1", 2, "write a host and a port"),
    ],
)
def test_a_scheduler_that_is_not_there_is_a_sentence(tmp_path, address, code, said):
    done = rows(tmp_path, address)
    out, err = done.communicate(timeout=60)
    assert done.returncode == code and not out
    assert said in err.decode() and "Traceback" not in err.decode()


@contextmanager
def port_that_says(first=b""):
    """A port that says ``first`` to who connects, and no more; yields its address and who has come."""
    came = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def take():
            with suppress(OSError):
                while True:
                    came.append(server.accept()[0])
                    came[-1].sendall(first)

        threading.Thread(target=take, daemon=True).start()
        try:
            yield f"tcp://127.0.0.1:{server.getsockname()[1]}", came
        finally:
            server.shutdown(socket.SHUT_RDWR)
            for each in came:
                each.close()


@pytest.mark.parametrize("more, seconds", [((), "15"), (("--deadline", "2"), "2")])
def test_a_port_that_says_nothing_is_given_up(tmp_path, more, seconds):
    with port_that_says() as (address, came):
        started = time.monotonic()
        done = rows(tmp_path, address, *more)
        out, err = done.communicate(timeout=120)
    assert came and (done.returncode, out) == (1, b"") and time.monotonic() - started < 60
    assert f"ore: The scheduler {address} does not answer (" in err.decode()
    assert f"{seconds} s" in err.decode() and "check that it runs there" in err.decode()


@pytest.mark.parametrize("size", [8 << 30, 1 << 62])
def test_what_a_scheduler_claims_takes_no_memory_and_no_time(tmp_path, size):
    with port_that_says(struct.pack("Q", size)) as (address, _):
        done = rows(tmp_path, address, "--deadline", "3")
        out, err = done.communicate(timeout=120)
    assert (done.returncode, out) == (1, b"") and peak_of_children() < 4 << 30
    assert f"ore: The scheduler {address} does not answer (" in err.decode()


def peak_of_children():
    """The most bytes that a process which was waited for has had in memory."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


def test_workers_that_give_no_answer_are_given_up_at_the_deadline(tmp_path):
    with FakeOllama() as fake, busy_worker(tmp_path, fake.url) as address:
        done = rows(tmp_path, address, "--deadline", "6", "--max-failures", "2")
        out, err = done.communicate(timeout=120)
    assert done.returncode == 1 and not fake.chats
    assert f"No answer came from the workers of {address} in 6 s: give them longer with " in (
        said := err.decode()
    )
    assert "--deadline" in said and "`" not in said and b"Traceback" not in err


def test_a_worker_that_does_not_say_what_it_is_in_time_is_to_be_looked_at(tmp_path):
    with FakeOllama() as fake, cluster(tmp_path, fake.url) as (address, workers):
        wait_for_workers(address, 1)
        workers[0].send_signal(signal.SIGSTOP)
        out, err = rows(tmp_path, address, "--deadline", "6").communicate(timeout=120)
    assert out == b"" and "s): check what else they are doing." in err.decode()


def test_without_a_deadline_it_is_said_who_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("ore.backends.cluster_link.QUIET_SECONDS", 0.3)
    told, failed = [], []
    with FakeOllama() as fake, busy_worker(tmp_path, fake.url) as address:
        backend = ClusterBackend(address, (None, None), "llama3.2", told.append)
        told.clear()  # what was said until the worker had told what it is
        reasoner = backend.reasoner("llama3.2", Settings())

        def ask():
            with pytest.raises(BackendError) as caught:
                reasoner.reason([Message("user", "hi")])
            failed.append(str(caught.value))

        asking = threading.Thread(target=ask)
        asking.start()
        until(lambda: len(told) >= 2)
        reasoner.close()
        asking.join(PATIENCE)
    [first, second] = [
        re.fullmatch(r"Still waiting for the workers .* (\d+) s\. .*", t) for t in told[:2]
    ]
    assert int(first[1]) <= int(second[1]), "each time for twice as long"
    assert "its process has ended" in failed[0]


def test_dasks_client_ends_with_ore_and_ore_without_it(tmp_path):
    """Both are killed, one after the other."""
    with FakeOllama() as fake, busy_worker(tmp_path, fake.url) as address:
        done = rows(tmp_path, address, "--max-failures", "1")
        listed = Path(f"/proc/{done.pid}/task/{done.pid}/children")
        until(lambda: listed.read_text())
        os.kill(int(listed.read_text()), signal.SIGKILL)
        _, err = done.communicate(timeout=PATIENCE)
        assert done.returncode == 1 and "its process has ended" in err.decode()
        assert "Traceback" not in err.decode()
        done = rows(tmp_path, address)
        listed = Path(f"/proc/{done.pid}/task/{done.pid}/children")
        until(lambda: listed.read_text())
        client = int(listed.read_text())
        done.kill()
        done.communicate()
        until(lambda: not os.path.exists(f"/proc/{client}"))


@pytest.mark.parametrize(
    "told",
    [
        *(None, 5, [], {}, {"warned": []}, {"warned": 5}),
        {"warned": [], "content": 5, "model_id": "m", "id": "1", "timestamp": 0, "metadata": {}},
        {
            "warned": [],
            "content": "",
            "model_id": "m",
            "id": "1",
            "timestamp": 1e300,
            "metadata": {},
        },
        *(
            {"warned": [], "content": text, "model_id": name, "id": "1"}
            | {"timestamp": 0, "metadata": {}}
            for text, name in (("caf\udce9", "m"), ("", "caf\udce9"))
        ),
        {"warned": [], "error": "BackendError", "said": ""},
        *(
            {"warned": [], "error": name, "said": 5}
            for name in ("re", "Terminated", "_", "GateError")
        ),
    ],
)
def test_an_answer_that_is_none_is_an_error_of_the_cluster(told):
    class Odd:
        host = "tcp://there:8786"

        def take(self, *_):
            return told

    with pytest.raises(BackendError) as raised:
        ClusterReasoner(Odd(), "m", Settings()).reason([Message("user", "hi")])
    assert str(raised.value)


class Future:
    """What Dask makes of a call that is over."""

    def __init__(self, came):
        self.came, self.status = came, "error" if isinstance(came, Exception) else "finished"

    def add_done_callback(self, call):
        call(self)

    async def result(self, timeout):
        if isinstance(self.came, Exception):
            raise self.came
        return self.came

    def release(self):
        pass


class Client:
    def __init__(self, came):
        self.came = came

    def submit(self, *given, **more):
        return Future(self.came)


@pytest.mark.parametrize(
    "came, line",
    [
        (None, {"value": [None]}),  # not that no worker is left
        (TimeoutError("too late"), {"failed": "too late"}),  # not that it is still to come
        (Exception(b"\x80\x05\x95"), {"failed": "what was raised there can't be read"}),
    ],
)
def test_what_a_worker_returns_or_raises_is_told_from_what_the_cluster_says(came, line):
    reading, writing = os.pipe()

    async def ask():
        asked = cluster_child._Asked(writing)
        asked._client, asked._tasks = Client(came), {7: None}
        await asyncio.wait_for(asked._do(7, "call", ("take", (), ["tcp://there:1"])), 30)

    with open(reading, "rb") as pipe:
        try:
            asyncio.run(ask())
        finally:
            os.close(writing)
        number, _, data = pipe.read().partition(b" ")
    assert (number, json.loads(data)) == (b"7", line)


class Workers:
    """A client of a scheduler whose workers say odd things of themselves; it asks all, or some."""

    def __init__(self, said):
        self.said, self.scheduler = said, self

    async def identity(self, n_workers):
        return {"workers": {each: {"nthreads": 1} for each in self.said}}

    async def run(self, *given, workers=None, on_error):
        found = {each: self.said[each] for each in workers or self.said}
        for each in found.values():
            if isinstance(each, LookupError):  # which Dask raises in the end
                raise each
        return found


def test_a_worker_that_says_what_can_not_be_read_hides_no_other():
    said = {
        "ok": {"ore": "1"},
        "nan": {"x": float("nan")},
        "set": {"x": {1}},
        "long": {"x": 10**400},
        "large": {"x": "y" * (5 << 20)},
        "lost": LookupError("gone"),
        "raised": ValueError("why"),
    }
    asked = cluster_child._Asked(-1)
    asked._client = Workers(said)
    told = asyncio.run(asked.about((None, None), None))
    assert told.pop("ok") == {"ore": "1"}
    assert set(told) == set(said) - {"ok"} and all(isinstance(each, str) for each in told.values())
    assert (told["raised"], told["lost"]) == ("why", "gone") and "NaN" in told["nan"]


def test_no_worker_decides_how_long_a_sentence_is():
    class Odd:
        host = "tcp://127.0.0.1:9"

        def take(self, *given):
            return {"error": "BackendError", "said": "word " * 10**6, "warned": ["word " * 10**6]}

    warned = []
    with pytest.raises(BackendError) as raised:
        reasoner = ClusterReasoner(Odd(), "m", Settings(on_warning=warned.append))
        reasoner.reason([Message("user", "hi")])
    assert len(str(raised.value)) < 2000 and len(warned[0]) < 2000


def test_no_worker_decides_how_many_warnings_there_are():
    class Odd:
        host = "tcp://127.0.0.1:9"

        def take(self, *given):
            return {"error": "BackendError", "said": "why", "warned": ["word"] * 10**5}

    warned = []
    with pytest.raises(BackendError):
        reasoner = ClusterReasoner(Odd(), "m", Settings(on_warning=warned.append))
        reasoner.reason([Message("user", "hi")])
    assert warned == ["word"] * 20


def test_of_many_workers_that_are_not_used_some_are_named_and_the_others_counted():
    class Odd:
        host, _where, _model = "tcp://127.0.0.1:9", (None, None), None
        _link = _patience = property(lambda self: self)

        def ask(self, *given, look):
            return {f"tcp://{number}": {"ore": "0"} for number in range(5000)}

        def look_from_now(self, deadline):
            return lambda: None

        def come(self):
            return None

    told = []
    with pytest.raises(BackendError, match="No worker of .* can be used"):
        ClusterBackend._workers(Odd(), told.append, Deadline(None))
    assert len(told) == 21 and told[-1] == "4,980 more workers are not used."


def test_what_workers_list_is_compared_in_one_pass():
    """Each name was looked for in each list: 20,000 names took 3 s, and a list may have ten times more."""

    class Odd:
        _told = {
            "one": {"models": [f"a{number}" for number in range(40_000)]},
            "two": {"models": [f"a{number}" for number in range(39_999, 0, -1)]},
        }

    begun = time.process_time()
    assert ClusterBackend.models(Odd()) == [f"a{number}" for number in range(1, 40_000)]
    assert time.process_time() - begun < 2.0


def test_ctrl_c_ends_the_waiting_for_a_port_that_says_nothing(tmp_path):
    with port_that_says() as (address, came):
        done = rows(tmp_path, address)
        until(lambda: came)
        done.send_signal(signal.SIGINT)
        out, err = done.communicate(timeout=10)
    assert (done.returncode, out) == (130, b"") and b"Traceback" not in err


def test_ctrl_c_in_a_run_waits_for_no_worker_that_does_not_say_what_it_is(tmp_path):
    with FakeOllama(delay=0.2) as fake, cluster(tmp_path, fake.url) as (address, (worker,)):
        wait_for_workers(address, 1)
        run = rows(tmp_path, address)
        until(lambda: len(prompts(tmp_path)) >= 2)
        worker.send_signal(signal.SIGSTOP)
        began = time.monotonic()
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=60)
        assert run.returncode == 130 and b"Run it again to go on" in err
        assert time.monotonic() - began < 4.0


def test_a_password_in_an_address_is_not_shown(tmp_path):
    out, err = (done := rows(tmp_path, "tcp://me:secret@127.0.0.1:9")).communicate(timeout=60)
    assert done.returncode == 2 and not out
    assert "can't hold a user name or password" in err.decode() and "secret" not in err.decode()


@pytest.mark.parametrize(
    "address",
    "tcp://me:secret me:secret tcp://me:secret\uff20h:8786 http://me:secret%40h:8786 h:8786:secret "
    "tcp://h:8786?secret tcp://h:8786#secret tls://h:8786/secret http://h/?password=secret".split(),
)
def test_nothing_of_a_malformed_address_is_shown(address):
    with pytest.raises(UsageError) as raised:
        ClusterBackend(address, Where(), "m", print)
    assert "as in tcp://HOST:8786" in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "address",
    "127.0.0.1:1 tcp://127.0.0.1:1 tcp://[::1]:1 tls://localhost:1/ ws://127.0.0.1:1/a/b-c".split(),
)
def test_an_address_that_dask_can_ask_is_asked(address):
    with pytest.raises(BackendError, match="does not answer"):
        ClusterBackend(address, Where(), "m", print, 2)


def test_a_row_that_fails_on_a_worker_is_named_with_its_reason(tmp_path):
    with FakeOllama(scenario="cut") as fake, cluster(tmp_path, fake.url) as (address, _):
        wait_for_workers(address, 1)
        done = rows(tmp_path, address, "--max-failures", "2")
        _, err = done.communicate(timeout=120)
    assert done.returncode == 1 and "broke off" in err.decode() or "breaks" in err.decode()


@contextmanager
def tls_cluster(folder, password="secret"):
    """A scheduler with TLS; yields its address, and the settings of a client whose key has a password."""
    for name in ("plain", "locked"):
        key = ["-newkey", "rsa:2048", "-keyout", str(folder / f"{name}.key")]
        key += ["-nodes"] if name == "plain" else ["-passout", f"pass:{password}"]
        made = ["openssl", "req", "-x509", *key, "-out", str(folder / f"{name}.pem"), "-days", "2"]
        subprocess.run([*made, "-subj", "/CN=localhost"], check=True, capture_output=True)
    ours = {"CA_FILE": "plain.pem", "SCHEDULER__CERT": "plain.pem", "SCHEDULER__KEY": "plain.key"}
    theirs = {"CA_FILE": "plain.pem", "CLIENT__CERT": "locked.pem", "CLIENT__KEY": "locked.key"}
    ours, theirs = (
        {f"DASK_DISTRIBUTED__COMM__TLS__{key}": str(folder / value) for key, value in each.items()}
        for each in (ours, theirs)
    )
    about, null = folder / "tls.json", subprocess.DEVNULL
    command = [
        sys.executable,
        "-m",
        "dask",
        "scheduler",
        "--host",
        "tls://127.0.0.1",
        "--port",
        "0",
    ]
    command += ["--no-dashboard", "--scheduler-file", str(about)]
    with subprocess.Popen(command, env=environment(**ours), stdout=null, stderr=null) as one:
        try:
            until(lambda: about.exists() and about.read_text().strip())
            yield json.loads(about.read_text())["address"], theirs
        finally:
            one.kill()


needs_openssl = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the keys")


@needs_openssl
@pytest.mark.parametrize("typed", ["", "\x03"], ids=["nothing", "Ctrl-C"])
def test_the_terminal_shows_what_is_typed_after_dask_asked_for_a_passphrase(tmp_path, typed):
    (tmp_path / "t.csv").write_text("n\n1\n")
    with tls_cluster(tmp_path) as (address, settings):
        ore = f"{IN_SHELL} --rows {tmp_path}/t.csv x{{{{n}}}} -m m --scheduler {address}"
        ore += " --deadline 3"
        script = f"trap : INT; {ore}; stty -a | grep -o -e '[- ]echo ' | sed 's/^/now:/'"
        with OnTerminal(
            command=["sh", "-c", script], env={**settings, "HOME": str(tmp_path)}
        ) as tty:
            tty.wait_for("pass phrase")
            tty.interrupt(typed)
            tty.wait_for("now:")
            assert tty.end()[1].startswith(b" echo")


IN_THE_BACKGROUND = """
import os, signal
from ore.backends.cluster_link import _shows_typing

child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    os._exit(2 if _shows_typing(again=True) else 3)
_, status = os.waitpid(child, os.WUNTRACED)
if os.WIFSTOPPED(status):
    os.kill(child, signal.SIGKILL)
print("stopped" if os.WIFSTOPPED(status) else f"told {os.waitstatus_to_exitcode(status)}")
"""


def test_no_process_in_the_background_is_stopped_for_the_terminal():
    with OnTerminal(command=[sys.executable, "-c", IN_THE_BACKGROUND]) as tty:
        assert b"told 2" in tty.wait_for("\n")


@needs_openssl
def test_the_advice_for_a_scheduler_with_tls_names_dasks_settings(tmp_path):
    with tls_cluster(tmp_path) as (address, _):
        _, err = rows(tmp_path, address).communicate(timeout=60)
    said = err.decode()
    assert "(TLS expects" in said and ", that Dask is configured for its TLS here, and" in said


@pytest.mark.parametrize(
    "text, why",
    [("a: [1,", "a dask config file at"), ("logging: {distributed: LOUD}", "'LOUD'")],
)
def test_what_is_wrong_with_dasks_configuration_is_said(tmp_path, monkeypatch, text, why):
    (tmp_path / "dask.yaml").write_text(text)
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    _, err = rows(tmp_path, "tcp://127.0.0.1:9").communicate(timeout=60)
    said = err.decode()
    assert f"can't be loaded ({why}" in said and "): correct Dask's configuration if" in said
