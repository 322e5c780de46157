"""What was in force in a turn: each parameter with its value, and where that came from."""

from __future__ import annotations

import hashlib
import json
from http.client import HTTPException
from pathlib import Path
from types import SimpleNamespace

import pytest

from ore.backends import choice, engine_facts
from ore.backends.effective import (
    FACTS,
    PARAMETERS,
    effective,
    in_words,
    parameters_of,
    without_sampling,
)
from ore.backends.ollama_models import in_force
from ore.backends.settings import Settings
from ore.files.neutral import word
from tests.support.fake_ollama import FakeOllama

SHOWN = {
    "parameters": 'stop    "<|eot_id|>"\nstop    "\\n\\n"\ntemperature    0.6\nnum_ctx    8192\nmirostat    2',
    "template": "{{ .Prompt }}",
    "details": {"quantization_level": "Q4_K_M"},
    "model_info": {"general.parameter_count": 3_212_749_888},
}


@pytest.mark.parametrize(
    "layers, name, expected",
    [
        ({}, "temperature", (None, None)),
        ({"server": {}}, "temperature", (None, "server default")),
        ({"server": {"temperature": 0.8}}, "temperature", (0.8, "server default")),
        ({"server": {"top_k": 1}, "model": {"top_k": 2}}, "top_k", (2, "model")),
        ({"model": {"top_k": 2}, "ore": {"top_k": 3}}, "top_k", (3, "ore")),
        ({"ore": {"top_k": 3}, "user": {"top_k": 4}}, "top_k", (4, "user")),
        ({"user": {"seed": 0}}, "seed", (0, "user")),
        ({"user": {"num_gpu": 0}}, "num_gpu", (0, "user")),
        ({}, "num_ctx", (None, None)),
        ({"window": 4096}, "num_ctx", (4096, "server default")),
        ({"window": 4096, "ore": {"num_ctx": 4096}}, "num_ctx", (4096, "ore")),
        ({"window": 4096, "user": {"num_ctx": 4096}}, "num_ctx", (4096, "user")),
        ({"window": 2048, "user": {"num_ctx": 4096}}, "num_ctx", (2048, "model")),
        ({"window": 8192, "user": {"num_ctx": 4096}}, "num_ctx", (8192, "server default")),
    ],
)
def test_the_nearest_to_the_user_is_in_force(layers, name, expected):
    told = effective(layers.pop("user", {}), **layers)
    assert told["parameters"][name] == dict(zip(("value", "from"), expected))
    assert set(told) == {"parameters", *FACTS} and set(told["parameters"]) >= set(PARAMETERS)


@pytest.mark.parametrize(
    "text, expected",
    [
        (None, {}),
        (7, {}),
        ("", {}),
        ("temperature", {}),
        ("temperature hot", {}),
        ("secret 1\nhost http://x", {}),
        ("temperature                    0.6", {"temperature": 0.6}),
        ('stop "a b"\nstop x\nstop "\\x41"', {"stop": ["a b", "x", "\\x41"]}),
        ("num_ctx 99999999999999999999999", {}),
        ("seed 1.234567e+06\nnum_predict 1e+06", {"seed": 1234567, "num_predict": 1000000}),
        ('num_ctx -1.5e+00\nseed 1e+99\nstop "1e+06"', {"stop": ["1e+06"]}),
        ("top_k 1\n" * 100_000, {"top_k": 1}),
    ],
)
def test_what_a_model_sets_is_read(text, expected):
    assert parameters_of(text) == expected


@pytest.mark.parametrize("value", [None, 1, "", "a\nb", "\x1b[2J", "x" * 41, ["Q4"]])
def test_what_is_no_word_of_a_server_is_not_kept(value):
    assert word(value) is None


def test_what_ollama_says_is_told():
    told = effective({"top_k": 5, "num_thread": 2}, **in_force(SHOWN, {"num_thread": 2}))
    rows = told["parameters"]
    assert rows["temperature"] == {"value": 0.6, "from": "model"}
    assert rows["stop"] == {"value": ["<|eot_id|>", "\n\n"], "from": "model"}
    assert rows["top_k"] == {"value": 5, "from": "user"}
    assert rows["top_p"] == {"value": None, "from": "server default"}
    assert (told["quantization"], told["parameter_count"]) == ("Q4_K_M", 3_212_749_888)
    assert told["template_sha256"] == hashlib.sha256(b"{{ .Prompt }}").hexdigest()
    assert (told["threads"], told["batch"]) == (2, None) and "mirostat" not in rows


LIES = [
    {"parameters": [], "template": 1, "details": [], "model_info": "x"},
    {"details": {"quantization_level": "\x1b[2J"}, "model_info": {"general.parameter_count": "1"}},
    {"details": {"quantization_level": {}}, "model_info": {"general.parameter_count": -1}},
    {"template": "\ud800"},
]


@pytest.mark.parametrize("shown", LIES)
def test_what_a_server_gets_wrong_is_not_known(shown):
    told = effective({}, **in_force(shown, {}))
    assert all(told[name] is None for name in FACTS if name != "template_sha256")
    json.dumps(told, allow_nan=False)


