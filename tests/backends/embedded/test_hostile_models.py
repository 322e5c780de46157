"""Models that do harm or are damaged: the engine's process bears it, and ORE has the last word."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from ore.backends import engine, engine_load, engine_prompt, engine_turn
from ore.backends.engine_folder import LOG
from ore.backends.engine_turn import EmbeddedReasoner
from ore.backends.settings import Settings
from ore.backends.turn_errors import TurnFailedError, TurnTookLongError
from ore.errors import (
    BackendError,
    BackendTimeoutError,
    CapabilityError,
    FileAccessError,
    IncompleteAnswerError,
)
from ore.types import Message
from tests.support.engine import needs_engine
from tests.support.gguf import (
    CHATML,
    TOKENS,
    Signed,
    tiny_model,
    write_model,
    write_split_model,
)
from tests.support.process import ROOT, environment, run, running, start, until

pytestmark = needs_engine
FEW = {"num_predict": 4}
ASK = [Message("user", "Hi.")]
TRAP = [Message("user", "Trap.")]
LOOP = "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"
DOUBLE = "{% for a in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}"
LARGE = "{% set ns = namespace(x='" + "a" * 4096 + "') %}" + DOUBLE
ITSELF = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}"


def trap(template: str) -> str:
    """A template that is harmless until a message is the trap."""
    start_, end_ = "{% if messages[-1]['content'] == 'Trap.' %}", "{% endif %}"
    return f"{CHATML}{start_}{template}{end_}"


def children() -> set[int]:
    """The processes that this one has started and that are there."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path, monkeypatch):
    """Whatever a model does, no process and no folder outlive the reasoner."""
    before = children()
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.setenv("TMPDIR", str(scratch))
    yield
    until(lambda: children() <= before)
    until(lambda: not list(scratch.iterdir()))


def ask(path: Path, messages: list[Message] = ASK, **settings):
    with closing(EmbeddedReasoner(str(path), Settings(options=FEW, **settings))) as reasoner:
        return reasoner.reason(messages)


def template(tmp_path: Path, text: str) -> Path:
    return write_model(tmp_path / "m.gguf", tokenizer__chat_template=text)


@pytest.mark.slow
def test_a_model_that_is_written_for_a_test_answers(tmp_path):
    assert ask(write_model(tmp_path / "m.gguf")).metadata["eval_count"] == 4


@pytest.mark.invariant
@pytest.mark.parametrize(
    "text, deadline, kind",
    [(LOOP, 0.5, BackendTimeoutError), (trap(LOOP), 3, TurnTookLongError)],
    ids=["at the load", "in a turn"],
)
@pytest.mark.slow
def test_a_template_without_an_end_meets_the_deadline(tmp_path, text, deadline, kind):
    with pytest.raises(kind, match="deadline") as caught:
        ask(template(tmp_path, text), TRAP, deadline=deadline)
    assert isinstance(caught.value, BackendTimeoutError)


@pytest.mark.slow
def test_a_load_without_an_end_is_ended_without_a_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_load, "_LOAD_SECONDS", 0.5)
    with pytest.raises(
        BackendError, match="circles: give it another.* Or its disk is slow: try again"
    ):
        ask(template(tmp_path, LOOP))


@pytest.mark.slow
def test_a_template_without_an_end_is_ended_also_where_a_second_interrupt_comes_at_once(
    tmp_path, monkeypatch
):
    def interrupted(*given):
        raise KeyboardInterrupt

    path = template(tmp_path, trap(LOOP))
    with closing(EmbeddedReasoner(str(path), Settings(options=FEW))) as reasoner:
        reasoner.reason(ASK)
        process = reasoner._engine._process
        monkeypatch.setattr(engine.Engine, "_wait", interrupted)
        monkeypatch.setattr(engine_load.EngineProcess, "how_it_ended", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reasoner.reason(TRAP)
        assert process._child.poll() is not None


def stop_for_a_while(pid: int) -> None:
    """Stop a process, as Ctrl-Z does, and let it go on after three seconds."""

    def go_on() -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)

    os.kill(pid, signal.SIGSTOP)
    threading.Timer(3.0, go_on).start()


@pytest.mark.slow
def test_the_time_in_which_a_load_is_stopped_does_not_count(tmp_path, monkeypatch):
    class Stopped(engine_load.EngineProcess):
        def _wait(self, deadline, longest):
            stop_for_a_while(self._child.pid)
            super()._wait(deadline, 2.0)

    monkeypatch.setattr(engine, "EngineProcess", Stopped)
    assert ask(write_model(tmp_path / "m.gguf")).metadata["eval_count"] == 4


