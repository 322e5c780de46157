"""ORE against a real Ollama: ``python -m tests.by_hand.real_ollama [--host URL] [--model NAME]``.

Needs a server with a small model that answers in seconds (``smollm2:135m``). A copy of it is made under
another name and deleted again; nothing else is changed. Prompts are a few hundred tokens, in a window
of 512. Knows what a real server does with them; the stand-in of the tests can only repeat it.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ore.backends import is_preferred
from ore.backends.ollama_models import numbers_of
from ore.backends.window import estimate
from tests.by_hand.openai_servers import picture
from tests.support.real_server import PATIENCE, WINDOW, Server
from tests.support.terminal import OURS, OnTerminal
from tests.support.token_counts import SAMPLES

DENSE = ("English", "Chinese", "Russian", "minified", "hexadecimal", "Base64", "CSV", "log")
REFUSES_FROM = (0, 12, 6)  # the version that knows ``truncate``
COPY = "ore-by-hand-copy:latest"


def the_window_is_known(server: Server) -> None:
    context = server.turn("Hello?", window=None)
    assert context["status"] == "complete" and context["window"] > 0, context


def a_second_name_has_the_window_of_the_first(server: Server) -> None:
    first = server.turn("Hello?", window=None)
    server.ask("/api/copy", {"source": server.model, "destination": COPY})
    try:
        assert server.turn("Hello?", model=COPY, window=None) == first
        assert server.turn("Hello?", "--strict-context", model=COPY, window=None) == first
    finally:
        server.ask("/api/delete", {"model": COPY}, "DELETE")


def a_model_that_is_not_kept_has_its_window(server: Server) -> None:
    context = server.turn("Name ten colours.", "--keep-alive", "0", window=None)
    assert context["window"], context


def a_cut_is_told_where_the_model_is_not_kept_or_has_another_name(server: Server) -> None:
    words = "tide " * 25_888
    context = server.turn(words, "--keep-alive", "0", window=None)
    assert context["status"] == "truncated", context
    server.ask("/api/copy", {"source": server.model, "destination": COPY})
    try:
        context = server.turn(words, model=COPY, window=None)
        assert context["status"] == "truncated", context
    finally:
        server.ask("/api/delete", {"model": COPY}, "DELETE")


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


def a_turn_is_complete_where_the_same_strict_one_passes(server: Server) -> None:
    if numbers_of(server.ask("/api/version")["version"]) < REFUSES_FROM:
        return
    system = ("--system", "Answer in one word." * 8)
    flags = ("--host", server.host, "--model", server.model, *system, "--strict-context")
    limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=8")
    for kind in DENSE:
        text = SAMPLES[kind][0]
        for share in (0.7, 0.95, 1.1):
            prompt = (text * 40)[: int(len(text) * share * WINDOW / SAMPLES[kind][1])]
            out, _ = server.ore(*flags[:-1], *limits, "--json", stdin=prompt)
            context = json.loads(out)["metadata"]["context"]
            fits = context["status"] == "complete"
            assert not fits or context["told_by"] == "server", (kind, share, context)
            server.ore(*flags, *limits, stdin=prompt, code=0 if fits else 3)


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


def a_strict_turn_of_a_conversation_that_fitted_is_known_to_have(server: Server) -> None:
    text = (SAMPLES["English"][0] + "\n") * 4  # twice that fits, and could be too much for others
    assert estimate([text.encode()] * 2).likely > WINDOW
    flags = ("--host", server.host, "--model", server.model, "--no-system", "--json", text)
    limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=8", "--session", "strict")
    server.ore(*flags, *limits)
    refuses = numbers_of(server.ask("/api/version")["version"]) >= REFUSES_FROM
    out, _ = server.ore(*flags, *limits, "--strict-context", code=0 if refuses else 3)
    assert not refuses or json.loads(out)["metadata"]["context"]["status"] == "complete", out


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
    time.sleep(1)
    loaded = [each["name"] for each in server.ask("/api/ps")["models"]]
    assert server.model not in loaded, loaded  # --keep-alive 0 was sent again


def a_replay_never_calls_a_server_different_that_gives_two_answers(server: Server) -> None:
    flags = ("--host", server.host, "--model", server.model, "-q", "-o", f"num_ctx={WINDOW}")
    limits = ("-o", "temperature=1.5", "-o", "num_predict=60", "Tell me about the moon.")
    server.ore(*flags, *limits, "--artifact-out", "warm.json")
    out, _ = server.ore("--replay", "warm.json", "--host", server.host, "-q", code=3)
    verdict = out.splitlines()[-1].split("\t")[1]
    assert verdict == "not repeatable", out


def its_models_are_listed_with_what_is_known(server: Server) -> None:
    out, _ = server.ore("--list-models", "--host", server.host, "--json")
    listed = {each["name"]: each for each in json.loads(out)}
    name = server.model if ":" in server.model else f"{server.model}:latest"
    assert all(listed[name][key] for key in ("size", "parameters", "quantization", "window")), out
    assert "completion" in listed[name]["capabilities"], out


def where_no_model_is_named_it_is_said_which_answers(server: Server) -> None:
    listed = json.loads(server.ore("--list-models", "--host", server.host, "--json")[0])
    (default,) = [each for each in listed if each["default"]]
    assert "completion" in default["capabilities"], default
    _, err = server.ore("--host", server.host, "--dry-run", "Hello?")
    said = f"No preferred model is there, so {default['name']} answers" in err
    assert said != is_preferred(default["name"]), (default, err)
    out, _ = server.ore("--list-models", "--host", server.host)
    for line, each in zip(out.splitlines(), listed, strict=True):
        assert ("embeddings only" in line) == ("completion" not in each["capabilities"]), line


def a_limit_that_cut_an_answer_off_is_named(server: Server) -> None:
    flags = ("--host", server.host, "--model", server.model, "--no-system", "-o", "seed=3")
    limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=8")
    _, err = server.ore(*flags, *limits, "Tell a long story about the sea.")
    assert "cut off by a limit: -o num_predict=8." in err, err


def what_can_not_be_is_refused_before_the_server_is_asked(server: Server) -> None:
    host = ("--host", server.host)
    _, err = server.ore(*host, "--model", "a/b/c/d", "Hello?", code=2)
    assert "'a/b/c/d' can't be a model's name" in err, err
    _, err = server.ore(*host, "--model", server.model, "-o", "seed=1e19", "Hello?", code=2)
    assert "seed" in err, err
    _, err = server.ore(*host, "--model", server.model, "-o", f"seed={2**64}", "Hello?", code=2)
    assert "seed" in err, err
    _, err = server.ore(*host, "--model", "ore-by-hand-none", "Hello?", code=1)
    assert "There is no model 'ore-by-hand-none'" in err and server.model in err, err


def a_repl_has_a_blank_line_and_keeps_what_was_typed_ahead(server: Server) -> None:
    server.turn("Hello?")
    flags = ("--host", server.host, "--model", server.model, "-i", "--no-system")
    limits = ("-o", f"num_ctx={WINDOW}", "-o", "num_predict=200", "-o", "seed=3")
    command = [sys.executable, "-m", "ore", *flags, *limits]
    with OnTerminal(command=command, env={"HOME": str(server.home)}) as terminal:
        terminal.wait_for("You:")
        terminal.type("Tell a long story about the sea.\r")
        seen = terminal.wait_for("[ANSWER]:", PATIENCE)
        assert b"reading the prompt" not in seen, seen
        terminal.type("typed ahead")
        terminal.interrupt("\x03")
        seen = terminal.wait_for("typed ahead", PATIENCE)
        shown = OURS.sub(b"", seen).decode().replace("\r", "")
        assert re.search(r"dropped\.?[^\n]*\n\nYou: typed ahead$", shown), shown
        terminal.type("\x15/bye\r")
        assert terminal.end()[0] == 0


def its_openai_side_says_what_it_knows(server: Server) -> None:
    flags = ("--backend", "openai", "--host", f"{server.host}/v1", "--no-system", "--json")
    limits = ("-o", "num_predict=4")
    out, _ = server.ore(*flags, "--model", server.model, *limits, "Hello?")
    metadata = json.loads(out)["metadata"]
    assert metadata["response_model"] == server.model, out
    assert metadata["prompt_eval_count"] and metadata["eval_count"], out
    _, err = server.ore(*flags, "--model", "ore-by-hand-none", "Hello?", code=1)
    assert "There is no model 'ore-by-hand-none'" in err, err
    (server.home / "dot.png").write_bytes(picture())
    able = server.ask("/api/show", {"model": server.model})["capabilities"]
    if "vision" not in able:
        asked = (*flags, "--model", server.model, *limits, "--image", "dot.png", "What is it?")
        try:
            out, err = server.ore(*asked)
        except AssertionError:
            server.ore(*asked, code=1)  # refused
        else:
            assert "too few for an image" in err, err
            assert json.loads(out)["metadata"]["images_read"] is False, out


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
    a_cut_is_told_where_the_model_is_not_kept_or_has_another_name,
    a_window_is_never_more_than_the_model_was_trained_with,
    a_prompt_that_was_cut_is_told,
    a_turn_is_complete_where_the_same_strict_one_passes,
    a_strict_turn_passes_or_is_exit_3_and_never_in_between,
    a_strict_turn_of_a_conversation_that_fitted_is_known_to_have,
    a_timeout_is_about_silence,
    a_cold_run_is_replayed_as_the_same,
    a_replay_never_calls_a_server_different_that_gives_two_answers,
    its_models_are_listed_with_what_is_known,
    where_no_model_is_named_it_is_said_which_answers,
    a_limit_that_cut_an_answer_off_is_named,
    what_can_not_be_is_refused_before_the_server_is_asked,
    a_repl_has_a_blank_line_and_keeps_what_was_typed_ahead,
    its_openai_side_says_what_it_knows,
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
