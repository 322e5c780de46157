"""What a report says of many runs together: what is worth a look, and its plots."""

from __future__ import annotations

import pytest

from ore.artifact.seal import seal
from ore.report.collecting import collect
from ore.report.form_facts import gather
from ore.report.forms import filled
from ore.report.overview import overview_of
from ore.report.page_data import COLUMNS, document
from ore.report.plots import HEIGHT, Plot, plots_of
from tests.support.reported import chosen, expected, run, write


def collected(folder, *documents):
    return collect([str(write(folder / "runs", *documents))])


def found_in(runs):
    return {finding.kind: finding.said for finding in overview_of(runs).findings}


def plot(runs, title: str) -> Plot:
    (found,) = [each for each in plots_of(runs) if each.title == title]
    return found


@pytest.mark.parametrize("answer, disagree", [("Paris.", False), ("Rome.", True)])
def test_models_disagree_where_their_answers_to_one_question_differ(tmp_path, answer, disagree):
    one, other = run(1, prompt="Q?"), run(2, prompt="Q?", model="big", answer=answer)
    runs = collected(tmp_path, one, other, run(3, answer="Alone.")).runs
    assert ("disagree" in found_in(runs)) is disagree
    assert overview_of(runs).disagreeing == ({0: 1, 1: 1} if disagree else {})


def test_tokens_that_nobody_knows_are_no_zero_in_a_report(tmp_path):
    silent = {"eval_count": None, "prompt_eval_count": None}
    none = {"eval_count": 0, "prompt_eval_count": 0}  # as an Ollama's that counts nothing is kept
    half = {"eval_count": 5, "prompt_eval_count": None}
    made = [run(n, metadata=each) for n, each in enumerate((silent, none, half), 2)]
    runs = collected(tmp_path, run(1), *made).runs
    said = [
        next(each for each in overview_of(some).totals if each.name == "Answer tokens")
        for some in (runs, runs[1:3], runs[::3], runs[:1])
    ]
    assert [each.figure for each in said] == ["10", "not known", "10", "5"]
    assert [each.more for each in said] == [
        "known of 2 of 4 runs, 20 of prompts (known of 1 of 4 runs)",
        "",
        "20 of prompts (known of 1 of 2 runs)",
        "20 of prompts",
    ]


def test_an_answer_of_blanks_is_an_empty_one_as_the_turn_said(tmp_path):
    answers = enumerate(("", "\n \n", "\r\n", "Paris."))
    runs = collected(tmp_path, *(run(at, answer=text) for at, text in answers)).runs
    assert found_in(runs)["empty"] == "Empty answer: 3"


def test_times_of_no_calendar_are_left_out_of_the_span_of_a_report(tmp_path):
    times = (1e300, -30641760000.0, 1764550000.0, -1e11)
    folder = write(
        tmp_path / "runs", *(seal({**run(n), "timestamp": t}) for n, t in enumerate(times))
    )
    total, *_ = overview_of(collect([str(folder)]).runs).totals
    assert total.more.lstrip("0") == "999-01-01 00:00:00 UTC to 2025-12-01 00:46:40 UTC"
    said = "4 runs, 0999-01-01 to 2025-12-01 (2 days), and others that are not known"
    assert said in filled("methods", gather([str(folder)]))


def test_a_prompt_of_which_a_template_left_a_part_out_is_not_said_to_be_too_long(tmp_path):
    fit = {"status": "truncated", "window": 4096, "prompt_tokens": 11, "left_out": "system"}
    runs = collected(tmp_path, run(1, metadata={"context": fit})).runs
    assert found_in(runs)["truncated"] == "Prompt not read whole: 1"
    forms = [filled(name, gather([str(tmp_path)])) for name in ("methods", "llm-guidelines")]
    assert all("not read whole" in each and "not fit the window" not in each for each in forms)


def test_two_runs_of_one_id_do_not_verify(tmp_path):
    runs = collected(tmp_path, run(1), run(1, answer="Rome.")).runs
    assert "but other content" in runs[1].why
    assert found_in(runs)["unverified"] == "Does not verify: 1"


def test_the_word_that_was_chosen_has_its_probability(tmp_path):
    found = collected(tmp_path, run(1, metadata=chosen(0.75)))
    (row,) = document(found, overview_of(found.runs), None)["runs"]
    assert dict(zip(COLUMNS, row, strict=True))["chosen"] == 0.75


def test_models_stand_above_each_other_in_a_bin(tmp_path):
    runs = collected(tmp_path, *map(run, (1, 2, 3)), run(4, model="big")).runs
    bars = plot(runs, "Answer tokens").bars
    assert [(bar.series, bar.y, bar.height) for bar in bars] == [
        (0, HEIGHT / 4, 3 * HEIGHT / 4),
        (1, 0, HEIGHT / 4),
    ]


def test_the_calibration_weighs_each_bin_by_its_words(tmp_path):
    likely = [run(n, metadata=chosen(0.9), provenance=expected("Paris.", "Paris.")) for n in (1, 2)]
    wrong = run(3, metadata=chosen(0.9), provenance=expected("Rome.", "Paris."))
    even = run(4, metadata=chosen(0.5), provenance=expected("Rome.", "Paris."))
    found = plot(collected(tmp_path, *likely, wrong, even).runs, "Calibration")
    assert "2 of 4 right" in found.said
    assert "Mean gap 30.0 %" in found.said  # three of |0.9 - 2/3|, and one of |0.5 - 0|
    assert [point.title for point in found.points] == [
        "said 50.0 %, right 0.0 %: 1",
        "said 90.0 %, right 66.7 %: 3",
    ]
