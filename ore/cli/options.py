"""What was asked for, as one frozen object, and every rule on what goes together."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import chain
from typing import Any, NoReturn

from ore.backends import split_pin
from ore.cli.flags import LAST, MISPLACED, SECONDS, SHARE, WHOLE
from ore.cli.rules import (
    ARTIFACT_PATHS,
    ARTIFACT_VERBS,
    BESIDE_ARTIFACT_VERBS,
    BESIDE_MODEL_VERBS,
    BESIDE_VERB,
    BESIDE_VERBS,
    CONFLICTS,
    DEFAULT_SYSTEM,
    MOST_JOBS,
    NAMES,
    NEEDS,
    OF_ARTIFACTS,
    REPL,
    STDIN_ARTIFACT,
    STDOUT_ARTIFACT,
    SYSTEM_FLAGS,
    VERBS,
    WITH_ROWS,
)
from ore.errors import UsageError
from ore.files.home import expanded
from ore.files.neutral import value_shown


class Options:
    """The command line, one field per flag; see ``ore.cli.parser`` for what each means.

    It is no dataclass, for every command line would wait for the import of what makes one.
    """

    prompt: str | None = None
    model: str | None = None
    backend: str | None = None
    host: str | None = None
    timeout: float | None = None
    deadline: float | None = None
    strict_context: bool = False
    list_models: bool = False
    pull: str | None = None
    insecure: bool = False
    show_license: str | None = None
    verify_models: bool = False
    remove_model: str | None = None
    system: str | None = None
    no_system: bool = False
    persona: str | None = None
    list_personas: bool = False
    option: tuple[str, ...] = ()
    think: str | None = None
    join_messages: str | None = None
    chat_template: str | None = None
    schema: str | None = None
    choose: str | None = None
    min_confidence: float | None = None
    no_stdin: bool = False
    run_file: str | None = None
    values: tuple[str, ...] = ()
    image: tuple[str, ...] = ()
    keep_alive: str | None = None
    interactive: bool = False
    conversational: bool = False
    save_session: str | None = None
    resume_session: str | None = None
    session: str | None = None
    continue_last: bool = False
    list_sessions: bool = False
    show_session: str | None = None
    search_sessions: str | None = None
    rename_session: tuple[str, ...] = ()
    delete_session: str | None = None
    yes: bool = False
    export_session: str | None = None
    salvage_session: str | None = None
    stream: bool = False
    no_stream: bool = False
    extract: bool = False
    json: bool = False
    logprobs: bool = False
    render: bool = False
    verbose: bool = False
    quiet: bool = False
    file: tuple[str, ...] = ()
    tool: str | None = None
    tool_arg: tuple[str, ...] = ()
    list_tools: bool = False
    grant: tuple[str, ...] = ()
    skill: str | None = None
    list_skills: bool = False
    route: bool = False
    route_threshold: float | None = None
    artifact_out: str | None = None
    artifact_in: str | None = None
    artifact_full: bool = False
    artifact_text: bool = False
    artifact_hashes_only: bool = False
    after: str | None = None
    continuation: str | None = None
    runs: str | None = None
    dry_run: bool = False
    show: str | None = None
    verify: tuple[str, ...] = ()
    with_model: bool = False
    allowed_signers: str | None = None
    sign: str | None = None
    replay: tuple[str, ...] = ()
    junit: str | None = None
    diff: tuple[str, ...] = ()
    report: tuple[str, ...] = ()
    out: str | None = None
    form: str | None = None
    why: str | None = None
    by: str | None = None
    rows: str | None = None
    rows_format: str | None = None
    expect: str | None = None
    key: str | None = None
    csv: bool = False
    jobs: int | None = None
    max_failures: int | None = None
    scheduler: str | None = None

    def __init__(self, prompt: str | None = None, **given: Any) -> None:
        if unknown := given.keys() - set(FIELDS):
            raise TypeError(f"there is no option {sorted(unknown)[0]!r}")
        vars(self).update(given, prompt=prompt)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"options can't be changed: `replace({name}=...)` returns others")

    def replace(self, **changed: Any) -> Options:
        """Return these options with other values of some."""
        return Options(**{name: getattr(self, name) for name in FIELDS} | changed)

    @classmethod
    def from_args(cls, args: object) -> Options:
        """Return the options that a parsed namespace holds, checked against every rule here."""
        values: dict[str, Any] = {name: getattr(args, name) for name in FIELDS}
        values |= {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        options = cls(**values)
        options._check_values()
        options.check_pairs()
        for flag, others, why in NEEDS:
            if flag in options.given and not any(other in options.given for other in others):
                raise UsageError(f"{flag} needs {' or '.join(others)}: {why}.")
        for flag in BESIDE_MODEL_VERBS["--verify"] if options.verify else ():
            if flag in options.given and not options.with_model:
                raise UsageError(f"--verify asks a model only with --with-model: leave {flag} out.")
        writes = options.artifact_out or options.runs or os.environ.get("ORE_RUNS")
        for flag in OF_ARTIFACTS if not (writes or options.verify) else ():
            if flag in options.given:
                where = "; of one that is there, name it with --verify" * (flag == "--sign")
                raise UsageError(
                    f"{flag} needs --artifact-out or --runs: say where the artifact goes{where}."
                )
        return options

    @cached_property
    def is_repl(self) -> bool:
        """Whether the run is a REPL: asked for, or a session flag without a prompt."""
        if self.interactive or self.conversational:
            return True
        return self.keeps_session and self.prompt is None and self.run_file is None

    @cached_property
    def keeps_session(self) -> bool:
        """Whether a session flag was given; it implies a conversation."""
        return any((self.save_session, self.resume_session, self.session, self.continue_last))

    @property
    def system_flag(self) -> str | None:
        """The flag that says which system prompt is sent, if one does."""
        return next((flag for flag in SYSTEM_FLAGS if flag in self.given), None)

    @property
    def options_set(self) -> set[str]:
        """The names of the model's options that flags set."""
        return {pair.partition("=")[0] for pair in self.option}

    @property
    def has_own_system(self) -> bool:
        """Whether the system prompt is no persona's: a text of the user's own, or none."""
        return self.no_system or self.system is not None

    @property
    def has_session(self) -> bool:
        """Whether turns share a session: mode precedence is session flags, then ``-c``."""
        return self.keeps_session or self.conversational

    @property
    def names_last(self) -> bool:
        """Whether ``--last`` stands in the place of a path."""
        paths = [getattr(self, name) for name in ARTIFACT_PATHS]
        return any(LAST in (path if isinstance(path, tuple) else (path,)) for path in paths)

    @cached_property
    def verb(self) -> str | None:
        """The flag that does one thing without a turn, if there is one."""
        return next((flag for flag in VERBS if flag in self.given), None)

    @cached_property
    def given(self) -> tuple[str, ...]:
        """The flags that were given, and what they add up to, by the names in ``CONFLICTS``."""
        flags = [
            _written(name)
            for name in FIELDS
            if not any(getattr(self, name) is absent for absent in (None, False, ()))
        ]
        if self.is_repl:
            flags.append(REPL)
        if self.artifact_out == "-":
            flags.append(STDOUT_ARTIFACT)
        if "-" in (self.artifact_in, self.after):
            flags.append(STDIN_ARTIFACT)
        return tuple(flags)

    def _check_values(self) -> None:
        for name in FIELDS:
            value = getattr(self, name)
            texts = value if isinstance(value, tuple) else (value,)
            if LAST in texts and name not in ARTIFACT_PATHS:
                raise UsageError(f"--last {MISPLACED}")
            if name != "prompt" and any(t == "" or str(t).isspace() for t in texts):
                raise UsageError(f"{_written(name)} needs a value: it is empty.")
        for flag, path in (("--out", self.out), ("--junit", self.junit), ("--runs", self.runs)):
            if path == "-":
                raise UsageError(
                    f"{flag} can't be stdout: name a path (./- is a file of that name)."
                )
        if self.rows == "-" and self.no_stdin:
            raise UsageError("--rows - reads stdin: leave --no-stdin out, or name a file.")
        split_pin(self.model or "")
        if self.prompt is not None and not self.prompt.strip():
            raise UsageError("The prompt is blank: say what to ask.")
        for name, (is_allowed, allowed) in _ALLOWED.items():
            value = getattr(self, name)
            if value is not None and not is_allowed(value):
                raise UsageError(f"{_written(name)} must be {allowed}, not {value}.")

    def check_pairs(self) -> None:
        """Raise ``UsageError`` where flags were given that don't go together."""
        verb, given = self.verb, self.given
        tables = (BESIDE_VERB, BESIDE_MODEL_VERBS)
        beside = {verb, *BESIDE_VERBS, *chain(*(each.get(str(verb), ()) for each in tables))}
        beside |= {*BESIDE_ARTIFACT_VERBS} if verb in ARTIFACT_VERBS and self.names_last else set()
        pairs = [(verb, flag) for flag in given if verb and flag not in beside]
        pairs += [pair for pair in CONFLICTS if pair[0] in given and pair[1] in given]
        pairs = [pair for pair in pairs if verb != "--rows" or pair not in WITH_ROWS]
        if pairs:
            first, second = pairs[0]
            raise UsageError(f"{first} can't be used with {second}: leave one of them out.")


