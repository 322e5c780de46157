"""The examples run as they stand, survive a killed worker, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import examples

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
COUNT = 12


@pytest.mark.skipif(not examples.has_dask(), reason="distributed is not installed")
def test_dask_loses_nothing_when_a_worker_is_killed(tmp_path):
    there = examples.run_dask(tmp_path, COUNT)
    assert [artifact["input"]["prompt"] for artifact in there] == examples.expected(tmp_path)


def test_every_example_has_requirements_of_its_own():
    folders = [path for path in (ROOT / "examples").iterdir() if path.is_dir()]
    assert sorted(path.name for path in folders) == ["dask"]
    assert all((path / "requirements.txt").is_file() for path in folders)
