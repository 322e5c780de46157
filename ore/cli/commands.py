"""The commands of a REPL: one table, from which help, completion and ``docs/repl.md`` follow.

A command is never sent to the model.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from ore.backends import split_pin
from ore.backends.window import find_model
from ore.cli.beginning import beginning_of
from ore.cli.rules import SESSION_FLAGS
from ore.cli.runs import Run, reasoner_for
from ore.cli.terminal.editor import write_in_editor
from ore.cli.terminal.bytewise import on_terminal
from ore.cli.terminal.labels import in_either_case, labels_in
from ore.cli.terminal.text import LONGEST_CELL
from ore.core import ORE
from ore.errors import ModelNotFoundError, OreError, UsageError
from ore.files.neutral import brief, one_line
from ore.glass.limits import fit_of
from ore.store import FileSessionStore, check_name
from ore.types import Response

_SHOWN = 1 << 16
"""Characters of a prompt that are shown before it is sent."""
_MOST_LISTED = 1000  # models


@dataclass
class Talk:
    """What a REPL's commands look at and change."""

    run: Run
    asked: str | None = None  # the last prompt, whatever became of it
    answered: Response | None = None
    turns: int = 0  # that succeeded
    is_over: bool = False


@dataclass(frozen=True)
class Command:
    """One command; ``act`` is given what follows it, and returns the prompt to ask next, or None."""

    name: str  # with its slash
    argument: str  # what may follow, as help shows it
    help: str
    act: Callable[[Talk, str], str | None]
    also: tuple[str, ...] = ()  # other ways to write it

    @property
    def usage(self) -> str:
        """The name and the argument."""
        return f"{self.name} {self.argument}".rstrip()


def perform(talk: Talk, line: str) -> str | None:
    """Do what a line that begins with ``/`` says; return the prompt to ask next, or None.

    A line that begins with ``//`` is the prompt without the first slash.
    """
    if line.startswith("//"):
        return line[1:]
    name, _, argument = line.partition(" ")
    for command in COMMANDS:
        if name in (command.name, *command.also):
            if argument.strip() and not command.argument:
                raise UsageError(f"{one_line(name)} takes no argument: write it alone.")
            return command.act(talk, argument.strip())
    shown = one_line(name[:40])
    instead = ELSEWHERE.get(name, f"/help lists the commands; to send this, write /{shown}")
    raise UsageError(f"There is no command {shown}: {instead}.")


def complete(talk: Talk, line: str) -> list[str]:
    """Return the words that can end a line that is being typed: commands, and models."""
    name, space, word = line.partition(" ")
    if not space:
        names = [command.name for command in COMMANDS] if line.startswith("/") else []
        return [known for known in names if known.startswith(line)]
    if name != "/model":
        return []
    try:
        models = talk.run.backend.models()
    except OreError:
        return []
    labels = in_either_case(talk.run.console.labels)
    plain = [model for model in models if _is_plain(model, labels)]
    return [model for model in plain if model.startswith(word)]


def _is_plain(model: str, labels: list[str]) -> bool:
    """Whether a name can stand at the edge of a terminal, where readline lists what fits."""
    if len(model) > LONGEST_CELL or not model.isprintable() or " " in model:
        return False
    return on_terminal(model) == model and not labels_in(model, labels)


def _help(talk: Talk, argument: str) -> None:
    commands = [(command.usage, command.help) for command in COMMANDS]
    width = max(len(what) for what, _ in commands)
    lines = [[f"{what.ljust(width)}  {does}" for what, does in rows] for rows in (commands, KEYS)]
    talk.run.console.reply("\n".join([*lines[0], "", *lines[1]]))


def _leave(talk: Talk, argument: str) -> None:
    talk.is_over = True


def _model(talk: Talk, name: str) -> None:
    run = talk.run
    models = run.backend.models()
    if not name:
        here = (run.model_id, f"{run.model_id}:latest")
        lines = [f"{'*' if each in here else ' '} {brief(each)}" for each in models[:_MOST_LISTED]]
        more = len(models) - len(lines)
        if more > 0:
            lines.append(
                f"  and {more:,} more: run ore --list-models with this --backend and --host"
            )
        run.console.reply("\n".join(lines) or run.console.said(run.backend.no_models()))
        return
    name, pin = split_pin(name)
    same = find_model(({"name": each} for each in models), name)
    if name not in models and same is not None:
        name = same["name"]
    if name not in models and models and not name.lower().endswith(".gguf"):
        gone = run.model_id == name
        next_step = "choose another one" if gone else f"{run.model_id} is still used"
        raise ModelNotFoundError(
            f"There is no model '{name}'{' any more' if gone else ''}: /model lists the installed "
            f"ones; {next_step}.",
            model=name,
            available=tuple(models),
        )
    if pin is not None:
        run.backend.check_digest(name, pin)
    reasoner = reasoner_for(run.backend, name, run.asked, run.options, run.console)
    run.engine.reasoner.close()
    engine = ORE(reasoner, run.engine.system_prompt)
    talk.run = run._replace(engine=engine, model_id=name, pin=pin)
    talk.answered = None
    if run.conversation.is_new and not talk.turns:  # the first turn begins it
        run.conversation.beginning = beginning_of(
            run.options, run.asked, run.backend, name, run.conversation.session, pin
        )
    run.console.reply(f"Model: {name} ({run.backend.name})")


