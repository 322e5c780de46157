"""What to run for a missing package is said in the words of how ORE came onto the machine."""

from __future__ import annotations

import faulthandler
import gc
import re
import shlex
import shutil
import subprocess
import sys
import threading

import pytest

from ore.errors import NO_MEMORY, BackendError, ExtraNotInstalledError
from ore.files.extras import importing, require_whole, runs_nowhere
from tests.support.faults import in_child
from tests.support.gguf import write_model
from tests.support.process import MAIN, ROOT, environment

SAY = """
import os, sys
sys.prefix, sys.base_prefix, sys.executable = {prefix!r}, {base!r}, "/a b/python"
os.__file__ = {prefix!r} + "/os.py"
from ore.files import extras
extras.find_spec = lambda name: {pip!r}
for words in ((None, False), ("rich", False), ("rich", True)):
    print(extras.install_command(words[0], again=words[1]))
"""
NEEDS = """\
Metadata-Version: 2.4
Name: ore-reasoning
Version: 1.0
Requires-Dist: ollama<1,>=0.6.3
Requires-Dist: pyyaml<7,>=6.0.1
Requires-Dist: rich<16,>=13.7; extra == "rich"
Requires-Dist: more>=1; (python_version > "3") and extra == 'rich'
Requires-Dist: openai<4,>=3.54; extra == "openai"
"""
ALWAYS, RICH = "'ollama<1,>=0.6.3' 'pyyaml<7,>=6.0.1'", "'rich<16,>=13.7' 'more>=1'"
PYTHON = "'/a b/python'"
VENV, COPY = shlex.quote(f"{ROOT}/.venv"), shlex.quote(MAIN)
FILE, FILE_OF_RICH = (shlex.quote(f"{ROOT}/requirements{end}.txt") for end in ("", "-rich"))


def said(project, prefix="/usr", base="/usr", pip: object = True, **variables) -> list[str]:
    """What the copy of ORE in a folder says for nothing, an extra, and one that does not work."""
    script = SAY.format(prefix=str(prefix), base=str(base), pip=pip)
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env=environment(PYTHONPATH=str(project), **variables),
        cwd=prefix,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.fixture
def installed(tmp_path):
    """A folder that holds the package and what is known of it, as where pip puts them."""
    shutil.copytree(ROOT / "ore", tmp_path / "lib/ore")
    (tmp_path / "lib/ore_reasoning-1.0.dist-info").mkdir()
    (tmp_path / "lib/ore_reasoning-1.0.dist-info/METADATA").write_text(NEEDS)
    return tmp_path / "lib"


@pytest.fixture
def prefix(tmp_path):
    """An empty environment of Python."""
    (tmp_path / "venv").mkdir()
    return tmp_path / "venv"


def test_a_copy_of_the_project_names_its_files_wherever_one_stands(prefix):
    assert said(ROOT, prefix) == [
        f"{PYTHON} -m pip install -r {FILE}",
        f"{PYTHON} -m pip install -r {FILE_OF_RICH}",
        f"{PYTHON} -m pip install --force-reinstall -r {FILE_OF_RICH}",
    ]


@pytest.mark.slow
def test_who_installed_ore_is_told_the_packages_wherever_it_came_from(installed, prefix):
    assert said(installed, prefix) == [
        f"{PYTHON} -m pip install {ALWAYS}",
        f"{PYTHON} -m pip install {RICH}",
        f"{PYTHON} -m pip install --force-reinstall {RICH}",
    ]


def test_who_installed_ore_by_pipx_is_told_so_of_pipx(installed, prefix):
    (prefix / "pipx_metadata.json").touch()
    assert said(installed, prefix) == [
        f"pipx inject venv {ALWAYS}",
        f"pipx inject venv {RICH}",
        f"pipx runpip venv install --force-reinstall {RICH}",
    ]


@pytest.mark.slow
def test_an_environment_without_pip_is_filled_by_uv_or_gets_one(installed, prefix):
    (prefix / "uv").write_text("#!/bin/sh\n")
    (prefix / "uv").chmod(0o755)
    assert said(installed, prefix, pip=None, PATH=str(prefix)) == [
        f"uv pip install --python {PYTHON} {ALWAYS}",
        f"uv pip install --python {PYTHON} {RICH}",
        f"uv pip install --reinstall --python {PYTHON} {RICH}",
    ]
    first = said(installed, prefix, pip=None, PATH="/nowhere")[1]
    assert first == f"{PYTHON} -m ensurepip && {PYTHON} -m pip install {RICH}"


