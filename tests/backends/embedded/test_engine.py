"""The engine in its process: who can reach it, how it stops, and that it ends cleanly."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from ore.backends import engine_child
from ore.backends.engine import Engine, _Turn
from ore.backends.engine_load import EngineProcess
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.engine_wire import Connection
from ore.backends.http import Deadline
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    ContextTruncatedError,
    IncompleteAnswerError,
)
from ore.types import Message
from tests.conftest import MODEL_DIR
from tests.support.process import PATIENCE, ROOT, environment, until

pytestmark = pytest.mark.embedded
SHORT = {"messages": [{"role": "user", "content": "Say hi."}], "temperature": 0, "max_tokens": 6}
ENDLESS = {**SHORT, "messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 4000}
LONG = {**SHORT, "messages": [{"role": "user", "content": "word " * 3000}]}


@pytest.fixture(scope="module")
def path():
    return next(Path(MODEL_DIR).glob("*.gguf"))


@pytest.fixture(scope="module")
def engine(path):
    with closing(Engine(path)) as engine:
        yield engine


def events(engine, request, silence=None, end=None):
    deadline = Deadline(None if end is None else end - time.monotonic())
    return engine.events(request, silence=silence, deadline=deadline)


def text_of(found: list[dict]) -> str:
    deltas = [choice["delta"] for event in found for choice in event["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_an_answer_comes_token_by_token_and_ends_with_its_timings(engine):
    found = list(events(engine, SHORT))
    assert 0 < len([1 for event in found if text_of([event])]) <= 6
    last = found[-1]
    assert last["choices"][0]["finish_reason"] in ("stop", "length")
    assert last["timings"]["predicted_n"] > 0


def pid_of(engine) -> int:
    return engine._process._child.pid


def memory_of(engine) -> int:
    """How much memory the engine's process has asked for, in MiB."""
    pages = int(Path(f"/proc/{pid_of(engine)}/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGESIZE") >> 20


@pytest.mark.parametrize("asked, window", [(512, 512), (1 << 20, 8192)])
def test_the_window_is_as_asked_and_never_larger_than_the_model_s(path, asked, window):
    with closing(Engine(path, window=asked)) as engine:
        assert engine.window == window
        assert memory_of(engine) < 4096


@pytest.mark.invariant
@pytest.mark.parametrize(
    "method, page",
    [
        ("GET", "/v1/models"),
        ("GET", "/props"),
        ("GET", "/slots"),
        ("GET", "/lora-adapters"),
        ("GET", "/tools"),
        ("GET", "/v1/stream"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/completion"),
        ("POST", "/tokenize"),
    ],
)
def test_a_client_without_the_key_is_refused_and_no_other_site_is_let_in(engine, method, page):
    for headers in ({}, {"Authorization": "Bearer guess"}, {"X-Api-Key": ""}):
        with closing(Connection(engine._process.socket, PATIENCE)) as connection:
            connection.connect()
            body, site = "{}" if method == "POST" else None, {"Origin": "https://example.org"}
            connection.request(method, page, body, {**headers, **site})
            response = connection.getresponse()
            assert response.status == 401
            assert "Access-Control-Allow-Origin" not in response.headers


def test_without_the_key_there_is_no_page_and_only_a_sign_of_life(engine):
    for method, page, status in (("GET", "/", 404), ("GET", "/health", 200), ("OPTIONS", "/", 200)):
        with closing(Connection(engine._process.socket, PATIENCE)) as connection:
            connection.connect()
            connection.request(method, page, headers={"Origin": "https://example.org"})
            response = connection.getresponse()
            assert response.status == status
            sent = {name for name in response.headers if name.startswith("Access-Control-")}
            assert sent <= {"Access-Control-Allow-Credentials"}  # which is false
            assert page == "/" or json.loads(response.read()) == {"status": "ok"}


def inodes_of(pid: int) -> set[str]:
    links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}


@pytest.mark.invariant
def test_the_engine_listens_on_no_port_and_in_a_folder_of_its_user_alone(engine):
    for table in ("tcp", "tcp6", "udp", "udp6"):
        rows = Path(f"/proc/{pid_of(engine)}/net/{table}").read_text().splitlines()[1:]
        assert not inodes_of(pid_of(engine)) & {row.split()[9] for row in rows}
    folder = Path(engine._process.socket).parent.stat()
    assert (folder.st_mode & 0o777, folder.st_uid) == (0o700, os.getuid())


@pytest.mark.slow
def test_the_engine_can_be_asked_whatever_the_umask(path):
    before = os.umask(0o777)
    try:
        with closing(Engine(path)) as engine:
            at = Path(engine._process.socket)
            modes = [each.stat().st_mode & 0o700 for each in (at.parent, at)]
    finally:
        os.umask(before)
    assert modes == [0o700, 0o700]


@pytest.mark.invariant
def test_the_engine_s_process_gets_only_what_is_its_business(path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    for taking_threads in ("OMP_THREAD_LIMIT", "OMP_MAX_ACTIVE_LEVELS", "OMP_DYNAMIC"):
        monkeypatch.setenv(taking_threads, "1")
    core = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (core[1], core[1]))
    try:
        with tempfile.TemporaryFile() as mine:
            os.set_inheritable(mine.fileno(), True)
            engine = Engine(path)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, core)
    with closing(engine):
        process = Path(f"/proc/{pid_of(engine)}")
        environ = dict(
            line.split("=", 1) for line in (process / "environ").read_text().split("\0") if line
        )
        assert environ["OMP_WAIT_POLICY"] == "active" and "OPENAI_API_KEY" not in environ
        assert [name for name in environ if name.startswith("OMP_")] == ["OMP_WAIT_POLICY"]
        assert engine._headers["Authorization"][7:] not in (process / "cmdline").read_text()
        assert not {"(deleted)"} & {os.readlink(fd)[-9:] for fd in (process / "fd").iterdir()}
        limits = (process / "limits").read_text().splitlines()
        soft = {line[:26].strip(): line[26:].split()[0] for line in limits}
        assert soft["Max core file size"] == "1"  # 0 allows one that goes to a program
        assert int((process / "coredump_filter").read_text(), 16) == 0  # where it may not be 1
        assert int(soft["Max file size"]) == engine_child.LOG_BYTES
        assert (process / "oom_score_adj").read_text() == "1000\n"
        assert int(soft["Max data size"]) < 2 << 30


