"""The shape of the code, held by tests: layers, who may write, who may end the process, sizes."""

from __future__ import annotations

import ast
import subprocess
import sys
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
    "ore.skill_frontmatter": 0,
    "ore.skill_mentions": 0,
    "ore.strictjson": 0,
    "ore.thinking": 0,
    "ore.terminal.measures": 0,
    "ore.terminal.style": 0,
    "ore.files": 1,
    "ore.folder": 1,
    "ore.home": 1,
    "ore.interrupts": 1,
    "ore.neutral": 1,
    "ore.sessions.names": 1,
    "ore.ollama": 0,
    "ore.runs": 0,
    "ore.sessions": 0,
    "ore.terminal": 0,
    "ore.ollama.context": 1,
    "ore.ollama.errors": 1,
    "ore.ollama.host": 1,
    "ore.ollama.importing": 1,
    "ore.ollama.wire": 1,
    "ore.types": 1,
    "ore.completion": 1,
    "ore.named_files": 2,
    "ore.terminal.rendering": 3,
    "ore.terminal.progress": 1,
    "ore.terminal.text_editor": 2,
    "ore.terminal.answer_text": 2,
    "ore.terminal.history": 2,
    "ore.terminal.line_editor": 3,
    "ore.answer": 2,
    "ore.images": 2,
    "ore.model_options": 1,
    "ore.ollama.api": 2,
    "ore.prompt_path": 2,
    "ore.ollama.client": 2,
    "ore.locks": 2,
    "ore.sessions.facts": 2,
    "ore.sessions.text": 2,
    "ore.skill_folder": 2,
    "ore.artifact": 3,
    "ore.models": 3,
    "ore.reasoner": 3,
    "ore.router": 3,
    "ore.skills": 3,
    "ore.sessions.salvage": 3,
    "ore.sessions.files": 3,
    "ore.sessions.locks": 3,
    "ore.store": 4,
    "ore.tools": 3,
    "ore.backends.gguf": 2,
    "ore.backends.hardware": 2,
    "ore.backends.loading": 3,
    "ore.backends.wheel": 2,
    "ore.backends": 4,
    "ore.core": 4,
    "ore.gate": 4,
    "ore.backends.engine": 4,
    "ore.backends.weights": 4,
    "ore.backends.embedded_request": 5,
    "ore.backends.embedded": 6,
    "ore.backends.ollama": 5,
    "ore.backends.openai": 6,
    "ore.backends.openai_client": 5,
    "ore.backends.openai_errors": 4,
    "ore.backends.openai_request": 5,
    "ore.backends.openai_server": 4,
    "ore.console": 5,
    "ore.terminal.streams": 4,
    "ore.terminal.waiting": 3,
    "ore.options": 5,
    "ore.backends.choice": 7,
    "ore.asked": 6,
    "ore.context": 6,
    "ore.runs.provenance": 5,
    "ore.runs.plan": 7,
    "ore.runs.compare": 6,
    "ore.runs.verify": 6,
    "ore.runs.rebuild": 7,
    "ore.runs.replay": 8,
    "ore.conversation": 6,
    "ore.input": 5,
    "ore.lists": 7,
    "ore.modes": 7,
    "ore.session_verbs": 6,
    "ore.parser": 7,
    "ore.persona": 6,
    "ore.request": 6,
    "ore.schema": 5,
    "ore.terminal.trace": 3,
    "ore.commands": 8,
    "ore.repl": 9,
    "ore.cli": 10,
    "ore.__main__": 11,
    "main": 12,
}
CORE_MAY_IMPORT = {"ore.errors", "ore.reasoner", "ore.types"}
MOST_LINES_OF_A_FILE = 320
MOST_LINES_OF_A_FUNCTION = 60


def source_files() -> list[Path]:
    return [ROOT / "main.py", *sorted((ROOT / "ore").rglob("*.py"))]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


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


def names_of(path: Path) -> list[tuple[int, str]]:
    """Every dotted name that a file uses, with its line."""
    return [
        (node.lineno, ast.unparse(node))
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.Name, ast.Attribute))
    ]


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_every_module_has_a_layer_and_a_head(path):
    assert module_name(path) in LAYERS
    assert path.name == "main.py" or ast.get_docstring(tree_of(path))


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_imports_go_down_only(path):
    name = module_name(path)
    for imported in imports_of(path):
        assert LAYERS[imported] < LAYERS[name], f"{name} imports {imported}"


@pytest.mark.invariant
def test_the_core_imports_no_edge():
    assert imports_of(ROOT / "ore/core.py") <= CORE_MAY_IMPORT


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_only_the_console_writes_to_a_stream(path):
    if module_name(path) == "ore.console":
        return
    written = {"print", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"}
    assert [used for used in names_of(path) if used[1] in written] == []


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_only_start_and_run_end_the_process(path):
    if module_name(path) in ("ore.cli", "ore.__main__"):
        return
    ends = {"sys.exit", "exit", "quit", "os._exit", "os.abort", "SystemExit"}
    assert [used for used in names_of(path) if used[1] in ends] == []


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


@pytest.mark.parametrize("path", source_files(), ids=module_name)
def test_a_function_fits_a_screen_and_a_file_holds_one_idea(path):
    assert path.read_text(encoding="utf-8").count("\n") <= MOST_LINES_OF_A_FILE
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            lines = node.end_lineno - node.lineno + 1
            assert lines <= MOST_LINES_OF_A_FUNCTION, f"{path}:{node.lineno} {node.name}"


def imported_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running some code."""
    script = f"import sys\n{code}\nsys.stdout.write(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{script}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


@pytest.mark.invariant
def test_import_ore_loads_nothing_heavy():
    heavy = {"ollama", "httpx", "yaml", "argparse", "dotenv", "json", "dataclasses", "xllamacpp"}
    assert imported_by("import ore") & heavy == set()
