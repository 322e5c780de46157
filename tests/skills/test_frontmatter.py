"""The frontmatter of a SKILL.md: exact lines, plain YAML data, and nothing that can explode."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from ore.skills.frontmatter import HEAD_BYTES, MAX_DEPTH, MAX_FRONTMATTER_BYTES, parse, split

ROOT = Path(__file__).parents[2]
BOM = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "frontmatter", "body"),
    [
        (b"---\nname: a\n---\nBody\n", b"name: a\n", b"\nBody\n"),
        (BOM + b"---\nname: a\n---\nBody", b"name: a\n", b"\nBody"),
        (b"---\r\nname: a\r\n---\r\nBody\r\n", b"name: a\r\n", b"\nBody\r\n"),
        (b"---\nname: a\n---", b"name: a\n", b""),
        (b"---\nname: a\n---\r", b"name: a\n", b""),
        (b"---\n---\nBody", b"", b"\nBody"),
        (b"---\na: b\n---\nOne\n---\nTwo", b"a: b\n", b"\nOne\n---\nTwo"),
        (b"---\na: |\n  x\n  ---\nb: '---'\n---\n", b"a: |\n  x\n  ---\nb: '---'\n", b"\n"),
        (b"---\na: b\n--- \n----\n---\n", b"a: b\n--- \n----\n", b"\n"),
        ("---\nname: ä\n---\nß".encode(), "name: ä\n".encode(), "\nß".encode()),
        (b"---\na: b\n---\n\xff\0", b"a: b\n", b"\n\xff\0"),
    ],
)
def test_a_file_is_split_at_its_two_exact_lines(data, frontmatter, body):
    assert split(data) == (frontmatter, body)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin with frontmatter"),
        (b"# Title\n", "does not begin with frontmatter"),
        (b"\n---\na: b\n---\n", "does not begin with frontmatter"),
        (b" ---\na: b\n---\n", "does not begin with frontmatter"),
        (b"--- \na: b\n---\n", "does not begin with frontmatter"),
        (b"----\na: b\n---\n", "does not begin with frontmatter"),
        (b"---", "does not begin with frontmatter"),
        ("---\na: b\n---\n".encode("utf-16"), "does not begin with frontmatter"),
        (b"---\na: b\n", "no line '---' closes its frontmatter"),
        (b"---\na: b\n--- \n ---\n----\n", "no line '---' closes its frontmatter"),
    ],
)
def test_a_file_without_two_exact_lines_is_refused(data, reason):
    with pytest.raises(ValueError, match=reason):
        split(data)


@pytest.mark.parametrize("opening", [b"---\n", b"---\r\n", BOM + b"---\n", BOM + b"---\r\n"])
@pytest.mark.parametrize("closing", [b"---\n", b"---\r\n", b"---", b"----\n", b"--- \n---\n"])
def test_the_head_of_a_file_is_judged_like_the_whole_file(opening, closing):
    for more in range(-12, 13):
        frontmatter = b"#" * (MAX_FRONTMATTER_BYTES + more - 1) + b"\n"
        data = opening + frontmatter + closing + (b"body\n" if closing.endswith(b"\n") else b"")
        results = []
        for part in (data, data[:HEAD_BYTES]):
            try:
                results.append(split(part)[0])
            except ValueError as exc:
                results.append(str(exc))
        assert results[0] == results[1]
        fits = more <= 0 and closing != b"----\n" and (closing != b"--- \n---\n" or more <= -5)
        assert isinstance(results[0], bytes) == fits


READ = [
    ("description: 'It''s: quoted'", "It's: quoted"),
    ('description: "a \\"b\\" c"', 'a "b" c'),
    ("description: >\n  folded\n  text\n", "folded text\n"),
    ("description: >-\n  folded\n  text\n", "folded text"),
    ("description: |\n  one: 1\n  two\n", "one: 1\ntwo\n"),
    ("description: plain\n  goes on", "plain goes on"),
    ("description: plain # and a comment", "plain"),
    ("description: https://example.org/a:b", "https://example.org/a:b"),
    ("description: 😀 ünï", "😀 ünï"),
    ("description: {version: '1.0', tags: [a, b]}", {"version": "1.0", "tags": ["a", "b"]}),
    ("description:\n  - Read\n  - Bash(git:*)", ["Read", "Bash(git:*)"]),
    ("description: Bash(git:*) Bash(jq:*) Read", "Bash(git:*) Bash(jq:*) Read"),
    ("description: 5", 5),
    ("description:", None),
    ("description: {a: [1], b: x, a: [1]}", {"a": [1], "b": "x"}),
]


@pytest.mark.parametrize(("text", "value"), READ)
def test_frontmatter_is_read_as_plain_yaml(text, value):
    assert parse(text) == ({"description": value}, False)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("description: Use when: asked", "Use when: asked"),
        ("description: Use when: it's asked", "Use when: it's asked"),
        ("description: Use when: asked\n  and: so on\n  # on", "Use when: asked and: so on # on"),
        ("description: Ends with a colon:", "Ends with a colon:"),
        ("description: (1) Steps: one {two}", "(1) Steps: one {two}"),
    ],
)
def test_a_colon_in_a_plain_text_is_read_as_if_quoted_and_reported(text, value):
    assert parse(f"name: a\n{text}\nlicense: MIT") == (
        {"name": "a", "description": value, "license": "MIT"},
        True,
    )


LAUGHS = "a0: &a0 [ha, ha]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
REFUSED = [
    ("a: !!python/object/apply:os.system ['true']", "a YAML tag"),
    ("a: !!str b", "a YAML tag"),
    ("a: !local b", "a YAML tag"),
    ("! a: b", "a YAML tag"),
    ("a: &x b", "an anchor or an alias"),
    ("a: *x", "an anchor or an alias"),
    ("a: &x [1]\nb: *x", "an anchor or an alias"),
    ("a: &x {<<: *x}", "an anchor or an alias"),
    (LAUGHS, "an anchor or an alias"),
    ("a: 1\nb: 2\na: 3", "two values for the key 'a'"),
    ("a: {b: 1, 'b': 2}", "two values for the key 'b'"),
    ("a:\n- b: 1\n  b: 2", "two values for the key 'b'"),
    ("", "not a mapping"),
    ("# nothing", "not a mapping"),
    ("text", "not a mapping"),
    ("- a: b", "not a mapping"),
    ("a: b\n--- {a: b}", "expected a single document"),
    ("a: b\n--- c", "expected a single document"),
    ("<<: {a: b}", "not valid YAML at line 2"),
    ("a: 'b", "not valid YAML at line 2"),
    ("a: b: c\nd: [", "at line 2: mapping values are not allowed"),
    ("a: b: c\nd: &x 1", "at line 2: mapping values are not allowed"),
    ("a: [b", "not valid YAML at line"),
    ("a: 'b': c", "not valid YAML at line 2"),
    ("a: \x1b[31m", "not valid YAML"),
    ("\ta: b", "not valid YAML at line 2"),
    ("? [a]\n: b", "a value that can't be read"),
    ("a: =", "not valid YAML at line 2"),
    ("a: 2024-13-45", "a value that can't be read"),
    ("a: " + "9" * 5000, "a value that can't be read"),
    ("a: 1" + ":59" * 400 + ".5", "a value that can't be read"),
    ("a: " + "[" * 60_000, f"nested deeper than {MAX_DEPTH} levels"),
    ("a: " + "{" * 60_000, f"nested deeper than {MAX_DEPTH} levels"),
    ("a: " + "{a: " * 15_000, f"nested deeper than {MAX_DEPTH} levels"),
    ("- " * 30_000, f"nested deeper than {MAX_DEPTH} levels"),
    ("? " * 30_000, f"nested deeper than {MAX_DEPTH} levels"),
    ("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH, f"nested deeper than {MAX_DEPTH} levels"),
]


@pytest.mark.invariant
@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[text[:30] for text, _ in REFUSED])
def test_what_is_not_plain_data_is_refused_quickly_and_with_a_reason(text, reason):
    started = time.process_time()
    with pytest.raises(ValueError) as caught:
        parse(text)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value) and "sys." not in str(caught.value)
    assert time.process_time() - started < 1


def test_the_deepest_nesting_that_is_allowed_is_read():
    levels = MAX_DEPTH - 1
    value, _ = parse("a: " + "[" * levels + "]" * levels)
    assert str(value["a"]) == "[" * levels + "]" * levels


@pytest.mark.parametrize("text", ["a: .nan", "a: {b: .nan}", "a: 2024-01-02 03:04:05", "a: 0o17"])
def test_a_value_of_any_yaml_type_is_read_as_safe_load_reads_it(text):
    assert repr(parse(text)[0]) == repr(yaml.safe_load(text))


@pytest.mark.slow
def test_the_parser_without_its_c_library_gives_the_same_answers():
    script = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules["yaml._yaml"] = None
import yaml
assert not yaml.__with_libyaml__
from ore.skills.frontmatter import parse
from tests.skills.test_frontmatter import READ, REFUSED
for text, value in READ:
    assert parse(text) == ({{"description": value}}, False), text
assert parse("name: a\\ndescription: Use when: x") == (
    {{"name": "a", "description": "Use when: x"}}, True)
for text, reason in REFUSED:
    try:
        parse(text)
    except ValueError as exc:
        wanted = reason.partition(" at line")[0]
        assert wanted in str(exc), (text[:40], str(exc))
    else:
        raise AssertionError(text[:40])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