AS_NOBODY = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
with socket.socket(socket.AF_UNIX) as mine:
    sys.exit(mine.connect_ex(sys.argv[1]))
"""


@pytest.mark.invariant
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_another_user_can_t_connect_and_so_takes_no_connection_from_anybody(engine):
    command = [sys.executable, "-I", "-S", "-c", AS_NOBODY, engine._process.socket]
    assert subprocess.run(command).returncode == errno.EACCES


IN_ITS_PLACE = """
import os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
folder = os.path.dirname(sys.argv[1])
os.rename(folder, folder + "-before")
os.mkdir(folder)
with socket.socket(socket.AF_UNIX) as mine:
    mine.bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o777)
    mine.listen()
    print("listening", flush=True)
    taken = mine.accept()[0]
    print(len(taken.recv(1 << 16)), flush=True)
    taken.sendall(b"HTTP/1.0 200 OK\\r\\n\\r\\n{}")
"""


@pytest.mark.invariant
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_nothing_is_said_to_another_user_who_listens_in_the_engine_s_place(path, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as everybodys:
        os.chmod(everybodys, 0o777)  # and without the sticky bit
        monkeypatch.setattr("tempfile.tempdir", everybodys)
        with closing(Engine(path)) as engine:
            command = [sys.executable, "-I", "-S", "-c", IN_ITS_PLACE, engine._process.socket]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
                assert other.stdout.readline() == b"listening\n"
                assert not engine.answers(Deadline(None))
                assert other.stdout.readline() == b"0\n"  # bytes: not even the key


def test_a_program_that_becomes_another_user_still_ends_its_engine(path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    engine = Engine(path)
    monkeypatch.setattr(os, "kill", forbidden)
    engine.close()
    assert engine._process._child.returncode == 0
    assert not Path(engine._process.socket).parent.exists()


def test_what_stands_in_the_place_of_the_engine_s_folder_is_not_removed_with_it(path):
    with closing(Engine(path)) as engine:
        folder = Path(engine._process.socket).parent
        away = folder.rename(f"{folder}-before")
        folder.mkdir()
        (folder / "notes.txt").write_text("of the same user's")
        engine.close()
        assert (folder / "notes.txt").exists()
    for left in (*folder.iterdir(), *away.iterdir()):
        left.unlink()
    folder.rmdir()
    away.rmdir()


def test_a_user_s_own_process_is_asked_where_fakeroot_says_another_user(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)  # as its library does
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as mine:
        mine.bind(path)
        mine.listen()
        with closing(Connection(path)) as connection:
            connection.connect()
            connection.sock.sendall(b"hi")
            with mine.accept()[0] as taken:
                assert taken.recv(2) == b"hi"


CROWD = """
import socket, sys, time
held = []
while True:
    mine = socket.socket(socket.AF_UNIX)
    try:
        mine.connect(sys.argv[1])
        mine.sendall(sys.argv[2].encode())
        held.append(mine)
    except OSError:
        time.sleep(0.01)
    if len(held) == 100:
        print("crowded", flush=True)
