"""What an artifact must look like: every field, every wrong type, and any bytes whatever."""

from __future__ import annotations

import copy
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.artifact import encode_artifact, parse_artifact
from ore.errors import InvalidArtifactError
from ore.types import ARTIFACT_VERSION, ExecutionArtifact, Response, RoutingDecision
from tests.support.artifacts import GOOD, changed, encoded, nested, spoiled, without

MUTATIONS = 500
"""How many spoiled artifacts the suite reads; raise it to 100,000 for a thorough run."""

REQUIRED = [
    "execution_id",
    "timestamp",
    "input",
    "input.prompt",
    "input.model_id",
    "input.mode",
    "output",
    "output.id",
    "output.content",
    "output.model_id",
    "output.timestamp",
    "output.metadata",
    "continuation",
    "continuation.requested",
]
OPTIONAL = ["input.routing", "input.tools", "input.skills", "continuation.reason"]


@pytest.mark.invariant
def test_the_schemas_own_example_is_read_and_written_unchanged():
    written = ExecutionArtifact.from_dict(GOOD).to_dict()
    assert written == GOOD
    assert json.dumps(written) == json.dumps(GOOD), "the order of the keys"


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_field_that_is_missing_is_named(name):
    with pytest.raises(ValueError) as caught:
        ExecutionArtifact.from_dict(without(name))
    assert str(caught.value) == f"The artifact's {name} is missing."


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_field_is_never_null(name):
    with pytest.raises(ValueError, match=rf"^The artifact's {name} is null, not [^.]*\.$"):
        ExecutionArtifact.from_dict(changed(name, None))


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_field_may_be_null_or_missing(name):
    section, key = name.split(".")
    for data in (changed(name, None), without(name)):
        assert ExecutionArtifact.from_dict(data).to_dict()[section][key] is None


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("execution_id", 7, "is a number, not text"),
        ("timestamp", "1234567890", "is text, not a finite number"),
        ("timestamp", True, "is a boolean, not a finite number"),
        ("timestamp", 10**400, "is a number, not a finite number"),
        ("input", [], "is a list, not an object"),
        ("input.prompt", ["a"], "is a list, not text that can be sent"),
        ("input.prompt", "\ud83d", "is text, not text that can be sent"),
        ("input.model_id", 1, "is a number, not text that can be sent"),
        ("input.mode", "conversation", "is not 'single_turn' or 'conversational'"),
        ("input.routing", "echo", "is text, not an object"),
        ("input.tools", "echo", "is text, not a list of text"),
        ("input.tools", ["echo", 1], "is a list, not a list of text"),
        ("input.skills", {"a": 1}, "is an object, not a list of text"),
        ("output", "Paris", "is text, not an object"),
        ("output.id", "another", None),
        ("output.content", {}, "is an object, not text"),
        ("output.model_id", False, "is a boolean, not text"),
        ("output.timestamp", True, "is a boolean, not a finite number"),
        ("output.metadata", [], "is a list, not an object"),
        ("continuation", None, "is null, not an object"),
        ("continuation.requested", "false", "is text, not true or false"),
        ("continuation.requested", 0, "is a number, not true or false"),
        ("continuation.reason", 1, "is a number, not text"),
        ("provenance", "me", "is text, not an object"),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(name, value, said):
    with pytest.raises(ValueError) as caught:
        ExecutionArtifact.from_dict(changed(name, value))
    ids = "The artifact's execution_id is not its output.id."
    assert str(caught.value) == (f"The artifact's {name} {said}." if said else ids)


@pytest.mark.parametrize("data", [None, True, 1, "{}", [], [GOOD]])
def test_what_is_not_an_object_is_refused(data):
    with pytest.raises(ValueError, match=r"^An artifact is a JSON object, not .*\.$"):
        ExecutionArtifact.from_dict(data)


@pytest.mark.parametrize(
    "version, shown",
    [
        ("ore.exec.v2", "'ore.exec.v2'"),
        ("ORE.EXEC.V1", "'ORE.EXEC.V1'"),
        ("", "''"),
        ("\x1b[2J\u202e", r"'\x1b[2J\u202e'"),
        ("v" * 5000, repr("v" * 40)),
        (1, "a number"),
        (None, "null"),
        ([], "a list"),
    ],
)
def test_another_version_is_refused_before_anything_else_is_looked_at(version, shown):
    said = f"Unsupported artifact version {shown}: this ORE reads 'ore.exec.v1'."
    for rest in ({}, {"input": float("nan"), "deep": nested(70)}, without("artifact_version")):
        with pytest.raises(ValueError) as caught:
            ExecutionArtifact.from_dict({**rest, "artifact_version": version})
        assert str(caught.value) == said


def test_a_missing_version_is_not_supported():
    with pytest.raises(ValueError, match=r"^Unsupported artifact version \(there is none\)"):
        ExecutionArtifact.from_dict(without("artifact_version"))


@pytest.mark.parametrize("name", ["output.metadata", "input.routing", "provenance", "unknown"])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_is_not_finite_is_refused_wherever_it_stands(name, number):
    with pytest.raises(ValueError, match="a number that is not finite"):
        ExecutionArtifact.from_dict(changed(name, {"a": [{"b": number}]}))


def test_sixty_four_levels_are_read_and_one_more_is_refused():
    ExecutionArtifact.from_dict(changed("unknown", nested(63)))
    with pytest.raises(ValueError, match="nested deeper than 64 levels"):
        ExecutionArtifact.from_dict(changed("unknown", nested(64)))


