"""The line of ``-v``: what a person reads of a turn, and what a program does."""

from __future__ import annotations

import pytest

from ore.cli.terminal.measured import pairs, summary

COUNTS = {"prompt_eval_count": 128, "eval_count": 512}


@pytest.mark.parametrize(
    "values, expected",
    [
        (
            {**COUNTS, "eval_duration": 12_190_000_000, "total_duration": 12_300_000_000},
            "m · 128 in · 512 out · 42 tok/s · 12.3 s",
        ),
        (
            {**COUNTS, "eval_duration": 128_000_000_000, "prompt_eval_duration": 0},
            "m · 128 in · 512 out · 4.0 tok/s · 128.0 s",
        ),
        ({**COUNTS, "total_duration": 12_000_000}, "m · 128 in · 512 out · 0.01 s"),
        (
            {
                "total_duration": 6_900_000_000,
                "load_duration": 2_340_000_000,
                "first_token_duration": 5_700_000_000,
                "device": "CPU",
            },
            "m · 0 in · 0 out · 6.9 s · loaded in 2.3 s · first token after 5.7 s · on CPU",
        ),
        ({**COUNTS, "load_duration": 99_000_000}, "m · 128 in · 512 out"),  # it was loaded before
        (COUNTS, "m · 128 in · 512 out"),
        ({**COUNTS, "cached_tokens": 96}, "m · 128 in (96 cached) · 512 out"),
        ({**COUNTS, "cached_tokens": 0}, "m · 128 in · 512 out"),
        ({"prompt_eval_count": None, "eval_count": 7, "cached_tokens": 5}, "m · 7 out"),
        ({}, "m · 0 in · 0 out"),
        ({"prompt_eval_count": None, "eval_count": 7, "eval_duration": None}, "m · 7 out"),
        ({"eval_count": "many", "eval_duration": None}, "m · 0 in · 0 out"),
        ({"prompt_eval_count": -1, "eval_count": 10**400}, f"m · 0 in · {2**63} out"),
    ],
)
def test_a_person_reads_counts_speed_and_seconds(values, expected):
    assert summary("1b9d", "m", values) == f"{expected} · 1b9d"


def test_a_program_reads_every_key_whatever_a_server_says():
    values = {"model": "a b", "x": {"y": ""}, "empty": {}, "eval_duration": 10**400}
    assert pairs(values) == f"model='a b' x.y='' eval_duration={10**400}"
