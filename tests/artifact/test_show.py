"""``--show``: a run as whoever gets its artifact reads it, and as data."""

from __future__ import annotations

import json

import pytest

from ore.artifact.show import when
from ore.report.form_values import day
from tests.support.artifacts import GOOD, spoiled
from tests.support.runs import record, rewrite, sha256


@pytest.fixture
def run(folder, writing, home):
    """A run with all that a turn can be given."""
    (home / ".ore" / "personas").mkdir(parents=True, mode=0o700)
    (home / ".ore" / "personas" / "clerk.md").write_text("You are a clerk.")
    (folder / "notes.txt").write_text("a note")
    flags = ["--persona", "clerk", "-o", "seed=3", "-f", "notes.txt", "--tool", "echo"]
    flags += ["--skill", "writing", "--grant", "filesystem-read"]
    answer = "A fence:\n```sh\nls\n```\n# not a heading of the page"
    return record(folder / "run.json", "What is open?", *flags, replies=[answer])


def test_a_page_has_all_that_a_run_was_made_of(ore, run):
    result = ore("--show", "run.json")
    assert (result.code, result.err) == (0, "")
    page = result.out
    digest = run["provenance"]["sources"][0]["sha256"]
    assert page.startswith(f"# Run `{run['execution_id']}`\n\n- Verdict: **holds**\n- Time: 20")
    for line in (
        "- Model: `scripted`",
        "- Backend: `scripted`",
        "- Parameters: `seed=3`",
        "- Permissions: `filesystem-read`",
        f"- Skill: `writing`, SHA-256 `{sha256('[Skill:writing]' + chr(10) + 'Be brief.')[:12]}…`",
        "- Tool: `echo`, SHA-256 `",
        "- File: `notes.txt`, SHA-256 `",
    ):
        assert f"\n{line}" in page
    system = (
        f"## System prompt\n\n`clerk`, SHA-256 `{digest[:12]}…`\n\n```\nYou are a clerk.\n```\n"
    )
    assert system in page
    assert "## Prompt\n\n```\nWhat is open?\n```\n" in page
    assert page.endswith(f"## Answer\n\n````\n{run['output']['content']}\n````\n")


def test_as_data(ore, run):
    data = ore("--show", "run.json", "--json").json
    assert (data["verdict"], data["problems"]) == ("holds", [])
    assert data["prompt"] == "What is open?" and data["answer"] == run["output"]["content"]
    assert data["system_prompt"] == {
        "source": "persona",
        "name": "clerk",
        "sha256": sha256("You are a clerk."),
        "text": "You are a clerk.",
    }
    assert data["files"] == [
        {"name": "notes.txt", "sha256": sha256("[Tool:file:notes.txt]\na note")}
    ]
    assert [each["name"] for each in data["tools"]] == ["echo"]
    assert (data["options"], data["model_id"]) == ({"seed": 3}, "scripted")


def test_a_system_prompt_whose_text_is_not_there_is_named_by_its_hash(ore, folder):
    record(folder / "a.json", "hi", "--system", "Rhyme.", "--artifact-hashes-only")
    page = ore("--show", "a.json").out
    digest = sha256("Rhyme.")[:12]
    assert (
        f"a text of the user's own, SHA-256 `{digest}…`; its text is not in the artifact." in page
    )
    record(folder / "b.json", "hi", "--no-system")
    assert "System prompt" not in ore("--show", "b.json").out


@pytest.mark.parametrize(
    "change, verdict",
    [
        (
            lambda d: d["output"].update(content="No."),
            "**broken** (`output.content does not fit its",
        ),
        (lambda d: d.pop("provenance"), "**nothing to check** (`it has no seal"),
        (lambda d: d["provenance"].update(system_prompt="Lie."), "**broken** ("),
    ],
)
def test_the_verdict_is_that_of_verify(ore, folder, run, change, verdict):
    rewrite(folder / "run.json", change)
    result = ore("--show", "run.json")
    assert result.code == 0 and f"- Verdict: {verdict}" in result.out
    assert "Lie." not in result.out


def test_an_artifact_of_a_library_and_one_from_stdin(ore):
    result = ore("--show", "-", stdin=json.dumps(GOOD))
    assert result.code == 0 and "- Verdict: **nothing to check**" in result.out
    assert "Why is the sky blue?" in result.out and "Rayleigh." in result.out