@pytest.mark.slow
def test_a_python_of_the_system_is_not_told_to_take_what_it_refuses(installed, prefix):
    (prefix / "EXTERNALLY-MANAGED").touch()
    named = said(installed, prefix, prefix)[1]
    assert named == f"{PYTHON} -m pip install --break-system-packages {RICH}"  # as ORE itself was
    copied = said(ROOT, prefix, prefix)[1]
    assert copied.startswith(f"{PYTHON} -m venv {VENV} && {VENV}/bin/python -m pip ")
    assert f"-r {FILE} -r {FILE_OF_RICH}" in copied
    assert copied.endswith(f"run {VENV}/bin/python {COPY}")


def test_an_unknown_copy_is_told_where_ore_can_be_had(installed, prefix):
    shutil.rmtree(installed / "ore_reasoning-1.0.dist-info")
    assert said(installed, prefix)[:2] == [
        "pip install ., in a clone of ORE's repository",
        "pip install '.[rich]', in a clone of ORE's repository",
    ]


def test_the_commands_in_the_messages_can_be_run():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    extras = project.partition("[project.optional-dependencies]\n")[2].partition("\n\n")[0]
    names = {line.split(" = ")[0] for line in extras.splitlines()}
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "ore").rglob("*.py"))
    used = set(re.findall(r"install_command\(['\"]([a-z]+)", sources))
    used |= set(re.findall(r"importing\(.+, \"([a-z]+)\"\)", sources))
    assert used == names
    assert all((ROOT / f"requirements-{name}.txt").is_file() for name in names)
    assert 'name = "ore-reasoning"' in project


NO_ROOM = "x.so: failed to map segment from shared object"


