"""What an artifact says of the turn that it was made of."""

from __future__ import annotations

import json
import os
import time

import pytest

from ore import __version__
from ore.artifact.canonical import digest
from ore.artifact.seal import breaks, seal
from ore.backends.address import as_host
from ore.backends.choice import open_backend
from ore.backends.ollama_client import OllamaClient
from ore.core import load_aya_system_prompt
from ore.errors import BackendError
from ore.glass.provenance import LONGEST_KEPT_TEXT
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import ScriptedBackend
from tests.support.runs import record, rewrite, sha256

KEYS = (
    *("ore_version", "backend", "server_version", "model_digest", "options", "effective"),
    *(
        "persona",
        "system_prompt",
        "context",
        "rendered_sha256",
        "chat_template",
        "joined",
        "grants",
        "skills",
        "tools",
        "messages_sha256",
        "sources",
        "parent",
    ),
    *("values_sha256", "self_sha256"),
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.json"


@pytest.fixture
def server(monkeypatch):
    with FakeOllama() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


def test_every_key_is_there_and_null_is_what_is_not_known(path):
    found = record(path, "hi")["provenance"]
    assert tuple(found) == KEYS
    assert found["ore_version"] == __version__ and found["backend"] == "scripted"
    empty = {"options": {}, "grants": [], "skills": [], "tools": []}
    unknown = (
        "server_version",
        "model_digest",
        "persona",
        "context",
        "joined",
        "chat_template",
        "parent",
    )
    unknown += ("rendered_sha256",)
    assert {key: found[key] for key in empty} == empty
    assert [found[key] for key in unknown] == [None] * len(unknown)


@pytest.mark.parametrize("full", [[], ["--artifact-full"]], ids=["hashes", "full"])
def test_the_messages_are_hashed_and_kept_only_where_asked_for(path, full):
    found = record(path, "naïve?", *full)["provenance"]
    sent = [
        {"role": "system", "content": load_aya_system_prompt()},
        {"role": "user", "content": "naïve?"},
    ]
    assert found["messages_sha256"] == digest(sent)
    assert [each["sha256"] for each in found["sources"]] == [sha256(m["content"]) for m in sent]
    assert ("messages" in found) == bool(full)
    if full:
        kinds = ("persona", "prompt")
        assert found["messages"] == [m | {"source": s} for m, s in zip(sent, kinds, strict=True)]


def test_tools_skills_grants_and_options_are_named(path, writing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "note.txt").write_text("a note")
    flags = ["--skill", "writing", "--tool", "read-file", "--tool-arg", "path=note.txt"]
    flags += ["--grant", "filesystem-read", "-f", "note.txt", "-o", "seed=3", "--persona", "aya"]
    found = record(path, "hi", *flags)["provenance"]
    assert found["grants"] == ["filesystem-read"] and found["options"] == {"seed": 3}
    assert found["persona"] == "aya"
    assert found["skills"] == [{"name": "writing", "sha256": sha256("[Skill:writing]\nBe brief.")}]
    result = sha256("[Tool:read-file]\na note")
    assert found["tools"] == [{"name": "read-file", "sha256": result}]
    assert {"source": "tool:read-file", "sha256": result} in found["sources"]


def test_a_child_names_its_parent_and_the_bytes_that_were_read(ore, path, tmp_path):
    first = record(path, "hi")
    parent = {
        "execution_id": first["execution_id"],
        "sha256": sha256(path.read_bytes()),
        "relation": "prompt",
    }
    from_file = record(tmp_path / "b.json", "--artifact-in", str(path))
    from_stdin = record(tmp_path / "c.json", "--artifact-in", "-", stdin=path.read_bytes())
    assert from_file["provenance"]["parent"] == from_stdin["provenance"]["parent"] == parent


@pytest.mark.parametrize("at", ["-", "run.json"])
def test_an_artifact_fits_its_own_hashes(ore, tmp_path, monkeypatch, at):
    monkeypatch.chdir(tmp_path)
    result = ore("hi", "--artifact-out", at, replies=["1e5 \u20ac \x7f"])
    document = json.loads(result.out if at == "-" else (tmp_path / at).read_text())
    assert breaks(document) == []
    own = document["provenance"].pop("self_sha256")
    assert own == digest(document)


def test_the_digest_and_version_of_ollama_are_asked_for_and_the_context_is_kept(ore, server, path):
    ore("hi", "--model", "mistral", "--artifact-out", str(path), open_backend=open_backend)
    found = json.loads(path.read_text())["provenance"]
    listed = {each["name"]: each["digest"] for each in OllamaClient(as_host(server.url)).tags()}
    assert found["model_digest"] == listed["mistral:latest"] and len(found["model_digest"]) == 64
    assert found["server_version"] == OllamaClient(as_host(server.url)).version()
    assert found["context"]["window"] == 4096
    assert found["messages_sha256"] == digest(server.chats[0].json["messages"])


@pytest.mark.parametrize(
    "at, lost", [("/api/version", "server_version"), ("/api/tags", "model_digest")]
)
def test_what_the_server_does_not_say_is_null_and_the_turn_succeeds(ore, server, path, at, lost):
    server.use("html-502", on=at)
    result = ore("hi", "--model", "mistral", "--artifact-out", str(path), open_backend=open_backend)
    found = json.loads(path.read_text())["provenance"]
    assert result.code == 0
    assert [key for key in ("server_version", "model_digest") if found[key] is None] == [lost]


@pytest.mark.invariant
@pytest.mark.parametrize("more", [["--artifact-full"], ["-f", "HOME/note.txt"]], ids=" ".join)
def test_no_secret_and_no_home_is_in_an_artifact(
    ore, server, path, home, writing, monkeypatch, more
):
    for name in ("OLLAMA_API_KEY", "OPENAI_API_KEY", "ORE_SECRET"):
        monkeypatch.setenv(name, "s3cret-value")
    (home / "note.txt").write_text("a note")
    (home / "persona.md").write_text("Rhyme.")
    flags = ["--skill", "writing", "--system", f"@{home}/persona.md"]
    flags += [word.replace("HOME", str(home)) for word in more]
    ore("hi", "--model", "mistral", *flags, "--artifact-out", str(path), open_backend=open_backend)
    text = path.read_text()
    assert ("file:~/note.txt" in text) == ("-f" in more)
    assert "s3cret" not in text and str(home) not in text and server.url not in text


@pytest.mark.invariant
@pytest.mark.parametrize(
    "value, kept",
    [
        (2**53, "9007199254740992"),
        ([-(2**70)], ["-1180591620717411303424"]),
        ("half \ud83d", '"half \\ud83d"'),
        ({"\ud83d": 1}, {'"\\ud83d"': 1}),
        (2**53 - 1, 2**53 - 1),
        ("whole", "whole"),
    ],
    ids=repr,
)
def test_no_number_or_text_of_a_server_takes_the_seal_off(ore, path, value, kept):
    document = record(path, "hi", metadata={"load_duration": value})
    assert document["output"]["metadata"]["load_duration"] == kept
    assert breaks(document) == [] and ore("--verify", str(path)).code == 0
    rewrite(path, lambda d: d["output"].update(content="No."))
    assert ore("--verify", str(path)).code == 3


def test_no_version_or_digest_of_a_server_takes_the_seal_off(ore, path):
    class Odd(ScriptedBackend):
        def provenance(self, model_id):
            return {"server_version": "1\ud83d", "model_digest": 2**60}

    ore("hi", "--artifact-out", str(path), open_backend=lambda *_: Odd(["Paris."]))
    found = json.loads(path.read_text())["provenance"]
    assert (found["server_version"], found["model_digest"]) == ('"1\\ud83d"', str(2**60))
    assert ore("--verify", str(path)).code == 0
    again = ore("--replay", str(path), open_backend=lambda *_: Odd(["Paris."]))
    assert again.code == 0


def test_a_server_s_own_numbers_do_not_take_the_seal_off(ore, server, path):
    server.use("huge-metrics")
    ore("hi", "--model", "mistral", "--artifact-out", str(path), open_backend=open_backend)
    assert "load_duration" not in json.loads(path.read_text())["output"]["metadata"]
    assert ore("--verify", str(path)).code == 0


def test_a_reasoner_s_own_numbers_do_not_take_the_seal_off(ore, path):
    ore("hi", "--artifact-out", str(path), metadata={"n": 2**60})
    assert json.loads(path.read_text())["output"]["metadata"]["n"] == str(2**60)
    assert ore("--verify", str(path)).code == 0


@pytest.mark.slow
def test_what_no_artifact_can_hold_is_refused_before_it_is_sealed(ore, path):
    metadata = {"logprobs": [{"token": "a", "logprob": -1.0}] * 600_000}
    began = time.process_time()
    json.dumps(metadata)
    once = time.process_time() - began
    result = ore("hi", "--artifact-out", str(path), metadata=metadata)
    assert (result.code, result.out) == (1, "Paris.\n") and not path.exists()
    assert "kept as an artifact: it is larger than 16,777,216 bytes." in result.err
    assert time.process_time() - began < 6 * once


def test_what_cannot_be_sealed_is_not_written_and_the_answer_is_shown(ore, path):
    result = ore("hi", "--artifact-out", str(path), metadata={"odd": {1, 2}})
    assert (result.code, result.out) == (1, "Paris.\n") and not path.exists()
    assert result.err.startswith("ore: The turn can't be kept as an artifact: ")


def test_a_schema_without_canonical_form_is_kept_as_text_and_replayed_as_it_was(ore, path):
    schema = {"type": "integer", "maximum": 2**63 - 1}
    flags = ["--schema", json.dumps(schema), "--artifact-out", str(path)]
    assert ore("hi", *flags, replies=["7"]).code == 0
    assert json.loads(path.read_text())["provenance"]["options"]["format"] == json.dumps(schema)
    assert ore("--verify", str(path)).code == 0
    again = ore("--replay", str(path), replies=["7"])
    assert (again.code, again.backend.settings.format) == (0, schema)


@pytest.mark.parametrize("levels", [65, 400])
def test_an_answer_nested_too_deep_to_be_kept_is_shown_and_that_is_reported(ore, path, levels):
    deep: dict = {}
    for _ in range(levels):
        deep = {"deep": deep}
    result = ore("hi", "--artifact-out", str(path), metadata=deep)
    assert (result.code, result.out) == (1, "Paris.\n") and not path.exists()
    assert result.err.startswith("ore: The turn can't be kept as an artifact: ")


def test_artifact_full_needs_artifact_out(ore):
    result = ore("hi", "--artifact-full")
    assert result.code == 2 and "--artifact-out" in result.err and result.calls == []


def test_a_turn_without_an_artifact_asks_for_no_digest(ore, server):
    assert ore("hi", "--model", "mistral", open_backend=open_backend).code == 0
    paths = [seen.path for seen in server.requests]
    assert "/api/tags" not in paths and "/api/version" not in paths


LONG = "é" * (LONGEST_KEPT_TEXT // 2)


@pytest.mark.parametrize(
    "flags, kept",
    [
        ([], load_aya_system_prompt()),
        (["--no-system"], None),
        (["--system", "Rhyme."], "Rhyme."),
        (["--system", "Rhyme.", "--artifact-hashes-only"], None),
        (["--system", LONG], LONG),
        (["--system", LONG + "é"], None),
        (["--system", LONG + "é", "--artifact-text"], LONG + "é"),
    ],
    ids=["aya", "none", "own", "hashes only", "long", "too long", "too long and asked for"],
)
def test_the_text_of_the_system_prompt_is_kept_and_fits_its_hash(ore, path, flags, kept):
    provenance = record(path, "hi", *flags)["provenance"]
    assert provenance["system_prompt"] == kept
    if kept is not None:
        assert provenance["sources"][0]["sha256"] == sha256(kept)
    assert ore("--verify", str(path)).code == 0


def test_a_kept_system_prompt_that_does_not_fit_its_hash_is_broken(ore, path):
    document = record(path, "hi")
    document["provenance"]["system_prompt"] = "Lie."
    path.write_text(json.dumps(seal(document)))
    result = ore("--verify", str(path))
    assert result.code == 3
    assert "provenance.system_prompt does not fit its hash in provenance.sources" in result.out


@pytest.mark.parametrize(
    "flags, is_told",
    [
        (["--system", "Rhyme.", "--artifact-hashes-only"], True),
        (["--system", LONG + "é"], True),
        (["--system", "Rhyme."], False),
        (["--artifact-hashes-only"], False),
        (["--no-system", "--artifact-hashes-only"], False),
        (["--system", LONG + "é", "--artifact-full"], False),
    ],
)
def test_a_system_prompt_that_only_this_machine_has_is_told(ore, path, flags, is_told):
    result = ore("hi", "--artifact-out", str(path), *flags)
    assert result.code == 0
    assert ("--artifact-text keeps it" in result.err) is is_told


@pytest.mark.parametrize("keeps", [("--artifact-out", "out"), ("--runs", "log"), ()], ids=str)
def test_rows_tell_it_once_of_all_their_artifacts(ore, folder, keeps):
    (folder / "t.csv").write_text("a\n1\n2\n")
    given = [*keeps, "--artifact-hashes-only"] if keeps else []
    result = ore("--rows", "t.csv", "{{a}}", "--system", "Rhyme.", *given)
    assert (result.code, result.err.count("--artifact-text keeps it")) == (0, len(keeps[:1]))
    again = ore("--rows", "t.csv", "{{a}}", "--system", "Rhyme.", *keeps)
    assert (again.code, "--artifact-text" in again.err) == (0, False)


def test_rows_without_an_answer_tell_of_no_artifact(ore, folder):
    (folder / "t.csv").write_text("a\n1\n")
    flags = ["--artifact-out", "out", "--artifact-hashes-only", "--system", "Rhyme."]
    result = ore("--rows", "t.csv", "{{a}}", *flags, replies=[BackendError("No.")])
    assert (result.code, "--artifact-text" in result.err) == (1, False)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has /dev/full")
def test_a_turn_whose_artifact_could_not_be_written_tells_of_none(ore):
    flags = ["--artifact-out", "/dev/full", "--artifact-hashes-only", "--system", "Rhyme."]
    result = ore("hi", *flags)
    assert (result.code, "--artifact-text" in result.err) == (1, False)


@pytest.mark.parametrize("how", ["-c", "-i"])
def test_what_concerns_every_turn_is_said_once_in_a_run(ore, folder, how):
    flags = [how, "--runs", "log", "--system", "Rhyme.", "--artifact-hashes-only"]
    noted = {"notes": ["The template is an odd one."]}
    result = ore(*flags, stdin="one\ntwo\n", replies=["1", "2"], metadata=noted)
    assert result.code == 0 and result.out == "1\n2\n"
    assert result.err.count("--artifact-text keeps it") == 1
    assert result.err.count("The template is an odd one.") == 1


def test_what_concerns_every_turn_is_said_in_a_session_that_goes_on(ore, path):
    """Its first turn has no artifact and another model, which has no such template."""
    assert ore("one", "-S", "s", "--system", "Rhyme.").code == 0
    flags = ["-S", "s", "--artifact-out", str(path), "--artifact-hashes-only"]
    result = ore("two", *flags, metadata={"notes": ["The template is an odd one."]})
    assert result.code == 0 and "--artifact-text keeps it" in result.err
    assert "The template is an odd one." in result.err
