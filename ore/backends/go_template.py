"""What becomes of messages in the chat template of a model on an Ollama server.

Such a server joins system messages, and neighbours of one role, before its templates see them. What
does not: its own code for some models (``RENDERER`` in a Modelfile), which may take the first system
message alone, what a model of its cloud runs with, whose template nobody shows, and servers that speak
its protocol with templates of another language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ore.backends.joining import Groups, joined, left_out
from ore.errors import BackendError
from ore.types import Message

ROLES = ("system", "user", "assistant")
Version = Callable[[], tuple[int, ...]]
"""Asked for the numbers of a server's version; none where they are not known."""

RUNS_LLAMA_CPP = (0, 30)
"""The version of Ollama from which llama.cpp runs its models."""
_BARE = "{{ .Prompt }}"
"""What Ollama shows as the template of a model without one."""

_LONGEST = 1 << 17
"""Characters of a template that is read; a longer one is not known."""
_REST = re.compile(r"""((?:"(?:\\.|[^"\\])*"|`[^`]*`|[^"`}]|\}(?!\}))*)\}\}""", re.DOTALL)
"""What follows ``{{``: an action and its end."""
_COMMENT, _ENDS = re.compile(r"-?\s*/\*"), re.compile(r"\s*-?\}\}")
"""How a comment begins, which may have braces in it, and what follows its end."""
_IS_ROLE = re.compile(r"\beq\s+[$\w]*\.Role((?:\s+\"\w+\")+)")
_IS_NOT_ROLE = re.compile(r"(?:else\s+)?if\s+ne\s+[$\w]*\.Role\s+\"(\w+)\"")
_RENDERER = re.compile(r"^RENDERER ", re.MULTILINE)
_OTHERS = re.compile(r"\$\.Messages\b")
"""Messages that are looked at within a block for one: their roles are not that one's."""
_KEEPS = re.compile(r"=\s*\(*(?:(?:index|slice)\s+)?\$?\.Messages\b")
"""How all messages, or one of them by its number, come into a variable, whose text may be any role's."""
_FIELDS = {"System": "system", "Prompt": "user", "Response": "assistant"}
"""What a template without ``.Messages`` is given, one turn after the other."""
_OPENS = ("if", "with", "range", "block", "define")
_TAKES = re.compile(r"(?:else )?with\b|.*:=", re.DOTALL)
"""How an action that opens a block begins where the block may write what stands in it, as ``.``."""


def roles_of(template: object) -> frozenset[str] | None:
    """Return the roles whose text a template of Go's language puts into the prompt; None: not known.

    A text that may arrive counts as one that does.
    """
    if not isinstance(template, str) or not template.strip() or len(template) > _LONGEST:
        return None
    found, within, actions = set[str](), [frozenset(ROLES)], _actions(template)
    of_tools = [False]
    for action in actions or ():
        word = "".join(action.split(maxsplit=1)[:1])
        if word != "range" and _KEEPS.search(action):
            return None
        others = _OTHERS.search(action) is not None
        if word in _OPENS:
            outer = frozenset(ROLES) if others and word in ("range", "with") else within[-1]
            within.append(_roles_where(action) & outer)
            of_tools.append(_is_tools(action, of_tools[-1]))
        elif word == "else" and len(within) > 1:
            within[-1] = _roles_where(action) & within[-2]
            of_tools[-1] = _is_tools(action, of_tools[-2])
        elif word == "end" and len(within) > 1:
            within.pop()
            of_tools.pop()
        if word not in (*_OPENS, "else", "end") or _TAKES.match(action):
            names = set(re.findall(r"\.(\w+)", action))
            has_text = names <= {"Messages"} and not of_tools[-1]  # where it is written whole
            is_whole = has_text and re.search(r"\bjson\b", action)
            of = frozenset(ROLES) if others else within[-1]
            found |= of if "Content" in names or is_whole else frozenset()
            found |= {role for name, role in _FIELDS.items() if name in names}
    used = " ".join(actions or ())
    if len(within) != 1 or not re.search(r"\.(Messages|System|Prompt)\b", used):
        return None
    if ".Messages" not in used:
        found.add("assistant")  # the server puts it behind a template that does not
    return frozenset(found)