def test_it_is_said_in_one_line_what_was_chosen_first_and_the_defaults_counted():
    layers = {"ore": {"temperature": 0}, "server": {"top_k": 40}, "model": {"seed": 3}}
    facts = {"threads": 2, "template_sha256": "ab" * 32}
    text = in_words(effective({"stop": ["\n"]}, **layers, facts=facts), samples=True)
    assert text.startswith('In force: stop=["\\n"] (user), seed=3 (model), threads=2, template_')
    assert text.endswith(" and 2 defaults and 14 not known (`ORE.record()` lists all).")
    assert "temperature" not in text and len(text) < 200 and "\n" not in text


def test_where_nothing_was_chosen_the_line_is_a_count():
    said = "In force: 20 not known (`ORE.record()` lists all)."
    assert in_words(effective({}), samples=True) == said


def test_what_nothing_is_sampled_with_is_not_said_to_be_unknown():
    asked = {"user": {"num_ctx": 512, "seed": 3}, "facts": {"threads": 2}}
    text = in_words(effective(**without_sampling(asked)), samples=False)
    assert text.startswith("In force: num_ctx=512 (user), threads=2 and 5 not known")
    told = effective({"num_ctx": 512}, facts=dict.fromkeys(FACTS, 1))
    assert "not known" not in in_words(told, samples=False)
    assert "13 not known" in in_words(told, samples=True)


@pytest.fixture
def server(monkeypatch):
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


def asked(server) -> list[str]:
    return [seen.path for seen in server.requests]


@pytest.mark.parametrize(
    "flags, shows",
    [
        ([], 0),
        (["--json"], 0),
        (["--stream"], 0),
        (["-v", "-q"], 0),
        (["-v"], 1),
        (["--artifact-out"], 1),
        (["--runs", "runs"], 1),
        (["-v", "--artifact-out", "a.json", "--runs", "runs"], 1),
    ],
)
@pytest.mark.invariant
def test_a_plain_turn_pays_nothing_and_any_other_one_look_up_after_the_answer(
    ore, server, tmp_path, monkeypatch, flags, shows
):
    monkeypatch.chdir(tmp_path)
    result = ore("hi", "-m", "llama3.2", *flags, open_backend=choice.open_backend)
    paths = asked(server)
    assert result.code == 0 and paths.count("/api/show") == shows
    assert "/api/show" not in paths[: paths.index("/api/chat")]


def test_an_artifact_and_the_line_of_a_turn_tell_it(ore, server):
    flags = ["-m", "llama3.2", "-o", "seed=7", "-v", "--artifact-out"]
    result = ore("hi", *flags, open_backend=choice.open_backend)
    told = result.json["provenance"]["effective"]
    assert told["parameters"]["seed"] == {"value": 7, "from": "user"}
    assert told["parameters"]["stop"] == {"value": ["<|eot_id|>"], "from": "model"}
    assert told["quantization"] == "Q4_K_M" and told["template_sha256"]
    assert 'In force: seed=7 (user), stop=["<|eot_id|>"] (model)' in result.err
    assert server.url not in result.out


@pytest.mark.parametrize("scenario", ["show-old", "show-bare", "not-found-text"])
def test_a_server_that_does_not_say_leaves_it_open(ore, server, scenario, tmp_path):
    server.use(scenario, on="/api/show")
    result = ore("hi", "-m", "llama3.2", "--artifact-out", open_backend=choice.open_backend)
    rows = result.json["provenance"]["effective"]["parameters"]
    assert result.code == 0 and rows["temperature"]["value"] is None
    path = tmp_path / "run.json"
    path.write_text(result.out)
    assert ore("--verify", str(path)).code == 0


def test_a_backend_that_says_nothing_tells_what_the_user_set(ore):
    result = ore("hi", "-o", "top_k=5", "--artifact-out")
    told = result.json["provenance"]["effective"]
    assert told["parameters"]["top_k"] == {"value": 5, "from": "user"}
    assert told["parameters"]["temperature"] == {"value": None, "from": None}
    assert all(told[name] is None for name in FACTS)


@pytest.mark.parametrize(
    "more", [{"modelfile": "FROM x\nTEMPLATE y\nRENDERER qwen3-coder\n"}, {"renderer": "qwen3-vl"}]
)
def test_a_template_in_whose_place_the_servers_own_code_writes_the_prompt_is_not_in_force(more):
    told = effective({}, **in_force({**SHOWN, **more}, {}))
    assert told["template_sha256"] is None and told["quantization"] == "Q4_K_M"


@pytest.mark.parametrize("error", [OSError, ValueError, KeyError, RecursionError, HTTPException])
def test_an_engine_that_does_not_answer_costs_no_turn(error):
    def ask(path):
        raise error

    engine = SimpleNamespace(
        properties={"default_generation_settings": {"n_ctx": 512}},
        **{"template": "", "path": Path("/nowhere"), "computes_with": {"threads": 1}, "ask": ask},
    )
    told = effective(**engine_facts.in_force(engine, Settings(), -1), window=512)
    assert told["parameter_count"] is told["template_sha256"] is None and told["threads"] == 1
    assert told["parameters"]["num_ctx"] == {"value": 512, "from": "model"}


def test_a_repl_tells_it_where_it_has_changed(ore, server):
    lines = "one\ntwo\n/bye\n"
    result = ore("-c", "-v", "-m", "llama3.2", stdin=lines, open_backend=choice.open_backend)
    assert result.err.count("[Metadata]: ") == 3 and result.err.count("In force: ") == 1
