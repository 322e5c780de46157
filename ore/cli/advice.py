"""What the library's sentences say to do, in the words of the command line: one table.

A sentence of the library names arguments and functions between backticks, as ``ore.errors.ADVICE``
has it: "give it longer with `timeout=`". On the command line that is "give it longer with --timeout".
"""

from __future__ import annotations

import re

from ore.errors import ADVICE, Advice, OreError
from ore.files.neutral import AT

FLAGS = {
    "after=": "--after",
    "args['path']": "--tool-arg path=PATH",
    "args['root']": "--tool-arg root=DIR",
    "args[]": "--tool-arg {}=…",
    "at_once=": "--jobs",
    "backend=": "--backend",
    "Backend.described(whole=True)": "--list-models --json",
    "Backend.models()": "--list-models",
    "Backend.pull()": "--pull {}",
    "build_skill_registry()": "--list-skills",
    "chat_template=": "--chat-template",
    "choices=": "--choose",
    "deadline=": "--deadline",
    "EmbeddedBackend.pull()": "--backend embedded --pull {}",
    "FileSessionStore.list()": "--list-sessions",
    "FileSessionStore.salvage()": "--salvage-session {}",
    "folder=": "--artifact-out",
    "format=": "--rows-format",
    "host=": "--host",
    "images=": "--image",
    "insecure=True": "--insecure",
    "keep_alive=": "--keep-alive",
    "key=": "--key",
    "least=": "--min-confidence",
    "model=": "--model",
    "model_id=": "--model",
    "most_failures=": "--max-failures",
    "options=": "--option",
    "parent=": "--after",
    "reasoner=": "--backend",
    "options['num_ctx']": "-o num_ctx=N",
    "options['num_predict']": "-o num_predict=N",
    "options[]": "-o {}",
    "ORE.plan()": "--dry-run",
    "ORE.record()": "--artifact-out",
    "ORE.record(full=True)": "--artifact-full",
    "ORE.record(system_text=True)": "--artifact-text, or without --artifact-hashes-only",
    "Permission()": "--grant {}",
    "reasoner('embedded:NAME')": "--backend embedded",
    "Signer.sign()": "ore --verify {} --sign KEY",
    "scheduler=": "--scheduler",
    "schema=": "--schema",
    "seconds=": "--deadline",
    "strict_context=": "--strict-context",
    "system_prompt=''": "--no-system",
    "think=": "--think",
    "think=False": "--think off",
    "timeout=": "--timeout",
    "values=": "--set",
    "values['stdin']": "a text on stdin",
    "values[]": "--set '{}=VALUE'",
}
"""What stands between the backticks, whole or without what is between its brackets; and the flag."""

_BEFORE_AT = rf".*{AT}"
_SCHEME = r"(?<![a-z0-9])[a-z][a-z0-9+.-]{1,15}[:\uff1a][/\\\uff0f]{1,8}"
_BEGINS = rf"(?i)(?:://|{_SCHEME}|\bhttps?(?:[:\uff1a](?!\s)|[^\w\s/]?//))(?!NAME:PASSWORD@)"
_ADDRESS = rf"{_BEGINS}(?=[^/]*{AT}|[^/]*:(?![0-9]*(?:/|$)))"
"""What stands before a user name and a password, however its slashes are written: in a path, ``//`` has
become ``/``. The login of an example that ORE gives may be shown."""
_SPACED = rf"{_BEGINS}(?=[^/:\[]{{0,80}}:(?!\s|[0-9]*(?:[\s/:;,.'\"`)\]>]|$)))"
"""The same of a login that may have blanks in it: a colon in it is before no port and ends no word."""
_BEFORE_SPACED_AT = rf"(?s).*\S{AT}"
_CUT = (
    rf"(?i)(\bhttps?:[/\\]{{0,8}}|{_SCHEME})(?!NAME:)[^\s/:@\[…]{{1,80}}"
    r":(?!\s|[0-9]*(?:[\s/:;,.'\")\]]|$)|[0-9]{2,5}(?:[`>?\u2026]['\".,;:)`>?]{0,3}(?:\s|$)|\^J))"
    r"\S*[^\s'\".,;:)]"
)
"""An address that is cut in a password, as a path's folder can be; or one that lacks its ``@``."""


def said(sentence: str | OreError) -> str:
    """Return a sentence of the library's, or an error's, as the command line says it.

    Whatever was given an address, its user name and password are left out. An answer that an error
    quotes at its end stays as it is.
    """
    text = str(sentence)
    answer = getattr(sentence, "text", "")
    text = _without_spaced(text.removesuffix(answer))
    text = re.sub(_CUT, "\\1…", re.sub(r"\S+", _without_login, text))
    return (re.sub(ADVICE, _flag, text) if "`" in text else text) + answer


def _without_spaced(text: str) -> str:
    """Return a sentence without the logins that have blanks in them, each up to its last ``@``."""
    begins = [found.end() for found in re.finditer(_SPACED, text)]
    parts = [text[begin:end] for begin, end in zip([0, *begins], [*begins, None])]
    logins = [re.match(_BEFORE_SPACED_AT, part) for part in parts[1:]]
    hidden = [
        f"…@{part[login.end():]}" if login and re.search(r"\s", login[0]) else part
        for part, login in zip(parts[1:], logins)
    ]
    return "".join([parts[0], *hidden])


def _without_login(found: re.Match[str]) -> str:
    word = found[0]
    login = re.match(_BEFORE_AT, word)
    begins = login and re.search(_ADDRESS, login[0])
    return f"{word[:begins.end()]}…@{word[login.end():]}" if login and begins else word


def _flag(found: re.Match[str]) -> str:
    whole = found[0].strip("`")
    if whole in FLAGS:
        return FLAGS[whole]
    advice = Advice.of(found)
    if found["value"] is not None:
        flag = FLAGS.get(f"{advice.what}=")
        return found[0] if flag is None else f"{flag} {advice.about}".rstrip()
    bare = advice.what + whole[len(advice.what)] + whole[-1]
    return FLAGS.get(bare, found[0]).replace("{}", advice.about)
