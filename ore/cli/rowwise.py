"""``--rows``: one prompt asked of every row of a table, one turn and one artifact a row."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from dataclasses import replace
from functools import partial

from ore.artifact import write_encoded
from ore.artifact.signing import signature_of
from ore.backends import Backend
from ore.backends.look_ups import briefly
from ore.backends.settings import Settings
from ore.cli.keep import tell_of_messages, tell_what_stays_here
from ore.cli.options import Options
from ore.cli.record import made_with, sent_by, turn_of
from ore.cli.row_question import read_question
from ore.cli.rowplan import show_rows
from ore.cli.runs import Run, open_run
from ore.cli.terminal.console import Console
from ore.cli.terminal.pace import LOG_SECONDS, REDRAW_SECONDS
from ore.errors import Terminated, UsageError
from ore.files.cells import csv_line
from ore.files.neutral import one_line
from ore.glass.provenance import known_for_all
from ore.rows import answers
from ore.rows.given import Given
from ore.rows.junit import Report, junit_report
from ore.rows.kept import RowFolder
from ore.rows.looked_at import Looked, look_at, refuse_places
from ore.rows.row_checks import CheckedTable, case_of, not_expected
from ore.rows.row_run import RowRun
from ore.rows.row_turns import Asking, Outcome, Question, Warned, told_once
from ore.rows.tables import Table, format_of, open_table, rows_in_words
from ore.types import Response

_REPORT = "ore --rows"


def over_rows(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Ask the prompt of ``options`` of every row of its table, and write what became of each.

    Raises:
        UsageError: A row can't be asked, or the prompt has no place for one; nothing was sent.
        CheckFailedError: Every row has an answer, and one is not what was expected.
        OreError: A row has no answer.
        KeyboardInterrupt: It was interrupted; the text says how to go on.
    """
    with ExitStack() as stack:
        opened = open_table(str(options.rows), options.rows_format, console.stdin)
        table = stack.enter_context(opened)
        _refuse_own_output(table, console)
        if options.expect is not None:
            wanted = stack.enter_context(_open_expected(options.expect, options.rows_format))
            table = CheckedTable(table, wanted, options.key)
        options, question, given = read_question(options, table)
        folder = None if options.artifact_out is None else RowFolder(options.artifact_out)
        looked = look_at(table, question, key=options.key, counts_formulas=options.csv)
        columns = _columns(table, options)
        if folder is not None:
            folder.check()
        if not looked.rows and not options.dry_run:
            if options.csv:
                console.document(csv_line(columns))
            if options.junit is not None:  # what an earlier run has found is not what this one has
                with junit_report(options.junit, _REPORT):
                    pass
            console.notice(f"The table {table.shown} has no rows: there is nothing to ask.")
            return
        warned = Warned()
        run = stack.enter_context(_opened(options, given, console, connect, warned))
        refuse_places(run.engine.system_prompt, table, question)
        asking = _asking(run, options, question, folder, warned)
        rows = RowRun(
            table,
            asking,
            looked.rows,
            folder=folder,
            most_failures=options.max_failures,
            least=options.min_confidence,
        )
        if options.dry_run:
            show_rows(run, rows)
            return
        stack.enter_context(rows)
        report = None
        if options.junit is not None:
            report = stack.enter_context(junit_report(options.junit, _REPORT))
        _Rows(run, options, table, looked, rows, folder, report).ask()


def _refuse_own_output(table: Table, console: Console) -> None:
    """Refuse to write to the table: ``>>`` would spoil it, and give it rows without an end."""
    is_same = False
    with suppress(AttributeError, OSError, ValueError):  # stdout is closed, or no file
        is_same = table.is_same_file(console.stdout.fileno())  # type: ignore[union-attr]
    if is_same:
        raise UsageError(
            f"The answers would go into the table {table.shown} itself: send them to "
            f"another file."
        )


def _open_expected(path: str, format: str | None) -> AbstractContextManager[Table]:
    """Open the table of ``--expect``; ``format`` is how that of ``--rows`` is written, if it was said."""
    if path == "-":
        raise UsageError("--expect can't read stdin: write its table to a file, and name that.")
    return open_table(path, format_of(path) or format)


