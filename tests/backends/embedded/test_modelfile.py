"""What stands beside a model's weights: what is applied, and what is said of the rest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ore.backends.model_names import parse_name
from ore.backends.modelfile import Modelfile, read_modelfile
from ore.backends.shelf import Shelf
from ore.errors import FileAccessError
from tests.support.gguf import CHATML
from tests.support.shelves import put_model

GO_CHATML = (
    "{{- range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n{{ end }}"
    "<|im_start|>assistant\n"
)


def made(root: Path, **layers) -> Modelfile:
    put_model(root, "tiny", b"GGUF", **layers)
    shelf, name = Shelf(root), parse_name("tiny")
    return read_modelfile(shelf, name, shelf.manifest(name))


def test_parameters_are_typed_and_what_the_engine_does_not_have_is_said(tmp_path):
    params = {
        **{"temperature": 1, "num_ctx": 2048, "stop": ["a", "b"], "top_k": 5, "min_p": 1e-05},
        **{"num_thread": 4, "mirostat": 1, "top_p": "0.9", "seed": 1.5, "cache_prompt": True},
    }
    found = made(tmp_path, params=params)
    assert found.parameters == {
        **{"temperature": 1.0, "num_ctx": 2048, "stop": ["a", "b"], "top_k": 5, "min_p": 1e-05}
    }
    (note,) = found.notes
    assert "does not apply num_thread, mirostat, top_p, seed, cache_prompt" in note


@pytest.mark.parametrize("params", [{"num_ctx": -5}, {"num_ctx": 255}, {"repeat_penalty": 0}])
def test_a_value_that_the_engine_can_t_have_is_not_applied(tmp_path, params):
    found = made(tmp_path, params=params)
    assert found.parameters == {} and f"does not apply {[*params][0]}" in found.notes[0]


@pytest.mark.parametrize("stop", [[""], [7], ["x"] * 65, ["x" * 1001], {"a": 1}, None])
def test_a_stop_that_is_none_is_not_applied(tmp_path, stop):
    found = made(tmp_path, params={"stop": stop})
    assert found.parameters == {} and "does not apply stop" in found.notes[0]


@pytest.mark.parametrize("config, said", [({}, 1), ({"renderer": "olmo3"}, 0)])
def test_nothing_is_said_of_a_template_in_whose_place_code_of_ollama_s_writes(
    tmp_path, config, said
):
    found = made(tmp_path, config=config, template="{{ .Prompt }}")
    assert len(found.about_template("{{ 'You are a helpful assistant.' }}")) == said


def test_a_name_of_a_parameter_is_shown_and_never_obeyed(tmp_path):
    (note,) = made(tmp_path, params={"\x1b[2J\n" + "x" * 500: 1}).notes
    assert note.isprintable() and len(note) < 400


def test_texts_are_not_sent_and_that_is_said(tmp_path):
    found = made(tmp_path, system="Be a pirate.", messages=[{"role": "user", "content": "Hi"}])
    assert found.notes == (
        "Of tiny as Ollama runs it: its system prompt and its example messages are not sent.",
    )
    assert "its system prompt is not sent" in made(tmp_path, system="x").notes[0]
    assert made(tmp_path).notes == ()


def test_what_is_for_images_and_for_speed_is_said(tmp_path):
    (note,) = made(tmp_path, projector=b"GGUF", draft=b"GGUF2").notes
    assert "can't look at images here" in note and "draft model is not used" in note


def test_parameters_that_can_t_be_read_are_an_error_and_a_template_is_not(tmp_path):
    with pytest.raises(FileAccessError, match="parameters of tiny"):
        made(tmp_path, params="{")
    found = made(tmp_path, template="x" * (1 << 21))
    assert found.template is None and "template can't be read" in found.notes[0]


WITH_DEFAULT = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a helpful AI assistant<|im_end|>\\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


@pytest.mark.parametrize(
    "ollama, own, said",
    [
        (GO_CHATML, CHATML, []),
        (None, CHATML, []),
        (GO_CHATML, WITH_DEFAULT, ["it can write 'You are a helpful AI assistant'"]),
        ("[INST] {{ .Prompt }} [/INST]", CHATML, ["Ollama's can write '[/INST], [INST]'"]),
        (
            "{{ if .Tools }}You may call these functions.{{ end }}" + GO_CHATML,
            "{% if tools %}{{ 'Here is a list of tools' }}{% endif %}" + CHATML,
            [],
        ),
        (
            "{{ if .Tools }}x{{ else }}Today is a good day.{{ end }}" + GO_CHATML,
            CHATML,
            ["Ollama's can write 'Today is a good day'"],
        ),
        ("<|begin_of_text|>" + GO_CHATML, CHATML, []),
        (GO_CHATML, CHATML + "{{ raise_exception('Roles must alternate here') }}", []),
        (GO_CHATML, CHATML + "{# A comment of many words #}", []),
        ("{{ end }}{{ end }}{% endif %}" + GO_CHATML, CHATML, []),
    ],
)
def test_a_template_that_writes_other_things_is_said_once(ollama, own, said):
    notes = Modelfile(template=ollama).about_template(own)
    assert len(notes) == bool(said)
    for text in said:
        assert text in notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("text", ["{{ if ", "{% if x %}", "{{ ' }}", "{{", "\"'", "{{'\\"])
def test_a_hostile_template_is_read_in_one_pass(text):
    Modelfile(template=text * 50_000).about_template(text * 50_000)


def test_quotes_without_an_end_are_looked_at_once():
    text = "{{ " + '"\\' * 32_000 + " }}"
    started = time.process_time()
    Modelfile(template=text).about_template("{{ 'x' }}" + text)
    assert time.process_time() - started < 2  # with a look at the rest for each, it is a minute


def test_the_condition_of_a_block_is_looked_at_once():
    text = "{% if " + "\u0130" * 32_000 + " %}" + "{{}}" * 8_000
    started = time.process_time()
    Modelfile(template=text).about_template("{{ 'x' }}" + text)
    assert time.process_time() - started < 2  # with a look at it in each action, it is 20 s


@pytest.mark.parametrize(
    "quoted, said",
    [
        ("'one two three'", "'one two three'"),
        ('x "one two three" + y', "'one two three'"),
        ('don\'t print "one two three"', "'one two three'"),
        ("\"one \\\" 'two three four'", "'two three four'"),
        ('"one two three', ""),
    ],
)
def test_texts_in_quotes_are_found_also_behind_a_quote_without_an_end(quoted, said):
    notes = Modelfile(template="").about_template("{{ " + quoted + " }}")
    assert (said in notes[0]) if said else notes == ()
