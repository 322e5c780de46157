"""``docs/artifacts.md``: its commands run in a shell, and what they print is what stands there.

``UPDATE_DOCS=1 python -m pytest tests/test_docs_artifacts.py`` writes the page's output anew.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.fake_ollama import FakeOllama
from tests.process import MAIN, environment

PAGE = Path(__file__).parent.parent / "docs/artifacts.md"
BLOCKS = re.compile(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)
EXIT = re.compile(r"  # exit (\d+)$")
CAPITALS = {"France": "Paris.", "Italy": "Rome.", "Japan": "Tokyo."}


def answer(request: dict) -> str:
    """What the page's models say: a clerk's answer, a pirate's, or mistral's."""
    system, prompt = request["messages"][0]["content"], request["messages"][-1]["content"]
    capital = next(city for country, city in CAPITALS.items() if country in prompt)
    if request["model"] == "mistral" and capital == "Paris.":
        return "It is Paris."
    return f"Arr, {capital}" if "pirate" in system else capital


def run_block(lines: str, folder: Path) -> str:
    """Run the lines in a shell, one after the other, and return what they print on stdout."""
    printed = ""
    for line in lines.splitlines():
        wanted = EXIT.search(line)
        done = subprocess.run(
            ["sh", "-c", line], cwd=folder, env=environment(), capture_output=True, text=True
        )
        assert done.returncode == int(wanted[1] if wanted else 0), (line, done.stderr)
        assert "Traceback" not in done.stderr
        printed += done.stdout
    return printed


def test_the_page_s_commands_do_what_it_says(tmp_path, home, monkeypatch):
    (tmp_path / "bin").mkdir()
    ore = tmp_path / "bin/ore"
    ore.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{MAIN}" "$@"\n')
    ore.chmod(0o755)
    work = tmp_path / "work"
    work.mkdir()
    page = PAGE.read_text(encoding="utf-8")
    with FakeOllama(reply=answer) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        monkeypatch.setenv("PATH", f"{ore.parent}{os.pathsep}{os.environ['PATH']}")

        def rerun(block: re.Match) -> str:
            printed = run_block(block[1], work)
            shown = "" if block[2] is None else f"\n```text\n{printed}```\n"
            assert block[2] is not None or not printed
            return f"```sh\n{block[1]}```\n{shown}"

        fresh = BLOCKS.sub(rerun, page)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(fresh, encoding="utf-8")
    assert fresh == page or os.environ.get("UPDATE_DOCS"), "the page no longer fits what is printed"