@pytest.mark.slow
@pytest.mark.parametrize("package", ["ollama", "openai"])
@pytest.mark.parametrize(
    "raised, said",
    [
        ("ImportError('undefined symbol')", "can't be used (undefined symbol): run "),
        ("ImportError('no x', name='pydantic')", "can't be used (no x): run "),
        ("ModuleNotFoundError('no x', name='y._x')", "can't be used (no x): run "),
        ("AttributeError('no x')", "can't be used (no x): run "),
        ("EOFError()", "can't be used (EOFError): run "),
        ("(", "can't be used ("),
        (f"ImportError({NO_ROOM!r}, name='_pydantic_core')", NO_MEMORY),
    ],
    ids=["broken", "another's", "a part", "another release", "empty", "cut short", "no memory"],
)
def test_a_package_that_is_there_and_fails_is_not_to_be_installed(tmp_path, package, raised, said):
    (tmp_path / f"{package}.py").write_text(f"raise {raised}")
    done = subprocess.run(
        [sys.executable, MAIN, "--host", "127.0.0.1:1", "--backend", package, "-m", "x", "Hi"],
        env=environment(PYTHONPATH=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    is_broken = said != NO_MEMORY
    begins = f"ore: The package '{package}' {said}" if is_broken else f"ore: {said}\n"
    assert done.returncode == 1 and done.stderr.startswith(begins)
    assert ("--force-reinstall" in done.stderr) is is_broken


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "raise ValueError(3)"])
@pytest.mark.parametrize("package", ["ollama", "openai", "httpx"])
def test_a_file_in_the_place_of_a_package_is_named(tmp_path, package, text):
    (tmp_path / f"{package}.py").write_text(text)
    backend = "openai" if package == "openai" else "ollama"
    done = subprocess.run(
        [sys.executable, "-m", "ore", "--host", "[::1]:1", "--backend", backend, "-m", "x", "Hi"],
        env=environment(PYTHONPATH=str(ROOT)),
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    why = f"takes the place of the package '{package}': give it another name."
    assert (done.returncode, done.stderr) == (1, f"ore: {tmp_path / package}.py {why}\n")


def test_a_file_in_the_place_of_a_package_that_is_not_needed_is_no_error(tmp_path):
    (tmp_path / "httpx.py").write_text("")
    script = "from ore.files.extras import importing\nwith importing('yaml', '{}'): import yaml"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(PYTHONPATH=str(ROOT)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, raised, flags, said",
    [
        ("jsonschema", "ImportError('no y')", ("--schema", "a"), "can't be used (no y): run "),
        (
            "httpx",
            "ImportError('no y')",
            ("--pull", "127.0.0.1:1/a/b"),
            "can't be used (no y): run ",
        ),
        (
            "httpx",
            "ModuleNotFoundError('no y', name='httpx')",
            ("--pull", "127.0.0.1:1/a/b"),
            "is not installed: run ",
        ),
        ("httpcore", "(", ("--pull", "127.0.0.1:1/a/b"), "can't be used ("),
        (
            "httpcore2",
            "(",
            ("--backend=openai", "--host", "127.0.0.1:1", "-m", "x", "a"),
            "can't be used (",
        ),
        ("yaml", "(", ("--run", MAIN), "can't be used ("),
        ("yaml", "ModuleNotFoundError(name='yaml')", ("--run", MAIN), "is not installed: run "),
    ],
    ids=["schema", "pull", "pull without", "pull later", "openai", "run file", "run file without"],
)
def test_a_package_that_fails_is_no_fault_of_ore(tmp_path, package, raised, flags, said):
    (tmp_path / f"{package}.py").write_text(f"raise {raised}")
    done = subprocess.run(
        [sys.executable, MAIN, *flags],
        env=environment(PYTHONPATH=str(tmp_path), ORE_BACKEND="embedded"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    shown = {"httpcore": "httpx", "httpcore2": "openai"}.get(package, package)
    assert done.stderr.splitlines()[-1].startswith(f"ore: The package '{shown}' {said}")


@pytest.mark.slow
@pytest.mark.parametrize("raised", ["(", "raise AttributeError('no x')", "raise EOFError"])
def test_a_package_that_fails_costs_the_variables_of_a_file_and_no_command(tmp_path, raised):
    (tmp_path / "dotenv.py").write_text(raised)
    (tmp_path / ".env").write_text("ORE_STREAM=1\n")
    done = subprocess.run(
        [sys.executable, MAIN, "--list-sessions"],
        env=environment(PYTHONPATH=str(tmp_path), ORE_HOME=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    told = f"{tmp_path}/.env can't be used, so it was ignored."
    assert done.returncode == 0 and done.stderr.splitlines()[0] == told


@pytest.mark.slow
@pytest.mark.parametrize(
    "package, backend, flags",
    [
        ("ollama", "ollama", ()),
        ("openai", "openai", ()),
        ("jsonschema", "ollama", ("--schema", "a")),
        ("xllamacpp", "embedded", ()),
        ("distributed", "cluster", ()),
    ],
)
def test_a_library_on_a_disk_that_lets_nothing_run_is_no_want_of_memory(
    tmp_path_factory, package, backend, flags
):
    folder, model = (tmp_path_factory.mktemp(name) for name in ("packages", "models"))
    made, model = folder / f"{package}.py", write_model(model / "m.gguf")
    mount = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        'mount -t tmpfs -o noexec none "$0" && exec "$@"',
        folder,
    ]
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"]).returncode:
        pytest.skip("nothing can be mounted here")
    raised = f"raise ImportError(__file__ + {NO_ROOM[4:]!r})"
    flags = ("--backend", backend, "-m", "x", "--host", "127.0.0.1:1", "Hi", *flags)
    if backend == "embedded":
        flags = ("-m", str(model), "Hi")
    elif backend == "cluster":
        table = tmp_path_factory.mktemp("table") / "t.csv"
        table.write_text("q\nHi\n")
        flags = ("--scheduler", "tcp://127.0.0.1:1", "--rows", str(table), "{{q}}")
    ask = f"""
import runpy, sys
open({str(made)!r}, "w").write({raised!r})
sys.argv[1:] = {list(flags)!r}
runpy.run_path({str(MAIN)!r}, run_name="__main__")
"""
    done = subprocess.run(
        [*mount, sys.executable, "-c", ask],
        env=environment(PYTHONPATH=str(folder)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    said = f"{made} can't be loaded, because its disk is mounted so that nothing may run from it (noexec)"
    expected = f"ore: {said}: install ORE's packages on another.\n"
    assert (done.returncode, done.stderr) == (1, expected)


@pytest.mark.slow
def test_an_engine_that_was_cut_short_is_no_damaged_model(tmp_path):
    (tmp_path / "xllamacpp.py").write_text("(")
    done = subprocess.run(
        [sys.executable, MAIN, "-m", str(write_model(tmp_path / "m.gguf")), "Hi"],
        env=environment(PYTHONPATH=str(tmp_path)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and done.stderr.startswith(
        "ore: The embedded engine can't be loaded ("
    )
    assert "--force-reinstall" in done.stderr


HANDLED = """
import os, signal, sys
from ore.files.extras import importing
def handle(number, frame):
    raise TimeoutError("the program's own")
signal.signal(signal.SIGUSR1, handle)
try:
    with importing("wave", "{} is missing: "):
        os.kill(os.getpid(), signal.SIGUSR1)
        import wave
except TimeoutError as exc:
    print(exc, "wave" in sys.modules)
"""


def test_what_a_handler_raises_is_no_fault_of_a_package():
    done = subprocess.run([sys.executable, "-c", HANDLED], capture_output=True, text=True, cwd=ROOT)
    assert (done.stdout, done.stderr) == ("the program's own True\n", "")


def test_what_is_on_another_disk_is_said_as_before():
    assert not any(
        map(runs_nowhere, ["undefined symbol", NO_ROOM, f"{sys.executable}{NO_ROOM[4:]}"])
    )


NO_FILE_LEFT = """
import os, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from ore.errors import OreError
from ore.files.extras import importing
left = []
while len(left) < 64:
    try:
        left.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        break
try:
    with importing("wave", "{} is missing: "):
        import wave
except OreError as exc:
    print(exc)
"""


def test_a_process_that_may_open_no_more_files_says_so():
    done = subprocess.run(
        [sys.executable, "-c", NO_FILE_LEFT], capture_output=True, text=True, cwd=ROOT
    )
    said = "this process may open no more files; raise the limit (ulimit -n), or close some."
    assert (done.stdout, done.stderr) == (f"The package 'wave' can't be loaded: {said}\n", "")


@pytest.mark.parametrize("is_enabled", [True, False])
def test_unused_objects_are_not_looked_for_while_a_package_is_imported(is_enabled, monkeypatch):
    """A look for each 700 objects that an import makes would find next to none of them unused."""
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # other tests may have left some
    try:
        if not is_enabled:
            gc.disable()
        with importing("wave", "{} is missing: "):
            assert not gc.isenabled()
        assert gc.isenabled() is is_enabled
        with pytest.raises(ExtraNotInstalledError), importing("wave", "{} is missing: "):
            raise ModuleNotFoundError(name="wave")
        assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


def test_unused_objects_are_looked_for_where_another_thread_may_fork():
    """A child that it forked in the middle of an import would never look for any."""
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        with importing("wave", "{} is missing: "):
            assert gc.isenabled()
    finally:
        end.set()
        other.join()


SLOW = """
import sys
sys.begun.set()
sys.end.wait(20)
"""


@pytest.mark.slow
def test_a_child_that_was_forked_in_an_import_says_so_and_does_not_wait(tmp_path, monkeypatch):
    """The thread that imports is not in the child, where Python would wait for it without end."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "ore_slow.py").write_text("import ore_part", encoding="utf-8")
    (tmp_path / "ore_part.py").write_text(SLOW, encoding="utf-8")
    begun, end = threading.Event(), threading.Event()
    monkeypatch.setattr(sys, "begun", begun, raising=False)
    monkeypatch.setattr(sys, "end", end, raising=False)

    def load() -> None:
        with importing("ore_slow", "{} is missing: "):
            import ore_slow  # noqa: F401

    def load_part() -> None:
        with importing("ore_part", "{} is missing: "):
            import ore_part  # noqa: F401

    def try_it() -> str:
        faulthandler.dump_traceback_later(5, exit=True)  # a signal would wait, too
        require_whole("json")  # what was loaded before is used on
        with pytest.raises(BackendError):
            load_part()  # as httpx, which ollama imports
        with pytest.raises(BackendError) as caught:
            load()
        faulthandler.cancel_dump_traceback_later()
        return str(caught.value)

    thread = threading.Thread(target=load)
    thread.start()
    try:
        assert begun.wait(20)
        ended = in_child(try_it)
    finally:
        end.set()
        thread.join()
        sys.modules.pop("ore_slow", None)
        sys.modules.pop("ore_part", None)
    assert ended.signal == 0
    assert str(ended.value).endswith("Fork before the first turn, or after it.")
    assert in_child(lambda: require_whole("ore_slow")).value is None  # it is done by now
