"""Cells of a table as CSV has them, and texts that no spreadsheet runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠", "\t", "\r", "\n")
_NUMBER = re.compile(r"[+-]?\d[\d .,]*%?")
_QUOTED = re.compile(r'[",;\t\r\n]|^\s|\s$')
"""Some spreadsheets part cells at semicolons and tabs, too, unless these are between quotes."""


def csv_line(cells: Iterable[str]) -> str:
    """Return a record of CSV (RFC 4180) without its end."""
    return ",".join(
        '"' + cell.replace('"', '""') + '"' if _QUOTED.search(cell) else cell for cell in cells
    )


def harmless(text: str) -> str:
    """Return a model's text as a cell that no spreadsheet runs: an apostrophe before a formula.

    A number is left as it is.
    """
    is_formula = text.lstrip(" \0").startswith(_FORMULA) and not _NUMBER.fullmatch(text.strip())
    return f"'{text}" if is_formula else text


def begins_like_formula(text: str) -> bool:
    """Return whether a spreadsheet may run what is in a cell."""
    return harmless(text) != text
