"""``--chat-template``: another template for a model, in the plan, the artifact and the replay."""

from __future__ import annotations

import json

import pytest

from ore.backends.address import as_host
from ore.backends.choice import open_backend
from ore.backends.ollama import OllamaBackend
from ore.backends.openai import OpenAIReasoner
from ore.backends.settings import Settings
from ore.errors import CapabilityError
from tests.support.engine import needs_engine
from tests.support.gguf import write_model
from tests.support.harness import run_ore
from tests.support.runs import forge, rewrite, sha256

pytestmark = needs_engine
ANGLES = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}<assistant>"
SQUARES = ANGLES.replace("<", "[").replace(">", "]")


@pytest.fixture
def ask(home, tmp_path, monkeypatch):
    """Runs ORE with the tiny model, in a folder with two templates."""
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m.gguf")
    (tmp_path / "angles.jinja").write_text(ANGLES)
    (tmp_path / "squares.jinja").write_text(SQUARES)

    def run(*flags: str):
        own = (
            ()
            if {"--replay", "--why", "--verify"} & {*flags}
            else ("--no-system", "-o", "num_predict=4")
        )
        return run_ore(*flags, "-m", "./m.gguf", *own, open_backend=open_backend)

    return run


@pytest.fixture
def recorded(ask, tmp_path):
    def record(*flags: str):
        argv = ("hi", "--chat-template", "angles.jinja", "--artifact-out", "run.json", *flags)
        assert ask(*argv).code == 0
        return json.loads((tmp_path / "run.json").read_text())["provenance"]

    return record


@pytest.mark.slow
def test_the_model_reads_what_the_other_template_makes(ask):
    own = ask("hi", "--dry-run").json
    plan = ask("hi", "--dry-run", "--chat-template", "angles.jinja").json
    assert own["chat_template"] is None and own["rendered"].startswith("<|im_start|>user")
    assert plan["rendered"] == "<user>hi\n<assistant>"
    assert plan["chat_template"] == {"sha256": sha256(ANGLES.encode())}
    assert plan["exact"] and plan["notes"] == []


@pytest.mark.slow
def test_a_model_without_a_template_is_given_one(ask, tmp_path):
    write_model(tmp_path / "m.gguf", tokenizer__chat_template=None)
    assert "no chat template" in ask("hi", "--dry-run").json["notes"][0]
    assert ask("hi", "--dry-run", "--chat-template", "angles.jinja").json["notes"] == []


@pytest.mark.invariant
def test_the_artifact_has_the_hash_and_the_whole_one_the_texts(ask, recorded, tmp_path):
    found = recorded()
    digest = sha256(ANGLES.encode())
    assert found["chat_template"] == {"sha256": digest} and "rendered" not in found
    assert found["effective"]["template_sha256"] == digest
    found = recorded("--artifact-full")
    assert found["chat_template"] == {"sha256": digest, "text": ANGLES}
    assert found["rendered"] == "<user>hi\n<assistant>"
    assert sha256(found["rendered"].encode()) == found["rendered_sha256"]
    assert "rendered" not in json.loads((tmp_path / "run.json").read_text())["output"]["metadata"]
    assert ask("hi", "--artifact-out", "plain.json").code == 0
    assert json.loads((tmp_path / "plain.json").read_text())["provenance"]["chat_template"] is None
    assert run_ore("--verify", "run.json", "plain.json").code == 0


@pytest.mark.parametrize("key, value", [("rendered", "<user>ha"), ("chat_template", SQUARES)])
def test_a_text_that_does_not_fit_its_hash_is_named(ask, recorded, tmp_path, key, value):
    recorded("--artifact-full")

    def spoil(document):
        provenance = document["provenance"]
        del provenance["self_sha256"], provenance["values_sha256"]
        if key == "rendered":
            provenance[key] = value
        else:
            provenance[key]["text"] = value

    rewrite(tmp_path / "run.json", spoil)
    found = run_ore("--verify", "run.json")
    assert found.code == 3 and f"provenance.{key}" in found.out and "fit its hash" in found.out
    if key == "chat_template":
        assert "is not the one that its hash says" in ask("--replay", "run.json").out


