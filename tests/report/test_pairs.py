"""Two folders side by side: which runs are pairs, what differs, and how far they agree."""

from __future__ import annotations

import pytest

from ore.report import pairs
from ore.report.collecting import collect
from ore.report.pairs import differing, kappa, side_by_side
from tests.support.reported import chosen, run, write


def parts(text: str, marks: list[int]) -> list[str]:
    """What is alike and what differs, in turns."""
    data, found = text.encode("utf-16-le"), []
    for size in marks:
        found.append(data[: 2 * size].decode("utf-16-le"))
        data = data[2 * size :]
    assert data == b""
    return found


@pytest.mark.parametrize(
    "one, other, in_one, in_other",
    [
        ("a b c", "a x c", ["a ", "b", " c"], ["a ", "x", " c"]),
        ("same", "same", ["same"], ["same"]),
        ("", "new", [""], ["", "new", ""]),
        ("a  b", "a b", ["a", "  ", "b"], ["a", " ", "b"]),
        ("a\nb", "a\u00a0b", ["a", "\n", "b"], ["a", "\u00a0", "b"]),
        ("a  b c", "a b x", ["a  b ", "c", ""], ["a b ", "x", ""]),
        ("no, yes.", "no; yes!", ["no", ",", " yes", ".", ""], ["no", ";", " yes", "!", ""]),
        ("😀 x 😀", "😀 y 😀", ["😀 ", "x", " 😀"], ["😀 ", "y", " 😀"]),
        ("eins zwei", "drei", ["", "eins zwei", ""], ["", "drei", ""]),
    ],
)
def test_what_differs_is_marked_word_by_word(one, other, in_one, in_other):
    first, second = differing(one, other)
    assert (parts(one, first), parts(other, second)) == (in_one, in_other)


def test_what_takes_too_long_is_not_marked():
    assert differing("a " * (pairs.MOST_WORDS + 1), "a") is None
    assert differing("a " * 1000, "a b " * 1000) is None


def test_kappa_is_that_of_the_textbook():
    """Of 50: both yes 20, both no 15, one alone 5 and 10; p_o = 0.7, p_e = 0.5."""
    both = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert kappa(both) == pytest.approx(0.4)
    assert kappa([("y", "n"), ("n", "y")]) == pytest.approx(-1.0)
    assert kappa([]) is None and kappa([("y", "y")]) is None


def test_runs_are_pairs_by_what_was_asked(tmp_path):
    a = write(
        tmp_path / "a", run(1, prompt="p"), run(2, prompt="q", answer="No."), run(3, prompt="r")
    )
    b = write(tmp_path / "b", run(4, prompt="q", model="big"), run(5, prompt="p", model="big"))
    collected = collect([str(a), str(b)])
    found = side_by_side(collected.runs)
    assert collected.is_two
    assert [(pair.first, pair.second, pair.is_same) for pair in found.pairs] == [
        (0, 4, True),
        (1, 3, False),
    ]
    assert (found.same, found.alone, found.kappa) == (1, (1, 0), None)


def test_the_same_question_asked_often_is_paired_in_order(tmp_path):
    a = write(tmp_path / "a", *(run(n, prompt="p", answer=str(n)) for n in range(1, 4)))
    b = write(tmp_path / "b", *(run(n, prompt="p", answer=str(n)) for n in range(1, 4)))
    found = side_by_side(collect([str(a), str(b)]).runs)
    assert [(pair.first, pair.second) for pair in found.pairs] == [(0, 3), (1, 4), (2, 5)]
    assert found.same == 3


def test_another_file_is_another_question_and_another_system_prompt_is_not(tmp_path):
    def sent(*sources: tuple[str, str]):
        listed = [{"source": source, "sha256": sha256} for source, sha256 in sources]
        return {"provenance": {"sources": [*listed, {"source": "prompt", "sha256": "p"}]}}

    a = write(tmp_path / "a", run(1, prompt="p", **sent(("persona", "1"), ("file:a", "f"))))
    same = write(tmp_path / "b", run(2, prompt="p", **sent(("system", "2"), ("file:b", "f"))))
    other = write(tmp_path / "c", run(3, prompt="p", **sent(("persona", "1"), ("file:a", "g"))))
    assert len(side_by_side(collect([str(a), str(same)]).runs).pairs) == 1
    assert side_by_side(collect([str(a), str(other)]).runs).pairs == []


def test_words_that_were_chosen_have_a_kappa(tmp_path):
    words = [("yes", "yes"), ("yes", "no"), ("no", "no"), ("no", "no")]
    for folder, side in (("a", 0), ("b", 1)):
        write(
            tmp_path / folder,
            *(
                run(n, prompt=str(n), answer=pair[side], metadata=chosen(0.9))
                for n, pair in enumerate(words, 1)
            ),
        )
    found = side_by_side(collect([str(tmp_path / "a"), str(tmp_path / "b")]).runs)
    assert found.choices == 4 and found.kappa == pytest.approx(0.5)
