"""The numbers, days and phrases on pages are those of the code."""

from __future__ import annotations

import calendar
import re
from pathlib import Path

import pytest

from ore import artifact, router, tools
from ore.artifact import seal, ssh_keygen
from ore.backends import (
    Backend,
    cluster,
    cluster_link,
    download,
    engine,
    engine_child,
    engine_folder,
    engine_load,
    engine_request,
    engine_turn,
    freeing,
    hardware,
    http,
    images,
    llama_score,
    manifest,
    ollama,
    ollama_client,
    ollama_models,
    registry,
    registry_failures,
    vllm_score,
)
from ore.cli import prompt
from ore.cli.terminal import asking, editing, history, markdown
from ore.files import strictjson
from ore.glass import choosing, judging, limits, personas, provenance
from ore.report import collecting, forms, page, pairs, run_facts
from ore.rows import expectations, kept, table_lines, tally
from ore.skills import MAX_RESOURCES, MAX_RESOURCES_BYTES, frontmatter, levels
from ore.store import names, session_text
from ore.tools import named_files, own
from ore.types import artifact_fields

DOCS = Path(__file__).parents[2] / "docs"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
WORDS = {
    **{2.0: "two", 3.0: "three", 4.0: "four", 5.0: "five", 6.0: "six", 8.0: "eight", 10.0: "ten"},
    **{
        12.0: "dozen",
        1000.0: "thousand",
        30.0: "half a minute",
        60.0: "a minute",
        100.0: "a hundred",
        7 * 86_400: "a week",
    },
}

