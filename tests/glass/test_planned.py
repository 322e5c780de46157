"""What was to be sent, as a plan has it: read in time that grows with its length."""

from __future__ import annotations

import json
import time

import pytest

from ore.artifact.sources import messages_digest
from ore.errors import ArtifactError
from ore.glass.planned import PLAN_VERSION, parse_plan


@pytest.mark.slow
def test_a_plan_of_very_many_messages_is_read_in_time():
    skill = {"role": "system", "content": "", "source": "skill:"}
    messages = [*[skill] * 190_000, {"role": "user", "content": "hi", "source": "prompt"}]
    plan = {
        "plan_version": PLAN_VERSION,
        "backend": "scripted",
        "model_id": "m",
        "messages_sha256": messages_digest(messages),
        "options": {},
        "messages": messages,
    }
    data = json.dumps(plan).encode()
    started = time.process_time()
    turn = parse_plan(data, "plan.json").turn
    assert time.process_time() - started < 3
    assert (len(turn.skills), turn.session, turn.prompt) == (190_000, [], "hi")


@pytest.mark.slow
@pytest.mark.parametrize("part", [b"[],", b"1,", b"[[[[[]]]]],", b'{"":{"":1}},'], ids=repr)
def test_a_plan_of_too_many_values_is_refused_before_they_take_memory(part):
    values = part.count(b"[") or 2 * part.count(b"{") or 1
    many = part * (1_000_001 // values + 1)
    with pytest.raises(ArtifactError, match="it holds more than 1,000,000 values"):
        parse_plan(b'{"plan_version":"","a":[' + many + b"1]}", "plan.json")


@pytest.mark.slow
def test_a_plan_of_so_many_messages_that_its_turn_outlasts_any_deadline_is_refused():
    messages = [{"role": "user", "content": "", "source": "file:"}] * 250_000
    with pytest.raises(ArtifactError, match="it holds more than 1,000,000 values"):
        parse_plan(json.dumps({"messages": messages}).encode(), "plan.json")


@pytest.mark.slow
def test_what_stands_in_the_texts_of_a_plan_is_no_value():
    prompt = json.dumps({"role": "user", "content": '[{"a": 1}, ' * 2_000_000, "source": "prompt"})
    with pytest.raises(ArtifactError, match="it is not a plan of the version"):
        parse_plan(b'{"messages": [' + prompt.encode() + b"]}", "plan.json")


def test_a_plan_with_half_a_character_says_so():
    messages = [{"role": "user", "content": "Hi \ud83d", "source": "prompt"}]
    texts = {"backend": "scripted", "model_id": "m", "messages_sha256": ""}
    plan = {"plan_version": PLAN_VERSION, **texts, "options": {}, "messages": messages}
    with pytest.raises(ArtifactError, match="holds half a character, which can't be sent"):
        parse_plan(json.dumps(plan).encode(), "plan.json")
