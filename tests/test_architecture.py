"""The shape of the code, held by tests: layers, who may write, who may end the process, sizes."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A room may import only rooms of a lower row; what stands in one row does not know each other.
LEVELS = (
    ("main",),
    ("ore.__main__",),
    ("ore.cli",),
    ("ore.cli.terminal",),
    ("ore.core", "ore.gate", "ore.models"),
    ("ore.backends", "ore.store", "ore.artifact", "ore.skills", "ore.tools", "ore.router"),
    ("ore.reasoner",),
    ("ore.types",),
    ("ore.files",),
    ("ore.errors",),
)
LEVEL_OF = {room: len(LEVELS) - row for row, rooms in enumerate(LEVELS) for room in rooms}
BY_NAME = {("ore.reasoner", "ore.backends")}
"""``ore.reasoner.AyaReasoner`` is looked up when it is used: nothing is imported before."""
MOST_ENTRIES = 18
MOST_IMPORTS_IN_FUNCTIONS = 50
CORE_MAY_IMPORT = {"ore.errors", "ore.reasoner", "ore.types"}
MOST_LINES_OF_A_FILE = 320
MOST_LINES_OF_A_FUNCTION = 60


def source_files() -> list[Path]:
    return [ROOT / "main.py", *sorted((ROOT / "ore").rglob("*.py"))]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@lru_cache(maxsize=None)
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def room_of(module: str) -> str:
    """The room that a module, or a name in one, belongs to; ``ore`` for what stands in none."""
    while module not in LEVEL_OF and "." in module:
        module = module.rpartition(".")[0]
    return module


def imports_of(path: Path) -> set[str]:
    """Every room of ours that a file imports from, wherever in the file it does so."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found.update(room_of(name) for name in names if name.split(".")[0] == "ore")
    return found - {"ore"}


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
    pairs = {
        (room_of(module_name(path)), room)
        for path in source_files()
        if path != ROOT / "ore/__init__.py"
        for room in imports_of(path)
    }
    up = [(a, b) for a, b in pairs if a != b and LEVEL_OF[b] >= LEVEL_OF[a]]
    assert set(up) - BY_NAME == set()


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


@pytest.mark.invariant
def test_the_core_imports_no_edge():
    assert imports_of(ROOT / "ore/core.py") <= CORE_MAY_IMPORT


def test_only_the_console_writes_to_a_stream():
    written = {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    assert uses(written, but_in={"ore.cli.terminal.console"}) == []


def test_only_start_and_run_end_the_process():
    ends = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "SystemExit"}
    assert uses(ends, but_in={"ore.cli", "ore.__main__"}) == []


@pytest.mark.parametrize("file, function", [("cli/__init__", "run"), ("__main__", "start")])
def test_only_one_function_of_each_ends_the_process(file, function):
    tree = tree_of(ROOT / f"ore/{file}.py")
    run = next(node for node in tree.body if getattr(node, "name", "") == function)
    outside = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id == "SystemExit"
        and not run.lineno <= node.lineno <= run.end_lineno
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
    loaded = imported_by("import ore.core")
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
        "yaml",
        "ollama",
    }
    assert imported_by(code) & unwanted == set()
