"""The page of a report: one file of HTML that loads nothing and runs nothing but its own script.

Every text of a run is data: the template escapes it (Jinja2, autoescape), the rest is JSON that no tag
can leave, and the page's script only ever sets text. A Content-Security-Policy forbids the browser
whatever else a text might ask for.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from ore import __version__
from ore.artifact.show import when
from ore.artifact.signers import Signers
from ore.files.extras import importing
from ore.report.collecting import Collected, collect
from ore.report.overview import Overview, overview_of
from ore.report.page_data import document
from ore.report.pairs import SideBySide, side_by_side
from ore.report.plots import HEIGHT, WIDTH, plots_of, series_of

BEGIN = b'<!doctype html>\n<html lang="en" data-by="ore-report">\n'
"""What every page begins with; a file that does not is never written over."""
MOST_WITHOUT_SCRIPT = 200
"""Runs that are listed where scripts are off."""

_HERE = Path(__file__).parent
_NOT_IN_JSON = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def report_page(
    paths: Iterable[os.PathLike[str] | str],
    stdin: io.BufferedIOBase | None = None,
    told: Callable[[int, int], None] = lambda done, of: None,
    signers: Signers | None = None,
) -> str:
    """Return a page of HTML on the artifacts of files and folders.

    Two folders, and nothing else, are shown side by side.

    Args:
        paths: Artifacts, or folders of them.
        stdin: What ``-`` among the paths is.
        told: Called with how many files have been read, of how many.
        signers: Those who may have signed them; None does not look for signatures.

    Raises:
        ArtifactError: A folder can't be read or has no artifact; or there is none in all of them.
        UsageError: There are more files than a page holds.
        ExtraNotInstalledError: The package that fills the page is missing.
    """
    require_jinja()
    return page_of(collect(paths, stdin, told, signers))


def require_jinja() -> Any:
    """Return the package that fills the page.

    Raises:
        ExtraNotInstalledError: It is missing.
    """
    with importing("jinja2", "A report needs the package {}: ", "report"):
        return import_module("jinja2")


def page_of(collected: Collected) -> str:
    """Return the page of what was ``collected``."""
    sides = side_by_side(collected.runs) if collected.is_two else None
    return _rendered(collected, overview_of(collected.runs), sides)


def _rendered(collected: Collected, overview: Overview, sides: SideBySide | None) -> str:
    jinja2, markup = require_jinja(), import_module("markupsafe").Markup
    style, script = (markup((_HERE / f"page.{kind}").read_text("utf-8")) for kind in ("css", "js"))
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_HERE),
    )
    template = environment.get_template("page.html")
    text: str = template.render(
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=markup(_json(document(collected, overview, sides))),
        collected=collected,
        overview=overview,
        sides=sides,
        plots=plots_of(collected.runs),
        series=series_of(collected.runs),
        size=(WIDTH, HEIGHT),
        first_runs=collected.runs[:MOST_WITHOUT_SCRIPT],
        made=when(time.time()),
        version=__version__,
    )
    return BEGIN.decode("ascii") + text


def _hash(text: str) -> str:
    """Return a hash as a Content-Security-Policy names what may stand in the page."""
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _json(value: Any) -> str:
    """Return JSON that no text in it can end, wherever it stands in a page."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_NOT_IN_JSON)
