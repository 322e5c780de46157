"""Which of the models that are there answers where none is named."""

from __future__ import annotations

from collections.abc import Iterable

PREFERRED_MODELS = ("llama3.2", "llama3.1", "llama3", "mistral", "llama2", "qwen2.5")
"""Which model answers when none is named, best first, as Ollama names them."""


def choose_default(names: Iterable[str]) -> str | None:
    """Return the first of ``PREFERRED_MODELS`` among ``names``, else the first by name, else None.

    A name's part before ``:`` counts; of several, the one tagged ``latest`` (or not at all) wins.
    """
    names = list(names)
    for preferred in PREFERRED_MODELS:
        tagged: dict[str, str] = {}
        for name in names:
            base, _, tag = name.partition(":")
            if base == preferred:
                tagged.setdefault(tag or "latest", name)
        if tagged:
            return tagged.get("latest") or next(iter(tagged.values()))
    return min(names, key=lambda name: (name.casefold(), name), default=None)


def is_preferred(name: str) -> bool:
    """Whether the model ``name`` is one of ``PREFERRED_MODELS``, in whatever size."""
    return name.partition(":")[0] in PREFERRED_MODELS
