"""A pinned model: ``NAME@sha256:HEX`` answers, or nothing is sent."""

from __future__ import annotations

import hashlib
import json
import math
import time

import pytest

from ore import ORE, AyaReasoner, open_table, over_rows, run_file
from ore.backends import split_pin
from ore.backends.effective import in_short
from ore.backends.embedded import EmbeddedBackend
from ore.errors import CapabilityError, CheckFailedError, ModelNotFoundError, UsageError
from tests.support import gguf
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_ollama.replies import TEMPLATE

MODEL = "llama3.2:latest"
DIGEST = hashlib.sha256(MODEL.encode()).hexdigest()
SECOND = hashlib.sha256(b"second:latest").hexdigest()
OTHER = "0" * 64


@pytest.fixture
def server(monkeypatch):
    with FakeOllama(models=(MODEL, "second:latest")) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        yield server


@pytest.fixture
def ask(server, ore):
    """ORE with the real backends, on the fake server."""
    from ore.backends import choice

    def run(*argv, **more):
        return ore(*argv, open_backend=choice.open_backend, **more)

    return run


def chats(server) -> int:
    return len(server.chats)


def tagged(digest: str) -> bytes:
    """Return a list of models in which ``MODEL`` has a digest."""
    return json.dumps({"models": [{"name": MODEL, "digest": digest}]}).encode()


@pytest.mark.parametrize(
    "text, expected",
    [
        ("llama3.2", ("llama3.2", None)),
        ("", ("", None)),
        (f"a@sha256:{'A1' * 6}", ("a", "a1" * 6)),
        (f"hf.co/u/r:Q4@sha256:{DIGEST}", ("hf.co/u/r:Q4", DIGEST)),
        (f"/x/y@z.gguf@sha256:{DIGEST[:13]}", ("/x/y@z.gguf", DIGEST[:13])),
    ],
)
def test_a_pin_is_read(text, expected):
    assert split_pin(text) == expected


BAD = ["a@sha256:", "a@sha256", f"@sha256:{OTHER}", f"a@sha256:{'0' * 11}", f"a@sha256:{OTHER}0"]
BAD += ["a@sha256:llama3.2llama", f"a@SHA256:{OTHER}", f"a@sha256:{OTHER}:latest"]


def test_an_address_with_a_password_has_no_name_and_is_not_shown_whole():
    for text in ("http://me:hunter2@box/a", f"http://hunter2@box/a@sha256:{OTHER}0"):
        with pytest.raises(
            UsageError, match="^'http://…@[^']*' can't be a model's name: "
        ) as caught:
            split_pin(text)
        assert "hunter2" not in str(caught.value)
    assert split_pin(f"http://box:1/a@sha256:{DIGEST}")[0] == "http://box:1/a"


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_pin_is_asked_wrongly(ask, server, monkeypatch, text):
    with pytest.raises(UsageError, match="does not pin a model: write NAME@sha256:"):
        split_pin(text)
    result = ask("hi", "--model", text)
    assert (result.code, result.out, chats(server)) == (2, "", 0)
    monkeypatch.setenv("ORE_MODEL", text)
    assert ask("hi").code == 2 and chats(server) == 0
    assert ask("hi", "--dry-run").code == 2 and ask("-i", stdin="").code == 2
    listed = ask("--list-models")  # where the digits are, as was advised
    assert (listed.code, listed.out.count(MODEL)) == (0, 1) and ask("--pull", MODEL).code == 0
    assert ask("hi", "--model", MODEL).code == 0 and chats(server) == 1  # a flag wins


@pytest.mark.parametrize("pin", [DIGEST[:12], DIGEST[:12].upper(), DIGEST])
@pytest.mark.parametrize("name", [MODEL, "llama3.2", "registry.ollama.ai/library/llama3.2"])
@pytest.mark.parametrize("is_flag", [True, False])
def test_the_pinned_model_answers(ask, server, monkeypatch, name, pin, is_flag):
    if not is_flag:
        monkeypatch.setenv("ORE_MODEL", f"{name}@sha256:{pin}")
    flags = ["--model", f"{name}@sha256:{pin}"] if is_flag else []
    result = ask("hi", "--json", *flags)
    assert result.code == 0 and chats(server) == 1
    assert result.json["model_id"] == name


