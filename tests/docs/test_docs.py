"""README.md and docs/*.md: every command and every Python block runs and prints what stands there.

A page's blocks run in order, in one folder and one home, against a stand-in for the model server. What
a ``text`` block below a block shows is what it prints; ``...`` stands for anything. A block that is
marked as not run is listed here with its reason.

``UPDATE_DOCS=1 python -m pytest --slow tests/docs/test_docs.py`` writes what is printed into the pages.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import shutil
import textwrap

import pytest

from ore.backends.engine_package import engine_version
from ore.tools import TOOL_REGISTRY
from tests.support.desk import Desk, answer
from tests.support.fake_ollama import FakeOllama
from tests.support.pages import GENERATED, NOT_RUN, REAL_MODEL, Block, Page, pages

RUN = ("sh", "python")
SHOWN = ("text", "json", "markdown", "")
HAS_MODELS = {"docs/glass.md"}
"""The pages that use the small models of the desk with the embedded engine."""
SIGNS = {"docs/signing.md"}
"""The pages that run ssh-keygen."""
WHY_NOT = {
    "README.md": [
        "it installs a package; .ci/package does so from nothing",
        "it asks the small model, whose numbers differ between processors",
        "it installs packages and fetches a model; .ci/run does so from nothing",
    ],
    "docs/architecture.md": ["it writes into these pages"],
    "docs/evidence.md": ["it asks the small model, whose numbers differ between processors"],
    "docs/embedded.md": ["it installs packages and fetches a model; .ci/run does so from nothing"],
    "docs/install.md": [
        *["it installs packages; .ci/run and .ci/package do so from nothing"] * 2,
        "it writes into the files of a shell",
        *["it installs packages; .ci/run and .ci/package do so from nothing"] * 2,
        "it needs Docker",
    ],
    "docs/invariants.md": ["it runs the tests themselves"],
    "docs/models.md": ["it installs packages and fetches a model over the network"],
    "docs/rates.md": ["it asks the small model for many minutes"],
    "docs/scale.md": [
        "it needs machines with graphics cards",
        "it needs a cluster; tests/cli/test_rows_cluster.py has one of its own",
    ],
    "docs/tutorial.md": ["it installs packages; .ci/run does so from nothing"] * 2,
}

_CHECKER = doctest.OutputChecker()


def not_run(page: Page) -> list[str]:
    """The reasons of a page's blocks that are not run."""
    marks = [block.mark for block in page.blocks]
    return [mark.removeprefix(NOT_RUN) for mark in marks if mark.startswith(NOT_RUN)]


def run_python(text: str, names: dict, name: str) -> str:
    """Run a block in the names of its page: a transcript (``>>>``) or a script; what it prints."""
    printed = io.StringIO()
    if text.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
        test.globs = names
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
        runner.run(test, out=printed.write, clear_globs=False)
        assert runner.failures == 0, printed.getvalue()
        return ""
    with contextlib.redirect_stdout(printed):
        exec(compile(text, name, "exec"), names)
    return printed.getvalue()


def run_block(desk: Desk, page: Page, block: Block, names: dict) -> str:
    """Run one block and return what it prints."""
    if block.language == "sh":
        return desk.run(block.text)
    return run_python(block.text, names, f"{page.name}:{block.line}")


def check(page: Page, block: Block, printed: str, fresh: dict[int, tuple[Block, str]]) -> None:
    """Compare what a block printed with what the page shows; note what would have to be written."""
    shown = page.shown_below(block)
    if shown is None or _CHECKER.check_output(shown.text, printed, doctest.ELLIPSIS):
        return
    fresh[shown.line] = (shown, printed)
    assert os.environ.get("UPDATE_DOCS"), (
        f"{page.name}:{shown.line} no longer shows what is printed:\n"
        f"{textwrap.indent(printed, '    ')}"
    )


def update(page: Page, fresh: dict[int, tuple[Block, str]]) -> None:
    """Write what was printed into the page."""
    lines = page.text.split("\n")
    for number in sorted(fresh, reverse=True):
        shown, printed = fresh[number]
        lines[shown.line - 1 : shown.last_line - 1] = printed.splitlines()
    page.path.write_text("\n".join(lines), encoding="utf-8")


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A desk that is the current folder; what a page adds to the tools is taken away again."""
    tools = dict(TOOL_REGISTRY)
    place = Desk(tmp_path)
    monkeypatch.chdir(place.work)
    yield place
    TOOL_REGISTRY.clear()
    TOOL_REGISTRY.update(tools)


def runnable(page: Page) -> list[Block]:
    if page.name in GENERATED:
        return []
    return [block for block in page.blocks if block.language in RUN and not block.mark]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "README.md" else pytest.mark.slow)
        for name, page in pages().items()
        if runnable(page)
    ],
)
def test_a_page_s_blocks_do_what_it_says(name, desk, monkeypatch):
    page, names, fresh = pages()[name], {"__name__": "page"}, {}
    if name in HAS_MODELS:
        if engine_version() is None:
            pytest.skip("the engine is not installed")
        desk.add_models()
    if name in SIGNS and shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen (openssh-client)")
    with FakeOllama(reply=answer) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        for block in runnable(page):
            check(page, block, run_block(desk, page, block, names), fresh)
    if fresh:
        update(page, fresh)


REAL = [
    (name, block)
    for name, page in pages().items()
    for block in page.blocks
    if block.mark == REAL_MODEL
]


@pytest.mark.embedded
@pytest.mark.parametrize("name, block", REAL, ids=[f"{n}:{b.line}" for n, b in REAL])
def test_the_real_model_answers_what_a_page_shows(name, block, desk, model_dir):
    page, fresh = pages()[name], {}
    assert page.shown_below(block), "only an answer that is shown is worth a real model"
    check(page, block, desk.run(block.text), fresh)


def verdicts(text: str) -> list[str]:
    """The lines of a list: what they say does not depend on a model's words."""
    return [line for line in text.splitlines() if "\t" in line]


@pytest.mark.embedded
@pytest.mark.slow
@pytest.mark.parametrize("name", ["README.md", "docs/tutorial.md"])
def test_the_first_pages_work_with_the_small_model(name, desk, model_dir, monkeypatch):
    """Each step has its exit code, checks say what stands there, and no answer is endless."""
    monkeypatch.setenv("ORE_BACKEND", "embedded")
    page = pages()[name]
    for block in runnable(page):
        if "--pull" in block.text or block.language != "sh":  # of a server's model
            continue
        printed, shown = desk.run(block.text), page.shown_below(block)
        assert len(printed) < 4_000 * (1 + block.text.count("\nore ")), block.text
        if shown is not None:
            assert verdicts(printed) == verdicts(shown.text)


@pytest.mark.parametrize("name", pages())
def test_a_block_that_is_not_run_is_listed_with_its_reason(name):
    assert not_run(pages()[name]) == WHY_NOT.get(name, [])


@pytest.mark.parametrize("name", sorted(set(pages()) - GENERATED))
def test_every_block_says_what_it_is(name):
    for block in pages()[name].blocks:
        assert block.language in RUN + SHOWN, f"{name}:{block.line}"
        assert block.mark in ("", REAL_MODEL) or block.mark.startswith(NOT_RUN)
