"""Which resources a skill's text names: paths in Markdown links and in backticks.

A path that is found here need not exist. Every pattern takes time in proportion to the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

FOLDERS = ("resources", "references", "assets")

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
_TEMPLATE = re.compile(r"[*?<>{}|$]|\.\.\.|…")


def resource_mentions(body: str) -> list[str]:
    """Return the resources that a skill's body names, each once, in the order of first mention.

    A resource is a relative path below one of ``FOLDERS``, named as the target of a Markdown link
    or as the whole of a code span. Images, fenced code, folders and patterns (``assets/*.md``,
    ``references/<topic>.md``) name none. A link's ``#fragment`` is dropped, its ``%20`` decoded.
    """
    found: dict[str, None] = {}
    for mention in _MENTION.finditer(_IMAGE.sub("", "\n".join(_prose(body)))):
        path = _resource(mention)
        if path is not None:
            found.setdefault(path)
    return list(found)


def _resource(mention: re.Match[str]) -> str | None:
    if mention["code"] is not None:
        path = mention["code"].strip()
        if _TEMPLATE.search(path):
            return None
    else:
        target = mention["angled"] or mention["link"] or mention["definition"] or ""
        path = unquote(target.partition("#")[0].partition("?")[0])
    if path.startswith("/") or path.endswith("/"):
        return None
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if len(parts) < 2 or parts[0] not in FOLDERS:
        return None
    return "/".join(parts)


def _prose(body: str) -> Iterator[str]:
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
