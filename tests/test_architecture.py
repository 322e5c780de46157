"""The shape of the code, held by tests: floors, who may write, who may end the process, sizes."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from tests.support.gguf import tiny_model
from tests.support.house import (
    BY_NAME,
    FLOOR_OF,
    FLOORS,
    PICTURE,
    ROOT,
    arrows,
    imports_of,
    module_name,
    modules_imported,
    picture,
    room_of,
    source_files,
    tree_of,
)
from tests.support.shelves import put_model

MOST_ENTRIES = 22  # eighteen, and what each came with: glass, rows, report, conformance
MOST_ROOMS, MOST_FLOORS = 20, 9
MOST_IMPORTS_IN_FUNCTIONS = 50
CORE_MAY_IMPORT = {"ore.errors", "ore.reasoner", "ore.types"}
MOST_LINES_OF_A_FILE = 320
MOST_LINES_OF_A_FUNCTION = 60


def dotted(node: ast.AST) -> str:
    """A name or a chain of attributes of one as it is written; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def uses(names: set[str], *, but_in: set[str]) -> list[str]:
    """Where any of the dotted names is used, in all modules but some."""
    return [
        f"{module_name(path)}:{node.lineno} {dotted(node)}"
        for path in source_files()
        if module_name(path) not in but_in
        for node in ast.walk(tree_of(path))
        if dotted(node) in names
    ]


def test_every_module_has_a_room_and_a_head():
    assert [path for path in source_files() if room_of(module_name(path)) == "ore"] == [
        ROOT / "ore/__init__.py"
    ]
    modules = [path for path in source_files() if path.name != "main.py"]
    assert [path for path in modules if not ast.get_docstring(tree_of(path))] == []


def test_imports_go_down_only():
    up = {(a, b) for a, b in arrows() if FLOOR_OF[b] >= FLOOR_OF[a]}
    assert up == {BY_NAME}


def test_no_circle_of_modules():
    """Also where an import stands in a function; what type checkers alone read does not count."""
    graph = modules_imported()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for other in graph[module]:
                visit(other, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_the_house_is_small():
    assert len(FLOORS) <= MOST_FLOORS and len(FLOOR_OF) <= MOST_ROOMS


def test_the_picture_of_the_house_is_drawn_from_the_imports():
    """Drawn anew by ``python -m tests.support.house``."""
    assert PICTURE.read_text(encoding="utf-8") == picture()


def test_a_stranger_sees_few_names_at_the_top():
    entries = [path for path in (ROOT / "ore").iterdir() if path.name != "__pycache__"]
    assert len(entries) <= MOST_ENTRIES


def test_few_imports_stand_in_functions():
    """They are at a dispatch, or before a package that is optional or slow to load."""
    late = [
        f"{module_name(path)}:{inner.lineno}"
        for path in source_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Import, ast.ImportFrom))
    ]
    assert len(set(late)) <= MOST_IMPORTS_IN_FUNCTIONS, late


def test_a_file_has_a_name_that_no_other_has():
    names = [
        path.name for path in source_files() if path.name not in ("__init__.py", "__main__.py")
    ]
    assert sorted(names) == sorted(set(names))


@pytest.mark.slow
def test_what_is_run_by_hand_imports_what_there_is():
    """No other test runs it, so a name that moves would be missed there alone."""
    for path in sorted((ROOT / "tests/by_hand").rglob("*.py")):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "ore":
                for each in node.names:
                    exec(f"from {node.module} import {each.name}")


@pytest.mark.invariant
def test_the_core_imports_no_edge():
    assert imports_of(ROOT / "ore/core.py") <= CORE_MAY_IMPORT


def test_only_the_console_writes_to_a_stream():
    written = {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    programs = {"ore.cli.terminal.console", "ore.conformance.__main__"}
    assert uses(written, but_in=programs) == []


def test_only_start_and_run_end_the_process():
    ends = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "SystemExit"}
    children = {"ore.backends.cluster_child", "ore.backends.engine_child"}
    own = {*children, "ore.conformance.__main__"}  # run, never imported by ORE
    assert uses(ends, but_in={"ore.cli", "ore.__main__", *own}) == []


@pytest.mark.parametrize("file, function", [("cli/__init__", "run"), ("__main__", "start")])
def test_only_one_function_of_each_ends_the_process(file, function):
    tree = tree_of(ROOT / f"ore/{file}.py")
    run = next(node for node in tree.body if getattr(node, "name", "") == function)
    imports = [node for node in tree.body if isinstance(node, ast.Try)]  # before it is there
    outside = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id == "SystemExit"
        and not any(at.lineno <= node.lineno <= at.end_lineno for at in (run, *imports))
    ]
    assert outside == []


def test_a_function_fits_a_screen_and_a_file_holds_one_idea():
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in source_files()}
    assert {path: count for path, count in lines.items() if count > MOST_LINES_OF_A_FILE} == {}
    functions = [
        (f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1)
        for path in source_files()
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    assert [where for where, count in functions if count > MOST_LINES_OF_A_FUNCTION] == []


def imported_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}"],
        capture_output=True,
        text=True,
        check=True,
        env={},  # nobody measures this process, for that would load more
    )
    return set(done.stdout.split())


@pytest.mark.invariant
def test_the_core_loads_nothing_that_knows_a_server_a_socket_or_a_thread():
    # On Python 3.10, what draws ids loads threads itself.
    loaded = imported_by("import ore.core") - imported_by("import uuid")
    ours = {name for name in loaded if name.split(".")[0] == "ore"}
    assert {room_of(name) for name in ours} <= {*CORE_MAY_IMPORT, "ore", "ore.core"}
    assert (
        loaded & {"ollama", "httpx", "http.client", "socket", "ssl", "threading", "asyncio"}
        == set()
    )


@pytest.mark.invariant
def test_import_ore_loads_nothing_heavy():
    heavy = {"ollama", "httpx", "yaml", "argparse", "dotenv", "json", "dataclasses", "xllamacpp"}
    assert imported_by("import ore") & heavy == set()


@pytest.mark.invariant
def test_a_list_of_models_loads_nothing_slow_that_the_version_does_without(tmp_path):
    put_model(tmp_path / "shelf", "tiny", tiny_model())
    code = f"""
import io, os
os.environ.update(HOME={str(tmp_path)!r}, OLLAMA_MODELS={str(tmp_path / "shelf")!r})
from ore.cli import main
from ore.cli.terminal.console import Console
out = io.StringIO()
assert main(%s, Console(None, out, io.StringIO(), {{}})) == 0
assert %r in out.getvalue()
"""
    version = imported_by(code % (["--version"], "ore"))
    listed = imported_by(code % (["--list-models", "--backend", "embedded"], "tiny"))
    slow = {"dataclasses", "inspect", "ore.backends.settings", "ore.backends.address", "ollama"}
    assert "ore.backends.local_models" in listed
    assert (listed - version) & slow == set()


@pytest.mark.invariant
def test_a_plain_turn_loads_no_store_no_router_and_no_yaml():
    code = """
import io
from ore.cli import main
from ore.cli.terminal.console import Console
from tests.support.harness import ScriptedBackend
console = Console(None, io.StringIO(), io.StringIO(), {})
assert main(["hi"], console, lambda *_: ScriptedBackend(["Hello."])) == 0
"""
    unwanted = {
        "ore.store",
        "ore.router",
        "ore.cli.repl",
        "ore.backends.embedded",
        "ore.backends.local_models",
        "yaml",
        "ollama",
    }
    assert imported_by(code) & unwanted == set()
