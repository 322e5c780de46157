"""Which files of its folder a skill's text names: paths in Markdown links and in backticks.

Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from urllib.parse import unquote

FOLDERS = frozenset({"resources", "references", "assets"})
"""Folders that only a skill's own files are in, whether they are there or not."""

_FENCE = re.compile(r"[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(`{3,}|~{3,})(.*)")
_IMAGE = re.compile(r"!\[[^\[\]\n]*\]\([^()\n]*\)")
_MENTION = re.compile(
    r"""
      \]\([ \t]*(?:<(?P<angled>[^<>\n]*)>|(?P<link>[^\s()<>]+))     # [text](path "title")
    | ^[ ]{0,3}\[[^\[\]\n]+\]:[ \t]*<?(?P<definition>[^\s<>]+)      # [label]: path
    | (?<!`)(?P<ticks>`{1,2})(?P<code>[^`\n]+)(?P=ticks)(?!`)       # `path`
    """,
    re.MULTILINE | re.VERBOSE,
)
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:|//", re.IGNORECASE)
_TEMPLATE = re.compile(r"[*?<>{}|$]|\.\.\.|…")


def resource_mentions(body: str, there: Collection[str] = ()) -> list[str]:
    """Return the files that a skill's body names, each once, in the order of first mention.

    The target of a Markdown link is one, where it is not an address: a path below the skill's folder. So
    is the whole of a code span that begins with something that is ``there``, with one of ``FOLDERS``
    or with ``..``; any other may speak of the user's files. Images, fenced code and patterns
    (``assets/*.md``, ``references/<topic>.md``) name none. A link's ``#fragment`` is dropped, its
    ``%20`` decoded.

    Args:
        body: The text.
        there: The names of what is directly in the skill's folder.
    """
    found: dict[str, None] = {}
    for mention in _MENTION.finditer(_IMAGE.sub("", "\n".join(prose(body)))):
        is_code = mention["code"] is not None
        path = _in_code(mention["code"], there) if is_code else _in_link(mention)
        if path not in ("", "SKILL.md"):
            found.setdefault(path)
    return list(found)


def _in_code(text: str, there: Collection[str]) -> str:
    text = text.strip()
    path = _plain(text)
    first, _, rest = path.partition("/")
    leads_out = first == ".." and "." in rest.rpartition("/")[2].strip(".") and " " not in rest
    below = first in there and "/" in text.removeprefix("./")
    is_ours = leads_out or below or (first in FOLDERS and rest != "")
    if not is_ours and not (path in there and "." in path):  # `python` is a word, `FORMS.md` is not
        return ""
    return "" if _TEMPLATE.search(text) else path


def _in_link(mention: re.Match[str]) -> str:
    target = mention["angled"] or mention["link"] or mention["definition"] or ""
    if _ADDRESS.match(target):
        return ""
    return _plain(unquote(target.partition("#")[0].partition("?")[0]))


def _plain(path: str) -> str:
    """Return a path without what changes nothing; an absolute one begins with its slash."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts)


def prose(body: str) -> Iterator[str]:
    """Yield the lines outside fenced code; a fence that nothing closes lasts to the end."""
    fence = ""
    for line in body.split("\n"):
        found = _FENCE.match(line)
        if fence:
            closes = found and found[1].startswith(fence) and not found[2].strip()
            fence = "" if closes else fence
        elif found and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
        else:
            yield line
