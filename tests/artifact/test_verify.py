"""``--verify``: fields, hashes and the chain from parent to child, whatever the order."""

from __future__ import annotations

import hashlib
import itertools
import json
import os

import pytest

from ore.artifact.seal import seal, without_self
from ore.artifact.verify import BROKEN, HOLDS, totals
from ore.glass.comparing import check_all
from ore.report.collecting import collect
from ore.report.form_facts import gather
from tests.support.artifacts import GOOD
from tests.support.runs import record, rewrite, rows, sha256


@pytest.fixture
def chain(folder):
    """Three stages of a pipeline, as files in the current folder."""
    record(folder / "a.json", "hi", replies=["One."])
    for parent, child in itertools.pairwise("abc"):
        record(folder / f"{child}.json", "--artifact-in", f"{parent}.json", "--artifact-full")
    return folder


@pytest.mark.parametrize("order", list(itertools.permutations("abc")), ids="".join)
def test_a_pipeline_holds_in_any_order(ore, chain, order):
    result = ore("--verify", *(f"{name}.json" for name in order))
    assert (result.code, result.err) == (0, "3 artifacts: 3 hold.\n")
    assert list(rows(result.out)) == [f"{name}.json" for name in order]
    assert rows(result.out)["a.json"] == ["holds"]
    assert rows(result.out)["c.json"] == ["holds", "child of b.json"]
    assert rows(result.out)["b.json"] == ["holds", "child of a.json"]


@pytest.mark.invariant
@pytest.mark.parametrize(
    "change, named",
    [
        (lambda d: d["output"].update(content="No."), "output.content does not fit its hash"),
        (lambda d: d["input"].update(prompt="ho"), "input.prompt does not fit its hash"),
        (lambda d: d["provenance"].update(grants=["shell"]), "provenance.grants"),
        (lambda d: d.update(timestamp=1), "timestamp"),
        (lambda d: d.update(more=1), "more was added"),
        (lambda d: d["provenance"].pop("self_sha256"), "provenance.self_sha256 is missing"),
        (lambda d: d["provenance"].update(self_sha256="0" * 64), "provenance.self_sha256"),
        (lambda d: d["provenance"]["messages"][0].update(content="x"), "provenance.messages"),
        (lambda d: d["output"].update(id="x"), "execution_id is not its output.id"),
        (lambda d: d.update(artifact_version="ore.exec.v9"), "Unsupported artifact version"),
        (lambda d: d["provenance"].update(messages="no list"), "provenance.messages"),
        (lambda d: d["provenance"].update(parent=3), "provenance.parent"),
    ],
)
def test_a_change_is_named_and_so_is_the_child(ore, chain, change, named):
    rewrite(chain / "b.json", change)
    result = ore("--verify", "a.json", "b.json", "c.json")
    found = rows(result.out)
    assert result.code == 3 and len(result.err.splitlines()) == 1
    assert found["b.json"][0] == "broken" and named in found["b.json"][1]
    if "Unsupported" in named or "output.id" in named:  # it can't be read, so no parent is there
        assert found["c.json"][0] == "holds" and "is not among these" in found["c.json"][1]
    else:
        assert found["c.json"][0] == "broken" and "its parent b.json is not" in found["c.json"][1]


def test_a_missing_parent_is_reported_and_is_not_a_failure(ore, chain):
    result = ore("--verify", "c.json")
    assert result.code == 0 and "is not among these" in result.out


def test_the_id_of_a_parent_can_not_pass_for_words_of_the_line(ore, chain):
    document = json.loads((chain / "b.json").read_text())
    document["provenance"]["parent"]["execution_id"] = 'a"; signed by ada'
    (chain / "b.json").write_text(json.dumps(seal(document)))
    assert rows(ore("--verify", "b.json").out) == {
        "b.json": ["holds", 'its parent "a\\"; signed by ada" is not among these']
    }


def test_a_child_asks_what_its_parent_asked(ore, chain):
    document = json.loads((chain / "b.json").read_text())
    document["input"]["prompt"] = document["provenance"]["messages"][-1]["content"] = "other"
    (chain / "b.json").write_text(json.dumps(seal(document)))
    found = rows(ore("--verify", "a.json", "b.json").out)
    assert found["b.json"][0] == "broken"
    assert "its prompt is not that of its parent a.json" in found["b.json"][1]
    assert "does not fit provenance.messages_sha256" in found["b.json"][1]


def test_two_runs_with_one_id_are_broken_and_the_same_file_twice_is_not(ore, chain):
    document = json.loads((chain / "a.json").read_text())
    (chain / "copy.json").write_text(json.dumps(document))
    assert ore("--verify", "a.json", "./a.json", "copy.json").code == 0
    document["output"]["content"] = "Other."
    (chain / "copy.json").write_text(json.dumps(seal(document)))
    result = ore("--verify", "a.json", "copy.json")
    assert result.code == 3 and rows(result.out)["a.json"] == ["holds"]
    assert "it has the execution_id of a.json" in rows(result.out)["copy.json"][1]


