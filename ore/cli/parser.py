"""The command line's grammar: every flag, grouped by purpose, with its help.

What goes together is in ``ore.cli.options``.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from ore import __version__
from ore.errors import UsageError

EXAMPLES = """\
examples:
  ore "Why is the sky blue?"
  cat notes.txt | ore "Summarise this"
  ore -c                                    talk; nothing is kept
  ore --session trip "Where should I go?"   one turn of a saved conversation
  ore -f notes.txt -f plan.txt "What is missing in the plan?"
  ore --tool echo --tool-arg tone=dry "Tell me a joke"
  ore --artifact-out run.json "Draft a title"
  ore --artifact-in run.json --json
  ore --replay runs/*.json                  ask again; 3 where an answer differs

exit codes: 0 success, 1 failure, 2 wrong usage, 3 a check failed,
130 interrupted, 141 the reader went away, 143 terminated
"""

SHELLS = ("bash", "zsh", "fish")

ALLOWED_NUMBERS = {
    "--timeout": "a number of seconds above 0",
    "--deadline": "a number of seconds above 0",
    "--route-threshold": "a number from 0 to 1",
}


class _Text(argparse.Action):
    """Keeps the text that a flag asks for: it is shown instead of doing anything else."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        *_: object,
    ) -> None:
        if namespace.text is None:
            namespace.text = _text_of(self.dest, parser, str(values))


def _text_of(name: str, parser: argparse.ArgumentParser, value: str) -> str:
    if name == "help":
        return parser.format_help()
    if name == "version":
        return f"ore {__version__}\n"
    from ore.cli.completion import completion_script

    return completion_script(parser, value)


class _Once(argparse.Action):
    """Stores one value; a second one would silently take the place of the first."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string and getattr(namespace, self.dest) != self.default:
            parser.error(f"{option_string} is given twice: leave one of them out")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """An argument parser that raises, in ORE's words, instead of writing and ending the process."""

    color: bool  # Python 3.14 and later may paint the help

    def parse_args(  # type: ignore[override]  # of its overloads, the one that ORE needs
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """Return what the arguments say; ``text`` is what is to be shown instead, or None.

        Args:
            args: The arguments, which must be UTF-8 whatever the locale; None is the process's own.

        Raises:
            UsageError: They are not UTF-8, or break the grammar; one sentence that says where.
        """
        given = [_decode_argument(each) for each in (sys.argv[1:] if args is None else args)]
        found, rest = argparse.Namespace(text=None), list[str]()
        try:
            _, rest = self.parse_known_args(given, found)
        except UsageError:
            if found.text is None:
                raise
        if found.text is not None:  # what follows --help does not matter
            return found
        words = given[given.index("--") :] if "--" in given else []  # what follows it is not a flag
        flags = [each.partition("=")[0] for each in rest if each[:1] == "-" and each not in words]
        if flags:
            raise UsageError(f"There is no flag {flags[0]}: --help lists them.")
        if rest:
            raise UsageError(
                f"'{rest[-1]}' is one argument too many: put quotes around a prompt of several "
                f"words."
            )
        return found

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError`` for what ``argparse`` found, in our words where a value is wrong."""
        flag, _, problem = message.removeprefix("argument ").partition(": ")
        what, _, value = problem.partition(": ")
        if what.startswith("invalid "):
            (action,) = (each for each in self._actions if flag in each.option_strings)
            *most, last = action.choices or (ALLOWED_NUMBERS[flag],)
            allowed = f"{', '.join(most)} or {last}" if most else last
            value = value.rpartition(" (choose from ")[0] if action.choices else value
            message = f"{flag} must be {allowed}, not {value}"
        elif what.startswith("expected "):
            wanted = what.removeprefix("expected ").replace("argument", "value")
            message = f"{flag} needs {wanted}: --help says what"
        elif what.startswith("ignored explicit argument "):
            value = what.removeprefix("ignored explicit argument ")
            message = f"{flag} takes no value: leave {value} out"
        raise UsageError(f"{message}.")


def _decode_argument(argument: str) -> str:
    try:
        return decode(os.fsencode(argument), "An argument")
    except UnicodeEncodeError as exc:
        raise UsageError(f"An argument is not text at character {exc.start}.") from exc


def decode(data: bytes, what: str) -> str:
    """Return bytes as UTF-8 text; ``what`` says what they are, where they are not."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UsageError(
            f"{what} is not UTF-8 at byte {exc.start}: convert it to UTF-8 first; nothing was sent."
        ) from exc


def build_parser() -> Parser:
    """Return the parser of ORE's command line."""
    parser = Parser(
        prog="ore",
        usage="%(prog)s [prompt] [flags]   (--help lists the flags)",
        description="One prompt, one model call, one answer. stdout carries the answer alone.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        add_help=False,
    )
    for name in (None, "store"):
        parser.register("action", name, _Once)
    parser.color = False  # the console decides what is painted
    parser.add_argument("prompt", nargs="?", help="what to ask; text piped in is added below it")
    _add_model_flags(parser.add_argument_group("model"))
    _add_request_flags(parser.add_argument_group("what is asked of the model"))
    _add_mode_flags(parser.add_argument_group("modes and sessions"))
    _add_session_verbs(parser.add_argument_group("saved sessions"))
    _add_output_flags(parser.add_argument_group("output"))
    _add_context_flags(parser.add_argument_group("files, tools, skills and routes"))
    _add_artifact_flags(parser.add_argument_group("artifacts"))
    return parser


def _add_repeatable(group: argparse._ArgumentGroup, metavar: str, what: str, *flags: str) -> None:
    help = f"{what}; may be given again"
    group.add_argument(*flags, metavar=metavar, action="append", default=[], help=help)


def _add_model_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--model", metavar="NAME", help="a model's name, or a path to a .gguf file")
    add(
        "--backend",
        choices=("auto", "ollama", "embedded", "openai"),
        help="where models run; default: ORE_BACKEND, else auto",
    )
    add(
        "--host",
        metavar="URL",
        help="the server's address; default: OLLAMA_HOST, for openai OPENAI_BASE_URL",
    )
    add("--timeout", metavar="SECONDS", type=float, help="longest silence to accept; default: none")
    add("--deadline", metavar="SECONDS", type=float, help="longest whole turn; default: none")
    add(
        "--strict-context",
        action="store_true",
        help="a prompt that does not fit the context window is an error",
    )
    add("--list-models", action="store_true", help="list the installed models")
    add("--pull", metavar="NAME", help="fetch a model, showing how far it is")


def _add_request_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--system", metavar="TEXT", help="the system prompt instead of Aya's; @FILE reads a file")
    add("--no-system", action="store_true", help="send no system prompt")
    add("--persona", metavar="NAME", help="a system prompt from ~/.ore/personas/NAME.md")
    _add_repeatable(
        group, "KEY=VALUE", "an option of the model, as temperature=0", "-o", "--option"
    )
    add(
        "--think",
        choices=("on", "off", "low", "medium", "high"),
        help="whether, or how much, the model thinks first; default: its own",
    )
    add("--schema", metavar="FILE|JSON", help="a JSON Schema that the answer must match")
    _add_repeatable(group, "PATH", "an image (PNG, JPEG, WebP) for the prompt", "--image")
    add("--keep-alive", metavar="TIME", help="how long a server keeps the model: 5m, 0, -1")


def _add_mode_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "-i",
        "--interactive",
        action="store_true",
        help="ask again and again; nothing is remembered",
    )
    add("-c", "--conversational", action="store_true", help="a conversation, kept in memory")
    add("--save-session", metavar="NAME", help="a new conversation, saved after each turn")
    add("--resume-session", metavar="NAME", help="go on from a saved conversation")
    add("--session", metavar="NAME", help="resume a conversation, or begin it; saved")
    add(
        "-C",
        "--continue",
        dest="continue_last",
        action="store_true",
        help="resume the conversation that was used last; saved",
    )


def _add_session_verbs(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--list-sessions", action="store_true", help="list them, the last used first")
    add("--show-session", metavar="NAME", help="show one, or with --json its data")
    add("--search-sessions", metavar="TEXT", help="list the messages that contain a text")
    add("--rename-session", metavar=("OLD", "NEW"), nargs=2, default=[], help="rename one")
    add("--delete-session", metavar="NAME", help="delete one; asks on a terminal")
    add("--yes", action="store_true", help="delete without asking")
    add("--export-session", metavar="NAME", help="write one as Markdown to stdout")
    add("--salvage-session", metavar="NAME", help="save the whole turns of a damaged one")


def _add_output_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("-s", "--stream", action="store_true", help="show the answer as it is written")
    add("-j", "--json", action="store_true", help="the answer, or a list, as one JSON document")
    add("--render", action="store_true", help="show Markdown on a terminal (needs rich)")
    add("-v", "--verbose", action="store_true", help="token counts and durations after each answer")
    add("-q", "--quiet", action="store_true", help="nothing but errors and warnings on stderr")
    add("-h", "--help", action=_Text, nargs=0, help="show this help and exit")
    add(
        "--print-completion",
        action=_Text,
        choices=SHELLS,
        help="write a shell's completion script and exit (needs shtab)",
    )
    add("--version", action=_Text, nargs=0, help="show the version and exit")


def _add_context_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    _add_repeatable(group, "PATH", "a text file that the model reads first", "-f", "--file")
    add("--tool", metavar="NAME", help="run a tool first; the model reads its result")
    _add_repeatable(group, "KEY=VALUE", "an argument for the tool", "--tool-arg")
    add("--list-tools", action="store_true", help="list the tools and what they need")
    _add_repeatable(
        group, "PERM", "allow filesystem-read, filesystem-write, shell or network", "--grant"
    )
    add("--skill", metavar="NAME", help="activate a skill")
    add("--list-skills", action="store_true", help="list the skills")
    add("--route", action="store_true", help="choose a tool or a skill by rule, and say which")
    add(
        "--route-threshold",
        metavar="FLOAT",
        type=float,
        help="least confidence that routes, 0 to 1; default: 0.5",
    )


def _add_artifact_flags(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--artifact-out",
        metavar="PATH",
        nargs="?",
        const="-",
        help="write the run as one JSON file; bare or - is stdout",
    )
    add("--artifact-in", metavar="PATH", help="run an artifact's prompt; - is stdin")
    add("--artifact-full", action="store_true", help="put the messages into the artifact as well")
    add("--dry-run", action="store_true", help="show what would be sent, as JSON, and send nothing")
    add("--verify", metavar="PATH", nargs="+", default=[], help="check artifacts and their chain")
    add("--replay", metavar="PATH", nargs="+", default=[], help="run artifacts again and compare")
    add("--diff", metavar=("A", "B"), nargs=2, default=[], help="compare two artifacts")
