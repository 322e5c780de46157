"""The proof of the loop: every mode and flag of ORE, and every request that it made, counted.

One turn is one ``POST /api/chat`` that the model reads: a long prompt which the server refuses unread is
sent once more, to be cut. Beside it there are look-ups, which change nothing, and the
one ``POST /api/pull`` of ``--pull``. Nothing else is ever sent, whatever becomes of the turn.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from dataclasses import dataclass

import pytest

from ore.backends.choice import open_backend
from ore.cli.parser import build_parser
from tests.support.fake_ollama import FakeOllama, is_question
from tests.support.fake_ollama.scenarios import SCENARIOS
from tests.support.harness import run_ore
from tests.support.skill_files import write_skill

CHAT = ("POST", "/api/chat")
PULL = ("POST", "/api/pull")
QUESTION = ("POST", "whether /api/chat knows truncate")  # which no server can read as a turn
LOOK_UPS = {
    QUESTION,
    ("GET", "/api/tags"),
    ("POST", "/api/show"),
    ("GET", "/api/ps"),
    ("GET", "/api/version"),
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


@dataclass(frozen=True)
class Row:
    """One command line, how many turns it takes, and what it is given."""

    line: str
    turns: int
    stdin: str | None = None
    terminal: str = ""
    pulls: int = 0
    extra: str | None = None
    """The package that it needs, without which the row is left out."""

    def __str__(self) -> str:
        return self.line


TABLE = [
    Row("hi", 1),
    Row("hi --model mistral", 1),
    Row("hi --backend ollama", 1),
    Row("hi --host URL", 1),
    Row("hi --timeout 20 --deadline 20 --strict-context", 1),
    Row("hi --stream", 1),
    Row("hi --no-stream", 1),
    Row("hi -s --strict-context", 1),
    Row("hi --verbose", 1),
    Row("hi --quiet", 1),
    Row("hi --json", 1),
    Row("hi --chat-template note.txt", 0),
    Row("hi", 1, terminal="out err"),
    Row("hi --stream -v", 1, terminal="in out err"),
    Row("hi --render", 1, terminal="out err", extra="rich"),
    Row("", 1, stdin="hi"),
    Row("hi", 1, stdin="more"),
    Row("", 0),
    Row("", 0, stdin=" "),
    Row("hi --no-system", 1),
    Row("hi --system Rhyme", 1),
    Row("hi --persona aya", 1),
    Row("hi --option seed=1 --option num_ctx=2048", 1),
    Row("hi --think on", 1),
    Row("hi --join-messages always", 1),
    Row("hi --chat-template note.txt", 0),
    Row("hi --think off --stream", 1),
    Row('hi --schema {"type":"string"}', 1, extra="jsonschema"),
    Row("hi --image cat.png", 1),
    Row("hi --no-stdin", 1),
    Row("hi --choose yes,no", 0),
    Row("hi --choose yes,no --min-confidence 0.8", 0),
    Row("hi --logprobs", 1),
    Row("--run city.ore --set country=France", 1),
    Row("--run city.ore", 0),
    Row("--run city.ore --set country=France --dry-run", 0),
    Row("hi --extract", 1),
    Row("hi --keep-alive 5m", 1),
    Row("hi --file note.txt", 1),
    Row("hi --tool echo --tool-arg a=1", 1),
    Row("hi --tool read-file --tool-arg path=note.txt --grant filesystem-read", 1),
    Row("hi --tool read-file --tool-arg path=note.txt", 0),
    Row("echo --route", 1),
    Row("hi --route --route-threshold 0.9", 1),
    Row("hi --skill writing", 1),
    Row("hi --save-session new", 1),
    Row("hi --save-session old", 0),
    Row("hi --resume-session old", 1),
    Row("hi --resume-session old --save-session fork", 1),
    Row("hi --session old", 1),
    Row("hi --continue", 1),
    Row("--interactive", 3, stdin="a\n\nb\nc\n"),
    Row("--interactive -s", 2, stdin="a\nb\nquit\nc\n"),
    Row("first --conversational", 3, stdin="a\nb\n"),
    Row("-c --tool echo", 2, stdin="a\nb\n"),
    Row("--session old", 2, stdin="a\nb\n"),
    Row("-c", 2, stdin="/help\n/model\nhi\n/show\n/retry\n/verbose\n/bye\n", terminal="in out err"),
    Row("hi --artifact-out new.json", 1),
    Row("hi --artifact-out", 1),
    Row("hi --artifact-out=- --artifact-full --tool echo", 1),
    Row("--artifact-in run.json", 1),
    Row("--artifact-in run.json --artifact-out child.json", 1),
    Row("hi --after run.json", 1),
    Row("hi --after run.json --continuation more --artifact-out child.json", 1),
    Row("hi --after note.txt", 0),
    Row("hi --session old --artifact-out new.json", 1),
    Row("hi --runs runs", 1),
    Row("--verify --last --runs runs", 0),
    Row("-c --runs runs", 2, stdin="a\nb\n"),
    Row("hi --dry-run", 0),
    Row("hi --dry-run --tool echo --skill writing --session old", 0),
    Row("--verify run.json full.json", 0),
    Row("--verify run.json --allowed-signers lab", 0),
    Row("hi --artifact-out new.json --sign key", 0),
    Row("--verify --with-model run.json full.json", 0),
    Row("--why full.json", 0),
    Row("--why full.json --by sentence", 0),
    Row("--diff run.json full.json", 0),
    Row("--show run.json", 0),
    Row("--report run.json --as methods", 0),
    Row("--report run.json --csv", 0, extra="jinja2"),
    Row("--report run.json full.json --out page.html", 0, extra="jinja2"),
    Row("hi --artifact-out=- --artifact-text --system Rhyme.", 1),
    Row("hi --artifact-out=- --artifact-hashes-only --system Rhyme.", 1),
    Row("--replay run.json", 1),
    Row("--replay run.json full.json run.json", 3),
    Row("--replay run.json --model mistral -o seed=2", 1),
    Row("--replay run.json --junit out.xml", 1),
    Row("--rows cities.csv {{city}}", 2),
    Row("--rows cities.csv {{city}} --jobs 2 --key city --max-failures 1 --artifact-out out", 2),
    Row("--rows cities.csv {{city}} --csv", 2),
    Row("--rows cities.csv {{city}} --junit out.xml", 2),
    Row("--rows cities.csv {{city}} --expect cities.csv", 0),
    Row("--rows - {{line}} --rows-format text", 3, stdin="a\nb\n\nc\n"),
    Row("--rows cities.csv {{city}} --dry-run", 0),
    Row("--rows cities.csv {{town}}", 0),
    Row("--rows cities.csv {{city}} --scheduler http://nowhere", 0),
    Row("--list-models", 0),
    Row("--list-tools", 0),
    Row("--list-skills", 0),
    Row("--list-personas", 0),
    Row("--list-sessions --json", 0),
    Row("--show-session old", 0),
    Row("--search-sessions hi", 0),
    Row("--rename-session old new", 0),
    Row("--delete-session old --yes", 0),
    Row("--export-session old", 0),
    Row("--salvage-session old", 0),
    Row("--pull llama3.2", 0, pulls=1),
    Row("--pull 192.168.1.7:5000/team/small --insecure", 0, pulls=1),
    Row("--show-license llama3.2", 0),
    Row("--verify-models", 0),
    Row("--remove-model small --yes", 0),
    Row("--print-completion bash", 0, extra="shtab"),
    Row("--version", 0),
    Row("--help", 0),
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """What the rows name, made once: the files of a current folder, and a home in it."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "cat.png").write_bytes(PNG)
    (folder / "note.txt").write_text("a note")
    (folder / "cities.csv").write_text("city\nRome\nOslo\n")
    (folder / "city.ore").write_text("---\nexpect: {equals: Rome}\n---\nCapital of {{country}}?")
    skills = folder / "home/.ore/skills"
    write_skill(skills, "writing", "name: writing\ndescription: d", "Be brief.")
    with FakeOllama(reply='"Paris."') as fake, pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("OLLAMA_HOST", fake.url)
        patch.chdir(folder)
        full = ["--artifact-out", "full.json", "--artifact-full"]
        for flags in (["--session", "old"], ["--artifact-out", "run.json"], full):
            assert run_ore("hi", *flags, open_backend=open_backend).code == 0
    return folder


