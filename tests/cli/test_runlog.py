"""The run log: an artifact of every turn where it was asked for, and ``--last``."""

from __future__ import annotations

import json
import os
import re
import stat
import time

import pytest

from ore.artifact.log import RunLog
from ore.errors import ArtifactError
from tests.support.runs import record, rows, sha256


@pytest.fixture
def log(folder, monkeypatch):
    """The folder that ``ORE_RUNS`` names; it is not there yet."""
    monkeypatch.setenv("ORE_RUNS", str(folder / "runs"))
    return folder / "runs"


def runs_in(log) -> list[dict]:
    """The artifacts in the log, the oldest first."""
    runs = [json.loads(path.read_text()) for path in log.glob("*/*")]
    return sorted(runs, key=lambda run: run["timestamp"])


def test_a_turn_is_one_private_file_of_its_day(ore, log):
    before = os.umask(0o022)
    assert ore("hi").out == "Paris.\n"
    os.umask(before)
    (path,) = log.glob("*/*")
    found = json.loads(path.read_text())
    day, moment = time.strftime("%Y-%m-%d %H%M%S", time.gmtime(found["timestamp"])).split()
    assert str(path.relative_to(log)) == f"{day}/{moment}-{found['execution_id']}.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == stat.S_IMODE(log.stat().st_mode) == 0o700
    assert (found["input"]["prompt"], found["output"]["content"]) == ("hi", "Paris.")
    assert ore("--verify", str(path)).code == 0


@pytest.mark.usefixtures("far_away")
def test_the_time_of_a_run_is_in_utc(tmp_path):
    assert time.localtime(0).tm_hour == 13
    assert RunLog(tmp_path).path_of("a", 0) == tmp_path / "1970-01-01/000000-a.json"


MODES = {
    "single": (["Q1"], None, ["single_turn"]),
    "stdin": ([], "Q1", ["single_turn"]),
    "streamed": (["Q1", "-s"], None, ["single_turn"]),
    "json": (["Q1", "--json"], None, ["single_turn"]),
    "interactive": (["-i"], "Q1\nQ2\n", ["single_turn"] * 2),
    "conversation": (["-c"], "Q1\nQ2\n", ["conversational"] * 2),
    "session": (["--session", "talk"], "Q1\nQ2\n", ["conversational"] * 2),
    "turn of a session": (["Q1", "--session", "talk"], None, ["conversational"]),
}


@pytest.mark.invariant
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_every_turn_of_every_mode_is_recorded(ore, folder, monkeypatch, mode, way):
    args, stdin, modes = MODES[mode]
    if way == "variable":
        monkeypatch.setenv("ORE_RUNS", str(folder / "runs"))
    else:
        args = [*args, "--runs", "runs"]
    result = ore(*args, stdin=stdin, replies=["A1", "A2"])
    assert result.code == 0, result.err
    found = runs_in(folder / "runs")
    assert [each["input"]["mode"] for each in found] == modes
    assert [each["input"]["prompt"] for each in found] == ["Q1", "Q2"][: len(modes)]
    assert [each["output"]["content"] for each in found] == ["A1", "A2"][: len(modes)]


@pytest.mark.parametrize("flags", [["-c"], ["--session", "talk"]], ids=str)
def test_the_turns_of_a_conversation_are_a_chain(ore, log, flags):
    ore(*flags, stdin="Q1\nQ2\nQ3\n", replies=["A1", "A2", "A3"])
    result = ore("--verify", *map(str, log.glob("*/*")))
    assert result.code == 0 and result.out.count("child of") == 2
    third = runs_in(log)[2]
    name = "session" if flags == ["-c"] else "session:talk"
    sources = [each["source"] for each in third["provenance"]["sources"]]
    assert sources == ["persona", *(f"{name}#{n}" for n in (1, 2, 3, 4)), "prompt"]


