"""Whether a prompt fitted its context window: estimated from its text, judged by the count.

No server says that it dropped messages, or a part of one, so this reads the signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ore.backends.model_names import full_name
from ore.files.strictjson import above_zero

LARGER_WINDOW = "`options['num_ctx']`, or with `backend='openai'` the server's settings"
"""What makes a window larger."""

_JUDGED = 1 << 22  # bytes of a prompt that are looked at, for a window of a million tokens
_TOKENS_PER_MESSAGE = 4
_MOST_PER_MESSAGE = 256  # what a template may add to a message, or before the first
_TOKENS_PER_IMAGE, _MOST_PER_IMAGE = 768, 1 << 14
_HALF_MARGIN = 8
_SHORT = 64  # so many prompts of a size fit the window: not worth a question about the model's own
_MOST_TOKENS = 1 << 53  # of a window: no model has more
_MOST_WINDOWS = 10  # of an answer's length
_KEPT = 4  # tokens of a prompt's beginning that a server keeps, unless it is told otherwise

_REPEATED = re.compile(rb"([\x00-\x7f]|[\xc2-\xf4][\x80-\xbf]+)\1\1\1+")
"""A character four times and more: a hundred of them can be one token."""

_ONE_TOKEN = (
    # A tag of HTML (Gemma), and a mark of a chat: ``<|im_end|>``, ``[INST]``.
    # No longer than such are: hexadecimal digits in the same signs are many.
    (
        re.compile(rb"<(?:/?\d?[A-Za-z_]{1,24}\d{0,5}|\|\w{1,48}\|?|\xef\xbd\x9c[^<>\n]{1,40})>"),
        b" a ",
    ),
    (re.compile(rb"\[/?[A-Z_]{1,24}]"), b" a "),
    # What follows a word that has it as one token: ``'t`` (gpt-oss).
    (re.compile(rb"'(?<=[A-Za-z]')(?:[sdmt]|re|ve|ll)\b"), b""),
)
"""What a vocabulary may have as one token, of several kinds of characters, and a word for it."""

_RARE_LETTERS = re.compile(
    rb"\xe2(?=[\x92\x93\xa0-\xa3\xb0-\xb7\xba-\xbf])"  # in a circle; Braille, Coptic, radicals
    rb"|\xe3(?=[\x84-\x86])"  # Bopomofo, single Korean letters
    rb"|\xea(?=[\x80-\xaf])"  # Yi, Vai, Javanese, Meitei
    rb"|\xef(?=\xba|\xbb[\x80-\xbc]|\xbd[\xa1-\xbf]|\xbe)"  # the forms of Arabic; half-width kana
)
"""What begins such a letter: it begins signs as well (\\xe2), or Chinese and Korean (the others)."""

_TWO_TOKENS = re.compile(
    # A sign of mathematics, chemistry or APL, a shape, the frame of a table, a number in a circle: a long
    # row of one sign is less, and so is any of a rule's.
    rb"\xe2(?=[\x81-\x85\x87-\x91\x94-\x9f\xa4-\xaf][\x80-\xbf])"
    rb"(?!(\x94\x80|\x95\x90)\xe2\1|(..)(?:\xe2\2){7})"
    rb"|\xd9(?=[\xa0-\xa9])|\xdb(?=[\xb0-\xb9])"  # a digit of Arabic, of Persian
)
"""What begins a character of two tokens, as a letter with an accent is."""

_CONTINUATION = bytes(range(0x80, 0xC0))
_CJK = (*range(0xE3, 0xEA), 0xEF)
"""What begins a Chinese or Japanese character in UTF-8, a single Korean letter, and full-width signs."""


def _kind(first: int) -> str:
    """Return the kind of a character, from its first byte in UTF-8."""
    if first < 0x80:
        char = chr(first)
        return "a" if char.isalpha() else "0" if char.isdigit() else " " if char.isspace() else "."
    if 0xD4 <= first <= 0xD6 or 0xDC <= first <= 0xDF:  # Armenian; Syriac, Thaana, N'Ko
        return "c"
    if 0xCE <= first <= 0xDF:  # Greek, Cyrillic, Hebrew, Arabic and their neighbours
        return "b"
    if first in (0xE0, 0xE1):  # of India and South-East Asia, Georgian; accents of Vietnamese
        return "i"
    if 0xEA <= first <= 0xED:  # Korean
        return "h"
    if first in _CJK:
        return "k"
    return "e" if first >= 0xF0 else "l" if 0xC3 <= first < 0xCE else "."


_KINDS = "".join(map(_kind, range(256))).encode()
_ONE_WORD = bytes.maketrans(b"lbci", b"aaaa")

_BREAKS = bytes(
    10 if first in b"\t\n" else kind if kind in b" 0" else 97 for first, kind in enumerate(_KINDS)
)
"""The end of a line or a tab is a token of its own before a word. Before blanks it is one token with
them, and the last blank goes to the word; before a number the last blank is a token as well."""

_LETTERS_PER_TOKEN = {b"a": 12, b"b": 5, b"c": 5, b"i": 4}
_DIGITS_PER_TOKEN, _CJK_PER_TOKEN, _EMOJI_PER_TOKEN = 4, 3, 2
_MANY = {
    b"a": 0.35, b"l": 2.0, b"b": 1.4, b"c": 2.1, b"i": 3.0, b"k": 2.5, b"h": 3.0,
    b"e": 4.0, b"0": 1.0, b".": 0.8,
}  # fmt: skip
_MANY_PER_WORD, _MANY_PER_BREAK, _MANY_PER_INDENT = 0.5, 1.0, 0.5
"""Tokens. Measured, like the numbers above, with eleven vocabularies: see ``docs/tried.md``."""


@dataclass(frozen=True)
class Estimate:
    """How large a prompt is, in tokens.

    Attributes:
        least: What no usual tokenizer goes below for text of its scripts.
        likely: On the high side: what a tokenizer makes of a script that it hardly knows.
        most: What none can go beyond: a token for each byte, and the template's own.
    """

    least: int
    likely: int
    most: int

    def __add__(self, other: Estimate) -> Estimate:
        least, likely = self.least + other.least, self.likely + other.likely
        return Estimate(least, likely, self.most + other.most)


_NOTHING = Estimate(0, 0, 0)


def estimate(texts: Iterable[bytes], images: int = 0) -> Estimate:
    """Estimate a prompt from its messages' texts in UTF-8, and the number of their images."""
    every = list(texts)
    text = b"\n".join(every)  # one look at all is faster than one at each: conversations grow
    share = min(_JUDGED / max(len(text), 1), 1.0)  # the rest is taken to be like it
    text, marked = _by_two_bytes(text[:_JUDGED])
    kinds = marked.translate(_KINDS, _CONTINUATION)
    words = _runs(kinds.translate(_ONE_WORD), b"a")
    many = words * _MANY_PER_WORD + sum(kinds.count(each) * n for each, n in _MANY.items())
    # The line ends between the messages are not theirs.
    joins = b"".join(each[:1] for each in every[1:]).translate(_BREAKS)
    ends = text.translate(_BREAKS)
    breaks = max(ends.count(b"\na") - joins.count(b"a") * share, 0) + kinds.count(b" 0")
    indents = max(ends.count(b"\n ") - joins.count(b" ") * share, 0)
    indents += text.translate(_BREAKS, b" ").count(b"\n0") - ends.count(b"\n0")  # of numbers
    many += breaks * _MANY_PER_BREAK + indents * _MANY_PER_INDENT
    likely = images * _TOKENS_PER_IMAGE + int(many / share) + len(every) * _TOKENS_PER_MESSAGE
    least = _fewest(_as_words(_REPEATED.sub(rb"\1", text)).translate(_KINDS, _CONTINUATION))
    least = least * 9 // 10  # a tenth for vocabularies that were not seen
    return Estimate(least, likely, most_of(every, images))