@pytest.mark.parametrize("name", ["x", "input.x", "output.x", "continuation.x"])
def test_an_unknown_key_is_tolerated_and_not_kept(name):
    assert ExecutionArtifact.from_dict(changed(name, [1])).to_dict() == GOOD


def test_provenance_is_kept_when_there_is_one_and_left_out_when_not():
    kept = changed("provenance", {"ore": "0.9.1"})
    assert ExecutionArtifact.from_dict(kept).to_dict() == kept
    assert "provenance" not in ExecutionArtifact.from_dict(changed("provenance", None)).to_dict()


# Making one from a response


def test_a_response_becomes_an_artifact_with_every_field_in_its_place():
    response = Response("Paris.", "answered:1", metadata={"eval_count": 3})
    made = ExecutionArtifact.from_response(
        response, "  Where?\n", "asked:1", None, ["echo"], ["writing"], True, "more to say"
    )
    assert made.to_dict() == {
        "artifact_version": ARTIFACT_VERSION,
        "execution_id": response.id,
        "timestamp": response.timestamp,
        "input": {
            "prompt": "  Where?\n",
            "model_id": "asked:1",
            "mode": "single_turn",
            "routing": None,
            "tools": ["echo"],
            "skills": ["writing"],
        },
        "output": {
            "id": response.id,
            "content": "Paris.",
            "model_id": "answered:1",
            "timestamp": response.timestamp,
            "metadata": {"eval_count": 3},
        },
        "continuation": {"requested": True, "reason": "more to say"},
    }


@pytest.mark.invariant
def test_a_continuation_is_declared_and_never_inferred_from_the_answer():
    response = Response("To be continued. Please run me again!", "m", metadata={"continue": True})
    made = ExecutionArtifact.from_response(response, "continue", "m")
    assert made.to_dict()["continuation"] == {"requested": False, "reason": None}


def test_a_routing_decision_is_stored_as_an_object():
    decision = RoutingDecision("echo", "tool", 0.64, {"msg": "a"}, "matched 'echo'")
    made = ExecutionArtifact.from_response(Response("a", "m"), "p", "m", routing=decision)
    routing = made.to_dict()["input"]["routing"]
    names = ["target", "target_type", "confidence", "args", "reasoning", "id", "timestamp"]
    assert list(routing) == names
    assert [routing[name] for name in names] == [getattr(decision, name) for name in names]
    again = ExecutionArtifact.from_response(Response("a", "m"), "p", "m", routing=routing)
    assert again.input.routing == routing


def test_tools_and_skills_that_were_not_used_are_null():
    made = ExecutionArtifact.from_response(Response("a", "m"), "p", "m", tools=[], skills=())
    assert (made.input.tools, made.input.skills) == (None, None)


def test_a_written_dict_shares_nothing_with_the_artifact():
    made = ExecutionArtifact.from_dict(copy.deepcopy(GOOD))
    written = made.to_dict()
    written["output"]["metadata"]["options"]["stop"].clear()
    written["input"]["tools"].append("read-file")
    assert made.to_dict() == GOOD


# Any text, any bytes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    # Half surrogate pairs too: what a model says is kept, whatever it is.
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OBJECT = st.dictionaries(st.text(), JSON, max_size=3)
NAMES = st.none() | st.lists(st.text(), min_size=1, max_size=3)


@pytest.mark.slow
@given(
    st.builds(Response, st.text(st.characters(codec=None)), st.text(), metadata=OBJECT),
    st.text(),
    st.none() | OBJECT,
    NAMES,
    st.booleans(),
    st.none() | st.text(),
)
def test_what_is_written_is_read_back_equal(response, prompt, routing, names, asked, reason):
    made = ExecutionArtifact.from_response(
        response, prompt, response.model_id, routing, names, names, asked, reason
    )
    assert ExecutionArtifact.from_dict(made.to_dict()) == made
    assert parse_artifact(encode_artifact(made).encode("ascii"), "x") == made


def read_or_refuse(data: bytes) -> bool:
    """Read ``data``; anything but an artifact or one clean sentence fails the test."""
    try:
        artifact = parse_artifact(data, "run.json")
    except InvalidArtifactError as exc:
        said = str(exc)
        assert said.startswith("run.json can't be used as an artifact: ") and said.endswith(".")
        assert said.isprintable() and len(said) < 300
        return False
    assert parse_artifact(encode_artifact(artifact).encode(), "again") == artifact
    return True


@pytest.mark.slow
@given(st.binary() | st.text().map(str.encode) | JSON.map(encoded) | OBJECT.map(encoded))
def test_any_bytes_are_an_artifact_or_a_clean_error(data):
    read_or_refuse(data)


@pytest.mark.slow
def test_a_spoiled_artifact_is_an_artifact_or_a_clean_error():
    rng = random.Random(9)
    outcomes = [read_or_refuse(spoiled(rng)) for _ in range(MUTATIONS)]
    assert 0.1 < sum(outcomes) / MUTATIONS < 0.9, "the mutations reach both outcomes"


@pytest.mark.parametrize("section", ["input", "output", "continuation"])
@pytest.mark.parametrize("name", ["", "input", "input.prompt", "self", "prompt "])
def test_a_key_of_whatever_name_is_tolerated_in_each_section(section, name):
    odd = {**GOOD, section: {**GOOD[section], name: 1}}
    assert ExecutionArtifact.from_dict(odd).to_dict() == GOOD
