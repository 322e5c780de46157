"""What is read of a GGUF file before native code sees it."""

from __future__ import annotations

import os
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ore.backends import Model
from ore.backends.embedded import EmbeddedBackend
from ore.backends.engine import Engine
from ore.backends.gguf import check_kind, read_head, read_tables, window_of
from ore.backends.gguf_kinds import described
from ore.errors import BackendError, FileAccessError
from tests.support.engine import needs_engine
from tests.support.gguf import entry, head, key, text

ARCHITECTURE = key("general.architecture", 8, text("llama"))
LENGTH = key("llama.context_length", 4, struct.pack("<I", 8192))
WORDS = key("words", 9, struct.pack("<IQ", 8, 3) + text("a") + text("") + text("é"))
NUMBERS = b"".join(
    key(f"n{kind}", kind, struct.pack(layout, 1))
    for kind, layout in enumerate(
        ["<B", "<b", "<H", "<h", "<I", "<i", "<f", "<?", None, None, "<Q", "<q", "<d"]
    )
    if layout
)


@pytest.mark.parametrize(
    "data, expected",
    [
        (head(ARCHITECTURE, LENGTH), 8192),
        (head(LENGTH, ARCHITECTURE), 8192),
        (head(ARCHITECTURE, WORDS, LENGTH), 8192),
        (head(ARCHITECTURE, NUMBERS, LENGTH, count=13), 8192),
        (head(ARCHITECTURE, LENGTH, version=2), 8192),
        (head(ARCHITECTURE, key("llama.context_length", 10, struct.pack("<Q", 1 << 40))), 1 << 40),
        (head(ARCHITECTURE, LENGTH, version=1), None),
        (head(ARCHITECTURE), None),
        (head(LENGTH), None),
        (head(ARCHITECTURE, key("llama.context_length", 4, bytes(4))), None),
        (head(ARCHITECTURE, key("llama.context_length", 5, struct.pack("<i", -1))), None),
        (head(ARCHITECTURE, key("llama.context_length", 8, text("9"))), None),
        (head(ARCHITECTURE, key("x", 99, b"")), None),
        (head(ARCHITECTURE, text("x") + struct.pack("<IIQ", 9, 9, 1)), None),
        (head(text("x") + struct.pack("<IIQ", 9, 8, 1 << 60), count=1 << 60), None),
        (head(struct.pack("<Q", 1 << 63)), None),
        (head(ARCHITECTURE, LENGTH, count=0), None),
        (b"GGUF", None),
    ],
)
def test_the_context_length_is_read_where_the_file_has_one(tmp_path, data, expected):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    assert window_of(read_head(path)) == expected


def many(count: int, layout: str, *rest: int) -> bytes:
    """So many keys or tensors with names of their own, and the same behind each name."""
    return b"".join(
        struct.pack("<Q8s" + layout, 8, b"%08d" % number, *rest) for number in range(count)
    )


@pytest.mark.slow
@pytest.mark.parametrize("tensors", [0, 800_000], ids=["keys", "tensors"])
def test_no_more_is_read_of_a_file_than_a_model_can_have(tmp_path, tensors):
    keys = 1 if tensors else 1_000_000
    body = ARCHITECTURE + many(tensors, "IIQ", 0, 0, 0) if tensors else many(keys, "IB", 0, 1)
    path = tmp_path / "m.gguf"
    path.write_bytes(head(body, count=keys, tensors=tensors))
    found = read_tables(path)
    assert not found.is_whole and len(found.keys) + len(found.tensors) < 300_000


@pytest.mark.slow
@settings(max_examples=100)
@given(data=st.data())
def test_damage_is_never_more_than_an_unknown_length(tmp_path_factory, data):
    whole = bytearray(head(ARCHITECTURE, WORDS, NUMBERS, LENGTH, count=14))
    for _ in range(data.draw(st.integers(0, 6))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    length = window_of(read_head(path))
    assert length is None or length > 0


@needs_engine
@pytest.mark.parametrize("window", [0, 1, 15, 1 << 31])
def test_an_engine_is_not_started_on_a_model_of_an_absurd_window(tmp_path, window):
    path = tmp_path / "m.gguf"
    absurd = key("llama.context_length", 10, struct.pack("<Q", window))
    path.write_bytes(head(ARCHITECTURE, absurd))
    with pytest.raises(BackendError) as caught:
        Engine(path)
    assert f"{path} can't be loaded" in str(caught.value)
    assert f" {window} tokens" in str(caught.value)


def test_a_gguf_file_passes(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    check_kind(path)


def make_fifo(path):
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda path: path.write_bytes(b""), "is not a GGUF model"),
        (lambda path: path.write_bytes(b"PK\x03\x04"), "is not a GGUF model"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (make_fifo, "is not a regular file"),
        (lambda path: None, "can't be read: no such file"),
        (lambda path: path.symlink_to("x" * 300), "can't be read: file name too long"),
    ],
    ids=["empty", "another kind", "folder", "fifo", "missing", "a link that leads nowhere"],
)
def test_a_file_that_is_not_gguf_is_refused_without_waiting(tmp_path, make, said):
    path = tmp_path / "model.gguf"
    make(path)
    with pytest.raises(FileAccessError, match=said):
        check_kind(path)


