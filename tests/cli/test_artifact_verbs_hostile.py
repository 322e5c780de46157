"""Artifacts that others prepared, given to ``--verify``, ``--diff`` and ``--replay``: sentences only."""

from __future__ import annotations

import random

import pytest

from tests.support.artifacts import spoiled
from tests.support.runs import record, rewrite, rows

EACH = 60


@pytest.mark.parametrize("flags", [["--artifact-full", "--tool", "echo"], ["--skill", "writing"]])
@pytest.mark.slow
def test_a_spoiled_artifact_is_never_a_crash_and_never_trusted(ore, folder, writing, flags):
    good = record(folder / "good.json", "hi", "-o", "seed=1", "--think", "on", *flags)
    rng = random.Random(0)
    for _ in range(EACH):
        data = spoiled(rng, good)
        (folder / "bad.json").write_bytes(data)
        for argv, codes in (
            (["--verify", "bad.json"], (0, 3)),
            (["--verify", "bad.json", "--json"], (0, 3)),
            (["--diff", "bad.json", "good.json"], (0, 1, 3)),
            (["--replay", "bad.json"], (0, 3)),
            (["--replay", "bad.json", "--json"], (0, 3)),
        ):
            result = ore(*argv, models=("scripted", "null"))
            assert result.code in codes, (argv, data[:300], result.err)
            assert len(result.calls) <= ("--replay" in argv)


@pytest.mark.parametrize("key", ["system", "developer", "tool", "root", ""])
def test_a_role_that_no_model_has_is_never_sent(ore, folder, key):
    record(folder / "good.json", "hi", "--artifact-full")
    rewrite(folder / "good.json", lambda d: d["provenance"]["messages"][0].update(role=key or None))
    result = ore("--replay", "good.json")
    sent = [message.role for call in result.calls for message in call]
    assert set(sent) <= {"system", "user", "assistant"}
    assert rows(result.out)["good.json"][0] == ("same" if key == "system" else "not run")


def test_a_file_of_many_megabytes_is_refused_at_once(ore, folder):
    with open(folder / "big.json", "wb") as file:
        file.truncate(1 << 30)
    result = ore("--verify", "big.json")
    assert result.code == 3 and "larger than 16,777,216 bytes" in result.out
