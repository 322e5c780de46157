"""What to run for a package that ORE can use and that is not there.

Whoever runs a copy of the project installs a file of requirements; whoever installed ORE installs
it anew with an extra.
"""

from __future__ import annotations

import os
import sys

_DISTRIBUTION = "ore-reasoning"
_PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def install_command(extra: str | None = None, *, again: bool = False) -> str:
    """Return the command that installs an extra of ``pyproject.toml``, or what ORE always needs.

    With ``again``, what is installed and does not work is replaced.
    """
    pip = "pip install --force-reinstall" if again else "pip install"
    requirements = f"requirements-{extra}.txt" if extra else "requirements.txt"
    if os.path.isfile(os.path.join(_PROJECT, requirements)):
        return f"{pip} -r {requirements}"
    wanted = f"'{_DISTRIBUTION}[{extra}]'" if extra else _DISTRIBUTION
    if os.path.isfile(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx install --force {wanted}"
    return f"{pip} {wanted}"
