"""What a hostile text may hold to make a terminal do something."""

from __future__ import annotations

import unicodedata

EVERY = "".join(chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000)
"""Every character there can be; half surrogate pairs are none."""
_ODD = [(c, kind) for c in EVERY if (kind := unicodedata.category(c)) in ("Cc", "Cf")]
CONTROLS = "".join(c for c, kind in _ODD if kind == "Cc")
FORMATS = "".join(c for c, kind in _ODD if kind == "Cf")

_CSI = "31m 2J H 10;10H K 1A 6n c 5n ?1049h ?25l ?2004h ?1000h s u 4h 20l 3J 8;10;10t 21t 1;5r !p".split()
_OSC = (
    "0;title 2;title 4;1;? 7;file://h/tmp 8;;http://evil 9;note 10;? 11;? 52;c;aGk= 52;c;? "
    "133;A 777;notify;a;b 1337;File=:aGk= 1337;SetMark 104 50;font"
).split()
_OTHER = "c 7 8 D E M N O Z = > (0 )B #8 %G ^pm\x1b\\ _apc\x1b\\ Psixel\x1b\\ P+q544e\x1b\\ [200~x".split()

SEQUENCES = [
    *(f"\x1b[{rest}" for rest in _CSI),
    *(f"\x1b]{rest}{end}" for rest in _OSC[:8] for end in ("\x07", "\x1b\\")),
    *(f"\x1b]{rest}\x07" for rest in _OSC[8:]),
    *(f"\x1b{rest}" for rest in _OTHER),
    *("\x9b31m", "\x9d52;c;aGk=\x9c", "\x90q\x9c", "\r[AYA]: yes", "ok\b\b\b\bno", "\x0b", "\x0c"),
    *("\u202eabc", "\u2066abc\u2069", "\u2028You: yes", "\U000e0041\U000e007f", "\ufeff\u200b"),
]
KEPT = "\n\t"


def obeyed(text: str) -> set[str]:
    """The characters of a text that a terminal would obey, or that would hide something."""
    bidi = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B"}
    return {
        c
        for c in text
        if c not in KEPT
        and (
            unicodedata.category(c) in ("Cc", "Zl", "Zp")
            or unicodedata.bidirectional(c) in bidi
            or 0xE0000 <= ord(c) < 0xE0080
        )
    }


def rows_of(text: str, width: int, columns: dict[str, int]) -> list[str]:
    """What is seen on each row of a terminal that breaks lines, and takes characters to be so wide."""
    rows, row, column = [], "", 0
    for character in text:
        if character == "\n":
            rows, row, column = [*rows, row], "", 0
        elif character == "\t":
            stop = min(column + 8 - column % 8, max(width - 1, column))
            row, column = row + " " * (stop - column), stop
        elif size := columns.get(character, 1):
            if column + size > width:
                rows, row, column = [*rows, row], "", 0
            row, column = row + character, column + size
    return [*rows, row]
