"""``Settings`` from a program: limits of time are times."""

from __future__ import annotations

import math

import pytest

import ore
from tests.support.fake_openai import FakeOpenAI


@pytest.mark.parametrize("seconds", [0, -1, True, math.nan, math.inf, 10**400, "5"])
@pytest.mark.parametrize("name", ["timeout", "deadline"])
def test_a_limit_that_is_no_time_to_wait_is_refused_before_a_server_is_asked(name, seconds):
    with FakeOpenAI() as server, pytest.raises(ore.UsageError, match=f"The {name} must be"):
        asked = ore.reasoner("openai:small", host=server.url, **{name: seconds})
        ore.ORE(asked).execute("Why?")
    assert not server.requests


@pytest.mark.parametrize("seconds", [0, -1, math.nan, 10**400])
def test_the_limits_of_a_backend_and_of_recorded_runs_are_refused_as_well(seconds):
    with pytest.raises(ore.UsageError, match="The timeout must be"):
        ore.backend("ollama", timeout=seconds)
    with pytest.raises(ore.UsageError, match="The deadline must be"):
        ore.Reopening(deadline=seconds)
