"""No environment breaks a turn to this machine, and no turn changes the environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI

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


def test_no_environment_breaks_a_turn_to_this_machine():
    with FakeOllama(reply="Paris.") as server:
        answers = ask_in_each(server.url, BAD_ENVIRONMENTS)
    told = {str(bad): answer for bad, answer in zip(BAD_ENVIRONMENTS, answers, strict=True)}
    assert told == {str(bad): "Paris." for bad in BAD_ENVIRONMENTS}


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


CHANGES = """
import sys
changes = []
sys.addaudithook(lambda event, args: changes.append((event, args)) if "env" in event else None)
from ore.backends.address import Host
from ore.backends.openai import OpenAIReasoner
from ore.reasoner import AyaReasoner
from ore.types import Message

asked = [Message("user", "Hello?")]
ollama, openai = sys.argv[1:]
print(AyaReasoner("llama3.2", ollama).reason(asked).content)
print(OpenAIReasoner("small", Host(openai)).reason(asked).content)
print(changes, [each for each in sys.meta_path if each.__module__.startswith("ore")])
"""


@pytest.mark.invariant
def test_no_turn_changes_the_environment_even_for_a_moment():
    """Another thread may be reading it in the C library, which then crashes."""
    with FakeOllama(reply="Paris.") as ollama, FakeOpenAI() as openai:
        done = run_python(CHANGES, ollama.url, openai.url, OLLAMA_API_KEY="k", OPENAI_LOG="debug")
    assert (done.stdout, done.stderr) == ("Paris.\nParis.\n[] []\n", "")


SLOW = """
import sys, time
from importlib.abc import MetaPathFinder
class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "httpx":
            time.sleep(1.7)
sys.meta_path.insert(0, Slow())
from ore.backends.ollama import OllamaBackend
print(OllamaBackend(sys.argv[1]).provenance("llama3.2")["model_digest"])
"""


def test_importing_the_package_takes_nothing_of_the_time_for_the_model_s_digest():
    with FakeOllama() as server:
        done = run_python(SLOW, server.url)
    assert len(done.stdout.strip()) == 64, done


LEVELS = """
import logging, sys
from ore.backends.openai import OpenAIReasoner
from ore.types import Message
found = []
for _ in range(2):
    OpenAIReasoner("small", sys.argv[1]).reason([Message("user", "Hello?")])
    found.append(logging.getLogger("openai").level)
    logging.getLogger("openai").setLevel(logging.WARNING)
print(*found, logging.getLogger("openai").level)
"""


def test_a_turn_leaves_the_level_of_a_program_s_log_as_it_is():
    with FakeOpenAI() as openai:
        done = run_python(LEVELS, openai.url, OPENAI_LOG="debug")
    assert done.stdout == "0 30 30\n"


def test_the_package_is_the_usual_one_after():
    done = run_python(
        "from ore.backends.ollama_wire import import_ollama\n"
        "ours = import_ollama()\n"
        "import inspect, ollama, sys\n"
        "inside = sys.modules['ollama._client']\n"
        "print(ours is ollama, ollama.Client is inside.Client, type(ollama.chat.__self__))\n"
        "print('Client' in inspect.getsource(ollama), type(ollama.__loader__).__name__)",
    )
    usual = "<class 'ollama._client.Client'>"
    assert (done.stdout, done.stderr) == (f"True True {usual}\nTrue SourceFileLoader\n", "")


def test_several_threads_import_it_at_once():
    done = run_python(
        "import threading\n"
        "from ore.backends.ollama_wire import import_ollama\n"
        "found = []\n"
        "threads = [threading.Thread(target=lambda: found.append(import_ollama())) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(len(found), len(set(found)), hasattr(found[0], 'chat'))",
    )
    assert (done.stdout, done.stderr) == ("8 1 True\n", "")


HALF = """
import sys, threading, time
from ore.backends import ollama_wire
found, inside = [], threading.Event()
class Shortage:
    def find_spec(self, name, *_):
        if name == "httpx" and not inside.is_set():
            inside.set()
            time.sleep(0.2)
            raise MemoryError
sys.meta_path.insert(0, Shortage())
importing = ollama_wire.importing
def late(*given):
    if threading.current_thread() is second:
        inside.wait(10)
    return importing(*given)
ollama_wire.importing = late
def load():
    try:
        found.append(hasattr(ollama_wire.import_ollama(), "Client"))
    except Exception as exc:
        found.append(type(exc).__name__)
first, second = (threading.Thread(target=load) for _ in range(2))
for thread in (first, second): thread.start()
for thread in (first, second): thread.join()
print(*found)
"""


def test_a_thread_gets_no_half_of_what_another_failed_to_import():
    done = run_python(HALF)
    assert (done.stdout, done.stderr) == ("BackendError True\n", "")


INTERRUPTED = """
import os, signal, sys, threading, time
from ore.backends.ollama_wire import import_ollama
inside = threading.Event()
class Slow:
    def find_spec(self, name, *_):
        if name == "ollama._client" and not inside.is_set():
            inside.set()
            time.sleep(0.5)
sys.meta_path.insert(0, Slow())
other = threading.Thread(target=import_ollama, daemon=True)
other.start()
inside.wait(10)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    import_ollama()
except KeyboardInterrupt:
    print("stopped", end=" ")
other.join(10)
print(other.is_alive(), flush=True)
os._exit(0)
"""


def test_an_interrupt_while_another_thread_imports_it_leaves_that_import_whole():
    """Python's own lock of a module is broken by it: the other thread went round in it without end."""
    assert run_python(INTERRUPTED).stdout == "stopped False\n"


def run_python(program: str, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONUTF8": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", program, *args],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
