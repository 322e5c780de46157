"""What an Ollama server says of its models, and what of it is a context window."""

from __future__ import annotations

import pytest

from ore.backends.ollama_models import given_window, trained_window, weights_of
from ore.backends.window import find_model, window_of

RUNNING = [
    {"name": "Llama3.2:latest", "model": "llama3.2:latest", "context_length": 4096},
    {"model": "hub/user/m:q4", "context_length": 8192},
    {"name": "old:latest"},
    {"name": 7, "context_length": 1},
    {"name": "odd:1", "context_length": "4096"},
    {"name": "flag:1", "context_length": True},
    {"name": "zero:1", "context_length": 0},
]


@pytest.mark.parametrize(
    "model, window",
    [
        ("llama3.2", 4096),
        ("LLAMA3.2:LATEST", 4096),
        ("library/llama3.2", 4096),
        ("registry.ollama.ai/library/llama3.2:latest", 4096),
        ("hub/library/llama3.2", None),
        ("llama3.2:1b", None),
        ("hub/user/m:q4", 8192),
        ("old", None),
        ("odd:1", None),
        ("flag:1", None),
        ("zero:1", None),
        ("none", None),
    ],
)
def test_the_window_is_the_one_of_the_model_that_answered(model, window):
    assert window_of(find_model(RUNNING, model)) == window


@pytest.mark.parametrize(
    "shown, window",
    [
        ({"model_info": {"general.architecture": "llama", "llama.context_length": 8192}}, 8192),
        ({"model_info": {"general.architecture": "qwen2", "llama.context_length": 8192}}, None),
        ({"model_info": {"general.architecture": "llama", "llama.context_length": "8192"}}, None),
        ({"model_info": {"general.architecture": [], "llama.context_length": 8192}}, None),
        ({"model_info": None}, None),
        ({}, None),
    ],
)
def test_the_trained_window_is_the_one_of_the_model_s_architecture(shown, window):
    assert trained_window(shown) == window


@pytest.mark.parametrize(
    "wanted, able, trained, given",
    [
        (512, ["completion"], 8192, 512),
        (512, ["completion", "vision"], 8192, 2048),
        (4096, ["completion", "vision"], 8192, 4096),
        (9999, ["completion", "vision"], 8192, 8192),
        (512, ["vision"], 1024, 1024),
        (512, "vision", 8192, 512),
        (512, ["vision"], None, 2048),
    ],
)
def test_a_window_is_what_the_model_can_have_of_it(wanted, able, trained, given):
    info = {"general.architecture": "llama", "llama.context_length": trained}
    assert given_window(wanted, {"capabilities": able, "model_info": info}) == given


@pytest.mark.parametrize(
    "modelfile, weights",
    [
        (f"# FROM x\n\nFROM /blobs/sha256-{'a' * 64}\nTEMPLATE x\n", "a" * 64),
        (f"FROM /b/sha256:{'0' * 64}\nFROM /b/sha256-{'1' * 64}\n", "0" * 64),  # then a projector
        ("FROM llama3.2\n", None),
        (f"SYSTEM FROM sha256-{'a' * 64}\n", None),
        (None, None),
    ],
)
def test_the_weights_are_those_that_the_modelfile_names_first(modelfile, weights):
    assert weights_of({"modelfile": modelfile}) == weights
