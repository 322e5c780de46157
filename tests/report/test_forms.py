"""Published forms, filled from artifacts: each field is there, and no text of a run breaks the page."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ore.artifact.canonical import text_digest
from ore.artifact.seal import seal
from ore.report import form_facts
from ore.report.form_facts import gather
from ore.report.form_values import MOST_VALUES
from ore.report.forms import _COUNTED, NAMES, filled, load
from tests.support import reported
from tests.support.keys import allow, make_key, needs_ssh_keygen
from tests.support.runs import record

DIGEST = "17177962e7134a1a4a6e0d4b1b2c3d4e5f60718293a4b5c6d7e8f90123456789"
EFFECTIVE = {
    "parameters": {
        "temperature": {"value": 0, "from": "user"},
        "top_k": {"value": 40, "from": "server default"},
        "num_predict": {"value": None, "from": None},
    },
    "quantization": "Q4_K_M",
    "parameter_count": 3212749888,
    "template_sha256": "ab" * 32,
    "threads": 4,
}
WORLDBANK = """
Output description; Publication reference; Tool name; Model version; Provider; Access method; Access date;
Prompt language; Temperature; Other parameters; System prompt; User prompts; Input data or context;
Raw output; Final output; Changes from raw to final; Reviewer, name or role; Review date;
Validation criteria; Review notes
"""
"""The fields of the template in section 5 of the World Bank's guidelines, in its order."""
CHECKLIST = {
    "Introduction": (1, 1),
    "Model selection and configuration": (5, 7),
    "System and prompt design": (16, 14),
    "Session traces": (2, 5),
    "Benchmarks and metrics": (5, 9),
    "Human validation": (3, 6),
    "Reproducibility, ethics and resources": (1, 3),
    "Results": (0, 4),
    "Limitations": (4, 1),
}
"""How many items the checklist has of each section: must, should.

One of its items, the model with its configuration and the date, is four lines here, and the defaults
with the choice of the model two.
"""


def edit(path: Path, change) -> None:
    """Let ``change`` edit an artifact, and seal it as if it had been so."""
    document = json.loads(path.read_text())
    change(document)
    document["provenance"] = seal(document)["provenance"]
    path.write_text(json.dumps(document))


@pytest.fixture
def run(folder):
    path = folder / "run.json"
    record(path, "Is it high tide?", "--system", "Be brief.", replies=["At 05:12."])

    def change(document):
        document["provenance"].update(
            effective=EFFECTIVE,
            model_digest=DIGEST,
            backend="ollama",
            server_version="0.13.5",
            options={"temperature": 0},
        )
        document["output"]["metadata"]["context"] = {"window": 4096, "status": "fits"}
        document["timestamp"] = document["output"]["timestamp"] = 1_770_000_000.0

    edit(path, change)
    return path


def fill(name: str, *paths, **more) -> str:
    return filled(name, gather([str(path) for path in paths], **more))


@pytest.mark.parametrize("name", NAMES)
def test_a_form_says_whose_it_is_and_of_which_day(name):
    form = load(name)
    assert form.title and form.source and form.read
    assert re.match(r"\d{4}-\d{2}", form.date)


@pytest.mark.parametrize("name", NAMES)
def test_every_place_of_a_form_is_known(name, run):
    facts = gather([str(run)])
    for place in load(name).places:
        key = place.removeprefix("*").removeprefix("text ")
        known = key in facts.values or key in _COUNTED or key == "trailer"
        assert known or place.startswith("by hand"), place


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.invariant
def test_every_field_is_filled_or_said_to_be_by_hand(name, run):
    page = fill(name, run)
    assert "{{" not in page and "}}" not in page
    for line in page.splitlines():
        cells = line.strip("| ").split(" | ")
        assert (
            not line.startswith("| ") or line == "| | |" or all(cell.strip() for cell in cells)
        ), line
        assert not line.endswith(": "), line


