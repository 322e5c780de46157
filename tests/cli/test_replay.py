"""``--replay``: a recorded run again, and what is not the same."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ore.backends.choice import open_backend
from ore.backends.turn_errors import TurnRefusedError, TurnTookLongError
from ore.core import load_aya_system_prompt
from ore.errors import BackendTimeoutError, CapabilityError, ServerUnreachableError
from tests.support.artifacts import GOOD
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import CHAT, DONE, FakeOpenAI, event, whole
from tests.support.runs import record, rewrite, rows

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def persona(home):
    """A persona of the user's own, to be edited."""
    (home / ".ore/personas").mkdir(parents=True)
    path = home / ".ore/personas/poet.md"
    path.write_text("You rhyme.")
    return path


def sent(result) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in result.calls[-1]]


@pytest.mark.parametrize("full, how", [([], "rebuilt"), (["--artifact-full"], "embedded")])
def test_the_same_messages_are_sent_once_and_the_same_answer_is_0(ore, folder, full, how):
    document = record(folder / "a.json", "naïve?", *full, "-o", "seed=3", "--think", "high")
    result = ore("--replay", "a.json")
    assert (result.code, result.err) == (0, "") and len(result.calls) == 1
    assert result.out == f"a.json\tsame\tmessages {how}\n"
    assert sent(result) == [("system", load_aya_system_prompt()), ("user", "naïve?")]
    settings = result.backend.settings
    assert (settings.options, settings.think) == ({"seed": 3}, "high")
    assert settings.conversation is False
    assert document["provenance"]["options"] == {"seed": 3, "think": "high"}


def test_messages_that_were_not_joined_are_not_joined_again(ore, folder):
    """The model's prompt is written by the server's own code, for which they are joined otherwise."""
    (folder / "n.txt").write_text("A note.")
    turn = ("hi", "--no-system", "-f", "n.txt", "-m", "llama3.2")
    with FakeOllama() as fake:
        fake.ollama.shown = {"modelfile": "FROM x\nRENDERER qwen3-coder\n"}
        given = {"open_backend": open_backend}
        asked = ("--host", fake.url)
        kept = ("--artifact-out", "a.json", "--artifact-full")
        ore(*turn, *asked, "--join-messages", "never", *kept, **given)
        plan = ore(*turn, *asked, "--join-messages", "never", "--dry-run", **given)
        (folder / "plan.json").write_text(plan.out)
        assert ore("--replay", "a.json", *asked, **given).err == ""
        ore("--run", "plan.json", *asked, **given)
        assert [len(each.json["messages"]) for each in fake.chats] == [2, 2, 2]
        ore("--run", "plan.json", "--join-messages", "auto", *asked, **given)
        ore("--replay", "a.json", "-m", "mistral", *asked, **given)
        assert [len(each.json["messages"]) for each in fake.chats[3:]] == [1, 1]


def test_another_answer_is_3_and_a_unified_diff(ore, folder):
    record(folder / "a.json", "hi", replies=["One.\nTwo."])
    result = ore("--replay", "a.json", replies=["One.\nThree."] * 2)
    assert (result.code, len(result.calls)) == (3, 2)
    assert result.out == (
        "--- a.json answer\n+++ replay answer\n@@ -1,2 +1,2 @@\n One.\n-Two.\n+Three.\n"
        "a.json\tdifferent\tanswer; messages rebuilt\n"
    )
    assert result.err == "ore: 1 of 1 run is not the same: see above.\n"


def test_a_server_that_gives_two_answers_when_asked_twice_is_not_repeatable(ore, folder):
    record(folder / "a.json", "hi", "-o", "temperature=0", replies=["One."])
    result = ore("--replay", "a.json", replies=["Two.", "Three."])
    assert (result.code, len(result.calls)) == (3, 2)
    assert rows(result.out) == {"a.json": ["not repeatable", "answer; messages rebuilt"]}
    assert result.err == "ore: 1 of 1 run has two answers when asked again: see above.\n"


@pytest.mark.parametrize("flags", [["-o", "seed=4"], ["--model", "second"]])
def test_what_was_changed_on_purpose_is_not_asked_twice(ore, folder, flags):
    record(folder / "a.json", "hi", replies=["One."])
    models = ("scripted", "second")
    result = ore("--replay", "a.json", *flags, replies=["Two.", "Three."], models=models)
    assert (result.code, len(result.calls)) == (3, 1)
    assert rows(result.out)["a.json"][0] == "different"