def _columns(table: Table, options: Options) -> list[str]:
    """Return the columns that ``--csv`` writes."""
    if options.csv and answers.ANSWER in table.columns:
        raise UsageError(
            f"{table.shown} has a column '{answers.ANSWER}' already, and --csv adds one of that name: "
            f"rename it."
        )
    return [*table.columns, answers.ANSWER]


def _opened(
    options: Options,
    given: Given | None,
    console: Console,
    connect: Callable[..., Backend],
    warned: Warned,
) -> AbstractContextManager[Run]:
    """Open the run of a single turn, which is not taken: its context is that of every row."""

    def change(settings: Settings, backend: Backend) -> Settings:
        jobs = options.jobs or backend.at_once
        return replace(settings, at_once=jobs, on_thinking=None, on_warning=warned.add)

    single = options.replace(artifact_out=None, no_stdin=True, no_stream=True)
    return open_run(single, console, connect, given, change)


def _asking(
    run: Run, options: Options, question: Question, folder: RowFolder | None, warned: Warned
) -> Asking:
    """Return what asks rows with what the run has: asked once, and the same for all of them."""
    backend, settings, model_id = run.backend, run.asked.settings, run.model_id
    assert run.first is not None
    joins = {} if options.join_messages is None else {"join_messages": options.join_messages}
    turn = turn_of(run, sent_by(run, run.first))
    question = replace(
        question,
        before=turn.messages[:-1],
        tool_results=run.first.tool_results,
        skill_context=run.first.skill_context,
        skills=turn.skills,
        more={**question.more, **turn.more, **joins},
    )

    def log(response: Response, data: bytes) -> None:
        if run.log is not None:
            path = str(run.log.path_of(response.id, response.timestamp))
            run.log.make_folder_of(path)
            write_encoded(data, path)
            if run.signer is not None:
                run.signer.sign_written(path, data)

    return Asking(
        run.engine,
        made_with(run)._replace(known=known_for_all(backend, settings, model_id)),
        question,
        jobs=settings.at_once or 1,
        folder=folder,
        told=told_once(partial(backend.in_force, model_id, settings), settings),
        also=None if run.log is None else log,
        warned=warned,
        signer=run.signer,
    )


