"""The gate: what is not granted never runs, and whatever a tool does ends in a result."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ore.errors import (
    FileAccessError,
    GateError,
    Terminated,
    ToolError,
    ToolFailedError,
    UsageError,
)
from ore.gate import Gate, Permission
from ore.tools import TOOL_REGISTRY, Tool
from ore.types import ToolResult

ALL = frozenset(Permission)


class Recorder(Tool):
    """A tool that needs what it is told to need, and counts its runs."""

    name = "recorder"
    description = "Count."

    def __init__(self, needs=frozenset(), behave=None) -> None:
        self.required_permissions = needs
        self.runs = 0
        self._behave = behave

    def run(self, args):
        self.runs += 1
        if self._behave is not None:
            return self._behave(args)
        return ToolResult(self.name, "done", "ok", metadata={"mine": 1})


def test_one_permission_as_text_is_no_list_of_its_letters():
    with pytest.raises(UsageError, match="^allowed must be a list: put brackets around"):
        Gate("filesystem-read")


PERMISSIONS = st.frozensets(st.sampled_from(Permission))


@pytest.mark.invariant
@given(needs=PERMISSIONS, allowed=PERMISSIONS)
def test_a_denied_tool_never_runs_and_an_allowed_one_runs_once(needs, allowed):
    tool, gate = Recorder(needs), Gate(allowed)
    if needs <= allowed:
        gate.check(tool)
        assert tool.runs == 0
        result = gate.run(tool, {})
        assert (tool.runs, result.status) == (1, "ok")
        assert result.metadata["checked_permissions"] == sorted(item.value for item in needs)
        return
    for attempt in (lambda: gate.check(tool), lambda: gate.run(tool, {})):
        with pytest.raises(GateError) as caught:
            attempt()
        assert caught.value.tool_name == "recorder"
        assert caught.value.missing == needs - allowed
    assert tool.runs == 0


@pytest.mark.invariant
def test_a_gate_without_grants_denies_every_permission():
    for permission in Permission:
        with pytest.raises(PermissionError):
            Gate().check(Recorder(frozenset({permission})))


def test_a_denial_says_every_grant_that_is_missing():
    needs = frozenset({Permission.SHELL, Permission.NETWORK, Permission.FILESYSTEM_READ})
    with pytest.raises(GateError) as caught:
        Gate({Permission.NETWORK}).check(Recorder(needs))
    assert str(caught.value) == (
        "The tool 'recorder' was not run: allow it with `Permission('filesystem-read')` and "
        "`Permission('shell')`."
    )


@pytest.mark.parametrize("needs", ["shell", ["shell"], {"no such permission"}])
def test_a_tool_that_declares_no_permission_values_never_runs(needs):
    tool = Recorder(needs)
    with pytest.raises(GateError):
        Gate(ALL).run(tool, {})
    assert tool.runs == 0


def test_permissions_that_can_be_read_only_once_are_never_all_granted():
    tool, gate = Recorder(iter([Permission.SHELL])), Gate()
    for attempt in (lambda: gate.check(tool), lambda: gate.run(tool, {})):
        with pytest.raises(ToolError, match="must be a set of ore.Permission"):
            attempt()
    assert tool.runs == 0


def test_what_a_tool_needs_is_asked_once_each_time():
    """Else one that needs less the second time runs without its grants."""

    class Fickle(Recorder):
        answers = iter([{Permission.SHELL}, frozenset()])
        required_permissions = property(lambda self: next(self.answers), lambda self, value: None)

    tool = Fickle()
    with pytest.raises(GateError):
        Gate().run(tool, {})
    assert tool.runs == 0


def test_a_tool_that_does_not_say_what_it_needs_never_runs():
    class Silent(Tool):
        name = "silent"
        description = "Says nothing of permissions."

        def run(self, args):
            return ToolResult(self.name, "ran", "ok")

    with pytest.raises(AttributeError):
        Gate(ALL).run(Silent(), {})


def test_grants_are_permissions_or_their_names_and_nothing_else():
    assert Gate(["shell"]).allowed == Gate({Permission.SHELL}).allowed == {Permission.SHELL}
    assert isinstance(Gate(["shell"]).allowed, frozenset), "no tool can add to it"
    with pytest.raises(ValueError):
        Gate(["everything"])


def test_the_gates_metadata_stands_beside_the_tools_own():
    result = Gate(ALL).run(Recorder(frozenset({Permission.SHELL, Permission.NETWORK})), {})
    assert (result.tool_name, result.output, result.status) == ("recorder", "done", "ok")
    assert result.metadata.pop("execution_time_ms") >= 0
    assert result.metadata == {"mine": 1, "checked_permissions": ["network", "shell"]}


def test_a_tool_can_not_say_for_the_gate_what_was_checked():
    claimed = {"execution_time_ms": -1.0, "checked_permissions": ["shell"]}
    tool = Recorder(behave=lambda args: ToolResult("recorder", "done", "ok", metadata=claimed))
    result = Gate().run(tool, {})
    assert result.metadata["execution_time_ms"] >= 0
    assert result.metadata["checked_permissions"] == []


@pytest.mark.parametrize("name", ["read-file", "file:notes.txt", "recorder]\u00b7[Skill:x"])
def test_a_result_is_in_the_name_of_the_tool_that_ran(name):
    tool = Recorder(behave=lambda args: ToolResult(name, "done", "ok"))
    assert Gate().run(tool, {}).tool_name == "recorder"


def test_the_time_is_that_of_the_tool_in_milliseconds_to_a_thousandth():
    def behave(args):
        time.sleep(0.05)
        return ToolResult("recorder", "done", "ok")

    start = time.perf_counter()
    result = Gate().run(Recorder(behave=behave), {})
    most = (time.perf_counter() - start) * 1000
    assert 40 <= result.metadata["execution_time_ms"] <= most + 0.001
    times = [Gate().run(Recorder(), {}).metadata["execution_time_ms"] for _ in range(20)]
    assert all(isinstance(taken, float) and taken == round(taken, 3) for taken in times)


def test_a_tool_can_not_change_its_callers_arguments():
    args = {"a": "1"}
    Gate().run(Recorder(behave=lambda given: given.clear()), args)
    assert args == {"a": "1"}


class Wordless(Exception):
    """An error that can't say what it is."""

    def __str__(self):
        return self.args[1]


