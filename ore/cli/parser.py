"""The command line's grammar: how arguments are read, and the errors for wrong ones.

The flags are in ``ore.cli.flags``, what goes together in ``ore.cli.options``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ore import __version__
from ore.cli.flags import FLAGS, LAST, MISPLACED, Flag
from ore.errors import UsageError
from ore.files.neutral import brief
from ore.files.spelling import nearest

USAGE = "usage: ore [prompt] [flags]   (--help lists the flags)"

_TEXTS = ("--help", "--version", "--print-completion")
"""Flags that show a text instead of doing anything else."""

_OPTIONS = {
    **{"temp": "temperature", "max-tokens": "num_predict", "n-predict": "num_predict"},
    **{"topp": "top_p", "topk": "top_k", "ctx": "num_ctx", "ctx-size": "num_ctx"},
    **{"top-p": "top_p", "top-k": "top_k", "min-p": "min_p", "num-ctx": "num_ctx"},
    **{"num-predict": "num_predict", "num-gpu": "num_gpu", "num-thread": "num_thread"},
    **{name: name for name in ("temperature", "seed", "stop")},
}
"""What other programs have as flags, and the model's option for each."""

_INSTEAD = {
    **{name: f"-o {option}=VALUE" for name, option in _OPTIONS.items()},
    **dict.fromkeys(("p", "prompt"), "the prompt alone, in quotes"),
    **dict.fromkeys(("url", "base-url", "port"), "--host with the server's address"),
    **dict.fromkeys(("no-think", "nothink"), "--think off"),
    **{name: f"--backend {name}" for name in ("ollama", "openai", "embedded")},
    **{"chat": "-c", "output": "> FILE after the command", "role": "--persona NAME"},
    "format": "--schema SCHEMA, or --rows-format FORMAT for a table",
}
"""What other programs have as flags, and what to write here."""

LONG_DASHES = ("\u2010", "\u2011", "\u2012", "\u2013", "\u2014", "\u2212")
_CURLED = ("\u2018", "\u201c", "\u201e", "\xab")


class _Text(argparse.Action):
    """Keeps the text that a flag asks for: it is shown instead of doing anything else."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        *_: object,
    ) -> None:
        if namespace.text is None:
            namespace.text = _text_of(self.dest, parser, values)


def _text_of(name: str, parser: argparse.ArgumentParser, value: str) -> str:
    if name == "version":
        return f"ore {__version__}\n"
    if name == "help":
        from ore.cli.help import help_text

        return help_text(value)
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

    _dashed = frozenset[str]()  # flags right after which comes no flag, and begins with a dash
    color: bool  # Python 3.14 and later may paint the help
    suggest_on_error: bool  # since 3.15 it adds a question to what is wrong with a value

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
        end = given.index("--") if "--" in given else len(given)
        given[:end] = [LAST if each == "--last" else each for each in given[:end]]
        for at in range(end - 1):
            if given[at : at + 2] == ["--verify", "--with-model"]:  # read as it is said
                given[at : at + 2] = ["--with-model", "--verify"]
        found, rest = argparse.Namespace(text=None), list[str]()
        long = self._option_string_actions
        names = [each.partition("=")[0] for each in given[:end] if each[:1] == "-"]
        short = [each for each in names if f"-{each}" in long]
        self._dashed = frozenset(
            flag
            for flag, each in zip(given, given[1:end])
            if each[:1] == "-" and each.partition("=")[0] not in long
        )
        try:
            _, rest = self.parse_known_args(given, found)
        except UsageError:
            if found.text is None and not short:
                raise
        if found.text is not None:  # what follows --help does not matter
            return found
        if short:  # -model, which would be -m with the value odel
            raise UsageError(f"There is no flag {short[0]}; the nearest is -{short[0]}.")
        words = given[given.index("--") :] if "--" in given else []  # what follows it is not a flag
        flags = [each.partition("=")[0] for each in rest if each[:1] == "-" and each not in words]
        if flags:
            raise UsageError(f"There is no flag {flags[0]}{self._meant(flags[0])}.")
        if rest and LAST in (found.prompt, *rest):
            raise UsageError(f"--last {MISPLACED}")
        if rest:
            raise UsageError(
                f"'{rest[-1]}' is one argument too many: put quotes around a prompt of several "
                f"words{self._other_way(found, rest, given)}."
            )
        return found

    def _other_way(self, found: argparse.Namespace, rest: list[str], given: list[str]) -> str:
        """Return what else may have been meant by words of which one alone can be the prompt."""
        words, flags = (found.prompt, *rest), self._option_string_actions
        if any(word.startswith(LONG_DASHES) for word in words):
            return "; a flag begins with -, and not with a longer dash"
        if any(word.startswith(_CURLED) for word in words):
            return ", straight ones and not curled ones"
        if found.prompt == "run" and not os.path.exists(rest[0]):  # as Ollama's has one
            return ", or write --model"
        same = flags.get(f"--{found.prompt}")
        if same and getattr(found, same.dest, None) == same.default:
            return f", or write --{found.prompt}"
        if found.choose:
            return ", and commas between the words of --choose"
        if any(map(os.path.exists, words)):
            return ", and -f before each file"
        before = given[max(given.index(found.prompt), 1) - 1]
        if before in flags and flags[before].nargs == 0:  # as -n 100, or -s "You are a pirate"
            return f"; {before} takes no value"
        return ""

    def _get_nargs_pattern(self, action: argparse.Action) -> str:
        """Return what a flag takes: no other flag, which newer versions of argparse take for a second value."""
        return super()._get_nargs_pattern(action).replace("[AO]", "A")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Return the value of ``--flag=--``, which argparse leaves out before Python 3.13."""
        if not action.option_strings or arg_strings != ["--"]:
            return super()._get_values(action, arg_strings)
        value = self._get_value(action, "--")
        self._check_value(action, value)
        return [value] if action.nargs == "+" else value

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return a value of a flag; refuse what is not ``KEY=VALUE`` before anything else can fail."""
        if action.metavar == "KEY=VALUE" and arg_string.strip() and arg_string.find("=") < 1:
            flag, value = action.option_strings[-1], brief(arg_string)
            raise UsageError(f"{flag} takes KEY=VALUE, with = between them, not '{value}'.")
        return super()._get_value(action, arg_string)

    def error(self, message: str) -> NoReturn:
        """Raise ``UsageError`` for what ``argparse`` found, in our words where a value is wrong."""
        named, _, problem = message.removeprefix("argument ").partition(": ")
        name = named.rpartition("/")[2]
        topic, flag = next(
            (
                (topic, each)
                for topic in FLAGS
                for each in FLAGS[topic]
                if name in _spelled(each)[0]
            ),
            ("all", None),
        )
        what, _, value = problem.partition(": ")
        if what.startswith("invalid ") and flag:
            *most, last = flag.choices or (flag.allowed,)
            allowed = f"{', '.join(most)} or {last}" if most else last
            value = value.rpartition(" (choose from ")[0] if flag.choices else value
            message = f"{named} must be {allowed}, not {value}"
        elif what.startswith("expected "):
            wanted = what.removeprefix("expected ").replace("argument", "value")
            if wanted == "at least one value":
                wanted += " right after it"
            message = f"{named} needs {wanted}: --help {topic} says what"
            if wanted == "one value" and not self._dashed.isdisjoint(named.split("/")):
                message += f"; what begins with a dash goes after =, as in {name}=-1"
        elif what.startswith("ignored explicit argument "):
            value = what.removeprefix("ignored explicit argument ")
            message = f"{named} takes no value: leave {value} out"
        for spelling in (LAST, repr(LAST)[1:-1]):
            message = message.replace(spelling, "--last")
        raise UsageError(f"{message}.")

    def _meant(self, flag: str) -> str:
        instead = _INSTEAD.get(flag.lstrip("-").replace("_", "-"))
        if instead:
            return f": write {instead}"
        long = [name[2:] for name in self._option_string_actions if name[:2] == "--"]
        near = nearest(flag.lstrip("-"), long) if flag[:2] == "--" else None
        return f"; the nearest is --{near}" if near else ": --help all lists them"


def _decode_argument(argument: str) -> str:
    try:
        return decode(os.fsencode(argument), "An argument")
    except UnicodeEncodeError as exc:
        raise UsageError(
            f"An argument is not text at character {exc.start}: write it in UTF-8."
        ) from exc


def decode(data: bytes, what: str) -> str:
    """Return bytes as UTF-8 text; ``what`` says what they are, where they are not."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        if data.startswith(b"%PDF-"):
            raise UsageError(
                f"{what} is a PDF: turn it into text first, for example with pdftotext; nothing was "
                f"sent."
            ) from exc
        raise UsageError(
            f"{what} is not UTF-8 at byte {exc.start}: convert it to UTF-8 first; nothing was sent."
        ) from exc


