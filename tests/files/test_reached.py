"""Whether it can be told what is at a path."""

from __future__ import annotations

import pytest

from ore.files.reached import why_unknown


@pytest.mark.parametrize(
    "path, why",
    [
        ("file", ""),
        ("nothing", ""),
        ("file/below", ""),
        ("n\0", ""),
        ("n" * 300, ""),
        ("loop/below", "too many levels of symbolic links"),
    ],
    ids=["file", "nothing", "below a file", "zero byte", "too long", "loop"],
)
def test_what_is_not_there_is_known_and_what_can_not_be_looked_at_is_not(path, why, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert why_unknown(f"{tmp_path}/{path}") == why
