"""Processor features and cores, from what systems say of themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import closing

import pytest

from ore.backends import hardware
from ore.backends.engine_load import EngineProcess
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.hardware import (
    SMALL_MODEL_BYTES,
    Circles,
    Stops,
    free_bytes,
    generating_threads,
    missing_features,
    physical_cores,
    quota_cores,
    thread_count,
)
from ore.backends.http import Deadline
from ore.backends.settings import Settings
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.gguf import write_model

MODERN = "processor : 0\nflags\t\t: fpu sse2 avx avx2 bmi1 bmi2 f16c fma aes\n"
TWO_CORES_FOUR_THREADS = "".join(
    f"processor : {n}\nphysical id\t: 0\ncore id\t\t: {n % 2}\n\n" for n in range(4)
)
TWO_SOCKETS = "".join(f"physical id : {n}\ncore id : 0\n\n" for n in range(2))


@pytest.mark.parametrize(
    "cpu_info, missing",
    [
        (MODERN, set()),
        (MODERN.replace(" avx2", ""), {"avx2"}),
        ("flags : fpu sse2\n", {"avx2", "bmi2", "f16c", "fma"}),
        ("flags : avx2fake bmi2 f16c fma\n", {"avx2"}),
        ("Features : fp asimd\n", set()),
        ("", set()),
    ],
    ids=["modern", "no avx2", "old", "a longer word", "not x86-64", "nothing"],
)
def test_missing_features_are_found_in_the_processor_s_flags(cpu_info, missing):
    assert missing_features(cpu_info) == missing


@pytest.mark.parametrize(
    "cpu_info, cores",
    [(TWO_CORES_FOUR_THREADS, 2), (TWO_SOCKETS, 2), ("processor : 0\n", 0), ("", 0)],
    ids=["hyperthreads", "sockets", "unsaid", "nothing"],
)
def test_physical_cores_are_counted_once(cpu_info, cores):
    assert physical_cores(cpu_info) == cores


@pytest.mark.parametrize(
    "cpu_max, cores",
    [
        ("max 100000\n", 0),
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("10000 100000\n", 1),
        ("50000\n100000\n", 1),
        ("-1\n100000\n", 0),
        ("1 0\n", 0),
        ("nonsense", 0),
        ("", 0),
    ],
)
def test_a_quota_is_rounded_up_to_whole_cores(cpu_max, cores):
    assert quota_cores(cpu_max) == cores


@pytest.mark.parametrize(
    "files, threads, free",
    [
        ({"cpu.max": "50000 100000\n", "memory.max": "4096\n"}, 1, 4096),
        (
            {
                "cpu/cpu.cfs_quota_us": "50000\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "4096\n",
            },
            1,
            4096,
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_the_limits_of_a_container_are_found_in_both_versions_of_control_groups(
    tmp_path, monkeypatch, files, threads, free
):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(hardware, "_GROUPS", tmp_path)
    assert (thread_count(), free_bytes()) == (threads, free)


def test_no_more_threads_than_the_process_may_use_and_at_least_one():
    assert 1 <= thread_count() <= (os.cpu_count() or 1)


def test_a_system_that_binds_no_process_to_processors_has_threads(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert 1 <= thread_count() <= (os.cpu_count() or 1)


def test_a_process_that_is_bound_to_one_core_computes_with_one_thread():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert thread_count() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(
    "threads, size, generating",
    [
        (1, 98_362_432, 1),
        (2, 98_362_432, 2),
        (8, SMALL_MODEL_BYTES - 1, 2),
        (8, SMALL_MODEL_BYTES, 8),
        (1, 40 << 30, 1),
    ],
)
def test_a_small_model_generates_with_two_threads_at_most_whatever_else_computes(
    threads, size, generating
):
    assert generating_threads(threads, size) == generating


@pytest.mark.embedded
def test_the_small_model_reads_with_all_threads(model_dir, monkeypatch):
    monkeypatch.setattr("ore.backends.hardware.thread_count", lambda: 4)
    sent = []
    monkeypatch.setattr(EngineProcess, "_start", lambda self, asked: sent.append(asked))
    monkeypatch.setattr(EngineProcess, "_wait", lambda *_: None)
    EngineProcess(next(model_dir.glob("*.gguf")), 512, 1, "key", Deadline(None)).end()
    assert (sent[0]["threads"], sent[0]["batch_threads"]) == (2, 4)


@needs_engine
@pytest.mark.slow
def test_how_many_threads_read_a_long_prompt_changes_no_probability(tmp_path, monkeypatch):
    path, found = str(write_model(tmp_path / "m.gguf")), list[object]()
    monkeypatch.setattr("ore.backends.hardware.generating_threads", lambda *_: 1)
    for threads in (1, 2):
        monkeypatch.setattr("ore.backends.hardware.thread_count", lambda: threads)
        settings = Settings(options={"num_predict": 8}, logprobs=True)
        with closing(EmbeddedReasoner(path, settings)) as reasoner:
            response = reasoner.reason([Message("user", "The sea is large. " * 30)])
        assert response.metadata["prompt_eval_count"] > 512
        found.append(response.metadata["logprobs"])
    assert found[0] == found[1]


@pytest.mark.slow
def test_the_time_in_which_this_process_or_the_other_is_stopped_is_counted():
    with subprocess.Popen(["sleep", "60"]) as other:
        stops = Stops(other.pid)
        assert stops.seconds() == 0.0
        time.sleep(1.2)  # nobody looks, as while this process is stopped
        assert 1.2 <= (own := stops.seconds()) < 10.0
        time.sleep(0.1)
        assert stops.seconds() == own
        other.send_signal(signal.SIGSTOP)
        time.sleep(0.3)
        assert own + 0.3 <= (both := stops.seconds()) < own + 10.0
        other.send_signal(signal.SIGCONT)
        time.sleep(0.1)
        assert stops.seconds() == both
        other.kill()
    assert stops.seconds() == both  # it is gone


@pytest.mark.parametrize(
    "own, circles",
    [([0, 200, 400, 600], 0), ([0, 200, 0, 200], 4), ([0, 1, 2, 3], 6)],
    ids=["takes more and more", "takes and gives back", "takes little"],
)
def test_a_load_that_takes_much_more_memory_gets_further(tmp_path, own, circles):
    """The window's memory is cleared, and weights are put in another order, once all is read."""
    page, ticks = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    process = Circles(os.getpid())
    process._proc = tmp_path
    for number, megabytes in enumerate(own):
        shared = 1000
        resident = shared + (megabytes << 20) // page
        times = " ".join(["0"] * 10 + [str(number * ticks)] * 2)
        (tmp_path / "statm").write_text(f"99999 {resident} {shared} 0 0 0 0\n")
        (tmp_path / "stat").write_text(f"1 (python) S {times}\n")
        seconds = process.seconds()
    assert seconds == circles
