"""The embedded model stopped from another thread, and in an event loop: at once, and never blocking."""

from __future__ import annotations

import asyncio
import gc
import threading
import time

import pytest

import ore
from ore import ORE, EmbeddedReasoner, Settings

pytestmark = pytest.mark.embedded

STORY = "Tell me a long story about a dog."


@pytest.fixture
def engine(model_dir):
    with ORE(EmbeddedReasoner("smollm2:135m", Settings(options={"num_predict": 400})), "") as made:
        yield made


def test_another_thread_closes_a_stream_and_the_model_answers_the_next_turn(engine):
    stream, read = engine.stream(STORY), []
    thread = threading.Thread(target=lambda: read.extend(stream))
    thread.start()
    while len(read) < 3:
        time.sleep(0.01)
    stream.close()
    thread.join(5)
    assert not thread.is_alive() and stream.is_closed and len(read) < 400
    assert "Paris" in engine.execute("What is the capital of France?").content


def test_a_stream_that_is_closed_while_the_model_loads_leaves_no_process(engine):
    stream, over = engine.stream(STORY), threading.Event()
    thread = threading.Thread(target=lambda: (list(stream), over.set()))
    thread.start()
    time.sleep(0.05)  # loading takes five times as long
    stream.close()
    assert over.wait(5)
    assert engine.execute("What is the capital of France?").metadata["eval_count"] > 0


def test_a_cancelled_task_stops_the_model_and_the_loop_was_never_held(engine):
    async def watched():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.create_task(tick())
        async with engine.astream(STORY) as stream:
            assert await stream.__anext__()  # the model is loaded by now
            assert ticks > 5  # a load that holds the interpreter lets it tick once
        asking = asyncio.create_task(engine.aexecute(STORY))
        await asyncio.sleep(0.2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        found = await engine.aexecute("What is the capital of France?")
        ticking.cancel()
        return found

    assert "Paris" in asyncio.run(watched()).content


def test_a_reasoner_is_made_by_its_name(model_dir):
    with ORE(ore.reasoner("embedded:smollm2:135m", options={"num_predict": 5}), "") as engine:
        assert engine.execute("Hello").metadata["eval_count"] <= 5


@pytest.mark.parametrize("is_read", [True, False])
def test_a_reasoner_that_nobody_has_any_more_leaves_no_process(model_dir, is_read):
    made = ORE(EmbeddedReasoner("smollm2:135m", Settings(options={"num_predict": 40})), "")
    stream = made.stream("Say hi.")
    assert next(stream)
    process = made.reasoner._engine._process
    assert process.is_alive
    if is_read:
        list(stream)
    del made, stream
    gc.collect()
    assert not process.is_alive and process._child.returncode == -9
