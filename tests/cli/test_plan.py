"""``--dry-run``: everything but the model call, and where each message came from."""

from __future__ import annotations

import json

import pytest

from ore.artifact.canonical import digest
from ore.backends.ollama import OllamaBackend
from ore.backends.reading import Part, Reading
from ore.backends.window import Estimate
from ore.core import load_aya_system_prompt
from tests.support.harness import ScriptedBackend, run_ore
from tests.support.runs import record, sha256

KEYS = (
    "plan_version backend model_id options persona grants system_from chat_template messages "
    "messages_sha256 exact tokens tokens_least tokens_most parts window fits left answer_limit joined "
    "rendered rendered_sha256 "
    "not_rendered notes"
).split()


def sources(result) -> list[str]:
    return [message["source"] for message in result.json["messages"]]


def test_the_plan_is_one_document_and_nothing_is_sent(ore):
    result = ore("Why?", "--dry-run", "-o", "seed=3", "--think", "low")
    assert (result.code, result.err, result.calls) == (0, "", [])
    plan = result.json
    assert list(plan) == KEYS
    assert plan["plan_version"] == "ore.plan.v1"
    assert (plan["backend"], plan["model_id"]) == ("scripted", "scripted")
    assert plan["options"] == {"seed": 3, "think": "low"}
    assert plan["messages"] == [
        {"role": "system", "content": load_aya_system_prompt(), "source": "persona"},
        {"role": "user", "content": "Why?", "source": "prompt"},
    ]
    assert result.out.isascii()


@pytest.mark.parametrize(
    "argv, stdin, expected",
    [
        (["hi"], None, ["persona", "prompt"]),
        (["hi"], "", ["persona", "prompt"]),
        ([], "hi", ["persona", "stdin"]),
        (["hi"], "more", ["persona", "prompt+stdin"]),
        (["hi", "--no-system"], None, ["prompt"]),
        (["hi", "--system", "Rhyme."], None, ["system", "prompt"]),
        (["hi", "--persona", "aya"], None, ["persona", "prompt"]),
        (["hi", "--tool", "echo"], None, ["persona", "tool:echo", "prompt"]),
        (["hi", "--skill", "writing"], None, ["persona", "skill:writing", "prompt"]),
        (["hi", "-s", "-v"], None, ["persona", "prompt"]),
        (
            ["echo it", "--route", "--route-threshold=0", "--skill", "writing"],
            None,
            ["persona", "skill:writing", "tool:echo", "prompt"],
        ),
    ],
)
def test_every_message_has_its_source(ore, writing, argv, stdin, expected):
    assert sources(ore(*argv, "--dry-run", stdin=stdin)) == expected


def test_the_source_of_a_file_is_its_path_with_the_home_shortened(ore, home, tmp_path, monkeypatch):
    for folder in (home, tmp_path):
        (folder / "a.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    result = ore("hi", "--dry-run", "-f", "a.txt", "-f", str(home / "a.txt"))
    assert sources(result) == ["persona", "file:a.txt", "file:~/a.txt", "prompt"]


def test_images_are_named_by_their_hash_beside_the_prompt(ore, tmp_path):
    (tmp_path / "cat.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    messages = ore("hi", "--dry-run", "--image", str(tmp_path / "cat.png")).json["messages"]
    assert messages[-1]["images"] == [sha256(b"\x89PNG\r\n\x1a\n")]
    assert "images" not in messages[0]


@pytest.mark.parametrize(
    "flags, name",
    [
        (["--session", "trip"], "trip"),
        (["--resume-session", "trip"], "trip"),
        (["--resume-session", "trip", "--save-session", "fork"], "trip"),
        (["--continue"], "trip"),
    ],
)
def test_earlier_messages_come_from_their_session_which_stays_as_it_is(ore, home, flags, name):
    ore("one", "--session", "trip")
    file = home / ".ore/sessions/trip.json"
    before = file.read_bytes()
    result = ore("two", *flags, "--dry-run")
    assert sources(result) == ["persona", f"session:{name}#1", f"session:{name}#2", "prompt"]
    assert [m["content"] for m in result.json["messages"]][1:] == ["one", "Paris.", "two"]
    assert file.read_bytes() == before and not (file.parent / "fork.json").exists()


def test_the_prompt_of_an_artifact_is_a_prompt(ore, tmp_path):
    record(tmp_path / "a.json", "hi")
    assert sources(ore("--artifact-in", str(tmp_path / "a.json"), "--dry-run"))[1:] == ["prompt"]


@pytest.mark.invariant
@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--no-system"],
        ["--tool", "echo", "--tool-arg", "a=1"],
        ["--skill", "writing"],
        ["--session", "trip"],
        ["--system", "Höre zu."],
    ],
    ids=" ".join,
)
def test_what_is_planned_is_what_the_turn_sends(ore, writing, flags):
    ore("earlier", "--session", "trip")
    plan = ore("naïve?", *flags, "--dry-run").json
    sent = ore("naïve?", *flags).calls[0]
    assert [(m["role"], m["content"]) for m in plan["messages"]] == [
        (message.role, message.content) for message in sent
    ]
    assert plan["messages_sha256"] == digest(
        [{"role": message.role, "content": message.content} for message in sent]
    )


