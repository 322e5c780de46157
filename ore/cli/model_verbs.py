"""Verbs about the models of this machine: ``--verify-models``, ``--remove-model``."""

from __future__ import annotations

from dataclasses import replace

from ore.backends import remembered
from ore.backends.local_models import own_shelves
from ore.backends.shelf_care import check_models, removable, remove
from ore.backends.weights import models_folder
from ore.cli.agreed import is_agreed
from ore.cli.options import Options
from ore.cli.terminal.console import Console
from ore.errors import CheckFailedError
from ore.files.neutral import one_line


def verify_models(options: Options, console: Console, *_: object) -> None:
    """Read every model of this machine and compare it with the hash that it must have."""
    found = []
    try:
        with remembered.of_many(models_folder()):
            for each in check_models(console.progress):
                problem = each.problem and console.said(each.problem)
                found.append(replace(each, problem=problem))
    finally:
        console.end_progress()
    if options.json:
        console.json([{"name": e.name, "digest": e.digest, "problem": e.problem} for e in found])
    else:
        said = {True: "holds", False: "nothing to compare it with"}
        console.rows([(e.name, e.problem or said[e.is_known], e.digest or "") for e in found])
    if not found:
        where = ", ".join(one_line(str(shelf.root)) for shelf in own_shelves())
        console.notice(
            f"No model file was found in {where}: what a server keeps elsewhere is not read. "
            f"Fetch one with --backend embedded --pull NAME."
        )
    if wrong := [each.name for each in found if each.problem]:
        models = "model" if len(found) == 1 else "models"
        are = "is not as it should be" if len(wrong) == 1 else "are not as they should be"
        raise CheckFailedError(f"{len(wrong)} of {len(found)} {models} {are}: {', '.join(wrong)}.")


def remove_model(options: Options, console: Console, *_: object) -> None:
    """Remove a model that ORE has fetched, and the blobs that no other model names."""
    name = removable(str(options.remove_model))
    question = f"Remove the model '{name}' from this machine?"
    if not is_agreed(options, console, question, f"Removing '{name}'", "removed"):
        return
    freed = remove(name)
    if options.json:
        console.json({"removed": name, "freed": freed})
    console.notice(f"'{name}' is removed; that frees {freed / 1e9:.2f} GB.")
