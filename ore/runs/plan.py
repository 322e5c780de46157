"""The dry run: what a turn would send, as one document, with the source of every message.

Knows nothing about streams or exit codes.
"""

from __future__ import annotations

from dataclasses import asdict
from hashlib import sha256
from typing import Any

from ore.context import Context
from ore.runs.provenance import messages_digest, messages_of, options_of
from ore.turn import Run

PLAN_VERSION = "ore.plan.v1"


def plan_of(run: Run, prompt: str, context: Context) -> dict[str, Any]:
    """Return the plan of the turn that ``run`` would take.

    Tools have run and skills were read, as for the turn itself; the reasoner is not called.
    """
    messages = messages_of(run, prompt, context)
    shown = [asdict(message) for message in messages]
    if run.images:
        shown[-1]["images"] = [sha256(data).hexdigest() for data in run.images]
    return {
        "plan_version": PLAN_VERSION,
        "backend": run.backend.name,
        "model_id": run.model_id,
        "options": options_of(run.settings),
        "messages": shown,
        "messages_sha256": messages_digest(messages),
    }
