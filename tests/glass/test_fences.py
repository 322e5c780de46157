"""The last fenced code block of an answer: by the examples of CommonMark's specification, and ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.glass.fences import last_code_block

BLOCKS = {
    # https://spec.commonmark.org/0.31.2/#fenced-code-blocks, by the number of the example
    119: ("```\n<\n >\n```\n", "<\n >\n"),
    120: ("~~~\n<\n >\n~~~\n", "<\n >\n"),
    121: ("``\nfoo\n``\n", None),
    122: ("```\naaa\n~~~\n```\n", "aaa\n~~~\n"),
    123: ("~~~\naaa\n```\n~~~\n", "aaa\n```\n"),
    124: ("````\naaa\n```\n``````\n", "aaa\n```\n"),
    125: ("~~~~\naaa\n~~~\n~~~~\n", "aaa\n~~~\n"),
    126: ("```\n", ""),
    127: ("`````\n\n```\naaa\n", "\n```\naaa\n"),
    128: ("> ```\n> aaa\n\nbbb\n", "aaa\n"),
    129: ("```\n\n  \n```\n", "\n  \n"),
    130: ("```\n```\n", ""),
    131: (" ```\n aaa\naaa\n```\n", "aaa\naaa\n"),
    132: ("  ```\naaa\n  aaa\naaa\n  ```\n", "aaa\naaa\naaa\n"),
    133: ("   ```\n   aaa\n    aaa\n  aaa\n   ```\n", "aaa\n aaa\naaa\n"),
    134: ("    ```\n    aaa\n    ```\n", None),
    135: ("```\naaa\n  ```\n", "aaa\n"),
    136: ("   ```\naaa\n  ```\n", "aaa\n"),
    137: ("```\naaa\n    ```\n", "aaa\n    ```\n"),
    138: ("``` ```\naaa\n", None),
    139: ("~~~~~~\naaa\n~~~ ~~\n", "aaa\n~~~ ~~\n"),
    140: ("foo\n```\nbar\n```\nbaz\n", "bar\n"),
    142: ("```ruby\ndef foo(x)\n  return 3\nend\n```\n", "def foo(x)\n  return 3\nend\n"),
    143: ("~~~~    ruby startline=3 $%@#$\nx\n~~~~~~~\n", "x\n"),
    144: ("````;\n````\n", ""),
    145: ("``` aa ```\nfoo\n", None),
    146: ("~~~ aa ``` ~~~\nfoo\n~~~\n", "foo\n"),
    147: ("```\n``` aaa\n```\n", "``` aaa\n"),
    # and of lists, where models like to put code
    "item": ("1. Do:\n\n   ```sh\n   make\n     x\n   ```\n\n2. Done.\n", "make\n  x\n"),
    "nested": ("- a\n  - b\n\n    ```\n    x\n    ```\n", "x\n"),
    "on the line of an item": ("- ```\n  x\n  ```\n", "x\n"),
    "of two items on a line": ("- 1. ```\n     x\n     ```\n", "x\n"),
    "left open in an item": ("- ```\n  x\n\n  y\nz\n", "x\n\ny\n"),
    "after an item": ("- a\n\n```\nx\n```\n", "x\n"),
    "deep below an item": ("- a\n\n      ```\n      x\n", None),
    "wide marker": ("10)  a\n\n     ~~~\n     x\n     ~~~\n", "x\n"),
    "quote in an item": ("- > ```\n  > x\n", "x\n"),
    "tab below an item": ("-\ta\n\n\t```\n\tx\n\t\ty\n\t```\n", "x\n    y\n"),
    "no item": ("-a\n    ```\n    x\n", None),
    # which one, and what is in it
    "the last": ("```\na\n```\nor\n```\nb\n```\nEnd.", "b\n"),
    "the last, cut off": ("```\na\n```\nor\n```py\nb", "b"),
    "tabs": ("```make\nall:\n\tcc x.c\n```", "all:\n\tcc x.c\n"),
    "other line ends": ("```\r\na\r\n\r\nb\r\n```\r\n", "a\r\n\r\nb\r\n"),
    "what only looks like a line's end": ("```\na\x0bb\u2028c\x0c\n```", "a\x0bb\u2028c\x0c\n"),
    "none": ("Just `code` and ```more``` of it.", None),
    "empty": ("", None),
}


@pytest.mark.parametrize("text, block", BLOCKS.values(), ids=map(str, BLOCKS))
def test_the_last_fenced_code_block(text, block):
    assert last_code_block(text) == block


@given(
    st.text(alphabet=st.sampled_from("a`~\n \t>-1."), max_size=40),
    st.text(alphabet=st.sampled_from("a`~\n\r \t>-é"), max_size=40),
    st.sampled_from("`~"),
)
def test_a_longer_fence_than_any_in_it_holds_any_code(before, code, character):
    fence = character * 41
    code = code + "\n" if code and not code.endswith(("\n", "\r")) else code
    assert last_code_block(f"{fence}\n{code}{fence}\n") == code
    last_code_block(before + code)  # ends


@pytest.mark.slow
def test_the_time_grows_with_the_text_only():
    for part in ("- ", "> ", "`", "```\n", "1. ", " ", "\t", "- `", "~~~ ` ", "- \n", "-\n\n "):
        last_code_block(part * 20_000 + "x`")
