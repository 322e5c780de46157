"""Which resources a skill's text names, and that finding them takes time in proportion to it."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.skills.mentions import resource_mentions


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
        "[a](SKILL.md) and `SKILL.md` and [b](#below)",
        "`scripts/run.py` and `LICENSE.txt` and `package.json` and `evals/evals.json`",
        "`/references/a.md` and `../references/`",
        "[a](https://example.org/references/a.md) and [b](//example.org/a.md)",
        "[a](file:references/a.md) and [b](mailto:me@example.org)",
        "`references/` and `references`",
        "`references/<topic>.md`",
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


IN_THE_FOLDER = {"FORMS.md", "README", "templates", "python", "scripts", "notes.d", "-x.md"}


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        ("See [forms](FORMS.md) and `FORMS.md`", ["FORMS.md"]),
        ("Read `./FORMS.md` first", ["FORMS.md"]),
        ("See [a](reference/a.md) and [b](./b.md)", ["reference/a.md", "b.md"]),
        ("See [a](gone.md) and `gone.md`", ["gone.md"]),
        ("Copy `templates/y.md`, not `evals/y.md`", ["templates/y.md"]),
        ("Run `scripts/run.py` and [it](scripts/run.py)", ["scripts/run.py"]),
        ("Written in `python`; see `python/`", ["python"]),
        ("Read `README` and `templates` and `notes.d`", ["notes.d"]),
        ("Read `README/`", ["README"]),
        ("See [a](/etc/passwd) and [b](../b.md)", ["/etc/passwd", "../b.md"]),
        ("See `templates/../../x.md`", ["templates/../../x.md"]),
        ("See `../x.md`, not `..`, `../` or `cd ../x.md`", ["../x.md"]),
        ("See [a](references/)", ["references"]),
        ("Call `python scripts/run.py`, `templates/*.md`, `templates/{a,b}.md`", []),
        ("`-x.md`", ["-x.md"]),
    ],
)
def test_what_is_in_the_folder_is_named_by_its_path_in_backticks_and_anything_by_a_link(
    body, paths
):
    assert resource_mentions(body, IN_THE_FOLDER) == paths


@given(
    st.lists(st.sampled_from("[ ] ( ) ` `` ``` ~~~ ! < > # : . / \n \\ a references/a".split(" ")))
)
def test_whatever_is_found_is_a_path_and_comes_once(pieces):
    found = resource_mentions("".join(pieces))
    assert len(set(found)) == len(found)
    for path in found:
        assert path.strip("/") and "//" not in path and not path.endswith("/")


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
