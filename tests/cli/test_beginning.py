"""A session goes on as it was begun, says so, and leaves everything as it was where it can't."""

from __future__ import annotations

import json
import shutil

import pytest

from ore.cli.beginning import beginning_of
from ore.cli.options import Options
from ore.cli.prompt import Asked
from ore.core import load_aya_system_prompt
from ore.store import Beginning, FileSessionStore
from ore.types import Session
from tests.support.harness import ScriptedBackend

MODELS = {"models": ("scripted", "second")}
FLAGS = ("-m", "second", "--persona", "critic", "-o", "temperature=0", "-o", "seed=7")
SAID = "goes on as it was begun: the model second, the persona 'critic', temperature=0, seed=7."


@pytest.fixture
def begun(ore, home):
    """A session ``trip`` that was begun with another model, a persona and options."""
    folder = home / ".ore/personas"
    folder.mkdir(parents=True)
    (folder / "critic.md").write_text("Find the flaw.")
    assert ore("--session", "trip", "Where?", *FLAGS, **MODELS).err == ""
    return home / ".ore/sessions"


def system_of(result) -> list[str]:
    return [message.content for message in result.calls[0] if message.role == "system"]


def snapshot(folder) -> dict[str, bytes]:
    files = (each for each in folder.iterdir() if not each.name.startswith("."))
    return {each.name: each.read_bytes() for each in files}


def test_it_is_beside_the_session_and_not_in_it(begun):
    meta = json.loads((begun / "trip.meta.json").read_text())
    session = json.loads((begun / "trip.json").read_text())
    assert meta == {
        "id": session["id"],
        "backend": "scripted",
        "model": "second",
        "persona": "critic",
        "system": None,
        "options": ["temperature=0", "seed=7"],
    }
    assert list(session) == ["id", "created_at", "messages"]