def test_the_log_of_the_world_bank_has_each_field_of_its_template_in_order(run):
    page = fill("worldbank", run)
    at = 0
    for each in WORLDBANK.replace("\n", " ").split(";"):
        assert each.strip() in page[at:], each
        at = page.index(each.strip(), at)


def test_the_log_of_the_world_bank_is_filled_from_one_run(run):
    page = fill("worldbank", run)
    for line in (
        "| Tool name | ORE `1.8.0`, with `ollama` `0.13.5` |".replace("1.8.0", version()),
        f"| Model version | `scripted` `{DIGEST}` |",
        "| Access method | API of an Ollama server |",
        "| Access date | 2026-02-02 |",
        "| Temperature | `0 (user)` |",
        "| Other parameters | `top_k = 40 (server default)` |",
        "```text\nBe brief.\n```",
        "```text\nIs it high tide?\n```",
        "```text\nAt 05:12.\n```",
        "Processing: individually, not batched: a call with one prompt for each of 1 run.",
        "| Files against their hashes | 1 artifact: 1 holds |",
        "| Prompt language | *by hand* |",
    ):
        assert line in page, line


@pytest.mark.parametrize("name", ["methods", "worldbank"])
def test_images_that_the_model_may_not_have_read_are_named_so(run, name):
    images = {"images": ["a" * 64], "images_read": False}
    edit(run, lambda document: document["output"]["metadata"].update(images))
    assert f"`{'a' * 64}` `the model may not have read them`" in fill(name, run)


def version() -> str:
    import ore

    return ore.__version__


def test_the_checklist_has_every_item():
    sections = re.split(r"^## ", load("llm-guidelines").page, flags=re.M)[1:]
    found = {part.splitlines()[0]: part for part in sections}
    for name, (must, should) in CHECKLIST.items():
        counted = (found[name].count("- **must**"), found[name].count("- **should**"))
        assert counted == (must, should), name


def test_the_checklist_is_filled_from_one_run(run):
    page = fill("llm-guidelines", run)
    for line in (
        f"- **must** Exact model: `scripted` `{DIGEST}`; answered by `scripted`",
        "- **must** Date of the runs: 2026-02-02 (UTC)",
        "- **must** What was configured: `temperature = 0`",
        "- **should** [quantisation] Level and method: `Q4_K_M`",
        "- **must** [few-shot] How the examples were chosen: *by hand*",
    ):
        assert line in page, line


def test_a_methods_section_has_the_parameters_in_force_and_who_chose_them(run):
    page = fill("methods", run)
    assert f"| `scripted` | `{DIGEST}` | 1 run |" in page
    assert "| `temperature` | `0` | `user` | 1 run |" in page
    assert "| `num_predict` | not known | not known | 1 run |" in page
    assert "| Context window, in tokens | `4096` |" in page and "`3212749888`" in page
    assert "| Threads | `threads = 4` |" in page


def test_threads_that_nobody_knows_are_not_said_to_be_none(run):
    def change(document):
        document["provenance"]["effective"]["threads"] = None

    edit(run, change)
    assert "| Threads | not known |" in fill("methods", run)
    assert "API of an Ollama server; not known; *by hand*" in fill("llm-guidelines", run)


def test_what_a_run_without_provenance_was_sent_is_not_said_to_be_nothing(run):
    """The first versions made such runs."""
    document = json.loads(run.read_text())
    run.write_text(json.dumps({**document, "provenance": None}))
    page = fill("methods", run)
    assert "What was asked for in particular: not known." in page
    assert "answers that were sent, SHA-256 | not known |" in page
    assert "| Earlier messages of a conversation, SHA-256 | not known |" in page
    assert "System prompt:\n\n```text\nnot known\n```" in page
    assert "among these runs; not known of 1 run |" in page
    assert "| Run files, SHA-256 | not known |" in page
    log = fill("worldbank", run)
    assert "| Temperature | not known |" in log and "| Other parameters | not known |" in log