@pytest.mark.parametrize("flags", [[], ["--dry-run"], ["--session", "s"], ["--stream"], ["-i"]])
@pytest.mark.parametrize("is_flag", [True, False])
@pytest.mark.invariant
def test_another_model_is_never_called_and_both_digests_are_named(
    ask, server, monkeypatch, home, flags, is_flag
):
    pinned = f"llama3.2@sha256:{OTHER[:12]}"
    if not is_flag:
        monkeypatch.setenv("ORE_MODEL", pinned)
    result = ask("hi", *flags, *(["-m", pinned] if is_flag else []), stdin="")
    assert (result.code, result.out, chats(server)) == (3, "", 0)
    assert f"sha256:{DIGEST}" in result.err and f"sha256:{OTHER[:12]}." in result.err
    assert not list(home.glob(".ore/sessions/s.json"))


def test_a_model_that_is_not_there_is_not_said_to_be_another_one(ask, server):
    result = ask("hi", "-m", f"none@sha256:{OTHER}")
    assert result.code == 1 and "no model 'none'" in result.err and chats(server) == 0


def test_a_list_without_digests_is_said(ask, server):
    server.use("tags-empty")
    result = ask("hi", "-m", f"llama3.2@sha256:{OTHER}")
    assert result.code == 1 and chats(server) == 0


@pytest.mark.parametrize("digest", ["\x1b[2J\nYou: " + "d" * 20, "d" * 100_000])
def test_what_is_no_digest_is_not_shown_as_one(ask, server, digest):
    server.use("happy", on="/api/tags", body=tagged(digest))
    result = ask("hi", "-m", f"llama3.2@sha256:{OTHER}")
    assert result.code == 1 and "is not known" in result.err and chats(server) == 0
    assert "\x1b" not in result.err and "\nYou:" not in result.err and len(result.err) < 1000


@pytest.mark.slow
def test_a_digest_and_a_version_as_large_as_an_artifact_cost_no_answer(ask, server, tmp_path):
    server.use("happy", on="/api/tags", body=tagged("d" * (9 << 20)))
    server.ollama.version = "0.13.5 " + "v" * (9 << 20)
    result = ask("hi", "-m", "llama3.2", "--artifact-out", tmp_path / "run.json")
    assert (result.code, result.out) == (0, "Paris.\n")
    kept = json.loads((tmp_path / "run.json").read_text())["provenance"]
    assert kept["server_version"] is kept["model_digest"] is None and kept["self_sha256"]


def test_a_model_that_is_replaced_while_a_repl_runs_is_not_asked(ask, server):
    def reply(request):
        server.ollama.copies[MODEL] = "second:latest"  # from now on, the name is another model's
        return "Paris."

    server.ollama.reply = reply
    result = ask("-i", "-m", f"llama3.2@sha256:{DIGEST[:12]}", stdin="one\ntwo\n")
    assert (result.code, result.out.count("Paris."), chats(server)) == (1, 1, 1)
    assert "llama3.2 is not the model that is pinned" in result.err


def test_a_session_stays_pinned(ask, server, home):
    assert ask("one", "-S", "s", "-m", f"llama3.2@sha256:{DIGEST[:16]}").code == 0
    meta = home / ".ore/sessions/s.meta.json"
    kept = json.loads(meta.read_text())
    assert kept["model"] == f"llama3.2@sha256:{DIGEST[:16]}"
    assert ask("two", "-S", "s").code == 0 and chats(server) == 2
    meta.write_text(json.dumps(kept | {"model": f"llama3.2@sha256:{OTHER}"}))
    assert ask("three", "-S", "s").code == 3 and chats(server) == 2
    meta.write_text(json.dumps(kept | {"model": "llama3.2@sha256:x"}))
    result = ask("three", "-S", "s")
    assert result.code == 1 and "s.meta.json" in result.err and chats(server) == 2
    assert ask("four", "-S", "s", "-m", "second").code == 0


def test_another_model_of_a_repl_can_be_pinned(ask, server):
    said = ask("-i", terminal="in out err", stdin=f"/model second@sha256:{OTHER}\nhi\n/bye\n")
    assert "is not the model that is pinned" in said.err and chats(server) == 1
    assert server.chats[0].json["model"] == MODEL


