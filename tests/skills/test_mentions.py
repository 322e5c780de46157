"""Which resources a skill's text names, and that finding them takes time in proportion to it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.skills.mentions import FOLDERS, resource_mentions


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("See [the forms](references/FORMS.md).", ["references/FORMS.md"]),
        ("See [the forms](./references/FORMS.md).", ["references/FORMS.md"]),
        ("See [it](references/FORMS.md#fields).", ["references/FORMS.md"]),
        ("See [it](references/FORMS.md?plain=1).", ["references/FORMS.md"]),
        ('See [it](references/a.md "The title").', ["references/a.md"]),
        ("See [it](<references/a b.md>).", ["references/a b.md"]),
        ("See [it](references/a%20b.md).", ["references/a b.md"]),
        ("See [it]( assets/a.csv ).", ["assets/a.csv"]),
        ("See [`a[0]`](resources/a.md).", ["resources/a.md"]),
        ("[![logo](assets/logo.png)](references/a.md)", ["references/a.md"]),
        ("See [it][a].\n\n[a]: references/a.md\n", ["references/a.md"]),
        ("Read `resources/deep/er/a.md` first", ["resources/deep/er/a.md"]),
        ("Read `./resources/a.md`", ["resources/a.md"]),
        ("Read ``resources/a.md``", ["resources/a.md"]),
        ("Read ` resources/a b.md `", ["resources/a b.md"]),
        ("Read `references//./a.md`", ["references/a.md"]),
        ("`assets/b` [x](references/a) `resources/c`", ["assets/b", "references/a", "resources/c"]),
        ("[`references/a`](references/a) `./references/a`", ["references/a"]),
        ("`references/../../secret`", ["references/../../secret"]),
        ("```\n`references/a`\n```\n`references/b`", ["references/b"]),
        ("````\n```\n`references/a`\n````\n`references/b`", ["references/b"]),
        ("~~~ md\n[a](references/a)\n~~~\n[b](references/b)", ["references/b"]),
        ("- ```sh\n  cat `references/a`\n  ```\n`references/b`", ["references/b"]),
        ("    - ```sh\n      cat `references/a`\n      ```\n`references/b`", ["references/b"]),
        ("> 1. ~~~\n> `references/a`\n> ~~~\n`references/b`", ["references/b"]),
        ("```inline``` and `references/b`", ["references/b"]),
    ],
)
def test_links_and_code_spans_name_resources_once_in_order(body, paths):
    assert resource_mentions(body) == paths


@pytest.mark.parametrize(
    "body",
    [
        "",
        "references/a.md",
        "Read (references/a.md) and *references/a.md*",
        "![logo](assets/logo.png)",
        "[a](scripts/run.py) and `scripts/run.py`",
        "[a](SKILL.md) and `LICENSE.txt`",
        "[a](/references/a.md) and `/references/a.md`",
        "[a](../references/a.md) and `../references/a.md`",
        "[a](https://example.org/references/a.md)",
        "[a](file:references/a.md)",
        "[a](references/) and `references/` and `references`",
        "[a](references/<topic>.md) and `references/<topic>.md`",
        "`references/*.md` and `references/{a,b}.md` and `references/...` and `assets/$NAME`",
        "`python scripts/run.py assets/a.csv`",
        "`my references/a.md`",
        "```\n`references/a.md` in a fence that nothing closes",
        "`references/a\nb.md`",
        "[references/a.md]",
    ],
)
def test_anything_else_names_none(body):
    assert resource_mentions(body) == []


@given(
    st.lists(st.sampled_from("[ ] ( ) ` `` ``` ~~~ ! < > # : . / \n \\ a references/a".split(" ")))
)
def test_whatever_is_found_lies_below_the_three_folders(pieces):
    found = resource_mentions("".join(pieces))
    assert len(set(found)) == len(found)
    for path in found:
        assert path.partition("/")[0] in FOLDERS
        assert path.partition("/")[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "piece",
    [
        "[",
        "![",
        "![](",
        "](",
        "](<",
        "]( ",
        "`",
        "``",
        "` ",
        "`a",
        "[a]:",
        "[a]: ",
        "```\n",
        "~",
        ">",
    ]
    + [
        "> ",
        " ",
        "- ",
        "1. ",
        "[a](references/a)",
        "`references/a`\n",
        "<",
        "%20",
        "](references/",
    ],
)
def test_a_hostile_megabyte_is_searched_in_seconds(piece):
    body = piece * (1024 * 1024 // len(piece))
    started = time.process_time()
    for before in ("", "x", "- "):
        resource_mentions(f"{before}{body}\n")
    assert time.process_time() - started < 30  # traced for coverage; quadratic, it takes hours