@pytest.mark.parametrize(
    "keys, known",
    [
        (
            {"general.size_label": "135M", "general.file_type": 3, "llama.context_length": 8192},
            ("135M", "Q4_1", 8192, ("completion",)),
        ),
        ({"llama.pooling_type": 1}, (None, None, None, ("embedding",))),
        ({"llama.attention.causal": False}, (None, None, None, ("embedding",))),
        ({"general.architecture": "t5encoder"}, (None, None, None, ("embedding",))),
        (
            {"general.size_label": 7, "general.file_type": "x", "llama.context_length": "y"},
            (None, None, None, ("completion",)),
        ),
        ({"general.file_type": 999}, (None, None, None, ("completion",))),
        ({"general.size_label": "B" * 900_000}, (None, None, None, ("completion",))),
        ({"general.size_label": "7B\n\x1b[2J"}, (None, None, None, ("completion",))),
    ],
)
def test_what_a_file_says_of_its_model_is_listed(keys, known, tmp_path):
    path = tmp_path / "m.gguf"
    keys = {"general.architecture": "llama", **keys}
    path.write_bytes(head(*(entry(name, value) for name, value in keys.items())))
    assert described("m", path) == Model("m", path.stat().st_size, *known)


def test_of_a_file_that_is_gone_or_lacks_a_part_the_name_is_known(tmp_path):
    assert described("m", tmp_path / "gone.gguf") == Model("m")
    part = tmp_path / "m-00001-of-00002.gguf"
    part.write_bytes(head())
    assert described("m", part) == Model("m")


def test_a_model_for_embeddings_is_never_the_default(tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path))
    architecture = entry("general.architecture", "bert")
    (tmp_path / "a.gguf").write_bytes(head(architecture, entry("bert.pooling_type", 1)))
    assert EmbeddedBackend().default_model() is None
    (tmp_path / "b.gguf").write_bytes(head(entry("general.architecture", "llama")))
    assert EmbeddedBackend().default_model() == "b"
    assert EmbeddedBackend("a").default_model() == "a"


PIECES = {
    "clip": ({"general.architecture": "clip"}, "is the part of a model that takes in images"),
    "mmproj": ({"general.type": "mmproj"}, "is the part of a model that takes in images"),
    "adapter": ({"general.type": "adapter"}, "is an adapter, which changes a model"),
    "adapter of an encoder": (
        {"general.type": "adapter", "general.architecture": "t5"},
        "is an adapter, which changes a model",
    ),
    "imatrix": ({"general.type": "imatrix"}, "says how a model's numbers are rounded"),
    "diffusion": (
        {"diffusion.shift_logits": False, "llama.attention.causal": False},
        "writes all words of an answer at once",
    ),
    "t5": ({"general.architecture": "t5"}, "reads a prompt with an encoder"),
    "eagle": ({"general.architecture": "eagle3"}, "guesses what another model writes"),
    "dflash": ({"general.architecture": "dflash"}, "guesses what another model writes"),
    "gemma": ({"general.architecture": "gemma4-assistant"}, "guesses what another model writes"),
    "speech": ({"general.architecture": "qwen3tts"}, "writes sounds"),
}


@pytest.mark.parametrize("keys, said", PIECES.values(), ids=PIECES)
def test_what_is_beside_a_model_in_that_format_is_never_the_default_and_says_what_it_is(
    tmp_path, monkeypatch, keys, said
):
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path))
    keys = {"general.architecture": "llama", **keys}
    data = head(*(entry(name, value) for name, value in keys.items()))
    (tmp_path / "a\n`b()`.gguf").write_bytes(data)
    assert EmbeddedBackend().default_model() is None
    (listed,) = EmbeddedBackend().described()
    assert not listed.can_answer and f"a^J'b()' {said}" in listed.problem


@pytest.mark.parametrize(
    "name, tensor, ahead, tensors, answers",
    [
        ("mtp-q.gguf", "blk.1.attn_norm.weight", 1, 1, False),
        ("mtp-q.gguf", "blk.0.attn_norm.weight", 1, 1, True),
        ("mtp-q.gguf", "blk.1.attn_norm.weight", 0, 1, True),
        (
            "mtp-q.gguf",
            "blk.1.attn_norm.weight",
            1,
            2,
            True,
        ),  # it is cut off: the next may be blk.0
        ("mtp-q-00001-of-00001.gguf", "output_norm.weight", 1, 1, True),
    ],
)
def test_layers_that_only_guess_ahead_are_a_draft(
    tmp_path, monkeypatch, name, tensor, ahead, tensors, answers
):
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path))
    keys = {"general.architecture": "qwen35", "qwen35.nextn_predict_layers": ahead}
    data = head(*(entry(name, value) for name, value in keys.items()), tensors=tensors)
    place = struct.pack("<IQIQ", 1, 64, 0, 0)
    (tmp_path / name).write_bytes(data + text(tensor) + place)
    assert bool(EmbeddedBackend().default_model()) is answers
    (listed,) = EmbeddedBackend().described()
    assert listed.can_answer is answers
    if not answers:
        assert "guesses what another model writes" in listed.problem


def test_a_folder_of_many_models_that_write_no_text_is_looked_through_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path))
    data = head(ARCHITECTURE, key("llama.pooling_type", 4, struct.pack("<I", 1)))
    for number in range(1_000):
        (tmp_path / f"{number}.gguf").write_bytes(data)
    started = time.process_time()
    assert EmbeddedBackend().default_model() is None
    assert time.process_time() - started < 8  # traced for coverage; with a look at all for each, 40
