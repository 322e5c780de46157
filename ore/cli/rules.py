"""Which flags go together: tables that ``ore.cli.options`` checks, and that docs are made of."""

from __future__ import annotations

SESSION_VERBS = (
    *("--list-sessions", "--show-session", "--search-sessions", "--rename-session"),
    *("--delete-session", "--export-session", "--salvage-session"),
)
ARTIFACT_VERBS = ("--show", "--verify", "--replay", "--diff", "--why", "--report")
VERBS = (
    *("--list-models", "--list-personas", "--list-tools", "--list-skills", "--pull"),
    *("--show-license", "--verify-models", "--remove-model"),
    *SESSION_VERBS,
    *ARTIFACT_VERBS,
    "--rows",
)
"""Flags that do one thing without a turn of the user's own."""

BESIDE_VERBS = ("--json", "--yes", "--host", "--backend", "--verbose", "--quiet")
BESIDE_MODEL_VERBS: dict[str, tuple[str, ...]] = {
    "--replay": (
        *("--junit", "--model", "--option", "--timeout", "--deadline", "--strict-context"),
        "--chat-template",
    ),
    "--why": ("--by", "--model", "--timeout", "--deadline", "--chat-template"),
    "--verify": ("--with-model", "--model", "--timeout", "--deadline", "--chat-template"),
}
"""What a verb that asks a model takes besides; ``--verify`` does so ``--with-model`` only."""
BESIDE_ARTIFACT_VERBS = ("--runs",)
OF_REPORTS = ("--out", "--as")
"""Flags about a report."""
OF_ROWS = (
    *("--rows-format", "--expect", "--key", "--csv", "--jobs", "--max-failures"),
    "--scheduler",
)
"""Flags about rows."""
BESIDE_VERB: dict[str, tuple[str, ...]] = {
    "--pull": ("--insecure",),
    "--verify": ("--allowed-signers", "--sign"),
    "--report": (*OF_REPORTS, "--csv", "--allowed-signers"),
    "--rows": (
        *("a prompt", "--run", "--set", "--model", "--option", "--think", "--join-messages"),
        *("--timeout", "--deadline", "--strict-context", "--keep-alive", "--no-stdin"),
        *("--system", "--no-system", "--persona", "--schema", "--file", "--skill"),
        *("--runs", "--artifact-out", "--artifact-full", "--artifact-text", "--sign"),
        *("--choose", "--min-confidence", "--artifact-hashes-only", "--dry-run", "--junit"),
        *OF_ROWS,
    ),
}
"""What a verb takes besides; of ``--rows``, it is what every row is asked alike."""
WITH_ROWS = (("--dry-run", "--artifact-out"),)
"""What goes together with ``--rows`` alone: its dry run says what is in the folder."""
MOST_JOBS = 256
"""Turns at once."""
OF_ARTIFACTS = (
    *("--artifact-full", "--artifact-text", "--artifact-hashes-only", "--continuation"),
    "--sign",
)
"""Flags about an artifact that is written."""
NEEDS = (
    ("--tool-arg", ("--tool",), "name the tool that it is for"),
    ("--junit", ("--replay", "--rows"), "it is a report of what was found"),
    ("--set", ("--run",), "name the file that has a place for it"),
    ("--insecure", ("--pull",), "it says how a registry may be asked"),
    ("--route-threshold", ("--route",), "it says when to route"),
    ("--with-model", ("--verify",), "name the artifacts to judge"),
    ("--allowed-signers", ("--verify", "--report"), "name the artifacts that they signed"),
    ("--by", ("--why",), "name the artifact to look into"),
    ("--min-confidence", ("--choose", "--run"), "give the words to choose from"),
    ("--yes", ("--delete-session", "--remove-model"), "there is nothing else to confirm"),
    *((flag, ("--rows",), "name the table that it is for") for flag in OF_ROWS if flag != "--csv"),
    ("--csv", ("--rows", "--report"), "name the table, or the artifacts, that it is for"),
    ("--out", ("--report",), "an answer goes into a file with > FILE after the command"),
    ("--as", ("--report",), "name the artifacts to report on"),
)
"""What needs another flag: itself, those of which one is enough, and the end of a sentence."""

ARTIFACT_PATHS = ("artifact_in", "after", "show", "verify", "replay", "diff", "why", "report")
"""The fields that hold paths of artifacts, in whose place ``--last`` may stand."""

NAMES = {
    "prompt": "a prompt",
    "continue_last": "--continue",
    "run_file": "--run",
    "values": "--set",
    "form": "--as",
}
"""How a field is written, where it is not its own name with dashes."""

REPL = "a REPL (-i, -c, or a session flag without a prompt)"
STDOUT_ARTIFACT = "--artifact-out to stdout"
STDIN_ARTIFACT = "an artifact from stdin (--artifact-in -, --after -)"

SYSTEM_FLAGS = ("--system", "--no-system", "--persona")
DEFAULT_SYSTEM = "ORE_SYSTEM"
"""The variable that stands behind them."""

SESSION_FLAGS = ("--save-session", "--resume-session", "--session", "--continue")

NOT_WITH: dict[str, tuple[str, ...]] = {
    "--interactive": ("--conversational", *SESSION_FLAGS),
    "--session": ("--save-session", "--resume-session"),
    "--continue": ("--save-session", "--resume-session", "--session"),
    "--route": ("--tool",),
    "--stream": ("--no-stream",),
    "--json": ("--stream", REPL),
    "--artifact-in": (
        *("a prompt", *SESSION_FLAGS, REPL),
        *("--file", "--tool", "--route", "--skill"),
    ),
    "--after": ("--artifact-in", REPL),
    "--run": ("a prompt", "--artifact-in", REPL),
    "--continuation": (REPL,),
    "--artifact-out": ("--stream", REPL),
    "--artifact-hashes-only": ("--artifact-text", "--artifact-full"),
    STDOUT_ARTIFACT: ("--json",),
    "--render": ("--json", STDOUT_ARTIFACT),
    "--csv": ("--json",),
    "--sign": (STDOUT_ARTIFACT, "--allowed-signers", "--with-model"),
    "--report": ("--json",),
    "--as": ("--csv",),
    "--dry-run": ("--artifact-out", REPL),
    "--system": ("--no-system", "--persona"),
    "--no-system": ("--persona",),
    "--schema": ("--stream", REPL),
    "--extract": ("--stream", "--json", "--render", "--schema", STDOUT_ARTIFACT, REPL),
    "--choose": (
        *("--stream", "--schema", "--extract", "--render", "--image", "--logprobs"),
        *("--think", REPL),
    ),
    "--image": (REPL,),
    "--no-stdin": (REPL, STDIN_ARTIFACT),
}
"""What can't be used together: a flag, and those that it can't be used with."""

CONFLICTS = tuple((flag, other) for flag, others in NOT_WITH.items() for other in others)