@pytest.mark.parametrize("cold, verdict", [("One.", "not repeatable"), ("Two.", "different")])
def test_a_server_whose_cache_makes_another_answer_is_not_repeatable(cold, verdict, ore, folder):
    said = iter(["One."])
    with FakeOllama(reply=lambda _: next(said, "Two." if server.ollama.loaded else cold)) as server:
        flags = ("--host", server.url)
        record(folder / "a.json", "hi", *flags, open_backend=open_backend)
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
        assert (result.code, rows(result.out)["a.json"][0]) == (3, verdict)
        asked = [
            (bool(chat.json["messages"]), chat.json.get("keep_alive")) for chat in server.chats
        ]
        third, after = [(False, 0), (True, None)], [(False, 0), (True, None), (True, None)]
        assert asked == [(True, None)] * 3 + third + (2 * after if cold == "Two." else [])


@pytest.mark.slow
def test_another_answer_of_a_newer_server_names_both_releases(ore, folder):
    with FakeOllama(reply="One.", version="0.13.5") as server:
        record(folder / "a.json", "hi", "--host", server.url, open_backend=open_backend)
    with FakeOllama(reply="Two.", version="0.33.0") as server:
        result = ore("--replay", "a.json", "--host", server.url, open_backend=open_backend)
    assert rows(result.out)["a.json"][0] == "different"
    assert "a.json: Then it was computed by ollama, 0.13.5, and now by ollama, 0.33.0" in result.err


def test_a_model_is_not_unloaded_for_each_run_of_many_that_are_different(ore, folder):
    said = iter(["One."] * 5)
    with FakeOllama(reply=lambda _: next(said, "Two.")) as server:
        flags = ("--host", server.url)
        for number in range(5):
            record(folder / f"{number}.json", "hi", *flags, open_backend=open_backend)
        result = ore("--replay", ".", *flags, open_backend=open_backend)
        assert [row[0] for row in rows(result.out).values()] == ["different"] * 5
        unloads = [chat for chat in server.chats if not chat.json["messages"]]
        assert (len(unloads), len(server.chats)) == (3 * 3, 5 + 2 * 5 + 8 * 3)


def test_a_cache_that_changes_an_answer_only_after_another_prompt_makes_it_not_repeatable(
    ore, folder
):
    texts = []

    def reply(request):
        texts.append(request["messages"][-1]["content"])
        is_after_another = len(texts) > 1 and texts[-2] not in ("", texts[-1])
        return "One." if is_after_another else "Two."

    with FakeOllama(reply=reply) as server:
        flags = ("--host", server.url)
        ore("Where is Rome?", *flags, open_backend=open_backend)
        record(folder / "a.json", "Where is Oslo?", *flags, open_backend=open_backend)
        texts.clear()  # the model was unloaded since
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
        assert (result.code, rows(result.out)["a.json"][0]) == (3, "not repeatable")
        assert texts == ["Where is Oslo?"] * 3 + ["Why?", "Where is Oslo?"]


@pytest.mark.parametrize(
    "owner, cold, after, verdict, sent",
    [
        ("llamacpp", "One.", "Two.", "not repeatable", [0, 0, 1]),
        ("llamacpp", "Two.", "One.", "not repeatable", [0, 0, 1, 1, 0]),
        ("llamacpp", "Two.", "Two.", "different", [0, 0, 1, 1, 0, 1, 0]),
        ("vllm", "One.", "One.", "different", [0, 0]),
    ],
)
def test_a_server_of_llama_cpp_is_asked_without_its_cache_and_after_another_prompt(
    owner, cold, after, verdict, sent, ore, folder
):
    asked = []

    def reply(request):
        asked.append(request)
        text = "Two."
        if "cache_prompt" in request:
            text = cold
        elif len(asked) > 1 and asked[-2]["messages"][-1] != request["messages"][-1]:
            text = after
        return [event(delta={"content": text}), event(delta={}, finish="stop"), DONE]

    with FakeOpenAI(("One.",), about={"owned_by": owner}) as server:
        flags = ("--backend", "openai", "--host", server.url)
        record(folder / "a.json", "Where is Oslo?", *flags, open_backend=open_backend)
        server.beside[CHAT] = reply
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
    assert (result.code, rows(result.out)["a.json"][0]) == (3, verdict)
    assert ["cache_prompt" in request for request in asked] == sent
    assert "/api/chat" not in [each.path for each in server.requests]  # it is no Ollama
    assert [request.get("max_tokens") for request in asked].count(1) == len(sent[3:]) // 2