def test_tokens_and_times_that_a_server_does_not_say_are_no_zero(run, folder):
    def change(document):
        document["output"]["metadata"].update(
            eval_count=None, prompt_eval_count=None, total_duration=None
        )
        document["execution_id"] = document["output"]["id"] = "run 2"

    other = folder / "other.json"
    other.write_bytes(run.read_bytes())
    edit(other, change)
    page = fill("methods", other)
    assert "| Tokens read, tokens written | not known, not known |" in page
    assert "| Time, all calls together | not known |" in page
    assert "| Prompts that were not read whole | 0 |" in page
    assert "time of calls not known in 1 run;" in fill("llm-guidelines", other)
    some = next(line for line in fill("methods", folder).splitlines() if "Tokens read" in line)
    assert some.count("(known of 1 of 2 runs)") == 2


def test_earlier_messages_of_a_conversation_are_among_what_was_sent(folder):
    record(folder / "1.json", "First.", "-S", "tides", replies=["One."])
    (folder / "1.json").unlink()
    record(folder / "2.json", "Second.", "-S", "tides", replies=["Two."])
    sha256 = {each: text_digest(each) for each in ("First.", "One.")}
    sent = f"`session:tides#1` `{sha256['First.']}`; `session:tides#2` `{sha256['One.']}`"
    page = fill("worldbank", folder / "2.json")
    assert f"with their SHA-256: none. Earlier messages: {sent}." in page
    methods = fill("methods", folder / "2.json")
    assert f"| Earlier messages of a conversation, SHA-256 | {sent} |" in methods


@pytest.mark.parametrize("reason", [None, "", "unknown"])
def test_an_answer_whose_end_nobody_knows_is_not_counted_among_the_whole_ones(run, reason):
    edit(run, lambda document: document["output"]["metadata"].update(done_reason=reason))
    page = fill("methods", run)
    assert "that a limit or a filter cut off | 0 (not known of 1 run) |" in page


def test_a_server_that_counts_no_token_has_not_counted(run):
    none = {"eval_count": 0, "prompt_eval_count": 0, "total_duration": 0}
    edit(run, lambda document: document["output"]["metadata"].update(none))
    page = fill("methods", run)
    assert "| Tokens read, tokens written | not known, not known |" in page
    assert "| Time, all calls together | not known |" in page


@pytest.mark.parametrize("context", [{"status": "unknown", "window": 4096}, {}])
def test_a_prompt_of_which_nobody_knows_whether_it_was_read_whole_is_told_of(run, context):
    edit(run, lambda document: document["output"]["metadata"].update(context=context))
    said = "not read whole | 0 (not known of 1 run) |"
    assert said in fill("methods", run)


@pytest.mark.parametrize("differs", ["images", "joined", "template", None])
def test_another_image_or_template_or_joining_is_another_way_of_asking(run, folder, differs):
    for number in (1, 2):
        (folder / f"{number}.json").write_bytes(run.read_bytes())

        def change(document, number=number):
            document["execution_id"] = document["output"]["id"] = f"run {number}"
            document["output"]["content"] = f"Answer {number}"
            second, provenance = number == 2, document["provenance"]
            if differs == "images":
                document["output"]["metadata"]["images"] = ["ab" * 32 if second else "cd" * 32]
            elif differs == "joined" and second:
                provenance["joined"] = [[each["source"] for each in provenance["sources"]]]
            elif differs == "template" and second:
                provenance["chat_template"] = {"sha256": "ab" * 32}

        edit(folder / f"{number}.json", change)
    run.unlink()
    said = "no question was asked twice" if differs else "answered alike each time: 0"
    assert said in fill("methods", folder)


def test_a_digest_is_called_what_it_is_of(run):
    assert "| model | SHA-256 of its weights; with Ollama, of its manifest | runs |" in fill(
        "methods", run
    )


