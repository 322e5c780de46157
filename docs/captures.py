"""Draw the pictures in ``docs/images``: ORE in a real terminal, with the embedded model.

Needs tmux, the extras ``rich`` and ``embedded``, and the model (``ore --pull smollm2:135m``; ORE_MODEL_DIR
names its folder). By hand: ``python docs/captures.py``.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
ROWS, COLUMNS = 32, 84
PATIENCE = 120.0  # seconds

SHELL = """\
PS1='$ '
ore() { %s "$@"; }
clear
"""
NOTES = "Buy milk and bread.\nCall Ada about the boat on Friday.\nThe rent is due on the first.\n"

FORGE = f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.runs import forge

forge(*sys.argv[1:])
"""

FILES = {
    "notes.txt": NOTES,
    "boat": "The boat is in the cellar. The road was dry.\n",
    "ada": "Ada will arrive on Friday.\n",
    "forge": FORGE,
}
"""What is in the folder."""

COLUMN = 12.2
"""The width of a character in ``rich``'s SVG."""

_LED_BY_SPACES = re.compile(
    r'(<text [^>]*?)x="([\d.]+)"([^>]*?)textLength="([\d.]+)"([^>]*>)((?:&#160;)+)(?=[^&<])'
)

Step = tuple[str, str]
"""What is typed, and what is waited for afterwards."""

PICTURES: dict[str, list[Step]] = {
    "repl": [
        ("ore -c -v", "You: "),
        ("Name three fruits.", "tok/s"),
        ("Which of them is yellow?", "tok/s"),
        ("/show", "active"),
        ("/clear", "begin another"),
    ],
    "render": [
        ("ore -i --render", "You: "),
        ("Write a Markdown list of three fruits, their names in bold.", "You: "),
        ("Show a short Python function that adds two numbers.", "You: "),
    ],
    "why": [
        (
            "ore -f boat -f ada --artifact-full --artifact-out a.json 'Where is the boat?'",
            "$ ",
        ),
        ("ore --why a.json", "$ "),
        ("./forge a.json cellar garden  # edits the answer, and mends its hashes", "$ "),
        ("ore --verify a.json", "$ "),
        ("ore --verify --with-model a.json", "$ "),
    ],
    "pipes": [
        ("ore --artifact-out run.json 'Name three fruits.'", "$ "),
        ("ore --artifact-in run.json | tee fruits.txt | wc -l", "$ "),
        ("cat notes.txt | ore 'Give these notes a title.' -q > title.txt; cat title.txt", "$ "),
        ("ore -f notes.txt --tool read-file --tool-arg path=title.txt 'Hi'", "$ "),
        ("ore --list-tools", "$ "),
    ],
}


class Terminal:
    """A tmux session that is typed into and looked at."""

    def __init__(self, socket: str) -> None:
        self._tmux = ["tmux", "-L", socket, "-f", "/dev/null"]

    def run(self, *args: str) -> str:
        """Run one tmux command and return what it says."""
        done = subprocess.run([*self._tmux, *args], check=True, capture_output=True, text=True)
        return done.stdout

    def type(self, line: str) -> None:
        """Type a line and Enter."""
        self.run("send-keys", "-t", "it", "-l", line)
        self.run("send-keys", "-t", "it", "Enter")

    def text(self) -> str:
        """What the screen shows, without its empty end."""
        return self.run("capture-pane", "-p", "-t", "it").rstrip()

    def colours(self) -> str:
        """What the screen shows, with colours as escape sequences."""
        return self.run("capture-pane", "-e", "-N", "-p", "-t", "it").rstrip()

    def wait(self, text: str, times: int) -> None:
        """Wait until a text is on the screen so often, and the prompt stands at its end."""
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit:
            shown = self.text() + " "
            if shown.count(text) >= times and shown.endswith(("You: ", "$ ")):
                return
            time.sleep(0.1)
        raise SystemExit(f"{text!r} did not come:\n{self.text()}")


@contextmanager
def terminal(name: str, folder: Path) -> Iterator[Terminal]:
    """Yield a terminal with a shell in a folder of its own."""
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'main.py'))}"
    (folder / "rc").write_text(SHELL % command, encoding="utf-8")
    for file, text in FILES.items():
        (folder / file).write_text(text, encoding="utf-8")
    (folder / "forge").chmod(0o700)
    made = Terminal(f"captures-{name}-{os.getpid()}")
    size = ("-x", str(COLUMNS), "-y", str(ROWS))
    variables = {"HOME": str(folder), "ORE_BACKEND": "embedded", "ORE_HISTORY": "off"}
    env = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    made.run("new-session", "-d", "-s", "it", "-c", str(folder), *size, *env, "bash --rcfile rc -i")
    try:
        made.wait("$ ", 1)
        yield made
    finally:
        made.run("kill-server")


def draw(name: str, screen: str) -> None:
    """Write a screen as SVG, with no font fetched from anywhere."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS + 1, file=open(os.devnull, "w", encoding="utf-8"))
    console.print(Text.from_ansi(screen), no_wrap=True)
    svg = console.export_svg(title="ore", theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = _LED_BY_SPACES.sub(_begin_later, svg)
    lines = [line.rstrip() for line in svg.splitlines()]
    (IMAGES / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _begin_later(match: re.Match[str]) -> str:
    """Put a text where its first letter is: some viewers leave out the spaces before it."""
    before, x, between, length, after, spaces = match.groups()
    moved = COLUMN * spaces.count("&#160;")
    x, length = f"{float(x) + moved:g}", f"{float(length) - moved:g}"
    return f'{before}x="{x}"{between}textLength="{length}"{after}'


def main() -> None:
    """Draw every picture, or those that are named."""
    IMAGES.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
            terminal(name, Path(folder)) as shell,
        ):
            seen: dict[str, int] = {"$ ": 1}
            for typed, expected in PICTURES[name]:
                seen[expected] = seen.get(expected, 0) + 1
                shell.type(typed)
                shell.wait(expected, seen[expected])
            draw(name, shell.colours())


if __name__ == "__main__":
    main()
