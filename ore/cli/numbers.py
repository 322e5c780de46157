"""The numbers behind an answer, shown: how likely the word that was chosen is, or each token."""

from __future__ import annotations

from ore.cli.runs import Run
from ore.glass.choosing import said
from ore.types import Response


def show_choice(run: Run, response: Response) -> None:
    """Write the word that was chosen, a tab, and its probability; one that is too unlikely is not."""
    if response.metadata["choice"]["probability"] >= (run.options.min_confidence or 0):
        run.console.document(said(response))


def tell_numbers(run: Run, response: Response) -> None:
    """Say how likely the tokens of the answer were, if that was asked for."""
    if run.asked.settings.logprobs:
        run.console.notice(_logprob(response))


def _logprob(response: Response) -> str:
    found, written = response.metadata.get("logprob"), response.metadata.get("eval_count")
    if not found:
        return "The server gave no log-probabilities: --logprobs has nothing to show."
    of = "" if written in (None, found["tokens"]) else f" of {written}"
    tokens = "token" if (written or found["tokens"]) == 1 else "tokens"
    return (
        f"Log-probability of the answer: {found['sum']:.2f} nats in {found['tokens']}{of} {tokens}, "
        f"{found['mean']:.2f} a token."
    )
