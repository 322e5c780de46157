"""An error that comes after something has ended a run is told with it."""

from __future__ import annotations

import pytest

from ore.errors import FileAccessError, OreError, OutputError, Terminated
from ore.files.afterwards import add_later


def test_the_sentence_of_an_error_says_both():
    ended = FileAccessError("The table is gone.")
    add_later(ended, OutputError("The report can't be written."))
    assert str(ended) == "The table is gone. The report can't be written."


@pytest.mark.parametrize("stop", [KeyboardInterrupt, Terminated])
def test_a_stop_keeps_its_words_and_has_all_that_came_later_as_its_cause(stop):
    ended = stop("Stopped.")
    for text in ("The report can't be written.", "The log can't be written."):
        add_later(ended, OutputError(text))
    assert str(ended) == "Stopped." and isinstance(ended.__cause__, OreError)
    assert str(ended.__cause__) == "The report can't be written. The log can't be written."