"""


@pytest.mark.invariant
@pytest.mark.parametrize(
    "begun", ["", "POST /v1/chat/completions HTTP/1.1\r\n"], ids=["idle", "half"]
)
def test_a_crowd_of_connections_stops_no_turn_and_the_next_has_an_engine_of_its_own(path, begun):
    settings = Settings(options={"num_predict": 200})
    with closing(EmbeddedReasoner(str(path), settings)) as reasoner:
        answer = reasoner.stream_reason([Message("user", "Tell a very long story.")])
        next(answer)
        crowded = reasoner._engine
        command = [sys.executable, "-I", "-S", "-c", CROWD, crowded._process.socket, begun]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as crowd:
            try:
                assert crowd.stdout.readline() == b"crowded\n"
                assert "".join(answer)
                connections = os.listdir(f"/proc/{pid_of(crowded)}/fd")
                assert len(connections) <= engine_child.CONNECTIONS + 16  # and those of its own
                assert reasoner.reason([Message("user", "Say hi.")]).content
                assert reasoner._engine is not crowded
            finally:
                crowd.kill()


@pytest.mark.parametrize("request_", [LONG, ENDLESS], ids=["reading", "answering"])
def test_closing_the_events_stops_the_model(engine, request_):
    found = events(engine, request_)
    next(found)
    if request_ is ENDLESS:
        while not text_of([next(found)]):
            continue
    found.close()
    started = time.process_time()
    list(events(engine, SHORT))
    assert time.process_time() - started < 10  # a whole run takes several times as long


def states_of(pid: int) -> set[str]:
    """What the threads of a process do, as the system says it in a letter."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}


@pytest.mark.invariant
def test_an_engine_that_does_not_let_go_is_ended_with_the_stream(path, monkeypatch):
    monkeypatch.setattr("ore.backends.engine._STOP_SECONDS", 0.3)
    with closing(EmbeddedReasoner(str(path), Settings(options={"num_predict": 900}))) as reasoner:
        answer = reasoner.stream_reason([Message("user", "Tell a very long story.")])
        next(answer)
        stuck = pid_of(reasoner._engine)
        os.kill(stuck, signal.SIGSTOP)  # what native code that loops looks like
        until(lambda: states_of(stuck) == {"T"})  # each of its threads stops by itself
        started = time.monotonic()
        answer.close()
        assert time.monotonic() - started < 5 and not Path(f"/proc/{stuck}").exists()
        assert reasoner.reason([Message("user", "Say hi.")]).content
        assert pid_of(reasoner._engine) != stuck


@pytest.mark.invariant
def test_an_engine_that_is_stuck_as_it_is_looked_at_outlives_no_deadline(path, monkeypatch):
    class Stuck(EngineProcess):
        def __init__(self, *args):
            super().__init__(*args)
            os.kill(self._child.pid, signal.SIGSTOP)
            until(lambda: states_of(self._child.pid) == {"T"})

    monkeypatch.setattr("ore.backends.engine.EngineProcess", Stuck)
    started = time.monotonic()
    with pytest.raises(BackendTimeoutError, match="deadline"):
        Engine(path, deadline=Deadline(3.0))
    assert time.monotonic() - started < 8