@pytest.mark.slow
def test_the_time_in_which_a_prompt_is_stopped_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 2.0)
    monkeypatch.setattr(engine, "_BEGIN_SECONDS", 2.0)
    whole, events = engine_turn.prompt_of, engine.Engine.events

    def prompt_of(asked, *args, **more):
        stop_for_a_while(asked._process._child.pid)
        return whole(asked, *args, **more)

    def answered(asked, *args, **more):
        stop_for_a_while(asked._process._child.pid)
        return events(asked, *args, **more)

    monkeypatch.setattr(engine_turn, "prompt_of", prompt_of)
    monkeypatch.setattr(engine.Engine, "events", answered)
    answer = ask(write_model(tmp_path / "m.gguf"), timeout=30.0)
    assert answer.metadata["eval_count"] == 4


@pytest.mark.slow
def test_a_load_that_goes_round_in_circles_is_found_out_before_its_time_is_over(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(engine_load, "_CIRCLES_SECONDS", 0.5)
    with pytest.raises(BackendError, match="circles: give it another") as caught:
        ask(template(tmp_path, LOOP), deadline=20.0)
    assert "disk" not in str(caught.value)  # it has computed all the while


@pytest.mark.slow
def test_a_prompt_that_is_never_put_together_is_ended_without_a_deadline(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    with pytest.raises(BackendError, match="did not begin with the prompt in 0.5 seconds"):
        ask(template(tmp_path, trap(LOOP)), TRAP)


@pytest.mark.slow
def test_a_schema_that_takes_too_long_to_be_made_a_grammar_is_to_be_shortened(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    with pytest.raises(TurnFailedError, match="schema may be too large, .* shorten the schema, or"):
        ask(write_model(tmp_path / "m.gguf"), format=schema)


@pytest.mark.slow
def test_of_several_turns_none_waits_for_a_prompt_that_is_never_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    failed = list[str]()
    path, settings = template(tmp_path, trap(LOOP)), Settings(options=FEW, at_once=2)
    with closing(EmbeddedReasoner(str(path), settings)) as reasoner:

        def turn() -> None:
            with pytest.raises(BackendError) as caught:
                reasoner.reason(TRAP)
            failed.append(str(caught.value))

        turns = [threading.Thread(target=turn, daemon=True) for _ in range(2)]
        for each in turns:
            each.start()
        for each in turns:
            each.join(30)
        assert ["did not begin with the prompt" in said for said in failed] == [True, True]


@pytest.mark.slow
def test_what_puts_a_prompt_together_is_ended_at_once_and_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    monkeypatch.setattr(engine, "_STOP_SECONDS", 60.0)
    before = time.monotonic()
    with pytest.raises(BackendError, match="did not begin with the prompt"):
        ask(template(tmp_path, trap(LOOP)), TRAP)
    assert time.monotonic() - before < 50.0


@pytest.mark.slow
@pytest.mark.parametrize("text", [LARGE, trap(LARGE)], ids=["at the load", "in a turn"])
def test_a_template_that_makes_large_text_gets_no_more_memory(tmp_path, text, monkeypatch):
    monkeypatch.setattr(engine_load, "_SPARE_BYTES", 200 << 20)
    before = peak_of_children()
    with pytest.raises(
        BackendError, match="needs more .*MB that ORE lets it have.*, or than the system does"
    ):
        ask(template(tmp_path, text), TRAP)
    assert peak_of_children() - before < 1 << 30
    whole = write_model(tmp_path / "whole.gguf")
    with pytest.raises(TurnFailedError, match="needs more .* the chat template, or leave `chat_t"):
        ask(whole, TRAP, chat_template=text)


def peak_of_children() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10


@pytest.mark.invariant
@pytest.mark.slow
def test_a_template_that_includes_itself_is_a_sentence_and_the_next_turn_works(tmp_path):
    with pytest.raises(BackendError, match=r"the engine crashed over it \(SIGSEGV\)"):
        ask(template(tmp_path, ITSELF))
    whole = write_model(tmp_path / "whole.gguf")
    with pytest.raises(BackendError, match="Leave `chat_template=` out, or use another"):
        ask(whole, chat_template=ITSELF)
    path = template(tmp_path, trap(ITSELF))
    with closing(EmbeddedReasoner(str(path), Settings(options=FEW))) as reasoner:
        before = reasoner.reason(ASK).content
        with pytest.raises(IncompleteAnswerError, match=r"\(SIGSEGV\): nothing was kept"):
            reasoner.reason(TRAP)
        assert reasoner.reason(ASK).content == before


def kill(child: int, _: Path) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)


def sweep(_: int, scratch: Path) -> None:
    """Remove old temporary files, as a system may do each night."""
    shutil.rmtree(next(scratch.iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("lose", [kill, sweep])
def test_an_engine_that_is_gone_between_two_turns_is_loaded_again(tmp_path, lose):
    path, others = write_model(tmp_path / "m.gguf"), children()
    with closing(EmbeddedReasoner(str(path), Settings(options=FEW))) as reasoner:
        before = reasoner.reason(ASK).content
        (child,) = children() - others
        lose(child, tmp_path / "scratch")
        assert reasoner.reason(ASK).content == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"general__sampling__sequence": "top_k"},
        {"general__sampling__xtc_probability": 1.0, "general__sampling__xtc_threshold": 0.001},
        {"general__sampling__mirostat": Signed(2), "general__sampling__mirostat_tau": 9.0},
    ],
    ids=["sequence", "xtc", "mirostat"],
)
def test_a_file_that_wants_tokens_drawn_in_another_way_changes_no_answer(tmp_path, changes):
    plain = write_model(tmp_path / "plain.gguf")
    odd = write_model(tmp_path / "odd.gguf", **changes)
    for temperature in (0, 1):
        options = {"num_predict": 12, "temperature": temperature, "seed": 1}
        answers = list[str]()
        for path in (plain, odd):
            with closing(EmbeddedReasoner(str(path), Settings(options=options))) as reasoner:
                answers.append(reasoner.reason([Message("user", "Tell me of the sea.")]).content)
        assert answers[0] == answers[1]


@pytest.mark.slow
def test_a_run_that_is_too_long_for_a_tokenizer_is_not_blamed_on_the_model_alone(tmp_path):
    path = write_model(tmp_path / "m.gguf", tokenizer__ggml__pre="gpt-4o")
    with closing(EmbeddedReasoner(str(path), Settings(options=FEW))) as reasoner:
        words = r"\(SIGSEGV\): .* or made to do harm\. Or the prompt has a run .*: break it up\.$"
        with pytest.raises(IncompleteAnswerError, match=words):
            reasoner.reason([Message("user", "a" * 100_000)])
        assert reasoner.reason(ASK).metadata["eval_count"] == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    "log, said",
    [
        ("  what():  Resource temporarily unavailable", "The system gives it no more threads"),
        ("cannot allocate memory for thread-local data: ABORT", "It needs more than the .* MB"),
    ],
)
def test_an_engine_that_lacks_something_in_a_turn_says_what(tmp_path, log, said):
    path, others = write_model(tmp_path / "m.gguf"), children()
    with closing(EmbeddedReasoner(str(path), Settings(options={"num_predict": 2000}))) as reasoner:
        answer = reasoner.stream_reason(ASK)
        next(answer)
        (engine,) = children() - others
        with open(f"/proc/{engine}/cwd/{LOG}", "a", encoding="utf-8") as file:
            file.write(f"{log}\n")
        os.kill(engine, signal.SIGABRT)
        words = rf"\(SIGABRT\): .* of it. {said}.*: (raise|use)"
        with pytest.raises(IncompleteAnswerError, match=words):
            list(answer)


