"""Room on ORE's shelf is made while other processes pull and remove: no model there loses a blob."""

from __future__ import annotations

import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from ore.backends import freeing, shelf, shelf_care, weights
from ore.backends.model_names import parse_name
from ore.backends.pulling import pull
from ore.backends.shelf import Shelf
from ore.errors import BackendError, FileAccessError, ModelNotFoundError
from ore.files import locks
from ore.files.folder import Folder
from tests.support.closed import beside_a_closed_folder
from tests.support.shelves import put_model

GGUF = b"GGUF" + bytes(60)


@pytest.fixture
def root(home) -> Path:
    root = home / ".ore" / "models"
    root.mkdir(parents=True)
    return root


def blobs_of(root: Path) -> list[str]:
    return [each for each in os.listdir(root / "blobs") if not each.startswith(".")]


def test_a_model_that_is_removed_meanwhile_hides_no_other_from_a_list(root):
    for name in "abcdef":
        put_model(root, name, GGUF)
    with os.scandir(root / "manifests/registry.ollama.ai/library") as entries:
        order = [each.name for each in entries]
    ways = shelf._paths(root / "manifests", 4)
    found = [next(ways)]
    for gone in order[1:3]:
        shutil.rmtree(root / "manifests/registry.ollama.ai/library" / gone)
    (root / "manifests/registry.ollama.ai/library" / order[2]).touch()
    assert [each[2] for each in (*found, *ways)] == [order[0], *order[3:]]


def test_a_shared_blob_stays_however_many_models_there_are(root):
    for name in "abc":
        put_model(root, name, GGUF)
    blobs = blobs_of(root)
    for name in "ab":
        assert shelf_care.remove(name) == 0
        assert blobs_of(root) == blobs
    assert shelf_care.remove("c") > len(GGUF)
    assert not blobs_of(root)


def test_an_interrupt_leaves_no_weights_that_no_model_names(root, monkeypatch):
    put_model(root, "mine", GGUF)
    free = shelf_care.free

    def interrupted(*given):
        signal.raise_signal(signal.SIGINT)
        return free(*given)

    monkeypatch.setattr(shelf_care, "free", interrupted)
    with pytest.raises(KeyboardInterrupt):
        shelf_care.remove("mine")
    assert not blobs_of(root) and not any((root / "manifests").iterdir())


def test_a_model_is_not_removed_by_the_name_of_a_file_that_differs_in_case(root):
    put_model(root, "mine", GGUF)
    (root / "Mine.gguf").write_bytes(GGUF)
    with pytest.raises(BackendError, match="Mine is a file of yours"):
        shelf_care.removable("Mine")
    assert [shelf_care.removable(name) for name in ("mine", "MINE")] == ["mine", "mine"]


def test_what_can_be_removed_is_told_with_the_small_model(root):
    put_model(root, "mine", GGUF)
    weights.pinned_path(weights.DEFAULT_MODEL).touch()
    with pytest.raises(ModelNotFoundError) as error:
        shelf_care.removable("other")
    assert error.value.available == (weights.DEFAULT_MODEL, "mine")
    assert str(error.value).endswith(f"in {root} it has {weights.DEFAULT_MODEL}, mine.")


def test_where_no_blob_could_go_the_model_stays(root):
    put_model(root, "mine", GGUF)
    (root / "blobs").chmod(0o777)
    with pytest.raises(FileAccessError, match="others can write to it"):
        shelf_care.remove("mine")
    assert shelf_care.removable("mine") == "mine"
    (root / "blobs").chmod(0o700)
    assert shelf_care.remove("mine") > len(GGUF)


@pytest.mark.parametrize("depth", range(4))
def test_nothing_is_written_or_removed_behind_a_link_on_the_way_to_a_manifest(
    root, tmp_path, depth
):
    put_model(tmp_path / "ollama", "127.0.0.1:1/me/tiny", GGUF)
    way = Path("manifests/127.0.0.1:1/me/tiny".rsplit("/", depth)[0])
    (root / way.parent).mkdir(parents=True, mode=0o700, exist_ok=True)
    (root / way).symlink_to(tmp_path / "ollama" / way)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for act in (shelf_care.remove, lambda name: pull(name, lambda *_: None)):
        with pytest.raises(FileAccessError, match="is a symbolic link"):
            act("127.0.0.1:1/me/tiny")
    assert before == sorted(path for path in tmp_path.rglob("*") if path.is_file())


