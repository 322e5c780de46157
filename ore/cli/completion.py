"""Completion of ORE's own command line in a shell, through the optional package ``shtab``.

The scripts look names up on the disk themselves: no Tab starts Python or asks a server.
"""

from __future__ import annotations

import argparse
import importlib.util
import re

from ore.backends.weights import PINNED
from ore.cli.flags import FLAGS, TOPICS
from ore.cli.terminal.console import apart
from ore.errors import ExtraNotInstalledError
from ore.files.extras import install_command
from ore.tools import Permission, all_tools

_FILES = ("PATH", "FILE", "SCHEMA")
"""The names of values that are completed as files."""

_PLAIN = re.compile(r"(?![-.])[^\0-,:-?\[-^`{-\x7f]+")
"""A name of which no shell reads more than the name, where it loads the script or completes."""

_NAMES = """\
# The names of one kind that the disk has, a line each; those that a shell would read are left out.
LC_ALL=C
home=${ORE_HOME:-$HOME/.ore}
models=${ORE_MODEL_DIR:-$home/models}
kind=$1
case $kind in
sessions) set -- "$home/sessions"/*.json ;;
personas) set -- "$home/personas"/*.md ;;
skills) set -- "$home/skills"/*/SKILL.md ;;
models)
  set -- "$models"/*.gguf
  for root in "${OLLAMA_MODELS:-$HOME/.ollama/models}" /usr/share/ollama/.ollama/models; do
    set -- "$@" "$root/manifests"/*/*/*/*
  done ;;
esac
for path do
  test -f "$path" || continue
  case $path in
  */sessions/*.meta.json) continue ;;
  */SKILL.md) path=${path%/*} name=${path##*/} ;;
  */manifests/*)
    tag=${path##*/} name=${path%/*} name=${name##*/manifests/}
    name=${name#registry.ollama.ai/} name=${name#library/}:$tag ;;
PINNED_MODELS
  *) name=${path##*/} name=${name%.*} ;;
  esac
  case $name in
  -* | .* | *[[:cntrl:]]* | *[\\ -,]* | *[\\;-?]* | *[[-^]* | *[{-~]* | *\\`*) ;;
  *) echo "$name" ;;
  esac
done
"""

_FUNCTION = {
    "bash": """\
_ore_names() {
  command sh -c '%s' ore "$1"
}
""",
    "zsh": """\
_ore_names() {
  local expl names=("${(@f)$(command sh -c '%s' ore "$1")}")
  _wanted "$1" expl "$1" compadd -a names
}
""",
    "fish": """\
function _ore_names
  command sh -c '%s' ore $argv[1]
end
""",
}

_WHOLE_WORDS = """
# A name with a colon (smollm2:135m) is one word, and --flag=value are two, whatever bash made of them.
_ore() {
  local words=() at=0 last=-1 glued= index word
  for index in "${!COMP_WORDS[@]}"; do
    word=${COMP_WORDS[index]}
    if [[ $last -ge 0 && ( $word == :* || $glued == : ) ]]; then
      words[last]+=$word
    elif [[ $last -ge 0 && $word == = && ${words[last]} == --* ]]; then
      [[ $index -eq $COMP_CWORD ]] && words[++last]=
    else
      words[++last]=$word
    fi
    glued=
    [[ $word == *: ]] && glued=:
    [[ $index -eq $COMP_CWORD ]] && at=$last
  done
  local COMP_WORDS=("${words[@]}") COMP_CWORD=$at
  _shtab_ore
  word=${words[at]}
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then
    COMPREPLY=("${COMPREPLY[@]#"${word%:*}:"}")
  fi
}
complete -o bashdefault -F _ore ore
"""


def completion_script(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the script that teaches bash, zsh or fish the parser's flags and the names they take.

    Raises:
        ExtraNotInstalledError: The package is not there; the message says how to install it.
    """
    if importlib.util.find_spec("shtab") is None:
        raise ExtraNotInstalledError(
            f"--print-completion needs the package shtab: {install_command('completion')}",
            "completion",
        )
    import shtab

    known = {flag.long: (topic, flag) for topic, flags in FLAGS.items() for flag in flags}
    with apart():
        tools = [name for name in sorted(all_tools()) if _PLAIN.fullmatch(name)]
    words = {
        "--help": (*TOPICS, "all"),
        "--tool": tools,
        "--grant": [permission.value for permission in Permission],
    }
    for action in parser._actions:
        name = action.option_strings[-1] if action.option_strings else ""
        taken = (
            action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar or ())
        )
        action.metavar = taken or None
        if shell == "zsh" and action.nargs != 0:  # so --session=NAME is completed as well
            action.option_strings = [
                f"{each}=" if each.startswith("--") else each for each in action.option_strings
            ]
        topic, action.help = (known[name][0], known[name][1].said) if name else ("", None)
        kind = _kind(name, topic, taken)
        if name in words:
            action.choices = words[name]
        elif kind:
            setattr(action, "complete", _named(kind))  # how shtab is told
        elif taken in ("PATH", "A B") and topic == "runs":
            # Of one pattern in brackets, zsh makes qualifiers.
            setattr(action, "complete", shtab.glob("*.json") | {"zsh": "_files -g '*.json'"})
        elif taken in _FILES or not name:
            setattr(action, "complete", shtab.FILE)
        elif taken == "FOLDER":
            setattr(action, "complete", shtab.DIRECTORY)
    script = shtab.complete(parser, shell, preamble=_FUNCTION[shell] % _names())
    return script + _WHOLE_WORDS if shell == "bash" else script


def _kind(name: str, topic: str, taken: str) -> str | None:
    """Return what a flag's value is the name of, where the disk knows."""
    if topic == "sessions" and taken in ("NAME", "OLD NEW") and name != "--save-session":
        return "sessions"
    return {"--model": "models", "--persona": "personas", "--skill": "skills"}.get(name)


def _named(kind: str) -> dict[str, object]:
    of_bash = f'_ore_{kind}() {{ compgen -W "$(_ore_names {kind})" -- "$1"; }}'
    return {
        "bash": f"_ore_{kind}",
        "zsh": f" _ore_names {kind}",
        "fish": f"(_ore_names {kind})",
        "preamble": {"bash": of_bash},
    }


def _names() -> str:
    """Return the script that lists names; it has no single quote, so that it can stand in two."""
    pinned = "\n".join(
        f'  "$models/{each.member.rpartition("/")[2]}") name={name} ;;'
        for name, each in PINNED.items()
    )
    return _NAMES.replace("PINNED_MODELS", pinned)