@pytest.mark.slow
def test_what_an_engine_has_written_is_known_when_its_folder_is_gone(tmp_path):
    with closing(EmbeddedReasoner(str(write_model(tmp_path / "m.gguf")))) as reasoner:
        reasoner.reason(ASK)
        process = reasoner._engine._process
        Path(f"/proc/{process.pid}/cwd/{LOG}").write_text("No room.")
    assert process.log() == "No room." and not os.path.exists(process.socket)


@pytest.mark.slow
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_nothing_in_the_place_of_an_engine_s_log_keeps_it_from_ending(tmp_path, make):
    with closing(EmbeddedReasoner(str(write_model(tmp_path / "m.gguf")))) as reasoner:
        reasoner.reason(ASK)
        log = Path(reasoner._engine._process.socket).with_name(LOG)
        log.unlink()
        make(log)
        ending = threading.Thread(target=reasoner.close, daemon=True)
        ending.start()
        ending.join(5.0)
        is_ended = not ending.is_alive()
        with suppress(FileNotFoundError):  # who waits for the other end goes on
            os.close(os.open(log, os.O_WRONLY | os.O_NONBLOCK))
    assert is_ended


@pytest.mark.slow
def test_what_a_template_refuses_is_told_in_its_last_words(tmp_path):
    with pytest.raises(BackendError) as raised:
        ask(template(tmp_path, trap("{{ raise_exception('Only one system message') }}")), TRAP)
    assert str(raised.value) == (
        "The embedded engine refused the turn: Only one system message. Change the prompt, or use "
        "another model."
    )


