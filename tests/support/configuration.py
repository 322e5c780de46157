"""What can be set, as the code has it: the tables of ``docs/configuration.md``."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ore.backends import engine_request, openai_request
from ore.backends.model_options import OPTIONS, check_ollama
from ore.backends.settings import Settings
from ore.cli.flags import FLAGS
from ore.errors import OreError

ROOT = Path(__file__).parents[2]

# What a flag's value is when it is not given: a variable, if it is set, and else a default.
BEHIND = {
    "--backend": ("`ORE_BACKEND`", "`auto`"),
    "--host": ("`OLLAMA_HOST`, `OPENAI_BASE_URL`", "`127.0.0.1:11434`; openai: none"),
    "--model": ("`ORE_MODEL`", "chosen among what is installed"),
    "--option": ("", "the model's own"),
    "--runs": ("`ORE_RUNS`", "none: no run is logged"),
    "--system": ("`ORE_SYSTEM`", "the persona `aya`"),
    "--no-system": ("`ORE_SYSTEM`", "the persona `aya`"),
    "--persona": ("`ORE_SYSTEM`", "`aya`"),
    "--route-threshold": ("", "`0.5`"),
    "--think": ("", "the model's own"),
    "--join-messages": ("", "`auto`"),
    "--keep-alive": ("", "the server's own"),
    "--schema": ("", "free text"),
    "--timeout": ("", "none: it waits"),
    "--deadline": ("", "none: it waits"),
}

VARIABLES = {
    "EDITOR": "the editor of `/edit`, after `VISUAL`",
    "FORCE_COLOR": "colour ORE's words on any terminal",
    "HOME": "the home folder, where `~/.ore` is",
    "NO_COLOR": "no colour at all; wins over `FORCE_COLOR`",
    "OLLAMA_API_KEY": "sent to an Ollama server over https, or on this machine; never shown or stored",
    "OLLAMA_HOST": "the Ollama server's address",
    "OLLAMA_MODELS": "the folder of Ollama's models, which the embedded engine runs too, instead of `~/.ollama/models`",
    "OMP_WAIT_POLICY": "how threads of the embedded engine wait; unless set, they spin for microseconds and then sleep",
    "OPENAI_API_KEY": "sent to an OpenAI-compatible server over https, or on this machine; never shown or stored",
    "OPENAI_BASE_URL": "the OpenAI-compatible server's address",
    "ORE_BACKEND": "where models run",
    "ORE_HISTORY": "`on`: keep what is typed into any REPL; `off`: keep none of it; unset: keep it beside saved sessions",
    "ORE_HOME": "the folder of ORE's files instead of `~/.ore`",
    "ORE_MODEL": "the model",
    "ORE_MODEL_DIR": "the folder of the embedded models instead of `~/.ore/models`",
    "ORE_NO_HISTORY": "set to anything, the same as `ORE_HISTORY=off`",
    "ORE_STREAM": "`off`: answers are shown all at once on a terminal too, as with `--no-stream`",
    "ORE_RUNS": "the folder of the run log, a path that begins with `/` or `~`; unset: no run is logged",
    "ORE_SYSTEM": "the system prompt: `none`, `persona:NAME`, or `@FILE`, where FILE begins with `/` or `~`",
    "ORE_TRACEBACK": "set to anything: a fault in ORE itself shows where it is, as Python does",
    "SSL_CERT_DIR": "a folder of certificates to trust instead of the system's",
    "SSL_CERT_FILE": "a file of certificates (PEM, at most 4 MiB) to trust instead of the system's",
    "TERM": "`dumb` means no colour and no moving line",
    "VISUAL": "the editor of `/edit`",
}
# Looked at by the code, and nothing that a user sets for ORE.
OF_THE_SYSTEM = {"GGML_NO_BACKTRACE", "PIP_REQUIRE_VIRTUALENV", "STY", "SUDO_UID"}
_READ = re.compile(
    r"""environ(?:ment)?(?:\.get\(|\.setdefault\(|\[)\s*"([A-Z_]+)"|"([A-Z_]+)" (?:not )?in (?:os\.)?environ"""
)


def read_variables() -> set[str]:
    """Every environment variable that the code reads by name."""
    found = set()
    for path in (ROOT / "ore").rglob("*.py"):
        for names in _READ.findall(path.read_text(encoding="utf-8")):
            found |= {name for name in names if name}
    return found - OF_THE_SYSTEM


def flags() -> str:
    """The flags that something stands behind: a variable, or else a default."""
    written = {flag.long: flag.written for flags in FLAGS.values() for flag in flags}
    rows = [(f"`{written[name]}`".replace("|", r"\|"), *behind) for name, behind in BEHIND.items()]
    return _table(("flag", "variable", "default"), rows)


def variables() -> str:
    """Every environment variable that is read."""
    return _table(("variable", "what it does"), [(f"`{n}`", text) for n, text in VARIABLES.items()])


CHECKS = (
    lambda settings: check_ollama(settings.options),
    engine_request.check_settings,
    openai_request.check_settings,
)


def options() -> str:
    """Every option of ``--option``, and which backend has it."""
    rows = []
    for name, (kind, _) in OPTIONS.items():
        has = [_has(check, name) for check in CHECKS]
        rows.append((f"`{name}`", kind, *has))
    return _table(("option", "value", "ollama", "embedded", "openai"), rows)


def _has(check: Callable[[Settings], None], name: str) -> str:
    try:
        check(Settings(options={name: 512}))
    except OreError:
        return "refused"
    return "yes"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("|  |", "| |")
