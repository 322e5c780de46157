"""What ``--rows`` costs: beside a bare loop over one client, the engine called directly, and a process a row.

The stand-in answers every row alike, in no time or in 50 ms, so that only what asks it is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from benchmarks.embedded import loaded_engine, posted, with_model
from benchmarks.measure import Comparison, interleaved, warmed
from benchmarks.place import MAIN, MODEL, PEER_MODEL, PYTHON, ROOT, Place, Topic, serving
from benchmarks.processes import seconds

STAND_IN = """
import json, socket, sys, threading, time
delay = float(sys.argv[1])
line = {"model": "llama3.2", "created_at": "2026-08-21T18:53:22.123456789Z", "done": True,
        "message": {"role": "assistant", "content": "Paris."}, "done_reason": "stop",
        "total_duration": 5000000, "load_duration": 1000, "prompt_eval_count": 21,
        "prompt_eval_duration": 3000000, "eval_count": 3, "eval_duration": 3000000}
entry = {"name": "llama3.2:latest", "model": "llama3.2:latest", "digest": "a" * 64, "size": 1,
         "context_length": 4096}
def whole(value, kind="json"):
    data = json.dumps(value).encode() + b"\\n"
    head = f"HTTP/1.1 200 OK\\r\\nContent-Type: application/{kind}\\r\\nContent-Length: {len(data)}\\r\\n\\r\\n"
    return head.encode() + data
replies = {"/api/chat": whole(line, "x-ndjson"), "/api/version": whole({"version": "0.32.15"}),
           "/api/tags": whole({"models": [entry]}), "/api/ps": whole({"models": [entry]}),
           "/api/show": whole({"template": "", "parameters": "", "capabilities": ["completion"],
                               "model_info": {}})}
def serve(client):
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    data = b""
    while True:
        while b"\\r\\n\\r\\n" not in data:
            more = client.recv(1 << 16)
            if not more:
                return
            data += more
        head, _, data = data.partition(b"\\r\\n\\r\\n")
        lines = head.decode().lower().split("\\r\\n")
        size = sum(int(one.split(":")[1]) for one in lines if one.startswith("content-length:"))
        while len(data) < size:
            more = client.recv(1 << 16)
            if not more:
                return
            data += more
        data = data[size:]
        path = lines[0].split()[1]
        if delay and path == "/api/chat":
            time.sleep(delay)
        client.sendall(replies[path])
server = socket.create_server(("127.0.0.1", 0), backlog=128)
print(f"http://127.0.0.1:{server.getsockname()[1]}", flush=True)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""

BARE = """
import os, sys
from concurrent.futures import ThreadPoolExecutor
from ollama import Client
url, table, sample, folder, jobs = sys.argv[1:]
client, data = Client(url), open(sample, "rb").read()
os.mkdir(folder)
def ask(row):
    number, value = row
    messages = [{"role": "user", "content": f"Where is {value}?"}]
    answer = client.chat("llama3.2", messages).message.content
    path = f"{folder}/{number}.json"
    file = os.open(path + ".tmp", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(file, data)
    os.fsync(file)
    os.close(file)
    os.rename(path + ".tmp", path)
    inside = os.open(folder, os.O_RDONLY)
    os.fsync(inside)
    os.close(inside)
    return answer
rows = enumerate(open(table).read().splitlines()[1:], 1)
if jobs == "1":
    for row in rows:
        print(ask(row), flush=True)
else:
    with ThreadPoolExecutor(int(jobs)) as threads:
        for answer in threads.map(ask, rows):
            print(answer, flush=True)
"""

QUESTION = "Where is {{city}}?"
TOKENS, LABEL_TOKENS = 8, 2
TEXT = """\
Rows a second, from the start of a process to its end. The bare loop keeps one `ollama.Client` open. For
each row, it writes the bytes of an artifact as ORE writes them: a new file, put on disk, given its name,
and the name put on disk. With several jobs, it has as many threads. ORE reads the table twice, makes and
seals each artifact, and writes it while the next row is asked. The client takes processor time for each
call, and Python runs one thread at a time. So at some point more jobs change nothing, and a second
process is the way on. The shell starts a process for each row."""
ENGINE_TEXT = f"""\
Short answers, of {TOKENS} tokens; a label has {LABEL_TOKENS}. The engine's package is called directly, in the process that
measures, one row after the other, and keeps nothing. ORE writes an artifact for each row. `xargs` starts
ORE for each row, and so loads the model each time. `--rows` saves that, but not the time in which the
engine writes."""


def measure(place: Place) -> list[Comparison]:
    """Compare ``--rows`` with a bare loop, with as many threads, and with a process a row."""
    rows = 200 if place.is_quick else 1000
    found = [_beside_bare(place, 0.0, jobs=1, rows=rows)]
    for jobs in (4, 8, 16):
        found.append(_beside_bare(place, 0.05, jobs=jobs, rows=min(rows, 60 * jobs)))
    return [*found, *_beside_processes(place)]


def _beside_bare(place: Place, delay: float, *, jobs: int, rows: int) -> Comparison:
    with stand_in(delay) as url, _folder(place) as folder:
        table = make_table(folder, rows)
        sample = folder / "sample.json"
        seconds(
            place.ore(*_flags(url), "--artifact-out", str(sample), "Where is 1?"), place.environ
        )
        script = (place.python, "-c", BARE, url, str(table), str(sample))

        def ours() -> float:
            with _folder(place) as out:
                rest = ("--jobs", str(jobs), "--artifact-out", str(out / "out"))
                command = place.ore(*_flags(url), "--rows", str(table), QUESTION, *rest)
                return rows / seconds(command, place.environ)

        def bare() -> float:
            with _folder(place) as out:
                return rows / seconds((*script, str(out / "out"), str(jobs)), place.environ)

        cases = {"ore": ours, "bare": bare, "again": bare}
        measured = warmed(cases, place.runs)
    pause = "50 ms a row" if delay else "an instant server"
    what = f"`--rows --jobs {jobs}`, {pause}"
    beside = "a bare loop" if jobs == 1 else f"{jobs} bare threads"
    least = 0.8 if jobs == 1 else 0.85
    return Comparison(
        what, "/s", measured["ore"], beside, measured["bare"], measured["again"], least=least
    )


