"""The folder of a run's artifacts: what is said where a file of it can't be opened."""

from __future__ import annotations

import resource
from contextlib import contextmanager

import pytest

from ore.errors import ArtifactError
from ore.rows.kept import RowFolder


@contextmanager
def no_more_files():
    """For the block, this process may open no file."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_no_other_folder_is_advised_where_no_file_can_be_opened(tmp_path):
    folder = RowFolder(str(tmp_path / "out"))
    path = folder.path_of(1, "0f1e2d3c4b5a6978")
    with no_more_files(), pytest.raises(ArtifactError) as unwritten:
        folder.write(path, b"{}")
    folder.write(path, b"{}")
    with no_more_files(), pytest.raises(ArtifactError) as unread:
        folder.find(path, "0f1e2d3c4b5a6978")
    with no_more_files(), pytest.raises(ArtifactError) as unheld, folder.held():
        pass
    for said in map(str, (unwritten.value, unread.value, unheld.value)):
        assert (
            "too many open files. Take fewer turns at once, or raise the limit (ulimit -n)." in said
        )
        assert "another folder" not in said and "Move it" not in said