@pytest.fixture
def server(prepared, tmp_path, monkeypatch):
    """A server that has counted nothing yet, and what the rows name."""
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    able = ("completion", "vision", "thinking")
    with FakeOllama(reply='"Paris."', capabilities=able) as fake:
        monkeypatch.setenv("OLLAMA_HOST", fake.url)
        yield fake


def counted(server) -> list[tuple[str, str]]:
    asked = [(seen.method, seen.path, is_question(seen)) for seen in server.requests]
    return [QUESTION if of_truncate else (method, path) for method, path, of_truncate in asked]


@pytest.mark.invariant
@pytest.mark.parametrize("row", TABLE, ids=str)
def test_one_turn_is_one_chat_request_and_nothing_else_is_sent(ore, server, row):
    if row.extra and importlib.util.find_spec(row.extra) is None:
        pytest.skip(f"{row.extra} is not installed")
    argv = [server.url if word == "URL" else word for word in row.line.split()]
    result = ore(*argv, stdin=row.stdin, terminal=row.terminal, open_backend=open_backend)
    assert "Traceback" not in result.err
    found = counted(server)
    assert found.count(CHAT) == row.turns, (found, result.err)
    assert found.count(PULL) == row.pulls
    assert set(found) - {CHAT, PULL} <= LOOK_UPS


