"""Does a model fit into the memory that is free? It is said before anything is loaded."""

from __future__ import annotations

import pytest

from ore.backends import engine_turn, fitting, hardware, local_models
from ore.errors import BackendError
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.gguf import EMBEDDING, METADATA, tiny_model, write_model
from tests.support.shelves import put_model


@pytest.mark.parametrize(
    "mem_info, memory_max, free",
    [
        ("MemTotal: 9 kB\nMemAvailable:  1024 kB\n", "max\n", 1 << 20),
        ("MemTotal: 9 kB\nMemAvailable:  1024 kB\n", "1000\n", 1000),
        ("MemTotal: 9 kB\nMemAvailable:  1024 kB\n", "", 1 << 20),
        ("", "max", None),
        ("MemAvailable: many kB", "1", None),
    ],
)
def test_the_free_memory_is_read(mem_info, memory_max, free):
    assert hardware.free_memory(mem_info, memory_max) == free


@pytest.mark.parametrize(
    "changes, width",
    [
        ({}, EMBEDDING),
        ({"llama.attention.head_count": 4, "llama.attention.head_count_kv": 1}, EMBEDDING // 4),
        ({"llama.attention.head_count_kv": None}, EMBEDDING),
        ({"llama.attention.head_count_kv": 1 << 40}, EMBEDDING),
        ({"llama.embedding_length": "x"}, 0),
    ],
)
def test_what_is_needed_grows_with_the_window_and_the_heads_that_are_kept(changes, width):
    head = METADATA | changes
    least = fitting.needed_bytes(head, 1000, 0)
    assert least > 1000
    assert fitting.needed_bytes(head, 1000, 4096) - least == 4 * width * 4096


def test_a_model_that_does_not_fit_says_what_it_needs_and_what_fits(home, monkeypatch):
    ollama = home / ".ollama/models"
    wide = tiny_model(llama__context_length=1 << 20, llama__block_count=1000)
    put_model(ollama, "wide", wide)
    put_model(ollama, "small", tiny_model())
    put_model(ollama, "broken", tiny_model() + b"x", adapter=b"GGUF")
    model = local_models.find("wide")
    monkeypatch.setattr(hardware, "free_bytes", lambda: 1 << 30)
    fitting.check_fits(model, 64, 1)
    with pytest.raises(BackendError, match="wide needs about 13.* GB of memory") as caught:
        fitting.check_fits(model, 1 << 20, 1)
    assert "1.1 GB are free" in str(caught.value)
    assert "a smaller window (`options['num_ctx']`) or small." in str(caught.value)
    monkeypatch.setattr(hardware, "free_bytes", lambda: 1000)
    with pytest.raises(
        BackendError, match=r"use a smaller model \(`EmbeddedBackend.pull\(NAME\)`\)\."
    ):
        fitting.check_fits(model, 64, 1)
    monkeypatch.setattr(hardware, "free_bytes", lambda: None)
    fitting.check_fits(model, 1 << 20, 1)


@needs_engine
def test_a_turn_of_a_model_that_does_not_fit_loads_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "free_bytes", lambda: 1000)
    monkeypatch.setattr(engine_turn, "Engine", lambda *_, **__: pytest.fail("it was loaded"))
    reasoner = engine_turn.EmbeddedReasoner(str(write_model(tmp_path / "m.gguf")))
    with pytest.raises(BackendError, match="needs about .* of memory"):
        reasoner.reason([Message("user", "Hi")])
