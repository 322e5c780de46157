"""A model's name as Ollama writes it."""

from __future__ import annotations

import pytest

from ore.backends.model_names import ModelName, parse_name, shown_name
from ore.errors import UsageError


@pytest.mark.parametrize(
    "text, parts, shown",
    [
        ("llama3.2", ("registry.ollama.ai", "library", "llama3.2", "latest"), "llama3.2"),
        ("llama3.2:latest", ("registry.ollama.ai", "library", "llama3.2", "latest"), "llama3.2"),
        ("llama3.2:1b", ("registry.ollama.ai", "library", "llama3.2", "1b"), "llama3.2:1b"),
        ("me/mine", ("registry.ollama.ai", "me", "mine", "latest"), "me/mine"),
        ("hf.co/U/R-GGUF:Q4_K_M", ("hf.co", "U", "R-GGUF", "Q4_K_M"), "hf.co/U/R-GGUF:Q4_K_M"),
        ("localhost:5000/library/x", ("localhost:5000", "library", "x", "latest"), None),
        ("Registry.Ollama.AI/Library/X:LATEST", None, "X"),
    ],
)
def test_a_name_is_read_and_written_as_ollama_does(text, parts, shown):
    name = parse_name(text)
    assert parts is None or name == parts
    assert str(name) == (shown or text)
    assert parse_name(str(name)).is_same(name)


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "a:", ":b", "a/", "/a", "a//b", "a/b/c/d", "..", "../a", "a/../b", "a:..", ".a"),
        *("a b", "a\nb", "a\x1bb", "a\0", "é", "https://h/a/b", "ftp://x", "a@sha256:00", "a:b:c"),
        *("x" * 81, "a:" + "x" * 81, "x" * 300, "n.s/m", "-a", "a\\b", "h:1/n/m/x", "a\n"),
    ],
)
def test_what_is_no_name_is_refused_in_one_line(text):
    with pytest.raises(UsageError, match="can't be a model's name") as caught:
        parse_name(text)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400
    assert "One of Hugging Face is hf.co/USER/REPO:QUANT." in str(caught.value)


@pytest.mark.parametrize(
    "text, shown",
    [
        ("https://me:secret@reg.example/a/b", "https://\u2026@reg.example/a/b"),
        ("me:secr@et@127.0.0.1:5000/a/b:1", "\u2026@127.0.0.1:5000/a/b:1"),
        ("hf.co/me:secret@/b", "hf.co/\u2026@/b"),
        ("reg:5000/a/b:1@sha256:00", "reg:5000/a/b:1@sha256:00"),
        ("claude:thinking@2026", "claude:thinking@2026"),
        ("me@reg/a", "me@reg/a"),
        ("https://me:sec/r/et@reg.example/a/b", "https://\u2026@reg.example/a/b"),
        ("https://me:secret@reg.example", "https://\u2026@reg.example"),
        ("https://secret@reg.example/a", "https://\u2026@reg.example/a"),
        ("https://reg:5000/a/b:1@sha256:00", "https://reg:5000/a/b:1@sha256:00"),
        ("https://reg/a/b:1@sha256:00", "https://reg/a/b:1@sha256:00"),
    ],
)
def test_a_password_before_a_registry_is_not_shown(text, shown):
    assert shown_name(text) == shown


def test_names_differ_in_no_more_than_case():
    assert parse_name("HF.co/u/r:q4_K_m").is_same(parse_name("hf.co/U/R:Q4_K_M"))
    assert not parse_name("a:1").is_same(parse_name("a:2"))
    assert str(ModelName("h", "library", "a", "latest")) == "h/library/a"