def _beside_processes(place: Place) -> list[Comparison]:
    """Compare rows in one process with a process a row."""
    if place.peer is None:
        return []
    rows = 10 if place.is_quick else 40
    with stand_in(0.0) as url, _folder(place) as folder:
        table = make_table(folder, rows)
        ours = place.ore(*_flags(url), "--rows", str(table), QUESTION, "--jobs", "1")
        peer = [place.peer, "-m", PEER_MODEL]
        cases = {
            "ore": lambda: rows / seconds(ours, place.environ),
            "llm": lambda: rows / seconds(_loop(table, peer), place.for_peer(url)),
        }
        found = warmed(cases, max(place.runs // 5, 1))
    what = f"`--rows`, {rows} rows, an instant server"
    beside = "`llm` in a shell loop"
    return [Comparison(what, "/s", found["ore"], beside, found["llm"], least=20.0)]


def measure_engine(place: Place) -> list[Comparison]:
    """Compare ``--rows`` on the embedded engine with the engine, and with a process a row."""
    environ = with_model(place)
    rows, few = (20, 3) if place.is_quick else (300, 10)
    more = ("--backend", "embedded", "--no-system", "-q", "-o")
    with _folder(place) as folder:
        table, small = make_table(folder, rows), make_table(folder, few, "small.csv")
        # The engine is not among the packages that are installed.
        single, label = (
            [PYTHON, MAIN, *more, f"num_predict={tokens}"] for tokens in (TOKENS, LABEL_TOKENS)
        )
        cases: dict[str, Callable[[], float]] = {
            "ore": lambda: _engine_rows(place, environ, table, rows, single),
            "labels": lambda: _engine_rows(place, environ, table, rows, label),
            "engine": lambda: _called_directly(table, rows, environ),
            "again": lambda: _called_directly(table, rows, environ),
            "xargs": lambda: few / seconds(_with_xargs(small, single), environ),
            "xargs labels": lambda: few / seconds(_with_xargs(small, label), environ),
        }
        found = interleaved(cases, max(place.runs // 5, 1))
    what, labels = f"`--rows` of {rows} rows, embedded", f"`--rows` of {rows} labels, embedded"
    engine, shell = "the engine in a loop", "`xargs`, a process a row"
    direct = Comparison(
        what, "/s", found["ore"], engine, found["engine"], found["again"], least=0.9
    )
    return [
        direct,
        Comparison(what, "/s", found["ore"], shell, found["xargs"], least=5.0),
        Comparison(labels, "/s", found["labels"], shell, found["xargs labels"], least=5.0),
    ]


def _engine_rows(
    place: Place, environ: dict[str, str], table: Path, rows: int, single: list[str]
) -> float:
    with _folder(place) as out:
        rest = ("--artifact-out", str(out / "out"))
        return rows / seconds([*single, "--rows", str(table), QUESTION, *rest], environ)


def _called_directly(table: Path, rows: int, environ: dict[str, str]) -> float:
    command = [PYTHON, "-m", "benchmarks.rows", str(table)]
    started = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, check=True)
    return rows / (time.perf_counter() - started)


def ask_engine(table: str) -> None:
    """Ask the engine in this process of every row, one after the other."""
    from ore.backends.hardware import thread_count

    threads = thread_count()
    server = loaded_engine(threads, threads)
    for value in Path(table).read_text().splitlines()[1:]:
        messages = [{"role": "user", "content": f"Where is {value}?"}]
        connection = posted(server, messages, max_tokens=TOKENS)
        answer = json.loads(connection.getresponse().read())
        sys.stdout.write(answer["choices"][0]["message"]["content"] + "\n")
        sys.stdout.flush()
        connection.close()


def _loop(table: Path, command: list[str]) -> list[str]:
    script = 'tail -n +2 "$0" | while IFS= read -r line; do "$@" "Where is $line?" </dev/null || exit; done'
    return ["sh", "-c", script, str(table), *command]


def _with_xargs(table: Path, command: list[str]) -> list[str]:
    script = """tail -n +2 "$0" | xargs -I VALUE "$@" -n 'Where is VALUE?'"""
    return ["sh", "-c", script, str(table), *command]


def _flags(url: str) -> tuple[str, ...]:
    return ("--host", url, "--model", MODEL, "--no-system", "-q")


def make_table(folder: Path, rows: int, name: str = "table.csv") -> Path:
    """Write a table of one column, and of so many rows; return its path."""
    path = folder / name
    path.write_text("city\n" + "".join(f"{number}\n" for number in range(rows)))
    return path


@contextmanager
def _folder(place: Place) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=place.folder) as name:
        yield Path(name)


def stand_in(delay: float) -> AbstractContextManager[str]:
    """Run a server of its own that takes so many seconds for each chat; yields its address."""
    return serving("-c", STAND_IN, str(delay))


TOPIC = Topic("rows", "Rows of a table", TEXT, measure)
ENGINE_TOPIC = Topic(
    "rows-embedded", "Rows of a table, with the embedded engine", ENGINE_TEXT, measure_engine
)

if __name__ == "__main__":
    ask_engine(sys.argv[1])
