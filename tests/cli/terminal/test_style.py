"""Where colour is allowed."""

from __future__ import annotations

import pytest

from ore.cli.terminal.streams import allows_colour, paint, paint_label


@pytest.mark.parametrize(
    "is_terminal, environ, allowed",
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (True, {"TERM": ""}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": ""}, True),
        (True, {"TERM": "dumb", "FORCE_COLOR": "1"}, True),
        (True, {"TERM": "dumb", "FORCE_COLOR": "0"}, False),
        (True, {"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
    ],
)
def test_colour_is_for_terminals_that_obey_unless_a_variable_says_otherwise(
    is_terminal, environ, allowed
):
    assert allows_colour(is_terminal, environ) == allowed


def test_a_style_ends_where_the_text_does():
    assert paint_label("[AYA]: x") == "\x1b[1;36m[AYA]: x\x1b[0m"
    assert paint_label("ore: ") == "\x1b[1;31more:\x1b[0m "
    assert paint_label("ore: warning: ") == "\x1b[1;33more: warning:\x1b[0m "
    assert paint("", "1;36") == ""