def test_several_models_are_listed_with_their_runs(run, folder):
    for number, model in enumerate(["mistral", "mistral", "scripted"]):
        other = folder / f"{number}.json"
        other.write_bytes(run.read_bytes())

        def change(document, model=model, number=number):
            document["input"]["model_id"] = document["output"]["model_id"] = model
            document["execution_id"] = document["output"]["id"] = f"run {number}"
            document["output"]["content"] = f"At {model}"
            document["provenance"]["model_digest"] = model[0] * 64

        edit(other, change)
    page = fill("methods", folder)
    assert "4 runs, 2026-02-02 (UTC), 1 prompt. " in page
    assert f"| `mistral` | `{'m' * 64}` | 2 runs |" in page
    assert "| Answered by | `mistral` (2 runs); `scripted` (2 runs) |" in page
    assert "1 question was asked more than once in the same way" in page
    asked = "1 prompt in 4 runs, asked of `mistral` (2 runs); `scripted` (2 runs); *by hand*"
    assert f"with other models or settings: {asked}" in fill("llm-guidelines", folder)
    assert fill("trailer", folder) == (
        f"Assisted-by: ORE:mistral@sha256:{'m' * 12}\n"
        f"Assisted-by: ORE:scripted@sha256:{'s' * 12}\n"
        f"Assisted-by: ORE:scripted@sha256:{DIGEST[:12]}\n"
    )


HOSTILE = [
    "a|b",
    "a\\|b",
    "`|`",
    "``` | ```` |",
    "\n| x | y |\n",
    "\n\n# Heading\n\n- item",
    "</td><script>alert(1)</script>",
    "![x](http://127.0.0.1/x.png)",
    "{{by hand}} {{*models}}",
    "*by hand*",
    "\r\nSigned-off-by: Eve <eve@tides.example>",
    "\u202egnp.exe\u2028x",
    "\x1b[2J\x00",
    "\ud800",
    "",
    " ",
    "~~~\n```\n````",
]


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
@pytest.mark.invariant
def test_no_text_of_a_run_breaks_the_page(run, text):
    markdown_it = pytest.importorskip("markdown_it")
    parse = markdown_it.MarkdownIt("commonmark").enable("table").parse
    sent = text.replace("\ud800", "")  # which no artifact's prompt can have

    def shape(page):
        blocks = parse(page)
        inside = {each.type for block in blocks for each in block.children or ()}
        return [block.type for block in blocks], inside

    facts = gather([str(run)])
    plain = {name: shape(filled(name, facts)) for name in NAMES}

    def change(document):
        document["input"].update(prompt=sent + "x", model_id=sent + "m", tools=[sent + "t"])
        document["output"].update(content=sent, model_id=sent + "m")
        document["provenance"].update(
            server_version=text,
            model_digest=text,
            options={text: text},
            run_file={"name": text, "sha256": text},
            tool_definitions={text: "x"},
            system_prompt=None,
            effective={
                **EFFECTIVE,
                "parameters": {text: {"value": text, "from": text}, "b": {"value": 1, "from": "x"}},
                "quantization": text,
            },
        )

    write_odd(run, change)
    facts = gather([str(run)])
    for name, (wanted, known) in plain.items():
        page = filled(name, facts)
        blocks, inside = shape(page)
        if name == "methods":  # whose table of parameters has a row for each
            for kind in ("html_block", "heading_open", "table_open", "fence"):
                assert blocks.count(kind) == wanted.count(kind)
        else:
            assert blocks == wanted
        assert inside <= known | {"code_inline", "text_special"} and "html_inline" not in inside
        if name == "trailer":
            assert re.fullmatch(r"Assisted-by: ORE:[!-~]+( [!-~]+)*\n", page), page


def write_odd(path: Path, change) -> None:
    """Edit an artifact; what JSON alone can say (half a character) has no seal."""
    document = json.loads(path.read_text())
    change(document)
    try:
        document["provenance"] = seal(document)["provenance"]
    except ValueError:
        pass
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("value", [None, 7, True, [], {}, "x", [1, {"a": None}], {"parameters": 3}])
def test_a_provenance_of_other_shapes_is_filled_all_the_same(run, value):
    def change(document):
        provenance = document["provenance"]
        for key in (
            "effective",
            "options",
            "model_digest",
            "run_file",
            "parent",
            "row",
            "expectation",
        ):
            provenance[key] = value
        for key in ("context", "images", "system_fingerprint", "eval_count", "total_duration"):
            document["output"]["metadata"][key] = value

    write_odd(run, change)
    for name in NAMES:
        assert "{{" not in fill(name, run)