def test_the_newest_run_of_the_log(ore, folder):
    ore("hi", "--runs", "runs")
    assert "## Prompt\n\n```\nhi\n```" in ore("--show", "--last", "--runs", "runs").out


def test_a_run_file_and_what_it_expected(ore, folder):
    (folder / "f.ore").write_text("---\nexpect: {contains: Rome}\n---\nGreet {{name}}.")
    assert ore("--run", "f.ore", "--set", "name=Bo", "--artifact-out", "a.json").code == 3
    page = ore("--show", "a.json").out
    assert "\n- Run file: `f.ore`, SHA-256 `" in page and "with values for `name`\n" in page
    assert "\n- Expectation: does not hold; `{'contains': ['Rome']}`\n" in page
    odd = {"run_file": {"values": 1}, "expectation": {"holds": 1}}
    rewrite(folder / "a.json", lambda document: document["provenance"].update(odd))
    assert "does not hold" in ore("--show", "a.json").out


@pytest.mark.parametrize("bad", ["missing.json", ".", "no.json"])
def test_what_cannot_be_read_is_1(ore, folder, bad):
    (folder / "no.json").write_text("{}")
    result = ore("--show", bad)
    assert (result.code, result.out) == (1, "") and len(result.err.splitlines()) == 1


def test_nothing_of_an_artifact_is_obeyed_or_leaves_its_fence(ore, folder, run):
    def change(document):
        document["output"]["content"] = "\x1b[2J```\n````"
        document["provenance"]["options"] = {"a`b\n# heading": "\x1b[2J"}
        document["<img src=x> [here](http://a.example)"] = 1

    rewrite(folder / "run.json", change)
    page = ore("--show", "run.json", terminal="out").out
    assert "\x1b" not in page and "\n# heading" not in page
    assert "(`<img src=x> [here](http://a.example) was added; " in page
    assert page.endswith("`````\n^[[2J```\n````\n`````\n")


def test_images_are_not_claimed_where_the_server_counted_no_tokens(ore, folder, run):
    images = {"images": ["a" * 64], "prompt_eval_count": None}
    rewrite(folder / "run.json", lambda document: document["output"]["metadata"].update(images))
    assert "` (the model may not have read them)\n" in ore("--show", "run.json").out
    assert ore("--show", "run.json", "--json").json["images_read"] is None


@pytest.mark.parametrize(
    "read, doubt", [(False, " (the model may not have read them)"), (None, "")]
)
def test_images_that_the_model_may_not_have_read_are_named_so(ore, folder, run, read, doubt):
    images = {"images": ["a" * 64], **({} if read is None else {"images_read": read})}
    rewrite(folder / "run.json", lambda document: document["output"]["metadata"].update(images))
    assert f"\n- Images: `{'a' * 64}`{doubt}\n" in ore("--show", "run.json").out
    data = ore("--show", "run.json", "--json").json
    assert (data["images"], data.get("images_read")) == (["a" * 64], read)


@pytest.mark.parametrize(
    "metadata, lines",
    [
        ({"done_reason": "length"}, "- Answer: cut off by a limit\n"),
        (
            {"context": {"status": "truncated", "window": 2048, "prompt_tokens": 9}},
            "- Prompt: the model has not seen all of it\n",
        ),
        ({"done_reason": "stop", "context": {"status": "complete"}}, ""),
        ({"done_reason": ["length"], "context": "truncated"}, ""),
    ],
)
def test_what_was_cut_is_not_shown_as_whole(ore, folder, run, metadata, lines):
    whole = ore("--show", "run.json").out
    rewrite(folder / "run.json", lambda document: document["output"]["metadata"].update(metadata))
    page = ore("--show", "run.json").out
    assert lines in page and len(page.splitlines()) == len(whole.splitlines()) + bool(lines)
    data = ore("--show", "run.json", "--json").json
    assert data.get("cut_off_by") == ("a limit" if "Answer" in lines else None)
    assert data.get("is_truncated") is (True if "Prompt" in lines else None)


def test_no_defaults_are_said_to_be_the_model_s_where_ore_chose_them(ore, folder):
    record(folder / "plain.json", "hi")
    chosen = {"parameters": {"temperature": {"value": 0, "from": "ore"}}}
    rewrite(folder / "plain.json", lambda d: d["provenance"].update(effective=chosen))
    page = ore("--show", "plain.json").out
    assert "- Parameters: none were given, so the defaults hold\n" in page
    assert "- In force: `temperature=0 (ore)`\n" in page