@pytest.mark.invariant
def test_an_engine_that_is_stuck_after_its_answer_is_asked_for_no_more_than_seconds(path):
    with closing(EmbeddedReasoner(str(path), Settings(options={"num_predict": 2}))) as reasoner:
        reasoner.reason([Message("user", "Say hi.")])
        stuck = pid_of(reasoner._engine)
        os.kill(stuck, signal.SIGSTOP)
        until(lambda: states_of(stuck) == {"T"})
        started = time.monotonic()
        assert reasoner.in_force()["facts"]["parameter_count"] is None
        assert time.monotonic() - started < 8


@pytest.mark.invariant
def test_an_engine_that_stops_within_a_reply_ends_the_turn(path, monkeypatch):
    monkeypatch.setattr("ore.backends.engine._STOP_SECONDS", 0.3)

    def stuck(*_):
        os.kill(pid_of(engine), signal.SIGSTOP)
        raise TimeoutError  # as it is once nothing has come for long enough

    with closing(Engine(path)) as engine:
        monkeypatch.setattr("http.client.HTTPResponse.read", stuck)
        with pytest.raises(IncompleteAnswerError, match="try again"):
            engine.posted("/tokenize", {"content": "hi"}, 1000, Deadline(None))


@pytest.mark.invariant
def test_a_prompt_whose_tokens_take_long_is_not_the_template_s_fault(path, monkeypatch):
    monkeypatch.setattr("ore.backends.engine._BEGIN_SECONDS", 0.5)
    with closing(EmbeddedReasoner(str(path), Settings())) as reasoner:
        with pytest.raises(TurnFailedError, match="tokens in 0.5 seconds .*: shorten the prompt"):
            reasoner.reading([Message("user", "word " * 400_000)])


def test_a_prompt_that_does_not_fit_is_refused_with_its_numbers(engine):
    request = {**SHORT, "messages": [{"role": "user", "content": "word " * 6000}]}
    with pytest.raises(ContextTruncatedError, match=r"has 60\d\d tokens .* holds 4096"):
        list(events(engine, request))


def test_a_refusal_carries_the_engine_s_words(engine):
    with pytest.raises(BackendError, match="refused the turn: .*temperature"):
        list(events(engine, {**SHORT, "temperature": "hot"}))


def test_silence_and_deadline_end_a_turn(engine, path):
    with closing(Engine(path)) as other:
        with pytest.raises(BackendTimeoutError, match="silent for 0.001 seconds"):
            list(events(other, LONG, silence=0.001))
    with pytest.raises(BackendTimeoutError, match="deadline"):
        list(events(engine, ENDLESS, silence=30, end=time.monotonic() + 1.0))


def test_a_deadline_that_has_passed_sends_nothing(engine):
    with pytest.raises(BackendTimeoutError, match="deadline"):
        list(events(engine, SHORT, end=time.monotonic() - 1))
    assert engine.answers(Deadline(None))  # nothing is to be stopped


def test_an_engine_that_is_closed_in_mid_answer_leaves_it_incomplete(path):
    engine = Engine(path)
    found = events(engine, ENDLESS)
    next(found)
    engine.close()
    engine.close()
    with pytest.raises(IncompleteAnswerError):
        list(found)
    with pytest.raises(IncompleteAnswerError):
        list(events(engine, SHORT))


@pytest.mark.invariant
def test_a_turn_that_ends_the_engine_ends_none_of_a_turn_that_begins(path, monkeypatch):
    connect, left = Connection.connect, _Turn()
    with closing(Engine(path, window=512)) as engine:
        other = engine._connected(left)
        other.__enter__()
        left.sent = b"{}"  # and has no answer: it is given up within its prompt

        def as_another_ends(connection):
            monkeypatch.undo()
            other.__exit__(None, None, None)
            connect(connection)

        monkeypatch.setattr(Connection, "connect", as_another_ends)
        assert text_of(events(engine, SHORT))
        assert not engine._is_open  # the last one ends it