@pytest.mark.parametrize(
    "argv, code",
    [
        (["hi", "--dry-run", "--artifact-out", "x.json"], 2),
        (["hi", "--dry-run", "--artifact-out=-"], 2),
        (["--dry-run", "-i"], 2),
        (["hi", "--dry-run", "-c"], 2),
        (["--dry-run", "--session", "s"], 2),
        (["--dry-run"], 2),
        (["hi", "--dry-run", "--model", "nope"], 1),
        (["hi", "--dry-run", "--tool", "read-file", "--tool-arg", "path=x"], 1),
        (["hi", "--dry-run", "--skill", "nope"], 1),
        (["hi", "--dry-run", "--resume-session", "nope"], 1),
    ],
    ids=str,
)
def test_what_a_turn_would_refuse_is_refused(ore, argv, code):
    result = ore(*argv)
    assert (result.code, result.out, result.calls) == (code, "", [])


def test_a_lone_surrogate_in_a_session_is_one_sentence(ore, home):
    ore("one", "--session", "trip")
    file = home / ".ore/sessions/trip.json"
    document = json.loads(file.read_text())
    document["messages"][1]["content"] = "\ud800"
    file.write_text(json.dumps(document))
    result = ore("two", "--session", "trip", "--dry-run")
    assert (result.code, result.out) == (2, "")
    assert "role 'assistant' holds half a character" in result.err.splitlines()[-1]


def test_the_plan_holds_the_decision_of_the_router(ore):
    plan = ore("echo this", "--route", "--route-threshold", "0.4", "--dry-run").json
    routing = plan["routing"]
    assert (routing["target"], routing["target_type"]) == ("echo", "tool")
    assert set(routing) == {
        *("target", "target_type", "confidence", "args", "reasoning", "id", "timestamp")
    }
    no_match = ore("Why is the sky blue?", "--route", "--dry-run").json["routing"]
    assert (no_match["target"], no_match["target_type"]) == (None, "fallback")
    assert "routing" not in ore("Why is the sky blue?", "--dry-run").json


class Glass(ScriptedBackend):
    """A backend that knows what its model reads: each message in brackets, a token a character."""

    groups: list[list[int]] | None = None
    window = 300

    def reading(self, model_id, messages, settings):
        texts = [message.content for message in messages]
        if self.groups is not None:
            texts = ["\n\n".join(texts[number] for number in group) for group in self.groups]
        parts = [Part(None, "<", 1), Part(0, texts[0], len(texts[0]))]
        for number, text in enumerate(texts[1:], 1):
            parts += [Part(None, "><", 2), Part(number, text, len(text))]
        parts.append(Part(None, "> Be kind.\x1b[2J", 12))
        size = sum(part.tokens for part in parts)
        return Reading(
            Estimate(size, size, size),
            tuple(parts),
            window=self.window,
            limit=settings.options.get("num_predict"),
            rendered="".join(part.text for part in parts),
            groups=self.groups,
            notes=("It has a note.",),
        )


def test_the_plan_goes_down_to_what_the_model_reads_token_by_token(ore):
    plan = ore("hi", "--dry-run", "--system", "Rhyme.", open_backend=lambda *_: Glass()).json
    assert plan["rendered"] == "<Rhyme.><hi> Be kind.\x1b[2J"
    assert plan["rendered_sha256"] == sha256(plan["rendered"].encode())
    assert plan["parts"] == [
        {"source": "template", "tokens": 1, "text": "<"},
        {"source": "system", "tokens": 6},
        {"source": "template", "tokens": 2, "text": "><"},
        {"source": "prompt", "tokens": 2},
        {"source": "template", "tokens": 12, "text": "> Be kind.\x1b[2J"},
    ]
    assert (plan["exact"], plan["tokens"], plan["window"]) == (True, 23, 300)
    assert (plan["fits"], plan["left"], plan["answer_limit"]) == (True, 277, None)
    assert (plan["not_rendered"], plan["notes"]) == (None, ["It has a note."])


