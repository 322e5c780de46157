"""What ``--help`` shows: the flags of daily use, those of a topic, or all, with an example of each.

Knows no grammar: the flags are in ``ore.cli.flags``.
"""

from __future__ import annotations

import textwrap

from ore.cli.flags import FLAGS, TOPICS, Flag
from ore.errors import UsageError
from ore.files.spelling import nearest

WIDTH, COLUMN = 79, 28
SUMMARY = "One prompt, one model call, one answer; text piped in is added below the prompt."
CODES = """\
exit codes: 0 success, 1 failure, 2 wrong usage, 3 a check failed,
129 hung up, 130 interrupted, 141 the reader went away, 143 terminated
"""

EXAMPLES = {
    "--model": 'ore -m mistral "Why is the sky blue?"',
    "--backend": 'ore --backend embedded "Why is the sky blue?"',
    "--host": "ore --host http://192.168.1.7:11434 --list-models",
    "--timeout": 'ore --timeout 60 "Why is the sky blue?"',
    "--deadline": 'ore --deadline 120 "Write a poem on tides"',
    "--strict-context": 'ore --strict-context -f book.txt "What is it about?"',
    "--keep-alive": 'ore --keep-alive 30m "Why is the sky blue?"',
    "--list-models": "ore --list-models",
    "--pull": "ore --pull llama3.2",
    "--insecure": "ore --pull 192.168.1.7:5000/team/small:q4 --insecure",
    "--show-license": "ore --show-license llama3.2",
    "--verify-models": "ore --verify-models",
    "--remove-model": "ore --remove-model llama3.2:1b --yes",
    "--system": 'ore --system "You answer in one word." "Capital of France?"',
    "--no-system": 'ore --no-system "Why is the sky blue?"',
    "--persona": 'ore --persona pirate "Where is the gold?"',
    "--list-personas": "ore --list-personas",
    "--option": 'ore -o temperature=0 -o seed=7 "Why is the sky blue?"',
    "--think": 'ore --think low "What is 17 times 23?"',
    "--join-messages": 'ore --join-messages always -f notes.txt "What is open?"',
    "--chat-template": 'ore -m tiny.gguf --chat-template chatml.jinja "Hi"',
    "--schema": 'ore --schema "name, age int" "Invent a person"',
    "--choose": 'ore --choose yes,no -f mail.txt "Is this spam? Say yes or no."',
    "--min-confidence": 'ore --choose yes,no --min-confidence 0.8 "Is it spam?"',
    "--run": "ore --run summary.ore --set language=French",
    "--set": "ore --run summary.ore --set language=French",
    "--no-stdin": 'ore -n "Why is the sky blue?"',
    "--image": 'ore --image cat.png "What is in the picture?"',
    "--file": 'ore -f notes.txt -f plan.txt "What is missing in the plan?"',
    "--tool": 'ore --tool echo --tool-arg tone=dry "Tell me a joke"',
    "--tool-arg": 'ore --tool echo --tool-arg tone=dry "Tell me a joke"',
    "--list-tools": "ore --list-tools",
    "--grant": 'ore --route --grant filesystem-read "Read the file notes.txt"',
    "--skill": 'ore --skill pdf-tools "How do I join two files?"',
    "--list-skills": "ore --list-skills",
    "--route": 'ore --route "Please merge PDF files"',
    "--route-threshold": 'ore --route --route-threshold 0.8 "Please merge PDF files"',
    "--interactive": "ore -i",
    "--conversational": "ore -c",
    "--session": 'ore -S trip "Where should I go?"',
    "--continue": 'ore -C "And in winter?"',
    "--save-session": "ore --save-session trip",
    "--resume-session": 'ore --resume-session trip "And in winter?"',
    "--list-sessions": "ore --list-sessions",
    "--show-session": "ore --show-session trip",
    "--search-sessions": "ore --search-sessions winter",
    "--rename-session": "ore --rename-session trip norway",
    "--delete-session": "ore --delete-session trip",
    "--yes": "ore --delete-session trip --yes",
    "--export-session": "ore --export-session trip > trip.md",
    "--salvage-session": "ore --salvage-session trip",
    "--stream": 'ore -s "Write a poem on tides" | tee poem.txt',
    "--no-stream": 'ore --no-stream "Write a poem on tides"',
    "--extract": 'ore -x "A shell command that counts lines" > count.sh',
    "--json": 'ore -j "Why is the sky blue?" | jq -r .content',
    "--render": 'ore --render "A table of the planets"',
    "--logprobs": 'ore --logprobs -j "Capital of France?" | jq .metadata.logprob',
    "--verbose": 'ore -v "Why is the sky blue?"',
    "--quiet": 'ore -q "Why is the sky blue?"',
    "--rows": 'ore --rows cities.csv "Where is {{city}}?" --artifact-out out/',
    "--rows-format": 'ore --rows words --rows-format text "Define {{line}}"',
    "--expect": "ore --rows cities.csv --run city.ore --expect cities.csv",
    "--key": 'ore --rows cities.csv "Where is {{city}}?" --key id',
    "--csv": 'ore --rows cities.csv "Where is {{city}}?" --csv > answers.csv',
    "--jobs": 'ore --rows cities.csv "Where is {{city}}?" --jobs 8',
    "--max-failures": 'ore --rows cities.csv "Where is {{city}}?" --max-failures 10',
    "--scheduler": 'ore --rows cities.csv "Where is {{city}}?" --scheduler tcp://HOST:8786',
    "--artifact-out": 'ore --artifact-out run.json "Draft a title"',
    "--artifact-in": "ore --artifact-in run.json --json",
    "--after": 'ore --after run.json "Shorten it" --artifact-out short.json',
    "--continuation": 'ore --artifact-out run.json --continuation draft "Draft a title"',
    "--runs": 'ore --runs ~/runs "Draft a title"',
    "--last": "ore --replay --last --model mistral",
    "--artifact-full": 'ore --artifact-out run.json --artifact-full "Draft a title"',
    "--artifact-text": 'ore --artifact-out run.json --artifact-text --system @long.txt "Hi"',
    "--artifact-hashes-only": 'ore --artifact-out run.json --artifact-hashes-only "Hi"',
    "--dry-run": 'ore --dry-run -f notes.txt "What is open?"',
    "--show": "ore --show run.json > run.md",
    "--verify": "ore --verify runs/*.json",
    "--with-model": "ore --verify --with-model run.json",
    "--allowed-signers": "ore --verify runs/ --allowed-signers lab.signers",
    "--sign": 'ore --artifact-out run.json --sign ~/.ssh/id_ed25519 "Draft a title"',
    "--replay": "ore --replay runs/*.json",
    "--diff": "ore --diff old.json new.json",
    "--report": "ore --report runs/ --out report.html",
    "--out": "ore --report runs/ --out report.html",
    "--as": "ore --report runs/ --as methods > methods.md",
    "--junit": "ore --replay runs/*.json --junit report.xml",
    "--why": "ore --why run.json",
    "--by": "ore --why run.json --by sentence",
    "--help": "ore --help sessions",
    "--version": "ore --version",
    "--print-completion": "ore --print-completion bash",
}
"""One example of each flag, at most 75 characters, by its long spelling."""