def _actions(template: str) -> list[str] | None:
    """Return what stands between braces but comments, stripped; None where one has no end."""
    found, at = list[str](), template.find("{{")
    while at >= 0:
        if comment := _COMMENT.match(template, at + 2):
            close = template.find("*/", comment.end())
            action = None if close < 0 else _ENDS.match(template, close + 2)
        else:
            action = _REST.match(template, at + 2)
        if action is None:
            return None
        if comment is None:
            found.append(action[1].strip("- \t\r\n"))
        at = template.find("{{", action.end())
    return found


def _roles_where(condition: str) -> frozenset[str]:
    """Return the roles that the messages in a block may have; all where its condition is of another kind."""
    if other := _IS_NOT_ROLE.fullmatch(condition):
        return frozenset(ROLES) - {other[1]}
    named = {role for test in _IS_ROLE.findall(condition) for role in re.findall(r"\w+", test)}
    rest = set(re.findall(r"[$.\w]+", _IS_ROLE.sub("", condition)))
    is_plain = not rest & {"not", "ne", "or"} or rest <= {"else", "if", "or"}
    return frozenset(named) if named and is_plain else frozenset(ROLES)


def _is_tools(action: str, outer: bool) -> bool:
    """Return whether ``.`` is of tools behind an action, with ``outer``: whether it is around its block."""
    if not re.match(r"(else\s+)?(range|with)\b", action):
        return outer
    return ".Tool" in action or outer and ".Messages" not in action  # a part of a tool is its own


def has_renderer(shown: Mapping[str, Any]) -> bool:
    """Return whether the server's own code writes a model's prompt, whatever its template is."""
    modelfile = shown.get("modelfile")
    said = isinstance(modelfile, str) and _RENDERER.search(modelfile)
    return bool(said or shown.get("renderer"))


def is_template_unused(shown: Mapping[str, Any]) -> bool:
    """Whether what is shown as a model's template does not write its prompt.

    The server's own code does, another machine, or a template that a server like Ollama does not show.
    """
    texts = (shown.get(key) for key in ("modelfile", "template"))
    modelfile, template = (each if isinstance(each, str) else "" for each in texts)
    if has_renderer(shown):
        return True
    if (template or "FROM " in modelfile) and "TEMPLATE" not in modelfile:
        return True  # Ollama's has one always: others show a template that they do not use
    return bool(shown.get("remote_host"))


def is_known_to_lose(shown: Mapping[str, Any]) -> bool:
    """Whether messages that are not joined may not arrive, by what ``/api/show`` says of a model."""
    template = shown.get("template")
    if is_template_unused(shown):
        return True
    return isinstance(template, str) and "{%" in template and roles_of(template) is None


def is_bare(shown: Mapping[str, Any], version: Version) -> bool:
    """Return whether a model is sent the text of the prompt alone, for it has no chat template.

    llama.cpp may write the prompt of such a model with a template of its own, which has every role.
    """
    return _is_shown_bare(shown) and version() < RUNS_LLAMA_CPP


def _is_shown_bare(shown: Mapping[str, Any]) -> bool:
    template = shown.get("template")
    is_used = isinstance(template, str) and not is_template_unused(shown)
    return is_used and str(template).strip() == _BARE


def without_place(
    shown: Mapping[str, Any], messages: Sequence[Message], version: Version = tuple
) -> Message | None:
    """Return the first message whose role has no place in a model's template; None is not known.

    Args:
        version: Asked where the model may have none; with that of ``RUNS_LLAMA_CPP`` it is not known.
    """
    if is_template_unused(shown) or _is_shown_bare(shown) and version() >= RUNS_LLAMA_CPP:
        return None
    roles = roles_of(shown.get("template"))
    return next((each for each in messages if roles and each.role not in roles), None)


def arriving(
    shown: Mapping[str, Any], messages: list[Message], version: Version = tuple
) -> tuple[list[Message], Groups | None]:
    """Return the messages as they are to be sent, and which were joined; None where none was.

    Args:
        version: As for ``without_place``.

    Raises:
        BackendError: The template has no place for one of them.
    """
    if (lost := without_place(shown, messages, version)) is not None:
        raise BackendError(left_out(lost))
    return joined(messages) if is_known_to_lose(shown) else (messages, None)