@pytest.mark.slow
def test_a_file_s_own_words_drive_no_terminal_from_a_log(tmp_path):
    bad = "\x1b[2J\x07\u202e"
    for messages, path in (
        (TRAP, template(tmp_path, trap("{{ raise_exception('" + bad + "') }}"))),
        (ASK, write_model(tmp_path / "n.gguf", general__architecture=bad)),
        (ASK, write_model(tmp_path / "o.gguf", tokenizer__ggml__model=bad)),
    ):
        with pytest.raises(BackendError) as raised:
            ask(path, messages)
        assert str(raised.value).isprintable()


WHOLE = tiny_model()
QUERY = WHOLE.index(b"blk.0.attn_q.weight") + len("blk.0.attn_q.weight")


def patched(at: int, data: bytes) -> bytes:
    return WHOLE[:at] + data + WHOLE[at + len(data) :]


@pytest.mark.parametrize(
    "data, said",
    [
        (
            tiny_model(tokenizer__chat_template="{% for m in %}"),
            "its chat template can't be used (",
        ),
        (tiny_model(tokenizer__chat_template="{{ raise_exception('No.') }}"), "be used (No)"),
        (tiny_model(tokenizer__chat_template="{{ raise_exception('a\nError: b') }}"), "used (b)"),
        (tiny_model(general__architecture="martian"), "does not know its architecture, 'martian'"),
        (tiny_model(general__architecture="it's"), "does not know its architecture, 'it's'"),
        (
            tiny_model(general__architecture=""),
            "not as the engine expects it (unknown model archit",
        ),
        (
            tiny_model(tokenizer__ggml__model="martian"),
            "its tokenizer (unknown tokenizer: 'martian')",
        ),
        (tiny_model(tokenizer__ggml__tokens=None), "its tokenizer (cannot find tokenizer vocab"),
        (WHOLE[:-5000], "cut off or damaged (tensor 'blk.0.ffn_down.weight' data is not within"),
        (WHOLE[:600], "cut off or damaged (failed to read key-value pairs)"),
        (b"GGUF" + bytes(1000), "damaged, or not as the engine expects it (bad GGUF version: 0)"),
        (patched(4, b"\x09"), "does not read this version of the format (GGUF file is version 9"),
        (
            patched(4, b"\x01"),
            "not read this version of the format (GGUFv1 is no longer supported): ",
        ),
        (patched(8, b"\xff" * 8), "(number of tensors is -1"),
        (patched(QUERY + 4, b"\xff" * 8), "has invalid number of elements"),
        (patched(QUERY + 20, b"\x63"), "has invalid ggml type 99"),
        (patched(QUERY + 24, b"\xff" * 7 + b"\x7f"), "has offset 9223372036854775807"),
        (tiny_model(llama__block_count=None), "key not found in model: llama.block_count"),
        (tiny_model(llama__block_count=2), "tensor 'blk.1.attn_norm.weight' not found"),
        (tiny_model(llama__block_count=2000), "crashed over it (SIGABRT)"),
    ],
    ids=(
        "template,raises,lines,architecture,quote,no architecture,tokenizer,tokens,cut,head,zeros,"
        "version,old version,tensors,dims,type,offset,layers,more layers,absurd layers"
    ).split(","),
)
def test_each_kind_of_failure_to_load_has_its_sentence(tmp_path, data, said, capfd):
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    with pytest.raises(BackendError) as raised:
        ask(path)
    assert f"{path} can't be loaded: " in str(raised.value) and said in str(raised.value)
    assert "\n" not in str(raised.value) and str(raised.value).endswith(".")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "keys, said",
    [
        ({"llama__pooling_type": 1}, "is a model for embeddings and writes no text"),
        ({"llama__attention__causal": False}, "is a model for embeddings and writes no text"),
        ({"general__architecture": "t5encoder"}, "is a model for embeddings and writes no text"),
        ({"general__architecture": "llama-embed"}, "is a model for embeddings and writes no text"),
        ({"general__type": "mmproj"}, "is the part of a model that takes in images or sound"),
        ({"general__architecture": "t5"}, "reads a prompt with an encoder"),
    ],
)
def test_what_writes_no_text_is_refused(tmp_path, keys, said):
    path = write_model(tmp_path / "m.gguf", **keys)
    with pytest.raises(CapabilityError, match=f"m.gguf {said}.*: use another model"):
        ask(path)


@pytest.mark.slow
def test_a_split_model_answers_as_the_whole_one_does(tmp_path):
    first = write_split_model(tmp_path, 3)[0]
    assert ask(first).content == ask(write_model(tmp_path / "whole.gguf")).content