def test_an_ollama_that_is_asked_over_the_openai_protocol_unloads_the_model(
    ore, folder, monkeypatch
):
    monkeypatch.setenv("OLLAMA_API_KEY", "not-of-this-server")
    loaded, unloads = ["small"], []

    def reply(_):
        text = "Two." if loaded else "One."
        loaded[:] = ["small"]
        return [event(delta={"content": text}), event(delta={}, finish="stop"), DONE]

    def unload(request):
        unloads.append(request)
        loaded.clear()
        return [
            whole({"model": "small", "message": {"role": "assistant", "content": ""}, "done": True})
        ]

    with FakeOpenAI(("One.",), about={"owned_by": "library"}) as server:
        flags = ("--backend", "openai", "--host", server.url)
        record(folder / "a.json", "Where is Oslo?", *flags, open_backend=open_backend)
        running = {"name": "small", "model": "small", "digest": "a" * 64}
        server.beside |= {CHAT: reply, "/api/chat": unload}
        server.beside["/api/ps"] = lambda _: [whole({"models": [running] if loaded else []})]
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
    assert (result.code, rows(result.out)["a.json"][0]) == (3, "not repeatable")
    assert [(each["messages"], each["keep_alive"]) for each in unloads] == [([], 0)]
    assert "not-of-this-server" not in repr([each.headers for each in server.requests])


@pytest.mark.parametrize("system, is_long", [("Be kind.", True), ("Be kind. " * 60, False)])
def test_a_cache_that_changes_an_answer_only_after_another_system_prompt_is_seen(
    ore, folder, system, is_long
):
    """What a cache keeps of a prompt was computed otherwise in a short one than in a long one."""
    systems = []

    def reply(request):
        if not request["messages"]:
            return ""
        systems.append(request["messages"][0]["content"])
        other = systems[-2] if len(systems) > 1 else systems[-1]
        return "One." if other != systems[-1] and (len(other) > 400) == is_long else "Two."

    with FakeOllama(reply=reply) as server:
        flags = ("--host", server.url)
        before = ("--system", "You rhyme. " * (50 if is_long else 1))
        ore("Where is Rome?", *before, *flags, open_backend=open_backend)
        asked = ("Where is Oslo?", "--system", system)
        record(folder / "a.json", *asked, *flags, "--artifact-full", open_backend=open_backend)
        systems.clear()  # the model was unloaded since
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
        assert (result.code, rows(result.out)["a.json"][0]) == (3, "not repeatable")
        assert [each == systems[0] for each in systems] == [True] * 5 + [False, True]


def test_no_more_than_a_token_of_another_prompt_is_waited_for(ore, folder):
    """A model that thinks may think long of it, or without an end, and says nothing meanwhile."""
    with FakeOllama(reply="Two.", thinking="Well.") as server:
        flags = ("--host", server.url, "-o", "seed=1")
        record(folder / "a.json", "hi", *flags, open_backend=open_backend)
        rewrite(folder / "a.json", lambda run: run["output"].update(content="One."))
        result = ore("--replay", "a.json", "--host", server.url, open_backend=open_backend)
        assert rows(result.out)["a.json"][0] == "different"
        asked = [(chat.json["messages"], chat.json.get("options")) for chat in server.chats]
        options = [given for sent, given in asked if sent and sent[-1]["content"] == "Why?"]
        assert options == [{"seed": 1, "num_predict": 1}] * 2


@pytest.mark.slow
def test_a_model_whose_cache_was_seen_to_change_an_answer_is_unloaded_for_the_next_runs(
    ore, folder
):
    said = iter(["One."] * 5)

    def reply(request):
        is_cold = request["messages"][-1]["content"] == "c" and not server.ollama.loaded
        return next(said, "One." if is_cold else "Two.")

    with FakeOllama(reply=reply) as server:
        flags = ("--host", server.url)
        for name in "abcde":
            record(folder / f"{name}.json", name, *flags, open_backend=open_backend)
        result = ore("--replay", ".", *flags, open_backend=open_backend)
        states = [row[0] for row in rows(result.out).values()]
        assert states == ["different"] * 2 + ["not repeatable"] + ["different"] * 2
        assert sum(not chat.json["messages"] for chat in server.chats) == 4 * 3 + 1


