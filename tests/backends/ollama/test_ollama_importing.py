"""No environment breaks a turn to this machine, and the environment is as it was afterwards."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ore.backends.http import environment_without
from tests.support.fake_ollama import FakeOllama

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MISSING = "/nonexistent/file.pem"
BAD_ENVIRONMENTS = [
    {"OLLAMA_HOST": "localhost:abc"},
    {"OLLAMA_HOST": "::1"},
    {"OLLAMA_HOST": "http://[::1"},
    {"OLLAMA_API_KEY": "schl\u00fcssel"},
    {"OLLAMA_API_KEY": "two\nlines"},
    {"HTTP_PROXY": "socks5://127.0.0.1:9"},
    {"ALL_PROXY": "socks5://127.0.0.1:9"},
    {"all_proxy": "gopher://127.0.0.1:9"},
    {"http_proxy": "http://[::1"},
    {"HTTP_PROXY": "http://127.0.0.1:9"},
    {"HTTPS_PROXY": "nonsense"},
    {"NO_PROXY": "[::1"},
    {"SSL_CERT_FILE": MISSING},
    {"SSL_CERT_DIR": MISSING},
    {"SSLKEYLOGFILE": "/nonexistent/keys"},
]

# Each environment in a child of its own, for importing happens once a process.
ASK_IN_EACH = """
import json, os, sys
from ore.errors import OreError
from ore.reasoner import AyaReasoner
from ore.types import Message

def ask(url):
    before = dict(os.environ)
    try:
        said = AyaReasoner("llama3.2", url).reason([Message("user", "Hello?")]).content
    except OreError as exc:
        said = f"{type(exc).__name__}: {exc}"
    return said if dict(os.environ) == before else "the environment was changed"

url, environments = sys.argv[1], json.loads(sys.argv[2])
for environment in environments:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.environ.update(environment)
        sys.stdout.write(json.dumps(ask(url)) + "\\n")
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
"""


def ask_in_each(url: str, environments: list[dict[str, str]]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", ASK_IN_EACH, url, json.dumps(environments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
def test_no_environment_breaks_a_turn_to_this_machine():
    with FakeOllama(reply="Paris.") as server:
        answers = ask_in_each(server.url, BAD_ENVIRONMENTS)
    told = {str(bad): answer for bad, answer in zip(BAD_ENVIRONMENTS, answers, strict=True)}
    assert told == {str(bad): "Paris." for bad in BAD_ENVIRONMENTS}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the children are forked")
def test_what_breaks_a_turn_to_another_machine_is_one_sentence():
    environments = [
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        {"http_proxy": "http://[::1"},
        {"HTTP_PROXY": "http://127.0.0.1:9"},
    ]
    host = "http://ollama.example:11434"
    no_socks, no_url, no_proxy = ask_in_each(host, environments)
    assert no_socks.startswith(f"BackendError: No connection to {host} can be made (using SOCKS")
    assert no_socks.endswith("check the proxies and certificates that the environment names.")
    assert no_url.startswith(f"BackendError: No connection to {host} can be made (")
    assert no_proxy.startswith(f"ServerUnreachableError: No Ollama server answers at {host}")


def test_variables_come_back_where_one_can_t_be_set(monkeypatch):
    monkeypatch.setenv("ORE_TEST_PROXY", "mine")
    with pytest.raises(TypeError):
        with environment_without(re.compile("ORE_TEST_PROXY"), ORE_TEST_EXTRA=7):
            pass
    assert os.environ["ORE_TEST_PROXY"] == "mine"


def test_variables_are_hidden_and_come_back(monkeypatch):
    monkeypatch.setenv("Ore_Test_Proxy", "mine")
    monkeypatch.setenv("ORE_TEST_OTHER", "stays")
    monkeypatch.delenv("ORE_TEST_EXTRA", raising=False)
    before = dict(os.environ)
    with pytest.raises(KeyboardInterrupt):
        with environment_without(re.compile("ore_test_proxy", re.I), ORE_TEST_EXTRA="x"):
            assert "Ore_Test_Proxy" not in os.environ
            assert (os.environ["ORE_TEST_OTHER"], os.environ["ORE_TEST_EXTRA"]) == ("stays", "x")
            raise KeyboardInterrupt
    assert dict(os.environ) == before