@pytest.mark.parametrize(
    "part, said", [(1, r"m-00002-of-00002.gguf is not beside it"), (2, "is part 2 of 2 of a split")]
)
def test_a_part_of_a_split_model_is_told_before_it_is_loaded(tmp_path, part, said):
    path = write_model(tmp_path / f"m-0000{part}-of-00002.gguf")
    with pytest.raises(FileAccessError, match=said):
        ask(path)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda parts: shutil.copy(parts[2], parts[1]), "invalid split file idx: 2"),
        (lambda parts: shutil.copy(parts[1], parts[0]), "illegal split file idx: 1"),
        (lambda parts: write_model(parts[1]), "missing key split.no in GGUF split"),
        (lambda parts: parts[1].write_bytes(b""), "failed to read magic"),
        (lambda parts: recount(parts[0]), "99 tensors expected but 11 found"),
    ],
    ids=["twice", "not the first", "a whole one", "empty", "more tensors"],
)
def test_parts_that_do_not_fit_together_are_said(tmp_path, change, said):
    parts = write_split_model(tmp_path, 3)
    change(parts)
    with pytest.raises(BackendError) as raised:
        ask(parts[0])
    begins = f"{parts[0]} can't be loaded: its parts do not fit together ("
    assert str(raised.value).startswith(begins) and said in str(raised.value)
    assert str(raised.value).endswith("): fetch them again.")


@pytest.mark.parametrize("part", [0, 2])
def test_a_part_that_is_cut_off_is_not_said_to_be_the_first(tmp_path, part):
    parts = write_split_model(tmp_path, 3)
    parts[part].write_bytes(parts[part].read_bytes()[:-2000])
    said = (
        f"{parts[0]} can't be loaded: one of its parts is cut off or damaged .* fetch them again."
    )
    with pytest.raises(BackendError, match=said):
        ask(parts[0])


@pytest.mark.slow
def test_a_part_of_another_model_is_said_to_be_one_that_does_not_fit(tmp_path):
    parts = write_split_model(tmp_path, 2)
    data = parts[1].read_bytes()
    parts[1].write_bytes(data.replace(b"output_norm.weight", b"output_other.weigh"))
    with pytest.raises(
        BackendError, match="its parts do not fit together, or are damaged .*tensor"
    ):
        ask(parts[0])


@pytest.mark.parametrize(
    "text, said",
    [
        (
            "{{ raise_exception('No.') }}",
            r"^The chat template can't be used \(No\): correct it, or",
        ),
        (ITSELF, "crashed over it, or over the chat template that is to take the place of its own"),
        pytest.param(
            LOOP,
            "with it. The chat template may go round in circles: correct it, or leave",
            marks=pytest.mark.slow,
        ),
        (
            trap(LOOP),
            "0.5 seconds and was ended: the chat template may go round in circles; correct",
        ),
        (
            f"{'x' * 20_000}{CHATML}",
            "The chat template makes more than 10,... bytes .*: correct the",
        ),
        (trap(ITSELF), "gguf or the chat template is damaged or made to do harm"),
        ("{{ 'x' }}", "^The chat template leaves out a message .* or use another template.$"),
    ],
    ids=[
        "raises",
        "crashes",
        "endless",
        "endless in a turn",
        "much text",
        "crashes in a turn",
        "leaves out",
    ],
)
def test_a_template_that_was_given_is_to_be_corrected_not_the_model(
    tmp_path, monkeypatch, text, said
):
    monkeypatch.setattr(engine_load, "_CIRCLES_SECONDS", 0.5)
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5 if LOOP in text else 30.0)
    monkeypatch.setattr(engine_prompt, "REPLY_LIMIT", 10_000)
    path = write_model(tmp_path / "m.gguf")
    with pytest.raises(BackendError, match=said) as raised:
        ask(path, TRAP, chat_template=text)
    assert "another model" not in str(raised.value) or "crashed" in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "{% for %}",
        ITSELF,
        LOOP,
        trap(ITSELF),
        trap(LOOP),
        trap("x" * 20_000),
        trap("{{ raise_exception('No.') }}"),
    ],
    ids=[
        "no Jinja",
        "crashes",
        "endless",
        "crashes in a turn",
        "endless in a turn",
        "much text in a turn",
        "refuses in a turn",
    ],
)
def test_over_a_given_template_one_turn_fails_and_a_replay_of_others_goes_on(
    tmp_path, monkeypatch, text
):
    monkeypatch.setattr(engine_load, "_CIRCLES_SECONDS", 0.5)
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    monkeypatch.setattr(engine_prompt, "REPLY_LIMIT", 10_000)
    path = write_model(tmp_path / "m.gguf")
    with pytest.raises(TurnFailedError, match="chat template"):
        ask(path, TRAP, chat_template=text)


