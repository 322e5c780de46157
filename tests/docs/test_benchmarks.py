"""``python -m benchmarks`` compares, shows tables, writes a page, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks import drawing, embedded
from benchmarks.kept import Kept
from benchmarks.measure import HEAD, Comparison, interleaved, markdown, shown, table
from benchmarks.page import renewed, write_page
from benchmarks.place import ROOT, Topic, install, place
from benchmarks.processes import finish, peak, turns
from ore.backends.engine_load import child_environment

MIB = 1 << 20


def test_cases_take_turns_in_an_order_that_is_reversed_every_other_round():
    order: list[str] = []
    found = interleaved({name: lambda n=name: order.append(n) or len(order) for name in "ab"}, 3)
    assert "".join(order) == "abbaab"
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_figures_are_kept_topic_by_topic_and_a_reason_is_not(tmp_path):
    rows = [Comparison("a", "ms", [0.5, 0.25], "b", [0.5, 0.5], [0.5, 0.5], most=1.5)]
    kept = Kept(tmp_path / "figures.json")
    kept.add("turn", rows)
    kept.add("pulls", "curl is missing")
    assert kept.results == {"turn": rows, "pulls": "curl is missing"}
    again = Kept(tmp_path / "figures.json")
    assert again.results == {"turn": rows}
    again.add("pulls", rows)
    assert Kept(tmp_path / "figures.json").results == {"turn": rows, "pulls": rows}
    (nowhere := Kept(None)).add("turn", rows)
    assert nowhere.results == {"turn": rows}


def test_a_process_that_says_more_than_a_pipe_holds_still_ends():
    much = f"import sys; sys.stderr.write('x' * {MIB}); print('done')"
    assert finish([sys.executable, "-c", much], dict(os.environ)).first > 0
    with pytest.raises(RuntimeError, match=r"ended with 3: x{500}$"):
        finish([sys.executable, "-c", f"{much}; sys.exit(3)"], dict(os.environ))


@pytest.mark.parametrize(
    "ours, theirs, again, limits, cells",
    [
        ([0.03], [0.02], [0.03], {"most": 1.5}, ("1.50", "1.50", "≤ 1.5: kept")),
        ([3.0, 9.0, 4.0], [2.0, 9.0, 1.0], [2.0, 8.1, 0.8], {}, ("1.50", "0.90", "")),
        ([0.031], [0.02], [], {"most": 1.5}, ("1.55", "", "≤ 1.5: MISSED")),
        ([9.0], [10.0], [10.0], {"least": 0.9}, ("0.90", "1.00", "≥ 0.9: kept")),
        ([8.9], [10.0], [10.0], {"least": 0.9}, ("0.89", "1.00", "≥ 0.9: MISSED")),
        ([1.0], [2.0], [], {}, ("0.50", "", "")),
    ],
)
def test_a_ratio_is_the_median_round_s_beside_the_same_again_and_what_is_wanted(
    ours, theirs, again, limits, cells
):
    assert Comparison("it", "s", ours, "that", theirs, again, **limits).cells()[4:] == cells


@pytest.mark.parametrize(
    "values, unit, text",
    [
        ([0.0012], "ms", "1.20 ms ± 0%"),
        ([0.010, 0.020, 0.030], "ms", "20.0 ms ± 25%"),
        ([1.5], "s", "1.50 s ± 0%"),
        ([46_300_000], "MB", "46.3 MB ± 0%"),
        ([20_000], "/s", "20,000/s ± 0%"),
    ],
)
def test_a_figure_has_its_median_its_unit_and_its_spread(values, unit, text):
    assert shown(values, unit) == text


@pytest.mark.parametrize("wait", embedded.WAITS)
@pytest.mark.parametrize("fastest", ["1 2", "2 2", "1 6", "2 6", "6 6"])
def test_the_bare_engine_has_the_setting_that_is_fastest_for_it(fastest, wait, monkeypatch):
    threads, reading = fastest.split()

    def run(program, environ):
        rate = {"ore": 50.0, f"engine {fastest} {wait}": 90.0}.get(program, 40.0)
        return {"load": 1.0, "first": 1.0, "process": 1.0, "rate": rate}

    for name in ("with_model", "of_a_blob"):
        monkeypatch.setattr(embedded, name, lambda *_: Comparison(name, "s", [1.0], "it", [1.0]))
    monkeypatch.setattr(embedded, "run", run)
    monkeypatch.setattr("ore.backends.hardware.thread_count", lambda: int(reading))
    rows = embedded.measure(SimpleNamespace(runs=5))
    rates = next(row for row in rows if row.what == "tokens")
    assert (set(rates.ours), set(rates.theirs), set(rates.again)) == ({50.0}, {90.0}, {90.0})
    assert rates.beside == f"the engine ({threads} and {reading} threads, {wait})"


def test_the_bare_engine_may_wait_as_ore_lets_it_wait():
    ours = child_environment({})
    del ours["GGML_NO_BACKTRACE"]
    assert ours in embedded.WAITS.values()


def test_tables_have_a_head_a_rule_and_a_line_for_each_row():
    rows = [("", "ORE"), ("import", "2 ms")]
    assert table(rows) == "        ORE\n------  ----\nimport  2 ms"
    assert markdown(rows) == "|  | ORE |\n| --- | ---: |\n| import | 2 ms |"


def test_a_page_says_why_something_was_not_measured():
    topics = [Topic(name, name.title(), "What it means.", lambda _: []) for name in ("one", "two")]
    found = [Comparison("it", "s", [1.0], "that", [2.0])]
    page = write_page([("Python", "3")], zip(topics, [found, "no model"]), ["A remark."])
    assert "| Python | 3 |" in page and "\nA remark.\n" in page
    assert "| it | 1.00 s ± 0% | that | 2.00 s ± 0% | 0.50 |  |  |" in page
    assert page.endswith("## Two\n\nWhat it means.\n\nNot measured: no model.\n")


def test_sections_of_a_page_are_written_anew_and_the_others_stay():
    names = ("one", "one, again", "two")
    topics = [Topic(name, name.title(), "What it means.", lambda _: []) for name in names]
    machine = [("Python", "3")]
    page = write_page(machine, zip(topics, ["no model"] * 3), ["A remark."])
    found = [Comparison("it", "s", [1.0], "that", [2.0])]
    for topic in topics:
        results = [(each, found if each is topic else "no model") for each in topics]
        whole = write_page(machine, results, ["A remark."])
        assert renewed(page, machine, [(topic, found)]) == whole
    with pytest.raises(ValueError, match="another machine"):
        renewed(page, [("Python", "4")], [])
    with pytest.raises(ValueError, match="no section 'Three'"):
        renewed(page, machine, [(Topic("three", "Three", "", lambda _: []), found)])


def test_a_page_shows_the_pictures_that_were_drawn_of_the_figures_in_its_tables(tmp_path):
    topics = [Topic(name, name.title(), "", lambda _: []) for name in ("one", "two")]
    kept = Comparison("`it`", "ms", [0.03], "that", [0.02], [0.021], most=2)
    missed = Comparison("it", "/s", [8.0], "that", [10.0], least=0.9)
    results = [(topics[0], [kept, missed]), (topics[1], "no model")]
    [chart] = drawing.charts(results)
    assert chart.name == "performance-one"
    assert chart.bars == (
        drawing.Bar(
            "it", "30.0 ms, that: 20.0 ms", pytest.approx(1.5), pytest.approx(1.05), 2, True
        ),
        drawing.Bar("it", "8.00/s, that: 10.0/s", pytest.approx(0.8), None, 0.9, False),
    )
    page = write_page([], results, [], {chart.name})
    assert "(images/performance-one.svg)" in page and "performance-two" not in page
    assert json.loads(drawing.as_text([chart]))[0]["bars"][1]["is_kept"] is False


@pytest.mark.slow
def test_the_same_figures_are_drawn_as_the_same_bytes(tmp_path):
    pytest.importorskip("matplotlib")
    bar = drawing.Bar("<it>", "30 ms, that: 20 ms", 1.5, 1.05, 2.0, True)
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        drawing.draw(drawing.Chart("it", (bar,)), folder)
    text = (tmp_path / "a/it.svg").read_text(encoding="utf-8")
    assert text == (tmp_path / "b/it.svg").read_text(encoding="utf-8")
    assert "1.50 · 30 ms, that: 20 ms" in text and "&lt;it&gt;" in text and len(text) < 20_000


@pytest.mark.slow
def test_a_process_is_measured_from_its_start_to_its_bytes_and_its_end():
    code = "import time; print('a', flush=True); time.sleep(0.2); print('b', flush=True)"
    done = finish([sys.executable, "-c", code], dict(os.environ))
    assert done.first <= done.last <= done.seconds + 0.01 and done.last >= 0.2
    with pytest.raises(RuntimeError, match="ended with 3: no"):
        finish([sys.executable, "-c", "import sys; sys.stderr.write('no'); sys.exit(3)"], {})


@pytest.mark.slow
def test_memory_is_that_of_the_process_and_not_of_its_parent():
    held = bytearray(64 * MIB)
    small, large = (
        peak([sys.executable, "-c", f"bytearray({size} * {MIB})"], {}) for size in (0, 40)
    )
    assert small < len(held)
    assert 40 * MIB <= large - small + MIB


def test_turns_are_answers_to_lines():
    code = "import sys\nfor line in sys.stdin: print('> ' + line.strip() + '!', flush=True)"
    assert 0 < turns([sys.executable, "-c", code], {}, 4, b"Hi!") < 5
    with pytest.raises(RuntimeError, match="gave no answer"):
        turns([sys.executable, "-c", "input()"], {}, 1, b"Hi!")


def test_a_place_has_none_of_the_users_variables(tmp_path, monkeypatch):
    for name in ("ORE_MODEL", "OLLAMA_HOST", "LLM_MODEL", "PYTHONDONTWRITEBYTECODE"):
        monkeypatch.setenv(name, "1")
    with place(tmp_path, 3, True) as here:
        names = {name for name in here.environ if name.startswith(("ORE_", "OLLAMA_", "LLM_"))}
        assert names == {"LLM_USER_PATH"} and "PYTHONDONTWRITEBYTECODE" not in here.environ
        assert here.environ["HOME"] == str(here.folder)
    assert not here.folder.exists()


@pytest.mark.slow
def test_packages_that_could_not_be_installed_are_not_taken_for_installed(tmp_path):
    (tmp_path / "requirements.txt").write_text("./there-is-none-1.0-py3-none-any.whl\n")
    for _ in range(2):
        with pytest.raises(subprocess.CalledProcessError):
            install(tmp_path / "installed", str(tmp_path / "requirements.txt"))


@pytest.mark.slow
def test_a_quick_run_shows_a_table_writes_a_page_and_leaves_nothing(tmp_path):
    disk, page = tmp_path / "disk", tmp_path / "page.md"
    disk.mkdir()
    command = [sys.executable, "-m", "benchmarks", "--quick", "--as-it-is", "--disk", str(disk)]
    command += ["--only", "skills", "--only", "startup", "--page", str(page)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--version" in done.stdout and "100 skills" in done.stdout
    assert list(disk.iterdir()) == []
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    tables = [row.split(" | ") for row in rows if row.count(" | ") == len(HEAD) - 1]
    figures = [cells for cells in tables if not re.search("wanted|---", " ".join(cells))]
    assert len(figures) == 5 + 2  # start-up, but for the two of llm; two numbers of skills
    assert all(re.fullmatch(r"\d+\.\d\d", cells[4]) for cells in figures)
