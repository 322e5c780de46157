"""The page of hostile runs in a real browser: nothing runs, nothing is loaded, nothing leaves its cell."""

from __future__ import annotations

import pytest

from tests.support.browser import CHROMIUM, browser
from tests.support.reported import chosen, expected, run, write

pytest.importorskip("jinja2", reason="jinja2 is not installed (requirements-report.txt)")

from ore.report.page import report_page  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
]

RAN = "document.title='ran'"
HOSTILE = (
    f"<script>{RAN}</script>",
    f'</script><script>{RAN}</script><img src="http://127.0.0.1:9/a.png" onerror="{RAN}">',
    f"<svg xmlns='http://www.w3.org/2000/svg' onload=\"{RAN}\"><script>{RAN}</script></svg>",
    f'<a href="javascript:{RAN}" autofocus onfocus="{RAN}">x</a><base href=\'http://127.0.0.1:9/\'>',
    "<style>body{display:none;background:url(http://127.0.0.1:9/b)}</style></style></td></tr></table>",
    f"<iframe srcdoc=\"<script>parent.{RAN}</script>\"></iframe><form action='http://127.0.0.1:9'>",
    f'<meta http-equiv=refresh content="0;url=javascript:{RAN}"><link rel=stylesheet href=//a/b>',
    f"--> ]]> \u2028\u2029 \" ' ` \\u003cscript> {{{{ {RAN} }}}} ${{{RAN}}}",
    "\u202eright to left\u202c \u2067isolate\u2069 \u05d0\u05d1\u05d2 \x00\x07\x1b[2J\r",
    '=HYPERLINK("http://127.0.0.1:9")\t@SUM(1)\n' + "\n" * 50,
    "x" * 5_000_000,
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as found:
        found.emulate(width=1200, height=900)
        yield found


def spoiled(number: int, text: str, other: str = "") -> dict:
    return run(
        number,
        prompt=f"Question {number} {text[:100_000]}",
        answer=text + other,
        model=text[:200],
        metadata=chosen(0.5),
        provenance={
            "backend": text[:500],
            "options": {text[:100]: text[:500]},
            "sources": [{"source": text[:300], "sha256": text[:300]}],
            **expected(text[:300], "no"),
        },
    )


def opened(chromium, folder, paths) -> None:
    page = folder / "page.html"
    page.write_text(report_page([str(path) for path in paths]), encoding="utf-8")
    chromium.open(page)


def requests(chromium) -> list[str]:
    """What the browser was asked to load, but for the page itself."""
    sent = [each for each in chromium.events if each["method"] == "Network.requestWillBeSent"]
    urls = [each["params"]["request"]["url"] for each in sent]
    return [url for url in urls if not url.endswith("/page.html")]


def problems(chromium) -> list[dict]:
    methods = ("Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
    return [each for each in chromium.events if each["method"] in methods]


@pytest.mark.invariant
def test_nothing_of_a_hostile_run_runs_or_is_loaded(chromium, tmp_path):
    names = [spoiled(number, text) for number, text in enumerate(HOSTILE, 1)]
    others = [spoiled(number, text, " but not") for number, text in enumerate(HOSTILE, 1)]
    a = write(tmp_path / "<img src=x onerror=alert(1)>", *names)
    b = write(tmp_path / "b", *others)
    opened(chromium, tmp_path, [a, b])
    assert chromium.run("document.title").startswith("Runs: ")
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")  # every row is drawn
    lines = chromium.run(
        "(() => { document.querySelectorAll('tr.run .open').forEach((each) => each.click());"
        " return document.querySelectorAll('tr.more').length; })()"
    )
    assert lines == 2 * len(HOSTILE)
    chromium.run("new Promise((done) => setTimeout(done, 500))")
    assert chromium.run("document.title").startswith("Runs: ")
    assert chromium.run("document.scripts.length") == 2
    own = (
        "img, iframe, object, embed, form:not(#filters), base, link, a, video, audio, foreignObject"
    )
    assert chromium.run(f"document.querySelectorAll('{own}').length") == 0
    assert chromium.run("document.styleSheets.length") == 1
    assert chromium.run("getComputedStyle(document.body).display") == "block"
    assert requests(chromium) == [] and problems(chromium) == []


@pytest.mark.invariant
def test_the_policy_forbids_what_a_text_would_do_if_it_were_markup(chromium, tmp_path):
    """Were a text ever taken for markup, the browser would still refuse it."""
    opened(chromium, tmp_path, [write(tmp_path / "runs", run(1))])
    chromium.run(
        f"document.body.insertAdjacentHTML('beforeend', `<img src=\"http://127.0.0.1:9/a.png\" "
        f'onerror="{RAN}"><p id=styled style="color: rgb(1, 2, 3)">x</p>'
        f'<iframe src="data:text/html,x"></iframe>`),'
        f"document.body.append(Object.assign(document.createElement('script'), {{text: \"{RAN}\"}})),"
        f"fetch('http://127.0.0.1:9/').then(() => {{ {RAN} }}, () => 0)"
    )
    chromium.run("new Promise((done) => setTimeout(done, 300))")
    assert chromium.run("document.title").startswith("Runs: ")
    colour = "getComputedStyle(document.getElementById('styled')).color"
    assert chromium.run(colour) != "rgb(1, 2, 3)"
    said = [each["params"]["entry"]["text"] for each in problems(chromium)]
    refused = [text for text in said if "Content Security Policy" in text]
    for directive in ("script-src", "style-src", "img-src", "frame-src", "connect-src"):
        assert any(directive in text for text in refused), (directive, said)


def test_a_text_stays_in_its_cell(chromium, tmp_path):
    folder = write(tmp_path / "runs", *(spoiled(at, text) for at, text in enumerate(HOSTILE, 1)))
    opened(chromium, tmp_path, [folder])
    for width in (1200, 390):
        chromium.emulate(width=width, height=900)
        chromium.run("new Promise((done) => setTimeout(done, 200))")
        assert chromium.run("document.documentElement.scrollWidth <= innerWidth"), width
    chromium.emulate(width=1200, height=900)
    chromium.run(  # the rows are filled after the frame in which the window got its size
        "new Promise((done) => { const look = () => document.querySelector('.brief') ? done() : "
        "requestAnimationFrame(look); look(); })"
    )
    brief = (
        "[...document.querySelectorAll('.brief')].map((each) => getComputedStyle(each).unicodeBidi)"
    )
    assert set(chromium.run(brief)) == {"isolate"}
    chromium.run("[...document.querySelectorAll('tr.run .open')].at(-1).click()")
    assert chromium.run("document.querySelectorAll('tr.more pre')[1].textContent.length") == 20_000
    said = chromium.run("document.querySelector('tr.more').textContent")
    assert "Cut here: it has 5,000,000 characters." in said


@pytest.mark.parametrize("width", [1200, 390])
def test_a_letter_of_any_length_is_not_drawn_over_other_cells(chromium, tmp_path, width):
    wide = ["\u1100" * 60, "\u2705\u200d" * 60, "\u0915\u094d" * 80, "Z" + "\u0301\u0363" * 90]
    runs = [run(at, prompt=each, answer=each, model=each[:200]) for at, each in enumerate(wide, 1)]
    others = [run(at, prompt=each, answer=f"{each}!") for at, each in enumerate(wide, 1)]
    chromium.emulate(width=width, height=900)
    opened(chromium, tmp_path, [write(tmp_path / "a", *runs), write(tmp_path / "b", *others)])
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")
    chromium.run("document.querySelectorAll('tr.run .open').forEach((each) => each.click())")
    outside = (
        "[...document.querySelectorAll('td, dd, dt, li, p')].filter((each) => each.scrollWidth > "
        "each.clientWidth + 2 && getComputedStyle(each).overflowX === 'visible').length"
    )
    assert chromium.run(outside) == 0
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")


def test_one_finds_the_slowest_the_cut_off_and_where_models_disagree(chromium, tmp_path):
    def documents(model: str, words: dict[int, str]):
        return [
            run(
                at,
                prompt=f"Question {at}?",
                model=model,
                answer=words.get(at, "Paris."),
                metadata={"done_reason": "length" if (at, model) == (7, "big") else "stop"},
            )
            for at in range(1, 41)
        ]

    a = write(tmp_path / "a", *documents("tiny", {11: "\n"}))
    b = write(tmp_path / "b", *documents("big", {3: "Rome.", 9: "Oslo.", 11: "\n"}))
    opened(chromium, tmp_path, [a, b])

    def shown(kind: str) -> list[str]:
        chromium.run(f"document.querySelector('[data-find={kind}]').click()")
        chromium.run("new Promise((done) => setTimeout(done, 300))")
        rows = "[...document.querySelectorAll('#runs tr.run')].map((each) => each.innerText)"
        return chromium.run(rows)

    assert "Question 40?" in shown("slowest")[0]
    assert chromium.run("document.querySelectorAll('tr.more').length") == 1
    (cut,) = shown("cut")
    assert "Question 7?" in cut and "big" in cut and "cut off" in cut
    assert ["Question 11?" in each for each in shown("empty")] == [True, True]
    found = shown("disagree")
    assert ["Question 3?" in each for each in found] == [True, True, False, False]
    marked = "[...document.querySelectorAll('#pairs mark')].map((each) => each.textContent)"
    chromium.run("document.getElementById('differ').click()")
    chromium.run("document.getElementById('pairs').scrollIntoView()")
    assert set(chromium.run(marked)) <= {"Paris", "Rome", "Oslo"}
    assert requests(chromium) == [] and problems(chromium) == []


@pytest.mark.parametrize("width", [1200, 390])
def test_no_second_line_of_a_name_or_a_value_stands_where_a_fact_begins(chromium, tmp_path, width):
    name = "temperature of sampler signed\u00a0by"
    wanted = {"wanted": {name: "0.7" + "\u00a0" * 176 + " ada@example.org"}, "holds": True}
    chromium.emulate(width=width, height=900)
    opened(chromium, tmp_path, [write(tmp_path / "a", run(1, provenance={"expectation": wanted}))])
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")
    chromium.run("document.querySelector('tr.run .open').click()")
    lines = chromium.run(
        "[...document.querySelectorAll('.more bdi')].map((each) => "
        "[...each.getClientRects()].map((line) => line.left)).filter((lines) => lines.length > 1)"
    )
    assert len(lines) >= (1 if width > 400 else 2)  # a name fits in a wide window, in some fonts
    assert all(min(others) > first for first, *others in lines)


def test_a_pair_shows_the_whole_prompt_and_says_what_is_cut(chromium, tmp_path):
    prompt, answer = "word " * 300 + "end", "word " * 5000
    for name in "ab":
        write(tmp_path / name, run(1, prompt=prompt, answer=answer + name))
    opened(chromium, tmp_path, [tmp_path / "a", tmp_path / "b"])
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")
    cells = "[...document.querySelectorAll('tr.pair td')].map((each) => each.textContent)"
    asked, *answers = chromium.run(cells)
    assert asked == prompt
    assert all(each.endswith("Cut here: it has 25,001 characters.") for each in answers)


def test_a_printed_page_says_how_many_runs_are_not_on_it(chromium, tmp_path):
    opened(chromium, tmp_path, [write(tmp_path / "a", *(run(at) for at in range(1, 2005)))])
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")
    assert chromium.run("document.querySelectorAll('tr.run').length") == 2000
    last = "document.getElementById('runs').lastElementChild.textContent"
    assert chromium.run(last) == "4 more are not printed."
    chromium.run("dispatchEvent(new Event('afterprint')), 0")
    assert "not printed" not in chromium.run("document.getElementById('runs').textContent")


def test_a_bar_stands_beside_each_line_of_a_text(chromium, tmp_path):
    """Bold letters without serifs look as a heading of ORE's own does."""
    forged = "Is it safe?\n\n\U0001d5d4\U0001d5fb\U0001d600\U0001d604\U0001d5f2\U0001d5ff\nYes."
    opened(chromium, tmp_path, [write(tmp_path / "a", run(1, prompt=forged))])
    chromium.run("dispatchEvent(new Event('beforeprint')), 0")
    chromium.run("document.querySelector('tr.run .open').click()")
    bar = "[...document.querySelectorAll('pre')].map((each) => getComputedStyle(each).borderLeftWidth)"
    assert chromium.run(bar) == ["3px", "3px"]
