"""Which backend a run uses, and what is said of it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ore.backends import choice, weights
from ore.backends.address import OLLAMA_URL
from ore.backends.choice import Choice
from ore.backends.embedded import EmbeddedBackend
from ore.errors import FileAccessError, ModelNotFoundError, UsageError
from tests.support.closed import beside_a_closed_folder
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.process import ROOT


def opened(wanted: Choice, environ=None, env_files=None):
    """The backend that is chosen, and what is said of it; a warning begins with ``warning: ``."""
    said: list[str] = []
    backend = choice.open_backend(
        wanted,
        environ or {},
        env_files or {},
        said.append,
        lambda text: said.append(f"warning: {text}"),
    )
    return backend, said


@pytest.fixture
def no_ollama():
    """Skip where something answers on the default address: these tests need it to be silent."""
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", 11434)) == 0:
            pytest.skip(f"something answers on {OLLAMA_URL}")


@pytest.fixture
def embedded(monkeypatch):
    """Say what of the embedded backend is there."""

    def there(*, engine: bool, model: bool) -> None:
        monkeypatch.setattr(EmbeddedBackend, "has_engine", lambda self: engine)
        monkeypatch.setattr(EmbeddedBackend, "is_installed", lambda self: engine and model)
        monkeypatch.setattr(EmbeddedBackend, "has", lambda self, name: name == "smollm2:135m")
        monkeypatch.setattr(
            EmbeddedBackend, "default_model", lambda self: self._model or "smollm2:135m"
        )

    return there


@pytest.mark.parametrize(
    "wanted, environ, name",
    [
        (Choice(backend="ollama"), {}, "ollama"),
        (Choice(backend="embedded"), {}, "embedded"),
        (Choice(), {"ORE_BACKEND": "embedded"}, "embedded"),
        (Choice(backend="ollama"), {"ORE_BACKEND": "embedded"}, "ollama"),
        (Choice(host="127.0.0.1:9"), {}, "ollama"),
        (Choice(), {"OLLAMA_HOST": "127.0.0.1:9"}, "ollama"),
    ],
)
def test_a_named_backend_is_used_whether_it_answers_or_not(wanted, environ, name, embedded):
    embedded(engine=True, model=True)
    backend, notices = opened(wanted, environ)
    assert (backend.name, notices) == (name, [])


@pytest.mark.parametrize("wanted", [Choice(), Choice(model="smollm2:135m")])
def test_auto_goes_to_the_embedded_model_and_names_it_in_a_short_line(wanted, no_ollama, embedded):
    embedded(engine=True, model=True)
    backend, said = opened(wanted)
    assert backend.name == "embedded"
    assert said == ["warning: Ollama does not answer: the embedded smollm2:135m does."]


@pytest.mark.parametrize(
    "wanted", [Choice(answers=False), Choice(answers=False, model="smollm2:135m")]
)
def test_auto_says_nothing_where_no_model_answers(wanted, no_ollama, embedded):
    embedded(engine=True, model=True)
    backend, said = opened(wanted)
    assert (backend.name, said) == ("embedded", [])


@pytest.mark.parametrize(
    "wanted, environ",
    [(Choice(model="llama3.2"), {}), (Choice(), {"ORE_MODEL": "llama3.2"})],
)
def test_a_model_that_only_ollama_can_have_is_asked_there(wanted, environ, no_ollama, embedded):
    embedded(engine=True, model=True)
    backend, said = opened(wanted, environ)
    assert backend.name == "ollama"
    (hint,) = said
    assert hint == (
        "The embedded engine has no llama3.2: `Backend.models()` shows what there is, and `Backend.pull('llama3.2')` "
        "fetches it."
    )


@pytest.mark.parametrize("model", ["x/", "a\x1b[31mb", "a\nYou: b", "x" * 400, "`f()`"])
def test_no_advice_is_to_fetch_what_can_t_be_a_name(model, no_ollama, embedded):
    embedded(engine=True, model=True)
    _, (hint,) = opened(Choice(), {"ORE_MODEL": model})
    assert hint.endswith(": `Backend.models()` shows what there is.") and len(hint) < 200
    assert hint.isprintable() and hint.count("`") == 2


def test_where_the_models_can_t_be_listed_it_is_said_and_not_that_one_is_to_be_fetched(
    no_ollama, monkeypatch
):
    monkeypatch.setattr(EmbeddedBackend, "has_engine", lambda self: True)
    with beside_a_closed_folder() as (_, closed):
        monkeypatch.setenv("ORE_MODEL_DIR", str(closed))
        backend, said = opened(Choice())
    assert backend.name == "ollama"
    assert said == [
        f"The embedded engine is not used: {closed} can't be listed: permission denied."
    ]


@pytest.mark.parametrize("engine", [True, False])
def test_auto_without_an_embedded_model_is_ollama_with_a_hint(engine, no_ollama, embedded):
    embedded(engine=engine, model=False)
    backend, notices = opened(Choice())
    assert backend.name == "ollama"
    assert len(notices) == 1 and notices[0].startswith(
        "To try ORE without Ollama: `Backend.pull('smollm2"
    )
    assert ("install" in notices[0]) == (not engine)  # nothing that is there already


@pytest.mark.parametrize("model", ["a/b/c/d", "/home/me/model", "a//b", "a/"])
def test_what_can_t_be_a_name_of_ollama_s_is_refused(model):
    with pytest.raises(UsageError, match="can't be a model's name"):
        opened(Choice(model=model, host="127.0.0.1:9"))


@pytest.mark.parametrize("model", ["a", "a/b:c", "hf.co/U/R:X.gguf", "http://h:1/n/m", "x@y"])
def test_what_may_be_a_name_of_ollama_s_is_asked_for(model):
    assert opened(Choice(model=model, host="127.0.0.1:9"))[0].name == "ollama"


def test_fetching_the_embedded_model_needs_the_engine_only(no_ollama, embedded):
    embedded(engine=True, model=False)
    assert opened(Choice(pulls=True))[0].name == "embedded"
    embedded(engine=False, model=False)
    assert opened(Choice(pulls=True))[0].name == "ollama"


def test_an_ollama_that_answers_is_used(embedded, monkeypatch):
    embedded(engine=True, model=True)
    with FakeOllama() as fake:
        monkeypatch.setattr("ore.backends.address.OLLAMA_URL", fake.url)
        backend, notices = opened(Choice())
        assert (backend.name, backend.host, notices) == ("ollama", fake.url, [])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ollama", "openai"])
@pytest.mark.parametrize("bounds", [["--timeout=0.2"], ["--deadline=0.2", "--timeout=60"]])
def test_the_time_limits_of_a_turn_also_bound_the_choice_of_its_model(name, bounds):
    if name == "openai":
        pytest.importorskip("openai")
    with FakeOllama(scenario="silent", on="*") as fake:
        flags = ("--backend", name, "--host", fake.url, *bounds)
        result = run_ore("hi", *flags, open_backend=choice.open_backend)
    assert result.code == 1 and "did not answer within 0.2 s" in result.err
    assert "with a longer --timeout or --deadline if one is set" in result.err


@pytest.mark.parametrize("name", ["ollama", "embedded", "openai"])
def test_the_environment_names_the_default_model_of_every_backend(name):
    if name == "openai":
        pytest.importorskip("openai")
    environ = {"ORE_MODEL": " mine:1 ", "OPENAI_BASE_URL": "http://127.0.0.1:9"}
    backend, _ = opened(Choice(backend=name), environ)
    assert backend.default_model() == "mine:1"


@pytest.mark.parametrize("value", ["ollamma", "AUTO", "openai "])
def test_an_unknown_name_in_the_environment_is_refused(value):
    with pytest.raises(UsageError, match="ORE_BACKEND"):
        opened(Choice(), {"ORE_BACKEND": value})


def test_a_gguf_file_means_the_embedded_backend(tmp_path):
    path = tmp_path / "my model.gguf"
    path.write_bytes(b"GGUF")
    assert opened(Choice(model=str(path)), {"OLLAMA_HOST": "127.0.0.1:9"})[0].name == "embedded"
    for wanted, environ in (
        (Choice(model=str(path), backend="ollama"), {}),
        (Choice(model=str(path)), {"ORE_BACKEND": "ollama"}),
        (Choice(model=str(path), host="127.0.0.1:9"), {}),
    ):
        with pytest.raises(UsageError, match="use `reasoner.'embedded:NAME'.`, and no `host=`"):
            opened(wanted, environ)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_there_and_no_file_is_not_said_to_be_missing(tmp_path, make):
    make(tmp_path / "m.gguf")
    backend, _ = opened(Choice(model=str(tmp_path / "m.gguf")))[:2]
    with pytest.raises(FileAccessError, match="m.gguf can't be read: it is not a regular file"):
        weights.find(str(tmp_path / "m.gguf"))
    assert backend.name == "embedded"


def test_a_path_without_the_ending_is_a_gguf_file_by_its_first_bytes(tmp_path, monkeypatch):
    (tmp_path / "sha256-0a1b").write_bytes(b"GGUF")
    (tmp_path / "notes").write_bytes(b"notes")
    monkeypatch.chdir(tmp_path)
    for model, name in (
        (str(tmp_path / "sha256-0a1b"), "embedded"),
        ("./sha256-0a1b", "embedded"),
        ("sha256-0a1b", "ollama"),  # a name: no file of this folder takes a model's place
        ("a/b", "ollama"),
    ):
        assert opened(Choice(model=model), {"OLLAMA_HOST": "127.0.0.1:9"})[0].name == name
    with pytest.raises(UsageError, match="use `reasoner.'embedded:NAME'.`, and no `host=`"):
        opened(Choice(model="./sha256-0a1b", backend="ollama"))


def test_a_gguf_file_of_the_environment_means_it_too_where_no_place_was_named(tmp_path):
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"GGUF")
    environ = {"ORE_MODEL": str(path)}
    assert opened(Choice(), environ)[0].name == "embedded"
    for wanted in (Choice(backend="ollama"), Choice(host="127.0.0.1:9")):
        assert opened(wanted, environ)[0].name == "ollama"


@pytest.mark.parametrize("model", ["me/model:q4", "me/model", "me/model:q4.gguf"])
def test_no_file_of_the_current_folder_answers_for_a_name_of_the_environment(
    model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "me").mkdir()
    (tmp_path / model).write_bytes(b"GGUF")
    for host in ({}, {"OLLAMA_HOST": "127.0.0.1:9"}):
        assert opened(Choice(), {"ORE_MODEL": model} | host)[0].name == "ollama"
    assert opened(Choice(), {"ORE_MODEL": f"./{model}"})[0].name == "embedded"


@pytest.mark.parametrize(
    "wanted, environ",
    [
        (Choice(model="none.gguf"), {}),
        (Choice(), {"ORE_MODEL": "none.gguf"}),
        (Choice(model="./none"), {}),
        (Choice(), {"ORE_MODEL": "/none"}),
        (Choice(model="../none", backend="embedded"), {}),
    ],
)
def test_a_gguf_file_that_is_not_there_is_named(wanted, environ):
    with pytest.raises(ModelNotFoundError, match="no file [./]*none"):
        opened(wanted, environ)


@pytest.mark.parametrize("model", ["loop.gguf", "./loop", "loop/mine.gguf"])
def test_of_a_file_that_can_not_be_looked_at_the_system_s_reason_is_told(
    model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("loop", "loop.gguf"):
        (tmp_path / name).symlink_to(name)
    with pytest.raises(FileAccessError, match="can't be read: too many levels of symbolic links"):
        opened(Choice(model=model), {})


def test_a_server_says_itself_whether_it_has_a_model_of_a_path_s_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("no model")
    for model in ("./none", "./notes"):
        assert opened(Choice(model=model, backend="ollama"))[0].name == "ollama"


def test_the_embedded_backend_has_no_host():
    way = "`host=` can't be used .* no server: leave it out, or name another with `backend=`"
    for wanted, environ in (("embedded", {}), (None, {"ORE_BACKEND": "embedded"})):
        with pytest.raises(UsageError, match=way):
            opened(Choice(backend=wanted, host="127.0.0.1:9"), environ)


def test_a_remote_host_from_a_file_is_named_and_a_loopback_one_is_not():
    for host, said in (("192.0.2.1", True), ("127.0.0.1:9", False)):
        backend, notices = opened(
            Choice(), {"OLLAMA_HOST": host}, {"OLLAMA_HOST": "/home/me/.ore/.env"}
        )
        assert bool(notices) == said
        assert "/home/me/.ore/.env" in str(backend.address)


@pytest.mark.slow
@pytest.mark.parametrize("name, package", [("ollama", "ollama"), ("openai", "openai")])
def test_a_backend_imports_what_the_first_turn_needs_when_it_is_told_to(name, package):
    program = (
        "import sys; from ore.backends.choice import Choice, open_backend\n"
        f"wanted = Choice(backend={name!r}, host='http://127.0.0.1:9')\n"
        "opened = open_backend(wanted, {}, {}, print, print)\n"
        f"before = {package!r} in sys.modules; opened.prepare()\n"
        f"print(before, {package!r} in sys.modules)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