PROMISED = {
    "artifact-schema": [
        f"larger than {artifact.MAX_ARTIFACT_BYTES // MIB} MiB ({artifact.MAX_ARTIFACT_BYTES:,} bytes)",
        f"more than {artifact_fields.MAX_VALUES:,} values (objects",
        f"longer than {provenance.LONGEST_KEPT_TEXT // KIB} KiB without",
        f"the first {seal._VALUE_DIGITS} digits of the hash",
        f"nesting beyond {strictjson.MAX_DEPTH} levels",
    ],
    "artifacts": [
        f"A system prompt of up to {provenance.LONGEST_KEPT_TEXT // KIB} KiB is kept",
        f"An artifact with more than {artifact_fields.MAX_VALUES:,} values is refused",
    ],
    "cli": [
        f"Together they may have up to {prompt.LONGEST_PROMPT // MIB} MiB",
        f"silent for {WORDS[prompt.PATIENCE]} seconds",
        f"a text file of up to {named_files.LARGEST_FILE // MIB} MiB",
        f"below it, up to {named_files.MOST_FILES:,}, in order",
    ],
    "configuration": [
        f"UTF-8, at most {personas.LONGEST_SYSTEM_PROMPT // MIB} MiB",
        f"PNG, JPEG or WebP, at most {images.MOST_IMAGE_BYTES // MIB} MiB each",
    ],
    "embedded": [
        f"{engine.WINDOW:,} tokens, or `-o num_ctx=N`, {engine_request.LEAST_WINDOW} at least",
        f"answers end after {engine_turn.PINNED_ANSWER_TOKENS:,} tokens",
        f"stops within {engine_load._BATCH_TOKENS} tokens",
        f"a model below {hardware.SMALL_MODEL_BYTES // MIB} MiB",
        f"and {engine_load._SPARE_BYTES // GIB} GiB",
        f"stops after {WORDS[engine_load._CIRCLES_SECONDS]} seconds of computing",
        f"after {WORDS[engine_load._LOAD_SECONDS]}, plus a second for each "
        f"{engine_load._LOAD_BYTES_A_SECOND // MIB} MiB",
        f"text of a prompt stops after {WORDS[engine._TEMPLATE_SECONDS]} seconds",
        f"ends within {WORDS[engine._STOP_SECONDS]} seconds",
        f"gets larger than {engine_child.LOG_BYTES // MIB} MiB",
        f"takes {engine_child.CONNECTIONS} connections at a time",
        f"load that is more than {WORDS[engine_folder._STALE_SECONDS]} later",
    ],
    "evidence": [
        f"There can be {choosing.MOST_WORDS:,} words at most",
        f"their tokens can be in {llama_score.MOST_PLACES} places at most",
        f"the {llama_score._LIKELY:,} likeliest tokens",
        f"known for the {llama_score.NEXT_BEST} likeliest",
        f"If that is below {limits.SELDOM:g}, stderr",
        f"at most {vllm_score.MOST_TOKENS:,} tokens in all",
    ],
    "faq": [f"After {WORDS[prompt.PATIENCE]} seconds"],
    "models": [
        f"up to {manifest.MANIFEST_BYTES // MIB} MiB and {manifest._MOST_LAYERS:,} layers",
        f"after its first {download.HEAD_BYTES // MIB} MiB",
        f"after {WORDS[registry_failures.MOST_TRIES]} tries",
        f"parts of {download.PART_BYTES // MIB} MiB, {WORDS[download.AT_ONCE]} at a time",
        f"removes it after {WORDS[freeing._STALE_SECONDS]}",
        f"Redirects**: up to {WORDS[registry._MOST_REDIRECTS]}.",
    ],
    "ollama": [
        f"no connection within {http.CONNECT_SECONDS:g} seconds",
        f"larger than {http.LINE_LIMIT // MIB} MiB, or an answer larger than {http.REPLY_LIMIT // MIB} MiB",
        f"up to {http.MOST_SHOWN} characters",
        f"up to {ollama_models._MOST_ASKED} models",
        f"above {ollama_client._USUAL:,}, or the server counted more than {ollama_client._LARGE} tokens",
    ],
    "repl": [
        f"If you type more than {editing._MOST_AHEAD:,} bytes",
        f"up to {asking.LONGEST_LINE // MIB} MiB, typed or piped",
        f"last {history.MOST_ENTRIES:,} entries, of up to {history.MOST_BYTES // KIB} KiB each",
        f"more than {markdown.MOST_CHARACTERS:,} characters, or {WORDS[markdown.MOST_SECONDS]} seconds",
        f"line comes {WORDS[limits.TOO_OFTEN]} times within {WORDS[limits.RECENT]} lines",
        f"up to {limits.LONGEST_CIRCLE:,} lines come {WORDS[limits.TOO_OFTEN]} times in turn",
    ],
    "report": [
        f"first {page.MOST_WITHOUT_SCRIPT} runs. It holds {collecting.MOST_RUNS:,} files at most",
        f"it shows {run_facts.LONGEST_TEXT:,} characters",
        f"take {collecting.MOST_TEXT // 1_000_000} MB at most",
        f"answers of more than {pairs.MOST_WORDS:,} words",
        f"more than {WORDS[pairs.MOST_SECONDS]} seconds",
        f"up to {forms.MOST_IN_LINE} values, and a list up to {forms.MOST_TEXTS} texts",
    ],
    "rows": [
        f"A row may have up to {table_lines.LONGEST_ROW // MIB} MiB",
        f"after {WORDS[tally.UNREACHABLE_IN_A_ROW]} rows in a row",
        f"Once {WORDS[tally.FIRST_GUESS]} rows have an answer",
        f"A server gets {Backend.at_once} at once",
        f"it gets N slots, {engine_request.MOST_AT_ONCE} at most",
        f"a subfolder for each {WORDS[kept.ROWS_A_FOLDER]} rows",
    ],
    "routing": [
        f"gives `1 - {router._MISS}**n`",
        f"begins with it, {router._BONUS} is added",
        f"That is {router.DEFAULT_CONFIDENCE_THRESHOLD}, or the number",
        f"lists the first {WORDS[router._MOST_HINTS]} that exist",
    ],
    "run-files": [f"in the answer, within {expectations.PATTERN_SECONDS:g} seconds"],
    "scale": [
        f"workers' threads, {cluster.MOST_AT_ONCE} at most",
        f"within {cluster.CONNECT_SECONDS:g} seconds, or within `--deadline`",
        f"that long and {cluster_link.SPARE_SECONDS:g} seconds more",
        f"says so after {WORDS[cluster_link.QUIET_SECONDS]}",
    ],
    "security": [
        f"a signature of at most {ssh_keygen.MOST_BYTES // KIB} KiB",
        f"{http.LINE_LIMIT // MIB} MiB a line and {http.REPLY_LIMIT // MIB} MiB an answer",
    ],
    "sessions": [
        f"at most {names.MOST_CHARACTERS} characters and {names.MOST_NAME_BYTES} bytes",
        f"a name of more than {names.MOST_FILE_BYTES - len(names.META)} bytes",
        f"larger than {session_text.LARGEST_SESSION // MIB} MiB",
    ],
    "signing": [
        f"or larger than {ssh_keygen.MOST_BYTES // KIB} KiB",
        f"after {ssh_keygen.SECONDS:g} seconds, or after {WORDS[ssh_keygen.SECONDS_TO_TYPE / 60]} minutes",
    ],
    "skills": [
        f"at most {levels.MAX_SKILL_BYTES // MIB} MiB long",
        f"at most {frontmatter.MAX_FRONTMATTER_BYTES // KIB} KiB further on",
        f"a UTF-8 text of at most {levels.MAX_RESOURCE_BYTES // KIB} KiB",
        f"at most {MAX_RESOURCES_BYTES // MIB} MiB in all, and it looks for {MAX_RESOURCES:,} files",
        f"nested deeper than {frontmatter.MAX_DEPTH} levels",
        f"single hyphens, at most {levels._SPEC_NAME_LENGTH}, like the folder",
    ],
    "tools": [
        f"a regular file of at most {tools.MAX_FILE_BYTES // MIB} MiB",
        f"how long it may run: {own.USUAL_SECONDS:g} unless you say otherwise, "
        f"and at most {own.LONGEST_SECONDS:g}",
    ],
    "why": [f"give or take {judging.MOST_NATS:g} nats at each token"],
}
OF_EXTRAS = [
    (
        "ore.backends.validation",
        "configuration",
        lambda code: [
            f"can't be checked within {code.LONGEST:g} seconds counts as one that does not fit",
            f"can't be checked within {code.LONGEST_CHECK:g} seconds is refused",
        ],
    ),
    (
        "ore.backends.cluster_child",
        "scale",
        lambda code: [
            f"up to {WORDS[code.RETRIES]} times. If there is none for {WORDS[code.ALONE_SECONDS]}",
            f"of at most {code.MOST_MEMORY // GIB} GiB",
        ],
    ),
]