@pytest.mark.slow
def test_a_run_is_repeated_with_its_template_or_with_the_one_that_is_named(ask, recorded):
    recorded()
    done = ask("--replay", "run.json")
    assert done.code == 3 and "not run" in done.out and "name the file with --chat-t" in done.out
    done = ask("--replay", "run.json", "--chat-template", "angles.jinja")
    assert done.code == 0 and "same" in done.out and "on purpose" not in done.out
    done = ask("--replay", "run.json", "--chat-template", "squares.jinja")
    assert "different\tanswer" in done.out and "on purpose: chat template" in done.out
    assert "writes the date" not in done.err
    recorded("--artifact-full")
    assert ask("--replay", "run.json").code == 0


@pytest.mark.slow
def test_a_prompt_that_is_run_again_goes_without_and_that_is_said(ask, recorded):
    recorded()
    assert "its chat template" in ask("--artifact-in", "run.json").err
    said = ask("--artifact-in", "run.json", "--chat-template", "angles.jinja").err
    assert "its chat template" not in said


@pytest.mark.slow
def test_a_run_whose_messages_were_joined_by_hand_is_repeated_so(ask, tmp_path):
    (tmp_path / "n.txt").write_text("A note.")
    flags = ("-f", "n.txt", "--join-messages", "always", "--artifact-out", "run.json")
    assert ask("hi", *flags, "--artifact-full").code == 0
    assert "same" in ask("--replay", "run.json").out


@pytest.mark.parametrize(
    "text, code, said",
    [
        (b"", 2, "is empty: name a file with a Jinja template"),
        (b" \n", 2, "is empty"),
        (b"a\x00b", 1, "is not text"),
        (b"\xff", 1, "is not UTF-8"),
        (b"x" * ((1 << 20) + 1), 1, "larger than"),
        (b"{% for %}", 1, "The chat template can't be used ("),
        (b"{{ raise_exception('Never.') }}", 1, "can't be used (Never)"),
    ],
    ids=["empty", "blank", "NUL", "bytes", "large", "no Jinja", "raises"],
)
def test_a_file_that_is_no_template_is_one_sentence(ask, tmp_path, text, code, said):
    (tmp_path / "t.jinja").write_bytes(text)
    done = ask("hi", "--chat-template", "t.jinja")
    assert (done.code, done.out) == (code, "") and said in done.err.splitlines()[-1]


def test_a_server_is_not_told_a_template():
    settings = Settings(chat_template=ANGLES)
    with pytest.raises(CapabilityError, match="leave `chat_template=` out, or use `reasoner.'emb"):
        OllamaBackend("http://127.0.0.1:9").reasoner("m", settings)
    with pytest.raises(CapabilityError, match="A server of the OpenAI protocol makes the prompt"):
        OpenAIReasoner("m", as_host("http://127.0.0.1:9"), None, settings)


def test_a_plan_of_such_a_turn_is_not_run_without_the_template(ask, tmp_path):
    plan = ask("hi", "--dry-run", "--chat-template", "angles.jinja")
    (tmp_path / "plan.json").write_text(plan.out)
    done = run_ore("--run", "plan.json")
    assert done.code == 1 and "its turn has a chat template, of which it has the hash" in done.err


@pytest.mark.slow
@pytest.mark.parametrize("of_the_run", ["angles.jinja", None])
def test_an_answer_is_not_judged_by_a_template_that_it_was_not_asked_with(
    ask, tmp_path, of_the_run
):
    given = ("--chat-template", of_the_run) if of_the_run else ()
    more = ("--system", "Be brief.", "-o", "temperature=0", "--artifact-out", "run.json")
    assert run_ore("hi", *more, *given, "-m", "./m.gguf", open_backend=open_backend).code == 0
    answer = json.loads((tmp_path / "run.json").read_text())["output"]["content"]
    forge(tmp_path / "run.json", answer, "hi")
    other = ("--chat-template", "squares.jinja")
    done = ask("--verify", "run.json", "--with-model", *other)
    assert done.code == 0 and "cannot say: the chat template is another one: its SHA" in done.out
    done = ask("--why", "run.json", *other)
    assert (
        done.code == 1 and "the chat template is another one: its SHA-256 begins with" in done.err
    )
    assert "another one" not in ask("--verify", "run.json", "--with-model", *given).out