def test_a_broken_artifact_does_not_make_its_original_suspect(ore, chain):
    text = (chain / "a.json").read_text()
    (chain / "changed.json").write_text(text.replace("One.", "Two."))
    found = rows(ore("--verify", "changed.json", "a.json").out)
    assert found == {
        "changed.json": ["broken", "output.content does not fit its hash"],
        "a.json": ["holds"],
    }


def test_an_artifact_of_a_library_has_nothing_to_check(ore, chain):
    (chain / "old.json").write_text(json.dumps(GOOD))
    result = ore("--verify", "old.json")
    assert result.code == 3
    assert rows(result.out)["old.json"][0] == "nothing to check"
    assert "it has no seal" in result.out


@pytest.mark.invariant
@pytest.mark.parametrize(
    "take",
    [
        lambda d: d.pop("provenance"),
        lambda d: d.update(provenance=None),
        lambda d: d.update(provenance={}),
        lambda d: [d["provenance"].pop(key) for key in ("self_sha256", "values_sha256")],
        lambda d: d["provenance"].update(self_sha256=None, values_sha256=None),
        lambda d: d["output"]["metadata"].update(n=2**70),
        lambda d: (d["output"].update(id2="\ud800"), d["provenance"].update(self_sha256="")),
    ],
    ids=[
        *("provenance", "null", "empty", "both", "both null", "a number without canonical form"),
        "an empty hash of what has no bytes",
    ],
)
def test_taking_the_seal_away_never_verifies(ore, chain, take):
    def change(document):
        document["output"]["content"] = "No."
        take(document)

    rewrite(chain / "a.json", change)
    result = ore("--verify", "a.json")
    assert result.code == 3 and rows(result.out)["a.json"][0] in ("nothing to check", "broken")
    as_json = ore("--verify", "a.json", "--json")
    assert as_json.code == 3 and as_json.json[0]["holds"] is False


