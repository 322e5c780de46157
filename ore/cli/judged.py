"""``--verify``: artifacts checked, and who signed them; with ``--with-model`` judged by their models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ore.artifact import many
from ore.artifact import verify as artifacts
from ore.artifact.signers import Signers
from ore.artifact.verify import Checked
from ore.backends import Backend
from ore.cli.advice import said
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.cli.terminal.ended import counted, raising_then
from ore.errors import ArtifactError, CheckFailedError
from ore.files.neutral import one_line
from ore.glass.comparing import check_all, sign_held, signer_of

if TYPE_CHECKING:  # loaded where a model is asked
    from ore.cli.model_judgements import Said

_MOST_NAMED = 5
"""How many of those who signed are named in the last line."""


def verify(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Check the artifacts at ``options.verify`` and their chain, and write a line for each.

    Of a folder's, those that hold have a line with ``--verbose`` only. With ``options.with_model``
    their models are asked as well whether the answers can be theirs; with ``options.sign`` what holds
    is signed, with ``options.allowed_signers`` it has to be.
    """
    has_folder = many.has_folder(options.verify)
    signers = None if options.allowed_signers is None else Signers(options.allowed_signers)
    signer = None if options.sign is None else signer_of(options.verify, options.sign)
    with counted(console, "checked") as told:
        found = check_all(options.verify, signers, stdin=console.stdin, told=told)
    if signer is not None:
        with counted(console, "signed") as told:
            sign_held(found, signer, told)
    judged: list[Said | None] = [None] * len(found)
    failure: BaseException | None = None
    if options.with_model:
        room = import_module("ore.cli.model_judgements")
        judged, failure = room.judgements(found, options, console, connect)
    both = list(zip(found, judged, strict=failure is None))
    with raising_then(console, lambda: failure):
        if options.json:
            console.json_list(_document(*each) for each in both)
        else:
            lists_all = options.verbose or options.with_model or not has_folder
            shown = (pair for pair in both if lists_all or pair[0].state != artifacts.HOLDS)
            console.rows(
                [(_path(each), each.state, _details(each, judged)) for each, judged in shown]
            )
    states = [each.state for each in found]
    totals = artifacts.totals(states) + _signed(found)
    rejected = sum(said is not None and said.is_rejected for said in judged)
    if rejected:
        totals += f"; {rejected} not said by {'its' if rejected == 1 else 'their'} model"
    where = "Its line says why" if len(found) == 1 else "Their lines say why"
    failed = {artifacts.BROKEN, artifacts.UNSEALED} & set(states)
    if rejected or failed or signer is None and artifacts.UNSIGNED in states:
        raise CheckFailedError(f"{totals}. {where}.")
    if {artifacts.UNSIGNED, artifacts.NOT_READ} & set(states):  # the former by --sign
        raise ArtifactError(f"{totals}. {where}.")
    console.notice(f"{totals}.")


def _signed(found: Sequence[Checked]) -> str:
    """Return who signed how many of them, for the last line; or by which key they were signed now."""
    signed = [each.signature for each in found if each.signature and not each.signature.problem]
    if not signed:
        return ""
    names = Counter(each.by for each in signed if each.by is not None)
    if not names:
        return f"; {len(signed):,} signed now"
    said = [f"{one_line(name)} ({count:,})" for name, count in names.most_common(_MOST_NAMED)]
    more = len(names) - len(said)
    return f"; signed by {', '.join([*said, *([f'{more} more'] if more > 0 else [])])}"


def _path(checked: Checked) -> str:
    """Return what was named; where that is an address and no file, without its user name and password."""
    return said(checked.path) if checked.sha256 is None else checked.path


def _details(checked: Checked, judged: Said | None) -> str:
    parts = [] if judged is None or not judged.in_words else [judged.in_words]
    signature = checked.signature
    if signature is not None:
        by = "signed" if signature.by is None else f"signed by {one_line(signature.by)}"
        parts.append(signature.problem or by)
    return "; ".join(
        [*parts, *(map(said, checked.problems) if checked.problems else checked.notes)]
    )


def _document(checked: Checked, judged: Said | None) -> dict[str, Any]:
    return {
        "path": _path(checked),
        "holds": checked.state == artifacts.HOLDS,
        "execution_id": checked.execution_id,
        "sha256": checked.sha256,
        "problems": [said(each) for each in checked.problems],
        "notes": checked.notes,
        "state": checked.state,
        **({} if checked.signature is None else {"signature": asdict(checked.signature)}),
        **({} if judged is None else {"model": asdict(judged.judgement)}),
    }