def test_the_runs_of_one_model_take_no_unload_of_another_ones(ore, folder):
    said = iter(["One."] * 4)

    def reply(request):
        is_cold = request["model"] == "llama3.2" and "llama3.2:latest" not in server.ollama.loaded
        return next(said, "One." if is_cold else "Two.")

    with FakeOllama(reply=reply) as server:
        for name in ("a", "b", "c", "d"):
            model = "llama3.2" if name == "d" else "mistral"
            flags = ("--host", server.url, "--model", model)
            record(folder / f"{name}.json", "hi", *flags, open_backend=open_backend)
        result = ore("--replay", ".", "--host", server.url, open_backend=open_backend)
    states = [row[0] for row in rows(result.out).values()]
    assert states == ["different"] * 3 + ["not repeatable"]


def test_a_model_that_can_not_be_loaded_again_is_still_compared(ore, folder):
    said = iter(["One."])
    with FakeOllama(reply=lambda _: next(said, "Two.")) as server:
        flags = ("--host", server.url)
        record(folder / "a.json", "hi", *flags, open_backend=open_backend)
        unload = server.ollama.note_end

        def gone(request, model):
            unload(request, model)
            if not request["messages"]:
                server.ollama.models = ()

        server.ollama.note_end = gone
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
        assert (result.code, rows(result.out)["a.json"][0]) == (3, "different")
        assert len(server.chats) == 5


@pytest.mark.slow
def test_a_model_that_stays_loaded_is_not_asked_a_third_time(ore, folder):
    said = iter(["One."])
    with FakeOllama(reply=lambda _: next(said, "Two.")) as server:
        flags = ("--host", server.url)
        record(folder / "a.json", "hi", *flags, open_backend=open_backend)
        server.ollama.note_end = lambda request, model: None  # somebody else is still using it
        result = ore("--replay", "a.json", *flags, open_backend=open_backend)
        assert (result.code, rows(result.out)["a.json"][0]) == (3, "different")
        assert [bool(chat.json["messages"]) for chat in server.chats] == [True] * 3 + [False]


@pytest.mark.parametrize("given, sent_again", [("0", 0.0), ("5m", "5m"), ("-1", -1.0)])
def test_how_long_the_model_is_kept_is_sent_again(given, sent_again, ore, folder):
    with FakeOllama() as server:
        flags = ("--host", server.url, "--keep-alive", given)
        record(folder / "a.json", "hi", *flags, open_backend=open_backend)
        result = ore("--replay", "a.json", "--host", server.url, open_backend=open_backend)
        assert result.code == 0
        assert [chat.json["keep_alive"] for chat in server.chats] == [sent_again] * 2


@pytest.mark.parametrize("changed, asked", [((), True), (("-m", "mistral"), None)])
def test_log_probabilities_are_asked_for_again_where_the_run_has_some(changed, asked, ore, folder):
    with FakeOllama() as server:
        flags = ("--host", server.url)
        record(folder / "a.json", "hi", *flags, "--logprobs", open_backend=open_backend)
        record(folder / "b.json", "hi", *flags, open_backend=open_backend)
        ore("--replay", "a.json", "b.json", *flags, *changed, open_backend=open_backend)
        assert [each.json.get("logprobs") for each in server.chats] == [True, None, asked, None]


@pytest.mark.parametrize("kept", ["soon", [5], {}])
def test_a_keep_alive_that_is_none_is_refused(kept, ore, folder):
    record(folder / "a.json", "hi")
    rewrite(
        folder / "a.json", lambda document: document["output"]["metadata"].update(keep_alive=kept)
    )
    result = ore("--replay", "a.json")
    assert (result.code, result.calls) == (3, [])
    assert "keep_alive can't be used" in result.out


def test_an_edited_persona_is_seen_where_messages_are_rebuilt_and_only_there(ore, folder, persona):
    record(folder / "a.json", "hi", "--persona", "poet")
    record(folder / "b.json", "hi", "--persona", "poet", "--artifact-full")
    persona.write_text("You are someone else.")
    result = ore("--replay", "a.json", "b.json", replies=["Paris.", "Paris."])
    assert result.code == 3
    assert rows(result.out)["a.json"] == ["different", "messages; messages rebuilt"]
    assert rows(result.out)["b.json"] == ["same", "messages embedded"]
    assert "-persona sha256:" in result.out and "prompt sha256:" in result.out
    assert [call[0].content for call in result.calls] == ["You are someone else.", "You rhyme."]


