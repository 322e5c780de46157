"""The house: the rooms of the code, the floors that they stand on, and who imports whom.

``python -m tests.support.house`` draws it into ``docs/images/house.svg``.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs/images/house.svg"

FLOORS = (
    ("main",),
    ("ore.cli",),
    ("ore.cli.terminal", "ore.rows", "ore.conformance", "ore.report"),
    ("ore.gate", "ore.models", "ore.glass"),
    (
        "ore.core",
        "ore.backends",
        "ore.store",
        "ore.artifact",
        "ore.skills",
        "ore.tools",
        "ore.router",
    ),
    ("ore.reasoner",),
    ("ore.types",),
    ("ore.files",),
    ("ore.errors",),
)
"""The rooms, the highest floor first. A room may import only rooms of a lower floor."""

FLOOR_OF = {room: len(FLOORS) - row for row, rooms in enumerate(FLOORS) for room in rooms}
BY_NAME = ("ore.reasoner", "ore.backends")
"""``ore.reasoner.AyaReasoner`` is looked up when it is used: nothing is imported before."""

WIDTH, MARGIN, BOX, WIDE, LEVEL = 920, 16, 34, 142, 74
ACROSS = {
    "main": 0.52,
    "ore.cli": 0.52,
    "ore.cli.terminal": 0.88,
    "ore.rows": 0.28,
    "ore.conformance": 0.09,
    "ore.report": 0.48,
    "ore.models": 0.10,
    "ore.glass": 0.60,
    "ore.core": 0.30,
    "ore.gate": 0.86,
    "ore.backends": 0.10,
    "ore.store": 0.44,
    "ore.artifact": 0.60,
    "ore.skills": 0.76,
    "ore.tools": 0.92,
    "ore.router": 0.28,
    "ore.reasoner": 0.14,
    "ore.types": 0.36,
    "ore.files": 0.60,
    "ore.errors": 0.46,
}
"""How far to the right a room is drawn, so that few arrows run behind another."""
PURPOSE = {
    "main": "main.py, __main__.py",
    "ore.cli": "what knows a flag",
    "ore.cli.terminal": "what knows a terminal",
    "ore.rows": "prompts and tables",
    "ore.conformance": "rules of contracts",
    "ore.report": "runs to look at",
    "ore.core": "the loop",
    "ore.gate": "permissions",
    "ore.models": "Ollama's models",
    "ore.glass": "what shaped an answer",
    "ore.backends": "where models run",
    "ore.store": "sessions",
    "ore.artifact": "runs as files",
    "ore.skills": "instructions",
    "ore.tools": "tools",
    "ore.router": "routing by rule",
    "ore.reasoner": "messages to response",
    "ore.types": "the data contracts",
    "ore.files": "reading and replacing",
    "ore.errors": "one tree of errors",
}


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
    if module.startswith("ore.__main__"):
        return "main"
    while module not in FLOOR_OF and "." in module:
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


def modules_imported() -> dict[str, set[str]]:
    """The modules of ours that each module imports, but for those that only types need."""
    paths = {module_name(path): path for path in source_files()}
    graph: dict[str, set[str]] = {}
    for module, path in paths.items():
        graph[module] = set()
        typing = {
            id(inner)
            for node in ast.walk(tree_of(path))
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and id(node) not in typing:
                for alias in node.names:
                    name = f"{node.module}.{alias.name}"
                    graph[module].add(name if name in paths else str(node.module))
        graph[module] &= paths.keys() - {"ore"}  # the list of public names
    graph["ore.reasoner"].discard("ore.backends.ollama")  # looked up by name
    return graph


def arrows() -> set[tuple[str, str]]:
    """Who imports whom: pairs of different rooms. The list of public names imports nothing."""
    return {
        (room_of(module_name(path)), room)
        for path in source_files()
        if path != ROOT / "ore/__init__.py"
        for room in imports_of(path)
        if room != room_of(module_name(path))
    }


def needed(pairs: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows that do not follow from others."""
    below: dict[str, set[str]] = {}
    for rooms in reversed(FLOORS):
        for room in rooms:
            direct = {b for a, b in pairs if a == room}
            below[room] = direct.union(*(below.get(each, set()) for each in direct))
    return {
        (a, b)
        for a, b in pairs
        if not any(b in below[other] for first, other in pairs if first == a and other != b)
    }


def picture() -> str:
    """The house as SVG: every room, and every arrow that does not follow from others."""
    places = {}
    for row, rooms in enumerate(FLOORS):
        for room in rooms:
            places[room] = (WIDTH * ACROSS[room], MARGIN + LEVEL * row)
    height = 2 * MARGIN + LEVEL * (len(FLOORS) - 1) + BOX
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="11" text-anchor="middle">',
        "<title>The rooms of the code; every arrow is an import, and all of them run down</title>",
        '<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto">'
        '<path d="M0 0L6 3L0 6z" fill="#888"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
    ]
    for a, b in sorted(needed(arrows() - {BY_NAME})):
        (x1, y1), (x2, y2) = places[a], places[b]
        lines.append(
            f'<line x1="{x1:.0f}" y1="{y1 + BOX}" x2="{x2:.0f}" y2="{y2}" stroke="#888" '
            f'marker-end="url(#tip)"/>'
        )
    for room, (x, y) in places.items():
        lines += [
            f'<rect x="{x - WIDE / 2:.0f}" y="{y}" width="{WIDE}" height="{BOX}" rx="4" '
            f'fill="#eef3fa" stroke="#567"/>',
            f'<text x="{x:.0f}" y="{y + 14}" font-weight="bold" fill="#123">'
            f"{room.removeprefix('ore.')}</text>",
            f'<text x="{x:.0f}" y="{y + 28}" fill="#345">{PURPOSE[room]}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