def help_text(topic: str) -> str:
    """Return what ``--help TOPIC`` shows; an empty topic is the flags of daily use.

    Raises:
        UsageError: There is no such topic.
    """
    if not topic:
        return _daily()
    if topic == "all":
        return "\n".join([SUMMARY + "\n", *map(_page, TOPICS), CODES])
    if topic not in TOPICS:
        meant = nearest(topic, TOPICS)
        hint = f"; the nearest is '{meant}'" if meant else ""
        raise UsageError(
            f"--help has no topic '{topic}'{hint}: there are {', '.join(TOPICS)} and all."
        )
    return _page(topic)


def _daily() -> str:
    flags = [flag for topic in TOPICS for flag in FLAGS[topic] if flag.daily]
    more = f"More: --help {', '.join([*TOPICS, 'all'])}"
    rows = "".join(_row(flag, flag.help) for flag in flags)
    return f"usage: ore [prompt] [flags]\n{SUMMARY}\n{rows}{more}\n"


def _page(topic: str) -> str:
    flags = FLAGS[topic]
    rows = "".join(f"{_row(flag, flag.said)}    {EXAMPLES[flag.long]}\n" for flag in flags)
    return f"{topic}: {TOPICS[topic]}\n\n{rows}"


def _row(flag: Flag, said: str) -> str:
    first = f"  {flag.written}".ljust(COLUMN)
    return textwrap.fill(said, WIDTH, initial_indent=first, subsequent_indent=" " * COLUMN) + "\n"