def test_a_rebuilt_prompt_keeps_the_source_that_was_recorded(ore, folder, persona):
    record(folder / "a.json", "--persona", "poet", stdin="hi")
    persona.write_text("You are someone else.")
    result = ore("--replay", "a.json")
    assert result.code == 3
    assert " stdin sha256:" in result.out and "prompt sha256:" not in result.out


@pytest.mark.parametrize(
    "flags, system",
    [
        (["--no-system"], None),
        (["--persona", "poet"], "You rhyme."),
        (["--system", "Rhyme."], "Rhyme."),
        (["--skill", "writing"], "[Skill:writing]\nBe brief."),
    ],
)
def test_what_the_run_was_given_is_given_again(ore, folder, writing, persona, flags, system):
    record(folder / "a.json", "hi", *flags)
    result = ore("--replay", "a.json")
    assert (result.code, result.out) == (0, "a.json\tsame\tmessages rebuilt\n")
    texts = [content for role, content in sent(result) if role == "system"]
    assert texts[-1:] == ([] if system is None else [system])


@pytest.mark.parametrize(
    "flags, asked, purpose",
    [
        (["--model", "b"], {"seed": 3}, "on purpose: model a -> b"),
        (["-o", "seed=4"], {"seed": 4}, "on purpose: options seed=4"),
        (["-o", "top_k=1"], {"seed": 3, "top_k": 1}, "on purpose: options top_k=1"),
    ],
)
def test_what_was_changed_on_purpose_is_reported_and_is_not_a_difference(
    ore, folder, flags, asked, purpose
):
    record(folder / "a.json", "hi", "--model", "a", "-o", "seed=3", models=("a", "b"))
    result = ore("--replay", "a.json", *flags, models=("a", "b"))
    assert result.backend.settings.options == asked
    assert (result.code, result.out) == (0, f"a.json\tsame\tmessages rebuilt; {purpose}\n")
    result = ore("--replay", "a.json", *flags, models=("a", "b"), replies=["Other."])
    assert result.code == 3 and rows(result.out)["a.json"][1].startswith("answer; ")
    assert purpose in result.out


def test_several_artifacts_show_progress_and_end_in_a_table(ore, folder):
    for number in range(3):
        record(folder / f"{number}.json", f"ask {number}", replies=[f"answer {number}"])
    replies = ["answer 0", "other", "other", "answer 2"]
    result = ore("--replay", "0.json", "1.json", "2.json", replies=replies)
    assert result.code == 3
    assert result.err.splitlines()[:3] == ["1 of 3: 0.json", "2 of 3: 1.json", "3 of 3: 2.json"]
    assert [row[0] for row in rows(result.out).values()] == ["same", "different", "same"]
    assert ore("-q", "--replay", "0.json", replies=["answer 0"]).err == ""


def spoil(change):
    return lambda document: change(document["provenance"])


@pytest.mark.parametrize(
    "args, change, why",
    [
        (["hi", "--tool", "echo"], None, "what its tools returned is not in it"),
        (
            ["hi", "--system", "Rhyme.", "--artifact-hashes-only"],
            None,
            "its system prompt is not in it",
        ),
        (
            ["hi", "--system", "Rhyme."],
            spoil(lambda p: p.update(system_prompt="Lie.")),
            "provenance.system_prompt does not fit its hash",
        ),
        (
            ["hi", "--artifact-full"],
            spoil(lambda p: p["messages"][-1].update(content="Lie.")),
            "the messages in it are not those that their hash says",
        ),
        (["hi"], lambda d: d["output"]["metadata"].update(images=["x"]), "images"),
        (["hi"], lambda d: d["input"].update(skills=["nope"]), "no skill 'nope'"),
        (["hi"], lambda d: d["input"].update(skills=[""]), "no skill ''"),
        (["hi"], lambda d: d["input"].update(model_id="/etc/x.GGUF"), "a file as its model"),
        (["hi"], lambda d: d["input"].update(model_id=" "), "does not name a model"),
        (["hi"], spoil(lambda p: p.update(persona="../x")), "persona"),
        (["hi"], spoil(lambda p: p.update(options=3)), "options"),
        (["hi"], spoil(lambda p: p.update(options={"exec": "rm"})), "no option 'exec'"),
        (["hi"], spoil(lambda p: p.update(options={"seed": [1]})), "be a whole number, not list"),
        (["hi"], spoil(lambda p: p.update(options={"seed": "1"})), "be a whole number, not str"),
        (["hi"], spoil(lambda p: p.update(options={"seed": 10**30})), "seed"),
        (["hi"], spoil(lambda p: p.update(options={"think": ["x"]})), "think"),
        (["hi"], spoil(lambda p: p.update(options={"format": "x"})), "format"),
        (["hi"], spoil(lambda p: p.update(messages=[])), "empty"),
        (["hi"], spoil(lambda p: p.update(messages="x")), "not a list of messages"),
        (
            ["hi"],
            spoil(lambda p: p.update(messages=[{"role": "root", "content": "x"}])),
            "not a list",
        ),
        (
            ["hi"],
            spoil(lambda p: p.update(messages=[{"role": "user", "content": 3}])),
            "not a list",
        ),
        (["hi"], lambda d: d.update(execution_id="x"), "execution_id"),
    ],
)
def test_what_cannot_be_run_again_is_reported_and_the_others_are_run(
    ore, folder, args, change, why
):
    record(folder / "a.json", *args)
    record(folder / "b.json", "hi")
    if change:
        rewrite(folder / "a.json", change)
    result = ore("--replay", "a.json", "missing.json", "b.json")
    found = rows(result.out)
    assert result.code == 3 and len(result.calls) == 1
    assert "ore: 2 of 3 runs could not be repeated: see above.\n" in result.err
    assert found["a.json"][0] == found["missing.json"][0] == "not run"
    assert why in found["a.json"][1] and found["b.json"][0] == "same"