def test_a_model_that_becomes_another_one_in_a_pinned_turn_is_told(ask, server, tmp_path):
    def swapped(_):
        server.ollama.copies[MODEL] = "second:latest"
        return "Paris."

    said = "llama3.2 became another model than the pinned one during this turn"
    turn = ("hi", "-m", f"llama3.2@sha256:{DIGEST}", "--artifact-out", str(tmp_path / "run.json"))
    assert said not in ask(*turn).err
    server.ollama.reply = swapped
    assert said in ask(*turn[:-1], "-").err


def test_a_model_that_becomes_another_one_in_a_run_over_rows_is_told(ask, server, tmp_path):
    def swapped(_):
        server.ollama.copies[MODEL] = "second:latest"
        return "Paris."

    table = tmp_path / "table.csv"
    table.write_text("n\n1\n2\n")
    rows = ("--rows", str(table), "{{n}}", "--artifact-out", str(tmp_path / "out"))
    said = "llama3.2 became another model during this run"
    assert said not in ask(*rows, "-m", "llama3.2").err
    assert said not in ask(*rows, "-m", "llama3.2").err
    server.ollama.reply = swapped
    table.write_text("n\n3\n4\n")
    assert said in ask(*rows, "-m", "llama3.2").err
    del server.ollama.copies[MODEL]
    table.write_text("n\n5\n6\n")
    pinned = ask(*rows, "-m", f"llama3.2@sha256:{DIGEST}").err
    assert said in pinned and "Give the name back to the pinned one" in pinned
    assert "Run it again" not in pinned


@pytest.mark.parametrize("is_logged", [False, True])
@pytest.mark.parametrize("pin", ["", f"@sha256:{DIGEST}"])
def test_no_artifact_and_no_folder_is_spoken_of_in_a_run_over_rows_without(
    ask, server, tmp_path, pin, is_logged
):
    def swapped(_):
        server.ollama.copies[MODEL] = "second:latest"
        return "Paris."

    server.ollama.reply = swapped
    (tmp_path / "table.csv").write_text("n\n1\n2\n")
    log = ["--runs", str(tmp_path / "log")] if is_logged else []
    said = ask("--rows", str(tmp_path / "table.csv"), "{{n}}", "-m", f"llama3.2{pin}", *log).err
    assert "llama3.2 became another model during this run" in said and "folder" not in said
    assert ("artifacts name the old one" in said) is is_logged
    assert "back to the pinned one, and run it again." in said if pin else "Run it again: " in said


def test_a_program_can_find_out_that_a_model_became_another_one_in_a_run_over_rows(
    server, tmp_path
):
    def swapped(_):
        server.ollama.copies[MODEL] = "second:latest"
        return "Paris."

    (tmp_path / "table.csv").write_text("n\n1\n2\n")
    with open_table(tmp_path / "table.csv") as table:
        engine = ORE(AyaReasoner("llama3.2", host=server.url))
        rows = over_rows(engine, "{{n}}", table, folder=tmp_path / "out")
        assert [each.content for each in rows.outcomes()] == ["Paris."] * 2
        assert not rows.is_other_model()
        server.ollama.reply = swapped
        again = over_rows(engine, "And {{n}}", table, folder=tmp_path / "out")
        assert [each.content for each in again.outcomes()] == ["Paris."] * 2
        assert again.is_other_model()
        engine.close()


@pytest.mark.parametrize("pin", [DIGEST[:12], DIGEST[:12].upper(), DIGEST])
def test_a_run_of_another_model_is_not_what_a_plan_with_a_pin_has_planned(
    ask, server, tmp_path, pin
):
    plan, other, run = (tmp_path / name for name in ("plan.json", "other.json", "run.json"))
    plan.write_text(ask("hi", "-m", f"llama3.2@sha256:{pin}", "--dry-run").out)
    ask("hi", "-m", "llama3.2", "--artifact-out", str(run))
    other.write_text(ask("hi", "-m", f"llama3.2@sha256:{DIGEST[:20]}", "--dry-run").out)
    for pair in ((plan, run), (run, plan), (plan, other), (other, plan)):
        found = ask("--diff", *map(str, pair), "--json")
        assert found.code == 0 and "model_digest" not in found.json["not_known"], pair
    server.ollama.copies[MODEL] = "second:latest"
    ask("hi", "-m", "llama3.2", "--artifact-out", str(run))
    other.write_text(ask("hi", "-m", f"llama3.2@sha256:{SECOND[:20]}", "--dry-run").out)
    for pair in ((plan, run), (run, plan), (plan, other), (other, plan)):
        found = ask("--diff", *map(str, pair), "--json")
        assert found.code == 3 and found.json["differences"][0]["name"] == "model_digest", pair


