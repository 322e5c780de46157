"""What tests ask a process of its own to do; it imports little, for each such process does so anew."""

from __future__ import annotations

import os
import re


def doubled(value):
    if value is None:
        raise ValueError("nothing to double")
    return value * 2


def search(pattern, text):
    return re.search(pattern, text) is not None


def grow():
    return len([bytes(1 << 20) for _ in range(1 << 14)])


def leave():
    os._exit(7)
