"""The verbs about the models of this machine: what is listed, compared with its hash, removed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from ore.files.signals import is_ready
from tests.support.gguf import tiny_model, write_model
from tests.support.harness import run_ore
from tests.support.process import PATIENCE, end, running
from tests.support.shelves import put_manifest, put_model

TINY = tiny_model()


@pytest.fixture
def own(home) -> Path:
    return home / ".ore" / "models"


@pytest.fixture
def ollama(home) -> Path:
    return home / ".ollama" / "models"


def verb(*args: str, **more):
    from ore.backends.choice import open_backend

    return run_ore(*args, "--backend", "embedded", open_backend=open_backend, **more)


def test_both_shelves_are_listed_with_where_they_are(own, ollama):
    put_model(own, "mine", TINY)
    put_model(ollama, "llama3.2", TINY)
    put_model(ollama, "broken", TINY, adapter=b"GGUF")
    result = verb("--list-models")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [(row[0], row[1], row[-1]) for row in rows] == [
        ("mine", "", str(own)),
        ("broken", "can't be run", str(ollama)),
        ("llama3.2", "default", str(ollama)),
    ]
    assert rows[0][2:6] == ["0.00 GB", "134.52M", "", "8192 tokens"]
    assert "broken can't be run by the embedded engine: it has an adapter" in result.err
    found = {row["name"]: row for row in verb("--list-models", "--json").json}
    assert found["mine"]["digest"] == hashlib.sha256(TINY).hexdigest()
    assert found["mine"]["where"] == str(own) and found["mine"]["problem"] is None
    assert "adapter" in found["broken"]["problem"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", [("--list-models", "--json"), ("--verify-models",)])
def test_a_file_that_takes_long_to_read_is_said_and_ctrl_c_ends_it_at_once(own, verb):
    own.mkdir(parents=True)
    os.truncate(write_model(own / "huge.gguf"), 1 << 40)
    with running(*verb, "--backend", "embedded") as process:
        assert is_ready(process.stderr.fileno(), PATIENCE)
        assert process.stderr.readline() in (b"reading huge\n", b"checking huge\n")
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert end(process).code == 130 and time.monotonic() - begun < 10


def test_every_model_is_compared_with_its_hash(own, ollama):
    put_model(own, "mine", TINY, params={"top_k": 1})
    put_model(ollama, "theirs", TINY)
    put_model(ollama, "not-for-the-engine", tiny_model(general__name="lora"), adapter=b"GGUF")
    own.mkdir(exist_ok=True)
    write_model(own / "file.gguf")
    result = verb("--verify-models")
    assert result.code == 0
    rows = {line.split("\t")[0]: line.split("\t")[1] for line in result.out.splitlines()}
    assert rows == {
        **dict.fromkeys(("mine", "theirs", "not-for-the-engine"), "holds"),
        "file": "nothing to compare it with",
    }
    blob = ollama / f"blobs/sha256-{hashlib.sha256(TINY).hexdigest()}"
    status = blob.stat()
    blob.write_bytes(TINY[:-1] + b"!")
    os.utime(blob, ns=(status.st_atime_ns, status.st_mtime_ns))
    result = verb("--verify-models", "--json")
    assert result.code == 3 and "1 of 4 models is not as it should be: theirs" in result.err
    assert [row["name"] for row in json.loads(result.out) if row["problem"]] == ["theirs"]


def test_where_there_is_no_file_it_is_said_where_one_was_looked_for(own):
    result = verb("--verify-models")
    assert (result.code, result.out) == (0, "")
    assert f"No model file was found in {own}" in result.err
    assert "what a server keeps elsewhere is not read" in result.err


def test_a_changed_parameter_is_found(own):
    put_model(own, "mine", TINY, params={"top_k": 1})
    (params,) = [p for p in (own / "blobs").iterdir() if p.read_bytes() == b'{"top_k": 1}']
    params.write_bytes(b'{"top_k": 2}')
    result = verb("--verify-models")
    assert result.code == 3 and re.search("params layer of mine, .*, does not", result.out)


def test_a_model_of_ore_s_own_is_removed_with_what_nothing_else_names(own):
    put_model(own, "one", TINY, license="free")
    put_model(own, "two", TINY, params={"top_k": 1})
    result = verb("--remove-model", "one", "--yes", "--json")
    assert result.code == 0 and result.json["removed"] == "one"
    assert not (own / "manifests/registry.ollama.ai/library/one").exists()
    left = {path.read_bytes() for path in (own / "blobs").iterdir()}
    assert TINY in left and b"free" not in left
    assert f"to remove: in {own} it has two.\n" in verb("--remove-model", "one").err
    assert verb("--remove-model", "two", "--yes").code == 0
    assert list((own / "blobs").iterdir()) == [] and (own / "manifests").exists()


def test_nothing_is_removed_where_another_manifest_can_t_be_read(own):
    put_model(own, "one", TINY)
    put_manifest(own, "two", b"{")
    result = verb("--remove-model", "one", "--yes")
    assert result.code == 1 and "not a model's manifest" in result.err
    assert verb("--list-models").out.splitlines()[0].startswith("one\tdefault")
    assert verb("--remove-model", "two", "--yes").code == 0


@pytest.mark.invariant
def test_nothing_of_ollama_s_and_no_file_of_the_user_s_is_removed(own, ollama):
    put_model(ollama, "theirs", TINY)
    own.mkdir(parents=True)
    write_model(own / "file.gguf")
    for name, said in (("theirs", "ollama rm theirs"), ("file", "a file of yours")):
        result = verb("--remove-model", name, "--yes")
        assert result.code == 1 and said in result.err
    result = verb("--remove-model", "../theirs", "--yes")
    assert result.code == 1 and "has fetched no model '../theirs' (ollama rm" in result.err
    assert f"in {own} it has none.\n" in result.err  # a server's list has others
    assert len(verb("--list-models").out.splitlines()) == 2


def test_removing_asks_and_needs_a_yes_where_nobody_can_be_asked(own):
    put_model(own, "one", TINY)
    result = verb("--remove-model", "one")
    assert result.code == 2 and "--yes" in result.err
    result = verb("--remove-model", "one", terminal="in err", stdin="n\n")
    assert result.code == 0 and "Nothing was removed" in result.err
    assert verb("--list-models").out.startswith("one\t")
