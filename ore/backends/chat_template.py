"""A chat template of the user's own, in the place of the one in a model's file."""

from __future__ import annotations

from pathlib import Path

from ore.errors import CapabilityError, UsageError
from ore.files import decode_text, read_regular
from ore.files.neutral import one_line

MOST_TEMPLATE_BYTES = 1 << 20


def read_chat_template(path: Path | str) -> str:
    """Return the Jinja template in a file.

    Raises:
        FileAccessError: The file can't be read, is too large, or is not text.
        UsageError: It is empty: a model without a template would take ChatML.
    """
    data, shown = read_regular(path, MOST_TEMPLATE_BYTES), one_line(str(path))
    text = decode_text(data, shown, str(path))
    if not text.strip():
        raise UsageError(
            f"The chat template in {shown} is empty: name a file with a Jinja template."
        )
    return text


def not_here(server: str) -> CapabilityError:
    """Return the error for a chat template where a server has the only say; ``server`` names it."""
    return CapabilityError(
        f"{server} makes the prompt itself, with the chat template of its own model: leave "
        f"`chat_template=` out, or use `reasoner('embedded:NAME')` with a GGUF file.",
        setting="chat_template",
    )
