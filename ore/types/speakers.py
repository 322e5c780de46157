"""Whose answers a session holds, as labels and headings name it."""

from __future__ import annotations

AYA = "Aya"
"""The persona whose prompt is sent where no other is asked for."""

UNNAMED = "answer"
"""The speaker where the system prompt is no persona's."""