@pytest.mark.slow
def test_a_recorded_schema_of_countless_values_takes_no_long(ore, folder):
    countless = "[" + ("[" * 58 + "]" * 58 + ",") * 130_000 + "0]"
    record(folder / "a.json", "hi")
    rewrite(folder / "a.json", spoil(lambda p: p.update(options={"format": countless})))
    began = time.process_time()
    result = ore("--replay", "a.json")
    assert (result.code, "'format' is not a JSON Schema" in result.out) == (3, True)
    assert time.process_time() - began < 4


def test_a_skill_that_an_artifact_names_twice_is_sent_once(ore, folder, writing):
    record(folder / "a.json", "hi", "--no-system", "--skill", "writing")
    rewrite(folder / "a.json", lambda d: d["input"].update(skills=["writing"] * 3))
    result = ore("--replay", "a.json")
    assert (result.code, result.out) == (0, "a.json\tsame\tmessages rebuilt\n")
    assert sent(result) == [("system", "[Skill:writing]\nBe brief."), ("user", "hi")]


def test_tools_are_never_run_again_their_results_are_in_a_full_artifact(ore, folder):
    record(folder / "a.json", "hi", "--tool", "echo", "--tool-arg", "a=1", "--artifact-full")
    result = ore("--replay", "a.json")
    assert (result.code, result.out) == (0, "a.json\tsame\tmessages embedded\n")
    assert sent(result)[1] == ("user", "[Tool:echo]\na=1")


def test_an_artifact_without_provenance_is_run_with_what_it_has(ore, folder):
    old = json.loads(json.dumps(GOOD))
    old["input"].update(tools=None, skills=None, model_id="scripted")
    Path("old.json").write_text(json.dumps(old))
    result = ore("--replay", "old.json", replies=["Rayleigh."])
    assert result.code == 0 and "not known: options, messages" in result.out


@pytest.mark.parametrize("kind", [ServerUnreachableError, BackendTimeoutError])
def test_a_failing_backend_is_1_and_what_was_done_is_shown(ore, folder, kind):
    for name in "ab":
        record(folder / f"{name}.json", "hi")
    result = ore("--replay", "a.json", "b.json", replies=["Paris.", kind("It is down.")])
    assert result.code == 1 and result.out == "a.json\tsame\tmessages rebuilt\n"
    assert result.err.endswith("ore: It is down.\n")


@pytest.mark.parametrize(
    "error",
    [
        TurnRefusedError("It was refused."),
        TurnTookLongError("It took longer than its deadline allows."),
        BackendTimeoutError("The server was still writing.", partial="Par"),
    ],
    ids=["refused", "late", "late in an answer"],
)
def test_a_turn_that_fails_by_itself_is_one_run_s_fault_and_the_next_is_asked(ore, folder, error):
    for name in "ab":
        record(folder / f"{name}.json", "hi")
    result = ore("--replay", "a.json", "b.json", replies=[error, "Paris."])
    assert result.code == 3 and rows(result.out)["b.json"][0] == "same"
    assert rows(result.out)["a.json"] == ["not run", str(error)]


