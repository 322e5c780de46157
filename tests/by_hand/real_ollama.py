"""ORE against a real Ollama: ``python -m tests.by_hand.real_ollama [--host URL] [--model NAME]``.

Needs a server with a small model that answers in seconds (``smollm2:135m``). A copy of it is made under
another name and deleted again; nothing else is changed. Prompts are a few hundred tokens, in a window
of 512. Knows what a real server does with them; the stand-in of the tests can only repeat it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.token_counts import SAMPLES

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0  # seconds for one command, on a busy machine
WINDOW = 512
DENSE = ("English", "Chinese", "Russian", "minified", "hexadecimal", "Base64", "CSV", "log")
NOT_PASSED_ON = ("ORE_", "OLLAMA_", "OPENAI_")


class Server:
    """A real server, and ORE as a process of its own in an empty home.

    Args:
        host: The server's address.
        model: The model to ask.
        home: An empty folder.
    """

    def __init__(self, host: str, model: str, home: Path) -> None:
        self.host, self.model, self.home = host, model, home

    def ask(self, path: str, document: Any = None, method: str | None = None) -> Any:
        """Ask the server itself, without ORE; return its JSON."""
        data = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.host + path, data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE) as reply:
            body = reply.read()
        return json.loads(body) if body else None

    def ore(self, *args: str, code: int = 0, stdin: str = "", **env: str) -> tuple[str, str]:
        """Run ORE, which has to end with ``code``; return both of its streams."""
        environ = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
        done = subprocess.run(
            [sys.executable, "-m", "ore", *args],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.home,
            env={
                **environ,
                "HOME": str(self.home),
                "PYTHONPATH": str(ROOT),
                "ORE_TRACEBACK": "1",
                **env,
            },
            timeout=PATIENCE,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code and "Traceback" not in err, (args, done.returncode, out, err)
        return out, err

    def turn(self, prompt: str, *flags: str, model: str = "", window: int | None = WINDOW) -> dict:
        """Take a turn of a few tokens; return what became of its prompt."""
        limits = ("-o", "num_predict=8", "-o", "temperature=0")
        limits += () if window is None else ("-o", f"num_ctx={window}")
        asked = ("--host", self.host, "--model", model or self.model, "--no-system", "--json")
        out, _ = self.ore(*asked, *limits, *flags, stdin=prompt)
        return json.loads(out)["metadata"]["context"]


def the_window_is_known(server: Server) -> None:
    context = server.turn("Hello?", window=None)
    assert context["status"] == "complete" and context["window"] > 0, context


def a_second_name_has_the_window_of_the_first(server: Server) -> None:
    copy = "ore-by-hand-copy:latest"
    first = server.turn("Hello?", window=None)
    server.ask("/api/copy", {"source": server.model, "destination": copy})
    try:
        assert server.turn("Hello?", model=copy, window=None) == first
    finally:
        server.ask("/api/delete", {"model": copy}, "DELETE")


def a_model_that_is_not_kept_has_its_window(server: Server) -> None:
    context = server.turn("Name ten colours.", "--keep-alive", "0", window=None)
    assert context["window"], context


def a_window_is_never_more_than_the_model_was_trained_with(server: Server) -> None:
    facts = server.ask("/api/show", {"model": server.model})["model_info"]
    trained = facts[f"{facts['general.architecture']}.context_length"]
    context = server.turn("Hello?", window=999_999_999)
    assert context["window"] == trained, (context, trained)


def a_prompt_that_was_cut_is_told(server: Server) -> None:
    for kind in DENSE:
        text = SAMPLES[kind][0]
        context = server.turn(text * (1 + 1300 // SAMPLES[kind][1]))
        assert context["status"] == "truncated", (kind, context)
        context = server.turn(text)
        assert context["status"] == "complete", (kind, context)


def a_strict_turn_passes_or_is_exit_3_and_never_in_between(server: Server) -> None:
    text = SAMPLES["English"][0] + "\n"
    for times in range(9, 15):  # about 40 tokens each, across the edge of the window
        prompt = text * times
        fitted = server.turn(prompt)["prompt_tokens"] > 40 * times
        flags = ("--host", server.host, "--model", server.model, "--no-system", "--strict-context")
        limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=1")
        if fitted and 42 * times < WINDOW - 16:
            assert server.turn(prompt, "--strict-context")["status"] == "complete"
        elif 40 * times > WINDOW:
            server.ore(*flags, *limits, stdin=prompt, code=3)


def a_timeout_is_about_silence(server: Server) -> None:
    server.turn("Hello?")  # loading is silent, too
    flags = ("--host", server.host, "--model", server.model, "--no-system", "-q")
    limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=400", "-o", "temperature=0.7")
    asked = (
        *flags,
        *limits,
        "-o",
        "seed=3",
        "Tell a long story about the sea, with many chapters.",
    )
    started = time.monotonic()
    server.ore(*asked)
    half = (time.monotonic() - started) / 2  # whatever the machine has to do besides
    server.ore(*asked, "--timeout", f"{half:.1f}")
    print(f"   an answer of {2 * half:.1f} s within --timeout {half:.1f}", file=sys.stderr)


def a_cold_run_is_replayed_as_the_same(server: Server) -> None:
    server.ask("/api/generate", {"model": server.model, "keep_alive": 0})
    time.sleep(1)
    flags = ("--host", server.host, "--model", server.model, "--keep-alive", "0", "-q")
    limits = ("-o", "temperature=0", "-o", "num_predict=40", "-o", f"num_ctx={WINDOW}")
    server.ore("Tell me about the moon.", *flags, *limits, "--artifact-out", "run.json")
    time.sleep(1)
    out, _ = server.ore("--replay", "run.json", "--host", server.host, "-q")
    assert out.split("\t")[1] == "same", out


def its_models_are_listed_with_what_is_known(server: Server) -> None:
    out, _ = server.ore("--list-models", "--host", server.host, "--json")
    listed = {each["name"]: each for each in json.loads(out)}
    name = server.model if ":" in server.model else f"{server.model}:latest"
    assert all(listed[name][key] for key in ("size", "parameters", "quantization", "window")), out
    assert "completion" in listed[name]["capabilities"], out


def its_openai_side_never_passes_where_nobody_knows(server: Server) -> None:
    flags = ("--backend", "openai", "--host", f"{server.host}/v1", "--model", server.model)
    limits = ("--no-system", "-o", "num_predict=4")
    _, err = server.ore(*flags, *limits, "--strict-context", "Hello?", code=3)
    assert "does not say how large its context window is" in err, err
    out, err = server.ore(*flags, *limits, "--json", stdin="tide " * 25_888)
    assert json.loads(out)["metadata"]["context"]["status"] == "truncated", out
    assert "did not fit the context window" in err, err


CHECKS: tuple[Callable[[Server], None], ...] = (
    the_window_is_known,
    a_second_name_has_the_window_of_the_first,
    a_model_that_is_not_kept_has_its_window,
    a_window_is_never_more_than_the_model_was_trained_with,
    a_prompt_that_was_cut_is_told,
    a_strict_turn_passes_or_is_exit_3_and_never_in_between,
    a_timeout_is_about_silence,
    a_cold_run_is_replayed_as_the_same,
    its_models_are_listed_with_what_is_known,
    its_openai_side_never_passes_where_nobody_knows,
)


def main() -> None:
    """Run every check and say which hold; ends with 1 if one does not."""
    parser = argparse.ArgumentParser(prog="python -m tests.by_hand.real_ollama", allow_abbrev=False)
    parser.add_argument("--host", default="http://127.0.0.1:11434", help="the server's address")
    parser.add_argument("--model", default="smollm2:135m", help="a small model that it has")
    parser.add_argument("--only", metavar="WORD", default="", help="checks with it in their name")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(args.host.rstrip("/"), args.model, Path(folder))
        version = server.ask("/api/version")["version"]
        print(f"Ollama {version} at {server.host}, {server.model}", file=sys.stderr)
        for check in CHECKS:
            name = check.__name__.replace("_", " ")
            if args.only not in name:
                continue
            try:
                check(server)
                print(f"ok      {name}", file=sys.stderr)
            except (AssertionError, LookupError, OSError, subprocess.TimeoutExpired) as exc:
                failed += 1
                print(f"not ok  {name}: {exc}", file=sys.stderr)
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