@pytest.mark.slow
def test_of_one_run_no_more_values_are_looked_at_than_are_shown(run, monkeypatch):
    looked_at = Counter()

    def counted(name):
        whole = getattr(form_facts, name)
        return lambda *args: (looked_at.update([name]), whole(*args))[1]

    for name in ("pair_value", "of_value", "line_of"):
        monkeypatch.setattr(form_facts, name, counted(name))

    def change(document):
        many = {f"option {number}": number for number in range(100_000)}
        document["provenance"].update(options=many, tool_definitions=many)
        names = [{"source": f"file:{number}", "sha256": "ab"} for number in range(20_000)]
        document["provenance"]["sources"] += names

    write_odd(run, change)
    facts = gather([str(run)])
    assert max(looked_at.values()) < 4 * MOST_VALUES
    for name in ("options", "own_tools", "inputs"):
        assert len(facts.values[name]) == MOST_VALUES and facts.more[name] == 1
    assert "; and over 180 more values" in filled("methods", facts)


@pytest.mark.slow
def test_many_values_are_counted_and_not_all_shown(run, folder):
    for number in range(MOST_VALUES + 5):
        other = folder / f"{number:03}.json"
        document = json.loads(run.read_text())
        document["input"]["prompt"] = f"Question {number}"
        document["execution_id"] = document["output"]["id"] = f"run {number}"
        other.write_text(json.dumps(document))
    page = fill("worldbank", folder)
    assert f"And others in {MOST_VALUES + 5 + 1 - 20} runs, each in its artifact." in page
    assert page.count("Question") == 20
    assert f"{MOST_VALUES + 6} different prompts" in fill("methods", folder)


def test_of_values_that_are_all_kept_the_others_are_counted(tmp_path):
    made = reported.run(1, provenance={"options": {f"o{n}": n for n in range(25)}})
    page = fill("methods", reported.write(tmp_path / "runs", made))
    assert "; `o19 = 19`; and 5 more values" in page


def test_of_a_turn_that_scores_words_no_sampling_is_called_unknown(tmp_path):
    unset, window = {"value": None, "from": None}, {"value": 512, "from": "user"}
    told = {"effective": {"parameters": {"temperature": unset, "num_ctx": window}}}
    choice = reported.chosen(0.9)
    made = reported.run(1, metadata=choice, provenance=told)
    folder = reported.write(tmp_path / "runs", made)
    said = "none, for words were scored, and no text was sampled"
    assert f"| Temperature | {said} |" in fill("worldbank", folder)
    page = fill("methods", folder)
    assert "| `temperature` |" not in page and "| `num_ctx` | `512` | `user` | 1 run |" in page
    told["effective"]["parameters"]["num_ctx"] = unset  # as of a server of the OpenAI protocol
    folder = reported.write(tmp_path / "window", reported.run(1, metadata=choice, provenance=told))
    row = "| none | words were scored, and no text was sampled | - | 1 run |"
    assert row in fill("methods", folder)


def test_a_trailer_names_the_tools_that_ran_for_its_model_alone(tmp_path):
    ran, digest = {"tool_definitions": {"lint": "ab" * 32}}, {"model_digest": DIGEST}
    made = [
        reported.run(1, model="one", provenance={**ran, **digest}),
        reported.run(2, model="one", provenance=digest),
        reported.run(3, model="two"),
        reported.run(4, model="three", provenance=ran),
        reported.run(5, model="one", provenance={"model_digest": "ab" * 32}),
    ]
    lines = fill("trailer", reported.write(tmp_path / "runs", *made)).splitlines()
    named = ("one@sha256:17177962e713 lint", "two", "three lint", "one@sha256:abababababab")
    assert lines == [f"Assisted-by: ORE:{each}" for each in named]


