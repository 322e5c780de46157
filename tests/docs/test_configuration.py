"""``docs/configuration.md`` says what can be set, as the code has it; and what wins is what it says.

After a flag was added or reworded: ``UPDATE_DOCS=1 python -m pytest tests/docs/test_configuration.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ore.__main__ import SETTABLE
from tests.support import configuration, process
from tests.support.fake_ollama import FakeOllama
from tests.support.generated import hold

PAGE = Path(__file__).parents[2] / "docs/configuration.md"
SECTIONS = {
    "flags": configuration.flags,
    "variables": configuration.variables,
    "options": configuration.options,
}


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_says_what_the_code_does(section):
    hold(PAGE, section, SECTIONS[section]())


def test_every_variable_that_is_read_is_on_the_page():
    assert configuration.read_variables() <= set(configuration.VARIABLES)


def test_every_variable_on_the_page_is_in_the_code():
    code = "".join(p.read_text() for p in (configuration.ROOT / "ore").rglob("*.py"))
    assert [name for name in configuration.VARIABLES if f'"{name}"' not in code] == []


WINNERS = [
    (["--model", "flag"], "variable", "file", "flag"),
    ([], "variable", "file", "variable"),
    ([], None, "file", "file"),
    ([], None, None, "llama3.2"),
]


@pytest.mark.invariant
@pytest.mark.parametrize("flags, variable, in_file, winner", WINNERS)
def test_a_flag_wins_over_a_variable_over_a_file_over_the_default(
    home, flags, variable, in_file, winner
):
    (home / ".ore").mkdir()
    if in_file:
        (home / ".ore/.env").write_text(f"ORE_MODEL={in_file}\n")
    with FakeOllama(models=("mistral", "llama3.2", "flag", "variable", "file")) as fake:
        env = process.environment(OLLAMA_HOST=fake.url, ORE_MODEL=variable)
        plan = process.run("hi", *flags, "--dry-run", env=env)
        assert json.loads(plan.out)["model_id"] == winner


@pytest.mark.invariant
def test_a_file_sets_what_ore_documents_but_no_program_library_certificate_or_home():
    beyond = {"EDITOR", "VISUAL", "HOME", "OMP_WAIT_POLICY", "TERM"}
    beyond |= {"SSL_CERT_DIR", "SSL_CERT_FILE"}
    assert SETTABLE == set(configuration.VARIABLES) - beyond
