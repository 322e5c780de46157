"""Whether an installed ORE works: ``python -m tests.by_hand.smoke PATH/TO/ore [--embedded]``.

Runs the command in a folder and a home of its own, against the fake server, and looks at streams,
exit codes and files. Needs Python alone; knows nothing about how ORE came to be installed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from ore import __version__
from tests.support.fake_ollama import FakeOllama

ROOT = Path(__file__).resolve().parents[2]
CAPITAL = "Name the capital of France."
PATIENCE = 120.0  # seconds for one command
SHARED = {
    "share/man/man1/ore.1": "docs/ore.1",
    "share/bash-completion/completions/ore": "completions/bash/ore",
    "share/zsh/site-functions/_ore": "completions/zsh/_ore",
    "share/fish/vendor_completions.d/ore.fish": "completions/fish/ore.fish",
}
"""Where a file is installed that others read, and the one in the repository that it is."""
NOT_PASSED_ON = ("ORE_", "OLLAMA_", "OPENAI_", "PYTHON", "VIRTUAL_ENV")


class Installed:
    """The command, in a folder that knows nothing of the repository.

    Args:
        command: The path of ``ore``.
        folder: An empty folder: the current one of every run, and its home.
    """

    def __init__(self, command: Path, folder: Path) -> None:
        self.command = Path(os.path.abspath(command))
        self.scripts = self.command.resolve().parent
        self.folder = folder

    def run(self, *args: str, code: int = 0, stdin: bytes = b"", **env: str) -> tuple[str, str]:
        """Run the command, which has to end with ``code``; return both of its streams."""
        return self.start([str(self.command), *args], code, stdin, env)

    def start(self, command: list[str], code: int, stdin: bytes, env: dict) -> tuple[str, str]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
        own = {"HOME": str(self.folder), "USERPROFILE": str(self.folder), "NO_PROXY": "*"}
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            cwd=self.folder,
            env={**environ, **own, "ORE_TRACEBACK": "1", **env},
            timeout=PATIENCE,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code and "Traceback" not in err, (command, done)
        return out, err


def it_is_not_the_repository(ore: Installed) -> None:
    python = ore.scripts / ("python.exe" if os.name == "nt" else "python")
    out, _ = ore.start([str(python), "-c", "import ore; print(ore.__file__)"], 0, b"", {})
    assert not Path(out.strip()).resolve().is_relative_to(ROOT / "ore"), out


def it_says_its_version_and_its_flags(ore: Installed) -> None:
    assert ore.run("--version") == (f"ore {__version__}\n", "")
    out, err = ore.run("--help")
    assert "--artifact-out" in out and err == ""


def it_lists_its_tools(ore: Installed) -> None:
    out, err = ore.run("--list-tools")
    assert [line.split("\t")[0] for line in out.splitlines()] == ["echo", "read-file"] and not err


def its_manual_page_and_its_completion_are_there(ore: Installed) -> None:
    for place, source in SHARED.items():
        assert (ore.scripts.parent / place).read_bytes() == (ROOT / source).read_bytes(), place


def it_has_the_package_s_name_too(ore: Installed) -> None:
    named = ore.scripts / "ore-reasoning"
    assert ore.start([str(named), "--version"], 0, b"", {}) == (f"ore {__version__}\n", "")


def its_types_are_there(ore: Installed) -> None:
    code = "import ore, pathlib; print(pathlib.Path(ore.__file__).with_name('py.typed').is_file())"
    assert ore.start([str(ore.scripts / "python"), "-c", code], 0, b"", {})[0] == "True\n"


def what_is_asked_wrongly_is_refused(ore: Installed) -> None:
    out, err = ore.run("-i", "-c", code=2)
    assert out == "" and err.startswith("usage: ore")


def a_missing_server_is_one_sentence(ore: Installed) -> None:
    with socket.socket() as taken:  # bound and not listening: nobody answers there
        taken.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{taken.getsockname()[1]}"
        out, err = ore.run("--host", host, CAPITAL, code=1)
    assert out == "" and host in err and len(err.splitlines()) == 1, err


def a_turn_is_taken_with_the_packaged_persona(ore: Installed) -> None:
    with FakeOllama() as fake:
        assert ore.run(CAPITAL, "--host", fake.url)[0] == "Paris.\n"
        assert ore.run("Summarise", "--host", fake.url, stdin=b"notes")[0] == "Paris.\n"
        system, asked = fake.chats[0].json["messages"]
        persona = (ROOT / "ore/prompts/aya.txt").read_text(encoding="utf-8").strip()
        assert system["content"].strip() == persona and asked["content"] == CAPITAL
        assert fake.chats[1].json["messages"][1]["content"] == "Summarise\n\nnotes"


def a_conversation_goes_on(ore: Installed) -> None:
    with FakeOllama() as fake:
        for number in (1, 2):
            ore.run("--session", "trip", CAPITAL, "--host", fake.url)
            saved = ore.folder / ".ore/sessions/trip.json"
            assert len(json.loads(saved.read_text(encoding="utf-8"))["messages"]) == 2 * number
        assert len(fake.chats[1].json["messages"]) == 4


def a_skill_and_an_env_file_are_read(ore: Installed) -> None:
    skill = ore.folder / ".ore/skills/pdf/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: pdf\ndescription: Works with PDF.\n---\nDo it well.\n")
    with FakeOllama() as fake:
        (ore.folder / ".ore/.env").write_text(f"OLLAMA_HOST={fake.url}\nORE_MODEL=mistral\n")
        ore.run("--skill", "pdf", "Hi")
        sent = fake.chats[0].json
    assert sent["model"] == "mistral" and sent["messages"][1]["content"].endswith("Do it well.")
    (ore.folder / ".ore/.env").unlink()


def a_run_is_kept_checked_and_run_again(ore: Installed) -> None:
    with FakeOllama() as fake:
        here = ("--host", fake.url)
        ore.run(CAPITAL, "--artifact-out", "run.json", *here)
        ore.run("--verify", "run.json")
        assert ore.run("--artifact-in", "run.json", *here)[0] == "Paris.\n"
        ore.run("--replay", "run.json", *here)
        assert [chat.json["messages"][-1]["content"] for chat in fake.chats] == [CAPITAL] * 3
    kept = ore.folder / "run.json"
    kept.write_text(kept.read_text(encoding="utf-8").replace("Paris", "Lyons"), encoding="utf-8")
    ore.run("--verify", "run.json", code=3)


def the_embedded_model_answers(ore: Installed) -> None:
    models = os.environ["ORE_MODEL_DIR"]
    out, _ = ore.run(CAPITAL, "--backend", "embedded", ORE_MODEL_DIR=models)
    assert "Paris" in out, out


CHECKS: tuple[Callable[[Installed], None], ...] = (
    it_is_not_the_repository,
    it_says_its_version_and_its_flags,
    it_lists_its_tools,
    its_manual_page_and_its_completion_are_there,
    it_has_the_package_s_name_too,
    its_types_are_there,
    what_is_asked_wrongly_is_refused,
    a_missing_server_is_one_sentence,
    a_turn_is_taken_with_the_packaged_persona,
    a_conversation_goes_on,
    a_skill_and_an_env_file_are_read,
    a_run_is_kept_checked_and_run_again,
)


def main() -> None:
    """Check what is named on the command line; ends with 1 at the first thing that does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.smoke", allow_abbrev=False)
    parser.add_argument("command", type=Path, help="the path of the installed ore")
    parser.add_argument(
        "--embedded", action="store_true", help="also ask the model that ORE_MODEL_DIR holds"
    )
    args = parser.parse_args()
    checks = (*CHECKS, the_embedded_model_answers) if args.embedded else CHECKS
    with tempfile.TemporaryDirectory() as folder:
        ore = Installed(args.command, Path(folder))
        for check in checks:
            try:
                check(ore)
            except (AssertionError, OSError, subprocess.TimeoutExpired) as exc:
                raise SystemExit(f"not ok: {check.__name__.replace('_', ' ')}: {exc}") from exc
    print(f"{len(checks)} checks of {args.command}: all hold", file=sys.stderr)


if __name__ == "__main__":
    main()
