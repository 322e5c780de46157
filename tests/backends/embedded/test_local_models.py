"""One way to find a model: of the models folder, of ORE's shelf, of Ollama's."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from ore.backends import local_models, remembered, weights
from ore.backends.embedded import EmbeddedBackend
from ore.cli.advice import said
from ore.errors import CapabilityError, FileAccessError, ModelNotFoundError
from tests.support.gguf import entry, head, tiny_model, write_model
from tests.support.shelves import put_manifest, put_model

TINY = tiny_model()


@pytest.fixture
def folder(home) -> Path:
    folder = home / ".ore" / "models"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def ollama(home) -> Path:
    return home / ".ollama" / "models"


def test_what_is_in_ore_s_folder_goes_before_what_is_on_a_shelf(folder, ollama):
    write_model(folder / "mine.gguf")
    put_model(ollama, "mine", TINY)
    put_model(folder, "both", TINY, params={"top_k": 1})
    put_model(ollama, "Both", TINY, params={"top_k": 2})
    put_model(ollama, "hf.co/U/R:Q4_K_M", TINY)
    assert local_models.names() == ["mine", "both", "hf.co/U/R:Q4_K_M"]
    assert local_models.find("mine").on_shelf is None
    assert local_models.find("BOTH:latest").on_shelf.shelf.is_own
    assert local_models.find("hf.co/u/r:q4_k_m").name == "hf.co/U/R:Q4_K_M"
    assert [model.where for model in local_models.described()] == [
        *(str(folder), str(folder), str(ollama))
    ]


@pytest.mark.parametrize("name", ["small", "small:latest", "someone/small"])
def test_a_file_of_the_current_folder_does_not_take_the_place_of_a_model(
    name, folder, ollama, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    write_model(Path("other"))
    Path("someone").mkdir()
    for each in ("small", "small:latest", "someone/small", "smollm2:135m"):
        os.link("other", each)
    own = local_models.find(name)
    assert own.path == Path(name)
    put_model(ollama, name, TINY)
    assert local_models.find(name).on_shelf is not None
    assert local_models.find(name, weights.installed()).on_shelf is not None
    assert local_models.find(f"./{name}").path == Path(name)
    with monkeypatch.context() as patched:
        patched.setenv("OLLAMA_MODELS", "relative")  # no shelf is asked for a path
        assert local_models.find(f"./{name}").path == Path(name)
        assert local_models.find(str(Path(name).absolute())).path == Path(name).absolute()
    assert local_models.find_again(name, own) == own  # in the middle of a conversation
    with pytest.raises(ModelNotFoundError, match="no model 'smollm2:135m': fetch it with"):
        local_models.find("smollm2:135m")


def test_a_model_is_listed_beside_a_file_whose_name_differs_in_case(folder, ollama):
    write_model(folder / "Tiny.gguf")
    put_model(folder, "tiny", TINY)
    assert local_models.names() == ["Tiny", "tiny"]
    assert [model.name for model in local_models.described()] == ["Tiny", "tiny"]
    assert [local_models.find(name).on_shelf is None for name in ("Tiny", "tiny")] == [True, False]


def test_another_folder_of_ollama_s_is_named_by_its_variable(home, tmp_path, monkeypatch):
    put_model(tmp_path / "elsewhere", "there", TINY)
    assert local_models.names() == []
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "elsewhere"))
    assert local_models.names() == ["there"]


def test_a_model_that_is_not_there_is_said_with_those_that_are(ollama):
    put_model(ollama, "there", TINY)
    with pytest.raises(ModelNotFoundError, match="use one that is there: there") as caught:
        local_models.find("gone")
    assert caught.value.available == ("there",)
    assert "fetch it with `EmbeddedBackend.pull('gone')`" in str(caught.value)
    assert "fetch it with --backend embedded --pull gone, or" in said(
        caught.value
    )  # a server may answer
    with pytest.raises(ModelNotFoundError, match="use one that is there: there"):
        local_models.licenses("gone")
    with pytest.raises(ModelNotFoundError, match="There is no file gone.gguf"):
        local_models.licenses("gone.gguf")
    with pytest.raises(ModelNotFoundError, match="There is no file gone.gguf"):
        local_models.find("gone.gguf")


@pytest.mark.parametrize(
    "there, best",
    [
        (("zoo", "mistral:7b", "llama3.2:3b", "llama3.2:1b"), "llama3.2:1b"),
        (("llama3.2:1b", "llama3.2"), "llama3.2"),
        (("qwen2.5:0.5b", "alpha"), "qwen2.5:0.5b"),
        (("zoo", "alpha"), "alpha"),
        (("hf.co/U/llama3.2", "alpha"), "alpha"),
        ((), None),
    ],
)
def test_the_best_of_a_shelf_answers_where_none_is_named(ollama, there, best):
    for name in there:
        put_model(ollama, name, TINY)
    assert EmbeddedBackend().default_model() == best
    assert EmbeddedBackend("named").default_model() == "named"


@pytest.mark.parametrize(
    "there, told",
    [
        (
            ("zoo", "alpha"),
            "No preferred model is there, so alpha answers: `model_id=` names another one.",
        ),
        (("zoo", "llama3.2:1b"), None),
        (("zoo", "smollm2:135m"), None),
    ],
)
def test_where_no_preferred_model_is_on_a_shelf_it_is_said_which_answers(ollama, there, told):
    for name in there:
        put_model(ollama, name, TINY)
    backend = EmbeddedBackend()
    assert backend.about_default(str(backend.default_model())) == told
    assert EmbeddedBackend("zoo").about_default("zoo") is None


def test_what_can_t_be_run_is_never_the_usual_one_and_is_listed_with_the_reason(ollama):
    put_model(ollama, "llama3.2", TINY, adapter=b"GGUF")
    put_model(ollama, "mistral", b"#!/bin/sh")
    put_model(ollama, "qwen2.5", tiny_model(llama__pooling_type=1))
    put_manifest(ollama, "llama3", b"{")
    put_model(ollama, "zoo", TINY)
    assert local_models.default() == "zoo"
    found = {model.name: model for model in local_models.described()}
    assert {name: bool(model.problem) for name, model in found.items()} == {
        **dict.fromkeys(("llama3", "llama3.2", "mistral"), True),
        **dict.fromkeys(("qwen2.5", "zoo"), False),
    }
    assert "adapter" in found["llama3.2"].problem and not found["llama3.2"].can_answer


def test_what_a_file_does_not_say_of_itself_its_config_does(ollama):
    silent = tiny_model(general__file_type=None)
    put_model(ollama, "tiny", silent, config={"model_type": "1B", "file_type": "Q4_K_M"})
    put_model(ollama, "odd", silent, config={"model_type": "\x1b[2J", "file_type": 7})
    odd, tiny = local_models.described()
    assert (tiny.parameters, tiny.quantization) == ("1B", "Q4_K_M")
    assert (odd.parameters, odd.quantization) == (None, None)


def test_the_bytes_of_a_shelf_s_model_are_compared_with_its_name_and_remembered(folder, ollama):
    put_model(ollama, "tiny", TINY)
    model = local_models.find("tiny")
    assert local_models.check_bytes(model) == hashlib.sha256(TINY).hexdigest()
    known = json.loads((folder / ".digests.json").read_text())
    assert known[str(model.path)]["sha256"] == hashlib.sha256(TINY).hexdigest()
    before, data = model.path.stat(), bytearray(TINY)
    data[-1] ^= 1
    model.path.write_bytes(data)
    with pytest.raises(FileAccessError, match="do not have the SHA-256.*ollama pull tiny"):
        local_models.check_bytes(model)
    os.utime(model.path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as one who hides it would
    (folder / ".digests.json").write_text(json.dumps(known))
    with pytest.raises(FileAccessError, match="do not have the SHA-256"):
        local_models.check_bytes(model)
    known[str(model.path)]["ctime_ns"] = model.path.stat().st_ctime_ns
    (folder / ".digests.json").write_text(json.dumps(known))
    local_models.check_bytes(model)  # who can write both files is trusted
    assert weights.file_digest(model.path, anew=True) != hashlib.sha256(TINY).hexdigest()


def test_what_is_remembered_of_ollama_s_models_stands_in_ore_s_home(home, ollama):
    put_model(ollama, "tiny", TINY)
    local_models.check_bytes(local_models.find("tiny"))
    assert (home / ".ore/models/.digests.json").exists()
    assert oct((home / ".ore/models").stat().st_mode)[-3:] == "700"
    assert not list(ollama.rglob(".digests*"))


LLAMA3 = ["x"] * 128000 + [f"<|{n}|>" for n in range(128000, 128256)]
LLAMA3[128006], LLAMA3[128009] = "<|start_header_id|>", "<|eot_id|>"


def keys(architecture: str, **more) -> bytes:
    said = {"general.architecture": architecture, f"{architecture}.context_length": 8192}
    said |= {name.replace("__", "."): value for name, value in more.items()}
    return head(*(entry(name, value) for name, value in said.items()))


@pytest.mark.parametrize(
    "data, is_refused",
    [
        (keys("llama", tokenizer__ggml__tokens=LLAMA3), True),
        (keys("llama", tokenizer__ggml__pre="default", tokenizer__ggml__tokens=LLAMA3), True),
        (keys("llama", tokenizer__ggml__pre="llama-bpe", tokenizer__ggml__tokens=LLAMA3), False),
        (keys("llama", tokenizer__ggml__tokens=["a", "b"]), False),
        (keys("gptoss"), True),
        (keys("gpt-oss"), False),
        (keys("olmo3"), True),
        (keys("qwen25vl"), True),
        (keys("qwen2"), False),
        (keys("gemma3"), True),
        (keys("gemma3", gemma3__attention__layer_norm_rms_epsilon=1e-6), False),
        (
            keys(
                "gemma3",
                gemma3__attention__layer_norm_rms_epsilon=1e-6,
                tokenizer__ggml__add_unknown_token=False,
            ),
            True,
        ),
        (keys("mistral3", mistral3__rope__scaling__beta_fast=32.0), True),
        (keys("mistral3"), False),
        (keys("qwen3vl"), True),
        (keys("qwen3vl", qwen3vl__rope__dimension_sections=[24, 20, 20, 0]), False),
        (keys("qwen35", qwen35__vision__block_count=27), True),
        (keys("gemma4", tokenizer__ggml__model="llama"), True),
        (keys("gemma4", tokenizer__ggml__model="gemma4"), False),
        (b"GGUF" + bytes(20), False),
    ],
)
def test_a_file_that_only_ollama_mends_is_refused_with_where_the_same_is(
    folder, ollama, data, is_refused
):
    put_model(ollama, "made:8b", data)
    path = local_models.own_shelves()[1].weights(local_models.own_shelves()[1].names()[0])
    for named in ("made:8b", str(path)):
        if not is_refused:
            assert local_models.find(named).path == path
            continue
        with pytest.raises(CapabilityError, match="Ollama repairs.*hf.co/USER/.*-GGUF"):
            local_models.find(named)
    if is_refused:
        known = json.loads((folder / ".digests.json").read_text())
        assert known[str(path)]["mended.1"]  # so that the next turn need not look


@pytest.mark.slow
def test_what_is_remembered_of_many_models_is_read_and_written_once(folder, ollama, monkeypatch):
    for number in range(50):
        mended = tiny_model(general__architecture="gptoss", general__name=str(number))
        put_model(ollama, f"m{number}", mended)
    done = []

    def counted(name):
        whole = getattr(remembered, name)
        return lambda *args, **more: (done.append(name), whole(*args, **more))[1]

    for name in ("replace_file", "read_file"):
        monkeypatch.setattr(remembered, name, counted(name))
    monkeypatch.setattr(remembered, "_EVERY", 60.0)
    assert local_models.default() is None
    assert done == ["read_file", "replace_file"]
    assert local_models.default() is None  # of which nothing is new
    assert done == ["read_file", "replace_file", "read_file"]
    assert len(json.loads((folder / ".digests.json").read_text())) == 50
    local_models.described(whole=True)
    assert len(done) == 5


def test_a_file_that_is_where_it_was_is_found_again_without_a_list_and_judged_anew(
    folder, monkeypatch
):
    path = write_model(folder / "mine.gguf")
    found = local_models.find("mine")
    installed = weights.installed
    monkeypatch.setattr(weights, "installed", lambda: pytest.fail("the folder was listed"))
    assert local_models.find_again("mine", found) == found
    path.write_bytes(b"PK")
    with pytest.raises(FileAccessError, match="is not a GGUF model"):
        local_models.find_again("mine", found)
    path.unlink()
    monkeypatch.setattr(weights, "installed", installed)
    with pytest.raises(ModelNotFoundError, match="has no model 'mine'"):
        local_models.find_again("mine", found)


def test_the_folder_is_listed_once_for_the_usual_model_and_for_one_of_a_digest(folder, monkeypatch):
    """It may hold a hundred thousand files, which take long."""
    write_model(folder / "mine.gguf")
    listed, installed = [], weights.installed
    monkeypatch.setattr(weights, "installed", lambda: (listed.append(1), installed())[1])
    assert local_models.default() == "mine" and len(listed) == 1
    digest = weights.file_digest(folder / "mine.gguf")
    assert local_models.same_as("other", digest) == "mine" and len(listed) == 2


def test_a_model_is_looked_for_by_its_digest_with_one_look_at_what_is_remembered(
    folder, monkeypatch
):
    for number in range(20):
        (folder / f"m{number}.gguf").write_bytes(head() + bytes([number]))
    read, known = [], remembered._known
    monkeypatch.setattr(remembered, "_known", lambda folder: (read.append(1), known(folder))[1])
    assert local_models.same_as("other", "0" * 64) is None and len(read) == 1
    assert len(json.loads((folder / ".digests.json").read_text())) == 20


def test_no_more_is_remembered_than_is_read(folder, monkeypatch):
    monkeypatch.setattr(remembered, "_LIMIT", 2000)
    paths = [write_model(folder / f"{number:02}.gguf") for number in range(20)]
    for path in paths:
        weights.file_digest(path)
    kept = json.loads((folder / ".digests.json").read_text())
    assert 2 < len(kept) < 20 and str(paths[-1]) in kept and str(paths[0]) not in kept


def test_tensors_show_what_ollama_mends(folder):
    def refused(architecture: str, *names: str) -> bool:
        data = keys(architecture)
        infos = b"".join(
            entry(name, "")[: 8 + len(name)] + b"\x01\0\0\0" + bytes(8 + 4 + 8) for name in names
        )
        path = folder / "made.gguf"
        path.write_bytes(data[:8] + len(names).to_bytes(8, "little") + data[16:] + infos)
        try:
            local_models.find(str(path))
        except CapabilityError:
            return True
        return False

    assert refused("llama4", "v.patch.weight") and not refused("llama4", "blk.0.attn_q.weight")
    assert refused("lfm2", "output_norm.weight")
    assert not refused("lfm2", "output_norm.weight", "token_embd_norm.weight")
    assert refused("qwen3next", "blk.0.ssm_dt") and not refused("qwen3next", "blk.0.ssm_dt.bias")


def test_a_recorded_model_is_found_by_its_digest_on_a_shelf(ollama):
    put_model(ollama, "tiny", TINY)
    digest = hashlib.sha256(TINY).hexdigest()
    assert local_models.same_as("other", digest) == "tiny"
    assert local_models.same_as("tiny", None) == "tiny"
    assert local_models.same_as("other", "0" * 64) is None
    assert EmbeddedBackend().provenance("tiny")["model_digest"] == digest
    assert weights.installed() == {}
