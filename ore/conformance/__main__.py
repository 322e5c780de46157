"""``python -m ore.conformance``: what was made of each rule, a line for each."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from ore.conformance import BROKEN, check
from ore.conformance.verdicts import in_words
from ore.errors import INTERRUPTED
from ore.files.neutral import one_line

_USAGE = "usage: python -m ore.conformance MODULE:NAME [ARGUMENT ...]\n"


def main(argv: Sequence[str]) -> int:
    """Check what the arguments name; return 0 if every rule holds, 3 if one is broken, else 2.

    What was interrupted returns 130.
    """
    name, _, attribute = argv[0].partition(":") if argv else ("", "", "")
    if not name or not attribute:
        sys.stderr.write(_USAGE)
        return 2
    try:
        made = getattr(import_module(name), attribute)
        findings = check(lambda: made(*argv[1:]))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as exc:  # theirs, of any kind; one that ends the process is no verdict
        why = one_line(f"{argv[0]} can't be tested: {in_words(exc)}")
        sys.stderr.write(f"Error: {why}\n{_USAGE}")
        return 2
    for each in findings:
        why = one_line(f": {each.why}") if each.why else ""
        sys.stdout.write(f"{each.state:<9}  {each.rule}{why}\n")
    return 3 if any(each.state == BROKEN for each in findings) else 0


if __name__ == "__main__":
    sys.path.insert(0, "")
    raise SystemExit(main(sys.argv[1:]))
