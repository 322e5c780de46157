"""The numbers behind an answer, of the real model: which file it was, and whether the model said it."""

from __future__ import annotations

import pytest

from tests.by_hand.attribution import cases, is_mixed
from tests.support.harness import run_ore
from tests.support.runs import forge

pytestmark = [pytest.mark.embedded, pytest.mark.slow]
SHORT = ("-o", "num_predict=16", "--system", "Answer in a few words.", "--artifact-full")


@pytest.fixture
def ask(folder, model_dir, monkeypatch):
    monkeypatch.setenv("ORE_BACKEND", "embedded")

    def run(*args):
        from ore.backends.choice import open_backend

        return run_ore(*args, open_backend=open_backend)

    return run


def test_the_file_that_holds_the_answer_is_first_and_an_edit_of_it_is_found(ask, folder):
    found = 0
    for case in cases():
        flags = []
        for number, text in enumerate(case.files, 1):
            (folder / f"{number}.txt").write_text(text)
            flags += ["-f", f"{number}.txt"]
        answer = ask(case.question, *flags, *SHORT, "--artifact-out", "run.json").out.strip()
        if case.answer not in answer or is_mixed(case, answer):
            continue
        why = ask("--why", "run.json", "--json")
        assert why.code == 0 and why.json["text"] == answer
        assert why.json["sources"][0]["source"] == f"file:{case.planted + 1}.txt"
        said = ask("--verify", "--with-model", "run.json")
        assert said.code == 0 and "accept" in said.out, said.out + said.err
        forge("run.json", case.answer, "zebra")
        forged = ask("--verify", "--with-model", "run.json", "--json")
        assert forged.code == 3 and forged.json[0]["state"] == "holds"
        judged = forged.json[0]["model"]
        assert "zebra" in judged["said"] and judged["instead"].strip() in f"{case.answer} "
        found += 1
        if found == 2:
            return