def test_a_folder_in_the_place_of_a_blob_is_none_and_stays(root):
    put_model(root, "mine", GGUF)
    (blob,) = [path for path in (root / "blobs").iterdir() if path.read_bytes() == GGUF]
    blob.unlink()
    blob.mkdir()
    shelf_care.remove("mine")
    assert list((root / "blobs").iterdir()) == [blob]


def test_a_blob_stays_that_a_pull_has_named_meanwhile(root, monkeypatch):
    put_model(root, "mine", GGUF)

    def try_lock(*args):
        put_model(root, "pulled", GGUF)  # the pull that held the lock has ended just now
        return locks.try_lock(*args)

    monkeypatch.setattr(freeing, "try_lock", try_lock)
    assert shelf_care.remove("mine") == 0
    assert len(blobs_of(root)) == 2 and not list(root.glob("blobs/.*"))


@pytest.mark.parametrize("full", [errno.ENOSPC, errno.EDQUOT])
def test_a_model_is_removed_from_a_disk_that_has_no_room_for_a_lock(root, monkeypatch, full):
    put_model(root, "mine", GGUF)

    def try_lock(folder, name):
        raise OSError(full, os.strerror(full), name)

    monkeypatch.setattr(freeing, "try_lock", try_lock)
    assert shelf_care.remove("mine") > len(GGUF)
    assert not blobs_of(root)


def test_the_weights_that_a_pull_is_at_work_on_stay(root):
    put_model(root, "mine", GGUF)
    (blob,) = [each.name for each in (root / "blobs").iterdir() if each.read_bytes() == GGUF]
    with Folder(root / "blobs") as blobs:
        lock = locks.try_lock(blobs, f".{blob}.lock")
        shelf_care.remove("mine")
        lock.release()
    assert blobs_of(root) == [blob]


def test_where_a_lock_can_not_be_made_for_another_reason_nothing_of_the_blobs_goes(
    root, monkeypatch
):
    put_model(root, "mine", GGUF)
    there = blobs_of(root)

    def try_lock(folder, name):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), name)

    monkeypatch.setattr(freeing, "try_lock", try_lock)
    with pytest.raises(FileAccessError, match="mine can't be removed: no locks available"):
        shelf_care.remove("mine")
    assert blobs_of(root) == there


def test_a_model_that_is_removed_meanwhile_keeps_no_other_from_being_removed(root, monkeypatch):
    put_model(root, "mine", GGUF)
    put_model(root, "other", GGUF + b"x")
    read, other = Shelf.manifest, Shelf(root).manifest_path(parse_name("other"))

    def manifest(self, name):
        if name.model == "other":
            other.unlink(missing_ok=True)
        return read(self, name)

    monkeypatch.setattr(Shelf, "manifest", manifest)
    assert shelf_care.remove("mine") >= len(GGUF)


def test_a_folder_that_another_process_takes_away_keeps_no_blob_there(root, monkeypatch):
    put_model(root, "mine", GGUF)

    def rmdir(self):
        os.rmdir(self)
        raise FileNotFoundError(2, "it was removed by another process", str(self))

    monkeypatch.setattr(Path, "rmdir", rmdir)
    assert shelf_care.remove("mine") > len(GGUF)
    assert not blobs_of(root)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.EMFILE])
def test_a_model_stays_whose_manifest_can_t_be_read_for_its_weights_would_stay_unlisted(
    root, monkeypatch, number
):
    put_model(root, "tiny", b"weights")
    before, read = blobs_of(root), os.read

    def fails(descriptor: int, length: int) -> bytes:
        if "manifests" in os.readlink(f"/proc/self/fd/{descriptor}"):
            raise OSError(number, os.strerror(number))
        return read(descriptor, length)

    with monkeypatch.context() as patch:
        patch.setattr(os, "read", fails)
        with pytest.raises(FileAccessError, match="can't be read"):
            shelf_care.remove("tiny")
    assert blobs_of(root) == before
    assert shelf_care.removable("tiny") == "tiny"
    shelf_care.remove("tiny")
    assert not blobs_of(root)


def test_a_model_in_a_folder_that_can_be_listed_and_not_entered_keeps_the_blobs_that_it_names():
    with beside_a_closed_folder() as (root, _):
        for name in ("mine", "other"):
            put_model(root, name, GGUF)
        before, shut = blobs_of(root), root / "manifests/registry.ollama.ai/library/other"
        shut.chmod(0o400)
        try:
            with pytest.raises(FileAccessError, match="ermission denied"):
                shelf_care._remove_from(Shelf(root, is_own=True), parse_name("mine"))
        finally:
            shut.chmod(0o700)
        assert blobs_of(root) == before
        assert Shelf(root).is_whole(Shelf(root).manifest(parse_name("mine")))
