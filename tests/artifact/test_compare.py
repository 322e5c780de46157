"""``--diff``: what went in and what came out, of two artifacts."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from difflib import unified_diff

import pytest

from ore.artifact import compare
from ore.artifact.compare import MOST_LAID_OUT, Difference, differences, known_to_one, unified
from ore.types import ExecutionArtifact, Response
from ore.types.artifact_fields import MAX_VALUES
from tests.support.artifacts import GOOD
from tests.support.runs import record, rewrite


@pytest.fixture(autouse=True)
def folder(folder):
    record(folder / "a.json", "hi", replies=["One.\nTwo."])
    return folder


def test_two_runs_of_the_same_are_the_same_whatever_their_ids_and_times(ore, folder):
    record(folder / "b.json", "hi", replies=["One.\nTwo."], metadata={"eval_count": 99})
    known = {"server_version": "1", "model_digest": "ab" * 32}
    for name in ("a.json", "b.json"):
        rewrite(folder / name, lambda d: d["provenance"].update(known))
    result = ore("--diff", "a.json", "b.json")
    assert (result.code, result.out) == (0, "")
    assert result.err == "Nothing differs: input and answer are the same.\n"
    assert ore("--diff", "a.json", "b.json", "--json").json["same"] is True


@pytest.mark.parametrize(
    "first, second, names",
    [
        ("scripted-2024-05-13", "scripted-2024-08-06", ["model_id"]),
        ("scripted-2024-05-13", "scripted-2024-05-13", []),
        ("scripted", "scripted-2024-08-06", []),
        ("scripted", None, []),
        ("/a/scripted", "/b/scripted:latest", []),
    ],
)
def test_two_releases_of_one_name_are_two_models(ore, folder, first, second, names):
    for path, release in (("a.json", first), ("b.json", second)):
        about = {"response_model": release}
        record(folder / path, "hi", models=("scripted",), replies=["One."], metadata=about)
    result = ore("--diff", "a.json", "b.json", "--json")
    assert [each["name"] for each in result.json["differences"]] == names
    if names:
        assert result.json["differences"][0]["new"] == second


def test_a_model_that_was_first_known_as_another_and_then_by_two_names_is_one(ore, folder):
    for path, more in (("a.json", {}), ("b.json", {"asked_by_other_name": True})):
        about = {"response_model": "/models/other.gguf", **more}
        record(folder / path, "hi", models=("scripted",), replies=["One."], metadata=about)
    assert ore("--diff", "a.json", "b.json", "--json").json["differences"] == []


@pytest.mark.parametrize(
    "answered, by_other_name, differs",
    [
        (("first-8b", "second-7b"), (True, True), True),
        (("first-8b", "second-7b"), (None, True), True),
        (("first-8b", "first-8b"), (True, True), False),
        (("scripted", "second-7b"), (None, True), False),
        (("first-8b", "scripted"), (True, None), False),
    ],
)
def test_another_model_behind_one_name_is_another(ore, folder, answered, by_other_name, differs):
    for path, name, by in zip(("a.json", "b.json"), answered, by_other_name, strict=True):
        about = {"response_model": name, "asked_by_other_name": by}
        record(folder / path, "hi", models=("scripted",), replies=["One."], metadata=about)
    found = ore("--diff", "a.json", "b.json", "--json").json["differences"]
    assert [(each["old"], each["new"]) for each in found] == ([answered] if differs else [])


@pytest.mark.parametrize(
    "args, more, names",
    [
        (["ho"], {}, ["prompt", "messages"]),
        (["hi", "--model", "b"], {"models": ("scripted", "b")}, ["model_id"]),
        (["hi", "-o", "seed=1"], {}, ["options"]),
        (["hi", "--persona", "aya"], {}, ["persona"]),
        (["hi", "--system", "Rhyme."], {}, ["messages"]),
        (["hi", "--grant", "shell"], {}, ["grants"]),
        (["hi", "--tool", "echo"], {}, ["tools", "messages"]),
        (["hi", "--route"], {}, ["routing"]),
        (["hi"], {"replies": ["One."]}, ["answer"]),
        (["hi"], {"replies": ["One.\nTwo.\n"]}, ["answer"]),
        (["hi"], {"replies": ["One.\r\nTwo."]}, ["answer"]),
    ],
)
def test_what_differs_is_named_and_shown(ore, folder, args, more, names):
    record(folder / "b.json", *args, **{"replies": ["One.\nTwo."], **more})
    result = ore("--diff", "a.json", "b.json")
    assert result.code == 3 and len(result.err.splitlines()) == 1
    assert result.err.strip().endswith(f"they differ in {', '.join(names)}.")
    for name in names:
        head = f"--- a.json {name}\n+++ b.json {name}\n"
        assert head in result.out
        assert result.out.partition(head)[2].startswith("@@")


def test_a_difference_is_a_unified_diff(ore, folder):
    record(folder / "b.json", "hi", replies=["One.\nThree."])
    assert ore("--diff", "a.json", "b.json").out == (
        "--- a.json answer\n+++ b.json answer\n@@ -1,2 +1,2 @@\n One.\n-Two.\n+Three.\n"
    )


def test_messages_are_shown_whole_where_both_have_them_else_the_source_that_changed(ore, folder):
    record(folder / "b.json", "hi", "--artifact-full", "--system", "Be brief.")
    record(folder / "c.json", "hi", "--artifact-full", "--system", "Be kind.")
    whole = ore("--diff", "b.json", "c.json").out
    assert " [system]\n-Be brief.\n+Be kind.\n" in whole
    hashes = ore("--diff", "a.json", "c.json").out
    assert "-persona sha256:" in hashes and "+system sha256:" in hashes
    assert "-prompt sha256:" not in hashes and " prompt sha256:" in hashes


def test_what_only_one_side_knows_is_reported_and_not_compared(ore, folder):
    old = json.loads(json.dumps(GOOD))
    old["input"].update(prompt="hi", model_id="scripted", routing=None, tools=None, skills=None)
    old["output"]["content"] = "One.\nTwo."
    (folder / "old.json").write_text(json.dumps(old))
    result = ore("--diff", "old.json", "a.json")
    names = "backend, server_version, model_digest, options, persona, grants, effective, messages, joined"
    assert (result.code, result.err) == (
        0,
        f"Not compared, because it is not known for both: {names}.\n"
        "Nothing that was compared differs.\n",
    )
    as_json = ore("--diff", "old.json", "a.json", "--json")
    assert as_json.json["not_known"] == names.split(", ") and as_json.json["same"] is None


@pytest.mark.invariant
@pytest.mark.parametrize("key", ["server_version", "model_digest", "options", "messages_sha256"])
def test_what_was_not_compared_is_never_said_to_be_the_same(ore, folder, key):
    known = {"server_version": "1", "model_digest": "ab" * 32}
    for name in ("b.json", "c.json"):
        record(folder / name, "hi")
        rewrite(folder / name, lambda d: d["provenance"].update({**known, key: None}))
    result = ore("--diff", "b.json", "c.json")
    assert result.code == 0 and key.removesuffix("_sha256") in result.err
    assert "are the same" not in result.err
    assert ore("--diff", "b.json", "c.json", "--json").json["same"] is None


def test_images_are_compared(ore, folder):
    for name, digest in (("b.json", "0"), ("c.json", "1")):
        record(folder / name, "hi", metadata={"images": [digest * 64]})
    assert ore("--diff", "b.json", "c.json", "--json").json["differences"][0]["name"] == "images"


def test_messages_that_were_sent_as_one_are_compared(ore, folder):
    for name in ("v.md", "w.md"):
        (folder / name).write_text("Rhyme.\n")
    for name, file, when in (("b", "v", "always"), ("c", "v", "never"), ("d", "w", "always")):
        record(folder / f"{name}.json", "hi", "-f", f"{file}.md", "--join-messages", when)
    result = ore("--diff", "b.json", "c.json")
    assert result.code == 3 and "they differ in joined." in result.err
    assert result.out.splitlines()[:2] == ["--- b.json joined", "+++ c.json joined"]
    found = ore("--diff", "b.json", "d.json", "--json").json["differences"]
    assert [each["name"] for each in found] == ["messages"]  # names of files are no difference
    for nothing in ({}, None):
        rewrite(folder / "c.json", lambda data, nothing=nothing: data.update(provenance=nothing))
        found = ore("--diff", "b.json", "c.json", "--json").json["differences"]
        assert found == []  # it is not known


def test_true_is_not_1(ore, folder):
    for name, value in (("b.json", True), ("c.json", 1), ("d.json", 1.0)):
        record(folder / name, "hi")
        options = {"stop": [{"think": value}]}
        rewrite(folder / name, lambda d, options=options: d["provenance"].update(options=options))
    assert ore("--diff", "b.json", "c.json", "--json").json["differences"][0]["name"] == "options"
    assert ore("--diff", "c.json", "d.json", "--json").json["differences"] == []


def test_as_json(ore, folder):
    record(folder / "b.json", "hi", replies=["One."])
    document = ore("--diff", "a.json", "b.json", "--json").json
    assert document == {
        "same": False,
        "differences": [{"name": "answer", "old": "One.\nTwo.", "new": "One."}],
        "not_known": [],
    }
    assert ore("--diff", "a.json", "a.json", "--json").json["same"] is True


@pytest.mark.parametrize("bad", ["missing.json", ".", "no.json"])
def test_what_cannot_be_read_is_1(ore, folder, bad):
    (folder / "no.json").write_text("{}")
    result = ore("--diff", "a.json", bad)
    assert (result.code, result.out) == (1, "") and len(result.err.splitlines()) == 1


def test_a_text_of_many_lines_is_compared_as_a_whole(ore, folder):
    rewrite(folder / "a.json", lambda d: d["output"].update(content="\n" * 20_000))
    record(folder / "b.json", "hi", replies=["x\n" * 20_000])
    result = ore("--diff", "a.json", "b.json")
    assert result.code == 3 and "too long to compare line by line" in result.out


@pytest.mark.parametrize("key", ["messages", "sources", "options", "skills", "messages_sha256"])
@pytest.mark.parametrize("value", [None, 3, "x", [3], [{}], {"a": [None]}])
def test_odd_provenance_is_compared_as_it_is(ore, folder, key, value):
    record(folder / "b.json", "hi", "--artifact-full", replies=["One.\nTwo."])
    rewrite(folder / "b.json", lambda d: d["provenance"].update({key: value}))
    result = ore("--diff", "a.json", "b.json")
    assert result.code in (0, 3)


def slow_to_compare(lines: int) -> tuple[str, str]:
    """Two texts over whose frequent lines ``difflib`` goes again for each of the others."""
    quarter = lines // 4
    frequent = [f"frequent {number % 50}" for number in range(2 * quarter)]
    ours, theirs = (
        [line for number in range(quarter) for line in (f"{number}", f"{side} {number}")]
        for side in ("ours", "theirs")
    )
    return "\n".join([*ours, *frequent]), "\n".join([*frequent[::-1], *theirs])


@pytest.mark.slow
def test_texts_that_take_long_to_compare_are_named_and_not_compared():
    old, new = slow_to_compare(4900)
    shown = unified([Difference(name, old, new) for name in ("options", "answer")], "a", "b")
    assert shown.count("(too long to compare line by line)") == 2


@pytest.mark.slow
def test_lines_of_both_between_others_are_compared_in_a_bounded_time():
    """Each is a match of its own, and ``difflib`` goes through all the lines after it once more."""
    found = []
    for name in "abcdefgh":
        old, new = (
            "\n".join(line for n in range(2500) for line in (f"{name} {n}", f"{side} {n}"))
            for side in ("ours", "theirs")
        )
        found.append(Difference(name, old, new))
    before = time.process_time()
    shown = unified(found, "a", "b")
    assert time.process_time() - before < 10
    assert 0 < shown.count("(too long to compare line by line)") < len(found)
    assert " a 2499\n" in shown


@pytest.mark.slow
def test_large_texts_that_are_nearly_the_same_are_compared():
    lines = [f"line {n}" for n in range(5000)]
    changed = [f"changed {n}" if n % 100 == 7 else line for n, line in enumerate(lines)]
    found = [Difference(name, "\n".join(lines), "\n".join(changed)) for name in "abcdefgh"]
    shown = unified(found, "a", "b")
    assert "too long" not in shown and shown.count("+changed") == 50 * len(found)


def test_a_diff_is_that_of_difflib():
    chance = random.Random(1)
    for _ in range(200):
        old, new = (
            [chance.choice("abcdef") for _ in range(chance.randrange(1, 30))] for _ in range(2)
        )
        head = "--- a x\n+++ b x\n"
        hunks = "".join(f"{line}\n" for line in list(unified_diff(old, new, lineterm=""))[2:])
        shown = unified([Difference("x", "\n".join(old), "\n".join(new))], "a", "b")
        assert shown == head + hunks


@pytest.mark.slow
def test_lines_that_come_again_between_others_are_named_and_not_compared():
    """The first of them is the longest match each time: ``difflib`` looks through all the rest again."""
    old, new = (
        "\n".join(line for n in range(2000) for line in (f"again {n % 66}", f"{side} {n}"))
        for side in ("ours", "theirs")
    )
    assert "too long to compare line by line" in unified([Difference("answer", old, new)], "a", "b")


@pytest.mark.slow
def test_what_two_artifacts_may_cost_is_for_all_their_values_together():
    old, new = slow_to_compare(1600)
    found = [Difference(f"{number}", old, new) for number in range(9)]
    plain = unified(found, "a", "b").count("(too long to compare line by line)")
    assert 0 < plain < len(found)


@pytest.mark.slow
def test_a_large_value_is_compared_as_one_line(ore, folder):
    for name, last in (("b.json", 0), ("c.json", 1)):
        record(folder / name, "hi")
        options = {"stop": [0] * MOST_LAID_OUT + [last]}
        rewrite(folder / name, lambda d, options=options: d["provenance"].update(options=options))
    result = ore("--diff", "b.json", "c.json")
    assert result.code == 3 and len(result.out.splitlines()) == 5


@pytest.mark.slow
def test_an_artifact_of_too_many_values_is_refused(ore, folder):
    rewrite(folder / "a.json", lambda d: d["output"]["metadata"].update(n=[0] * MAX_VALUES))
    for verb in (["--diff", "a.json", "a.json"], ["--replay", "a.json"], ["--verify", "a.json"]):
        result = ore(*verb)
        assert result.code in (1, 3)
        assert "it holds more than 1,000,000 values" in result.out + result.err


def in_force(name: str, folder, **changes) -> None:
    """Writes what was in force into an artifact, whose seal is taken off."""

    def change(document):
        provenance = document["provenance"]
        del provenance["self_sha256"], provenance["values_sha256"]
        told = provenance["effective"]
        for key, value in changes.items():
            if key in told["parameters"]:
                told["parameters"][key] = {"value": value, "from": "model"}
            else:
                told[key] = value

    rewrite(folder / name, change)


@pytest.mark.parametrize(
    "old, new, shown",
    [
        (
            {"temperature": 0.5},
            {"temperature": 0.7},
            ['-  "temperature": 0.5', '+  "temperature": 0.7'],
        ),
        ({"template_sha256": "ab"}, {"template_sha256": "cd"}, ['-  "template_sha256": "ab"']),
        ({"temperature": 0.5}, {}, []),
        ({"threads": 1}, {"threads": 2}, []),
        ({"batch_threads": 1}, {"batch_threads": 2}, ['-  "batch_threads": 1']),
        ({"parameters": 7}, {"temperature": 0.5}, []),
    ],
)
def test_what_was_in_force_is_compared_as_far_as_both_know_it(ore, folder, old, new, shown):
    record(folder / "b.json", "hi", replies=["One.\nTwo."])
    in_force("a.json", folder, **old)
    in_force("b.json", folder, **new)
    result = ore("--diff", "a.json", "b.json")
    assert ("they differ in effective." in result.err) is bool(shown)
    for line in shown:
        assert line in result.out


def test_of_two_runs_that_say_nothing_of_it_nothing_is_missed(ore, folder):
    record(folder / "b.json", "hi", replies=["One.\nTwo."])
    for name in ("a.json", "b.json"):
        rewrite(folder / name, lambda d: d["provenance"].pop("effective"))
    assert "effective" not in ore("--diff", "a.json", "b.json").err
    rewrite(folder / "b.json", lambda d: d["provenance"].update({"effective": {}}))
    assert "not known for both: " in ore("--diff", "a.json", "b.json").err


def test_a_file_s_name_puts_no_line_of_its_own_into_a_diff():
    found = unified([Difference("answer", "a", "b")], "x\n+forged\x1b[2J", "y\n-forged")
    assert found == "--- x^J+forged^[[2J answer\n+++ y^J-forged answer\n@@ -1 +1 @@\n-a\n+b\n"


def messages_of(*messages: tuple[str, str]) -> ExecutionArtifact:
    known = [{"role": role, "content": text, "source": "prompt"} for role, text in messages]
    made = ExecutionArtifact.from_response(Response("Yes.", "m"), messages[-1][1], "m")
    return replace(made, provenance={"messages": known})


@pytest.mark.invariant
@pytest.mark.parametrize("indent", ["", "  "])
def test_one_message_that_looks_like_two_is_not_the_same(indent):
    two = messages_of(("system", f"S\n\n{indent[1:]}[user]\nA"), ("user", "B"))
    one = messages_of(("system", f"S\n\n{indent}[user]\nA"), ("user", "B"))
    apart = messages_of(("system", "S"), ("user", "A"), ("user", "B"))
    assert [each.name for each in differences(one, apart)] == ["messages"]
    assert bool(differences(one, two)) is bool(indent)
    shown = unified(differences(apart, one), "a", "b")
    assert f"-[user]\n+{indent} [user]\n A\n" in shown


@pytest.mark.parametrize(
    "old, new, said",
    [
        ("a b", "a\u00a0b", "character 2 of a line is U+0020 in the old, U+00A0 in the new"),
        (
            "caf\u00e9",
            "cafe\u0301",
            "character 4 of a line is U+00E9 in the old, U+0065 in the new",
        ),
        ("a", "a ", "character 2 of a line is its end in the old, U+0020 in the new"),
        ("a\u200bb", "ab", "character 2 of a line is U+200B in the old, U+0062 in the new"),
        ("\ta", " " * 8 + "a", "character 1 of a line is U+0009 in the old, U+0020 in the new"),
        ("x\na", "x\na ", "character 2 of a line is its end in the old, U+0020 in the new"),
        ("a b", "a  b", ""),
        ("x\u00b2", "x2", ""),
        ("\uff21", "A", ""),
        ("a", "b", ""),
        ("a" * 501, "a" * 501 + " ", ""),
    ],
)
def test_of_lines_that_look_alike_it_is_said_what_differs(old, new, said):
    shown = unified(differences(messages_of(("user", old)), messages_of(("user", new))), "a", "b")
    told = [line for line in shown.splitlines() if line.startswith("\\")]
    assert told == ([f"\\ They look alike: {said}."] * 2 if said else [])


def test_how_many_characters_are_looked_at_for_lines_that_look_alike_is_limited(monkeypatch):
    looked_at, seen = [], compare._seen
    monkeypatch.setattr(compare, "_seen", lambda line: looked_at.append(line) or seen(line))
    monkeypatch.setattr(compare, "MOST_STEPS", 100_000)
    old, new = ("\n".join(f"{number}{name}" + "\t" * 400 for number in range(99)) for name in "ab")
    diff = unified(
        [Difference("prompt", old, new), Difference("answer", "a\u00a0b", "a b")], "A", "B"
    )
    assert sum(len(line.expandtabs()) for line in looked_at) < 50_000
    assert diff.count("\n-") == 101 and diff.count("look alike") == 1


def test_what_was_in_force_is_laid_out_once(monkeypatch):
    told, flat = [], compare._flat
    monkeypatch.setattr(compare, "_flat", lambda each: told.append(each) or flat(each))
    names = [str(n) for n in range(100)]
    runs = [
        ExecutionArtifact.from_dict(
            json.loads(
                json.dumps(GOOD | {"provenance": {"effective": dict.fromkeys(names, value)}})
            )
        )
        for value in (0, 1)
    ]
    [found] = differences(*runs)
    assert known_to_one(*runs) == [] and len(told) == 2
    assert json.loads(found.new) == dict.fromkeys(names, 1)
