"""What was to be sent, as a plan has it: read in time that grows with its length."""

from __future__ import annotations

import json
import time

import pytest

from ore.glass.planned import PLAN_VERSION, messages_digest, parse_plan


@pytest.mark.slow
def test_a_plan_of_very_many_messages_is_read_in_time():
    skill = {"role": "system", "content": "", "source": "skill:"}
    messages = [*[skill] * 300_000, {"role": "user", "content": "hi", "source": "prompt"}]
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
    assert time.process_time() - started < 4
    assert (len(turn.skills), turn.session, turn.prompt) == (300_000, [], "hi")
