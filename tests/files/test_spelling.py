"""What a misspelt name was meant to be."""

from __future__ import annotations

import random
import time

import pytest

from ore.backends.model_options import OPTIONS
from ore.files.spelling import nearest


@pytest.mark.parametrize(
    "name, expected",
    [("temp", "temperature"), ("tempreature", "temperature"), ("zzz", None), ("", None)],
)
def test_the_nearest_name_is_found(name, expected):
    assert nearest(name, OPTIONS) == expected


@pytest.mark.slow
def test_a_name_as_long_as_an_artifact_is_not_compared():
    letters = random.Random(1).choices("abcdefghij_0123456789", k=1_000_000)
    began = time.process_time()
    assert nearest("".join(letters), OPTIONS) is None
    assert time.process_time() - began < 0.1