def test_an_empty_value_ends_no_other_ones_backticks(ore, folder, run):
    odd = {"backend": "", "server_version": "a`<img src=x>"}
    rewrite(folder / "run.json", lambda document: document["provenance"].update(odd))
    page = ore("--show", "run.json").out
    assert "- Backend: (empty) `` a`<img src=x> ``\n" in page


def test_another_model_than_the_one_that_was_asked_is_the_one_that_answered(ore, folder, run):
    other = {"response_model": "/models/other.gguf"}
    (folder / "old.json").write_bytes((folder / "run.json").read_bytes())
    rewrite(folder / "run.json", lambda document: document["output"]["metadata"].update(other))
    assert "\n- Answered by: `/models/other.gguf`\n" in ore("--show", "run.json").out
    assert ore("--show", "run.json", "--json").json["answered_by"] == "/models/other.gguf"
    result = ore("--diff", "old.json", "run.json")
    assert result.code == 3 and result.err.endswith("they differ in model_id.\n")
    assert "\n+other.gguf\n" in result.out


@pytest.mark.slow
def test_a_spoiled_artifact_is_never_a_crash(ore, folder, run):
    import random

    rng = random.Random(1)
    for _ in range(80):
        (folder / "bad.json").write_bytes(spoiled(rng, run))
        for more in ([], ["--json"]):
            assert ore("--show", "bad.json", *more).code in (0, 1)


@pytest.mark.parametrize(
    "key", ["options", "grants", "parent", "persona", "sources", "model_digest"]
)
@pytest.mark.parametrize("value", [None, 3, "x", [3], [{}], {"a": [None]}])
def test_odd_provenance_is_shown_as_it_is(ore, folder, run, key, value):
    rewrite(folder / "run.json", lambda d: d["provenance"].update({key: value}))
    rewrite(folder / "run.json", lambda d: d["output"]["metadata"].update(images=value))
    for more in ([], ["--json"]):
        assert ore("--show", "run.json", *more).code == 0


@pytest.mark.slow
def test_a_long_list_is_cut(ore, folder, run):
    entry = {"source": "file:x", "sha256": "0" * 64}
    options = {f"o{number}": 1 for number in range(150)}
    rewrite(folder / "run.json", lambda d: d["provenance"].update(sources=[entry] * 5000))
    rewrite(folder / "run.json", lambda d: d["provenance"].update(options=options))
    page = ore("--show", "run.json").out
    assert "- And 4900 more files\n" in page and "`o99=1`, and 50 more\n" in page
    assert len(ore("--show", "run.json", "--json").json["files"]) == 5000


def test_a_page_says_what_was_in_force_and_how_the_prompt_was_made(ore, folder):
    record(folder / "run.json", "hi", "-o", "seed=3")

    def change(document):
        told = document["provenance"]["effective"]
        told["parameters"]["temperature"] = {"value": 0.7, "from": "model"}
        told["quantization"] = "Q4_K_M"
        document["provenance"] |= {
            "chat_template": {"sha256": "ab" * 32},
            "joined": [["persona", "skill:writing"]],
        }

    rewrite(folder / "run.json", change)
    page = ore("--show", "run.json").out
    assert (
        "\n- In force: `temperature=0.7 (model)`, `seed=3 (user)`, `quantization=Q4_K_M`\n" in page
    )
    assert "\n- Chat template: the user's own, SHA-256 `abababababab…`\n" in page
    assert "\n- Sent as one message: `persona`, `skill:writing`\n" in page
    data = ore("--show", "run.json", "--json").json
    assert data["effective"]["parameters"]["seed"] == {"value": 3, "from": "user"}


@pytest.mark.parametrize(
    "told", [7, [], {"parameters": []}, {"parameters": {"seed": 3, "top_k": {}}}, {"x\n# y": "`z`"}]
)
def test_what_is_no_such_thing_breaks_no_page(ore, folder, told):
    record(folder / "run.json", "hi")
    rewrite(
        folder / "run.json",
        lambda d: d["provenance"].update(
            {"effective": told, "joined": told, "chat_template": told}
        ),
    )
    result = ore("--show", "run.json")
    assert result.code == 0 and "\n# y" not in result.out


@pytest.mark.usefixtures("far_away")
def test_every_time_that_is_shown_is_in_utc():
    noon = 12 * 3600
    assert when(noon) == "1970-01-01 12:00:00 UTC"
    assert day(noon) == "1970-01-01"
