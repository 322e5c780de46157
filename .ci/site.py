"""What ``mkdocs.yml`` can't say: the menu is the index's, and pages from above ``docs`` are on the site.

MkDocs calls these functions by their names. Nothing here is installed with ORE.
"""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
INDEX = "docs/README.md"
PAGES = {
    "README.md": "index.md",
    INDEX: "pages.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "reporting.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/CODE_OF_CONDUCT.md": "conduct.md",
    "LICENSE": "license.txt",
    "ore/prompts/aya.txt": "aya.txt",
}
"""What is on the site by another name than its own below ``docs``."""
ABOUT = ["changelog.md", "contributing.md", "conduct.md", "reporting.md"]

_LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)(?=[)#])")
_SHELF = re.compile(
    r"^## (?P<shelf>.+)$|^(?P<group>[A-Z][^.]*):$|^- \[(?P<title>.+?)\]\((?P<page>.+?)\)"
)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the menu of the shelves, groups and pages that the index lists."""
    config.nav = [{"ORE": ["index.md", {"Every page": "pages.md"}]}]
    config.nav += [{name: pages} for name, pages in shelves().items()]
    config.nav.append({"About": ABOUT})
    return config


def shelves() -> dict[str, list[dict[str, object]]]:
    """Return what the index lists: each shelf with its pages, or with groups of them."""
    found: dict[str, list[dict[str, object]]] = {}
    here: list[dict[str, object]] = []
    for line in (ROOT / INDEX).read_text(encoding="utf-8").splitlines():
        match = _SHELF.match(line)
        if not match:
            continue
        if match["shelf"]:
            here = found[match["shelf"]] = []
        elif match["group"] and found:
            here = []
            found[list(found)[-1]].append({match["group"]: here})
        elif match["page"]:
            here.append({match["title"]: match["page"]})
    return {name: pages for name, pages in found.items() if pages}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what stands above ``docs``, each file by the name that it has on the site."""
    files.remove(files.src_uris["README.md"])
    for source, name in PAGES.items():
        if name.endswith(".md"):
            text = (ROOT / source).read_text(encoding="utf-8")
            files.append(File.generated(config, name, content=_relinked(text, source)))
        else:
            files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the links of a page at the names that pages have on the site."""
    if page.file.generated_by:
        return markdown
    return _relinked(markdown, f"docs/{page.file.src_uri}")


def _relinked(text: str, source: str) -> str:
    folder = (ROOT / source).parent

    def on_site(match: re.Match[str]) -> str:
        target = (folder / match[1]).resolve().relative_to(ROOT).as_posix()
        return PAGES.get(target, target.removeprefix("docs/"))

    return _LINK.sub(on_site, text)