@pytest.mark.slow
def test_a_given_template_that_refuses_system_messages_is_to_be_corrected(tmp_path):
    refusing = (
        "{% for m in messages if m.role == 'system' %}{{ raise_exception('No.') }}{% endfor %}"
    )
    said = r"^The chat template refuses .*'system': No\..* correct the chat template, or leave"
    with pytest.raises(TurnFailedError, match=said):
        ask(
            write_model(tmp_path / "m.gguf"),
            [Message("system", "Be kind."), *ASK],
            chat_template=f"{trap('')}{refusing}",
        )


@pytest.mark.slow
@pytest.mark.invariant
def test_a_template_in_the_file_that_goes_round_in_circles_fails_for_every_turn(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(engine, "_TEMPLATE_SECONDS", 0.5)
    with pytest.raises(BackendError, match="use another model") as raised:
        ask(template(tmp_path, trap(LOOP)), TRAP)
    assert not isinstance(raised.value, TurnFailedError)


def test_parts_with_names_that_the_engine_does_not_take_are_to_be_renamed(tmp_path):
    parts = [path.rename(path.with_suffix(".GGUF")) for path in write_split_model(tmp_path, 2)]
    with pytest.raises(BackendError, match="rename them to NAME-00001-of-00003.gguf and so on"):
        ask(parts[0])


def recount(path: Path) -> None:
    """Have a part say that all parts have 99 tensors."""
    data, key = path.read_bytes(), b"split.tensors.count"
    at = data.index(key) + len(key) + 4  # behind the kind of number
    path.write_bytes(data[:at] + b"\x63" + data[at + 1 :])


@pytest.mark.invariant
@pytest.mark.slow
def test_a_session_is_whole_after_a_turn_that_crashed_the_engine(tmp_path, home):
    path = template(tmp_path, trap(ITSELF))
    flags = ("--session", "s", "--model", str(path), "-o", "num_predict=4")
    assert run(*flags, "Hi.").code == 0
    file = home / ".ore/sessions/s.json"
    kept = file.read_bytes()
    done = run(*flags, "Trap.")
    assert done.code == 1 and "SIGSEGV" in done.err and len(done.err.splitlines()) == 1
    assert file.read_bytes() == kept
    assert run(*flags, "Hi.").code == 0
    assert len(json.loads(file.read_bytes())["messages"]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("text", [LOOP, trap(LOOP)], ids=["at the load", "in a turn"])
@pytest.mark.parametrize(
    "sign, code",
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, 137)],
)
def test_a_signal_ends_a_loop_and_the_engine_goes_with_ore(tmp_path, text, sign, code):
    process = start("--model", str(template(tmp_path, text)), "Trap.", stdin=subprocess.DEVNULL)
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: listed.read_text().split())
    (child,) = listed.read_text().split()
    until(lambda: ticks(child) > 30 if text == LOOP else ticks(child) > 60)
    process.send_signal(sign)
    out, err = process.communicate(timeout=60)
    assert 128 - process.returncode == code or process.returncode == code
    assert b"Traceback" not in err
    until(lambda: not Path(f"/proc/{child}").exists())
    if sign == signal.SIGKILL:  # nobody was left to remove it: who loads a model later does
        for left in (tmp_path / "scratch").iterdir():
            os.utime(left, (0, 0))
        other = write_model(tmp_path / "other.gguf")
        assert run("--model", str(other), "-o", "num_predict=1", "Hi.").code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "before",
    [
        lambda: signal.signal(signal.SIGIO, signal.SIG_IGN),
        lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    ],
    ids=["ignored", "held back"],
)
def test_the_engine_goes_with_ore_whatever_ore_was_started_with(tmp_path, before):
    flags = ("--model", str(template(tmp_path, LOOP)), "Trap.")
    with running(*flags, preexec_fn=before) as process:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: listed.read_text().split())
        (child,) = listed.read_text().split()
        until(lambda: ticks(child) > 30)
        process.kill()
        process.communicate()
    try:
        until(lambda: not Path(f"/proc/{child}").exists(), 10)
    finally:
        with suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
        for left in (tmp_path / "scratch").iterdir():  # who loads a model later does that
            shutil.rmtree(left)


def ticks(pid: str) -> int:
    """How long a process has computed, in hundredths of a second."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.slow
def test_a_thread_that_loads_leaves_nothing_where_the_program_ends(tmp_path):
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    program = f"""
import os, sys, threading, time
import ore
asked = ore.ORE(ore.reasoner("embedded:{path}"))
threading.Thread(target=asked.execute, args=("Hi.",), daemon=True).start()
while not os.listdir(os.environ["TMPDIR"]):
    time.sleep(0.01)
