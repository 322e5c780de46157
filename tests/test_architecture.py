"""The shape of the code, held by tests: layers, who may write, who may end the process, sizes."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A module may import only modules of a lower layer.
LAYERS = {
    "ore": 1,
    "ore._version": 0,
    "ore.artifact_schema": 0,
    "ore.canonical": 0,
    "ore.seal": 1,
    "ore.errors": 0,
    "ore.extras": 0,
    "ore.skill_frontmatter": 0,
    "ore.skill_mentions": 0,
    "ore.strictjson": 0,
    "ore.thinking": 0,
    "ore.terminal.measures": 0,
    "ore.terminal.style": 0,
    "ore.files": 1,
    "ore.folder": 2,
    "ore.home": 1,
    "ore.interrupts": 1,
    "ore.neutral": 1,
    "ore.sessions.names": 1,
    "ore.ollama": 0,
    "ore.runs": 0,
    "ore.sessions": 0,
    "ore.terminal": 0,
    "ore.ollama.context": 1,
    "ore.ollama.errors": 3,
    "ore.ollama.host": 2,
    "ore.ollama.importing": 2,
    "ore.ollama.lines": 2,
    "ore.types": 1,
    "ore.window": 1,
    "ore.messages": 2,
    "ore.net": 0,
    "ore.net.environment": 1,
    "ore.net.host": 1,
    "ore.net.errors": 2,
    "ore.net.wire": 1,
    "ore.completion": 1,
    "ore.named_files": 4,
    "ore.terminal.rendering": 5,
    "ore.terminal.progress": 1,
    "ore.terminal.text_editor": 4,
    "ore.terminal.typing_ahead": 1,
    "ore.terminal.answer_text": 4,
    "ore.terminal.history": 4,
    "ore.terminal.line_editor": 5,
    "ore.answer": 4,
    "ore.images": 4,
    "ore.model_options": 1,
    "ore.ollama.api": 4,
    "ore.prompt_path": 4,
    "ore.ollama.client": 4,
    "ore.locks": 4,
    "ore.sessions.facts": 4,
    "ore.sessions.text": 4,
    "ore.skill_folder": 4,
    "ore.artifact": 5,
    "ore.models": 5,
    "ore.reasoner": 5,
    "ore.router": 5,
    "ore.skills": 5,
    "ore.sessions.salvage": 5,
    "ore.sessions.files": 5,
    "ore.sessions.locks": 5,
    "ore.store": 6,
    "ore.tools": 5,
    "ore.backends.gguf": 4,
    "ore.backends.hardware": 4,
    "ore.backends.loading": 5,
    "ore.backends.wheel": 4,
    "ore.backends": 6,
    "ore.core": 6,
    "ore.gate": 6,
    "ore.backends.engine": 6,
    "ore.backends.weights": 6,
    "ore.backends.embedded_request": 7,
    "ore.backends.embedded": 8,
    "ore.backends.ollama": 7,
    "ore.backends.openai": 8,
    "ore.backends.openai_client": 7,
    "ore.backends.openai_errors": 6,
    "ore.backends.openai_request": 7,
    "ore.backends.openai_server": 6,
    "ore.console": 7,
    "ore.terminal.streams": 6,
    "ore.terminal.waiting": 5,
    "ore.options": 7,
    "ore.backends.choice": 9,
    "ore.asked": 8,
    "ore.context": 8,
    "ore.turn": 9,
    "ore.runs.provenance": 10,
    "ore.runs.plan": 11,
    "ore.runs.compare": 8,
    "ore.runs.verify": 8,
    "ore.runs.rebuild": 11,
    "ore.runs.replay": 12,
    "ore.conversation": 8,
    "ore.input": 7,
    "ore.lists": 9,
    "ore.modes": 11,
    "ore.session_verbs": 8,
    "ore.parser": 9,
    "ore.persona": 8,
    "ore.request": 8,
    "ore.schema": 7,
    "ore.terminal.trace": 5,
    "ore.commands": 10,
    "ore.repl": 12,
    "ore.cli": 13,
    "ore.__main__": 14,
    "main": 15,
}
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


def imports_of(path: Path) -> set[str]:
    """Every module of ours that a file imports, wherever in the file it does so."""
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            while name and name not in LAYERS:
                name = name.rpartition(".")[0]
            found.add(name)
    return {name for name in found if name.split(".")[0] == "ore"} - {"ore"}


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


def test_every_module_has_a_layer_and_a_head():
    assert [path for path in source_files() if module_name(path) not in LAYERS] == []
    modules = [path for path in source_files() if path.name != "main.py"]
    assert [path for path in modules if not ast.get_docstring(tree_of(path))] == []


def test_imports_go_down_only():
    pairs = [(module_name(path), name) for path in source_files() for name in imports_of(path)]
    assert [f"{a} imports {b}" for a, b in pairs if LAYERS[b] >= LAYERS[a]] == []


@pytest.mark.invariant
def test_the_core_imports_no_edge():
    assert imports_of(ROOT / "ore/core.py") <= CORE_MAY_IMPORT


def test_only_the_console_writes_to_a_stream():
    written = {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    assert uses(written, but_in={"ore.console"}) == []


def test_only_start_and_run_end_the_process():
    ends = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "SystemExit"}
    assert uses(ends, but_in={"ore.cli", "ore.__main__"}) == []


@pytest.mark.parametrize("file, function", [("cli", "run"), ("__main__", "start")])
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
def test_import_ore_loads_nothing_heavy():
    heavy = {"ollama", "httpx", "yaml", "argparse", "dotenv", "json", "dataclasses", "xllamacpp"}
    assert imported_by("import ore") & heavy == set()
