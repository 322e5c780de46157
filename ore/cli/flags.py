"""Every flag of the command line, by topic; ``ore.cli.parser`` makes the grammar of it.

What goes together is in ``ore.cli.options``, an example of each in ``ore.cli.help``.
"""

from __future__ import annotations

from typing import NamedTuple


class Flag(NamedTuple):
    """One flag.

    Attributes:
        written: Its spellings and its value, as the help shows them. Without a value it is a switch;
            ``[PATH]`` may be left out, ``PATH ...`` is one or more, ``A B`` are two.
        help: What it does; of a flag of daily use, at most 51 characters.
        daily: Whether ``--help`` alone shows it: at most twenty flags.
        repeats: Whether it may be given again; each value counts.
        choices: The values that it can have; any, if there are none.
        kind: The type of its value.
        allowed: What a value of that type must be, in words.
        bare: The value of one that is given without its value.
        dest: The field of ``Options``, where it is not the long spelling's.
    """

    written: str
    help: str
    daily: bool = False
    repeats: bool = False
    choices: tuple[str, ...] = ()
    kind: type = str
    allowed: str = ""
    bare: str = ""
    dest: str = ""

    @property
    def long(self) -> str:
        """Its long spelling."""
        return "--" + self.written.partition("--")[2].split()[0]

    @property
    def said(self) -> str:
        """What it does, and whether it may be given again."""
        return f"{self.help}; may be given again" if self.repeats else self.help


LAST = "\0last"
"""What ``--last`` is read as where a PATH is asked for; no argument of a process can be that."""

MISPLACED = (
    "stands for the PATH of an artifact: write it after --replay, --show, --verify, --diff, --why, "
    "--report, --after or --artifact-in."
)
"""Why ``--last`` can't stand where it does."""

WHOLE = "a whole number above 0"
SECONDS = "a number of seconds above 0"
SHARE = "a number from 0 to 1"
SHELLS = ("bash", "zsh", "fish")

TOPICS = {
    "models": "where models run, and which one answers",
    "prompt": "what is asked of the model",
    "context": "files, tools, skills and routes: what else the model reads",
    "sessions": "REPLs and conversations, saved or not",
    "output": "how an answer is shown",
    "rows": "a prompt for each row of a table",
    "runs": "a run as one file: written, checked, repeated, compared",
    "help": "what ORE says about itself",
}
"""What ``--help TOPIC`` is about."""