def test_a_file_and_the_log_hold_the_same_bytes(ore, log, folder):
    record(folder / "run.json", "hi")
    (path,) = log.glob("*/*")
    assert path.read_bytes() == (folder / "run.json").read_bytes()


def test_a_log_below_a_folder_that_is_gone_is_refused(ore, folder, monkeypatch):
    (folder / "gone").mkdir()
    monkeypatch.chdir(folder / "gone")
    (folder / "gone").rmdir()
    result = ore("--runs", "log", "hi")
    assert result.code == 2 and "Give its full path." in result.err


def test_nothing_is_recorded_that_was_no_turn(ore, log):
    ore("hi", "--dry-run")
    ore("--list-tools")
    ore("hi", models=[])
    assert not log.exists()


def test_without_it_nothing_is_recorded(ore, folder, monkeypatch):
    monkeypatch.setenv("ORE_RUNS", "")
    ore("hi")
    assert list(folder.iterdir()) == []


def test_the_flag_wins_over_the_variable(ore, log, folder):
    ore("hi", "--runs", "mine")
    assert not log.exists() and len(runs_in(folder / "mine")) == 1


def test_a_home_is_expanded(ore, home, monkeypatch):
    monkeypatch.setenv("ORE_RUNS", "~/runs")
    ore("hi")
    assert len(runs_in(home / "runs")) == 1


@pytest.mark.parametrize("value", ["", "rel"])
@pytest.mark.parametrize("args", [["hi", "--runs", "~/runs"], ["hi", "--runs=~"], ["hi"]], ids=str)
def test_a_home_that_is_none_puts_no_log_into_the_current_folder(
    ore, folder, monkeypatch, value, args
):
    if len(args) == 1:
        monkeypatch.setenv("ORE_RUNS", "~/runs")
    monkeypatch.setenv("HOME", value)
    result = ore(*args)
    assert (result.code, result.calls) == (2, []) and "set HOME to the full path" in result.err
    assert list(folder.iterdir()) == []


# What can't be written


@pytest.mark.parametrize("value", ["runs", "\x1b[31mruns\nYou: hi"])
def test_a_relative_variable_is_asked_wrongly(ore, folder, monkeypatch, value):
    monkeypatch.setenv("ORE_RUNS", value)
    result = ore("hi")
    assert (result.code, result.calls) == (2, []) and f"ORE_RUNS is {value!r}," in result.err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "below a file", "dangling link", "read-only"])
@pytest.mark.parametrize("flags", [["hi"], ["-c"]], ids=str)
def test_a_log_that_can_t_be_written_is_found_before_anything_is_sent(
    ore, log, folder, monkeypatch, kind, flags
):
    if kind == "dangling link":
        log.symlink_to(folder / "nowhere")
    elif kind == "read-only":
        log.mkdir()
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, how: path != log and real(path, how))
    else:
        log.write_text("mine")
        if kind == "below a file":
            monkeypatch.setenv("ORE_RUNS", str(log / "runs"))
    result = ore(*flags, stdin="one\n" if flags == ["-c"] else None)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "run log can't be written" in result.err and len(result.err.splitlines()) == 1
    assert kind not in ("file", "below a file") or log.read_text() == "mine"


@pytest.mark.parametrize("flags", [[], ["--json"], ["--session", "talk"]], ids=str)
def test_an_answer_that_can_t_be_recorded_is_shown_and_that_is_said(ore, log, home, flags):
    def fill(_):
        log.write_text("no folder any more")
        return "Paris."

    result = ore("hi", *flags, replies=[fill])
    assert result.code == 1 and "Paris." in result.out
    assert "run log can't be written" in result.err and "Traceback" not in result.err
    assert not flags or flags == ["--json"] or (home / ".ore/sessions/talk.json").exists()