@pytest.fixture
def recorded(ask, tmp_path):
    path = tmp_path / "run.json"
    assert ask("hi", "-m", "llama3.2", "--artifact-out", str(path)).code == 0
    return path


def test_a_plan_keeps_the_pin_that_it_was_made_with(ask, server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.ore").write_text(f"---\nmodel: llama3.2@sha256:{DIGEST[:12]}\n---\nhi")
    (tmp_path / "plan.json").write_text(ask("--run", "in.ore", "--dry-run").out)
    kept = json.loads((tmp_path / "plan.json").read_text())
    assert kept["pin"] == DIGEST[:12] and kept["model_id"] == "llama3.2"
    assert ask("--run", "plan.json").code == 0 and run_file("plan.json").output.content == "Paris."
    server.ollama.copies[MODEL] = "second:latest"
    before = chats(server)
    result = ask("--run", "plan.json")
    assert result.code == 3 and "is not the model that is pinned" in result.err
    with pytest.raises(CheckFailedError):
        run_file("plan.json")
    assert chats(server) == before
    assert ask("--run", "plan.json", "-m", "llama3.2").code == 0
    for odd in ("x", 7, DIGEST.upper()):
        (tmp_path / "plan.json").write_text(json.dumps(kept | {"pin": odd}))
        assert "its pin is not part of a digest" in ask("--run", "plan.json").err
    assert "pin" not in json.loads(ask("hi", "--dry-run").out)


@pytest.mark.parametrize("flag", ["--artifact-in", "--replay"])
def test_an_artifact_is_run_with_the_pinned_model_or_not_at_all(ask, server, recorded, flag):
    assert ask(flag, str(recorded), "-m", f"llama3.2@sha256:{DIGEST}").code == 0
    before = chats(server)
    result = ask(flag, str(recorded), "-m", f"llama3.2@sha256:{OTHER}")
    assert result.code == 3 and "is not the model that is pinned" in result.err
    assert chats(server) == before


def test_a_model_that_becomes_another_one_as_an_artifact_is_asked_is_told(ask, server, recorded):
    def swapped(_):
        server.ollama.copies[MODEL] = "second:latest"
        return "Paris."

    again = (
        "--artifact-in",
        str(recorded),
        "-m",
        f"llama3.2@sha256:{DIGEST}",
        "--artifact-out",
        "-",
    )
    assert "became another model" not in ask(*again).err
    server.ollama.reply = swapped
    assert "llama3.2 became another model than the pinned one during this turn" in ask(*again).err


@pytest.mark.slow
@pytest.mark.parametrize("flag, code", [("--artifact-in", 1), ("--replay", 3)])
def test_the_check_of_a_pin_is_a_part_of_the_deadline_of_a_rerun_too(
    ask, server, recorded, flag, code
):
    server.ollama.reply, server.ollama.delay = "word " * 40, 0.05
    server.use("happy", on="/api/tags", wait=1.0)
    pin, began = f"llama3.2@sha256:{DIGEST}", time.monotonic()
    assert ask(flag, str(recorded), "-m", pin, "--deadline", "1.5").code == code
    assert time.monotonic() - began < 2.0


@pytest.mark.slow
def test_the_check_of_a_pin_is_a_part_of_the_first_turn_of_a_replay_alone(ask, server, recorded):
    answers = iter([("Rome.", 0.0), ("Oslo.", 1.4)])

    def answer(_):
        text, seconds = next(answers)
        time.sleep(seconds)
        return text

    server.ollama.reply = answer
    server.use("happy", on="/api/tags", wait=1.0)
    pin = f"llama3.2@sha256:{DIGEST}"
    result = ask("--replay", str(recorded), "-m", pin, "--deadline", "2")
    assert (result.code, result.out.split("\t")[1]) == (3, "not repeatable"), result.err


def test_what_an_artifact_calls_its_model_is_no_pin(ask, server, recorded):
    run = json.loads(recorded.read_text())
    run["input"]["model_id"] = f"llama3.2@sha256:{DIGEST}"
    recorded.write_text(json.dumps(run))
    assert ask("--artifact-in", str(recorded)).code == 1


def test_a_replay_says_first_that_the_model_has_changed(ask, server, recorded):
    run = json.loads(recorded.read_text())
    run["provenance"]["model_digest"] = OTHER
    recorded.write_text(json.dumps(run))
    result = ask("--replay", str(recorded))
    assert result.code == 3
    assert "\tdifferent\tmodel changed; model_digest" in result.out


def test_the_list_has_what_a_pin_is_made_of(ask, server):
    row = ask("--list-models", "--json").json[0]
    assert row["digest"] == DIGEST and row["quantization"] == "Q4_K_M" and row["size"]
    assert row["template_sha256"] == hashlib.sha256(TEMPLATE.encode()).hexdigest()
    shown = [seen.path for seen in server.requests].count("/api/show")
    assert DIGEST not in ask("--list-models").out
    assert shown == 2 + 1  # the default once more: whether it answers prompts


def test_a_pinned_default_is_marked_in_the_list(ask, monkeypatch):
    monkeypatch.setenv("ORE_MODEL", f"second@sha256:{OTHER}")
    assert "second:latest\tdefault" in ask("--list-models").out


def test_a_server_of_the_openai_protocol_does_not_know_digests(ore, monkeypatch):
    pytest.importorskip("openai")
    from ore.backends import choice

    flags = ["--backend", "openai", "--host", "http://127.0.0.1:9"]
    result = ore("hi", *flags, "-m", f"m@sha256:{OTHER}", open_backend=choice.open_backend)
    assert result.code == 1 and "does not say the digest of m" in result.err
    assert f"leave @sha256:{OTHER} out" in result.err


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A model of our own among the installed ones."""
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path))
    path = tmp_path / "mine.gguf"
    path.write_bytes(gguf.tiny_model())
    return path


@pytest.mark.parametrize("is_path", [True, False])
def test_the_file_of_an_embedded_model_is_what_is_pinned(file, is_path):
    backend, model = EmbeddedBackend(), str(file) if is_path else "mine"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    backend.check_digest(model, digest[:12])
    with pytest.raises(CheckFailedError, match=f"sha256:{digest}, and the pin says sha256:{OTHER}"):
        backend.check_digest(model, OTHER)
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(CheckFailedError):
        backend.check_digest(model, digest)
    with pytest.raises((ModelNotFoundError, CapabilityError, ImportError)):
        backend.check_digest("none", digest)


def test_the_list_of_the_engine_reads_its_files(file):
    row = EmbeddedBackend().described(whole=True)[0]
    weights = sum(int(math.prod(shape)) for shape in gguf.SHAPES.values())
    assert row.digest == hashlib.sha256(file.read_bytes()).hexdigest()
    assert row.template_sha256 == hashlib.sha256(gguf.CHATML.encode()).hexdigest()
    assert (row.window, row.parameters) == (gguf.WINDOW, in_short(weights))
    assert EmbeddedBackend().described()[0].digest is None


@pytest.mark.parametrize("end", [0, 4, 24, 200, 3000, -3000, -50])
def test_a_damaged_file_is_listed_with_what_is_known(file, end):
    file.write_bytes(file.read_bytes()[:end])
    row = EmbeddedBackend().described(whole=True)[0]
    assert (row.name, row.size) == ("mine", file.stat().st_size)


@pytest.mark.parametrize(
    "count, text",
    [(None, None), (7, "7"), (134_515_008, "134.52M"), (3_212_749_888, "3.21B"), (10**12, "1T")],
)
def test_a_number_of_parameters_is_written_as_ollama_does(count, text):
    assert in_short(count) == text


def test_a_model_that_becomes_another_one_as_a_run_is_repeated_is_told(ask, server, recorded):
    def swapped(_):
        server.ollama.copies["second:latest"] = "third:latest"
        return "Paris."

    second = hashlib.sha256(b"second:latest").hexdigest()
    again = ("--replay", str(recorded), "-m", f"second@sha256:{second}")
    assert "became another model" not in ask(*again).err
    server.ollama.reply = swapped
    result = ask(*again)
    assert (
        "run.json: second became another model than the pinned one during this turn" in result.err
    )