def test_what_is_joined_is_named_by_its_sources_and_the_messages_stay(ore, writing):
    backend = Glass()
    backend.groups = [[0, 1], [2]]
    plan = ore(
        "hi",
        "--dry-run",
        "--system",
        "Rhyme.",
        "--skill",
        "writing",
        open_backend=lambda *_: backend,
    ).json
    assert plan["joined"] == [["system", "skill:writing"]]
    assert [part["source"] for part in plan["parts"]][1::2] == ["system + skill:writing", "prompt"]
    assert [m["source"] for m in plan["messages"]] == ["system", "skill:writing", "prompt"]


def test_a_person_on_a_terminal_gets_a_table_and_json_where_it_is_asked_for(ore):
    result = ore(
        "hi", "--dry-run", "--system", "Rhyme.", terminal="out", open_backend=lambda *_: Glass()
    )
    assert result.out.splitlines() == [
        "source    tokens  begins",
        "system    6       Rhyme.",
        "prompt    2       hi",
        "template  15      > Be kind.^[[2J",
        "in all    23      the window has 300: 277 are left for the answer",
    ]
    assert result.err.endswith("It has a note.\n") and result.calls == []
    flags = ("--dry-run", "--json", "--system", "Rhyme.")
    assert ore("hi", *flags, terminal="out", open_backend=lambda *_: Glass()).json["tokens"] == 23


@pytest.mark.parametrize(
    "window, flags, said",
    [
        (23, [], "the window has 23: it does not fit"),
        (24, [], "the window has 24: 1 is left for the answer"),
        (None, [], "the window is not known"),
        (
            300,
            ["-o", "num_predict=9"],
            "the window has 300: 277 are left for the answer, which may have 9",
        ),
        (
            30,
            ["-o", "num_predict=9"],
            "the window has 30: 7 are left for the answer, less than the 9 that it may have",
        ),
    ],
)
def test_the_sum_is_held_against_the_window(ore, window, flags, said):
    backend = Glass()
    backend.window = window
    lines = ore(
        "hi",
        "--dry-run",
        "--system",
        "Rhyme.",
        *flags,
        terminal="out",
        open_backend=lambda *_: backend,
    )
    assert lines.out.splitlines()[-1] == f"in all    23      {said}"


@pytest.mark.parametrize("window, flags, code", [(23, ["-n"], 0), (23, [], 3), (24, [], 0)])
def test_a_plan_that_is_sure_not_to_fit_is_shown_and_with_strict_context_3(
    ore, window, flags, code
):
    backend = Glass()
    backend.window = window
    flags = flags or ["--strict-context"]
    result = ore("hi", "--dry-run", "--system", "Rhyme.", *flags, open_backend=lambda *_: backend)
    assert (result.code, result.json["tokens"]) == (code, 23)
    said = "The prompt has 23 tokens and the model's window holds 23: shorten the prompt"
    assert (said in result.err) is (code == 3)
    raised = "raise it: -o num_ctx=N, or with --backend openai the server's settings."
    assert (raised in result.err) is (code == 3)


def test_what_is_not_known_is_an_estimate_with_its_bounds(ore):
    plan = ore("Why is the sky blue?", "--dry-run").json
    assert plan["exact"] is False and plan["tokens_least"] < plan["tokens"] < plan["tokens_most"]
    assert [part["source"] for part in plan["parts"]] == ["persona", "prompt"]
    assert sum(part["tokens"] for part in plan["parts"]) == plan["tokens"]
    assert [plan[key] for key in ("rendered", "rendered_sha256", "window", "fits")] == [None] * 4
    assert plan["not_rendered"].startswith("Nothing is known")
    line = ore("hi", "--dry-run", terminal="out").out.splitlines()[-1]
    assert line.startswith("in all   about ") and "; the window is not known" in line


def test_a_turn_that_was_joined_says_so_and_its_artifact_too(ore, writing, tmp_path):
    path = str(tmp_path / "run.json")
    metadata = {"joined": [[0, 1], [2]], "notes": ["It has a note."], "rendered_sha256": "ab"}
    flags = ("--system", "Rhyme.", "--skill", "writing", "--artifact-out", path)
    result = ore("hi", *flags, metadata=metadata)
    assert "Sent as one message" in result.err and "system and skill:writing" in result.err
    assert "It has a note." in result.err and result.code == 0
    found = json.loads((tmp_path / "run.json").read_text())["provenance"]
    assert found["joined"] == [["system", "skill:writing"]] and found["rendered_sha256"] == "ab"
    assert ore("--verify", path).code == 0