def test_a_turn_that_is_given_up_while_it_waits_for_another_leaves_that_one_alone(path):
    with closing(Engine(path)) as engine:
        found = events(engine, {**ENDLESS, "max_tokens": 200})
        next(found)
        with pytest.raises(BackendTimeoutError, match="silent"):
            list(events(engine, SHORT, silence=0.3))
        assert list(found)[-1]["timings"]["predicted_n"] > 0
        assert not engine.answers(Deadline(None))  # whatever was given up ends with the last turn


@pytest.mark.invariant
def test_a_program_that_ignores_its_children_s_ends_hears_of_no_harm_where_it_closes_one(path):
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        engine = Engine(path)
        found = events(engine, ENDLESS)
        next(found)
        engine.close()
        with pytest.raises(IncompleteAnswerError, match="^The embedded engine stopped before"):
            list(found)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_an_engine_that_is_killed_before_it_answers_is_said_to_be(path, monkeypatch):
    """As the system does where memory is short: the window's is taken by the first tokens that are read."""

    def wait(self, *given):
        os.kill(self._process.pid, signal.SIGKILL)
        return waited(self, *given)

    waited = Engine._wait
    monkeypatch.setattr(Engine, "_wait", wait)
    with closing(Engine(path)) as engine:
        with pytest.raises(IncompleteAnswerError, match=r"\(SIGKILL\): nothing was kept of it"):
            list(events(engine, SHORT))


def test_two_engines_and_several_threads_answer_as_one_does(engine, path):
    expected = text_of(list(events(engine, {**SHORT, "cache_prompt": False})))
    answers = []
    with closing(Engine(path)) as other:

        def ask(which):
            answers.append(text_of(list(events(which, {**SHORT, "cache_prompt": False}))))

        threads = [threading.Thread(target=ask, args=(each,)) for each in (engine, other) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [expected] * 4


AT_EXIT = """
import sys
from pathlib import Path
from ore.backends.engine import Engine, _Turn
from ore.backends.http import Deadline
engine = Engine(Path({path!r}))
found = engine.events({request!r}, silence=None, deadline=Deadline(None))
next(found)
{more}
sys.exit(7)
"""
FOR_EVER = "import ctypes; ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))"


@pytest.mark.parametrize("request_", [LONG, ENDLESS], ids=["reading", "answering"])
@pytest.mark.parametrize(
    "more",
    ["", "found.close()", "engine.close()", FOR_EVER, "raise KeyboardInterrupt"],
    ids=["left open", "stopped", "closed", "never freed", "interrupted"],
)
def test_a_process_ends_with_its_own_code_whatever_the_engine_does(path, request_, more):
    code = AT_EXIT.format(path=str(path), request=request_, more=more)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    interrupted = more.startswith("raise")
    assert done.returncode == (-2 if interrupted else 7)
    assert done.stdout == "" and (interrupted or done.stderr == "")


INTERRUPTED = """
import os, subprocess
from pathlib import Path
other = subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -INT {{os.getpid()}}"])
from ore.backends.engine import Engine, _Turn
engine = Engine(Path({path!r}))  # else its end, which nothing interrupts, may be what is interrupted
import time
time.sleep(30)
"""


@pytest.mark.parametrize("seconds", [0.02, 0.1, 0.3])
def test_an_interrupt_while_the_model_is_loaded_ends_the_process(path, seconds):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(path=str(path), seconds=seconds)],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        timeout=PATIENCE,
    )
    assert done.returncode == -2 and b"KeyboardInterrupt" in done.stderr


def test_a_forked_child_leaves_the_engine_to_its_parent(engine):
    pid = os.fork()
    if pid == 0:
        engine.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(events(engine, SHORT))


@pytest.mark.invariant
def test_a_forked_child_that_closes_a_stream_leaves_the_turn_to_its_parent(engine):
    found = events(engine, SHORT)
    next(found)
    pid = os.fork()
    if pid == 0:
        found.close()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert list(found)[-1]["timings"]["predicted_n"] > 0