@pytest.mark.slow
def test_prompts_are_counted_once_for_all_runs_however_many_there_are(tmp_path):
    made = [reported.run(n, prompt=f"Question {n % 210}?") for n in range(420)]
    page = fill("methods", reported.write(tmp_path / "runs", *made))
    assert "420 runs" in page and " 210 different prompts." in page


def test_long_prompts_that_differ_at_their_ends_are_different_ones(tmp_path):
    made = [reported.run(n, prompt=f"{'x' * 20_000} What is {n}?") for n in range(2)]
    assert "2 different prompts" in fill("methods", reported.write(tmp_path / "runs", *made))


def test_a_long_text_is_cut_and_that_is_said(run):
    write_odd(run, lambda document: document["output"].update(content="a" * 30_000))
    assert "[cut: it has 30,000 characters]" in fill("worldbank", run)


@needs_ssh_keygen
def test_a_form_says_who_signed_the_runs(ore, folder):
    make_key(folder / "ada")
    lab = allow(folder / "lab", ("ada|tides", folder / "ada"))
    ore("hi", "--artifact-out", "run.json", "--sign", "ada")
    page = fill("methods", folder / "run.json", allowed_signers=str(lab))
    assert "| Signed by | `ada\\|tides` |" in page
    assert "not looked for" in fill("methods", folder / "run.json")


def test_the_flag_writes_a_form_and_never_over_one_that_is_there(ore, run):
    result = ore("--report", "run.json", "--as", "trailer")
    assert (result.code, result.out) == (0, f"Assisted-by: ORE:scripted@sha256:{DIGEST[:12]}\n")
    assert result.err == "1 artifact: 1 holds.\n" and result.calls == []
    assert ore("--report", "run.json", "--as", "methods", "--out", "m.md").code == 0
    kept = Path("m.md").read_text() + "Ours.\n"
    Path("m.md").write_text(kept)
    result = ore("--report", "run.json", "--as", "methods", "--out", "m.md")
    assert result.code == 1 and "may have what you wrote by hand; name another file" in result.err
    assert Path("m.md").read_text() == kept


def test_a_form_says_what_it_leaves_out(ore, run):
    Path("odd.json").write_text("no JSON")
    result = ore("--report", "run.json", "odd.json", "--as", "trailer")
    assert (result.code, result.out.count("\n")) == (0, 1)
    assert "What can't be read is left out, and so are copies of a run." in result.err


def test_a_copy_of_a_run_is_no_second_run(ore, run, folder):
    Path("copy.json").write_text(json.dumps(json.loads(run.read_text())))
    page = fill("methods", folder)
    assert page.startswith(fill("methods", run).partition(", ")[0]) and "\n1 run, " in page
    assert "no question was asked twice in the same way among these runs" in page
    assert "2 artifacts: 2 hold" in page
    Path("copy.json").write_text(run.read_text().replace("05:12", "06:12"))
    assert "\n2 runs, " in fill("methods", folder)  # it was changed: nobody knows which run it is


@pytest.mark.parametrize(
    "line, code, sentence",
    [
        ("hi --out a.txt", 2, "an answer goes into a file with > FILE after the command."),
        ("hi --as methods", 2, "--as needs --report: name the artifacts to report on."),
        ("--report run.json --as thesis", 2, "--as must be methods, worldbank, llm-guidelines or"),
        ("--report - --as methods", 2, "A form is not filled from stdin: name the file"),
        ("--report none.json --as methods", 1, "from: none.json can't be read: no such file"),
        ("--report run.json --as methods --json", 2, "--report can't be used with --json"),
        ("--report run.json --as methods --out no/m.md", 1, "there is no folder no; make it first"),
        (
            "--report run.json --as methods --allowed-signers none",
            1,
            "The allowed signers can't be",
        ),
    ],
)
def test_what_was_asked_for_wrongly_is_a_sentence(ore, run, line, code, sentence):
    result = ore(*line.split(), stdin="")
    assert result.code == code and sentence in result.err