def raising(error: BaseException):
    def behave(args):
        raise error

    return behave


NOT_SHOWN = "TypeError: recorder returned a result whose tool_name can't be shown"


@pytest.mark.parametrize(
    ("behave", "output"),
    [
        (raising(ValueError("two\nlines\r\n\x85here")), "ValueError: two lines here"),
        (raising(KeyError()), "KeyError"),
        (raising(RecursionError("deep")), "RecursionError: deep"),
        (raising(SystemExit(3)), "SystemExit: 3"),
        (raising(FileAccessError("It can't be read.")), "It can't be read."),
        (raising(FileAccessError("\n")), "FileAccessError"),
        (raising(ValueError("x" * 9999)), "ValueError: " + "x" * 500),
        (raising(Wordless()), "Wordless"),
        (lambda args: None, "TypeError: recorder returned NoneType, not a ToolResult"),
        (lambda args: ToolResult(None, "out", "ok"), NOT_SHOWN),
        (lambda args: ToolResult("x\ud800", "out", "ok"), NOT_SHOWN),
        (lambda args: "text", "TypeError: recorder returned str, not a ToolResult"),
        (
            lambda args: ToolResult("recorder", "out", "fine"),
            "TypeError: recorder returned a result whose output is not text or status not ok or error",
        ),
        (
            lambda args: ToolResult("recorder", b"out", "ok"),
            "TypeError: recorder returned a result whose output is not text or status not ok or error",
        ),
        (
            lambda args: ToolResult("recorder", "out", "ok", metadata=None),
            "TypeError: recorder returned a result whose metadata is not a dict",
        ),
        (
            lambda args: ToolResult("recorder", "x" * 67_108_865, "ok"),
            "TypeError: recorder returned more than 67,108,864 characters",
        ),
        (
            lambda args: ToolResult("recorder", "caf\udce9", "ok"),
            "UnicodeEncodeError: 'utf-8' codec can't encode character '\\udce9' in position 3: "
            "surrogates not allowed",
        ),
    ],
)
def test_a_tool_that_breaks_gives_a_result_of_one_line(behave, output):
    result = Gate().run(Recorder(behave=behave), {})
    assert (result.tool_name, result.output, result.status) == ("recorder", output, "error")
    assert set(result.metadata) == {"execution_time_ms", "checked_permissions"}


