"""Draw the pictures in ``docs/images``: ORE in a real terminal, with the embedded model.

Needs tmux, jq, the extras ``rich`` and ``embedded``, and the model (``ore --pull smollm2:135m``; ORE_MODEL_DIR
names its folder). By hand: ``python docs/captures.py``, or ``python docs/captures.py NAME ...``.

What is shown is what was printed. In a moving picture (``MOVING``) waiting is cut to a fixed pace, which
CSS keeps: no script, played once, at most 20 seconds, and with animations off the last frame.
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
PS1='\\[\\e[32m\\]$\\[\\e[0;1m\\] '
PS0='\\e[0m'
ore() { %s "$@"; }
clear
"""

FORGE = f"""\
#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from tests.support.runs import forge

forge(*sys.argv[1:])
"""

FILES = {
    "boat": "The boat is in the cellar. The road was dry.\n",
    "ada": "Ada will arrive on Friday.\n",
    "countries.csv": "country\nFrance\nJapan\nGermany\n",
    "forge": FORGE,
}
"""What is in the folder."""

COLUMN = 12.2
"""The width of a character in ``rich``'s SVG."""

_LED_BY_SPACES = re.compile(
    r'(<text [^>]*?)x="([\d.]+)"([^>]*?)textLength="([\d.]+)"([^>]*>)((?:&#160;)+)(?=[^&<])'
)

_LINE_END = re.compile(r"<text [^>]*>\n</text>")

_ROW = re.compile(
    r'((?:<text [^>]*clip-path="url\(#[a-z]+-line-(\d+)\)">[^<]*</text>)'
    r'(?:<text [^>]*clip-path="url\(#[a-z]+-line-\2\)">[^<]*</text>)*)'
)
"""What stands in one line of ``rich``'s SVG, and the line's number."""

Step = tuple[str, str]
"""What is typed, and what is waited for afterwards."""

PICTURES: dict[str, list[Step]] = {
    "proof": [
        ("ore 'Name the capital of France.' --artifact-out france.json", "$ "),
        ("ore --verify france.json", "$ "),
        ("sed -i s/Paris/Lyons/ france.json   # one word of the answer", "$ "),
        ("ore --verify --with-model france.json", "$ "),
        ("sed -i s/Lyons/Paris/ france.json   # as it was", "$ "),
        ("ore --replay france.json", "$ "),
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
        ("ore --rows countries.csv 'Name the capital of {{country}}.' -q > answers.jsonl", "$ "),
        ("jq -r .content answers.jsonl", "$ "),
        ("ore --artifact-out run.json 'Name three fruits.'", "$ "),
        ("ore --artifact-in run.json -q | tee fruits.txt | wc -l", "$ "),
        ("ore -f boat -f ada -q 'Where is the boat?' > answer.txt; cat answer.txt", "$ "),
    ],
    "repl": [
        ("ore -c", "You: "),
        ("Name the capital of France.", "You: "),
        ("And the capital of Japan?", "You: "),
        ("/show", "You: "),
    ],
    "render": [
        ("ore -i --render", "You: "),
        ("Write a Markdown list of three fruits, their names in bold.", "You: "),
    ],
}

MOVING = {"proof"}
"""The pictures that are typed as one looks."""

PLAIN = {"proof", "why"}
"""The pictures of checks, of which one is meant not to hold: without colours (``NO_COLOR``)."""

BEFORE, KEY, ENTER, NEXT, READ = 0.4, 0.03, 0.3, 0.1, 1.4
"""Seconds: before a command, for a key of it, after it, for a line that it prints, to read them."""
STILL = 1.2
"""Seconds that the whole picture is shown first, for whoever looks at one frame."""
LONGEST = 20.0


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
    variables |= {"NO_COLOR": "1"} if name in PLAIN else {}
    env = [word for name, value in variables.items() for word in ("-e", f"{name}={value}")]
    made.run("new-session", "-d", "-s", "it", "-c", str(folder), *size, *env, "bash --rcfile rc -i")
    try:
        made.wait("$ ", 1)
        yield made
    finally:
        made.run("kill-server")


def draw(name: str, screen: str, starts: list[int]) -> None:
    """Write a screen as SVG, with no font fetched from anywhere.

    Args:
        name: Of the picture.
        screen: What the terminal shows, with colours as escape sequences.
        starts: The line of the screen that each step was typed in.
    """
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS + 1, file=open(os.devnull, "w", encoding="utf-8"))
    console.print(Text.from_ansi(screen), no_wrap=True)
    svg = console.export_svg(title="ore", theme=MONOKAI, unique_id=name)
    svg = re.sub(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = _LED_BY_SPACES.sub(_begin_later, _LINE_END.sub("", svg))
    if name in MOVING:
        svg = moving(svg, [len(typed) for typed, _ in PICTURES[name]], starts)
    lines = [line.rstrip() for line in svg.splitlines()]
    (IMAGES / f"{name}.svg").write_text("\n".join(lines) + "\n", encoding="utf-8")


def moving(svg: str, lengths: list[int], starts: list[int]) -> str:
    """Return the picture with its commands typed and its lines shown one after the other.

    Raises:
        SystemExit: It would take longer than ``LONGEST``.
    """
    last = max(int(match[2]) for match in _ROW.finditer(svg))
    ends = [*starts[1:], last]
    clock, rules = STILL, list[str]()
    for length, first, after in zip(lengths, starts, ends, strict=True):
        rules.append(_later(f".row-{first}", clock))
        clock += BEFORE
        typing = f", typed {length * KEY:.2f}s {clock:.2f}s steps({length})"
        rules.append(_later(f".row-{first} .keys", clock, typing))
        clock += length * KEY + ENTER
        for row in range(first + 1, after):
            rules.append(_later(f".row-{row}", clock))
            clock += NEXT
        clock += READ if after > first + 1 else 0.0
    rules.append(_later(f".row-{last}", clock))
    if clock > LONGEST:
        raise SystemExit(f"{clock:.1f} s are more than {LONGEST:g}")
    style = f"""
@keyframes later {{ from, to {{ visibility: hidden }} }}
@keyframes typed {{ from {{ clip-path: inset(0 100% 0 0) }} to {{ clip-path: inset(0 0 0 0) }} }}
@media (prefers-reduced-motion: no-preference) {{
{chr(10).join(rules)}
}}
"""
    return _ROW.sub(_in_groups, svg).replace("</style>", f"{style}    </style>", 1)


def _later(what: str, when: float, then: str = "") -> str:
    """A rule that hides something from the end of the still to ``when``, in seconds."""
    return f"{what} {{ animation: later {when - STILL:.2f}s {STILL:g}s{then} }}"


def _in_groups(match: re.Match[str]) -> str:
    """Put a line's texts into a group, and what follows its prompt into one inside it."""
    texts, number = match.groups()
    prompt, end, rest = texts.partition("</text>")
    return f'<g class="row-{number}">{prompt}{end}<g class="keys">{rest}</g></g>'


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
            starts = []
            for typed, expected in PICTURES[name]:
                starts.append(shell.text().count("\n"))
                seen[expected] = seen.get(expected, 0) + 1
                shell.type(typed)
                shell.wait(expected, seen[expected])
            draw(name, shell.colours(), starts)


if __name__ == "__main__":
    main()
