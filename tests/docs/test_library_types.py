"""The blocks of docs/library.md, joined to one program, are right for a strict type checker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.house import ROOT
from tests.support.pages import pages


@pytest.mark.slow
def test_the_library_page_is_typed_strictly(tmp_path):
    blocks = [b.text for b in pages()["docs/library.md"].blocks if b.language == "python"]
    assert len(blocks) > 15
    (tmp_path / "page.py").write_text("\n\n".join(blocks))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nmypy_path = {ROOT}\n")
    argv = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "page.py"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
