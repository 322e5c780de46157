"""How likely a model finds a given text as its answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum


@dataclass(frozen=True)
class ScoredToken:
    """One token of a text that was scored, in its place.

    Attributes:
        text: What it stands for; U+FFFD where it is a part of a character.
        logprob: The natural logarithm of its probability after all that is before it (nats, <= 0),
            among all tokens of the model: before any sampling, penalty or grammar.
        rank: How many tokens were likelier: 0 is the likeliest one. None where the backend
            names too few of them to tell.
        id: Its number in the model's vocabulary, or None where the backend does not say.
        best: The text of the likeliest token in its place, or None where the backend does not say.
    """

    text: str
    logprob: float
    rank: int | None = None
    id: int | None = None
    best: str | None = None


@dataclass(frozen=True)
class Score:
    """A text as a model's answer to some messages, token by token.

    Attributes:
        text: The text.
        tokens: Its tokens, in order; where ``ended``, the one that ends the answer is the last.
        ended: Whether the end of the answer was scored too. An answer that was cut has none.
        model_id: The model, as a server names it that answers for any name.
        prompt_tokens: How many tokens the messages are.
    """

    text: str
    tokens: tuple[ScoredToken, ...]
    ended: bool
    model_id: str
    prompt_tokens: int

    @property
    def logprob(self) -> float:
        """The natural logarithm of the text's probability: the sum of its tokens', in nats."""
        return fsum(token.logprob for token in self.tokens)

    @property
    def mean(self) -> float:
        """``logprob`` for each token, in nats; 0 where there is none."""
        return self.logprob / len(self.tokens) if self.tokens else 0.0

    def is_tokenised_as(self, written: int | None) -> bool | None:
        """Tell whether the text has as many tokens as it had when a model wrote it.

        Where it has not, it is tokenised differently, and its tokens are not those of the answer.

        Args:
            written: ``metadata["eval_count"]`` of the answer. None where the answer's backend did
                not say, and then nobody knows: None.
        """
        return None if written is None else len(self.tokens) == written