def _show(talk: Talk, argument: str) -> None:
    run = talk.run
    where = run.backend.name + (f", {run.backend.host}" if run.backend.host else "")
    rows = {
        "model": f"{run.model_id} ({where})",
        "window": _window(run, talk.answered),
        "session": _session(run),
        "turns": str(run.conversation.length // 2 if run.conversation.session else talk.turns),
        "history": run.console.history,
        "runs": f"logged in {run.log.root}" if run.log is not None else "not logged",
        "active": _active(run),
    }
    run.console.reply("\n".join(f"{name:<8} {one_line(value)}" for name, value in rows.items()))


def _window(run: Run, response: Response | None) -> str:
    fit = fit_of(response) if response else {}
    size, used = fit.get("window"), fit.get("prompt_tokens")
    if not size:
        wanted = run.asked.settings.options.get("num_ctx")
        asked = f", {wanted} tokens were asked for" if wanted else ""
        return f"{'not known' if response else 'known after the first turn'}{asked}"
    return f"{size} tokens" + (f"; the last prompt had {used}" if used else "")


def _session(run: Run) -> str:
    conversation = run.conversation
    if conversation.session is None:
        return "none: every turn on its own"
    if conversation.name is None:
        return "in memory, not saved"
    if conversation.unsaved:
        return f"{conversation.name}, where the last turns are not saved; /save NAME takes another name"
    return f"{conversation.name}, saved after each turn"


def _active(run: Run) -> str:
    """The flags that shape every turn, as they would be written."""
    words = []
    for flag in run.options.given:
        value = getattr(run.options, flag[2:].replace("-", "_"), None)
        if not flag.startswith("--") or flag in _SHOWN_ELSEWHERE or not value:
            continue
        values = value if isinstance(value, tuple) else (value,)
        words += [flag if value is True else f"{flag} {each}" for each in values]
    return " ".join(words) or "nothing"


def _save(talk: Talk, name: str) -> None:
    run = talk.run
    conversation = run.conversation
    if not name:
        raise UsageError("/save needs a name: /save NAME keeps the conversation under it.")
    if conversation.session is None:
        raise UsageError("Every turn is on its own here: leave, and begin with --session NAME.")
    if conversation.name is not None and not conversation.unsaved:
        raise UsageError(
            f"The conversation is saved as '{conversation.name}' already: to fork it, leave, and "
            f"begin with --resume-session {conversation.name} --save-session NAME."
        )
    name = check_name(name)
    if name == conversation.name:  # what was in the way may be gone
        if (error := conversation.keep()) is not None:
            raise error
    else:
        conversation.save_as(
            name,
            FileSessionStore(report=run.console.notice),
            beginning_of(
                run.options, run.asked, run.backend, run.model_id, conversation.session, run.pin
            ),
        )
    run.console.reply(f"Saved as '{conversation.name}', and so is each turn that follows.")


def _verbose(talk: Talk, argument: str) -> None:
    options = talk.run.options.replace(verbose=not talk.run.options.verbose)
    talk.run = talk.run._replace(options=options)
    on = "is on, and --quiet hides it" if options.quiet else "follows each answer"
    state = on if options.verbose else "is off"
    talk.run.console.reply(f"The [Metadata] line {state}.")


def _retry(talk: Talk, argument: str) -> str:
    asked, session = talk.asked, talk.run.conversation.session
    if asked is None and session is not None:
        users = [message for message in session.messages if message.role == "user"]
        asked = users[-1].content if users else None
    if asked is None:
        raise UsageError("Nothing was asked yet: there is nothing to ask again.")
    talk.run.console.reply(f"Asking again: {_beginning(asked)}")
    return asked


def _edit(talk: Talk, argument: str) -> str | None:
    text = write_in_editor(argument, os.environ)
    if not text.strip():
        talk.run.console.reply("Nothing was written, so nothing is sent.")
        return None
    talk.run.console.remember(text)  # first, for Ctrl-C may come while it is shown
    talk.run.console.reply(f"Sending:\n{_beginning(text)}")
    return text


def _beginning(text: str) -> str:
    """Return what is shown of a prompt that is sent whole: laying out 8 MB takes half a minute."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


COMMANDS = (
    Command("/help", "", "list the commands and keys", _help, also=("/?",)),
    Command("/bye", "", "leave, as quit, exit and Ctrl-D do", _leave, also=("/exit", "/quit")),
    Command("/model", "[NAME]", "list the models, or go on with another one", _model),
    Command("/show", "", "show the model, the session and what is active", _show),
    Command("/save", "NAME", "keep the conversation, now and after each turn", _save),
    Command("/verbose", "", "switch the [Metadata] line on or off", _verbose),
    Command("/retry", "", "ask the last prompt again, as a new turn", _retry),
    Command("/edit", "[TEXT]", "write the prompt in $VISUAL or $EDITOR", _edit),
)

KEYS = (
    ('"""', "begins and ends a text of several lines; a paste is kept whole"),
    ("//TEXT", "sends /TEXT"),
    ("Ctrl-C", "stops an answer, or clears the line"),
    ("Ctrl-D", "leaves, on an empty line"),
    ("Tab", "completes commands and models"),
    ("Up, Ctrl-R", "bring back what was typed"),
)
"""What is typed besides commands, and what it does."""

ELSEWHERE = {
    "/set": "options are flags, so that a run can be repeated: see --help",
    "/load": "/model goes on with another model, and --resume-session with a conversation",
    "/clear": "what was said stays; leave, and begin another conversation",
    "/list": "/model lists the models",
}
"""What to do instead of the commands that people know from ``ollama run``."""

_SHOWN_ELSEWHERE = (
    *("--model", "--backend", "--host", "--interactive", "--conversational"),
    *SESSION_FLAGS,
)
