"""A folder beside one that its user may not look into, whoever runs the tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OTHER = 54_321


@contextmanager
def beside_a_closed_folder() -> Iterator[tuple[Path, Path]]:
    """Yield an open folder and a closed one; for the block, root is another user."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        there, closed = Path(made, "there"), Path(made, "closed")
        there.mkdir()
        closed.mkdir()
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(made, _OTHER, -1)
            os.chown(there, _OTHER, -1)
        closed.chmod(0)
        if is_root:
            os.seteuid(_OTHER)
        try:
            yield there, closed
        finally:
            if is_root:
                os.seteuid(0)
            closed.chmod(0o700)
