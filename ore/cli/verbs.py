"""What a flag does without a turn: which module of this room does it; only that one is imported."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module

from ore.backends import Backend
from ore.cli.options import Options
from ore.cli.rules import SESSION_VERBS
from ore.cli.terminal.console import Console

DOES = {
    "--list-models": "model_list:list_models",
    "--list-personas": "lists:list_personas",
    "--list-tools": "lists:list_tools",
    "--list-skills": "lists:list_skills",
    "--verify-models": "model_verbs:verify_models",
    "--remove-model": "model_verbs:remove_model",
    "--pull": "lists:pull",
    "--show-license": "lists:show_license",
    **dict.fromkeys(SESSION_VERBS, "sessions:do_session_verb"),
    "--show": "checks:show",
    "--verify": "judged:verify",
    "--diff": "checks:diff",
    "--replay": "replay:replay",
    "--run": "run_files:run_file",
    "--rows": "rowwise:over_rows",
    "--why": "why:why",
    "--report": "report:report",
    "--as": "report_form:fill_form",
}
"""The function that does a verb, by its module in this room.

It is given the options, the console, and what makes a backend of options.
"""


def do_verb(options: Options, console: Console, connect: Callable[..., Backend]) -> None:
    """Do what the one verb of the command line asks for, or take the turn that a file says."""
    if options.names_last:
        options = import_module("ore.cli.runlog").with_last(options, os.environ)
    verb = "--run" if options.verb is None else "--as" if options.form else options.verb
    module, _, name = DOES[verb].partition(":")
    getattr(import_module(f"ore.cli.{module}"), name)(options, console, connect)
