"""``--diff``: what went in and what came out, of two artifacts."""

from __future__ import annotations

import json

import pytest

from tests.support.artifacts import GOOD
from tests.support.runs import record, rewrite


@pytest.fixture(autouse=True)
def folder(folder):
    record(folder / "a.json", "hi", replies=["One.\nTwo."])
    return folder


def test_two_runs_of_the_same_are_the_same_whatever_their_ids_and_times(ore, folder):
    record(folder / "b.json", "hi", replies=["One.\nTwo."], metadata={"eval_count": 99})
    result = ore("--diff", "a.json", "b.json")
    assert (result.code, result.out) == (0, "") and "Nothing differs" in result.err


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
    assert result.code == 0
    assert "Not known on both sides, so not compared: backend, options, grants, messages" in (
        result.err
    )
    as_json = ore("--diff", "old.json", "a.json", "--json")
    assert "Not known" not in as_json.err and "backend" in as_json.json["not_known"]


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
