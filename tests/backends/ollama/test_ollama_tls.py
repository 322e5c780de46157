"""A server over https: whom ORE trusts, where the key goes, and limits that hold under TLS too."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from ore.backends.address import Host
from ore.backends.http import tls_context
from ore.backends.openai import OpenAIReasoner
from ore.errors import BackendError, BackendTimeoutError, ServerUnreachableError
from ore.models import fetch_models
from ore.reasoner import AyaReasoner
from ore.types import Message
from tests.backends.ollama.test_ollama_questions import one_answer
from tests.support.fake_ollama import FakeOllama
from tests.support.process import PATIENCE, ROOT
from tests.test_reasoner import HELLO, answer, both_ways

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl makes the certificate")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers tags and chats; a chat that says "slow" stops within its answer."""

    def do_GET(self):
        self.answer({"models": [{"name": "m"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.keys.append(self.headers.get("Authorization"))
        is_slow = asked["messages"][-1]["content"] == "slow"
        self.answer({"message": {"role": "assistant", "content": "Yes."}, "done": True}, is_slow)

    def answer(self, value, is_slow=False):
        data = json.dumps(value).encode() + b"\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[:1])
        if is_slow:
            self.server.leave.wait(5)
        self.wfile.write(data[1:])

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    """Keeps the keys that it was sent; a client that leaves is no news."""

    def __init__(self, certificate: Path, key: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.keys: list[str | None] = []
        self.leave = threading.Event()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request, client_address):
        pass


@pytest.fixture(scope="module")
def certificate(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    files = folder / "certificate.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    where = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command, *names, *where], check=True, capture_output=True)
    return files


@pytest.fixture
def server(certificate):
    with Server(*certificate) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield running
        running.leave.set()
        running.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("alert", [40, 70, 112, 116, 120])  # RFC 8446, 6.2
def test_a_server_that_refuses_the_handshake_is_there_and_need_not_be_started(alert):
    says = "server at https://127.0.0.1:.* refuses ORE's TLS .*: ask whoever runs it which version"
    for make in (AyaReasoner, lambda model, host: OpenAIReasoner(model, host, "key")):
        with one_answer(bytes((21, 3, 3, 0, 2, 2, alert))) as (host, _):
            with pytest.raises(ServerUnreachableError, match=says):
                make("m", Host(host.url.replace("http", "https"))).reason(HELLO)


@pytest.mark.slow
def test_a_server_that_wants_a_certificate_of_the_client_says_so_after_the_handshake(
    certificate, monkeypatch
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # before that, it is part of the handshake
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(*certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))

    open_ones = []  # one that was closed with a request unread might reset the connection

    def refuse(listening):
        how = {"server_side": True, "do_handshake_on_connect": False}
        open_ones.append(context.wrap_socket(listening.accept()[0], **how))
        with suppress(OSError):
            open_ones[-1].do_handshake()

    for make in (AyaReasoner, lambda model, host: OpenAIReasoner(model, host, "key")):
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=refuse, args=(listening,), daemon=True).start()
            host = Host(f"https://127.0.0.1:{listening.getsockname()[1]}")
            with pytest.raises(ServerUnreachableError, match="refuses ORE's TLS .*certificate req"):
                make("m", host).reason(HELLO)
        open_ones.pop().close()


@pytest.mark.slow
@both_ways
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(server, streams, monkeypatch):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    says = (
        f"The certificate of {server.url} can't be trusted (self-signed certificate): set "
        f"SSL_CERT_FILE to the certificate of the authority that signed it, or name another server with `host=`."
    )
    for ask in (
        lambda: fetch_models(server.url),
        lambda: answer(AyaReasoner("m", server.url), HELLO, streams),
    ):
        with pytest.raises(ServerUnreachableError) as caught:
            ask()
        assert str(caught.value).replace("self signed", "self-signed") == says
    assert server.keys == []


@pytest.mark.slow
@both_ways
def test_an_authority_that_the_environment_names_is_trusted(
    server, certificate, streams, monkeypatch
):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.setenv("OLLAMA_API_KEY", "abc")
    assert fetch_models(server.url) == ["m"]
    assert answer(AyaReasoner("m", server.url), HELLO, streams).content == "Yes."
    assert server.keys == ["Bearer abc"]


@pytest.mark.slow
def test_a_folder_that_the_environment_names_is_trusted(server, certificate, tmp_path, monkeypatch):
    asked = ["openssl", "x509", "-noout", "-hash", "-in", str(certificate[0])]
    name = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    shutil.copy(certificate[0], tmp_path / f"{name}.0")
    monkeypatch.setenv("SSL_CERT_DIR", f"/nowhere:{tmp_path}")
    assert fetch_models(server.url) == ["m"]


def test_an_authority_that_was_added_to_certifi_s_file_is_trusted_whatever_stands_beside_it(
    certificate, tmp_path, monkeypatch
):
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    file = tmp_path / "cacert.pem"
    monkeypatch.setattr("certifi.where", lambda: str(file))
    before = len(tls_context().get_ca_certs())  # there is no such file
    file.write_text(f"# Főtanúsítvány\n{certificate[0].read_text()}", encoding="utf-8")
    assert len(tls_context().get_ca_certs()) == before + 1


@pytest.mark.parametrize("named", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_where_the_environment_names_an_authority_none_of_the_system_s_is_trusted(
    named, certificate, monkeypatch
):
    """OpenSSL takes the system's folder where a file is named, and its file where a folder is."""
    loaded = []
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda *_: loaded.append(named))
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert len(tls_context().get_ca_certs()) > 1
    where = {"SSL_CERT_FILE": certificate[0], "SSL_CERT_DIR": certificate[0].parent}
    monkeypatch.setenv(named, str(where[named]))
    assert len(tls_context().get_ca_certs()) == (named == "SSL_CERT_FILE")
    assert loaded == []


@pytest.mark.slow
def test_an_interrupt_while_certificates_are_read_ends_the_process_and_nothing_crashes(
    certificate, tmp_path
):
    program = (
        "import os, threading; from ore.backends.http import tls_context\n"
        "threading.Timer(0.1, lambda: os.kill(os.getpid(), 2)).start()\n"
        "try:\n    while True:\n        tls_context()\nexcept KeyboardInterrupt:\n    raise SystemExit(130)"
    )
    file = tmp_path / "many.pem"
    file.write_text(certificate[0].read_text() * 500)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "SSL_CERT_FILE": str(file)}
    for _ in range(20):
        ended = subprocess.run([sys.executable, "-c", program], env=environ, timeout=PATIENCE)
        assert ended.returncode == 130


@pytest.mark.slow
def test_the_process_may_end_while_a_thread_takes_certificates_in():
    program = (
        "import certifi, ssl, threading, time; from ore.backends.http import tls_context\n"
        "threading.Thread(target=lambda: [tls_context() for _ in range(9)], daemon=True).start()\n"
        "time.sleep(0.1 + 0.005 * {})"
    )
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    environ = {k: v for k, v in environ.items() if k not in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    for part in range(20):
        command = [sys.executable, "-c", program.format(part % 10)]
        assert subprocess.run(command, env=environ, timeout=PATIENCE).returncode == 0


def test_a_file_of_certificates_that_nobody_writes_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "pipe"))
    monkeypatch.setattr("ore.backends.http.CONNECT_SECONDS", 0.1)
    found: list[object] = []
    thread = threading.Thread(
        target=lambda: found.append(tls_context().get_ca_certs()), daemon=True
    )
    thread.start()
    thread.join(10)
    assert found == [[]]


@both_ways
@pytest.mark.parametrize("limit", ["timeout", "deadline"])
@pytest.mark.slow
def test_limits_hold_under_tls(server, certificate, streams, limit, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    with pytest.raises(BackendTimeoutError):
        reasoner = AyaReasoner("m", server.url, **{limit: 0.3})
        answer(reasoner, [Message("user", "slow")], streams)


@pytest.mark.slow
def test_a_handshake_that_drips_through_a_proxy_s_own_tls_ends_at_the_deadline(
    certificate, monkeypatch
):
    context, left = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), threading.Event()
    context.load_cert_chain(*certificate)

    def drip(listening):
        with context.wrap_socket(listening.accept()[0], server_side=True) as proxy:
            proxy.recv(4096)
            proxy.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            proxy.recv(4096)
            with suppress(OSError):
                proxy.sendall(b"\x16\x03\x03\x3f\xff")
                while not left.wait(0.1) and time.monotonic() < begun + 6:
                    proxy.sendall(b"\x00")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        proxy = f"https://127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        begun = time.monotonic()
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        with pytest.raises(BackendTimeoutError):
            AyaReasoner("m", "https://server.invalid", deadline=1.0).reason(HELLO)
        assert time.monotonic() < begun + 4
        left.set()
        thread.join(10)


@both_ways
def test_a_certificate_file_that_can_not_be_used_is_an_error(tmp_path, streams, monkeypatch):
    path, url = tmp_path / "nowhere/keys", "https://127.0.0.1:9"
    monkeypatch.setenv("SSLKEYLOGFILE", str(path))
    for ask in (
        lambda: fetch_models(url),
        lambda: answer(AyaReasoner("m", url), HELLO, streams),
    ):
        with pytest.raises(BackendError) as caught:
            ask()
        assert str(caught.value) == (
            f"No connection to {url} can be made (no such file or directory: '{path}'): check the "
            f"proxies and certificates that the environment names."
        )


def test_a_server_that_speaks_http_is_not_called_dead():
    with FakeOllama() as server, pytest.raises(ServerUnreachableError) as caught:
        fetch_models(server.url.replace("http:", "https:"))
    assert "what answers there does not speak https, so try http. " in str(caught.value)


def test_a_certificate_that_is_not_trusted_is_said_over_the_openai_protocol_too(server):
    pytest.importorskip("openai")
    from ore.backends.openai import OpenAIReasoner

    with pytest.raises(
        ServerUnreachableError, match=r"can't be trusted \(self.signed certificate\)"
    ):
        OpenAIReasoner("m", f"{server.url}/v1").reason(HELLO)