FIELDS = tuple(Options.__annotations__)

_SECONDS = (lambda value: 0 < value < math.inf, SECONDS)
_SHARE = (lambda value: 0 <= value <= 1, SHARE)
_ALLOWED: dict[str, tuple[Callable[[float], bool], str]] = {
    "timeout": _SECONDS,
    "deadline": _SECONDS,
    "jobs": (lambda value: 1 <= value <= MOST_JOBS, f"a whole number from 1 to {MOST_JOBS}"),
    "max_failures": (lambda value: value >= 1, WHOLE),
    "route_threshold": _SHARE,
    "min_confidence": _SHARE,
}
"""Which numbers a field can be, and how that is said."""


def _written(field: str) -> str:
    return NAMES.get(field, "--" + field.replace("_", "-"))


def with_default_system(options: Options, environ: Mapping[str, str]) -> Options:
    """Return ``options`` with the flag that ``ORE_SYSTEM`` stands for, where none of them was given.

    Raises:
        UsageError: It is neither ``none``, ``persona:NAME`` nor ``@FILE``, or its file is relative:
            whoever made a folder would choose the system prompt there.
    """
    value = environ.get(DEFAULT_SYSTEM, "").strip()
    if not value or options.system_flag is not None:
        return options
    kind, _, name = value.partition(":")
    if value == "none":
        return options.replace(no_system=True)
    if kind == "persona" and name:
        return options.replace(persona=name)
    path = expanded(value[1:])
    if value.startswith("@") and os.path.isabs(path):
        return options.replace(system="@" + path)
    raise UsageError(
        f"{DEFAULT_SYSTEM} is {value_shown(value)}: set it to none, persona:NAME, or @FILE with the full path "
        f"of a file, as in @~/prompt.txt."
    )


def on_or_off(variable: str, value: str | None) -> bool | None:
    """Return what a variable switches, or None where it is not set; ``value`` is ``on`` or ``off``.

    Raises:
        UsageError: It is something else.
    """
    word = (value or "").strip().lower()
    if word not in ("", "on", "off"):
        raise UsageError(f"{variable} is {value_shown(value or word)}: set it to on or off.")
    return word == "on" if word else None
