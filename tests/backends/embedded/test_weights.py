"""Where models are, which are trusted, and what is said of those that are not there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from ore.backends import fetching, gguf, local_models, shelf_care, weights
from ore.backends.chat_template import read_chat_template
from ore.backends.embedded import EmbeddedBackend
from ore.backends.http import Deadline
from ore.backends.weights import PinnedFile
from ore.errors import (
    BackendTimeoutError,
    FileAccessError,
    HomeError,
    ModelNotFoundError,
    UsageError,
)
from tests.support.closed import beside_a_closed_folder
from tests.support.gguf import tiny_model

PINNED = "smollm2:135m"
PINNED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF = b"GGUF" + bytes(60)


@pytest.fixture
def folder(home) -> Path:
    folder = home / ".ore" / "models"
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, name: str, data: bytes = GGUF) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, "{home}/.ore/models"),
        ({"ORE_HOME": "/elsewhere"}, "/elsewhere/models"),
        ({"ORE_MODEL_DIR": "/models é"}, "/models é"),
        ({"ORE_MODEL_DIR": "/models", "ORE_HOME": "/elsewhere"}, "/models"),
    ],
)
def test_the_models_folder_is_in_ore_s_home_unless_it_is_named(
    home, monkeypatch, environ, expected
):
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert str(weights.models_folder()) == expected.format(home=home)


@pytest.mark.parametrize("named", ["", "models", "~/models"])
def test_a_relative_models_folder_is_refused(monkeypatch, named):
    monkeypatch.setenv("ORE_MODEL_DIR", named)
    with pytest.raises(HomeError, match="ORE_MODEL_DIR"):
        weights.models_folder()


LONG = f"/{'x' * 300}.gguf"  # longer than a file's name may be, so looking at it is an error


def test_a_file_that_can_t_be_looked_at_is_not_installed(folder):
    (folder / "mine.gguf").symlink_to(LONG)
    assert weights.installed() == {}
    with pytest.raises(ModelNotFoundError, match="There is no file"):
        weights.find(LONG)


def test_a_path_that_can_not_be_looked_at_is_not_said_to_have_no_file(folder):
    (folder / "loop").symlink_to("loop")
    with pytest.raises(FileAccessError, match="can't be read: too many levels of symbolic links"):
        weights.find(str(folder / "loop" / "mine.gguf"))


def test_a_link_that_leads_to_itself_is_no_model_and_hides_none(folder):
    (folder / "mine.gguf").symlink_to("mine.gguf")
    (folder / "gone.gguf").symlink_to("nowhere.gguf")
    (folder / "below.gguf").symlink_to("there.gguf/nowhere.gguf")
    (folder / "folder.gguf").mkdir()
    there = put(folder, "there.gguf")
    (folder / "named.gguf").symlink_to(there.name)
    assert weights.installed() == {"named": folder / "named.gguf", "there": there}


def test_a_link_into_a_folder_that_is_closed_is_a_model_that_can_not_be_read(monkeypatch):
    with beside_a_closed_folder() as (there, closed):
        (there / "mine.gguf").symlink_to(closed / "mine.gguf")
        monkeypatch.setenv("ORE_MODEL_DIR", str(there))
        assert list(weights.installed()) == ["mine"]
        with pytest.raises(FileAccessError, match="mine.gguf can't be read: permission denied"):
            weights.find("mine")


def test_a_model_without_an_ending_that_can_not_be_read_is_not_said_to_be_missing(monkeypatch):
    with beside_a_closed_folder() as (there, closed):
        put(there, "mine").chmod(0)
        (there / "linked").symlink_to(closed / "model")
        put(there, "notes", b"of mine")
        monkeypatch.setenv("ORE_MODEL_DIR", str(there))
        for name in ("mine", "linked"):
            with pytest.raises(FileAccessError, match=f"{name} can't be read: permission denied"):
                local_models.find(name)
        with pytest.raises(ModelNotFoundError):
            local_models.find("notes")


def test_a_pinned_model_behind_a_closed_folder_has_no_other_bytes(monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda path: False)  # as from Python 3.14 on
    with beside_a_closed_folder() as (there, closed):
        (there / PINNED_FILE).symlink_to(closed / PINNED_FILE)
        monkeypatch.setenv("ORE_MODEL_DIR", str(there))
        with pytest.raises(FileAccessError, match="gguf can't be read: permission denied"):
            weights.check_pinned(PINNED)


def test_a_part_that_can_not_be_looked_at_is_not_said_to_be_missing():
    with beside_a_closed_folder() as (there, closed):
        first, second = (there / f"big-{n:05}-of-00002.gguf" for n in (1, 2))
        first.write_bytes(GGUF)
        second.symlink_to(closed / "part")
        with pytest.raises(FileAccessError, match="big-00002-of-00002.gguf can't be read: perm"):
            gguf.parts_of(first)


def test_without_a_folder_nothing_is_installed_and_nothing_is_made(home):
    assert weights.installed() == {}
    assert not (home / ".ore").exists()


def test_a_user_s_models_are_named_by_their_files(folder):
    one, two = put(folder, "Qwen 2.5é.GGUF"), put(folder, "a.b.gguf")
    three = put(folder, "sha256-0a1b")  # as Ollama keeps them
    put(folder, "notes.txt", b"notes")
    put(folder, ".hidden")
    (folder / "folder.gguf").mkdir()
    assert weights.installed() == {"Qwen 2.5é": one, "a.b": two, "sha256-0a1b": three}


def test_a_split_model_is_listed_once_and_its_digest_is_of_all_its_parts(folder):
    parts = [put(folder, f"big-0000{n}-of-00003.gguf", GGUF + bytes([n])) for n in (1, 2, 3)]
    whole, first = put(folder, "one.gguf"), put(folder, "one-00001-of-00002.gguf")
    assert weights.installed() == {"big": parts[0], "one": whole}
    assert weights.find("big") == weights.find(str(parts[0])) == parts[0]
    digests = "".join(hashlib.sha256(part.read_bytes()).hexdigest() + "\n" for part in parts)
    digest = weights.file_digest(parts[0])
    assert digest == hashlib.sha256(digests.encode()).hexdigest()
    put(folder, parts[2].name, GGUF + b"changed")
    assert weights.file_digest(parts[0]) != digest
    with pytest.raises(FileAccessError, match="one-00002-of-00002.gguf is not beside it"):
        weights.find(str(first))
    with pytest.raises(FileAccessError, match=f"name its first part, {parts[0]}"):
        weights.find(str(parts[1]))


def test_a_file_s_first_bytes_say_that_it_is_a_model_not_its_name(folder, tmp_path):
    path = put(tmp_path, "model.bin")
    assert weights.find(str(path)) == path
    with pytest.raises(ModelNotFoundError, match="has no model"):
        weights.find(str(put(tmp_path, "notes.txt", b"notes")))


@pytest.mark.skipif(sys.platform != "linux", reason="a file of Linux that nobody can read at 0")
def test_a_file_without_the_ending_that_can_t_be_read_is_no_missing_model(folder):
    with pytest.raises(FileAccessError, match="/proc/self/mem can't be read: input/output error"):
        weights.find("/proc/self/mem")


def test_of_a_path_that_can_t_be_looked_at_there_is_no_model(folder, tmp_path):
    with pytest.raises(ModelNotFoundError, match="name the path of a GGUF file"):
        weights.find(f"{tmp_path}/{'b' * 300}")


def test_a_pinned_name_is_never_given_to_other_bytes(folder):
    put(folder, f"{PINNED}.gguf")
    own = put(folder, PINNED_FILE)
    os.truncate(own, 98_362_432)
    assert weights.installed() == {own.stem: own}
    with pytest.raises(ModelNotFoundError, match="does not have the bytes that ORE trusts"):
        weights.find(PINNED)
    with pytest.raises(FileAccessError, match="move it away"):
        fetching.pull(PINNED, lambda *_: None)
    assert own.exists()


def test_of_a_pinned_model_that_can_t_be_read_nothing_is_said_of_its_bytes(folder, monkeypatch):
    def failing(*_: object, **__: object) -> str:
        raise OSError(errno.EIO, "Input/output error")

    os.truncate(put(folder, PINNED_FILE), 98_362_432)
    monkeypatch.setattr(weights, "sha256_of", failing)
    words = "can't be read: input/output error"
    with pytest.raises(ModelNotFoundError, match=words) as caught:
        weights.find(PINNED)
    assert "trusts" not in str(caught.value)
    with pytest.raises(FileAccessError, match=words):
        fetching.pull(PINNED, lambda *_: None)
    found = {each.name: each.problem for each in shelf_care.check_models(lambda *_: None)}
    assert words in str(found[PINNED])


def test_a_folder_that_can_t_be_listed_is_an_error(home):
    (home / ".ore").mkdir()
    (home / ".ore" / "models").write_text("")
    with pytest.raises(FileAccessError, match="can't be listed"):
        weights.installed()


@pytest.mark.parametrize(
    "model, said",
    [
        (PINNED, r"fetch it with `EmbeddedBackend.pull\('smollm2:135m'\)`"),
        ("nope:1b", r"`EmbeddedBackend.pull\('nope:1b'\)`, or use one that is there: mine\.$"),
        ("../nope", "'../nope': name the path of a GGUF file, or use one that is there: mine"),
        ("a\nYou: `b`", r"'a\^JYou: 'b'': name the path"),
        ("/no/such.gguf", "There is no file /no/such.gguf"),
    ],
)
def test_a_missing_model_says_what_to_do(folder, model, said):
    put(folder, "mine.gguf")
    with pytest.raises(ModelNotFoundError, match=said) as error:
        weights.find(model)
    assert error.value.model == model


def test_files_that_are_there_are_named_on_one_line(folder):
    put(folder, "a\nYou: hi\x1b[2J.gguf")
    with pytest.raises(ModelNotFoundError, match=r"there: a\^JYou: hi\^\[\[2J\.$"):
        weights.find("nope")


def test_without_any_model_the_small_one_is_offered(home):
    with pytest.raises(ModelNotFoundError, match="`EmbeddedBackend.pull.'smollm2:135m'.`") as error:
        weights.find("llama3.2")
    assert "fetch it with `EmbeddedBackend.pull('llama3.2')`" in str(error.value)


def test_of_many_models_that_are_there_some_are_named(folder):
    for number in range(30):
        put(folder, f"m{number:02}.gguf")
    with pytest.raises(ModelNotFoundError, match=", m19, …") as error:
        weights.find("x" * 300)
    assert len(error.value.available) == 30 and len(str(error.value)) < 300


def test_a_model_is_found_by_its_name_and_by_its_path(folder, tmp_path):
    mine, other = put(folder, "mine.gguf"), put(tmp_path, "o ther é.gguf")
    assert weights.find("mine") == mine
    assert weights.find(str(other)) == other


@pytest.mark.parametrize("behind", ["/", "/.", "//"])
@pytest.mark.parametrize("name", ["mine.gguf", "mine"])
def test_a_file_with_a_slash_behind_it_is_no_model_without_a_name(folder, name, behind):
    path = f"{put(folder, name)}{behind}"
    with pytest.raises(ModelNotFoundError, match="has no model"):
        weights.find(path)


def test_other_bytes_with_the_time_of_the_old_ones_are_another_file(folder):
    path = put(folder, "mine.gguf", GGUF + b"a")
    before, marks = path.stat(), weights.marks_of(path)
    assert weights.marks_of(path) == marks
    path.write_bytes(GGUF + b"b")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns and weights.marks_of(path) != marks


@pytest.mark.slow
def test_the_digest_of_many_parts_takes_no_time_of_their_square(folder):
    parts = [put(folder, f"m-{n:05}-of-00400.gguf", GGUF + bytes([n % 256])) for n in range(1, 401)]
    began = time.process_time()
    digest = weights.file_digest(parts[0])
    assert weights.file_digest(parts[0]) == digest
    assert time.process_time() - began < 1
    known = json.loads((folder / ".digests.json").read_text())
    assert [each["sha256"] for each in known.values()] == [
        hashlib.sha256(part.read_bytes()).hexdigest() for part in parts
    ]


@pytest.mark.parametrize("name", ["", "a\nb", "-00001-of-00002"])
def test_the_digest_is_of_all_parts_that_the_engine_reads_whatever_they_are_called(folder, name):
    parts = [put(folder, f"{name}-0000{n}-of-00002.gguf", GGUF + bytes([n])) for n in (1, 2)]
    assert gguf.parts_of(parts[0]) == parts
    assert list(weights.installed()) == [name or "-00001-of-00002"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the name of an open file")
def test_the_digest_of_an_open_file_is_of_all_parts_that_the_engine_finds_by_its_name(folder):
    parts = [put(folder, f"big-0000{n}-of-00002.gguf", GGUF + bytes([n])) for n in (1, 2)]
    whole = put(folder, "one.gguf")
    with open(parts[0], "rb") as first, open(parts[1], "rb") as second, open(whole, "rb") as one:
        path = Path(f"/proc/self/fd/{first.fileno()}")
        assert gguf.parts_of(path) == parts
        assert weights.file_digest(path) == weights.file_digest(parts[0])
        with pytest.raises(FileAccessError, match=f"name its first part, {parts[0]}"):
            weights.find(f"/dev/fd/{second.fileno()}")
        path = Path(f"/dev/fd/{one.fileno()}")
        assert gguf.parts_of(path) == [path]


def test_only_what_the_engine_takes_for_a_number_is_that_of_a_part_however_many_there_are():
    assert gguf.split_name("m-00001-of-65535.gguf") == ("m", 1, 65535)
    assert gguf.split_name("m-٠٠٠٠١-of-٠٠٠٠٢.gguf") is None


def test_of_a_split_model_no_more_is_looked_for_than_the_first_missing_part(folder, monkeypatch):
    first, looked = put(folder, "big-00001-of-10000.gguf"), []
    monkeypatch.setattr(os.path, "isfile", lambda path: looked.append(path) or path == first)
    with pytest.raises(FileAccessError, match="big-00002-of-10000.gguf is not beside it"):
        gguf.parts_of(first)
    assert len(looked) == 2


def test_a_path_from_a_current_folder_that_has_been_removed_is_refused(folder, monkeypatch):
    gone = folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    path = put(folder, "mine.gguf")
    with pytest.raises(FileAccessError, match="the current folder has been removed. Give its full"):
        weights.find("../mine.gguf")
    assert weights.find(str(path)) == path


def test_a_model_that_is_not_gguf_is_refused(folder):
    put(folder, "mine.gguf", b"#!/bin/sh")
    with pytest.raises(FileAccessError, match="is not a GGUF model"):
        weights.find("mine")


def pin_of(path: Path, **changes) -> PinnedFile:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    facts = {"file_bytes": path.stat().st_size, "file_sha256": digest, **changes}
    return PinnedFile("x==1", "x", 0, "", **facts)


@pytest.mark.invariant
def test_a_file_is_trusted_for_its_bytes_only(folder):
    path = put(folder, "mine.gguf")
    assert weights.is_trusted(path, pin_of(path))
    assert not weights.is_trusted(path, pin_of(path, file_sha256="0" * 64))
    assert not weights.is_trusted(path, pin_of(path, file_bytes=1))
    assert not weights.is_trusted(folder / "none.gguf", pin_of(path))


def test_a_pinned_model_is_found_without_a_look_at_the_others(folder, monkeypatch):
    """A folder may hold a hundred thousand files."""
    put(folder, "other.gguf")
    path = put(folder, "x")
    monkeypatch.setitem(weights.PINNED, "x:1", pin_of(path))
    monkeypatch.setattr(weights, "installed", lambda: pytest.fail("the folder was listed"))
    assert weights.find("x:1") == path


def test_a_hash_is_remembered_until_the_file_changes(folder):
    path, sidecar = put(folder, "mine.gguf"), folder / ".digests.json"
    true = hashlib.sha256(GGUF).hexdigest()
    assert weights.file_digest(path) == true
    assert oct(sidecar.stat().st_mode)[-3:] == "600"
    known = json.loads(sidecar.read_text())
    known[str(path)]["sha256"] = "remembered"
    sidecar.write_text(json.dumps(known))
    assert weights.file_digest(path) == "remembered"
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))
    assert weights.file_digest(path) == true
    before, other = path.stat(), GGUF[:-1] + b"x"
    path.write_bytes(other)
    os.utime(path, ns=(0, before.st_mtime_ns))  # as `cp -p` leaves it, too
    assert weights.file_digest(path) == hashlib.sha256(other).hexdigest()
    path.write_bytes(GGUF + b"more")
    assert weights.file_digest(path) == hashlib.sha256(GGUF + b"more").hexdigest()


@pytest.mark.parametrize("mode, owner", [(0o602, None), (0o600, 65534)])
def test_hashes_that_others_may_have_written_are_not_believed(folder, mode, owner):
    path, sidecar = put(folder, "mine.gguf"), folder / ".digests.json"
    true = weights.file_digest(path)
    sidecar.write_text(sidecar.read_text().replace(true, "f" * 64))
    assert weights.file_digest(path) == "f" * 64
    sidecar.chmod(mode)
    if owner is not None:
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        os.chown(sidecar, owner, -1)
    assert weights.file_digest(path) == true
    assert oct(sidecar.stat().st_mode)[-3:] == "600" and sidecar.stat().st_uid == os.geteuid()


def test_hashes_of_files_that_are_gone_are_forgotten(folder, tmp_path):
    gone = put(tmp_path, "gone.gguf")
    weights.file_digest(gone)
    gone.unlink()
    weights.file_digest(put(folder, "mine.gguf"))
    assert list(json.loads((folder / ".digests.json").read_text())) == [str(folder / "mine.gguf")]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"PATH": 1}', '{"PATH": {"size": 64, "mtime_ns": MTIME, "sha256": 5}}'],
)
def test_damaged_hashes_are_replaced(folder, text):
    path, sidecar = put(folder, "mine.gguf"), folder / ".digests.json"
    mtime = str(path.stat().st_mtime_ns)
    sidecar.write_text(text.replace("PATH", str(path)).replace("MTIME", mtime))
    true = hashlib.sha256(GGUF).hexdigest()
    assert weights.file_digest(path) == true
    assert json.loads(sidecar.read_text())[str(path)]["sha256"] == true


def test_hashes_that_can_t_be_written_cost_time_only(folder):
    (folder / ".digests.json").mkdir()
    path = put(folder, "mine.gguf")
    assert weights.file_digest(path) == hashlib.sha256(GGUF).hexdigest()
    assert sorted(each.name for each in folder.iterdir()) == [".digests.json", "mine.gguf"]


def test_a_missing_file_has_no_hash(folder):
    with pytest.raises(FileAccessError, match="can't be read"):
        weights.file_digest(folder / "none.gguf")


@pytest.mark.embedded
def test_the_pinned_model_is_there_and_is_not_fetched_again(model_dir):
    seen = []
    fetching.pull(PINNED, lambda *step: seen.append(step))
    assert seen == [("already there", 98_362_432, 98_362_432)]
    assert weights.installed()[PINNED] == model_dir / PINNED_FILE


def test_a_hash_ends_with_the_deadline_and_is_not_remembered(folder):
    path = put(folder, "mine.gguf")
    with pytest.raises(TimeoutError):
        weights.file_digest(path, deadline=Deadline(0.0))
    assert not (folder / ".digests.json").exists()
    true = hashlib.sha256(GGUF).hexdigest()
    assert weights.file_digest(path, deadline=Deadline(600.0)) == true
    assert weights.file_digest(path, deadline=Deadline(0.0)) == true  # nothing is read for it


@pytest.mark.slow
def test_a_huge_file_is_given_up_in_its_midst(folder):
    path = put(folder, "mine.gguf", tiny_model())
    os.truncate(path, 1 << 40)
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        weights.file_digest(path, deadline=Deadline(0.2))
    assert time.monotonic() - started < 30
    backend = EmbeddedBackend(deadline=0.2)
    with pytest.raises(BackendTimeoutError, match="longer than its deadline allows: .*`deadline=`"):
        backend.check_digest(str(path), "0" * 12)
    for _ in range(1000):  # rows
        assert backend.provenance(str(path))["model_digest"] is None


def test_who_waits_for_a_hash_is_told_how_far_it_is(folder):
    path, told = put(folder, "mine.gguf", bytes(3 << 20)), []
    weights.file_digest(path, told=lambda *step: told.append(step))
    assert told == [(at << 20, 3 << 20) for at in range(4)]
    weights.file_digest(path, told=lambda *step: told.append(step))  # nothing is read for it
    assert len(told) == 4


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_a_model_has_become_meanwhile_is_not_waited_for(folder, make):
    path = folder / "m.gguf"
    make(path)
    with pytest.raises(FileAccessError, match="m.gguf can't be read: it is not a regular file"):
        weights.file_digest(path)


class Swapped(type(Path())):
    """A file that becomes a link to itself when it has been looked at."""

    def stat(self, **more):
        status = super().stat(**more)
        os.unlink(self)
        os.symlink(self.name, self)
        return status


def test_a_file_that_becomes_a_link_to_itself_is_a_sentence(folder):
    path = Swapped(put(folder, "m.gguf"))
    with pytest.raises(FileAccessError, match="m.gguf can't be read: too many levels"):
        weights.file_digest(path)


def test_a_name_with_control_characters_is_refused_on_one_line(tmp_path):
    path = tmp_path / "m\nYou: hi\x1b[2J.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(FileAccessError, match="control characters") as caught:
        weights.find(str(path))
    assert str(caught.value).isprintable()


def test_a_template_with_control_characters_in_its_name_is_named_on_one_line(tmp_path):
    path = tmp_path / "t\nYou: hi"
    path.write_bytes(b"")
    with pytest.raises(UsageError, match="is empty") as caught:
        read_chat_template(path)
    assert str(caught.value).isprintable()
