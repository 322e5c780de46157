"""A turn of a model that stands on a shelf, with the real engine."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from ore.backends.effective import effective
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine import Engine
from ore.backends.http import Deadline
from ore.backends.settings import Settings
from ore.errors import BackendTimeoutError, CapabilityError, FileAccessError
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.gguf import TOKENS, tiny_model, write_model
from tests.support.shelves import put_model

pytestmark = needs_engine

HI = [Message("user", "Hi")]
FEW = {"num_predict": 3}


@pytest.fixture
def ollama(home) -> Path:
    return home / ".ollama" / "models"


def test_a_model_s_parameters_are_its_own_and_the_user_s_go_before(ollama):
    params = {"temperature": 0.5, "top_k": 7, "stop": ["END"], "num_ctx": 512, "num_thread": 1}
    params |= {"repeat_last_n": -1}  # the window, as Ollama writes it
    put_model(ollama, "tiny", tiny_model(), params=params, system="Be a pirate.")
    backend, settings = EmbeddedBackend(), Settings(options={**FEW, "top_k": 3})
    with closing(backend.reasoner("TINY:latest", settings)) as reasoner:
        response = reasoner.reason(HI)
        told = backend.in_force("tiny", settings)
    found = effective(told["user"], ore=told["ore"], model=told["model"], server=told["server"])
    said = {name: (each["value"], each["from"]) for name, each in found["parameters"].items()}
    assert said["temperature"] == (0.5, "model") and said["num_ctx"] == (512, "model")
    assert said["stop"] == (["END"], "model") and said["top_k"] == (3, "user")
    assert said["repeat_penalty"] == (1.1, "ore") and said["num_predict"] == (3, "user")
    assert response.metadata["context"]["window"] == 512
    assert response.metadata["device"] == "CPU"
    known = response.metadata
    assert ("first_token_duration" in known) == bool(response.content)
    assert 0 < known.get("first_token_duration", 1) <= known["total_duration"]
    (note,) = response.metadata["notes"]
    assert "its system prompt is not sent" in note and "num_thread" in note


def test_a_model_with_a_projector_reads_text_and_refuses_an_image(ollama):
    put_model(ollama, "tiny", tiny_model(), projector=b"GGUF of a projector")
    with closing(EmbeddedBackend().reasoner("tiny", Settings(options=FEW))) as reasoner:
        with pytest.raises(CapabilityError, match="can't look at images: leave `images=` out"):
            reasoner.reason([Message("user", "Hi", images=(b"\x89PNG",))])
        (note,) = reasoner.reason(HI).metadata["notes"]
    assert "it can't look at images here" in note


@pytest.mark.invariant
def test_nothing_that_the_user_did_not_ask_for_is_sent_and_ollama_s_files_stay(ollama):
    messages = [{"role": "user", "content": "EXAMPLE"}]
    put_model(ollama, "tiny", tiny_model(), system="PIRATE", messages=messages)
    before = {path: path.stat().st_mtime_ns for path in ollama.rglob("*")}
    settings = Settings(options=FEW, rendered=True)
    with closing(EmbeddedBackend().reasoner("tiny", settings)) as reasoner:
        rendered = reasoner.reason(HI).metadata["rendered"]
    assert "Hi" in rendered and "PIRATE" not in rendered and "EXAMPLE" not in rendered
    assert {path: path.stat().st_mtime_ns for path in ollama.rglob("*")} == before


@pytest.mark.slow
def test_the_blob_answers_as_the_same_file_does_by_its_path(ollama, tmp_path):
    put_model(ollama, "tiny", tiny_model())
    path = write_model(tmp_path / "same.gguf")
    texts = []
    for model in ("tiny", str(path)):
        with closing(EmbeddedBackend().reasoner(model, Settings(options=FEW))) as reasoner:
            texts.append(reasoner.reason(HI).content)
    assert texts[0] == texts[1]


def test_a_changed_blob_is_never_loaded(ollama):
    put_model(ollama, "tiny", tiny_model())
    (blob,) = [path for path in (ollama / "blobs").iterdir() if path.stat().st_size > 10_000]
    blob.write_bytes(blob.read_bytes()[:-1] + b"!")
    with closing(EmbeddedBackend().reasoner("tiny", Settings(options=FEW))) as reasoner:
        with pytest.raises(FileAccessError, match="do not have the SHA-256"):
            reasoner.reason(HI)


@pytest.mark.slow
def test_layers_for_a_graphics_card_need_one(ollama):
    put_model(ollama, "tiny", tiny_model())
    for layers in (0, -1):
        settings = Settings(options={**FEW, "num_gpu": layers})
        with closing(EmbeddedBackend().reasoner("tiny", settings)) as reasoner:
            assert reasoner.reason(HI).metadata["device"] == "CPU"
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        pytest.skip("there is a graphics card")
    settings = Settings(options={**FEW, "num_gpu": 1})
    with closing(EmbeddedBackend().reasoner("tiny", settings)) as reasoner:
        with pytest.raises(CapabilityError, match="no graphics card"):
            reasoner.reason(HI)


@pytest.mark.parametrize("token, ended", [("<|eot_id|>", "stop"), ("<|odd_id|>", "length")])
def test_the_engine_ends_at_llama_3_s_end_of_message_whatever_the_file_says(tmp_path, token, ended):
    """Which is why a file that names another end of text is not refused."""
    tokens = [*TOKENS[:-2], token, "<|end_of_text|>"]
    path = tmp_path / "llama3.gguf"
    write_model(path, tokenizer__ggml__tokens=tokens, tokenizer__ggml__bos_token_id=0)
    with closing(Engine(path)) as engine:
        request = {
            "messages": [{"role": "user", "content": "Hi"}],
            "max_tokens": 3,
            "logit_bias": [[len(TOKENS) - 2, 100]],
        }
        answer = engine.posted("/v1/chat/completions", request, 1 << 20, Deadline(None))
    assert answer["choices"][0]["finish_reason"] == ended


def test_the_first_look_at_a_model_s_bytes_ends_with_the_deadline(home, ollama):
    put_model(ollama, "tiny", tiny_model())
    settings = Settings(options=FEW, deadline=0.0001)
    with closing(EmbeddedBackend().reasoner("tiny", settings)) as reasoner:
        with pytest.raises(BackendTimeoutError, match="The turn took longer than its deadline"):
            reasoner.reason(HI)
    assert not any('"sha256":' in path.read_text() for path in home.rglob(".digests.json"))
