"""A run file: what may stand in it, and what is said of the rest."""

from __future__ import annotations

import hashlib
import tracemalloc

import pytest

from ore.errors import FileAccessError, OreError, UsageError
from ore.glass.planned import is_plan
from ore.rows.run_file import KEYS, parse_run_file
from tests.support.closed import beside_a_closed_folder


def read(text: str | bytes, path: str = "f.ore"):
    return parse_run_file(text.encode() if isinstance(text, str) else text, path)


def test_a_text_alone_is_a_prompt():
    file = read("  Say hello to {{name}}.\n\n")
    assert file.template.fill({"name": "Bo"}) == "Say hello to Bo."
    assert (file.model, file.options, file.system, file.expect) == (None, (), None, {})


def test_everything_that_may_stand_in_it():
    text = """#!/usr/bin/env -S ore --run
---
# a comment
model: mistral@sha256:0123456789ab
options:
  temperature: 0
  seed: 7
  stop: [END, "###"]
system: You answer in one word.
skill: pdf-tools
files: [notes.txt, ~/more]
schema: {type: object}
think: off
expect:
  contains: Paris
---
What is {{this}}?
"""
    file = read(text, "prompts/f.ore")
    assert file.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert file.model == "mistral@sha256:0123456789ab"
    assert file.options == ("temperature=0", "seed=7", "stop=END", "stop=###")
    assert (file.system, file.persona, file.skill) == ("You answer in one word.", None, "pdf-tools")
    assert file.files[0] == "prompts/notes.txt" and file.files[1].endswith("/more")
    assert (file.schema, file.think) == ('{"type": "object"}', "off")
    assert file.expect == {"contains": "Paris"}
    assert file.template.names == ("this",)


def test_crlf_a_byte_order_mark_and_no_frontmatter_are_the_same_prompt():
    expected = read("---\nthink: on\n---\nOne\nTwo").template
    assert read(b"\xef\xbb\xbf---\r\nthink: on\r\n---\r\nOne\r\nTwo\r\n").template == expected
    assert read(b"\xef\xbb\xbfOne\r\nTwo\r\n").template == expected
    assert read("#!/usr/bin/env -S ore --run\nOne\nTwo").template == expected


def test_relative_paths_are_the_files_own(tmp_path):
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    (tmp_path / "shape").write_text("{}")
    at = str(tmp_path / "f.ore")
    head = "---\nmodel: m.gguf\nsystem: '@voice.md'\nfiles: a.txt\nschema: shape.json\n---\nx"
    file = read(head, at)
    assert file.model_for(None) == str(tmp_path / "m.gguf")
    assert file.model_for("openai") == "m.gguf"
    assert file.system == f"@{tmp_path}/voice.md"
    assert file.files == (str(tmp_path / "a.txt"),)
    assert file.schema == str(tmp_path / "shape.json")
    assert read("---\nschema: shape\n---\nx", at).schema == str(tmp_path / "shape")
    assert read("---\nschema: name, age int\n---\nx", at).schema == "name, age int"
    assert read("---\nmodel: llama3.2\n---\nx", at).model == "llama3.2"
    expects = read("---\nexpect: {schema: shape.json}\n---\nx", at).expect
    assert expects == {"schema": str(tmp_path / "shape.json")}
    assert read("---\nfiles: /etc/hosts\n---\nx", at).files == ("/etc/hosts",)


def test_a_model_whose_folder_is_closed_is_looked_for_beside_the_run_file():
    with beside_a_closed_folder() as (there, closed):
        path = f"{there}/f.ore"
        (there / "models").symlink_to(closed)
        file = parse_run_file(b"---\nmodel: models/m.gguf\n---\nx", path)
        assert file.model_for(None) == f"{there}/models/m.gguf"


def test_words_to_choose_from_may_be_a_list_a_text_or_a_file():
    assert read("---\nchoose: ['yes', 'no']\n---\nx").choose == "yes\nno"
    assert read("---\nchoose:\n- a, b\n- c\n---\nx").choose == "a, b\nc"
    assert read("---\nchoose: good,bad\n---\nx").choose == "good,bad"
    assert read("---\nchoose: '@words.txt'\n---\nx", "p/f.ore").choose == "@p/words.txt"
    assert read("---\nchoose: |\n  a, b\n  c\n\n---\nx").choose == "a, b\nc"
    assert read("---\nchoose: |+\n  a\n  b\n\n\n---\nx").choose == "a\nb"
    assert read("---\nchoose: >\n  good,\n  bad\n---\nx").choose == "good, bad"
    assert read("---\nchoose: >\n  @words.txt\n---\nx", "p/f.ore").choose == "@p/words.txt"
    assert read("---\nchoose:\n- |\n  a\n- b\n---\nx").choose == "a\nb"