@pytest.mark.parametrize(
    "value, why",
    [
        (2**53, "it has no canonical JSON: the integer 9007199254740992 is too large to be exact"),
        (-(2**60), "it has no canonical JSON: the integer -1152921504606846976 is too large to be"),
        (1e-05, "output.n was added"),
        (1e20, "output.n was added"),
        (float(2**53), "output.n was added"),
        ({"\uffff": 1, "\U00010000": 2}, "output.n was added"),
    ],
    ids=["2**53", "-2**60", "1e-05", "1e20", "2.0**53", "keys in another order"],
)
def test_the_hash_of_another_form_than_the_canonical_one_is_no_seal(ore, chain, value, why):
    (chain / "many").mkdir()
    document = json.loads((chain / "a.json").read_text())
    document["output"]["n"] = value
    whole = without_self(document)
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    document["provenance"]["self_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    for name in ("1.json", "2.json"):
        (chain / "many" / name).write_text(json.dumps(document, indent=2) + "\n")
    result = ore("--verify", "many")
    assert result.code == 3
    assert result.out.count(f"broken\t{why}") == 2


def test_the_last_line_has_the_totals(ore, chain):
    (chain / "old.json").write_text(json.dumps(GOOD))
    rewrite(chain / "b.json", lambda d: d["output"].update(content="No."))
    result = ore("--verify", "a.json", "b.json", "old.json", "missing.json")
    assert (result.code, result.err) == (
        3,
        "ore: 4 artifacts: 1 holds, 1 is broken, 1 has nothing to check, 1 can't be read. "
        "Their lines say why.\n",
    )
    assert [each["state"] for each in ore("--verify", "a.json", "b.json", "--json").json] == [
        "holds",
        "broken",
    ]


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff", b'{"artifact_version": NaN}', b"[" * 100000, b"1" * 5000],
    ids=repr,
)
def test_what_is_not_an_artifact_is_one_line_and_3(ore, chain, data):
    (chain / "bad.json").write_bytes(data)
    result = ore("--verify", "bad.json", "a.json", "missing.json")
    found = rows(result.out)
    assert (result.code, len(result.err.splitlines())) == (3, 1)
    assert result.err.startswith("ore: 3 artifacts: 1 holds, 1 is broken, 1 can't be read.")
    assert found["bad.json"][0] == "broken" and "can't be used" in found["bad.json"][1]
    assert found["missing.json"][0] == "not read"
    assert "a.json\tholds\n" in result.out


@pytest.mark.parametrize(
    "path, why",
    [
        ("missing.json", "no such file"),
        ("no/such/folder.json", "no such file"),
        ("/dev/null", "not a regular file"),
        ("-", "no artifact on stdin"),
    ],
)
def test_what_cannot_be_read_is_reported_as_such_and_not_as_a_failed_check(ore, chain, path, why):
    result = ore("--verify", "a.json", path)
    _, last = result.out.splitlines()
    assert last.startswith(f"{path}\tnot read\t") and why in last
    assert (result.code, result.err) == (
        1,
        "ore: 2 artifacts: 1 holds, 1 can't be read. Their lines say why.\n",
    )
    as_json = ore("--verify", path, "--json")
    (found,) = as_json.json
    assert as_json.code == 1 and not found["holds"]
    assert (found["sha256"], found["execution_id"]) == (None, None) and why in found["problems"][0]


@pytest.mark.parametrize("value", [None, 3, "text", [], {"execution_id": 1}, True])
@pytest.mark.parametrize("key", ["messages", "parent", "sources", "self_sha256", "values_sha256"])
def test_odd_provenance_does_not_crash(ore, chain, key, value):
    rewrite(chain / "a.json", lambda d: d["provenance"].update({key: value}))
    result = ore("--verify", "a.json")
    assert result.code in (0, 3)


def test_as_json_and_from_stdin(ore, chain):
    result = ore("--verify", "-", "b.json", "--json", stdin=(chain / "a.json").read_bytes())
    first, second = result.json
    keys = ("path", "holds", "execution_id", "sha256", "problems", "notes", "state")
    assert tuple(first) == keys
    assert (first["path"], first["holds"], second["notes"]) == ("-", True, ["child of -"])


def test_a_terminal_obeys_nothing_of_a_diff(ore, chain):
    rewrite(chain / "b.json", lambda d: d.update({"\x1b[2J": 1}))
    result = ore("--verify", "b.json", terminal="out err")
    assert result.code == 3 and "\x1b[2J" not in result.out and "^[[2J was added" in result.out


@pytest.mark.parametrize("other", ["hi", "--stream", "--model=m", "--artifact-out=x", "--replay=x"])
def test_verify_stands_alone(ore, chain, other):
    assert ore(other, "--verify", "a.json").code == 2


def test_of_very_many_values_that_do_not_fit_the_first_are_named(ore, chain):
    values = {f"v{number:04}" + "x" * 1000: "0" for number in range(1000)}
    rewrite(chain / "b.json", lambda d: d["provenance"].update(values_sha256=values))
    found = ore("--verify", "b.json", "--json").json[0]
    assert len(found["problems"]) == 21 and found["problems"][-1].startswith("and 1,0")
    assert max(map(len, found["problems"])) < 300


def test_of_an_absurdly_long_id_its_hash_is_kept_and_the_chain_is_still_checked(ore, chain):
    def lengthen(document):
        document["execution_id"] = document["output"]["id"] = "x" * 5000
        document["provenance"] = seal(document)["provenance"]

    def follow(document):
        data = (chain / "a.json").read_bytes()
        document["provenance"]["parent"] |= {"execution_id": "x" * 5000, "sha256": sha256(data)}
        document["provenance"]["parent"]["more"] = ["y" * 5000]
        document["provenance"] = seal(document)["provenance"]

    rewrite(chain / "a.json", lengthen)
    rewrite(chain / "b.json", follow)
    first, second = ore("--verify", "a.json", "b.json", "--json").json
    assert (first["execution_id"], first["holds"]) == ("sha256:" + sha256("x" * 5000), True)
    assert (second["holds"], second["notes"]) == (True, ["child of a.json"])
    [second] = check_all(["b.json"])
    assert len(str(second.parent)) < 400 and sha256("x" * 5000) in second.notes[0]


@pytest.mark.parametrize("prefix", ["", "sha256:"])
def test_the_hash_of_a_long_id_is_no_other_run_s_id(ore, chain, prefix):
    def rename(name, content):
        def change(document):
            document["execution_id"] = document["output"]["id"] = name
            document["output"]["content"] = content
            document["provenance"]["parent"] = None
            document["provenance"] = seal(document)["provenance"]

        return change

    rewrite(chain / "a.json", rename("x" * 5000, "One."))
    rewrite(chain / "b.json", rename(prefix + sha256("x" * 5000), "Another."))
    assert ore("--verify", "a.json", "b.json").code == 0


@pytest.mark.parametrize(
    "look",
    [check_all, lambda paths: collect(paths).runs, lambda paths: gather(paths).checked],
    ids=["verify", "report", "form"],
)
def test_a_child_that_comes_through_a_pipe_is_checked_beside_the_folder_of_its_parent(chain, look):
    (chain / "runs").mkdir()
    (chain / "a.json").rename(chain / "runs/a.json")
    pipe, write = os.pipe()
    os.write(write, (chain / "b.json").read_bytes())
    os.close(write)
    found = look(["runs", f"/dev/fd/{pipe}"])
    os.close(pipe)
    assert [each.state for each in found] == ["holds", "holds"]


def test_large_counts_of_artifacts_have_commas_as_all_others():
    states = [HOLDS] * 1000 + [BROKEN] * 1234
    assert totals(states) == "2,234 artifacts: 1,000 hold, 1,234 are broken"
