"""What the pages point at is there: pages, anchors, files, tests, flags; and no page is left alone."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

from ore.cli.parser import build_parser
from tests.support.pages import GENERATED, NOT_RUN, ROOT, Page, pages, read_page

WIDEST = 105
FOREIGN_FLAGS = {
    "--api-key",
    "--no-cache-prompt",
    "--slow",
    "--require-embedded",
    "--prompts",
    "--rivals",
}
FOREIGN_FLAGS |= {"--from", "--force", "--reinstall", "--user", "--upgrade"}  # of installers
FOREIGN_FLAGS |= {"--build-arg", "--cached", "--format"}  # of docker and git
"""Flags of other programs that the prose names."""
RED = "fill: #f4005f"
"""The colour of ``ore:`` before an error, in the pictures of terminals."""
OTHERS = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md")]
COMPARED = "docs/coming.md"
"""The page whose tables have the commands of other programs in every column but the last."""
WITH_LINKS = pages() | {page.name: page for page in map(read_page, OTHERS)}
"""Every page, and those beside the documentation."""

_FILE = re.compile(r"(?:ore|tests|docs|examples|benchmarks|\.ci)/[\w./-]*\w|test_\w+\.py")
_MODULE = re.compile(r"python -m ((?:benchmarks|tests)[\w.]*)")
_TEST = re.compile(r"test_\w+")
_MARKED = re.compile(r"^ *@pytest\.mark\.invariant$", re.MULTILINE)


@pytest.mark.parametrize("name", WITH_LINKS)
def test_every_link_leads_somewhere(name):
    page = WITH_LINKS[name]
    for link in page.links:
        if re.match(r"https?:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (page.path.parent / file).resolve() if file else page.path
        assert target.exists(), link
        if anchor:
            assert anchor in WITH_LINKS[str(target.relative_to(ROOT))].anchors, link


def test_every_picture_is_shown_somewhere_and_asks_nobody():
    shown = {Path(link).name for page in WITH_LINKS.values() for link in page.links}
    for path in (ROOT / "docs/images").iterdir():
        text = path.read_bytes().decode("latin-1")  # a PNG asks nobody either
        assert path.name in shown, path.name
        assert not re.search(r"<script|@import|@font-face|(?:href|src)=.https?:", text), path.name


def test_the_first_pictures_show_no_error_and_the_moving_one_stands_still_where_asked():
    first = [link for link in pages()["README.md"].links if link.endswith(".svg")][:3]
    assert first[0] == "docs/images/proof.svg" and "docs/images/why.svg" in first
    for link in first:
        assert RED not in (ROOT / link).read_text(encoding="utf-8"), link
    moving = (ROOT / first[0]).read_text(encoding="utf-8")
    before, asked, rules = moving.partition("@media (prefers-reduced-motion: no-preference)")
    assert asked and "animation:" not in before
    assert "backwards" not in rules, "its first frame is the whole picture"
    ends = [sum(map(float, times)) for times in re.findall(r"([\d.]+)s ([\d.]+)s steps", rules)]
    assert ends and max(ends) <= 20


@pytest.mark.parametrize("name", pages())
def test_every_file_and_test_that_is_named_is_there(name):
    for span in pages()[name].spans:
        if _FILE.fullmatch(span) and "NAME" not in span:
            found = span.startswith("test_") and any((ROOT / "tests").rglob(span))
            assert found or (ROOT / span).exists(), span
        elif module := _MODULE.match(span):
            path = ROOT / module[1].replace(".", "/")
            assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), span
        elif _TEST.fullmatch(span):
            code = (
                path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
            )
            assert any(f"def {span}(" in text for text in code), span


def test_the_page_of_invariants_names_the_files_of_the_tests_that_are_marked():
    named = {span.rpartition("/")[2] for span in pages()["docs/invariants.md"].spans}
    marked = {
        path.name
        for path in (ROOT / "tests").rglob("test_*.py")
        if _MARKED.search(path.read_text(encoding="utf-8"))
    }
    assert {name for name in named if _FILE.fullmatch(name)} == marked


def _spans_of_last_cells(page: Page) -> list[str]:
    """The code in the last cells of a page's tables: what ORE has for another program's command."""
    rows = [line for line in page.prose.splitlines() if line.startswith("|")]
    return [span for row in rows for span in re.findall(r"`([^`]+)`", row.split(" | ")[-1])]


@pytest.mark.parametrize("name", pages())
def test_every_flag_that_is_named_is_one(name):
    page = pages()[name]
    spans = page.spans if name != COMPARED else _spans_of_last_cells(page)
    flags = {flag for action in build_parser()._actions for flag in action.option_strings}
    texts = spans + [b.text for b in page.blocks if not b.mark.startswith(NOT_RUN)]
    named = {flag for text in texts for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", text)}
    assert named - flags <= FOREIGN_FLAGS


@pytest.mark.parametrize("name", pages())
def test_every_json_block_is_json(name):
    for block in pages()[name].blocks:
        if block.language == "json":
            json.loads(block.text)


def test_the_index_lists_every_page_once():
    page = pages()["docs/README.md"]
    listed = [link for link in page.links if link.endswith(".md") and "/" not in link]
    there = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert sorted(listed) == sorted(set(there) - {"README.md"})


def test_the_readme_is_short_and_leads_to_the_index():
    page = pages()["README.md"]
    assert page.text.count("\n") < 200
    assert "docs/README.md" in page.links


@pytest.mark.parametrize("name", sorted(set(pages()) - {"docs/performance.md"}))
def test_every_page_begins_with_an_example(name):
    page = pages()[name]
    sections = [n for n, line in enumerate(page.prose.splitlines(), 1) if line.startswith("## ")]
    assert page.blocks and page.blocks[0].line < min([*sections, 20])


@pytest.mark.parametrize("name", sorted(set(pages()) - GENERATED))
def test_lines_fit_a_screen(name):
    for number, line in enumerate(pages()[name].prose.splitlines(), 1):
        if not line.startswith(("|", "!", "<!--")):
            assert len(line) <= WIDEST, f"{name}:{number}"


def test_the_architecture_names_every_module():
    spans = pages()["docs/architecture.md"].spans
    patterns = [span.rpartition("/")[2] for span in spans if span.endswith(".py")]
    modules = {path.name for path in (ROOT / "ore").rglob("*.py")} - {"__init__.py"}
    assert [name for name in modules if not any(fnmatch(name, each) for each in patterns)] == []


def test_the_architecture_names_only_what_the_code_has():
    """A name that begins with a line below is nobody's but the code's."""
    named = [each for each in pages()["docs/architecture.md"].spans if re.fullmatch(r"_\w+", each)]
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "ore").rglob("*.py"))
    known = set(re.findall(r"\b_\w+", code))
    assert named and set(named) <= known