def test_what_a_named_model_can_not_do_is_the_fault_of_the_run_that_asks_for_it(ore, folder):
    for name in "ab":
        record(folder / f"{name}.json", "hi")
    replies = [CapabilityError("It can't think."), "Paris."]
    result = ore("--replay", "a.json", "b.json", "--model", "scripted", replies=replies)
    found = rows(result.out)
    assert result.code == 3 and found["a.json"] == ["not run", "It can't think."]
    assert found["b.json"][0] == "same"


@pytest.mark.parametrize(
    "flags, made_with, said",
    [
        (["-o", "top_k=5"], "ollama", "'top_k' can't be asked of the backend openai: ask the one"),
        (["--think", "on"], "ollama", "'think' can't be asked of the backend openai: ask the one"),
        (["-o", "top_k=5"], "other", "'top_k' can't be asked of the backend openai\n"),
        (["-o", "top_k=5"], "openai", "'top_k' can't be asked of the backend openai\n"),
    ],
)
def test_an_option_of_the_run_s_own_that_is_not_there_is_not_to_be_left_out(
    flags, made_with, said, ore, folder
):
    able = ("completion", "thinking")
    with FakeOllama(capabilities=able) as ollama, FakeOpenAI(serves_any=True) as server:
        at = ("--host", ollama.url)
        record(folder / "a.json", "hi", *flags, *at, open_backend=open_backend)
        rewrite(folder / "a.json", lambda d: d["provenance"].update(backend=made_with))
        again = ["--replay", "a.json", "--backend"]
        result = ore(*again, "openai", "--host", server.url, open_backend=open_backend)
        assert result.code == 3 and f"\tnot run\tits option {said}" in result.out
        assert "leave" not in result.out and not server.chats
        if made_with == "ollama":
            assert result.out.endswith(" that made it, with --backend ollama\n")
            assert ore(*again, made_with, *at, open_backend=open_backend).code == 0


def test_an_option_of_the_user_s_own_that_is_not_there_is_to_be_left_out(ore, folder):
    with FakeOpenAI() as server:
        at = ("--backend", "openai", "--host", server.url)
        record(folder / "a.json", "hi", *at, open_backend=open_backend)
        result = ore("--replay", "a.json", "-o", "top_k=5", *at, open_backend=open_backend)
        assert (result.code, "leave it out" in result.out) == (3, True)


def test_a_missing_model_is_the_fault_of_the_artifact_unless_it_was_named(ore, folder):
    record(folder / "a.json", "hi", "--model", "gone", models=("gone",))
    record(folder / "b.json", "hi")
    result = ore("--replay", "a.json", "b.json")
    assert result.code == 3 and rows(result.out)["b.json"][0] == "same"
    assert rows(result.out)["a.json"] == ["not run", "There is no model 'gone'."]
    assert ore("--replay", "b.json", "--model", "gone").code == 1


def test_a_backend_that_cannot_be_opened_is_reported_as_usual(ore, folder, monkeypatch):
    record(folder / "a.json", "hi")
    monkeypatch.setenv("ORE_BACKEND", "nope")
    result = ore("--replay", "a.json", open_backend=open_backend)
    assert result.code == 2 and "ORE_BACKEND" in result.err


def test_a_lone_surrogate_in_embedded_messages_is_one_line(ore, folder, monkeypatch):
    record(folder / "a.json", "hi", "--artifact-full", "--model", "mistral", models=("mistral",))
    rewrite(folder / "a.json", lambda d: d["provenance"]["messages"][0].update(content="\ud800"))
    with FakeOllama() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        result = ore("--replay", "a.json", open_backend=open_backend)
        assert result.code == 3 and rows(result.out)["a.json"][0] == "not run"
        assert fake.chats == []


def test_a_schema_is_asked_with_again(ore, folder):
    pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    record(folder / "a.json", "hi", "--schema", '{"type": "string"}', replies=['"Paris."'])
    result = ore("--replay", "a.json", replies=['"Paris."'])
    assert (result.code, result.backend.settings.format) == (0, {"type": "string"})


def test_json_names_what_differs(ore, folder):
    record(folder / "a.json", "hi")
    result = ore("--replay", "a.json", "--json", replies=["No.", "No."])
    assert result.code == 3
    assert result.json == [
        {
            "path": "a.json",
            "state": "different",
            "messages": "rebuilt",
            "differences": [{"name": "answer", "old": "Paris.", "new": "No."}],
            "on_purpose": [],
            "unknown": [],
            "reason": None,
            "expectation": None,
        }
    ]


