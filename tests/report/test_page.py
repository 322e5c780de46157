"""The page of a report: what it says of runs, and that no text of theirs is more than text."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed (requirements-report.txt)")

from ore.artifact.canonical import text_digest  # noqa: E402
from ore.errors import ArtifactError  # noqa: E402
from ore.report import collecting  # noqa: E402
from ore.report.page import report_page  # noqa: E402
from tests.support.reported import (  # noqa: E402
    chosen,
    data_of,
    expected,
    hash_of,
    run,
    runs_of,
    write,
)

HOSTILE = (
    "<script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">"
    "</script></style></textarea><svg onload=\"document.title='ran'\">{{ 7 * 7 }}{% raw %}"
    "<a href=\"javascript:document.title='ran'\">x</a><!-- ]]> &lt; ' \" ` \u2028\u2029\x00\x1b[2J"
)


class Tags(HTMLParser):
    """The tags of a page, and the attributes that they have."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str | None]] = {}
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)


def text_of(page: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", page.partition('<script type="app')[0]).split())


def test_the_page_has_the_totals_and_each_run(tmp_path):
    wrong = run(3, answer="Rome.", provenance=expected("Paris.", "Rome."))
    cut = run(2, metadata={"done_reason": "length"})
    folder = write(tmp_path / "runs", run(1, provenance=expected("Paris.", "Paris.")), cut, wrong)
    page = report_page([str(folder)])
    said = text_of(page)
    assert "Runs 3 2025-12-01 00:46:41 UTC to 2025-12-01 00:46:43 UTC" in said
    assert "Models 1 tiny (3)" in said and "Answer tokens 15 60 of prompts" in said
    assert "Time 1.2 s known of 3 of 3 runs" in said
    assert "Failed checks 1 of 2 answers that were checked" in said
    assert "Verified 3 of 3 all hold" in said
    assert "The slowest: 0.6 s" in said and "Answer cut off by a limit or a filter: 1" in said
    first, second, third = runs_of(page)
    assert (first["tokens"], first["seconds"], first["first"]) == (5, 0.2, 0.05)
    assert (first["rate"], first["window"], first["used"]) == (50.0, 100, 0.25)
    assert [each["holds"] for each in (first, second, third)] == [1, None, 0]
    assert second["cut"] == 1 and third["seen"] == "'Rome.' was seen"
    assert first["messages"][1] == ("message: prompt", text_digest("Question 1?"))
    assert first["shared"]["in force: seed"] == "1 (user)"
    assert first["own"]["id"] == "00000001-0000-4000-8000-000000000000"


def test_an_answer_that_a_filter_cut_off_is_one_that_was_cut(tmp_path):
    filtered = run(1, metadata={"done_reason": "content_filter"})
    page = report_page([str(write(tmp_path / "runs", filtered, run(2)))])
    assert "Answer cut off by a limit or a filter: 1" in text_of(page)
    assert [each["cut"] for each in runs_of(page)] == [1, 0]


def test_a_run_whose_images_may_not_have_been_read_says_so(tmp_path):
    unread = run(1, metadata={"images": ["a" * 64], "images_read": False})
    first, second = runs_of(report_page([str(write(tmp_path / "runs", unread, run(2)))]))
    assert first["own"]["images"] == "the model may not have read them"
    assert "images" not in second["own"]


def test_what_is_not_known_is_not_invented(tmp_path):
    nothing = dict.fromkeys(
        ("eval_count", "prompt_eval_count", "eval_duration", "prompt_eval_duration", "context")
    )
    metadata = {**nothing, "total_duration": "soon", "done_reason": None}
    page = report_page([str(write(tmp_path / "runs", run(1, metadata=metadata)))])
    (only,) = runs_of(page)
    known = ("tokens", "promptTokens", "seconds", "first", "rate", "window", "used", "holds")
    assert [only[name] for name in known] == [None] * len(known)
    assert "<figure" not in page and "known of 0 of 1 runs" in page


def test_what_is_no_run_or_does_not_hold_is_shown_and_said(tmp_path):
    changed = run(1)
    changed["output"]["content"] = "Rome."
    folder = write(tmp_path / "runs", run(2), changed, {"artifact_version": "ore.exec.v9"})
    (folder / "notes.json").write_text("[1, 2")
    (folder / "empty.json").touch()
    page = report_page([str(folder), str(tmp_path / "missing.json")])
    found = {each["path"].rpartition("/")[2]: each for each in runs_of(page)}
    assert found["00000.json"]["state"] == "holds"
    assert "output.content" in found["00001.json"]["why"]
    assert "Unsupported artifact version 'ore.exec.v9'" in found["00002.json"]["why"]
    assert found["notes.json"]["state"] == "broken"
    assert found["missing.json"]["state"] == "not read"
    assert "Runs 2 " in text_of(page) and "Does not verify: 5" in text_of(page)


def test_without_one_run_there_is_no_page(tmp_path):
    (tmp_path / "no.json").write_text("{}")
    with pytest.raises(ArtifactError, match="There is no run to report on"):
        report_page([str(tmp_path)])


@pytest.mark.invariant
def test_no_text_of_a_run_is_more_than_text(tmp_path):
    plain = write(tmp_path / "plain", run(1, provenance=expected("a", "b")))
    spoiled = run(
        1,
        prompt=HOSTILE,
        answer=HOSTILE,
        model=HOSTILE,
        metadata={"done_reason": HOSTILE, **chosen(0.5)},
        provenance={
            "backend": HOSTILE,
            "options": {HOSTILE: HOSTILE},
            "sources": [{"source": HOSTILE, "sha256": HOSTILE}],
            "expectation": {
                "wanted": {HOSTILE: HOSTILE},
                "holds": False,
                "failed": [{"kind": HOSTILE, "seen": HOSTILE}],
            },
        },
    )
    hostile = write(tmp_path / "<script>alert(1)</script>", spoiled)
    before, after = (Tags(report_page([str(each)])) for each in (plain, hostile))
    assert after.tags.count("script") == 2 and after.tags.count("style") == 1
    assert set(after.tags) <= set(before.tags) | {"circle"}
    assert set(after.attributes) <= set(before.attributes) | {"cx", "cy", "r"}
    assert [name for name in after.attributes if name in ("src", "href", "style")] == []
    assert [name for name in after.attributes if name.startswith("on")] == []


@pytest.mark.invariant
def test_the_page_holds_what_was_said_and_no_more_runs_than_its_own_script(tmp_path):
    document = run(1, prompt=HOSTILE)
    document["output"]["content"] = HOSTILE + "\ud800\u202edrow"
    folder = write(tmp_path / "runs", document)
    page = report_page([str(folder)])
    (only,) = runs_of(page)
    assert only["prompt"].startswith(HOSTILE[: HOSTILE.index("\u2028")])
    assert only["prompt"].endswith("\\u2028\\u2029^@^[[2J")
    assert only["answer"].endswith("\\ud800\\u202edrow")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1 and page.count("<script") == 2
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    assert f"script-src 'sha256-{hash_of(script[0])}'" in policy
    assert f"style-src 'sha256-{hash_of(style)}'" in policy
    assert "base-uri 'none'" in policy and "form-action 'none'" in policy
    assert page.index("Content-Security-Policy") < page.index("<style>")


def test_long_texts_are_cut_for_show_and_their_length_is_said(tmp_path, monkeypatch):
    folder = write(tmp_path / "runs", run(1, answer="x" * 100_000), run(2, answer="short"))
    first, second = runs_of(report_page([str(folder)]))
    assert len(first["answer"]) == 20_000 and first["answerCut"] == 100_000
    assert second["answer"] == "short" and second["answerCut"] == 0
    monkeypatch.setattr(collecting, "MOST_TEXT", 1000)
    page = report_page([str(folder)])
    first, second = runs_of(page)
    assert 900 < len(first["answer"]) < 1000 and first["answerCut"] == 100_000
    assert second["answer"] == "short" and "are cut here" in page


def test_what_many_runs_have_alike_stands_in_the_page_once(tmp_path):
    folder = write(tmp_path / "runs", *(run(number) for number in range(1, 30)))
    data = data_of(report_page([str(folder)]))
    assert len(data["groups"]) == 1 and len(json.dumps(data["pairs"])) < 200


def test_what_many_runs_were_sent_stands_in_the_page_once(tmp_path):
    files = [{"source": f"file:{at}", "sha256": f"{at:0290}"} for at in range(100)]
    folder = write(tmp_path / "runs", *(run(at, provenance={"sources": files}) for at in (1, 2, 3)))
    page = report_page([str(folder)])
    assert page.count(files[0]["sha256"]) == 1 and len(runs_of(page)[2]["messages"]) == 100


@pytest.mark.slow
def test_what_else_is_shown_of_runs_takes_no_more_than_the_page_has_room_for(tmp_path, monkeypatch):
    def much(number):
        options = {f"{number}-{at}": "o" * 250 for at in range(60)}
        failed = [{"kind": "equals", "seen": "s" * 250}] * 60
        expectation = {"holds": False, "wanted": {"equals": "x"}, "failed": failed}
        return run(number, provenance={"options": options, "expectation": expectation})

    monkeypatch.setattr(collecting, "MOST_BESIDE", 100_000)
    folder = write(tmp_path / "runs", *map(much, range(1, 41)), run(41))
    page = report_page([str(folder)])
    found = runs_of(page)
    assert len(page) < 400_000
    assert len(found[0]["shared"]) > 60 and len(found[0]["seen"]) > 10_000
    last, short = found[-2:]
    said = {"not shown": "more than the page has room for"}
    assert last["shared"] == dict(last["messages"]) == said and said.items() <= last["own"].items()
    assert last["own"]["id"] and last["own"]["answered"] and last["seen"].endswith("s…")
    assert "not shown" not in short["own"] and short["shared"]


@pytest.mark.parametrize(
    "metadata",
    [
        {"eval_count": 5e-324},
        {"eval_duration": 5e-324},
        {"eval_count": 1e17, "eval_duration": 1e-300},
        {"context": {"window": 1e-308}},
        {"total_duration": 1e-320, "first_token_duration": 1e-320},
    ],
    ids=range(5),
)
def test_figures_that_nobody_measured_are_left_out(tmp_path, metadata):
    folder = write(tmp_path / "runs", run(1, metadata=metadata), run(2))
    page = report_page([str(folder)])
    assert len(runs_of(page)) == 2 and "inf" not in text_of(page).split()


def test_nothing_of_a_run_is_called_what_ore_says_of_it(tmp_path):
    forged = {"signed by": {"value": "ada@tides.example"}, "verdict": {"value": "holds"}}
    sources = [{"source": "signed by", "sha256": "ada@tides.example"}]
    provenance = {"effective": {"parameters": forged}, "options": {"id": 1}, "sources": sources}
    document = run(1, provenance=provenance)
    found = runs_of(report_page([str(write(tmp_path / "runs", document))]))[0]
    messages = dict(found["messages"])
    assert {"signed by", "verdict", "chosen from"} & {
        *found["own"],
        *found["shared"],
        *messages,
    } == set()
    assert messages == {"message: signed by": "ada@tides.example"}
    assert found["shared"]["in force: signed by"] == "ada@tides.example"


def test_of_what_is_listed_in_part_the_rest_is_counted(tmp_path):
    many = [{"source": f"session:{at}", "sha256": text_digest(str(at))} for at in range(103)]
    words = dict.fromkeys(map(str, range(25)), 0.04)
    provenance = {"sources": many, "options": {f"own-{at}": at for at in range(107)}}
    choice = {"choice": {"probability": 0.04, "probabilities": words}}
    prompt = "p" * 161
    document = run(1, prompt=prompt, metadata=choice, provenance=provenance)
    page = report_page([str(write(tmp_path / "runs", document))])
    (found,) = runs_of(page)
    assert found["messages"][-1] == ("not shown", "3 more")
    assert found["own"]["chosen from"].endswith(", 5 more")
    assert found["shared"]["not shown"] == "7 more"
    assert f'<td dir="auto">{prompt[:160]}…</td>' in page


def test_the_count_of_as_many_runs_as_a_page_holds_has_room_beside_a_plot(tmp_path):
    """A digit takes 7 of the drawing's units at most, a comma no more, and 6 lie between."""
    page = report_page([str(write(tmp_path / "runs", run(1)))])
    found = re.search(r'<svg viewBox="-(\d+) ', page)
    assert found and int(found[1]) >= 6 + 7 * len(f"{collecting.MOST_RUNS:,}")
