"""What is asked about the models that a server lists: never more than so much, or so long."""

from __future__ import annotations

import pytest

from ore.backends import ollama_models
from ore.backends.ollama_models import default_of, described

MANY = {f"m{number}": {} for number in range(1_000)}


def all_described(show):
    return described(MANY, show)


def default(show):
    return default_of(MANY, show)


@pytest.mark.parametrize("look", [all_described, default])
@pytest.mark.parametrize("seconds, asked", [(0.0, 200), (3.0, 4), (60.0, 1)])
def test_a_slow_server_with_many_models_is_not_asked_for_ever(look, seconds, asked, monkeypatch):
    clock, names = [0.0], []

    def show(name):
        names.append(name)
        clock[0] += seconds
        return {"capabilities": ["embedding"]}

    monkeypatch.setattr(ollama_models.time, "monotonic", lambda: clock[0])
    assert look(show) is not None or look is default
    assert len(names) == asked
