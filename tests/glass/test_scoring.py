"""Which backends can say how likely a given text is."""

from __future__ import annotations

import pytest

from ore.backends.ollama import OllamaBackend
from ore.backends.settings import Settings
from ore.errors import CapabilityError
from ore.glass.scoring import scorer_of
from tests.support.harness import ScriptedBackend


@pytest.mark.parametrize("backend", [ScriptedBackend(), OllamaBackend("127.0.0.1:9")])
def test_a_backend_that_can_not_score_says_so(backend):
    with pytest.raises(
        CapabilityError, match=f"'{backend.name}' can't say .*`reasoner.'embedded:NAME'"
    ):
        scorer_of(backend, "scripted", Settings())
