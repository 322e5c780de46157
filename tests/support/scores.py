"""A scripted reasoner that says how likely a text is: by what stands in the messages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ore.reasoner import Scorer
from ore.types import Message
from ore.types.score import Score, ScoredToken
from tests.support.harness import ScriptedReasoner


class Scoring(ScriptedReasoner, Scorer):
    """Each text of ``weights`` that is among the messages makes an answer so many nats likelier."""

    def __init__(self, replies: Sequence[Any], weights: Mapping[str, float]) -> None:
        super().__init__(replies)
        self.weights = weights
        self.scored: list[tuple[list[Message], str, bool]] = []

    def score(self, messages: list[Message], text: str, *, ended: bool = True) -> Score:
        self.scored.append((list(messages), text, ended))
        read = " ".join(message.content for message in messages)
        nats = -20 + sum(weight for words, weight in self.weights.items() if words in read)
        words = re.findall(r"\s*\S+|\s+$", text)
        tokens = tuple(ScoredToken(word, nats / len(words)) for word in words)
        return Score(text, tokens, ended, self.model_id, 1)

    def score_each(self, messages: list[Message], texts: Sequence[str]) -> list[Score]:
        raise NotImplementedError
