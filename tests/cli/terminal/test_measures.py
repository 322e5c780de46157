"""Measured things as people and programs read them."""

from __future__ import annotations

import pytest

from ore.cli.terminal.measures import amount, pairs, summary

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
        (COUNTS, "m · 128 in · 512 out"),
        ({}, "m · 0 in · 0 out"),
        ({"eval_count": "many", "eval_duration": None}, "m · 0 in · 0 out"),
        ({"prompt_eval_count": -1, "eval_count": 10**400}, f"m · 0 in · {2**63} out"),
    ],
)
def test_a_person_reads_counts_speed_and_seconds(values, expected):
    assert summary("m", values) == expected


def test_a_program_reads_every_key_whatever_a_server_says():
    assert pairs("1", "a b", {"x": {"y": ""}, "eval_duration": 10**400}) == (
        f"id=1 model='a b' x.y='' eval_duration={10**400}"
    )


def test_an_amount_is_a_bar_only_where_the_whole_is_known():
    assert amount(5_000_000, 0) == "5.0 MB"
    assert amount(5_000_000, 10_000_000) == f"[{'#' * 15}{'.' * 15}]  50% of 10.0 MB"
