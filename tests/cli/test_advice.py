"""What the library says to do is data; the command line has its words for all of it, in one table."""

from __future__ import annotations

import ast
import re

import pytest

import ore
from ore.backends.choice import open_backend
from ore.cli.advice import FLAGS, said
from ore.cli.flags import FLAGS as OURS
from ore.errors import ADVICE, Advice, GateError, OreError, SchemaMismatchError
from ore.tools import Permission
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore
from tests.support.house import module_name, source_files, tree_of

KNOW_FLAGS = ("ore.cli", "ore.conformance.__main__", "ore.__main__")
"""What knows the command line: the rest of ``ore/`` is a library."""

PIP = {"ore.files.extras", "ore.backends.fetching"}
"""They write command lines for pip, uv and pipx."""


def sentences() -> list[tuple[str, str]]:
    """Every text of the library but docstrings, after its module; values stand in it as ``X``."""
    found = []
    for path in source_files():
        module = module_name(path)
        if module == "main" or module.startswith(KNOW_FLAGS):
            continue
        tree = tree_of(path)
        nodes = list(ast.walk(tree))
        inner = {
            id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values
        }
        inner |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}  # docstrings
        for node in nodes:
            if id(node) in inner:
                continue
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", "") for part in node.values]
                found.append((module, "".join(p if isinstance(p, str) else "X" for p in parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append((module, node.value))
    return found


def test_no_sentence_of_the_library_names_a_flag():
    written = " ".join(flag.written for topic in OURS.values() for flag in topic)
    flags = "|".join({re.escape(word) for word in re.findall(r"--[a-z][\w-]*", written)})
    named = re.compile(rf"(?<![\w-])({flags}|-o)(?![\w-])")
    assert [
        (module, text) for module, text in sentences() if module not in PIP and named.search(text)
    ] == []


@pytest.mark.slow
def test_the_table_has_all_that_the_library_says_to_do_and_nothing_else():
    used = set()
    for module, text in sentences():
        for found in re.finditer(ADVICE, text):
            words = said(found[0])
            assert words != found[0] and "{" not in words, (module, found[0])
            whole = found[0].strip("`")
            used |= {whole, re.sub(r"(?<=[(\[]).*(?=[)\]]$)|(?<==).*", "", whole)}
    assert set(FLAGS) - used == set()


@pytest.mark.parametrize(
    "sentence, words, advice",
    [
        ("Give it longer with `timeout=`.", "Give it longer with --timeout.", [("timeout", "")]),
        (
            "Fetch it with `Backend.pull('llama3.2')`, or leave `think=` out, or say `think=False`.",
            "Fetch it with --pull llama3.2, or leave --think out, or say --think off.",
            [("Backend.pull", "llama3.2"), ("think", ""), ("think", "False")],
        ),
        (
            "Less than `options[num_predict=5]`: raise `options['num_ctx']`, not `options['seed']`.",
            "Less than -o num_predict=5: raise -o num_ctx=N, not -o seed.",
            [("options", "num_predict=5"), ("options", "num_ctx"), ("options", "seed")],
        ),
        ("Start it with `ollama serve`: `x` is `nothing=`.",) * 2 + ([("nothing", "")],),
    ],
)
def test_a_sentence_names_what_a_program_writes_and_the_command_line_its_flag(
    sentence, words, advice
):
    error = OreError(sentence)
    assert (str(error), said(error), said(sentence)) == (sentence, words, words)
    assert [*error.advice] == [Advice(*each) for each in advice]


def test_an_answer_that_an_error_quotes_stays_as_it_is():
    error = SchemaMismatchError("Change `schema=`. The answer was:\n`host=`", text="`host=`")
    assert said(error) == "Change --schema. The answer was:\n`host=`"
    assert error.advice == (Advice("schema"),)


def test_a_denied_tool_says_which_permissions_would_allow_it():
    error = GateError("run", frozenset({Permission.SHELL, Permission.NETWORK}))
    assert error.advice == (Advice("Permission", "network"), Advice("Permission", "shell"))
    assert said(error) == (
        "The tool 'run' was not run: allow it with --grant network and --grant shell."
    )


def test_a_library_user_reads_no_flag_and_the_command_line_does():
    with FakeOllama() as server:
        with ore.AyaReasoner("missing", server.url) as reasoner:
            with pytest.raises(ore.ModelNotFoundError) as caught:
                ore.ORE(reasoner).execute("Why?")
        done = run_ore(
            *("Why?", "--model", "missing", "--host", server.url), open_backend=open_backend
        )
    assert caught.value.advice == (Advice("Backend.pull", "missing"),)
    assert "fetch it with `Backend.pull('missing')`" in str(caught.value)
    assert done.code == 1 and "fetch it with --pull missing" in done.err


@pytest.mark.parametrize(
    "text",
    [
        "as in http://NAME:PASSWORD@HOST:PORT, or",
        "see https://a.example/@user or a@b.example.",
        "http://[::1]:8080/v1 knows no 'a/b@sha256:12'",
        "http://a.example:80: ask me@a.example",
        "http://a.example:80 says: no user me@a.example",
        "http://[::1]:80 says: no user me@a.example",
        "http://a.example: no user me@a.example",
        "'http://a.example:80': no user",
        "http://a.example:80.",
        "http://a.example has no a:b; ask @ada",
        "'tcp://10.0.0.1:8786' does not answer; see c:/a:b, sha256:a:b and embedded:/m/a:b.gguf",
    ],
)
def test_what_is_no_login_is_said_whole(text):
    assert said(text) == text


@pytest.mark.parametrize("address", ["http://me:hunter2", "http:me:hunter2", "S3:/me:80hunter2"])
def test_of_an_address_that_is_cut_in_its_login_the_scheme_and_what_is_around_it_are_said(address):
    begins = address.partition("me:")[0]
    assert said(f"('{address}'), no server.") == f"('{begins}…'), no server."