@pytest.mark.invariant
@pytest.mark.parametrize(
    "line, stdin, read",
    [
        ("LONG", None, [False, True]),
        ("LONG --json", None, [False, True]),
        ("-c", "hi\nLONG\n", [True, False, True]),
        ("--rows cities.csv {{city}}LONG --jobs 1", None, [False, True] * 2),
        ("--replay long.json", None, [False, True]),
        ("LONG --strict-context", None, [False]),
    ],
)
def test_a_prompt_is_sent_again_only_where_it_was_refused_unread(ore, server, line, stdin, read):
    long = "word" * 20_000
    assert ore(long, "--artifact-out", "long.json", open_backend=open_backend).code == 0
    server.requests.clear()
    argv = [word.replace("LONG", long) for word in line.split()]
    ore(*argv, stdin=stdin and stdin.replace("LONG", long), open_backend=open_backend)
    assert [chat.kept is not None for chat in server.chats] == read


def test_the_table_has_every_flag():
    words = {word.partition("=")[0] for row in TABLE for word in row.line.split()}
    for action in build_parser()._actions:
        named = set(action.option_strings) or {"hi"}
        assert named & words, f"{action.dest} has no row: how many requests does it make?"


def dry(ore, server, line: str) -> None:
    """Run a line with ``--dry-run``: whatever becomes of it, no chat is sent, and nothing is fetched."""
    argv = [server.url if word == "URL" else word for word in line.split()]
    result = ore(*argv, "--dry-run", stdin="", open_backend=open_backend)
    assert "Traceback" not in result.err and result.code in (0, 1, 2), (line, result.err)
    assert set(counted(server)) <= LOOK_UPS, line


OF_A_TURN = [row.line.removeprefix("hi").strip() for row in TABLE if row.line.startswith("hi ")]
OF_A_TURN = [flags for flags in OF_A_TURN if "--dry-run" not in flags]


@pytest.mark.slow
@pytest.mark.invariant
def test_a_dry_run_of_each_line_sends_no_chat(ore, server):
    for row in TABLE:
        if row.pulls or row.line.startswith(("--replay", "--help", "--version")):
            continue  # they go with no dry run, or do nothing else
        if "--interactive" not in row.line and row.stdin is None:
            dry(ore, server, row.line)


@pytest.mark.slow
@pytest.mark.invariant
@pytest.mark.parametrize("first", OF_A_TURN)
def test_a_dry_run_of_every_two_of_them_together_sends_no_chat(ore, server, first):
    for second in OF_A_TURN:
        dry(ore, server, f"hi {first} {second}")


@pytest.mark.invariant
@pytest.mark.parametrize("flags", [[], ["--stream"]], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "scenario", ["busy", "bad-gateway", "closed", "cut", "eof", "load-missing"]
)
def test_a_turn_that_fails_is_not_tried_again(ore, server, scenario, flags):
    assert scenario in SCENARIOS
    server.use([scenario, "happy"])
    result = ore("hi", "--model", "mistral", *flags, open_backend=open_backend)
    assert result.code == 1
    found = counted(server)
    assert found.count(CHAT) == 1 and set(found) - {CHAT} <= LOOK_UPS


@pytest.mark.invariant
def test_a_plain_turn_looks_up_no_more_than_the_window(ore, server):
    ore("hi", "--model", "mistral", open_backend=open_backend)
    assert counted(server) == [CHAT, ("GET", "/api/ps")]


@pytest.mark.invariant
def test_the_request_holds_the_planned_messages_and_no_other(ore, server):
    flags = ["--tool", "echo", "--skill", "writing", "--resume-session", "old"]
    plan = ore("hi", *flags, "--dry-run", open_backend=open_backend).json
    ore("hi", *flags, open_backend=open_backend)
    assert len(server.chats) == 1
    sent = json.loads(json.dumps(server.chats[0].json["messages"]))
    assert sent == [{"role": m["role"], "content": m["content"]} for m in plan["messages"]]
