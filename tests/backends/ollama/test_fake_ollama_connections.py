"""The stand-in server's records, its scenarios of time and breakage, and its life as a process."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import subprocess
import sys
import threading
import time
from http.client import IncompleteRead
from pathlib import Path

import pytest

from tests.backends.ollama.test_fake_ollama import ASK, ask, chat, connect, exchange, fetch, post
from tests.support.fake_ollama import SCENARIOS, FakeOllama
from tests.support.process import until

ROOT = Path(__file__).parents[3]
WORST_NOTICE = 10.0


def test_requests_are_recorded_in_order_with_their_connection():
    with FakeOllama() as fake:
        connection = connect(fake)
        connection.request("GET", "/api/tags", headers={"X-Mine": "1"})
        connection.getresponse().read()
        ask(connection, stream=False).read()
        connection.close()
        fetch(fake, "/api/version", "GET")
    tags, asked, version = fake.requests
    assert [seen.path for seen in fake.requests] == ["/api/tags", "/api/chat", "/api/version"]
    assert [seen.connection for seen in fake.requests] == [1, 1, 2]
    assert (tags.headers["x-mine"], tags.body, tags.json) == ("1", b"", None)
    assert asked.json == {"model": "llama3.2", "messages": ASK, "stream": False}
    assert json.loads(asked.body) == asked.json
    assert fake.chats == [asked] and asked.kept == ASK
    assert all(seen.answered and seen.disconnected_at is None for seen in fake.requests)
    assert tags.received_at <= asked.received_at <= version.received_at <= time.monotonic()


@pytest.mark.parametrize(
    ("scenario", "options"),
    [
        ("silent", {}),
        ("stall", {}),
        ("slow", {"seconds": 60}),
        ("slow-start", {"seconds": 60}),
        ("loading", {"seconds": 60}),
        ("drip", {}),
        ("endless-line", {}),
        ("endless-stream", {}),
        ("endless-head", {}),
        ("happy", {"wait": 60}),
    ],
)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_client_that_goes_away_is_noticed_at_once(scenario, options, reset):
    with FakeOllama(scenario=scenario, **options) as fake:
        with socket.create_connection(("127.0.0.1", fake.port)) as raw:
            raw.sendall(post(json.dumps({"model": "mistral", "messages": ASK}).encode()))
            until(lambda: fake.chats)
            if reset:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            left_at = time.monotonic()
        (seen,) = fake.chats
        until(lambda: seen.disconnected_at)
        assert 0 <= seen.disconnected_at - left_at < WORST_NOTICE
        assert not seen.answered


def test_load_that_is_left_loads_nothing():
    with FakeOllama(scenario="loading", seconds=60) as fake:
        connection = connect(fake)
        connection.request("POST", "/api/chat", json.dumps({"model": "mistral", "messages": []}))
        until(lambda: fake.chats)
        connection.close()
        until(lambda: fake.chats[0].disconnected_at)
        assert json.loads(fetch(fake, "/api/ps", "GET")[2]) == {"models": []}


@pytest.mark.slow
def test_ps_waits_for_a_load():
    with FakeOllama(scenario="loading", seconds=0.3) as fake:
        loader = threading.Thread(target=chat, args=(fake,))
        loader.start()
        until(lambda: fake.chats)
        (model,) = json.loads(fetch(fake, "/api/ps", "GET")[2])["models"]
        told = time.monotonic()
        loader.join()
    assert told - fake.chats[0].received_at >= 0.3
    assert (model["name"], model["context_length"]) == ("llama3.2:latest", 4096)


def test_body_can_be_cut_at_every_byte():
    with FakeOllama() as fake:
        for size in range(13):
            fake.use("body", body=[b'{"a":1}\n', b"\xc3\xa9\n"], cut_at=size)
            connection = connect(fake)
            response = ask(connection)
            got, complete = b"", False
            with contextlib.suppress(IncompleteRead):
                while part := response.read1():
                    got += part
                complete = True
            connection.close()
            assert (got, complete) == (b'{"a":1}\n\xc3\xa9\n'[:size], size > 11)
            until(lambda: fake.chats[-1].answered == complete)


def test_whole_body_can_be_cut_too():
    with FakeOllama(cut_at=5) as fake:
        connection = connect(fake)
        with pytest.raises(IncompleteRead) as raised:
            ask(connection, stream=False).read()
        connection.close()
    assert raised.value.partial == b'{"mod'


def test_raw_bytes_are_all_that_is_sent():
    with FakeOllama(raw=b"HTTP/1.1 200 OK\r\n\r\n\x00\xff") as fake:
        assert exchange(fake, post(b"{}")) == b"HTTP/1.1 200 OK\r\n\r\n\x00\xff"


def test_any_scenario_can_be_put_on_another_path():
    with FakeOllama(scenario="html-200", on="/api/tags") as fake:
        assert fetch(fake, "/api/tags", "GET")[2].startswith(b"<html>")
        assert chat(fake)[-1]["done"]
        fake.use("empty-500", on="*")
        assert [fetch(fake, path, "GET")[0] for path in ("/", "/api/ps")] == [500, 500]


def test_list_of_scenarios_is_used_one_per_chat_and_the_last_one_stays():
    with FakeOllama(scenario=["busy", ("error-line", {"after": 2}), "happy"]) as fake:
        fetch(fake, "/api/tags", "GET")
        got = [chat(fake, [*ASK]) for _ in range(4)]
    assert [("error" in lines[-1], len(lines)) for lines in got] == [
        (True, 1),
        (True, 3),
        (False, 2),
        (False, 2),
    ]


@pytest.mark.parametrize(("name", "options"), [("no-such", {}), ("stall", {"secnods": 1})])
def test_scenario_that_is_misspelt_is_an_error(name, options):
    with FakeOllama() as fake, pytest.raises((KeyError, TypeError), match="no-such|secnods"):
        fake.use(name, **options)


def test_stop_breaks_what_is_open_and_start_takes_the_same_port():
    with FakeOllama(scenario="stall", reply="a b c") as fake:
        connection = connect(fake)
        response = ask(connection)
        assert json.loads(response.readline())["message"]["content"] == "a"
        url = fake.url
        fake.stop()
        with pytest.raises(IncompleteRead):
            response.read()
        connection.close()
        with pytest.raises(ConnectionRefusedError):
            fetch(fake)
        fake.start()
        fake.use("happy")
        assert fake.url == url and chat(fake)[-1]["done"]
    assert (fake.chats[0].answered, fake.chats[0].disconnected_at) == (False, None)


def test_prerendered_stream_has_as_many_lines_as_asked():
    with FakeOllama(prerendered=5000) as fake:
        lines = chat(fake)
        (whole,) = chat(fake, stream=False)
    assert [line["done"] for line in lines] == [False] * 5000 + [True]
    text = "".join(line["message"]["content"] for line in lines)
    assert text == whole["message"]["content"] == " tok" * 5000
    assert lines[-1]["eval_count"] == 5000


@pytest.mark.parametrize("scenario", ["split", "joined", "one-write"])
def test_bytes_are_the_same_however_they_are_cut(scenario):
    with FakeOllama(reply="Héllo wörld 😀") as fake:
        plain = chat(fake)
        fake.use(scenario)
        for line, other in zip(plain, chat(fake), strict=True):
            assert line | {"created_at": ""} == other | {"created_at": ""}


def test_every_row_says_what_happens_in_one_line():
    for name, row in SCENARIOS.items():
        assert name == row.name and row.text and "\n" not in row.text


@pytest.mark.slow
def test_by_hand_it_prints_its_address_first():
    command = [
        sys.executable,
        "-m",
        "tests.support.fake_ollama",
        "--scenario",
        "busy",
        "--model",
        "a:1b",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            fake = type("Address", (), {"port": port})
            assert fetch(fake, model="a:1b", messages=ASK)[0] == 503
        finally:
            process.terminate()
    listed = subprocess.run([*command, "--list"], capture_output=True, text=True, cwd=ROOT)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == sorted(SCENARIOS)
