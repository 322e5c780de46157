"""What a turn would send, and what the model would read of it: shown instead of taking it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ore.backends.window import LARGER_WINDOW
from ore.cli.context import Context
from ore.cli.record import sent_by, turn_of
from ore.cli.runs import Run
from ore.cli.terminal.text import preview
from ore.errors import ContextTruncatedError
from ore.glass.planning import planned
from ore.glass.provenance import joined_sentence
from ore.types.turn_plan import TEMPLATE, Plan


def show_plan(run: Run, context: Context) -> None:
    """Show the plan of a turn: a table for a person on a terminal, else the plan as JSON.

    Raises:
        ContextTruncatedError: With ``--strict-context``: the prompt is sure not to fit.
        OreError: A turn could not be taken either, or nobody reads the plan.
    """
    plan = plan_of(run, context)
    if run.console.stdout_is_terminal and not run.options.json:
        _show_table(run, plan)
    else:
        run.console.json(plan.to_dict())
    if run.options.strict_context and plan.fits is False:
        least = "" if plan.exact else "at least "
        raise ContextTruncatedError(
            f"The prompt has {least}{plan.tokens_least:,} tokens and the model's window holds "
            f"{plan.window:,}: shorten the prompt, or, if the model can have a larger window, raise it: "
            f"{run.console.said(LARGER_WINDOW)}."
        )


def plan_of(run: Run, context: Context) -> Plan:
    """Return the plan of the turn that ``run`` would take.

    Tools have run and skills were read, as for the turn itself; the reasoner is not called.
    """
    expectation = run.asked.given.expectation if run.asked.given is not None else None
    more: dict[str, Any] = {
        "persona": run.options.persona,
        "grants": sorted(set(run.options.grant)),
        "system_from": run.asked.system_from,
        **({} if run.pin is None else {"pin": run.pin}),
        **({} if expectation is None else {"expect": dict(expectation.wanted)}),
        **({} if context.decision is None else {"routing": asdict(context.decision)}),
    }
    sent = sent_by(run, context)
    return planned(
        run.backend,
        run.model_id,
        run.asked.settings,
        sent.messages,
        [each.source for each in turn_of(run, sent).messages],
        joins_always=run.options.join_messages == "always",
        more=more,
    )


def _show_table(run: Run, plan: Plan) -> None:
    about = "" if plan.exact else "about "
    rows = [("source", "tokens", "begins")]
    added = [part for part in plan.parts if part.source == TEMPLATE]
    for part in plan.parts:
        if part.source != TEMPLATE:
            rows.append((part.source, _shown(part.tokens, about), preview(part.text)))
    if added:
        counts = [part.tokens for part in added]
        total = None if None in counts else sum(count or 0 for count in counts)
        longest = max((part.text for part in added), key=len)
        rows.append((TEMPLATE, _shown(total, about), preview(longest)))
    rows.append(("in all", _shown(plan.tokens, about), _against_window(plan)))
    run.console.rows(rows)
    always = run.options.join_messages == "always"
    notes = [] if plan.joined is None else [joined_sentence(plan.joined, always=always)]
    for note in (*notes, *plan.notes, *([plan.not_rendered] if plan.not_rendered else [])):
        run.console.notice(note)


def _shown(tokens: int | None, about: str) -> str:
    return "" if tokens is None else f"{about}{tokens:,}"


def _against_window(plan: Plan) -> str:
    """Return the sum against the window, and what is left, in a few words."""
    between = ""
    if not plan.exact:
        between = f"between {plan.tokens_least:,} and {plan.tokens_most:,}; "
    if plan.window is None:
        return f"{between}the window is not known"
    of = f"{between}the window has {plan.window:,}"
    if plan.fits is False:
        return f"{of}: it does not fit"
    if plan.fits is None:
        return f"{of}: it may not fit"
    room = f"{of}: {plan.left:,} {'is' if plan.left == 1 else 'are'} left for the answer"
    if plan.answer_limit is None:
        return room
    if plan.answer_limit > (plan.left or 0):
        return f"{room}, less than the {plan.answer_limit:,} that it may have"
    return f"{room}, which may have {plan.answer_limit:,}"
