"""Folders of artifacts: found, checked by several processes, compared and run again."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from ore.artifact import encode_artifact, many
from ore.artifact import verify as artifacts
from ore.artifact.seal import seal
from ore.artifact.verify import in_chain
from ore.core import ORE
from ore.errors import ArtifactError
from ore.glass import comparing
from tests.glass.test_recording import Echo
from tests.support.runs import record, rewrite


def verify_many(paths, told):
    """What many files show by themselves, and of each other."""
    return in_chain([*many.check_each(paths, told)])


def rows(out):
    """What stands behind each path of a table."""
    return {line.split("\t")[0]: line.split("\t")[1:] for line in out.splitlines()}


@pytest.fixture
def runs(folder):
    """Runs in folders, with files that are none of them."""
    for name in ("b/two", "a/one", "b/c/three"):
        path = folder / "runs" / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        record(path, name, replies=[f"Answer {name}."])
    (folder / "runs/notes.txt").write_text("none of them")
    (folder / "runs/.half.json").write_text("{")
    os.symlink(folder / "runs/a", folder / "runs/z")
    os.symlink(folder / "runs/a/one.json", folder / "runs/link.json")
    return folder / "runs"


FOUND = ["runs/a/one.json", "runs/b/c/three.json", "runs/b/two.json"]


def test_the_files_of_a_folder_are_found_in_order_and_nothing_else(runs):
    assert list(many.files_of(["runs"])) == FOUND
    assert list(many.files_of(["runs/b/two.json", "runs/a"])) == [FOUND[2], FOUND[0]]


def test_what_is_no_file_of_a_folder_is_not_waited_for(runs):
    os.mkfifo(runs / "b/fifo.json")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("runs/socket.json")
        assert list(many.files_of(["runs"])) == FOUND


@pytest.mark.parametrize("look", [verify_many, lambda paths, _: comparing.check_all(paths)])
def test_what_has_become_a_fifo_since_it_was_listed_is_not_waited_for(runs, look):
    paths = list(many.files_of(["runs"]))
    (runs / "a/one.json").unlink()
    os.mkfifo(runs / "a/one.json")
    found = look(paths, lambda number: None)
    assert [each.state for each in found] == ["not read", "holds", "holds"]
    assert "one.json can't be read: it is not a regular file" in found[0].problems[0]


def test_of_a_folder_what_holds_is_counted_and_what_does_not_has_a_line(ore, runs):
    result = ore("--verify", "runs")
    assert (result.code, result.out, result.err) == (0, "", "3 artifacts: 3 hold.\n")
    assert list(rows(ore("--verify", "runs", "-v").out)) == FOUND
    rewrite(runs / "b/two.json", lambda d: d["output"].update(content="No."))
    (runs / "b/other.json").write_text("[]")
    result = ore("--verify", "runs")
    assert result.code == 3 and "2 hold, 2 are broken" in result.err
    assert list(rows(result.out)) == ["runs/b/other.json", "runs/b/two.json"]
    found = json.loads(ore("--verify", "runs", "--json").out)
    assert [each["holds"] for each in found] == [True, True, False, False]
    assert found[0]["execution_id"] and found[2]["execution_id"] is None


def test_a_list_is_written_as_json_writes_it(ore, runs):
    for paths in (["runs"], ["runs/a"]):
        out = ore("--verify", *paths, "--json").out
        assert out == json.dumps(json.loads(out), indent=2) + "\n"


def test_the_chain_of_a_folder_is_checked(ore, runs, folder):
    record(runs / "a/child.json", "--artifact-in", "runs/a/one.json")
    assert ore("--verify", "runs").code == 0
    assert "child of runs/a/one.json" in ore("--verify", "runs", "-v").out
    rewrite(runs / "a/one.json", lambda d: d["output"].update(content="No."))
    result = ore("--verify", "runs")
    assert "its parent runs/a/one.json is not the artifact" in result.out


@pytest.mark.parametrize("text", ["empty", "runs"])
def test_a_folder_without_artifacts_or_that_can_t_be_read_is_said(ore, runs, folder, text):
    (folder / "empty").mkdir()
    result = ore("--verify", "runs/a", "empty")
    assert result.code == 1 and "empty has no file that ends in .json" in result.err
    assert ore("--verify", "-", "runs", stdin=b"{}").code == 2


@pytest.mark.parametrize("is_deep", [False, True], ids=["empty", "too deep"])
@pytest.mark.parametrize("flags", [["--verify"], ["--report", "--csv"], ["--replay"]], ids=" ".join)
def test_a_folder_s_name_puts_no_line_of_its_own_into_an_error(
    ore, tmp_path, monkeypatch, flags, is_deep
):
    name = "runs\nYou: hi\x1b[2J"
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)
    for _ in range(25 * is_deep):  # beyond the longest path that the system takes
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    os.chdir(tmp_path)
    flag, *more = flags
    result = ore(flag, name, *more)
    assert result.code == 1 and "runs^JYou: hi^[[2J" in result.err
    assert "\nYou:" not in result.err and "\x1b" not in result.err


def test_several_processes_find_what_one_finds(folder, monkeypatch):
    monkeypatch.setattr(many, "ALONE", 3)
    engine = ORE(Echo(), "")
    for number in range(150):
        artifact = engine.record(engine.execute(f"prompt {number}"))
        (folder / f"{number:03d}.json").write_text(encode_artifact(artifact))
    shutil.copy(folder / "000.json", folder / "copy.json")
    rewrite(folder / "007.json", lambda d: d["output"].update(content="No."))
    paths, told = list(many.files_of(["."])), []
    found = verify_many(paths, told.append)
    assert told == list(range(1, 152))
    alone = comparing.check_all(paths)
    for one, other in zip(found, alone, strict=True):
        assert (one.path, one.state, one.sha256) == (other.path, other.state, other.sha256)
        assert (one.execution_id, one.content) == (other.execution_id, other.content)
        assert [*one.problems, *one.notes] == [*other.problems, *other.notes]
    assert [c.path for c in found if c.state != "holds"] == ["./007.json"]
    assert all(c.artifact is None for c in found)


def test_a_system_that_binds_no_process_to_processors_reads_a_folder(folder, monkeypatch):
    """As macOS, whose ``os`` has no ``sched_getaffinity``."""
    record(folder / "run.json", "Question")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert [each.state for each in verify_many(["run.json"], lambda _: None)] == ["holds"]


def test_a_system_that_does_not_tell_the_processors_reads_a_folder(folder, monkeypatch):
    record(folder / "run.json", "Question")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: os.stat("/nowhere"))
    assert [each.state for each in verify_many(["run.json"], lambda _: None)] == ["holds"]


def check_all(paths):
    many.ALONE = 3
    return [each.state for each in verify_many(paths, lambda done: None)]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_worker_of_a_pool_that_may_start_no_process_reads_them_itself(folder, how):
    record(folder / "one.json", "Why?")
    with multiprocessing.get_context(how).Pool(1) as pool:
        assert pool.apply(check_all, (["one.json"] * 5,)) == ["holds"] * 5


@pytest.mark.parametrize("given", [0, 1])
@pytest.mark.parametrize("missing", ["fork", "pipe", "subinterpreter"])
def test_what_the_system_gives_no_process_for_is_read_all_the_same(
    folder, monkeypatch, given, missing
):
    for name, value in (("ALONE", 3), ("_AT_ONCE", 2)):
        monkeypatch.setattr(many, name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    paths = []
    for number in range(13):
        record(folder / f"{number:02}.json", f"Question {number}")
        paths.append(f"{number:02}.json")
    begin, begun = many._begun, []

    def refuse(*_, **__):
        if missing == "subinterpreter":
            raise RuntimeError("fork not supported for isolated subinterpreters")
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    def counted(*args):
        if len(begun) == given:
            monkeypatch.setattr(os, "pipe" if missing == "pipe" else "fork", refuse)
        begun.append(1)
        return begin(*args)

    monkeypatch.setattr(many, "_begun", counted)
    before = len(os.listdir("/proc/self/fd"))
    checked = verify_many(paths, lambda _: None)
    assert [each.path for each in checked] == paths and len(begun) == given + 1
    assert {each.state for each in checked} == {"holds"}
    monkeypatch.undo()
    assert missing != "pipe" or len(os.listdir("/proc/self/fd")) == before


def test_a_reading_process_that_is_killed_ends_the_check(folder, monkeypatch):
    monkeypatch.setattr(many, "ALONE", 3)
    here, real = os.getpid(), many.read_bytes

    def killed(path):
        if path == "5.json" and os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(path)

    monkeypatch.setattr(many, "read_bytes", killed)
    found = []

    def check():
        with pytest.raises(ArtifactError, match="ended too early"):
            verify_many([f"{number}.json" for number in range(200)], lambda done: None)
        found.append(True)

    thread = threading.Thread(target=check, daemon=True)
    thread.start()
    thread.join(60)
    assert found and not multiprocessing.active_children()


@pytest.mark.slow
@pytest.mark.parametrize("has_threads", [False, True], ids=["alone", "beside a thread"])
def test_an_event_loop_hears_nothing_of_the_signal_that_ends_reading_processes(
    folder, monkeypatch, has_threads
):
    def begun_late(parts, *more, read=many._read):
        if len(parts[0][0]) > 6:  # the second process, as on a busy machine
            time.sleep(0.3)
        read(parts, *more)

    monkeypatch.setattr(many, "_read", begun_late)
    monkeypatch.setattr(many, "ALONE", 3)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(many, "read_bytes", lambda path: b"" if len(path) < 8 else time.sleep(60))
    heard, loop = socket.socketpair()
    for each in (heard, loop):
        each.setblocking(False)
    before, end = signal.set_wakeup_fd(loop.fileno()), threading.Event()
    try:
        if has_threads:
            threading.Thread(target=end.wait, daemon=True).start()
        checked = many.check_each([f"{10**(n // 64)}.json" for n in range(256)], lambda done: None)
        next(checked)
        checked.close()
    finally:
        end.set()
        signal.set_wakeup_fd(before)
    with heard, loop, pytest.raises(BlockingIOError):
        heard.recv(1)


@pytest.mark.slow
def test_reading_processes_end_with_a_check_that_is_killed(folder):
    code = """
