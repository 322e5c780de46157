"""A run with a model's file can be run again: the artifact has its name and digest, never its path."""

from __future__ import annotations

import json
import os

import pytest

from ore.backends import weights
from ore.backends.choice import open_backend
from ore.backends.embedded import EmbeddedBackend
from ore.errors import ModelNotFoundError
from ore.glass.rerun import Rerun
from tests.support.fake_ollama import FakeOllama
from tests.support.fake_openai import FakeOpenAI
from tests.support.harness import ScriptedBackend, ScriptedReasoner, run_ore
from tests.support.runs import record, rewrite, rows, sha256

WEIGHTS = b"GGUF" + bytes(20)
PNG = b"\x89PNG\r\n\x1a\n"


class Engine(EmbeddedBackend):
    """The embedded backend with a scripted reasoner in the place of its engine."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def reasoner(self, model_id, settings):
        self.seen.append(weights.find(model_id))
        return ScriptedReasoner(["Paris."], model_id)


@pytest.fixture
def models(monkeypatch, tmp_path):
    """The folder of installed models, which is empty."""
    (tmp_path / "models").mkdir()
    monkeypatch.setenv("ORE_MODEL_DIR", str(tmp_path / "models"))
    monkeypatch.delenv("ORE_BACKEND", raising=False)
    return tmp_path / "models"


@pytest.fixture
def own(home):
    """A model's file somewhere in the user's home."""
    path = home / "own" / "tiny.gguf"
    path.parent.mkdir()
    path.write_bytes(WEIGHTS)
    return path


@pytest.fixture
def asked(models):
    """Run ORE where the embedded backend is chosen as it is by the real choice; see ``files``."""

    def ask(*args, **more):
        def connect(wanted, *rest):
            is_file = not wanted.is_name and str(wanted.model).endswith(".gguf")
            backend = wanted.backend or os.environ.get("ORE_BACKEND")
            if backend == "embedded" or is_file:
                return Engine(ask.files)
            return ScriptedBackend(["Paris."], ("llama3.2",))

        return run_ore(*args, open_backend=connect, **more)

    ask.files = []
    return ask


@pytest.fixture
def run(asked, own, folder):
    assert asked("hi", "--model", str(own), "--artifact-out", "run.json").code == 0
    asked.files.clear()
    return folder / "run.json"


@pytest.mark.invariant
def test_an_artifact_has_the_base_name_and_the_digest_of_a_file_and_no_path(run, own):
    document = json.loads(run.read_text())
    assert document["input"]["model_id"] == document["output"]["model_id"] == "tiny.gguf"
    assert document["provenance"]["model_digest"] == sha256(WEIGHTS)
    assert str(own.parent) not in run.read_text()


@pytest.mark.parametrize("verb", ["--replay", "--artifact-in"])
def test_the_model_is_found_among_those_installed_by_its_digest(asked, run, models, verb):
    (models / "other.gguf").write_bytes(WEIGHTS + b"other")
    (models / "renamed.gguf").write_bytes(WEIGHTS)
    result = asked(verb, "run.json")
    assert (result.code, asked.files) == (0, [models / "renamed.gguf"])
    if verb == "--replay":
        assert rows(result.out)["run.json"] == ["same", "messages rebuilt"]
    else:
        assert "with the model renamed" in result.err


@pytest.mark.parametrize("verb, code", [("--replay", 3), ("--artifact-in", 1)])
def test_where_it_is_not_installed_the_message_says_which_to_name(asked, run, own, verb, code):
    result = asked(verb, "run.json")
    assert result.code == code and asked.files == []
    said = result.out + result.err
    assert f"tiny.gguf (SHA-256 {sha256(WEIGHTS)[:12]}…)" in said and "--model PATH" in said
    again = asked(verb, "run.json", "--model", str(own))
    assert again.code == 0 and asked.files == [own]
    assert "on purpose" not in again.out


def test_other_weights_that_are_named_are_a_change_on_purpose(asked, run, own):
    other = own.with_name("large.gguf")
    other.write_bytes(WEIGHTS + b"more")
    result = asked("--replay", "run.json", "--model", str(other))
    assert "on purpose: model tiny.gguf -> large.gguf" in result.out


@pytest.mark.invariant
@pytest.mark.parametrize("backend", ["ollama", "embedded", "openai", None])
@pytest.mark.parametrize("chosen", [None, "embedded"])
def test_no_artifact_chooses_a_file(asked, run, own, monkeypatch, backend, chosen):
    monkeypatch.chdir(own.parent)
    if chosen:
        monkeypatch.setenv("ORE_BACKEND", chosen)
    for name in (str(own), "tiny.gguf", "./tiny.gguf", "a:tiny.gguf"):
        own.with_name("a:tiny.gguf").write_bytes(WEIGHTS)
        for key in ("input", "output"):
            rewrite(run, lambda d, key=key, name=name: d[key].update(model_id=name))
        rewrite(run, lambda d: d["provenance"].update(backend=backend))
        for verb in ("--replay", "--artifact-in"):
            assert asked(verb, str(run)).code in (1, 3)
    assert asked.files == []


def test_a_run_of_a_server_s_model_that_is_named_like_a_file_can_be_replayed(
    ore, folder, monkeypatch
):
    name = "/models/tiny.gguf"
    with FakeOpenAI(models=(name,)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        there = ["--backend", "openai"]
        flags = [*there, "--model", name, "--artifact-out", "run.json"]
        assert ore("hi", *flags, open_backend=open_backend).code == 0
        assert json.loads((folder / "run.json").read_text())["input"]["model_id"] == name
        assert ore("--replay", "run.json", *there, open_backend=open_backend).code == 0
        assert ore("--artifact-in", "run.json", *there, open_backend=open_backend).code == 0
    result = ore("--artifact-in", "run.json")
    assert result.code == 1 and "--backend openai" in result.err


def test_a_name_of_ollama_s_may_end_like_a_file_s(ore, folder):
    record(folder / "run.json", "hi")
    for name in ("hf.co/someone/tiny:Q4.gguf", "mine.gguf"):
        for key in ("input", "output"):
            rewrite(folder / "run.json", lambda d, key=key, name=name: d[key].update(model_id=name))
        rewrite(folder / "run.json", lambda d: d["provenance"].update(backend="ollama"))
        assert ore("--replay", "run.json", models=(name,)).code == 0
        assert ore("--artifact-in", "run.json", models=(name,)).code == 0


@pytest.mark.parametrize("name", ["/etc/passwd", "a/b/c/d", "x//y"])
def test_a_name_that_no_model_of_ollama_s_can_have_is_not_asked_wrongly(
    ore, folder, monkeypatch, name
):
    record(folder / "b.json", "hi", "--model", "mistral", models=("mistral",))
    record(folder / "a.json", "hi")
    rewrite(folder / "a.json", lambda d: d["input"].update(model_id=name))
    for path in ("a.json", "b.json"):
        rewrite(folder / path, lambda d: d["provenance"].update(backend="ollama"))
    with FakeOllama() as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url)
        result = ore("--replay", "a.json", "b.json", "a.json", open_backend=open_backend)
        assert result.code == 3 and len(server.chats) == 1
        assert "can't be a model's name" in rows(result.out)["a.json"][1]
        asked = ore("--artifact-in", "a.json", open_backend=open_backend)
        assert (asked.code, len(server.chats)) == (1, 1)


def test_what_is_not_repeated_of_a_run_is_said(ore, folder, writing):
    (folder / "notes.txt").write_text("a note")
    flags = ["--skill", "writing", "--tool", "echo", "-f", "notes.txt", "--system", "Rhyme."]
    record(folder / "run.json", "hi", *flags)
    result = ore("--artifact-in", "run.json")
    assert result.err.splitlines()[1:] == [
        "Not repeated from that run: tool echo, skill writing, file notes.txt, its system prompt."
    ]
    assert "system prompt" not in ore("--artifact-in", "run.json", "--system", "Rhyme.").err
    record(folder / "talk.json", "hi", "--session", "talk")
    record(folder / "talk.json", "ho", "--session", "talk")
    assert "Not repeated from that run: its conversation." in ore("--artifact-in", "talk.json").err
    record(folder / "hot.json", "hi", "-o", "temperature=1", "-o", "seed=7")
    for flags, left in (
        ([], "option temperature, option seed"),
        (["-o", "seed=7"], "option temperature"),
    ):
        line = f"Not repeated from that run: {left}.\n"
        assert ore("--artifact-in", "hot.json", *flags).err.endswith(line)
    record(folder / "plain.json", "hi")
    assert "Not repeated" not in ore("--artifact-in", "plain.json").err


@pytest.mark.slow
def test_what_a_flag_says_anew_is_not_called_left_out(ore, folder):
    pytest.importorskip("jsonschema")
    said = {"think": True, "format": {"type": "string"}, "choices": ["a"], "seed": 7}
    record(folder / "run.json", "hi")
    rewrite(folder / "run.json", lambda d: d["provenance"].update(options=said))
    for flags, named in (
        (["--think", "off"], "think"),
        (["--schema", '{"type": "number"}'], "format"),
        (["--choose", "a,b"], "choices"),
        (["-o", "seed=8"], "seed"),
    ):
        left = ", ".join(f"option {name}" for name in said if name != named)
        assert (
            f"Not repeated from that run: {left}.\n" in ore("--artifact-in", "run.json", *flags).err
        )


@pytest.mark.parametrize(
    ("flags", "usual", "left"),
    [
        (["--persona", "clerk"], "persona:clerk", ""),
        (["--persona", "clerk"], "none", "persona clerk"),
        (["--system", "Rhyme."], "@{0}/own.txt", ""),
        (["--system", "Rhyme."], "persona:clerk", "its system prompt"),
        (["--no-system"], "none", ""),
        (["--no-system"], "", "having no system prompt"),
        (["--no-system"], "persona:clerk", "having no system prompt"),
        ([], "none", "its system prompt"),
        ([], "", ""),
        (["--persona", "aya"], "", ""),
        (["--persona", "aya"], "persona:clerk", "persona aya"),
    ],
)
def test_a_system_prompt_that_is_the_usual_one_is_repeated(
    ore, folder, home, monkeypatch, flags, usual, left
):
    (home / ".ore/personas").mkdir(parents=True)
    (home / ".ore/personas/clerk.md").write_text("You file papers.")
    (folder / "own.txt").write_text("Rhyme.")
    record(folder / "run.json", "hi", *flags)
    monkeypatch.setenv("ORE_SYSTEM", usual.format(folder))
    said = ore("--artifact-in", "run.json").err.splitlines()[1:]
    assert said == ([f"Not repeated from that run: {left}."] if left else [])
    assert "Not repeated" not in ore("--artifact-in", "run.json", "--system", "Be brief.").err


def test_images_that_are_given_again_are_repeated(ore, folder):
    for name in ("a", "b"):
        (folder / f"{name}.png").write_bytes(PNG + name.encode())
    both = {"images": [sha256(PNG + b"a"), sha256(PNG + b"b")]}
    record(folder / "run.json", "hi", "--image", "a.png", "--image", "b.png", metadata=both)
    again = ["--artifact-in", "run.json", "--image", "b.png"]
    assert "Not repeated from that run: its images." in ore(*again).err
    assert "Not repeated" not in ore(*again, "--image", "a.png").err


def test_a_long_list_of_what_is_not_repeated_is_cut(ore, folder):
    record(folder / "run.json", "hi")
    rewrite(folder / "run.json", lambda d: d["input"].update(tools=["\x1b[2J"] * 5000))
    result = ore("--artifact-in", "run.json", terminal="err")
    assert "and 4990 more." in result.err and "\x1b[2J" not in result.err


@pytest.mark.embedded
@pytest.mark.slow
def test_a_run_of_the_real_model_s_file_can_be_replayed(ore, folder, model_dir):
    file = next(model_dir.glob("*.gguf"))
    flags = ["-o", "num_predict=8", "--artifact-out", "run.json"]
    assert ore("hi", "--model", str(file), *flags, open_backend=open_backend).code == 0
    assert json.loads((folder / "run.json").read_text())["input"]["model_id"] == file.name
    result = ore("--replay", "run.json", open_backend=open_backend)
    assert (result.code, rows(result.out)["run.json"][0]) == (0, "same")


def test_of_a_pinned_model_whose_file_is_there_it_is_said_what_is_wrong_with_it(models, folder):
    file = weights.pinned_path("smollm2:135m")
    file.write_bytes(WEIGHTS)
    rerun = Rerun("smollm2:135m", "embedded")
    with pytest.raises(ModelNotFoundError, match="does not have the bytes that ORE trusts"):
        rerun.check(EmbeddedBackend())
    file.unlink()
    with pytest.raises(ModelNotFoundError, match="fetch it with"):
        rerun.check(EmbeddedBackend())