def most_of(texts: Sequence[bytes], images: int) -> int:
    """Return how many tokens messages' texts in UTF-8, and so many images, can have at most."""
    return images * _MOST_PER_IMAGE + sum(map(len, texts)) + len(texts) * _MOST_PER_MESSAGE


def _by_two_bytes(text: bytes) -> tuple[bytes, bytes]:
    """Return a text with its rare letters as those of India, and it with what is two tokens marked."""
    if text.isascii():  # it has none of them
        return text, text
    text = _RARE_LETTERS.sub(b"\xe1", text)
    return text, _TWO_TOKENS.sub(b"\xc3", text)


def _as_words(text: bytes) -> bytes:
    """Return a text with a word in the place of what may be one token."""
    for pattern, word in _ONE_TOKEN:
        text = pattern.sub(word, text)
    return text


def _fewest(kinds: bytes) -> int:
    """Return how few tokens a text can have, from the kinds of its characters.

    Every tokenizer cuts between letters and digits and between words; a sign goes with the word
    that it stands before, and a blank with whatever follows.
    """
    words = kinds.translate(_ONE_WORD)
    letters = sum(kinds.count(kind) // most for kind, most in _LETTERS_PER_TOKEN.items())
    digits = kinds.count(b"0") // _DIGITS_PER_TOKEN
    before_words = words.count(b".a") - words.count(b"..a")
    return (
        max(_runs(words, b"a"), letters)
        + max(_runs(words, b"0"), digits)
        + _runs(words, b".")
        - before_words
        + (kinds.count(b"k") + kinds.count(b"h")) // _CJK_PER_TOKEN
        + kinds.count(b"e") // _EMOJI_PER_TOKEN
    )


def _runs(kinds: bytes, kind: bytes) -> int:
    """Return how many runs of one kind of character there are."""
    before = (bytes([other]) + kind for other in b"a0. khe" if other != kind[0])
    return sum(map(kinds.count, before)) + kinds.startswith(kind)


def outcome(
    expected: Estimate,
    window: int | None,
    prompt_tokens: int | None,
    answer_tokens: int | None,
    *,
    before: int | None = None,
    refuses: Callable[[], bool] | None = None,
    own: Callable[[], tuple[int | None, Estimate]] | None = None,
    may_add: bool = False,
    room: Callable[[], int] | None = None,
) -> dict[str, Any]:
    """Return ``metadata["context"]``: ``status``, ``window`` and ``prompt_tokens``, in tokens.

    ``status`` is ``"truncated"`` when the server counted fewer tokens than the prompt can have,
    when the prompt fills the window, when it was cut to half of the window, or when prompt and
    answer together do not fit, so that the oldest was forgotten on the way. It is ``"unknown"``
    when the window or the count is not known, or when the prompt may not have fitted and no sign
    tells; else ``"complete"``.

    Args:
        window: The context window, in tokens; None is not known.
        prompt_tokens: What the server counted; None or 0 is nothing.
        before: How many tokens all before the last message can have, a system prompt too: what of it
            does not fit is left out, as Ollama does. With None, nobody knows what a server leaves out.
        refuses: Asked where the signs are not clear: whether the server refuses what does not
            fit, so that this prompt was not cut.
        own: Asked where the prompt can have been cut in half: how many tokens of its beginning a
            cut keeps, as the request or the model says, and how large what the model adds itself is.
        may_add: Whether the model may add a system prompt, which a server leaves out as it does
            messages; then ``own`` is asked unless the prompt is short.
        room: Asked where prompt and answer are more than the window: how much really fits.
    """
    size, prompt, answer = window or 0, prompt_tokens or 0, answer_tokens or 0
    status, is_sure = _judged(expected, size, prompt, answer, before, own, may_add, room)
    if not is_sure and refuses is not None and refuses():
        status = "complete"
    return {"status": status, "window": window, "prompt_tokens": prompt_tokens}


def _judged(
    expected: Estimate,
    window: int,
    prompt: int,
    answer: int,
    before: int | None,
    own: Callable[[], tuple[int | None, Estimate]] | None,
    may_add: bool,
    room: Callable[[], int] | None,
) -> tuple[str, bool]:
    """Return the status, and whether it holds also where the server is one that refuses."""
    if prompt <= 0:
        return ("truncated" if 0 < window < expected.least else "unknown"), True
    if prompt < expected.least:
        return "truncated", True
    if not window:
        return "unknown", True
    if _fills(window, prompt, answer) and (room is None or _fills(room(), prompt, answer)):
        return "truncated", prompt + answer > window
    half = window // 2
    is_large = prompt >= half and (expected.most >= window or prompt > expected.likely)
    if is_large or expected.likely > window or may_add and prompt * _SHORT >= window:
        keeps, added = own() if own is not None else (None, _NOTHING)
        expected += added
        before = None if before is None else before + added.most
        # What is beyond the text's likely size is the template's own, whose size nobody knows.
        is_larger = expected.most >= window or prompt > expected.likely
        if is_larger and prompt in half_counts(window, keeps):
            return "truncated", False
        if expected.likely > window and prompt < expected.least:
            return "truncated", False
    if expected.likely <= window:
        return "complete", True
    if half <= prompt <= half + _HALF_MARGIN:
        return "truncated", False
    if before is not None and prompt + before < window:  # it would have fitted whole
        return "complete", True
    return "unknown", False


def _fills(window: int, prompt: int, answer: int) -> bool:
    """Whether a prompt takes all of a window, or what was left of it was too small for the answer."""
    return prompt >= window - 1 or prompt + answer > window


def half_counts(window: int, kept: int | None = None) -> tuple[int, int]:
    """Return the counts that Ollama 0.30 and newer cut a prompt to, which keep half of a window.

    It keeps ``num_keep`` tokens of the beginning, one more where the model begins with a mark of
    its own, and of the rest half: ``contextShiftPromptLimit`` in its ``llm/llama_server.go``.
    """
    first = _KEPT if kept is None or kept < 0 else kept
    freed = [max((window - min(keeps, window - 1)) // 2, 1) for keeps in (first, first + 1)]
    return window - freed[0], window - freed[1]


def ends_answer(window: int, prompt_tokens: int, written: int) -> bool:
    """Return whether it is the window that ended an answer of so many tokens which a limit cut off.

    Ollama goes on where it is full, for at most ten windows: so an answer that ends later has another
    limit, such as the model's own ``num_predict``.
    """
    return 0 <= prompt_tokens + written - window <= 1 or written >= _MOST_WINDOWS * window


def find_model(running: Iterable[dict[str, Any]], model: str) -> dict[str, Any] | None:
    """Return the entry of ``model``; names are compared as the server does, with what it implies."""
    wanted = full_name(model)
    for entry in running:
        names = (entry.get("name"), entry.get("model"))
        if wanted in [full_name(name) for name in names if isinstance(name, str)]:
            return entry
    return None


def window_of(entry: dict[str, Any] | None) -> int | None:
    """Return the context window, in tokens, of a model that ``/api/ps`` lists, or None."""
    found = above_zero((entry or {}).get("context_length"))
    return found if found is not None and found < _MOST_TOKENS else None