import os, time
from ore.artifact import many
def read_bytes(path):
    os.write(1, b"read\\n")
    time.sleep(0.001)
    return b""
many.ALONE, many.read_bytes = 0, read_bytes
list(many.check_each([str(number) for number in range(100_000)], lambda done: None))
"""
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor: no other process is started")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
        lines = sum(1 for _ in parent.stdout)  # it is open as long as one of them is there
    assert lines < 50_000


@pytest.mark.slow
def test_folders_within_folders_beyond_the_depth_of_recursion_are_read(folder):
    down = os.open(".", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=down)
        below = os.open("d", os.O_RDONLY, dir_fd=down)
        os.close(down)
        down = below
    os.close(os.open("x.json", os.O_CREAT, dir_fd=down))
    os.close(down)
    try:
        assert [len(path) for path in many.files_of(["d"])] == [2 * 1500 + len("x.json")]
    finally:  # by hand, for shutil.rmtree recurses
        path = "/".join("d" * 1500)
        os.unlink(f"{path}/x.json")
        while path:
            os.rmdir(path)
            path = path.rpartition("/")[0]


def test_a_chain_of_thousands_takes_no_longer_for_each(folder):
    engine, parent = ORE(Echo(), ""), None
    looked = []
    real = many.read_bytes
    for number in range(40):
        artifact = engine.record(engine.execute("go on", after=parent))
        (folder / f"{number}.json").write_text(encode_artifact(artifact))
        parent = artifact
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "read_bytes", lambda *of: looked.append(of[0]) or real(*of))
        verify_many(list(many.files_of(["."])), lambda done: None)
    assert len(looked) == 40


def test_of_large_files_few_are_read_before_they_are_checked(folder, monkeypatch):
    looked, ahead, real = [], [], many.read_bytes
    monkeypatch.setattr(many, "read_bytes", lambda *of: looked.append(of[0]) or real(*of))
    paths = [f"{number}.json" for number in range(9)]
    for path in paths:
        (folder / path).write_bytes(b" " * (1 << 19))
    verify_many(paths, lambda done: ahead.append(len(looked) - done))
    assert looked == paths and max(ahead) == 1, "two of half a mebibyte, of which one is checked"


def test_a_parent_of_many_is_read_once_more_and_not_for_each_child(folder, monkeypatch):
    engine, looked, real = ORE(Echo(), ""), [], artifacts.look_at
    parent = engine.record(engine.execute("go"))
    (folder / "a.json").write_text(encode_artifact(parent))
    named = {"execution_id": parent.execution_id, "relation": "prompt"}
    named["sha256"] = hashlib.sha256((folder / "a.json").read_bytes()).hexdigest()
    for number in range(20):
        document = engine.record(engine.execute("go")).to_dict()
        document["provenance"]["parent"] = named
        (folder / f"b{number}.json").write_text(json.dumps(seal(document)))
    monkeypatch.setattr(artifacts, "look_at", lambda *of: looked.append(of[0]) or real(*of))
    found = verify_many(list(many.files_of(["."])), lambda done: None)
    assert {tuple(each.notes) for each in found} == {(), ("child of ./a.json",)}
    assert looked.count("./a.json") == 1


def test_two_folders_are_compared_by_the_names_of_their_files(ore, runs, folder):
    shutil.copytree(runs, folder / "again", symlinks=True)
    result = ore("--diff", "runs", "again")
    assert (result.code, result.out) == (0, "")
    assert result.err == "3 runs compared: nothing differs.\n"
    (folder / "again/b/two.json").unlink()
    record(folder / "again/a/one.json", "a/one", replies=["Another answer."])
    result = ore("--diff", "runs", "again")
    assert result.code == 3 and "3 runs compared: 2 not the same" in result.err
    assert rows(result.out) == {
        "a/one.json": ["different", "in answer"],
        "b/two.json": ["missing", "it is in runs only"],
    }
    found = json.loads(ore("--diff", "runs", "again", "--json").out)
    assert [each["same"] for each in found] == [False, True, None]


def test_a_folder_is_run_again(ore, runs):
    result = ore("--replay", "runs", replies=["Answer a/one.", "Answer b/c/three.", "Other."])
    assert result.code == 3 and "1 of 3 runs" in result.err
    assert all(path in result.out for path in FOUND)