class _Rows:
    """Writes the rows of one run in their order, and says how far the run is.

    Args:
        rows: Asks them.
    """

    def __init__(
        self,
        run: Run,
        options: Options,
        table: Table,
        looked: Looked,
        rows: RowRun,
        folder: RowFolder | None,
        report: Report | None,
    ) -> None:
        self._report = report
        self._run, self._options, self._table = run, options, table
        self._rows, self._tally = rows, rows.tally
        self._folder, self._console = folder, run.console
        self._formulas, self._unsigned = looked.formulas, 0
        self._parsed = run.asked.settings.format is not None
        self._told_at, self._messages_told = time.monotonic(), False

    def ask(self) -> None:
        """Ask what is not there yet; raises what ``over_rows`` does."""
        tally, console = self._tally, self._console
        if self._options.csv:
            self._say_formulas()
            self._write(csv_line(_columns(self._table, self._options)))
        try:
            with closing(self._rows.outcomes(tick=self._tick, every=REDRAW_SECONDS)) as outcomes:
                for outcome in outcomes:
                    self._take(outcome)
        except (KeyboardInterrupt, Terminated) as exc:
            console.give_up_stalled()
            console.end_progress()
            how = f"{tally.in_words()}. {self._rows.how_to_go_on}"
            is_told = isinstance(exc, Terminated) or not console.stderr_is_terminal
            if is_told:
                console.notice(f"Stopped: {how}")
            with suppress(KeyboardInterrupt):  # the server may be slow to say which model it has
                briefly(self._say_of_artifacts)
            if is_told:
                raise
            raise KeyboardInterrupt(f"Stopped: {how}") from None
        finally:
            console.end_progress()
        self._end()

    def _say_formulas(self) -> None:
        if self._formulas:
            self._console.notice(
                f"Cells of {self._table.shown} that begin like a formula: {self._formulas:,}. They "
                f"are written as they are; an answer that does gets an apostrophe in front."
            )

    def _take(self, outcome: Outcome) -> None:
        """Write what became of a row, and say what went wrong."""
        console, least = self._console, self._options.min_confidence
        self._tell_of_messages(outcome)
        if outcome.error is not None:
            outcome.error.args = (console.said(outcome.error),)  # wherever it is written
        if self._options.csv:
            self._write(answers.as_csv(outcome, self._table.columns))
        else:
            self._write(answers.as_json(outcome, key=self._options.key, parsed=self._parsed))
        for text in outcome.warnings:
            console.warning(f"{outcome.row.shown}: {text}")
        if outcome.error is not None:
            console.error(answers.reason_of(outcome))
        elif why := not_expected(outcome, least):
            console.error(f"{outcome.row.shown} is not what was expected: {why}")
        if self._run.signer is not None and outcome.artifact is not None and not outcome.is_new:
            self._unsigned += not os.path.lexists(signature_of(outcome.artifact))
        if outcome.is_new and (outcome.artifact or self._run.log and not outcome.error):
            tell_what_stays_here(self._run)
        if self._report is not None:
            self._report.add(case_of(outcome, self._table.shown, self._options.key, least))
        self._tick()

    def _tell_of_messages(self, outcome: Outcome) -> None:
        """Say of the first row what is the same for all: which messages became one, and the like."""
        run, known = self._run, outcome.metadata
        if self._messages_told or not outcome.is_new or not known.keys() & {"joined", "notes"}:
            return
        assert run.first is not None
        self._messages_told = True
        tell_of_messages(run, known, turn_of(run, sent_by(run, run.first)).messages)

    def _write(self, line: str) -> None:
        if self._console.stdout_is_terminal:
            self._console.end_progress()
        self._console.document(line, is_json=not self._options.csv)

    def _tick(self) -> None:
        now, tally = time.monotonic(), self._tally
        is_drawn = self._console.can_redraw
        if now - self._told_at < (REDRAW_SECONDS if is_drawn else LOG_SECONDS):
            return
        self._told_at = now
        if not self._console.bar(tally.in_words()):
            self._console.notice(f"{tally.in_words()}.")

    def _say_other_model(self) -> None:
        """Warn where the model's name is another one's by now: artifacts have what it was at first."""
        run, has_folder = self._run, self._folder is not None
        if not self._rows.is_other_model():
            return
        anew = "run it again" + " with another folder" * has_folder
        again = "Run it again: it asks the new one about all rows."
        if self._options.scheduler is not None:  # some workers may still have the one before
            again = f"Give all workers one model, and {anew}."
        elif run.pin is not None:  # which the other one does not fit
            again = f"Give the name back to the pinned one, and {anew}."
        which = "rows whose artifacts name the old one" if has_folder or run.log else "some rows"
        what = f"{run.model_id} became another model during this run: the new one may have answered"
        run.console.warning(f"{what} {which}. {again}")

    def _say_of_artifacts(self) -> None:
        """Say what the artifacts do not show: which model answered, what they lack, who signed them."""
        folder, notice = self._folder, self._console.notice
        self._say_other_model()
        shown = "" if folder is None else one_line(str(folder.root))
        if others := self._rows.others():
            what = "1 artifact" if others == 1 else f"{others:,} artifacts"
            notice(
                f"The folder {shown} has {what} of other questions too: another prompt, model, option "
                f"or table. What was there is unchanged."
            )
        if self._unsigned:
            notice(
                f"{rows_in_words(self._unsigned)} had an answer already, but no signature: this run signs "
                f"only what it has asked. To sign what holds: ore --verify {shown} --sign KEY."
            )

    def _end(self) -> None:
        self._console.notice(f"{self._tally.in_words()}.")
        self._say_of_artifacts()
        if (error := self._rows.error("see above")) is not None:
            raise error