time.sleep(0.3)
"""
    command, env = [sys.executable, "-c", program], environment(PYTHONPATH=str(ROOT))
    ended = subprocess.run(command, env=env, check=True, stderr=subprocess.PIPE)
    assert b"damaged" not in ended.stderr  # the model that the thread was loading
    assert os.listdir(os.environ["TMPDIR"]) == []


@pytest.mark.slow
def test_a_folder_that_is_removed_while_a_model_loads_is_not_the_model_s_fault(
    tmp_path, monkeypatch
):
    def start(self, asked):
        begin(self, asked)
        shutil.rmtree(self._folder)

    begin = engine_load.EngineProcess._start
    monkeypatch.setattr(engine_load.EngineProcess, "_start", start)
    monkeypatch.setattr(engine_load, "_LOG_SECONDS", 0.0)
    path = write_model(tmp_path / "m.gguf")
    with pytest.raises(BackendError, match=r"temporary folder was removed meanwhile. Try again\.$"):
        engine.Engine(path, window=512)


def test_a_signal_for_a_program_with_threads_does_not_end_an_engine_that_starts(
    tmp_path, monkeypatch
):
    def held(*_, **more):
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        raise OSError("seen")

    masks: list[set[int]] = []
    monkeypatch.setattr(engine_load.subprocess, "Popen", held)
    ended = threading.Event()
    threading.Thread(target=ended.wait).start()
    try:
        with pytest.raises(BackendError, match="seen"):
            engine.Engine(write_model(tmp_path / "m.gguf"), window=512)
    finally:
        ended.set()
    assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= masks[0]


def test_an_engine_s_end_is_registered_until_its_folder_is_gone(tmp_path, monkeypatch):
    """The thread that ends it may be stopped with the program before that."""

    def unregistered(call):
        if call.__name__ == "end":
            folders.append(os.listdir(os.environ["TMPDIR"]))

    folders: list[list[str]] = []
    monkeypatch.setattr(engine_load.subprocess, "Popen", lambda *_, **more: os.open("/none", 0))
    monkeypatch.setattr(engine_load, "not_at_exit", unregistered)
    with pytest.raises(BackendError, match="can't be started"):
        engine.Engine(write_model(tmp_path / "m.gguf"), window=512)
    assert folders == [[]]


def test_an_engine_without_memory_for_what_it_said_leaves_nothing(tmp_path, monkeypatch):
    """Its end may be called as the program ends, where Python would print a traceback."""

    def no_memory(folder):
        raise MemoryError

    monkeypatch.setattr(engine_load.subprocess, "Popen", lambda *_, **more: os.open("/none", 0))
    monkeypatch.setattr(engine_load, "read_log", no_memory)
    with pytest.raises(BackendError, match="can't be started"):
        engine.Engine(write_model(tmp_path / "m.gguf"), window=512)
    assert os.listdir(os.environ["TMPDIR"]) == []


@pytest.mark.slow
def test_rows_that_are_stopped_while_their_model_loads_leave_nothing(tmp_path):
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    (tmp_path / "rows.csv").write_text("a\nx\ny\n")
    flags = ["--rows", str(tmp_path / "rows.csv"), "Say {{a}}", "--backend", "embedded", "-m"]
    with running(*flags, str(path)) as ore:
        until(lambda: os.listdir(os.environ["TMPDIR"]))
        time.sleep(0.5)
        ore.send_signal(signal.SIGINT)
        ore.communicate(timeout=30)
    assert ore.returncode == 130 and os.listdir(os.environ["TMPDIR"]) == []


@pytest.mark.slow
@pytest.mark.parametrize("turns", [1, 9])
def test_a_thread_that_takes_turns_as_a_program_ends_leaves_nothing(tmp_path, turns):
    path = write_model(tmp_path / "m.gguf")
    code = (
        "import atexit, ore, sys, threading, time\n"
        "atexit.register(time.sleep, 0.05)\n"
        "engine = ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}', options={'num_predict': 2000}))\n"
        "begun = threading.Event()\n"
        "def take():\n"
        "    for turn in range(int(sys.argv[2])):\n"
        "        try:\n"
        "            for _ in engine.stream('Hi'):\n"
        "                begun.set()\n"
        "        except ore.OreError:\n"
        "            if turn == int(sys.argv[2]) - 1:\n"
        "                raise\n"
        "threading.Thread(target=take, daemon=True).start()\n"
        "begun.wait()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), str(turns)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == "" and os.listdir(os.environ["TMPDIR"]) == []


def ended(code, *args):
    """Return what a program writes to stderr, where it leaves no folder."""
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert os.listdir(os.environ["TMPDIR"]) == []
    return done.stderr


@pytest.mark.slow
def test_a_thread_that_loads_a_model_as_a_program_ends_leaves_no_traceback(tmp_path):
    """Its pipe may be closed under it."""
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    code = (
        "import atexit, ore, sys, threading, time\n"
        "from ore.backends import engine_load\n"
        "atexit.register(time.sleep, 0.8)\n"
        "is_ready = engine_load.is_ready\n"
        "engine_load.is_ready = lambda *how: (is_ready(*how), time.sleep(0.4))[0]\n"
        "engine = ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}'))\n"
        "threading.Thread(target=engine.execute, args=['Hi'], daemon=True).start()\n"
        "time.sleep(1)\n"
    )
    assert ended(code, str(path)) == ""


@pytest.mark.slow
def test_a_forked_process_that_ends_while_its_model_loads_leaves_nothing(tmp_path):
    """Those of multiprocessing end without atexit."""
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    code = (
        "import multiprocessing, os, ore, sys, threading, time\n"
        "def take():\n"
        "    engine = ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}'))\n"
        "    threading.Thread(target=engine.execute, args=['Hi'], daemon=True).start()\n"
        "    time.sleep(1)\n"
        "child = multiprocessing.get_context('fork').Process(target=take)\n"
        "child.start()\n"
        "child.join()\n"
    )
    assert ended(code, str(path)) == ""


@pytest.mark.slow
def test_a_load_that_begins_after_a_forked_process_has_told_of_its_end_leaves_nothing(tmp_path):
    """Its traceback, which its own error has, comes after that."""
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    code = (
        "import multiprocessing, multiprocessing.util, ore, sys, threading, time\n"
        "def turn():\n"
        "    while not multiprocessing.util.is_exiting():\n"
        "        time.sleep(0.001)\n"
        "    time.sleep(0.05)\n"
        "    ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}')).execute('Hi')\n"
        "def take():\n"
        "    threading.Thread(target=turn, daemon=True).start()\n"
        "    threading.Thread(target=time.sleep, args=[1]).start()\n"
        "child = multiprocessing.get_context('fork').Process(target=take)\n"
        "child.start()\n"
        "child.join()\n"
    )
    assert ended(code, str(path)) == ""


@pytest.mark.slow
def test_a_process_of_multiprocessing_waits_for_the_turns_of_its_threads(tmp_path):
    """It is told of its end before it waits for them."""
    code = (
        "import multiprocessing, ore, sys, threading, time\n"
        "from ore.files import signals\n"
        "def take():\n"
        "    engine = ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}', options={'num_predict': 2}))\n"
        "    threading.Thread(target=engine.execute, args=['Hi']).start()\n"
        "    while not signals._finals:\n"
        "        time.sleep(0.001)\n"
        "child = multiprocessing.get_context('fork').Process(target=take)\n"
        "child.start()\n"
        "child.join()\n"
    )
    assert ended(code, str(write_model(tmp_path / "m.gguf"))) == ""


@pytest.mark.slow
def test_a_forked_process_that_waits_for_a_thread_leaves_nothing_of_another_that_loads(tmp_path):
    """A daemon's load ends with the process, which is told of its end before it waits."""
    path = write_model(tmp_path / "m.gguf", tokenizer__chat_template=LOOP)
    code = (
        "import multiprocessing, ore, sys, threading, time\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def take():\n"
        "    engine = ore.ORE(ore.reasoner(f'embedded:{sys.argv[1]}'))\n"
        "    threading.Thread(target=engine.execute, args=['Hi'], daemon=True).start()\n"
        "    time.sleep(1)\n"
        "    ThreadPoolExecutor(1).submit(time.sleep, 0.3)\n"
        "child = multiprocessing.get_context('fork').Process(target=take)\n"
        "child.start()\n"
        "child.join(20)\n"
        "child.kill()\n"
    )
    assert ended(code, str(path)) == ""


@pytest.mark.slow
def test_tokens_whose_texts_are_long_are_not_blamed_on_a_template_that_is_given(tmp_path):
    path = write_model(
        tmp_path / "m.gguf",
        tokenizer__ggml__model="bert",
        tokenizer__ggml__tokens=[*TOKENS[:256], "[UNK]" + "x" * (1 << 20), *TOKENS[257:]],
        tokenizer__ggml__unknown_token_id=256,
    )
    given = Settings(chat_template=CHATML)
    with closing(EmbeddedReasoner(str(path), given)) as reasoner:
        with pytest.raises(BackendError, match="tokens of .* make more than .* use another model"):
            reasoner.reading([Message("user", "love " * 30)])