@pytest.mark.parametrize("name", PROMISED)
def test_a_page_has_the_numbers_of_the_code(name):
    assert not_on_page(name, PROMISED[name]) == []


@pytest.mark.parametrize("module, name, promised", OF_EXTRAS, ids=["schema", "cluster"])
def test_a_page_has_the_numbers_of_code_that_needs_an_extra(module, name, promised):
    code = pytest.importorskip(module, exc_type=ImportError)
    assert not_on_page(name, promised(code)) == []


def test_the_window_of_a_loaded_model_is_asked_for_as_long_as_the_page_says():
    assert not_on_page("ollama", ["(`/api/ps`, half a second at most)"]) == []
    assert ollama._WINDOW_SECONDS[0] == 0.5


@pytest.mark.parametrize("name", [name for name in forms.NAMES if name != "methods"])
def test_a_page_has_the_day_of_a_published_form(name):
    year, month, *days = re.findall(r"\d+", forms.load(name).date[:10])
    said = " ".join([*(f"{int(day)}" for day in days), calendar.month_name[int(month)], year])
    [row] = [
        line for line in (DOCS / "report.md").read_text().splitlines() if f"| `{name}` |" in line
    ]
    assert row.endswith(f"| {said} |")


@pytest.mark.parametrize("name", tools.TOOL_REGISTRY)
def test_a_page_has_the_hints_of_a_tool(name):
    *others, last = (f"`{hint}`" for hint in tools.TOOL_REGISTRY[name].routing_hints())
    assert not_on_page("tools", [f"Its hints are {', '.join(others)} and {last}."]) == []


def not_on_page(name: str, promised: list[str]) -> list[str]:
    """Return what of ``promised`` a page does not say."""
    text = " ".join((DOCS / f"{name}.md").read_text(encoding="utf-8").split())
    return [each for each in promised if each not in text]
