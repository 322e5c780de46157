"""Where ORE's files are: ORE_HOME, else HOME, and never wherever one happens to stand."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ore.__main__ import _env_files, load_env_files
from ore.errors import HomeError, UsageError
from ore.files.home import expanded, is_address, ore_home


@pytest.mark.parametrize(
    "environ, home",
    [
        ({"HOME": "/home/ada"}, "/home/ada/.ore"),
        ({"ORE_HOME": "/data/ore", "HOME": "/home/ada"}, "/data/ore"),
        ({"ORE_HOME": "/data/ore"}, "/data/ore"),
        ({"ORE_HOME": "/data/ore", "HOME": ""}, "/data/ore"),
        ({"ORE_HOME": "/not/there/../é"}, "/not/there/../é"),
    ],
)
def test_ore_home_wins_over_home(environ, home):
    assert ore_home(environ) == Path(home)


@pytest.mark.parametrize("variable", ["ORE_HOME", "HOME"])
@pytest.mark.parametrize("value", ["", ".", "relative", "~", "~/ore", " /ore"])
def test_an_empty_or_relative_home_is_refused_and_named(variable, value):
    with pytest.raises(HomeError) as caught:
        ore_home({"HOME": "/home/ada", variable: value})
    which = "ORE_HOME" if variable == "ORE_HOME" else "HOME, or ORE_HOME,"
    assert str(caught.value) == (
        f"{variable} is {value!r}, which is not an absolute path: set {which} to the full path of a "
        f"folder."
    )


def test_without_home_the_systems_own_answer_is_used(monkeypatch):
    monkeypatch.delenv("HOME")
    assert ore_home({}) == Path.home() / ".ore"


@pytest.mark.parametrize(
    "environ",
    [
        {"HOME": "/home/ada"},
        {"ORE_HOME": "/data/ore", "HOME": "/home/ada"},
        {"ORE_HOME": "/data/ore/./."},  # a link there is another's, whatever is behind it
        {},
    ],
)
def test_a_file_of_variables_is_looked_for_there_too(monkeypatch, environ):
    monkeypatch.delenv("HOME")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert _env_files()[-1] == str(ore_home() / ".env")


@pytest.mark.parametrize("value", [".", "relative"])
def test_no_file_of_variables_is_looked_for_in_a_relative_home(monkeypatch, value):
    monkeypatch.setenv("ORE_HOME", value)
    assert [path for path in _env_files() if not os.path.isabs(path)] == []


def test_the_environment_is_looked_at_when_asked_and_nothing_is_made(home, monkeypatch):
    assert ore_home() == home / ".ore"
    monkeypatch.setenv("ORE_HOME", str(home / "elsewhere"))
    assert ore_home() == home / "elsewhere"
    assert list(home.iterdir()) == []


def test_only_a_home_at_the_beginning_of_a_path_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    for path in ("runs", "~no-such-user", "a/~/b", "./~"):
        assert expanded(path) == path
    assert [expanded(path) for path in ("~", "~/runs")] == ["/home/ada", "/home/ada/runs"]


def test_the_home_of_an_unknown_user_is_no_folder_of_the_current_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="^'~no-such-user/runs' begins with a user"):
        expanded("~no-such-user/runs")
    (tmp_path / "~no-such-user").mkdir()
    assert expanded("~no-such-user/runs") == "~no-such-user/runs"


def test_a_user_the_system_does_not_know_is_told_what_to_set(monkeypatch):
    if os.geteuid() != 0:
        pytest.skip("only root can become a user without an entry")
    monkeypatch.delenv("HOME")
    os.setresuid(54321, 54321, 0)
    try:
        with pytest.raises(HomeError, match="^There is no home folder .* set HOME, or ORE_HOME"):
            ore_home({})
        with pytest.raises(UsageError, match="^'~/runs' begins with the home folder, .* set HOME"):
            expanded("~/runs")
    finally:
        os.setresuid(0, 0, 0)


def test_a_home_that_does_not_let_its_env_file_be_seen_is_told(monkeypatch):
    """Prompts would go to another server than the one that the file names, and nothing would say so."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        closed = Path(folder, "closed")
        closed.mkdir(mode=0)
        monkeypatch.setenv("ORE_HOME", str(closed))
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(54_321)
        try:
            assert str(closed / ".env") in load_env_files()
            monkeypatch.setenv("ORE_HOME", str(closed / "unseen"))
            assert load_env_files() == {}
        finally:
            if is_root:
                os.seteuid(0)
            closed.chmod(0o700)


def test_an_env_file_that_can_not_be_looked_at_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_HOME", str(tmp_path))
    assert load_env_files() == {}
    (tmp_path / ".env").symlink_to(".env")
    assert load_env_files() == {f"{tmp_path}/.env": ""}
    monkeypatch.setenv("ORE_HOME", str(tmp_path / ("n" * 300)))
    assert load_env_files() == {}


def test_a_path_that_begins_as_an_address_is_one_unless_a_folder_here_is_called_so(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data:").mkdir()
    quoted = ("'http://me:pw@box'", "(https://me:pw@box)", "http//me:pw@box", "http.//me:pw@box")
    for path in ("s3://box/runs", "S3:/box", "git+https://box", *quoted):
        assert is_address(path)
    for path in (
        "data:/runs",
        "runs",
        "/s3:/runs",
        "./s3:/runs",
        "c:/runs",
        "s3:runs",
        "http//runs",
    ):
        assert not is_address(path)
