"""What it costs to start ORE, beside Python's own modules and the peer's start."""

from __future__ import annotations

from functools import partial

from benchmarks.measure import Comparison, warmed
from benchmarks.place import Place, Topic
from benchmarks.processes import seconds
from tests.support.gguf import tiny_model
from tests.support.shelves import put_model

ARGPARSE = "import argparse"
CONTRACTS = "import dataclasses, json, uuid"
MODELS = 100
SAID = {"general__size_label": "1B", "general__file_type": 15}
"""What most files say of themselves, whoever made them."""
LIST = f"--list-models, {MODELS} models"
TEXT = """\
Whole processes. There is a `.env` file, which `--version` and `--help` do not read. No command line
starts without `argparse`, and no data contracts exist without the three modules beside `import ore`. The
list is of models in Ollama's layout, and describes each model from its own file."""


def measure(place: Place) -> list[Comparison]:
    """Time each flag and the import as fresh processes."""
    floors = {text: place.script(text) for text in (ARGPARSE, CONTRACTS)}
    again = {f"{text} again": command for text, command in floors.items()}
    ours = {flag: place.ore(flag) for flag in ("--version", "--help", "--list-tools")}
    ours["import ore"] = place.script("import ore")
    ours[LIST] = place.ore("--list-models", "--backend", "embedded")
    ours["--version again"] = ours["--version"]
    peers = {}
    if place.peer:
        for flag in ("--version", "--help"):
            peers[f"llm {flag}"] = peers[f"llm {flag} again"] = (place.peer, flag)
    commands = {**floors, **again, **ours, **peers}
    shelf = place.folder / "shelf"
    for number in range(MODELS):
        put_model(shelf, f"model{number}", tiny_model(**SAID, general__name=f"model {number}"))
    environ = {**place.for_peer(), "OLLAMA_MODELS": str(shelf)}
    cases = {name: partial(seconds, command, environ) for name, command in commands.items()}
    found = warmed(cases, place.runs)
    wanted = [
        ("--version", ARGPARSE, 2.0),
        ("--help", ARGPARSE, 2.0),
        ("--list-tools", ARGPARSE, None),
        ("import ore", CONTRACTS, 1.0),
        (LIST, "--version", 2.25),
        ("--version", "llm --version", 0.1),
        ("--help", "llm --help", None),
    ]
    return [
        Comparison(
            f"`{what}`",
            "ms",
            found[what],
            f"`{beside}`",
            found[beside],
            found[f"{beside} again"],
            most=most,
        )
        for what, beside, most in wanted
        if beside in found
    ]


TOPIC = Topic("startup", "Starting", TEXT, measure)