def build_parser() -> Parser:
    """Return the parser of ORE's command line."""
    parser = Parser(prog="ore", allow_abbrev=False, add_help=False)
    parser.suggest_on_error = False
    # One answer on every Python: newer ones take what only begins like a number for one.
    parser._negative_number_matcher = re.compile(r"-\d+$|-\d*\.\d+$")
    for name in (None, "store"):
        parser.register("action", name, _Once)
    # In a group, as the flags: else a formatter would be made, and half of the standard library imported.
    parser.add_argument_group("what is asked").add_argument("prompt", nargs="?")
    for topic, flags in FLAGS.items():
        group = parser.add_argument_group(topic)
        for flag in flags:
            names, taken = _spelled(flag)
            group.add_argument(*names, **_grammar(flag, names[-1], taken))
    return parser


def _spelled(flag: Flag) -> tuple[list[str], list[str]]:
    """Return the spellings of a flag, and the words of its value."""
    words = flag.written.replace(",", "").split()
    names = [word for word in words if word.startswith("-")]
    return names, words[len(names) :]


def _grammar(flag: Flag, name: str, taken: list[str]) -> dict[str, Any]:
    """Return the arguments of ``add_argument`` for a flag."""
    found: dict[str, Any] = {"dest": flag.dest} if flag.dest else {}
    if name in _TEXTS:
        found |= {"action": _Text, "nargs": None if taken else 0}
    elif not taken:
        return found | {"action": "store_true"}
    elif flag.repeats:
        found |= {"action": "append", "default": []}
    if flag.choices:
        found["choices"] = flag.choices
    if flag.kind is not str:
        found["type"] = flag.kind
    if not taken:
        return found
    value, *more = taken
    if value.startswith("["):
        return found | {"nargs": "?", "const": flag.bare, "metavar": value[1:-1]}
    if more == ["..."]:
        return found | {"nargs": "+", "default": [], "metavar": value}
    if more:
        return found | {"nargs": len(taken), "default": [], "metavar": tuple(taken)}
    return found | {"metavar": value}