def test_a_text_of_a_class_of_its_own_is_what_it_holds():
    odd = type("Odd", (str,), {"__str__": lambda self: 1 / 0, "encode": None})
    result = Gate().run(Recorder(behave=lambda args: ToolResult("recorder", odd("rain"), "ok")), {})
    assert (type(result.output), f"{result.output}") == (str, "rain")


class Changing(ToolResult):
    """A result whose text is another one when it is looked at again."""

    answers = iter(("fine", "caf\udce9", "caf\udce9", "caf\udce9"))
    output = property(lambda self: next(self.answers), lambda self, value: None)


def test_a_result_is_looked_at_once():
    result = Gate().run(Recorder(behave=lambda args: Changing("recorder", "", "ok")), {})
    assert (result.output, result.status) == ("fine", "ok")


class Counted(ToolResult):
    """A result that is made of something else than the fields of one."""

    def __init__(self, number: int) -> None:
        super().__init__("counting", str(number), "ok", metadata={"number": number})


def test_a_result_of_a_class_of_its_own_is_what_it_holds():
    made = Counted(3)
    result = Gate().run(Recorder(behave=lambda args: made), {})
    assert (result.tool_name, result.output, result.status) == ("recorder", "3", "ok")
    assert (result.id, result.timestamp, result.metadata["number"]) == (made.id, made.timestamp, 3)


def test_metadata_of_a_class_of_its_own_that_break_are_an_error_of_the_tool():
    odd = type("Odd", (dict,), {"keys": lambda self: 1 / 0, "items": lambda self: 1 / 0})
    made = ToolResult("recorder", "rain", "ok", metadata=odd(a=1))
    result = Gate().run(Recorder(behave=lambda args: made), {})
    assert (result.output, result.status) == ("ZeroDivisionError: division by zero", "error")


@pytest.mark.parametrize("error", [KeyboardInterrupt, Terminated])
def test_an_interrupt_goes_through(error):
    with pytest.raises(error):
        Gate().run(Recorder(behave=raising(error())), {})


def test_a_tool_is_waited_for_so_long_and_no_longer():
    over = threading.Event()
    tool = Recorder(behave=lambda args: over.wait() and None)
    with pytest.raises(ToolFailedError) as caught:
        Gate().run(tool, {}, seconds=0.05)
    over.set()
    assert str(caught.value) == (
        "The tool 'recorder' was not done after 0.05 s, so the turn was ended: give it longer with "
        "`seconds=`."
    )
    assert Gate().run(Recorder(), {}, seconds=60.0).output == "done"
    own = Gate().run(Recorder(behave=raising(TimeoutError("a socket"))), {}, seconds=60.0)
    assert own.output == "TimeoutError: a socket"


@pytest.mark.slow
def test_a_result_whose_own_code_never_ends_is_waited_for_so_long_and_no_longer():
    late = type("Late", (dict,), {"items": lambda self: time.sleep(60)})
    made = ToolResult("recorder", "rain", "ok", metadata=late())
    began = time.monotonic()
    with pytest.raises(ToolFailedError, match="was not done after 0.1 s"):
        Gate().run(Recorder(behave=lambda args: made), {}, seconds=0.1)
    assert time.monotonic() - began < 30


def test_a_tool_that_reports_an_error_is_left_as_it_is():
    result = Gate().run(Recorder(behave=lambda args: ToolResult("recorder", "no", "error")), {})
    assert (result.output, result.status) == ("no", "error")


@pytest.mark.parametrize(("name", "allowed"), [("echo", ()), ("read-file", ["filesystem-read"])])
def test_the_tools_that_come_with_ore_need_just_this(name, allowed):
    Gate(allowed).check(TOOL_REGISTRY[name])
    if allowed:
        with pytest.raises(GateError):
            Gate(ALL - Gate(allowed).allowed).check(TOOL_REGISTRY[name])