def test_a_repl_goes_on_when_a_turn_can_t_be_recorded(ore, log):
    def fill(_):
        log.write_text("no folder any more")
        return "1"

    def mend(_):
        log.unlink()
        return "2"

    result = ore("-c", stdin="one\ntwo\n", replies=[fill, mend])
    assert (result.code, result.out) == (1, "1\n2\n")
    assert [each["input"]["prompt"] for each in runs_in(log)] == ["two"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_said(ore, log, monkeypatch):
    import errno

    from ore import files

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    result = ore("hi")
    assert (result.code, result.out) == (1, "Paris.\n") and "no space left" in result.err
    assert not list(log.glob("*/*")) and not list(log.glob("*/.*"))


# --last


@pytest.fixture
def two(ore, log):
    """Two runs in the log, of different seconds."""
    for number, timestamp in ((1, 1_000_000_000), (2, 1_000_000_001)):
        ore(f"Q{number}", replies=[f"A{number}"])
        (path,) = [path for path in log.glob("*/*") if not path.parent.name.startswith("2001")]
        found = path.read_bytes()
        new = RunLog(log).path_of(json.loads(found)["execution_id"], timestamp)
        new.parent.mkdir(exist_ok=True)
        path.rename(new)
    return log


def test_last_is_the_newest_run_wherever_a_path_is_asked_for(ore, two, folder):
    old, new = sorted(two.glob("*/*"))
    assert rows(ore("--verify", "--last").out) == {new.name: ["holds"]}
    result = ore("--replay", "--last", "--json", replies=["A2"])
    assert result.code == 0 and result.json[0]["path"] == str(new)
    for order in (["--last", str(old)], [str(old), "--last"]):
        assert f"{new} answer" in ore("--diff", *order).out
    assert json.loads(new.read_text())["execution_id"] in ore("--show", "--last").out
    assert ore("--artifact-in", "--last").prompts == ["Q2"]


def test_last_goes_on_from_the_newest_answer(ore, two):
    _, new = sorted(two.glob("*/*"))
    found = json.loads(new.read_text())
    result = ore("Shorten it", "--after", "--last")
    assert result.calls[0][1].content == f"[Artifact:{found['execution_id']}]\nA2"
    result = ore("And now?", "--after", "--last", "--artifact-out")
    child = json.loads(result.out)["provenance"]["parent"]
    assert child["execution_id"] == result_id(two, "Shorten it")
    assert ore("More", "--after", "--last", "--artifact-out", "new.json").code == 0
    last = ore("--verify", "--last").out.partition("\t")[0]
    over = ore("More", "--after", "--last", "--artifact-out", last)
    assert over.code == 2 and "would replace the artifact that --after reads" in over.err


def result_id(log, prompt: str) -> str:
    return next(e["execution_id"] for e in runs_in(log) if e["input"]["prompt"] == prompt)


def test_last_looks_into_the_folder_of_the_flag(ore, two, folder, monkeypatch):
    monkeypatch.delenv("ORE_RUNS")
    assert ore("--verify", "--last", "--runs", "runs").code == 0
    assert ore("--verify", "--last", "--runs", "~/none").code == 1


@pytest.mark.parametrize("opened", ["home", "home/runs"])
@pytest.mark.parametrize(
    "args", [("--after", "--last", "next"), ("--show", "--last"), ("hi",), ("--replay", "--last")]
)
def test_a_log_in_a_home_that_others_can_write_to_is_not_used(
    ore, tmp_path, monkeypatch, opened, args
):
    """Whoever writes a run there would choose what ``--last`` is."""
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORE_RUNS", str(tmp_path / "home/runs"))
    assert ore("hi").code == 0
    (tmp_path / opened).chmod(0o777)
    result = ore(*args)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert f"Nothing in {tmp_path / opened} is used: others can write to it" in result.err
    assert len(list(tmp_path.glob("home/runs/*/*"))) == 1


@pytest.mark.parametrize(
    ("home", "runs", "opened"),
    [
        ("up/../home", "home/runs", "home"),
        ("link", "home/runs", "home"),
        ("home", "link/runs", "home"),
        ("home", "into", "home"),
        ("home", "through", "home"),
        ("home", "into/../runs", "home"),
        ("home", "home/logs/runs", "home/logs"),
        ("home", "home/logs/runs", "home/logs/runs"),
        ("home", "home/runs", "home/runs/*"),
        ("home", "home/runs", "home/runs/*/*.json"),
    ],
)
def test_a_log_is_in_the_home_however_both_are_written_and_judged_down_to_the_run(
    ore, tmp_path, monkeypatch, home, runs, opened
):
    (tmp_path / "up").mkdir()
    (tmp_path / "home/runs").mkdir(parents=True)
    (tmp_path / "link").symlink_to("home")
    (tmp_path / "into").symlink_to("home/runs")
    (tmp_path / "home/out").symlink_to("../up")
    (tmp_path / "through").symlink_to("home/out")
    monkeypatch.setenv("ORE_HOME", f"{tmp_path}/{home}")
    monkeypatch.setenv("ORE_RUNS", f"{tmp_path}/{runs}")
    assert ore("hi").code == 0
    (which,) = tmp_path.glob(opened)
    which.chmod(0o777)
    result = ore("--after", "--last", "next")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "is used: others can write to it" in result.err


def test_a_log_is_in_the_home_where_the_folder_before_two_dots_is_yet_to_be_made(
    ore, tmp_path, monkeypatch
):
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home").chmod(0o777)
    monkeypatch.setenv("ORE_HOME", f"{tmp_path}/home")
    monkeypatch.setenv("ORE_RUNS", f"{tmp_path}/missing/../home/runs")
    result = ore("hi")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "is used: others can write to it" in result.err


def test_the_folders_around_a_home_are_not_judged_where_a_link_in_it_leads_out(
    ore, tmp_path, monkeypatch
):
    (tmp_path / "open/home/logs").mkdir(parents=True)
    (tmp_path / "open/home/out").symlink_to("logs/../../runs/")
    (tmp_path / "open/runs").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("ORE_HOME", f"{tmp_path}/open/home")
    assert ore("hi", "--runs", f"{tmp_path}/open/home/out").code == 0
    assert len(list(tmp_path.glob("open/runs/*/*.json"))) == 1


def test_a_log_whose_home_is_opened_to_others_in_a_repl_takes_no_more_runs(
    ore, tmp_path, monkeypatch
):
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ORE_RUNS", str(tmp_path / "home/runs"))

    def opened(_):
        (tmp_path / "home").chmod(0o777)
        return "Rome."

    result = ore("-i", stdin="one\ntwo\n", replies=["Paris.", opened])
    assert (result.code, result.out) == (1, "Paris.\nRome.\n")
    assert f"Nothing in {tmp_path / 'home'} is used: others can write to it" in result.err
    assert len(list(tmp_path.glob("home/runs/*/*"))) == 1


def test_a_log_elsewhere_is_the_users_own_choice(ore, tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_RUNS", str(tmp_path / "runs"))
    assert ore("hi").code == 0
    (tmp_path / "runs").chmod(0o777)
    assert ore("--show", "--last").code == 0


def test_last_without_a_log_is_asked_wrongly(ore, folder):
    result = ore("--replay", "--last")
    assert result.code == 2 and "ORE_RUNS" in result.err and "--runs" in result.err


@pytest.mark.parametrize("args", [("--last", "Q"), ("Q", "--last"), ("--last",)])
def test_last_beside_a_prompt_says_where_it_belongs(ore, two, args):
    result = ore(*args)
    assert result.code == 2 and "--last stands for the PATH" in result.err


def test_last_in_an_empty_log_says_so(ore, log):
    result = ore("--replay", "--last")
    assert result.code == 1 and "There is no run in the log" in result.err


@pytest.mark.parametrize(
    "args",
    [
        ["--last"],
        ["hi", "--last"],
        ["hi", "--artifact-out", "--last"],
        ["--model", "--last", "hi"],
        ["-f", "--last", "hi"],
        ["--backend", "--last", "hi"],
        ["hi", "--last=3"],
        ["--runs", "--last", "hi"],
    ],
    ids=" ".join,
)
def test_last_stands_for_nothing_but_the_path_of_an_artifact(ore, log, args):
    result = ore(*args)
    assert (result.code, result.calls) == (2, []) and "--last" in result.err
    assert "\0" not in result.err and not log.exists()


def test_after_two_dashes_it_is_a_prompt(ore, log):
    assert ore("--", "--last").prompts == ["--last"]


def test_other_files_in_the_log_are_left_alone(tmp_path):
    log = RunLog(tmp_path)
    for name in ("notes.txt", "2001-01-01/x.json", "2002-01-01/.1.tmp", "9999/120000-a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    with pytest.raises(ArtifactError, match="no run in the log"):
        log.last()
    (tmp_path / "2001-01-01/235959-a.json").write_text("")
    assert log.last() == tmp_path / "2001-01-01/235959-a.json"


@pytest.mark.parametrize("kind", ["FIFO", "link", "dangling link", "folder"])
def test_what_is_no_file_is_not_the_newest_run(tmp_path, kind):
    day, run = tmp_path / "2026-01-31", "235959-run.json"
    day.mkdir()
    (day / "000000-old.json").write_text("{}")
    (tmp_path / "elsewhere").write_text("{}")
    if kind == "FIFO":
        os.mkfifo(day / run)
    elif kind == "folder":
        (day / run).mkdir()
    else:
        (day / run).symlink_to(tmp_path / ("elsewhere" if kind == "link" else "nowhere"))
    assert RunLog(tmp_path).last() == day / "000000-old.json"


def test_a_day_that_has_gone_hides_no_other(tmp_path):
    (tmp_path / "2026-01-31").mkdir()
    (tmp_path / "2026-01-31/000000-old.json").write_text("{}")
    (tmp_path / "2026-02-01").symlink_to(tmp_path / "nowhere")
    assert RunLog(tmp_path).last() == tmp_path / "2026-01-31/000000-old.json"


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 3000], ids=["name", "path"])
def test_a_folder_whose_name_is_too_long_is_said_before_anything_is_sent(ore, folder, name):
    result = ore("hi", "--runs", str(folder / name))
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "file name too long" in result.err


def test_of_one_second_the_one_that_was_written_last_is_the_newest(tmp_path):
    log = RunLog(tmp_path)
    for age, name in ((0, "b"), (1, "a"), (2, "c")):
        path = log.path_of(name, 0)
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
        os.utime(path, ns=(10**18 - age, 10**18 - age))
    assert log.last().name == "000000-b.json"


def test_an_id_that_is_no_name_of_a_file_is_hashed(tmp_path):
    for name in ("../x", "", "a" * 300, "\ud83d", "a b"):
        path = RunLog(tmp_path).path_of(name, 0)
        assert re.fullmatch(r"000000-[0-9a-f]{64}\.json", path.name)
    assert sha256("../x") in RunLog(tmp_path).path_of("../x", 0).name


def test_no_folder_is_made_for_a_file_that_is_not_in_the_log(tmp_path):
    log = RunLog(tmp_path / "runs")
    log.make_folder_of(str(log.path_of("a", 0)))
    log.make_folder_of(str(tmp_path / "elsewhere/a.json"))
    assert (tmp_path / "runs/1970-01-01").is_dir() and not (tmp_path / "elsewhere").exists()


def test_show_says_whether_turns_are_logged(ore, folder):
    shown = ore("-i", "--runs", "runs", stdin="/show\n", terminal="in out err").err
    assert f"runs     logged in {folder / 'runs'}\n" in shown
    shown = ore("-i", stdin="/show\n", terminal="in out err").err
    assert "runs     not logged\n" in shown
