"""Sessions through the command line: saved, resumed, forked, and never overwritten."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import stat

import pytest

from ore.backends.choice import open_backend
from ore.errors import BackendError
from ore.store import FileSessionStore
from tests.support.fake_ollama import CUTS, FakeOllama
from tests.support.harness import run_ore
from tests.support.sessions import blocking
from tests.support.skill_files import write_skill


def stored(home, name: str) -> dict:
    return json.loads((home / ".ore/sessions" / f"{name}.json").read_text(encoding="utf-8"))


def contents(home, name: str) -> list[str]:
    return [message["content"] for message in stored(home, name)["messages"]]


def test_a_prompt_with_a_session_flag_is_one_saved_turn(ore, home):
    result = ore("--save-session", "trip", "Where?", replies=["There."])
    assert (result.code, result.out, result.err) == (0, "There.\n", "")
    data = stored(home, "trip")
    assert list(data) == ["id", "created_at", "messages"]
    assert [list(message) for message in data["messages"]] == 2 * [
        ["role", "content", "id", "timestamp"]
    ]
    assert [message["role"] for message in data["messages"]] == ["user", "assistant"]


def test_the_file_and_its_folder_are_private(ore, home):
    ore("--save-session", "trip", "Where?")
    folder = home / ".ore/sessions"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "trip.json").stat().st_mode) == 0o600


def test_every_turn_of_a_repl_is_saved_before_the_next_is_asked(ore, home):
    seen = []

    def reply(_):
        path = home / ".ore/sessions/trip.json"
        seen.append(contents(home, "trip") if path.exists() else [])
        return f"answer {len(seen)}"

    ore("--save-session", "trip", stdin="one\ntwo\n", replies=[reply, reply])
    assert seen == [[], ["one", "answer 1"]]
    assert contents(home, "trip") == ["one", "answer 1", "two", "answer 2"]


@pytest.mark.parametrize(
    "flags", [["--session", "a"], ["--resume-session", "a", "--save-session", "a"], ["-C"]]
)
def test_a_session_goes_on_with_its_id_and_its_messages(ore, home, flags):
    ore("--session", "a", "one", replies=["1"])
    before = stored(home, "a")
    result = ore(*flags, "two", replies=["2"])
    after = stored(home, "a")
    assert result.code == 0
    assert [message.content for message in result.calls[0][1:]] == ["one", "1", "two"]
    assert after["id"] == before["id"] and after["messages"][:2] == before["messages"]
    assert contents(home, "a") == ["one", "1", "two", "2"]


def test_resuming_alone_saves_nothing_and_says_how_to_save(ore, home):
    ore("--session", "a", "one", replies=["1"])
    before = stored(home, "a")
    result = ore("--resume-session", "a", "two", replies=["2"])
    assert (result.code, result.out) == (0, "2\n")
    assert "not saved" in result.err and "--save-session a" in result.err
    assert stored(home, "a") == before


@pytest.mark.invariant
def test_a_fork_gets_an_id_of_its_own_and_its_messages_keep_theirs(ore, home):
    ore("--session", "a", "one", replies=["1"])
    original = stored(home, "a")
    ore("--resume-session", "a", "--save-session", "b", "two", replies=["2"])
    fork = stored(home, "b")
    assert fork["id"] != original["id"]
    assert fork["messages"][:2] == original["messages"] and len(fork["messages"]) == 4
    assert stored(home, "a") == original


@pytest.mark.parametrize("resume", [[], ["--resume-session", "other"]])
def test_a_taken_name_is_refused_before_the_model_is_called(ore, home, resume):
    ore("--session", "taken", "one")
    ore("--session", "other", "one")
    before = stored(home, "taken")
    result = ore("--save-session", "taken", *resume, "two")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "taken" in result.err and stored(home, "taken") == before


def test_a_missing_session_is_named_and_nothing_is_made(ore, home):
    result = ore("--resume-session", "nowhere", "hi")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "'nowhere'" in result.err
    assert not (home / ".ore/sessions/nowhere.json").exists()


@pytest.mark.parametrize("flag", ["--save-session", "--resume-session", "--session"])
@pytest.mark.parametrize("name", ["../up", "a/b", ".hidden", "-x", "a\nb", "CON", "x" * 101])
def test_an_illegal_name_is_a_usage_error(ore, home, flag, name):
    result = ore(f"{flag}={name}", "hi")
    assert (result.code, result.out, result.calls) == (2, "", [])
    assert not (home / ".ore").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1}', "\0\0\0"])
@pytest.mark.parametrize("flags", [["--session", "bad"], ["--resume-session", "bad"]])
def test_a_broken_file_is_refused_and_left_alone(ore, home, text, flags):
    folder = home / ".ore/sessions"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "bad.json").write_text(text)
    result = ore(*flags, "hi")
    assert (result.code, result.out, result.calls) == (1, "", [])
    assert "Traceback" not in result.err and "bad" in result.err
    assert (folder / "bad.json").read_text() == text


def test_a_session_that_is_in_use_is_refused_at_once(ore, home):
    with FileSessionStore().lock("busy"):
        result = ore("--session", "busy", "hi")
    assert (result.code, result.calls) == (1, [])
    assert "is in use by this process: wait until it is done there" in result.err


@pytest.mark.parametrize("replies", [[BackendError("Down.")], [["par", BackendError("Cut.")]]])
@pytest.mark.parametrize("flags", [[], ["--stream"]])
def test_a_failed_turn_leaves_the_session_as_it_was(ore, home, replies, flags):
    ore("--session", "a", "one", replies=["1"])
    before = stored(home, "a")
    assert ore("--session", "a", "two", *flags, replies=replies).code == 1
    assert stored(home, "a") == before


def test_a_folder_that_is_deleted_in_mid_conversation_is_made_again(ore, home):
    def delete_everything(_):
        shutil.rmtree(home / ".ore/sessions")
        return "2"

    result = ore("--session", "a", stdin="one\ntwo\n", replies=["1", delete_everything])
    assert (result.code, result.err) == (0, "")
    assert contents(home, "a") == ["one", "1", "two", "2"]


def test_unsaved_turns_are_reported_kept_and_saved_when_possible(ore, home):
    def unblock(_):
        (home / ".ore/sessions").unlink()
        return "3"

    replies = ["1", blocking(home, "2"), unblock]
    result = ore("--session", "a", stdin="one\ntwo\nthree\n", replies=replies)
    assert result.out == "1\n2\n3\n"
    assert result.err.count("not saved") == 1
    assert contents(home, "a") == ["one", "1", "two", "2", "three", "3"]


def test_turns_that_were_never_saved_make_the_exit_code_1(ore, home):
    replies = [blocking(home)]
    result = ore("--session", "a", stdin="one\n", replies=replies, terminal="in out err")
    assert result.code == 1
    assert "[AYA]: Paris." in result.out and "not saved" in result.err


@pytest.mark.parametrize("value", ["", "relative"])
def test_a_home_that_is_not_an_absolute_path_is_refused(ore, monkeypatch, value):
    monkeypatch.setenv("HOME", value)
    result = ore("--session", "a", "hi")
    assert (result.code, result.calls) == (1, [])
    assert "HOME" in result.err
    assert ore("hi").code == 0


def test_the_last_exchange_is_shown_on_a_terminal(ore):
    ore("--session", "a", stdin="one\ntwo\n", replies=["1", "2"])
    result = ore("--session", "a", stdin="", terminal="in out err")
    assert "You: two\n[AYA]: 2\n" in result.err


def test_the_end_of_a_long_last_answer_is_shown(ore):
    answer = "\n".join(f"line {number}" for number in range(1, 31))
    ore("--session", "a", stdin="one\n", replies=[answer])
    result = ore("--session", "a", stdin="", terminal="in out err")
    assert "[AYA]: …\nline 19\n" in result.err and "line 18\n" not in result.err


def test_there_may_be_nothing_to_continue(ore):
    result = ore("--continue", "hi")
    assert (result.code, result.calls) == (1, []) and "--session NAME" in result.err


def test_an_answer_as_json_is_written_even_if_it_could_not_be_saved(ore, home):
    result = ore("--session", "a", "one", "--json", replies=[blocking(home)])
    assert result.code == 1 and result.json["content"] == "Paris."
    assert "not saved" in result.err


HARD = ["bcdfgh " * 60, "kwrtzp " * 110, "go on", "vxzqkw " * 60, "more", "why"]
"""Prompts that have more tokens than they look like; a window of 512 holds the first four."""
GROWING = ["bcdfgh " * 100, "one two three " * 100, "go on"]
"""Prompts of which such a window does not hold the first two together; each is longer than the last."""


@pytest.mark.parametrize(
    "flags, prompts, told",
    [
        (["-c"], HARD, ["390 tokens. An earlier, 503, ", "401 tokens. An earlier, 503, "]),
        (["-c"], GROWING, ["417 tokens. An earlier, 211, 270", "429 tokens. An earlier, 211, 271"]),
        (
            ["-c", "--skill", "rhyme"],
            HARD,
            [f"{tokens} tokens. An earlier, 386, 54" for tokens in (392, 403, 414)],
        ),
        (["-i"], HARD, []),
    ],
)
def test_a_conversation_that_has_fewer_tokens_than_it_must_have_was_cut(home, flags, prompts, told):
    write_skill(
        home / ".ore/skills", "rhyme", "name: rhyme\ndescription: Rhymes.", "Write in rhyme."
    )
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        args = [*flags, "--system", "Be brief.", "--host", server.url]
        result = run_ore(*args, stdin="\n".join(prompts), open_backend=open_backend)
    said = re.compile(
        r"counted (\d+ tokens. An earlier) .* had (\d+)(?:, and .* has (\d+) at least)?:"
    )
    assert [", ".join(found) for found in said.findall(result.err)] == told


def talked(server, *lines, flags=(), told=0):
    """Take a turn in a process of its own with each line, and return how often it was said to be cut."""
    found = 0
    for line in lines:
        result = run_ore(line, *flags, "--host", server.url, open_backend=open_backend)
        found += result.err.count("An earlier prompt, which this one goes on from")
    return found


SAVED = ("--session", "a", "--system", "Be brief.")


@pytest.mark.parametrize(
    "between, flags, told",
    [
        ([], SAVED, 2),
        ([], (*SAVED, "--model", "other"), 0),
        ([], (*SAVED, "--model", "llama3.2:latest"), 2),
        ([], ("--session", "a", "--no-system"), 1),  # of the second, compared with the first
        ([], (*SAVED, "--think", "low"), 0),
        ([], ("--resume-session", "a", "--save-session", "b", "--system", "Be brief."), 1),
        ([], ("--resume-session", "a", "--system", "Be brief."), 2),
        (["--rename-session", "a", "b"], ("--session", "b", "--system", "Be brief."), 2),
    ],
)
def test_a_saved_conversation_that_has_fewer_tokens_than_it_must_have_was_cut(
    home, between, flags, told
):
    with FakeOllama(
        models=["llama3.2", "other"], num_ctx=512, version=CUTS, reply="Fine."
    ) as server:
        assert talked(server, *HARD[:4], flags=SAVED) == 0
        if between:
            assert run_ore(*between).code == 0
        more = HARD[4:5] if "--save-session" in flags else HARD[4:]
        assert talked(server, *more, flags=flags) == told
        if "--save-session" in flags:
            assert talked(server, HARD[5], flags=("--session", "b", "--system", "Be brief.")) == 1


@pytest.mark.slow
def test_an_artifact_and_a_report_say_that_a_conversation_was_cut_as_the_turn_does(home, tmp_path):
    path = tmp_path / "run.json"
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        assert talked(server, *HARD[:4], flags=SAVED) == 0
        flags = (*SAVED, "--artifact-out", path, "--json", "--host", server.url)
        result = run_ore(HARD[4], *map(str, flags), open_backend=open_backend)
    assert result.err.count("has not seen all") == result.err.count("ore: warning: ") == 1
    artifact = json.loads(path.read_text())
    said = [artifact["provenance"]["context"], artifact["output"]["metadata"]["context"]]
    said.append(json.loads(result.out)["metadata"]["context"])
    assert {each["status"] for each in said} == {"truncated"}
    assert "does not fit" not in run_ore("--verify", str(path)).out
    [row] = csv.DictReader(io.StringIO(run_ore("--report", str(path), "--csv").out))
    assert row["is_truncated"] == "true"


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, told",
    [
        (["--skill", "rhyme"], 1),
        (["--file", "notes.txt"], 1),
        (["--tool", "read-file", "--tool-arg", "path=notes.txt", "--grant", "filesystem-read"], 1),
        (["--skill", "rhyme", "--no-system"], 0),  # it may stand in the place of the model's own
    ],
)
def test_a_turn_with_more_than_the_conversation_is_compared_with_the_earlier_ones(
    home, tmp_path, monkeypatch, flags, told
):
    write_skill(
        home / ".ore/skills", "rhyme", "name: rhyme\ndescription: Rhymes.", "Write in rhyme."
    )
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("bcdfgh " * 10)
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        start = ["--session", "a", "--no-system"] if "--no-system" in flags else SAVED
        assert talked(server, *HARD[:4], flags=start) == 0
        assert talked(server, HARD[4], flags=("--session", "a", *flags)) == told
        assert talked(server, HARD[5], flags=("--session", "a", *flags)) == told


UNSURE = "whether the model has seen all of the conversation"


@pytest.mark.slow
@pytest.mark.parametrize(
    "flags, window, told",
    [
        (("--model", "other"), 512, 1),
        (("--no-system",), 512, 1),
        (("--model", "other"), 4096, 0),  # the text fits
        ((), 512, 0),  # the earlier prompts can be compared with
    ],
)
def test_nobody_knows_whether_a_conversation_was_read_that_no_earlier_prompt_tells_of(
    home, flags, window, told
):
    with FakeOllama(
        models=["llama3.2", "other"], num_ctx=window, version=CUTS, reply="Fine."
    ) as server:
        assert talked(server, *HARD[:4], flags=SAVED) == 0
        args = (*SAVED[: 2 if "--no-system" in flags else 4], *flags, "--host", server.url)
        result = run_ore(*args, stdin="\n".join(HARD[4:]), open_backend=open_backend)
    assert result.err.count(UNSURE) == told


@pytest.mark.parametrize(
    "flags, words, told",
    [
        ((), 150, 1),  # the default system prompt may be what was left out
        (("--session", "a"), 150, 1),  # a conversation's first turn is compared with nothing
        (("--no-system",), 150, 0),  # nothing stands before it
        (("--no-system", "--file", "notes.txt"), 150, 1),
        ((), 10, 0),
    ],
)
def test_of_a_single_turn_it_is_said_that_what_stands_first_may_have_been_left_out(
    home, tmp_path, monkeypatch, flags, words, told
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("bcdfgh " * 150)
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        args = (*flags, "bcdfgh " * words, "--host", server.url)
        result = run_ore(*args, open_backend=open_backend)
    said = result.err.count("whether the model has seen all of the prompt")
    assert (said, result.err.count("-o num_ctx")) == (told, told)


@pytest.mark.parametrize(
    "version, drops, told", [("0.13.5", False, 0), ("0.13.5", True, 1), (CUTS, False, 1)]
)
def test_where_the_server_says_that_a_prompt_fitted_no_earlier_one_is_compared(
    home, version, drops, told
):
    """What counts otherwise, as a model that was made anew does, has not cut anything. A proxy may drop
    what the server is asked.
    """
    with FakeOllama(num_ctx=2048, version=version, reply="Fine.") as server:
        server.ollama.tokens, server.ollama.drops_truncate = 1900, drops
        assert talked(server, "bcdfgh " * 400, flags=SAVED) == 0
        server.ollama.tokens = 1800
        assert talked(server, "bcdfgh " * 10, flags=SAVED) == told


def test_that_nobody_knows_is_said_once(home, tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("one")

    def reply(request):
        file.write_text(f"{len(request['messages'])} ")
        return "Fine."

    with FakeOllama(num_ctx=512, version=CUTS, reply=reply) as server:
        args = ("--session", "a", "--file", str(file), "--host", server.url)
        result = run_ore(*args, stdin="\n".join(HARD), open_backend=open_backend)
    assert (len(server.chats), result.err.count(UNSURE)) == (6, 1)


def test_a_conversation_that_was_made_shorter_by_hand_was_not_cut(home):
    file = home / ".ore/sessions/a.json"
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        assert talked(server, *HARD[:4], flags=SAVED) == 0
        file.write_text(file.read_text().replace("bcdfgh " * 60, "bcdfgh " * 20))
        assert talked(server, *HARD[4:], flags=SAVED) == 0


def test_a_conversation_that_goes_on_without_a_run_that_its_longest_prompt_had_was_not_cut(
    home, tmp_path
):
    run, flags = tmp_path / "run.json", ("--session", "a", "--no-system")
    with FakeOllama(num_ctx=512, version=CUTS, reply="bcdfgh " * 30) as server:
        assert talked(server, "one", flags=("--artifact-out", str(run))) == 0
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        assert talked(server, "vxzqkw " * 195, flags=(*flags, "--after", str(run))) == 0
        assert talked(server, "ok", flags=flags) == 0


def test_of_how_long_prompts_were_only_lines_count_that_are_whole_and_of_a_turn_there_is(home):
    file = home / ".ore/sessions/a.sizes"
    with FakeOllama(num_ctx=512, version=CUTS, reply="Fine.") as server:
        talked(server, "one", flags=SAVED)
        (line,) = file.read_text().splitlines()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        id, tokens, made_of = line.split()
        file.write_bytes(
            f"other 900 {made_of}\n{id} 900\n{id} 900 {'0' * 64}\n{id} x {made_of}\n".encode()
            + b"\xff\n"
            + line[:20].encode()
        )
        assert talked(server, "two", flags=SAVED) == 0
        assert len(file.read_text(errors="replace").splitlines()) == 7
        file.write_text(f"{id} 900 {made_of}\n")
        assert talked(server, *HARD[:4], flags=SAVED) == 4
        assert file.read_text() == f"{id} 900 {made_of}\n"


@pytest.mark.parametrize("answered, told", [("one", 1), ("other", 0)])
def test_prompts_that_another_model_has_read_are_not_compared(answered, told, ore):
    """Some servers have one name for whatever model they have loaded, and say which one it was."""
    for model, tokens in (("one", 500), (answered, 400)):
        context = {"status": "unknown", "window": None, "prompt_tokens": tokens}
        said = {"context": context, "response_model": model}
        result = ore("--session", "a", "Go on", metadata=said)
    assert result.err.count("An earlier prompt, which this one goes on from") == told
    advice = "larger window (-o num_ctx=N, or with --backend openai the server's settings), or"
    assert result.err.count(advice) == told


@pytest.mark.parametrize("window, told", [(512, 1), (1 << 20, 0)])
def test_a_prompt_that_was_taken_for_whole_is_compared_where_its_window_may_be_too_small(
    window, told, ore
):
    """As text of capitals, names of substances or chess is, which has more tokens than it looks like."""
    for tokens in (500, 480):
        context = {"status": "complete", "window": window, "prompt_tokens": tokens}
        result = ore("--session", "a", "Go on", "--json", metadata={"context": context})
    assert result.err.count("An earlier prompt, which this one goes on from") == told
    assert result.json["metadata"]["context"]["status"] == ("complete", "truncated")[told]


def test_a_model_that_is_made_anew_and_adds_less_itself_was_not_cut(ore):
    """As with a shorter system prompt in its Modelfile: earlier prompt and new text fit its window."""
    for tokens in (483, 336):
        context = {"status": "complete", "window": 4096, "prompt_tokens": tokens}
        result = ore("--session", "a", "Go on " * 300, "--json", metadata={"context": context})
    assert "An earlier prompt, which this one goes on from" not in result.err
    assert result.json["metadata"]["context"]["status"] == "complete"


def test_an_image_has_tokens_of_its_own_so_that_a_conversation_with_one_may_not_fit(ore, tmp_path):
    (image := tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    for tokens, prompt in ((3000, ("Go on " * 700,)), (2500, ("And this?", "--image", str(image)))):
        context = {"status": "complete", "window": 4096, "prompt_tokens": tokens}
        result = ore("--session", "a", *prompt, metadata={"context": context})
    assert result.err.count("An earlier prompt, which this one goes on from") == 1


def test_how_long_a_prompt_was_may_be_impossible_to_note(home):
    file = home / ".ore/sessions/a.sizes"
    with FakeOllama(reply="Fine.") as server:
        talked(server, "one", flags=SAVED)
        file.unlink()
        file.mkdir()
        result = run_ore("two", *SAVED, "--host", server.url, open_backend=open_backend)
    assert (result.code, result.out) == (0, "Fine.\n")
    assert "How many tokens the prompt has is not noted beside the session 'a'" in result.err