def test_no_system_prompt_is_an_empty_one_and_two_braces_are_written_as_in_the_prompt():
    assert read("---\nsystem: ''\n---\nx").system == ""
    assert read("---\nsystem: 'Write \\{{x}}.'\n---\nx").system == "Write {{x}}."


WRONG = {
    "---\nmodel: a\nmodell: b\nfoo: c\n---\nx": r"'modell', 'foo' \(did you mean model\?\): there are model, ",
    "---\nsystem: a\npersona: b\n---\nx": "both system and persona",
    "---\nsystem: In {{city}}\n---\nx": r"'system' .* the places 'city': only the prompt",
    "---\nsystem: In {{\n---\nx": "'system' .* two braces",
    "---\nfiles: ['{{a}}.txt']\n---\nx": r"'files' .* the places 'a'",
    "---\nmodel: 5\n---\nx": "'model' .* 5, a whole number: put it in quotes",
    "---\nmodel: yes\n---\nx": "'model' .* true, which YAML makes of on, yes and true",
    "---\nmodel: no\n---\nx": "'model' .* false, which YAML makes of off, no and false",
    "---\nmodel: [a]\n---\nx": "'model' .* a list",
    "---\nmodel:\n---\nx": "'model' .* needs a text",
    '---\nmodel: "~\\0.gguf"\n---\nx': "The key 'model' of f.ore has a NUL, which no name",
    '---\nfiles: ["~\\0"]\n---\nx': "The key 'files' of f.ore has a NUL, which no name",
    "---\noptions: 5\n---\nx": "'options' .* temperature: 0",
    "---\noptions: {seed: {a: 1}}\n---\nx": "'options' .* a mapping for 'seed'",
    "---\noptions: {seed: [1, 2]}\n---\nx": "'options' .* a list for 'seed'",
    "---\nchoose: [yes, no]\n---\nx": "'choose' .* true, which YAML makes of on, yes and true",
    "---\nchoose: [a]\n---\nx": "'choose' .* two words or more",
    "---\nchoose: '@'\n---\nx": "'choose' .* needs a text, not nothing",
    '---\nchoose: ["a\\nb", c]\n---\nx': "'choose' .* two words or more",
    "---\nchoose: [a, a]\n---\nx": "'choose' .* can't be chosen from: 'a' is there twice; take one out",
    "---\nchoose: ['{{a}}', b]\n---\nx": "'choose' .* the places 'a'",
    "---\nthink: maybe\n---\nx": "'think' .* must be on, off.*, not 'maybe'",
    "---\nexpect: Paris\n---\nx": "'expect' .* contains: Paris",
    "---\nschema: {a: 2020-01-01}\n---\nx": "'schema' .* not JSON",
    "---\nmodel: a\nmodel: b\n---\nx": "line 3: there are two values for the key 'model'",
    "#!/bin/ore\n---\nmodel: a\nmodel: b\n---\nx": "line 4: there are two values",
    "---\na: &a [x]\nb: *a\n---\nx": "an anchor or an alias",
    f"---\n? 0x{'f' * 5000}\n: 1\n---\nx": "a value that can't be read",
    f"---\nexpect: {{schema: {{maximum: 0x{'f' * 5000}}}}}\n---\nx": "a value that can't be read",
    "---\na: !!python/object:os.system x\n---\nx": "a YAML tag",
    "---\n- a\n---\nx": "not a mapping",
    "---\nmodel: a\nx": "no line '---' closes",
    "---\nmodel: a\n---\n\n  \n": "has no prompt",
    "": "has no prompt",
    "#!/usr/bin/env ore": "has no prompt",
    "---\nmodel: a\n---\n\nWhat {{is\n": "two braces in line 5",
    "---\n" + "[" * 1000 + "\n---\nx": "nested deeper|not valid YAML",
    "---\nmodel: " + "a" * 70_000 + "\n---\nx": "in 65,536 bytes",
}