FLAGS: dict[str, tuple[Flag, ...]] = {
    "models": (
        Flag("-m, --model NAME", "a model's name, or a path to a GGUF file", daily=True),
        Flag(
            "--backend NAME",
            "where models run: auto, ollama, embedded or openai; default: ORE_BACKEND, else auto",
            choices=("auto", "ollama", "embedded", "openai"),
        ),
        Flag(
            "--host URL", "the server's address; default: OLLAMA_HOST, for openai OPENAI_BASE_URL"
        ),
        Flag(
            "--timeout SECONDS",
            "longest silence to accept; default: none",
            kind=float,
            allowed=SECONDS,
        ),
        Flag(
            "--deadline SECONDS", "longest whole turn; default: none", kind=float, allowed=SECONDS
        ),
        Flag("--strict-context", "a prompt that does not fit the context window is an error"),
        Flag("--keep-alive TIME", "how long a server keeps the model: 5m, 0, -1"),
        Flag("--list-models", "list the installed models", daily=True),
        Flag("--pull NAME", "fetch a model, and show the progress", daily=True),
        Flag("--insecure", "let --pull ask a registry on another machine over http"),
        Flag("--show-license NAME", "print the licence that came with a model"),
        Flag("--verify-models", "compare the files of all models with their hashes"),
        Flag("--remove-model NAME", "remove a model that ORE has fetched; asks first"),
    ),
    "prompt": (
        Flag("--system TEXT", "the system prompt; @FILE reads a file", daily=True),
        Flag("--no-system", "send no system prompt"),
        Flag("--persona NAME", "a system prompt from ~/.ore/personas/NAME.md"),
        Flag("--list-personas", "list the personas"),
        Flag(
            "-o, --option KEY=VALUE",
            "an option of the model, such as temperature=0",
            daily=True,
            repeats=True,
        ),
        Flag(
            "--think LEVEL",
            "whether, or how much, the model thinks first: on, off, low, medium or high; "
            "default: its own",
            choices=("on", "off", "low", "medium", "high"),
        ),
        Flag(
            "--join-messages WHEN",
            "send all system messages, and neighbours with the same role, as one: auto, always or "
            "never; default: auto, if the model would otherwise miss one",
            choices=("auto", "always", "never"),
        ),
        Flag(
            "--chat-template FILE",
            "a Jinja template instead of the model's own; only for the embedded engine",
        ),
        Flag("--schema SCHEMA", "the answer's shape: fields, JSON Schema, or a file", daily=True),
        Flag(
            "--run FILE",
            "ask what a file says: prompt, model, options; also a plan of --dry-run",
            dest="run_file",
        ),
        Flag(
            "--set KEY=VALUE",
            "the text for {{KEY}} in the file of --run",
            repeats=True,
            dest="values",
        ),
        Flag(
            "--choose WORDS",
            "answer with one of your words (yes,no or @FILE), and say how likely it is",
        ),
        Flag(
            "--min-confidence FLOAT",
            "how likely the word of --choose must be; if it is less, the exit code is 3",
            kind=float,
            allowed=SHARE,
        ),
        Flag("-n, --no-stdin", "do not read stdin, as in a loop over lines of a file"),
        Flag("--image PATH", "an image (PNG, JPEG, WebP) for the prompt", daily=True, repeats=True),
    ),
    "context": (
        Flag(
            "-f, --file PATH",
            "a text file, or a folder, for the model to read",
            daily=True,
            repeats=True,
        ),
        Flag("--tool NAME", "run a tool first; the model reads its result", daily=True),
        Flag("--tool-arg KEY=VALUE", "an argument for the tool", repeats=True),
        Flag("--list-tools", "list the tools and what they need"),
        Flag(
            "--grant PERM",
            "allow filesystem-read, filesystem-write, shell or network",
            repeats=True,
        ),
        Flag("--skill NAME", "activate a skill", daily=True),
        Flag("--list-skills", "list the skills"),
        Flag("--route", "choose a tool or a skill by rule, and say which"),
        Flag(
            "--route-threshold FLOAT",
            "the confidence that a route needs, 0 to 1; default: 0.5",
            kind=float,
            allowed=SHARE,
        ),
    ),
    "sessions": (
        Flag("-i, --interactive", "ask again and again; no turn knows of another"),
        Flag("-c, --conversational", "a conversation, kept in memory", daily=True),
        Flag("-S, --session NAME", "resume a conversation, or begin it; saved", daily=True),
        Flag(
            "-C, --continue",
            "resume the conversation that was used last; saved",
            daily=True,
            dest="continue_last",
        ),
        Flag("--save-session NAME", "a new conversation, saved after each turn"),
        Flag("--resume-session NAME", "go on from a saved conversation"),
        Flag("--list-sessions", "list the conversations, the last used first", daily=True),
        Flag("--show-session NAME", "show a session, or with --json its data"),
        Flag("--search-sessions TEXT", "list the messages that contain a text"),
        Flag("--rename-session OLD NEW", "rename a session"),
        Flag("--delete-session NAME", "delete a session; asks on a terminal"),
        Flag("--yes", "delete or remove without asking"),
        Flag("--export-session NAME", "write a session as Markdown to stdout"),
        Flag("--salvage-session NAME", "save the complete turns of a damaged session"),
    ),
    "output": (
        Flag("-s, --stream", "show the answer as it is written, even in a pipe"),
        Flag("--no-stream", "show the answer all at once, even on a terminal"),
        Flag("-x, --extract", "print only the last code block of the answer", daily=True),
        Flag("-j, --json", "the answer, or a list, as one JSON document", daily=True),
        Flag("--render", "show Markdown on a terminal (needs rich)"),
        Flag("--logprobs", "show how likely each token of the answer was"),
        Flag("-v, --verbose", "token counts and durations after each answer", daily=True),
        Flag("-q, --quiet", "nothing but errors and warnings on stderr", daily=True),
    ),
    "rows": (
        Flag(
            "--rows TABLE",
            "ask the prompt, with its {{column}}s, for every row; - is stdin",
        ),
        Flag(
            "--rows-format NAME",
            "how the table is written: csv, tsv, jsonl or text; default: what its name says",
            choices=("csv", "tsv", "jsonl", "text"),
        ),
        Flag(
            "--expect FILE",
            "a table whose column 'expected' has the answer that each row should get",
        ),
        Flag("--key COLUMN", "a column whose value is shown beside each answer"),
        Flag(
            "--csv", "write the table with the answer as one more column; with --report, its runs"
        ),
        Flag(
            "--jobs N",
            "turns at once; default: 4, with the embedded engine 1",
            kind=int,
            allowed=WHOLE,
        ),
        Flag(
            "--max-failures N",
            "stop when this many rows have failed; default: none",
            kind=int,
            allowed=WHOLE,
        ),
        Flag("--scheduler URL", "send the rows to the workers of a Dask cluster"),
    ),
    "runs": (
        Flag(
            "--artifact-out [PATH]",
            "write the run as one JSON file; bare: to stdout",
            daily=True,
            bare="-",
        ),
        Flag("--artifact-in PATH", "run an artifact's prompt; - is stdin"),
        Flag("--after PATH", "put the answer of an artifact in front of the prompt; - is stdin"),
        Flag(
            "--continuation REASON", "declare in the artifact that there is more to come, and why"
        ),
        Flag(
            "--artifact-full",
            "also keep the messages in the artifact, and the rendered prompt if it is known",
        ),
        Flag(
            "--artifact-text", "keep the system prompt's text, however long; default: up to 64 KiB"
        ),
        Flag("--artifact-hashes-only", "keep only the hash of the system prompt"),
        Flag("--runs FOLDER", "write every turn into a log of runs; default: ORE_RUNS, else none"),
        Flag("--last", "the newest run of the log, instead of the PATH of an artifact"),
        Flag("--dry-run", "show what the model would read, in tokens, and send nothing"),
        Flag("--show PATH", "show an artifact as a page; with --json its data"),
        Flag("--verify PATH ...", "check artifacts, or folders of them, and their chain"),
        Flag(
            "--with-model", "with --verify: whether the model could have said this, and where not"
        ),
        Flag(
            "--allowed-signers FILE",
            "with --verify or --report: who on this list signed each run",
        ),
        Flag(
            "--sign KEY",
            "sign each artifact that is written, or with --verify those that hold: FILE.sig beside it",
        ),
        Flag("--replay PATH ...", "run artifacts again and compare; also folders", daily=True),
        Flag("--diff A B", "compare two artifacts, or two folders of them"),
        Flag(
            "--report PATH ...",
            "an HTML page of artifacts or folders; of two folders, side by side",
        ),
        Flag("--out PATH", "with --report: the file to write; default: stdout"),
        Flag(
            "--as FORM",
            "with --report: fill in a form for a paper, or a trailer for a commit, as Markdown: "
            "methods, worldbank, llm-guidelines or trailer",
            choices=("methods", "worldbank", "llm-guidelines", "trailer"),
            dest="form",
        ),
        Flag("--junit PATH", "write what --replay or --rows found as JUnit XML, for CI"),
        Flag(
            "--why PATH", "find which file, skill or turn an answer rests on, by asking its model"
        ),
        Flag("--by PART", "with --why: for each sentence of the answer", choices=("sentence",)),
    ),
    "help": (
        Flag("-h, --help [TOPIC]", "show the everyday flags, those of a topic, or all"),
        Flag("--version", "show the version"),
        Flag(
            "--print-completion SHELL",
            "write the completion script of bash, zsh or fish (needs shtab)",
            choices=SHELLS,
        ),
    ),
}
"""Every flag, under the topic that ``--help TOPIC`` shows it with."""