def test_another_model_under_the_same_name_is_seen(ore, folder, monkeypatch):
    with FakeOllama() as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        ore("hi", "--model", "mistral", "--artifact-out", "a.json", open_backend=open_backend)
        assert ore("--replay", "a.json", open_backend=open_backend).code == 0
        rewrite(folder / "a.json", lambda d: d["provenance"].update(model_digest="0" * 64))
        result = ore("--replay", "a.json", open_backend=open_backend)
        assert result.code == 3 and "different\tmodel changed; model_digest; messages" in result.out
        assert f"-{'0' * 64}\n+" in result.out
        assert fake.chats[1].json == fake.chats[0].json


def test_the_backend_of_an_artifact_is_used_unless_the_user_names_one(ore, folder, monkeypatch):
    opened = []

    def opening(wanted, *rest):
        opened.append(wanted.backend)
        return ScriptedBackend(["Paris."])

    from tests.support.harness import ScriptedBackend

    record(folder / "a.json", "hi")
    for recorded, flags, expected in (
        ("embedded", [], "embedded"),
        ("embedded", ["--backend", "ollama"], "ollama"),
        ("embedded", ["--host", "x"], None),
        ("elsewhere", [], None),
        ("embedded", ["--model", "scripted"], None),
    ):
        rewrite(folder / "a.json", lambda d, name=recorded: d["provenance"].update(backend=name))
        assert ore("--replay", "a.json", *flags, open_backend=opening).code == 0
        assert opened.pop() == expected
    monkeypatch.setenv("ORE_BACKEND", "ollama")
    ore("--replay", "a.json", open_backend=opening)
    assert opened == [None]


@pytest.mark.parametrize("other", [["hi"], ["-c"], ["--tool", "echo"], ["--artifact-out=x"]])
def test_replay_takes_no_prompt_mode_tool_or_artifact_out(ore, other):
    assert ore(*other, "--replay", "a.json").code == 2


def test_a_persona_that_is_not_here_is_taken_from_the_artifact(ore, folder, persona):
    record(folder / "a.json", "hi", "--persona", "poet")
    record(folder / "b.json", "hi", "--persona", "poet", "--artifact-hashes-only")
    persona.unlink()
    result = ore("--replay", "a.json", "b.json")
    assert result.code == 3 and sent(result)[0] == ("system", "You rhyme.")
    assert rows(result.out)["a.json"] == ["same", "messages rebuilt"]
    assert rows(result.out)["b.json"][0] == "not run"
    assert "without --artifact-hashes-only" in rows(result.out)["b.json"][1]
    assert "The persona poet is not here: the text in the artifact is used." in result.err


def test_a_folder_has_a_bar_or_a_line_a_minute_and_no_line_for_each_run(ore, folder):
    (folder / "runs").mkdir()
    for name in "abc":
        record(folder / f"runs/{name}.json", "hi")
    result = ore("--replay", "runs", terminal="err", replies=["Paris."] * 3)
    assert result.code == 0 and "0 of 3 run again\r" in result.err
    assert "a.json" not in result.err and len(rows(result.out)) == 3
    result = ore("--replay", "runs/", replies=["Paris."] * 3)
    assert (result.code, result.err) == (0, "0 of 3 run again.\n")


def test_in_a_folder_the_artifact_that_a_run_went_on_from_is_found(ore, folder):
    (folder / "runs").mkdir()
    record(folder / "runs/a.json", "hi")
    record(folder / "runs/b.json", "and?", "--after", "runs/a.json")
    result = ore("--replay", "runs", replies=["Paris."] * 2)
    assert result.code == 0, result.out


def test_what_was_done_is_whole_json_where_the_backend_fails(ore, folder):
    for name in "ab":
        record(folder / f"{name}.json", "hi")
    down = ServerUnreachableError("It is down.")
    result = ore("--replay", "a.json", "b.json", "--json", replies=["Paris.", down])
    assert result.code == 1 and [each["path"] for each in result.json] == ["a.json"]


def test_nothing_is_shown_in_the_middle_of_json_on_a_terminal(ore, folder):
    for name in "ab":
        record(folder / f"{name}.json", "hi")
    result = ore(
        "--replay", "a.json", "b.json", "--json", terminal="out err", replies=["Paris."] * 2
    )
    assert result.err == "" and len(result.json) == 2