def test_rows_say_once_what_became_of_the_messages_of_all_of_them(ore, writing, tmp_path):
    (tmp_path / "t.csv").write_text("a\n1\n2\n3\n")
    metadata = {"joined": [[0, 1], [2]], "notes": ["It has a note."]}
    flags = ("--skill", "writing", "--artifact-out", str(tmp_path / "out"), "--system", "Rhyme.")
    rows = ("--rows", str(tmp_path / "t.csv"), "{{a}}", *flags)
    asked, there = ore(*rows, metadata=metadata), ore(*rows, metadata=metadata)
    assert (asked.code, there.code) == (0, 0)
    assert asked.err.count("because the chat template needs them joined: system and skill:") == 1
    assert asked.err.count("It has a note.") == 1 and "note" not in there.err


SHOWN = {"template": "{{ .Prompt }}", "parameters": "stop  x\nnum_ctx    2048\n"}
SMALL = {"model_info": {"general.architecture": "gpt2", "gpt2.context_length": 512}}


@pytest.mark.parametrize(
    "shown, loaded, flags, window",
    [
        (SHOWN, {}, [], 2048),
        ({"parameters": "num_ctx    1.048576e+06"}, {}, [], 1048576),
        (SHOWN, {}, ["-o", "num_ctx=1024"], 1024),
        (SHOWN, {"llama3.2:latest": 4096}, [], 2048),
        (SHOWN, {"llama3.2:latest": 4096}, ["-o", "num_ctx=1024"], 1024),
        (SHOWN | SMALL, {}, [], 512),
        (SHOWN | SMALL, {"llama3.2:latest": 4096}, [], 512),
        (SHOWN | SMALL, {}, ["-o", "num_ctx=1024"], 512),
        ({"template": 5, "parameters": ["num_ctx 3"]}, {}, [], None),
        ({"parameters": "num_ctx 99999999999999999999"}, {}, [], None),
    ],
)
def test_what_an_ollama_server_says_stands_beside_an_estimate(shown, loaded, flags, window):
    client = OllamaBackend("http://127.0.0.1:9")
    client._client.show = lambda model, seconds: shown
    client._client.ps = lambda seconds: [
        {"name": name, "context_length": size} for name, size in loaded.items()
    ]
    client._client.tags = lambda seconds: []
    argv = ("hi", "--dry-run", "--model", "llama3.2", *flags)
    plan = run_ore(*argv, open_backend=lambda *_: client).json
    assert (plan["exact"], plan["rendered"], plan["window"]) == (False, None, window)
    assert "does not show the prompt" in plan["not_rendered"]
    about = {name: plan[name] for name in SHOWN if name in plan}
    assert about == {name: text for name, text in shown.items() if isinstance(text, str)}


def test_a_server_that_is_not_there_keeps_no_plan_from_being_made():
    client = OllamaBackend("http://127.0.0.1:9")
    result = run_ore("hi", "--dry-run", "--model", "llama3.2", open_backend=lambda *_: client)
    assert (result.code, result.json["window"]) == (0, None)
    assert result.json["not_rendered"] == "The server does not say what it knows of the model."


@pytest.mark.parametrize("flags", [[], ["--stream"]], ids=str)
def test_messages_are_joined_by_hand_on_every_backend(ore, writing, tmp_path, flags):
    (tmp_path / "n.txt").write_text("A note.")
    argv = ["hi", "--system", "Rhyme.", "--skill", "writing", "-f", str(tmp_path / "n.txt")]
    argv += ["--join-messages", "always"]
    result = ore(*argv, *flags)
    assert [message.role for message in result.calls[0]] == ["system", "user"]
    assert result.calls[0][0].content.startswith("Rhyme.\n\n[Skill:writing]")
    assert result.calls[0][1].content.endswith("A note.\n\nhi")
    said = "Sent as one message, as was asked for: system and skill:writing; file:"
    assert said in result.err and said in ore(*argv, "--dry-run", terminal="out").err
    plan = ore(*argv, "--dry-run").json
    assert [part["source"].split(":")[0] for part in plan["parts"]] == ["system + skill", "file"]
    assert plan["joined"][0] == ["system", "skill:writing"] and len(plan["joined"]) == 2
    assert ore("hi", "--join-messages", "always", "--no-system").err == ""


@pytest.mark.parametrize("when, joins", [("auto", True), ("never", False), (None, True)])
def test_whether_a_backend_joins_what_it_has_to_is_a_setting(ore, when, joins):
    result = ore("hi", *([] if when is None else ["--join-messages", when]))
    assert result.backend.settings.joins is joins and len(result.calls[0]) == 2