@pytest.mark.parametrize(
    "flags",
    [
        ["--session", "trip"],
        ["-C"],
        ["--resume-session", "trip"],
        ["--resume-session", "trip", "--save-session", "trip"],
        ["--resume-session", "trip", "--save-session", "fork"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("is_repl", [False, True])
def test_a_session_goes_on_as_it_was_begun_and_says_so(ore, begun, flags, is_repl):
    before = snapshot(begun)["trip.meta.json"]
    more = {"stdin": "And?\n"} if is_repl else {}
    result = ore(*flags, *([] if is_repl else ["And?"]), **more, **MODELS)
    assert result.code == 0 and result.err.count(f"'trip' {SAID}") == 1
    assert system_of(result) == ["Find the flaw."]
    assert result.backend.engine.model_id == "second"
    assert result.backend.settings.options == {"temperature": 0.0, "seed": 7}
    assert snapshot(begun)["trip.meta.json"] == before
    if "fork" in flags:
        fork = json.loads((begun / "fork.json").read_text())
        kept = json.loads((begun / "fork.meta.json").read_text())
        assert kept == json.loads(before) | {"id": fork["id"]}


@pytest.mark.parametrize(
    "flags, label",
    [([], "[CRITIC]: "), (["--no-system"], "[ANSWER]: "), (["-m", "scripted"], "[CRITIC]: ")],
)
def test_the_label_is_that_of_the_persona_it_was_begun_with(ore, begun, flags, label):
    assert ore("-S", "trip", "And?", *flags, terminal="out", **MODELS).out == f"{label}Paris.\n"


def test_quiet_goes_on_as_it_was_begun_too(ore, begun):
    result = ore("-S", "trip", "And?", "-q", **MODELS)
    assert result.err == "" and system_of(result) == ["Find the flaw."]


@pytest.mark.parametrize(
    "flags, said, system, model, options",
    [
        (["-m", "scripted"], "the persona 'critic', temperature=0", 1, "scripted", {"seed": 7}),
        (["--system", "Mine."], "the model second, temperature=0", "Mine.", "second", {"seed": 7}),
        (["--no-system"], "the model second, temperature=0, seed=7", None, "second", {"seed": 7}),
        (["--persona", "aya"], "the model second, temperature=0", 0, "second", {"seed": 7}),
        (["-o", "seed=1"], "the model second, the persona 'critic'.", 1, "second", {"seed": 1}),
    ],
)
def test_a_flag_takes_the_place_of_what_was_begun_with(
    ore, begun, flags, said, system, model, options
):
    before = snapshot(begun)["trip.meta.json"]
    result = ore("-S", "trip", "And?", *flags, **MODELS)
    known = {0: load_aya_system_prompt(), 1: "Find the flaw."}
    assert f"begun: {said}" in result.err
    assert system_of(result) == ([] if system is None else [known.get(system, system)])
    assert result.backend.engine.model_id == model
    assert result.backend.settings.options.items() >= options.items()
    assert snapshot(begun)["trip.meta.json"] == before, "it is how the session was begun"


@pytest.mark.parametrize(
    "flags, sent",
    [
        (["--system", "Be brief."], ["Be brief."]),
        (["--no-system"], []),
        (["--system", "@f"], ["@x"]),
    ],
)
def test_a_system_prompt_is_remembered_as_its_text(ore, folder, home, flags, sent):
    (folder / "f").write_text("@x\n")
    (folder / "x").write_text("No file that a text names is read.")
    ore("-S", "trip", "Where?", *flags)
    (folder / "f").unlink()
    result = ore("-S", "trip", "And?", "--dry-run")
    messages = result.json["messages"]
    assert [each["content"] for each in messages if each["role"] == "system"] == sent
    assert [each["source"] for each in messages if each["role"] == "system"] == ["system"] * len(
        sent
    )


def test_a_session_without_what_it_was_begun_with_goes_on_without_a_word(ore, begun):
    (begun / "trip.meta.json").unlink()
    result = ore("-S", "trip", "And?", **MODELS)
    assert (result.code, result.err) == (0, "") and result.backend.engine.model_id == "scripted"
    assert not (begun / "trip.meta.json").exists(), "it was not begun now"


@pytest.mark.invariant
@pytest.mark.parametrize(
    "change, said",
    [
        ({"id": "other"}, "belongs to another session: move trip.meta.json in"),
        ({"options": ["temperature=hot"]}, "temperature"),
        ({"options": ["--tool=x"]}, "can't be used"),
        ({"persona": "gone"}, "There is no persona 'gone'"),
        ({"persona": "gone"}, "--persona, --system and --no-system choose another"),
        (
            {"model": "weights.gguf"},
            "begun with the model in the file weights.gguf: name it yourself",
        ),
        ({"model": "gone"}, "There is no model 'gone'"),
        ({"persona": "../../etc"}, "its persona is not a name"),
        ({"persona": "\x1b[2J"}, "its persona is not a name"),
        ({"more": 1}, "the key 'more', which ORE does not write"),
        (b"\xff", "it is not UTF-8"),
    ],
    ids=str,
)
def test_what_can_not_be_used_is_a_sentence_and_everything_stays(ore, folder, begun, change, said):
    (folder / "weights.gguf").write_bytes(b"GGUF")
    path = begun / "trip.meta.json"
    kept = json.loads(path.read_text())
    path.write_bytes(change if isinstance(change, bytes) else json.dumps(kept | change).encode())
    before = snapshot(begun)
    result = ore("-S", "trip", "And?", **MODELS)
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert said in result.err and "\x1b" not in result.err and "Traceback" not in result.err
    assert snapshot(begun) == before
    for flags in (["--list-sessions"], ["--export-session", "trip"], ["--show-session", "trip"]):
        assert ore(*flags).code == 0
    assert ore("--rename-session", "trip", "tour").code == 0
    assert (begun / "tour.meta.json").read_bytes() == before["trip.meta.json"]


@pytest.mark.parametrize(
    "flags, environ, begun_on, code, model, backend",
    [
        ([], {}, "ollama", 0, "second", "ollama"),
        ([], {}, "embedded", 0, "second", "embedded"),
        ([], {}, "openai", 1, None, None),
        ([], {}, "elsewhere", 0, "second", None),
        ([], {"ORE_BACKEND": "auto"}, "embedded", 0, "second", "embedded"),
        ([], {"ORE_BACKEND": "ollama"}, "ollama", 0, "second", None),
        ([], {"ORE_BACKEND": "ollama"}, "embedded", 0, "scripted", None),
        (["--backend", "openai"], {}, "openai", 0, "second", "openai"),
        (["--backend", "embedded"], {}, "ollama", 0, "scripted", "embedded"),
        (["--host", "127.0.0.1:9"], {}, "ollama", 0, "second", None),
        (["-m", "scripted"], {}, "openai", 0, "scripted", None),
    ],
)
def test_a_model_is_asked_where_it_was_unless_another_place_is_named(
    ore, begun, monkeypatch, flags, environ, begun_on, code, model, backend
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    path = begun / "trip.meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"backend": begun_on}))
    seen = []
    made = ScriptedBackend(["Paris."], ["scripted", "second"])

    def open_backend(wanted, *_):
        seen.append(wanted.backend)
        return made

    result = ore("-S", "trip", "And?", *flags, open_backend=open_backend)
    assert result.code == code and seen == ([] if code else [backend])
    assert ("say --backend openai, or name another model" in result.err) == bool(code)
    assert code or made.engine.model_id == model


@pytest.mark.parametrize("flags", [["--backend", "openai"], []])
def test_an_openai_server_is_asked_by_a_name_that_is_a_path_of_this_machine(
    ore, folder, begun, flags
):
    (folder / "weights.gguf").write_bytes(
        b"GGUF"
    )  # llama.cpp's server is called by its model's path
    path = begun / "trip.meta.json"
    about = {"backend": "openai", "model": str(folder / "weights.gguf")}
    path.write_text(json.dumps(json.loads(path.read_text()) | about))
    made = ScriptedBackend(["Paris."], ["scripted", about["model"]])
    result = ore("-S", "trip", "And?", *flags, open_backend=lambda *_: made)
    assert result.code == (0 if flags else 1)
    if flags:
        assert made.engine.model_id == about["model"]
    else:
        assert "of an openai server: say --backend openai" in result.err


def test_a_model_that_is_a_file_is_remembered_by_its_whole_path(folder):
    (folder / "x.gguf").write_bytes(b"GGUF")
    backend = ScriptedBackend()
    backend.name = "embedded"
    kept = beginning_of(Options(), Asked(None, None), backend, "x.gguf", Session(id="1"))
    assert kept == Beginning("1", "embedded", str(folder / "x.gguf"))


def test_what_is_said_of_it_is_bounded(ore, begun):
    path = begun / "trip.meta.json"
    kept = {"model": "m" * 1_000_000, "options": ["stop=" + "s" * 1000] * 1000}
    path.write_text(json.dumps(json.loads(path.read_text()) | kept))
    assert len(ore("--show-session", "trip").out) < 2_000
    assert len(ore("-S", "trip", "And?", "-m", "scripted").err) < 2_000


def test_showing_and_exporting_say_what_it_was_begun_with(ore, begun):
    said = "with the model second, the persona 'critic', temperature=0, seed=7"
    assert said in ore("--show-session", "trip").out.splitlines()[0]
    assert said in ore("--export-session", "trip").out.splitlines()[2]
    ore("-S", "other", "Where?", "--system", "Be brief.")
    assert "\n\n## System prompt\n\nBe brief.\n\n## You\n" in ore("--export-session", "other").out


@pytest.mark.parametrize("flags", [("--session", "trip"), ("--session", "new", *FLAGS)])
def test_it_is_kept_again_where_the_folder_goes_away_in_a_conversation(ore, home, begun, flags):
    def delete_everything(_):
        assert list(begun.glob(f"{flags[1]}.meta.json"))
        shutil.rmtree(begun)
        return "2"

    assert ore(*flags, stdin="a\nb\n", replies=["1", delete_everything], **MODELS).code == 0
    assert SAID in ore("--session", flags[1], "c", **MODELS).err


@pytest.mark.parametrize("left", [None, b"{", b'{"id": "other", "model": "gone"}'])
def test_what_a_session_that_is_gone_has_left_is_not_used(ore, begun, left):
    (begun / "trip.json").unlink()
    if left is not None:
        (begun / "trip.meta.json").write_bytes(left)
    result = ore("-S", "trip", "Where?", **MODELS)
    assert (result.code, result.backend.engine.model_id) == (0, "scripted")
    assert ("is not kept, but its turns are" in result.err) == (left == b"{")
    if left != b"{":
        assert json.loads((begun / "trip.meta.json").read_text())["model"] == "scripted"


def test_a_turn_that_failed_begins_nothing(ore, home):
    assert ore("-S", "trip", "Where?", models=()).code == 1
    assert not list((home / ".ore/sessions").glob("trip*"))


def test_save_keeps_a_conversation_that_was_begun_in_memory(ore, home, begun):
    lines = "one\n/save tour\ntwo\n/save other\n"
    result = ore("-c", *FLAGS, stdin=lines, replies=["1", "2"], terminal="in out err", **MODELS)
    assert result.code == 0 and "Saved as 'tour', and so is each turn that follows." in result.err
    assert "is saved as 'tour' already" in result.err
    session = FileSessionStore().load("tour")
    assert [message.content for message in session.messages] == ["one", "1", "two", "2"]
    kept = FileSessionStore().beginning("tour")
    assert kept is not None and (kept.id, kept.model, kept.persona) == (
        session.id,
        "second",
        "critic",
    )
    assert FileSessionStore().list() == ["tour", "trip"]


@pytest.mark.parametrize(
    "flags, line, said",
    [
        (["-c"], "/save", "/save needs a name"),
        (["-c"], "/save trip", "There is a session 'trip' already"),
        (["-c"], "/save a/b", "can't be a session's name"),
        (["-i"], "/save tour", "Every turn is on its own here"),
        (["-S", "trip"], "/save tour", "is saved as 'trip' already: to fork it"),
    ],
)
def test_save_that_can_not_be_done_leaves_everything_as_it_was(ore, begun, flags, line, said):
    before = snapshot(begun)
    result = ore(*flags, stdin=f"{line}\n", terminal="in out err", **MODELS)
    assert said in result.err and snapshot(begun) == before


def test_save_before_the_first_turn_begins_with_it(ore, begun):
    result = ore("-c", stdin="/save tour\none\n", terminal="in out err")
    assert result.code == 0 and len(FileSessionStore().load("tour").messages) == 2
    assert FileSessionStore().beginning("tour").model == "scripted"


def test_save_of_a_session_that_was_resumed_alone_is_a_fork(ore, begun):
    result = ore(
        "--resume-session", "trip", stdin="two\n/save fork\n", terminal="in out err", **MODELS
    )
    store = FileSessionStore()
    assert result.code == 0 and len(store.load("trip").messages) == 2
    fork = store.load("fork")
    assert len(fork.messages) == 4 and fork.id != store.load("trip").id
    assert store.beginning("fork").persona == "critic" and store.beginning("fork").id == fork.id


def test_save_of_what_can_not_be_saved_under_its_own_name_is_a_fork(ore, begun):
    file = begun / "trip.json"
    edited = file.read_text().replace("Where?", "When?")

    def edit(_):
        file.write_text(edited)
        return "2"

    lines, then = "two\n/show\n/save fork\nthree\n/show\n", ["3"]
    result = ore("-S", "trip", stdin=lines, replies=[edit, *then], terminal="in out err", **MODELS)
    assert "where the last turns are not saved" in result.err
    assert "Saved as 'fork'" in result.err and "fork, saved after each turn" in result.err
    store, fork = FileSessionStore(), FileSessionStore().load("fork")
    assert result.code == 0 and file.read_text() == edited
    assert [message.content for message in fork.messages][2:] == ["two", "2", "three", "3"]
    assert fork.id != store.load("trip").id and store.beginning("fork").id == fork.id
    assert ore("-S", "fork", "four", **MODELS).code == 0


def test_save_under_its_own_name_tries_again(ore, begun):
    file = begun / "trip.json"

    def block(_):
        file.unlink()
        file.mkdir()
        return "2"

    lines = {"stdin": "two\n/save trip\n", "terminal": "in out err"}
    result = ore("-S", "trip", replies=[block], **lines, **MODELS)
    assert result.code == 1 and result.err.count("it is not a regular file") == 3  # and at the end
    assert "in use" not in result.err


@pytest.mark.slow
def test_save_of_what_was_begun_here_is_a_fork_with_all_that_is_noted(ore, home, tmp_path):
    file = home / ".ore/sessions/new.json"

    def edit(_):
        file.write_text(file.read_text().replace("one", "uno"))
        return "2"

    lines = "one\ntwo\n/save fork\nthree\n"
    replies, runs = ["1", edit, "3"], ("--runs", str(tmp_path / "runs"))
    result = ore("-S", "new", *runs, stdin=lines, replies=replies, terminal="in out err", **MODELS)
    store, answers = FileSessionStore(), FileSessionStore().load("fork").messages[1::2]
    assert result.code == 0 and store.load("fork").id != store.load("new").id
    assert list(store.runs("fork")) == [answer.id for answer in answers] and len(answers) == 3


def test_save_under_its_own_name_tries_again_however_its_accents_are_typed(ore, home):
    def block(_):
        (home / ".ore/sessions/caf\u00e9.json").mkdir()
        return "1"

    lines = {"stdin": "one\n/save cafe\u0301\n", "terminal": "in out err"}
    result = ore("-S", "caf\u00e9", replies=[block], **lines, **MODELS)
    assert result.err.count("it is not a regular file") == 3 and "in use" not in result.err


def test_a_fork_has_an_id_of_its_own_after_a_name_that_was_taken(ore, begun):
    lines = "two\n/save trip\n/save fork\n"
    result = ore("--resume-session", "trip", stdin=lines, terminal="in out err", **MODELS)
    assert result.code == 0 and "There is a session 'trip' already" in result.err
    assert FileSessionStore().load("fork").id != FileSessionStore().load("trip").id


@pytest.mark.parametrize("backend", ["ollama", "embedded"])
def test_a_file_here_that_is_called_as_a_session_s_model_changes_nothing(
    ore, folder, home, begun, backend
):
    models = home / ".ore/models"
    models.mkdir()
    for file in (folder / "second", folder / "third", models / "second.gguf"):
        file.write_bytes(b"GGUF")
    path = begun / "trip.meta.json"
    kept = json.loads(path.read_text()) | {"backend": backend}
    path.write_text(json.dumps(kept))
    assert ore("-S", "trip", "And?", **MODELS).code == 0

    made = ScriptedBackend(models=MODELS["models"])
    made.name = backend
    names = [
        beginning_of(Options(), Asked(None, None), made, name, Session(id="i"), None).model
        for name in ("second", "third")
    ]
    third = str(folder / "third") if backend == "embedded" else "third"
    assert names == ["second", third], "only a file that answers is recorded as one"

    path.write_text(json.dumps(kept | {"model": "third"}))
    assert ("in the file third" in ore("-S", "trip", "And?", **MODELS).err) == (backend != "ollama")
