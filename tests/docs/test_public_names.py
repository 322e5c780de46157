"""The public names: each has its type for type checkers, and a docstring that leaves nothing out."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from textwrap import dedent
from types import FunctionType, ModuleType

import pytest

import ore
from tests.support.house import source_files, tree_of
from tests.support.process import PATIENCE, ROOT, environment

OF_OTHER_ROOMS = {
    *("ExecutionArtifactContinuation", "ExecutionArtifactInput", "ExecutionArtifactOutput"),
    *("Found", "Salvaged", "SessionDetails"),
    *("Departure", "OpenAIBackend", "Reading", "Recalled"),
}
"""What a program finds in ``ore.types`` and in ``ore.store``; and what passes from one room to another."""

MODULES = sorted({*ore._modules().values(), "ore.backends"})


def test_the_package_lists_its_public_names_and_has_no_other():
    assert dir(ore) == sorted(ore.__all__)
    with pytest.raises(AttributeError, match="module 'ore' has no attribute 'Oracle'"):
        ore.Oracle


WITHOUT_EXTRAS = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1:]:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from ore import *
try:
    report_page(["run.json"])
except ExtraNotInstalledError as exc:
    print(exc.extra)
"""
EXTRAS = (
    "jinja2",
    "markupsafe",
    "jsonschema",
    "openai",
    "rich",
    "xllamacpp",
    "distributed",
    "shtab",
)


@pytest.mark.slow
def test_no_public_name_needs_an_extra_before_it_is_used():
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *EXTRAS]
    env = environment(PYTHONPATH=str(ROOT))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout, done.stderr) == ("report\n", "")


@pytest.mark.parametrize("name, module", ore._modules().items())
def test_type_checkers_and_python_find_a_name_in_one_place(name, module):
    found = getattr(ore, name)
    if name == "reasoner":  # the module of that name, which can be called
        assert found is import_module("ore.reasoner") and callable(found)
    else:
        assert found is getattr(import_module(module), name)


def public_parts(module: ModuleType) -> Iterator[tuple[str, object]]:
    """Every public class, function and method that a module defines, with its dotted name."""
    for name, value in vars(module).items():
        if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
            continue
        if isinstance(value, (type, FunctionType)):
            yield f"{module.__name__}.{name}", value
        for method, part in vars(value).items() if isinstance(value, type) else ():
            part = getattr(part, "__func__", getattr(part, "fget", part))
            if isinstance(part, FunctionType) and not method.startswith("_"):
                yield f"{module.__name__}.{name}.{method}", part


PARTS = dict(part for module in MODULES for part in public_parts(import_module(module)))


def documentation(name: str) -> str:
    """A part's docstring, then what it inherits: a class's bases, or the method it overrides."""
    texts = [inspect.getdoc(PARTS[name]) or ""]
    owner, _, method = name.rpartition(".")
    kind = PARTS[name] if isinstance(PARTS[name], type) else PARTS.get(owner)
    for base in kind.__mro__[1:] if isinstance(kind, type) else ():
        if base.__module__ in MODULES:
            inherited = base if kind is PARTS[name] else vars(base).get(method)
            texts.append(inspect.getdoc(inherited) or "" if inherited else "")
    return "\n".join(texts)


def parameters(part: object) -> list[str]:
    """What a function, or a class where it is made, takes from its caller."""
    made = vars(part).get("__init__") if isinstance(part, type) else part
    if hasattr(part, "_fields"):  # a named tuple
        return list(part._fields)
    if not isinstance(made, FunctionType) or getattr(part, "_is_protocol", False):
        return []
    return [name for name in inspect.signature(made).parameters if name not in ("self", "cls")]


def raised(part: object) -> set[type[BaseException]]:
    """The errors of ours that the part's own lines raise, by name or through a function's type."""
    made = vars(part).get("__init__") if isinstance(part, type) else part
    if not isinstance(made, FunctionType) or "<string>" in made.__code__.co_filename:
        return set()
    found = set()
    for node in ast.walk(ast.parse(dedent(inspect.getsource(made)))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            error = made.__globals__.get(ast.unparse(node.exc.func))
            if isinstance(error, FunctionType):
                error = made.__globals__.get(error.__annotations__.get("return", ""))
            if isinstance(error, type) and issubclass(error, BaseException):
                found.add(error)
    return found


@pytest.mark.parametrize("name", PARTS)
def test_a_public_part_says_what_it_is_or_does(name):
    text = documentation(name)
    assert re.match(r"\S.*[.;:,\w]$", text.partition("\n")[0]), f"{name}: {text!r}"


@pytest.mark.parametrize("name", [name for name in PARTS if parameters(PARTS[name])])
def test_every_argument_is_explained(name):
    text = documentation(name)
    entries = re.findall(r"^ +((?:\w+, )*\w+):", text, re.MULTILINE)
    explained = set(re.findall(r"\w+", " ".join(entries + re.findall(r"``([^`]+)``", text))))
    assert [each for each in parameters(PARTS[name]) if each not in explained] == []


@pytest.mark.parametrize("name", [name for name in PARTS if raised(PARTS[name])])
def test_every_error_that_is_raised_is_listed(name):
    listed = documentation(name).partition("Raises:")[2]
    for error in raised(PARTS[name]):
        kin = [each.__name__ for each in error.__mro__]
        assert any(each in listed for each in kin), f"{name} does not list {error.__name__}"


CLASSES = {
    node.name
    for path in source_files()
    for node in ast.walk(tree_of(path))
    if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
}


def given_by(value: object) -> Iterator[str]:
    """The annotations of what a public name gives: what it returns, and the attributes of a class."""
    parts = vars(value).items() if isinstance(value, type) else [("", value)]
    for name, part in parts:
        part = getattr(part, "__func__", getattr(part, "fget", part))
        if isinstance(part, FunctionType) and not name.startswith("_"):
            yield str(part.__annotations__.get("return", ""))
    if dataclasses.is_dataclass(value):
        yield from (str(each.type) for each in dataclasses.fields(value))
    if hasattr(value, "_fields"):  # a named tuple
        yield from map(str, value.__annotations__.values())


@pytest.mark.parametrize("name", [name for name in ore._modules() if name != "reasoner"])
def test_what_a_public_name_gives_has_a_public_type(name):
    words = {word for text in given_by(getattr(ore, name)) for word in re.findall(r"\w+", text)}
    assert (words & CLASSES) - {*dir(ore)} <= OF_OTHER_ROOMS