@pytest.mark.parametrize("text, said", WRONG.items(), ids=range(len(WRONG)))
def test_what_is_wrong_is_said_in_one_sentence(text, said):
    with pytest.raises(UsageError, match=said) as raised:
        read(text)
    assert len(str(raised.value)) < 600 and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "above",
    [
        *("---  ", "--- # a comment", "\n---", "#!/usr/bin/ore\n\n---", "\ufeff \n---\t"),
        *("# a comment\n---", "#!/usr/bin/ore\n# a comment\n\n---", "\n---\n# a comment\n"),
        *("\ufeff\ufeff---", "\u200b---", "\u00a0---", "----", "# a comment\n-----"),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_keys_are_not_sent_as_a_prompt_where_the_line_above_them_is_not_quite_right(above, end):
    text = f"{above}\nmodel: other\n---\nHello".replace("\n", end)
    if end == "\r" and "#!" in text:
        text = text.replace(end, "\n", 1)  # else all of it is the first line
    with pytest.raises(UsageError, match="its keys must begin with a line '---': the first line"):
        read(text)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "----\nNote: b",
            "----\nmodel: T\n",
            "---- \na: b",
            "\n---\n",
            "Two:\n---\na: b",
            "--- a: b",
            "# Notes\n---\nsummary: b",
        ),
        *("# Which?\n\n---\n\noptions: a or b", "# Who?\n---\n# Where?\nsystem: an engine"),
    ],
)
def test_a_line_of_dashes_may_stand_in_a_prompt(text):
    assert read(text).template.parts == (text.strip(),)


def test_a_prompt_takes_no_more_memory_than_some_times_its_size():
    text = b"\n" * (1 << 20) + b"Hi"
    tracemalloc.start()
    try:
        assert read(text).template.parts == ("Hi",)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_an_unknown_key_is_answered_with_all_that_are_known():
    with pytest.raises(UsageError) as raised:
        read("---\nnope: 1\n---\nx")
    assert str(raised.value).endswith(", ".join(KEYS) + ".")


@pytest.mark.parametrize(
    "data", [b"a\0b", b"\xff\xfe", b"caf\xe9 {{x}}", b"---\nmodel: \xe9\n---\nx"]
)
def test_what_is_not_text_is_no_run_file(data):
    with pytest.raises(FileAccessError, match="f.ore is not (text|UTF-8)"):
        read(data)


def test_all_places_without_a_value_and_all_values_without_a_place_are_named():
    file = read("{{a}} {{b}} {{stdin}}")
    with pytest.raises(
        UsageError, match=r"no value for 'b' and no place for 'y', 'z': give `values.'b'.`"
    ):
        file.check_values({"a": "", "y": "", "z": ""}, stdin=True)
    with pytest.raises(UsageError, match="no value for 'stdin': give `values.'stdin'.`."):
        file.check_values({"a": "", "b": ""}, stdin=False)
    with pytest.raises(UsageError, match="'stdin': give `values.'b'.` and `values.'stdin'.`."):
        file.check_values({"a": ""}, stdin=False)
    with pytest.raises(UsageError, match="no place for 'x': it has none: write {{NAME}} where"):
        read("Hello").check_values({"x": ""}, stdin=True)
    read("Hello").check_values({}, stdin=True)


def test_a_plan_is_told_by_its_name_or_its_beginning():
    assert is_plan(b"anything", "a.JSON")
    assert is_plan(b'\xef\xbb\xbf {\n "plan_version": "ore.plan.v1"', "a.plan")
    assert not is_plan(b'{"city": "{{city}}"}', "a.ore")


@pytest.mark.invariant
def test_no_run_file_however_it_is_broken_raises_anything_but_our_errors():
    whole = b"#!/x\n---\noptions: {seed: 7}\nexpect: {json: {a: [1]}}\n---\nHi {{a}} \xc3\xa9\n"
    for at in range(len(whole)):
        for data in (
            whole[:at],
            whole[:at] + b"\x00" + whole[at:],
            whole[:at] + b"\n---\n" + whole[at:],
        ):
            try:
                read(data)
            except OreError:
                pass
