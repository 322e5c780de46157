"""What the tests of skills share: writing a skill into a folder."""

from __future__ import annotations

from pathlib import Path


def write_skill(
    root: Path,
    folder: str = "pdf",
    frontmatter: str = "name: pdf\ndescription: Works with PDF files.",
    body: str = "Do it well.",
    **resources: str | bytes,
) -> Path:
    """Write a skill and return its folder; ``references__a_md`` is the file references/a.md."""
    path = root / folder
    path.mkdir(parents=True, exist_ok=True)
    text = f"---\n{frontmatter}\n---\n{body}\n"
    (path / "SKILL.md").write_bytes(text.encode("utf-8"))
    for name, content in resources.items():
        file = path / name.replace("__", "/").replace("_", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path
