"""A model by its name from a stand-in for a registry, into ORE's own shelf."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from ore.backends import download, freeing, gguf, pulling, registry_failures, weights
from ore.backends.embedded import EmbeddedBackend
from ore.backends.model_names import parse_name
from ore.backends.pulling import pull
from ore.backends.registry import Registry
from ore.backends.registry_failures import MOST_TRIES, Tries, Trouble
from ore.backends.shelf import Shelf
from ore.backends.shelf_care import check_models
from ore.errors import (
    BackendError,
    CapabilityError,
    FileAccessError,
    IncompleteAnswerError,
    ModelNotFoundError,
    OreError,
    ServerUnreachableError,
    UsageError,
)
from ore.files import read_file
from ore.files.folder import Folder
from ore.files.locks import try_lock
from tests.support.fake_registry import (
    LICENSE,
    FakeRegistry,
    cut,
    digest_of,
    paced,
    short,
    status,
    wrong,
)
from tests.support.gguf import tiny_model
from tests.support.process import PATIENCE, ROOT, until
from tests.support.shelves import as_bytes, put_blob, put_manifest

pytestmark = pytest.mark.usefixtures("no_authorities")

PART = 1 << 16
WEIGHTS = b"GGUF" + random.Random(1).randbytes(10 * PART + 77)
DIGEST = digest_of(WEIGHTS)
BLOB = DIGEST.replace(":", "-")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(download, "PART_BYTES", PART)
    monkeypatch.setattr(download, "_BLOCK", 1 << 14)


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The models folder; it is not there yet."""
    folder = tmp_path / "home" / "models"
    monkeypatch.setenv("ORE_MODEL_DIR", str(folder))
    return folder


@pytest.fixture
def registry():
    with FakeRegistry() as served:
        yield served


def nothing(*_: object) -> None:
    """A progress that nobody looks at."""


def shelf_of(root: Path) -> Shelf:
    return Shelf(root, is_own=True)


def listed(root: Path) -> list[str]:
    return [str(name) for name in shelf_of(root).names()]


def in_blobs(root: Path) -> list[str]:
    return sorted(os.listdir(root / "blobs")) if (root / "blobs").exists() else []


def check_whole(root: Path, name: str) -> None:
    """The model is there, byte for byte, and nothing else is left."""
    shelf, found = shelf_of(root), parse_name(name)
    manifest = shelf.manifest(found)
    assert listed(root) == [name] and shelf.is_whole(manifest)
    assert shelf.weights(found, manifest).read_bytes() == WEIGHTS
    assert [file for file in in_blobs(root) if file.startswith(".")] == []


def test_a_model_is_there_whole_private_and_without_what_the_engine_does_not_need(root, registry):
    name = registry.add(
        "team/tiny:q4", WEIGHTS, params={"stop": ["x"]}, template="T", system="S", projector=b"P"
    )
    seen = []
    pull(name, lambda *step: seen.append(step))
    check_whole(root, name)
    manifest = shelf_of(root).manifest(parse_name(name))
    assert (root / "manifests" / name.replace(":q4", "/q4")).read_bytes() == registry.manifests[
        "team/tiny:q4"
    ]
    there = {layer.kind for layer in manifest.layers if shelf_of(root).blob_path(layer).exists()}
    assert there == {"model", "params", "template", "license"}
    modes = {oct(path.stat().st_mode)[-3:] for path in root.rglob("*") if path.is_file()}
    assert modes == {"600"}
    assert {oct(p.stat().st_mode)[-3:] for p in [root, *root.rglob("*")] if p.is_dir()} == {"700"}
    steps = [what for what, _, _ in seen]
    assert (steps[0], steps[-1]) == ("asking the registry", "writing to disk")
    assert {total for what, _, total in seen if what == "downloading"} == {len(WEIGHTS)}
    # The first turn need not read the file for its digest.
    noted = json.loads((root / ".digests.json").read_text())
    assert noted[str((root / "blobs" / BLOB).resolve())]["sha256"] == DIGEST[7:]


def test_any_user_of_the_image_can_read_the_model_that_was_pulled_for_it(root, registry):
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    step = next(line.removeprefix("RUN ") for line in lines if "--pull" in line)
    step = step.replace('/opt/ore/bin/ore --pull "$MODEL"', "true")
    subprocess.run(["sh", "-c", step.replace("/opt/models", str(root))], check=True)
    modes = {(path.is_dir(), oct(path.stat().st_mode)[-3:]) for path in [root, *root.rglob("*")]}
    assert modes == {(True, "755"), (False, "644")}


def test_what_is_there_is_not_fetched_again(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    pull(name, nothing)
    blobs = len(registry.paths("/blobs/"))
    seen = []
    pull(name, lambda *step: seen.append(step[0]))
    assert len(registry.paths("/blobs/")) == blobs and seen[-1] == "already there"
    check_whole(root, name)


def test_a_blob_with_other_bytes_than_its_name_says_is_fetched_again(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    (root / "blobs").mkdir(parents=True, mode=0o700)
    (root / "blobs" / BLOB).write_bytes(bytes(len(WEIGHTS)))
    pull(name, nothing)
    check_whole(root, name)


def test_parts_are_asked_for_side_by_side(root, registry):
    together = threading.Barrier(2, timeout=30)
    registry.play["blobs"].extend([lambda answer: answer] * 3)  # config, licence, the first part
    waits = paced(lambda: together.wait())
    registry.play["blobs"].extend([waits, waits])
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    ranges = [seen.headers["range"] for seen in registry.asked if "range" in seen.headers]
    assert len(ranges) == len(set(ranges)) == 11 and f"bytes={PART}-{2 * PART - 1}" in ranges


@pytest.mark.parametrize(
    "blobs",
    [
        [cut(0.5)],
        [cut(0)],
        [cut(0.3), cut(0.9), status(503)],
        [status(429), status(500)],
        [paced(lambda: time.sleep(0.01))],
    ],
    ids=["cut", "cut at once", "several", "busy", "slow"],
)
@pytest.mark.parametrize("gives_ranges", [True, False], ids=["parts", "whole"])
@pytest.mark.slow
def test_what_breaks_off_is_gone_on_with(root, blobs, gives_ranges):
    with FakeRegistry(gives_ranges=gives_ranges) as registry:
        name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
        registry.play["blobs"].extend([lambda answer: answer, *blobs])
        pull(name, nothing)
    check_whole(root, name)


@pytest.mark.parametrize(
    "code", [500, 507, 522]
)  # the last is one of those who stand before registries
def test_a_server_that_fails_is_to_be_waited_for_and_the_name_is_not_to_blame(root, registry, code):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = status(code)
    with pytest.raises(BackendError, match=rf"fails \(HTTP {code}\): wait a while, then give the"):
        pull(name, nothing)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["manifests", "blobs"])
def test_that_a_registry_asks_to_wait_is_said_before_it_is_waited(root, registry, what):
    name, seen = registry.add("team/tiny:q4", WEIGHTS), list[str]()
    registry.play[what].append(status(429, Retry_After="1"))
    begun = time.monotonic()
    pull(name, lambda step, *_: seen.append(step))
    assert "waiting 1 s, as the registry asks" in seen and time.monotonic() - begun >= 1
    check_whole(root, name)


@pytest.mark.parametrize("code", [501, 505])
def test_a_server_that_never_can_is_not_waited_for(root, registry, code):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
    registry.play["blobs"].extend([lambda answer: answer, status(code)])
    with pytest.raises(BackendError, match=rf"does not answer as a registry does .HTTP {code}"):
        pull(name, nothing)


def test_a_pull_that_failed_is_gone_on_with_by_the_next(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None)
    one = len(WEIGHTS) // 2
    registry.blobs[DIGEST] = WEIGHTS
    fails = status(503)
    sent = []

    def some(answer):
        sent.append(len(answer.body))
        return answer if sum(sent) <= one else fails(answer)

    registry.always["blobs"] = some
    with pytest.raises(BackendError, match="HTTP 503.*which goes on where this one ended"):
        pull(name, nothing)
    assert listed(root) == [] and f".{BLOB}.part" in in_blobs(root)
    there = (root / "blobs" / f".{BLOB}.part").stat()
    assert there.st_size == len(WEIGHTS)
    registry.asked.clear()
    seen, is_told = [], threading.Event()  # nothing more comes before it is told what there is

    def tell(*step):
        seen.append(step)
        if step[0] == "downloading":
            is_told.set()

    registry.always["blobs"] = lambda answer: answer if is_told.wait(PATIENCE) else fails(answer)
    pull(name, tell)
    first = next(done for what, done, _ in seen if what == "downloading")
    assert first >= PART
    asked = [seen.headers["range"] for seen in registry.asked if "range" in seen.headers]
    spans = [tuple(map(int, text.removeprefix("bytes=").split("-"))) for text in asked]
    assert sum(last - begin + 1 for begin, last in spans) == len(WEIGHTS) - first
    check_whole(root, name)


def test_a_server_that_gives_ranges_no_more_gives_all(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
    given = []

    def forgets(answer):
        given.append(answer.status)
        registry.gives_ranges = len(given) < 4
        return answer

    registry.always["blobs"] = forgets
    pull(name, nothing)
    check_whole(root, name)


@pytest.mark.slow
def test_tries_begin_afresh_where_something_has_come(root, registry, monkeypatch):
    monkeypatch.setattr(registry_failures, "MOST_TRIES", 2)
    name = registry.add("team/tiny:q4", WEIGHTS[:PART], license=None, config={})
    registry.play["blobs"].extend([lambda answer: answer, cut(0.5), cut(0.5)])
    pull(name, nothing)
    assert (root / "blobs" / digest_of(WEIGHTS[:PART]).replace(":", "-")).exists()


def test_what_brings_nothing_is_tried_for_a_quarter_of_a_minute():
    tries, waits = Tries(), list[float]()
    with pytest.raises(BackendError, match="in vain"):
        while len(waits) < 10:
            waits.append(tries.wait_after(Trouble(BackendError("in vain"))))
    assert waits == [0.5, 1, 2, 4, 8]


WRONG = "is not what sha256:.* names, so it was removed"


@pytest.mark.invariant
@pytest.mark.parametrize(
    "trouble, kind, said",
    [
        ({"blobs": wrong}, BackendError, WRONG),
        ({"blobs": short}, BackendError, "bytes where its manifest says"),  # of the config
        ({"manifests": status(404)}, ModelNotFoundError, "check its name, and the tag"),
        ({"manifests": status(401)}, CapabilityError, "ORE logs in nowhere"),
        ({"manifests": status(403)}, CapabilityError, "ORE logs in nowhere"),
        ({"manifests": status(500)}, BackendError, r"fails \(HTTP 500\): wait a while"),
        ({"manifests": status(429)}, BackendError, "asks for fewer requests: wait a while"),
        (
            {"manifests": status(429, Retry_After="99999")},
            BackendError,
            "wait 99,999 s, as it asks",
        ),
        ({"manifests": status(418)}, BackendError, "not answer as a registry does .HTTP 418"),
        ({"manifests": cut(0.5)}, IncompleteAnswerError, "breaks off again and again"),
        (
            {"manifests": short},
            BackendError,
            "what it sent is not a manifest of .*: it is not JSON",
        ),
        ({"blobs": status(404)}, BackendError, "it lacks sha256:"),
        ({"blobs": status(403)}, CapabilityError, "ORE logs in nowhere"),
    ],
    ids=lambda value: "",
)
def test_whatever_a_registry_does_ends_in_a_sentence_and_no_model(
    root, registry, trouble, kind, said
):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always.update(trouble)
    with pytest.raises(kind, match=said):
        pull(name, nothing)
    assert listed(root) == []
    registry.always.clear()
    pull(name, nothing)
    check_whole(root, name)


@pytest.mark.parametrize(
    "trouble, said",
    [
        (wrong, WRONG),
        (status(404), "it lacks"),
        (status(403), "logs in nowhere"),
        (status(500), "HTTP 500"),
        (status(416), "HTTP 416"),
    ],
    ids=lambda value: str(value) if isinstance(value, str) else "",
)
@pytest.mark.parametrize("gives_ranges", [True, False], ids=["parts", "whole"])
def test_weights_that_can_t_be_had_are_an_error_and_no_model(root, trouble, said, gives_ranges):
    with FakeRegistry(gives_ranges=gives_ranges) as registry:
        name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
        pull(registry.add("team/other:q4", b"GGUF other", license=None, config={}), nothing)
        registry.always["blobs"] = lambda answer: (
            trouble(answer) if b"{}" != answer.body else answer
        )
        with pytest.raises(OreError, match=said):
            pull(name, nothing)
        assert len(registry.asked) < 40 + MOST_TRIES
        assert name not in listed(root)
        registry.always.clear()
        pull(name, nothing)
        assert (root / "blobs" / BLOB).read_bytes() == WEIGHTS


def test_weights_of_another_size_are_an_error_before_they_are_read(root):
    with FakeRegistry(gives_ranges=False) as registry:
        name = registry.add("team/tiny:q4", WEIGHTS, license=None)
        registry.play["blobs"].extend([lambda answer: answer, short])
        with pytest.raises(BackendError, match="bytes where its manifest says"):
            pull(name, nothing)
    assert listed(root) == []


def test_a_layer_of_another_size_than_its_manifest_says_is_an_error(root, registry):
    weights, text = registry.layer("model", WEIGHTS), registry.layer("license", b"As you like.")
    text["size"] += 1
    name = registry.add_manifest("team/tiny:q4", {"layers": [weights, text]})
    for _ in range(2):
        with pytest.raises(BackendError, match="it has 12 bytes where its manifest says 13"):
            pull(name, nothing)
    assert listed(root) == []


def test_weights_that_are_no_gguf_file_are_refused_and_leave_nothing(root, registry):
    with pytest.raises(
        CapabilityError, match="not a GGUF file; name another build of it"
    ) as caught:
        pull(registry.add("team/other:q4", b"PK" + WEIGHTS, license=None), nothing)
    assert "was not fetched" in str(caught.value)
    assert listed(root) == []
    assert [path for path in (root / "blobs").iterdir() if path.stat().st_size > 1000] == []


def test_weights_that_the_disk_does_not_give_back_are_kept_and_not_called_something_else(
    root, registry, monkeypatch
):
    def failing(path, *more, **options):
        if str(path).endswith(".part"):
            raise OSError(errno.EIO, "Input/output error")
        return read_file(path, *more, **options)

    name = registry.add("team/tiny:q4", WEIGHTS, license=None)
    with monkeypatch.context() as patched, pytest.raises(FileAccessError, match="can't be read"):
        patched.setattr("ore.files.read_file", failing)
        pull(name, nothing)
    asked = registry.paths("blobs")
    pull(name, nothing)
    check_whole(root, f"{registry.host}/team/tiny:q4")
    assert registry.paths("blobs") == asked


def test_weights_that_came_before_as_something_else_are_looked_at_all_the_same(root, registry):
    text = "No GGUF file."
    pull(registry.add("team/tiny:q4", WEIGHTS, license=text), nothing)
    with pytest.raises(CapabilityError, match="not a GGUF file; name another build of it"):
        pull(registry.add("team/other:q4", text.encode(), license=None), nothing)
    assert listed(root) == [f"{registry.host}/team/tiny:q4"]
    check_whole(root, f"{registry.host}/team/tiny:q4")


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (b"[1]", "it is not a JSON object"),
        (b'{"temperature": NaN}', "it holds NaN"),
        (b'{"stop": "\xff"}', "it is not UTF-8 at byte 10"),
        (as_bytes({"stop": "a" * (1 << 16)}), "they have more than 65,536 bytes"),
    ],
)
def test_parameters_that_no_turn_could_read_are_refused_before_the_weights_come(
    root, registry, parameters, said
):
    name = registry.add("team/tiny:q4", WEIGHTS, params=parameters)
    with pytest.raises(CapabilityError) as caught:
        pull(name, nothing)
    assert f"its parameters can't be used: {said}" in str(caught.value)
    assert "name another build of it" in str(caught.value)
    assert listed(root) == [] and DIGEST not in str(registry.paths("/blobs/"))


def layer(**changes: object) -> dict:
    said = {"mediaType": "application/vnd.ollama.image.model", "digest": DIGEST, "size": 9}
    return {**said, **changes}


@pytest.mark.parametrize(
    "manifest, said",
    [
        (b" " * (100 << 20), "sends more than"),
        (b"[]", "schemaVersion"),
        (b'{"schemaVersion": 1}', "schemaVersion"),
        (b"\xff\xfe", "is not a manifest"),
        (b"[" * 100_000, "is not a manifest"),
        ({"layers": [layer()] * 10_000}, "10,000 layers"),
        ({"layers": [layer(size=-1)]}, "no size"),
        ({"layers": [layer(size=1 << 70)]}, "no size"),
        ({"layers": [layer(size=1.5)]}, "no size"),
        ({"layers": [layer(digest="sha256:../../x")]}, "no SHA-256 digest"),
        ({"layers": [layer(digest="md5:" + "a" * 32)]}, "no SHA-256 digest"),
        ({"layers": [layer(mediaType="a\x1b[2J")]}, "no media type"),
        ({"layers": []}, "no layers"),
        ({"layers": [layer(size=1 << 40)]}, "too little room .* 1,099.51 GB more, and .* are free"),
        (
            {
                "layers": [
                    layer(),
                    layer(
                        mediaType="application/vnd.ollama.image.license",
                        digest="sha256:" + "b" * 64,
                        size=1 << 30,
                    ),
                ]
            },
            "its license layer has",
        ),
        ({"layers": [layer(), layer()]}, "its weights are in 2 parts"),
        (
            {"layers": [layer(), layer(mediaType="x/license", size=8)]},
            "it gives sha256:.* two sizes",
        ),
        ({"layers": [layer(mediaType="application/vnd.ollama.image.tensor")]}, "safetensors"),
        ({"layers": [layer(), layer(mediaType="application/vnd.ollama.image.adapter")]}, "adapter"),
        ({"layers": [layer(mediaType="x/projector")]}, "no weights; name another model.$"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hostile_manifest_ends_in_a_sentence_before_any_weights_are_asked_for(
    root, registry, manifest, said
):
    name = registry.add_manifest("team/tiny:q4", manifest)
    with pytest.raises(OreError, match=said) as caught:
        pull(name, nothing)
    assert listed(root) == [] and registry.paths("/blobs/") == []
    assert "\x1b" not in str(caught.value) and len(str(caught.value)) < 600


def test_where_there_is_no_room_nothing_is_begun(root, registry):
    with pytest.raises(FileAccessError, match="too little room"):
        pull(registry.add_manifest("team/tiny:q4", {"layers": [layer(size=1 << 40)]}), nothing)
    assert not [path for path in root.rglob("*") if path.is_file() and path.stat().st_size > 1000]


def test_where_there_is_no_room_for_all_small_layers_none_is_fetched(root, registry, monkeypatch):
    parts = [registry.layer("license", bytes(1000 + number)) for number in range(4)]
    parts += [registry.layer("model", WEIGHTS)]
    name = registry.add_manifest("team/tiny:q4", {"layers": parts})
    room = shutil.disk_usage("/")._replace(free=3999)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    with pytest.raises(FileAccessError, match="takes 4,006 bytes more, and 3,999 bytes are free"):
        pull(name, nothing)
    assert registry.paths("/blobs/") == [] and in_blobs(root) == []


def test_a_disk_that_does_not_say_how_large_it_is_has_room(root, registry, monkeypatch):
    name = registry.add("team/tiny:q4", WEIGHTS)
    unknown = shutil.disk_usage("/")._replace(total=0, used=0, free=0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: unknown)
    pull(name, nothing)
    check_whole(root, name)


@pytest.mark.parametrize("parts", [1, 11])
def test_what_a_disk_refuses_as_a_file_is_closed_is_an_error(
    root, registry, monkeypatch, capfd, parts
):
    real = os.close

    def close(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        real(descriptor)
        if path.endswith(".part") and mode == os.O_WRONLY:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    name = registry.add("team/tiny:q4", WEIGHTS[: parts * PART])
    with monkeypatch.context() as patched, pytest.raises(FileAccessError, match="is full: free"):
        patched.setattr(os, "close", close)
        pull(name, nothing)
    assert listed(root) == [] and capfd.readouterr().err == ""
    (part,) = (root / "blobs").glob("*.part")
    with part.open("r+b") as file:
        file.write(b"lost")
    pull(name, nothing)  # and the registry is not said to have sent other bytes
    assert listed(root) == [name]


def test_what_a_disk_lost_is_fetched_again_where_it_refused_more_before_a_file_was_closed(
    root, registry, monkeypatch
):
    close, write, full = os.close, os.pwrite, OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    def closed(descriptor):
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        mode = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        close(descriptor)
        if path.endswith(".part") and mode == os.O_WRONLY:
            raise full

    def written(descriptor, data, at):
        if at >= PART:
            raise full
        return write(descriptor, data, at)

    name = registry.add("team/tiny:q4", WEIGHTS[: 2 * PART])
    with monkeypatch.context() as patched, pytest.raises(FileAccessError, match="is full: free"):
        patched.setattr(os, "close", closed)
        patched.setattr(os, "pwrite", written)
        pull(name, nothing)
    (part,) = (root / "blobs").glob("*.part")
    with part.open("r+b") as file:
        file.write(b"lost")
    pull(name, nothing)
    assert listed(root) == [name]


def test_what_could_not_be_put_on_disk_is_fetched_again(root, registry, monkeypatch):
    name, failing = registry.add("team/tiny:q4", WEIGHTS), OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patched, pytest.raises(FileAccessError, match="input/output err"):
        patched.setattr("ore.backends.download.sync", Mock(side_effect=failing))
        pull(name, nothing)
    (part,) = (root / "blobs").glob("*.part")
    with part.open("r+b") as file:
        file.write(b"lost")
    pull(name, nothing)
    check_whole(root, name)


def test_weights_that_are_found_not_to_be_readable_any_more_are_fetched_again(
    root, registry, monkeypatch
):
    name, failing = registry.add("team/tiny:q4", WEIGHTS), OSError(errno.EIO, "Input/output error")
    pull(name, nothing)
    with monkeypatch.context() as patched:
        patched.setattr(weights, "sha256_of", Mock(side_effect=failing))
        (checked,) = check_models(nothing)
        assert "can't be read: input/output error" in str(checked.problem)
        before = (root / "blobs" / BLOB).stat().st_ino
        pull(name, nothing)
    assert (root / "blobs" / BLOB).stat().st_ino != before
    check_whole(root, name)


def test_a_programs_own_alarm_ends_the_check_of_what_is_there_and_begins_no_download(
    root, registry
):
    def late(*_: object) -> None:
        raise TimeoutError("that was long enough")

    def told(step: str, *_: int) -> None:
        if step == "checking what is there":
            signal.raise_signal(signal.SIGALRM)

    name = registry.add("team/tiny:q4", WEIGHTS)
    pull(name, nothing)
    (root / ".digests.json").unlink()
    there, before = (root / "blobs" / BLOB).stat(), signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(FileAccessError, match="long enough"):
            pull(name, told)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert (root / "blobs" / BLOB).stat().st_ino == there.st_ino
    check_whole(root, name)


@pytest.mark.parametrize("then", ["sync", "close"])
def test_what_was_lost_before_a_write_failed_is_fetched_again(root, registry, monkeypatch, then):
    name, full = registry.add("team/tiny:q4", WEIGHTS), OSError(errno.ENOSPC, "No space left")
    with monkeypatch.context() as patched, pytest.raises(FileAccessError, match="is full: free"):
        lose_later(patched, full, at=2 * PART, tells_at=then)
        pull(name, nothing)
    pull(name, nothing)  # and the registry is not said to have sent other bytes
    check_whole(root, name)


def test_what_was_lost_where_a_pull_is_ended_is_fetched_again(root, registry, monkeypatch):
    def end(step: str, done: int, _: int) -> None:
        if done >= 4 * PART:
            raise KeyboardInterrupt

    name, full = registry.add("team/tiny:q4", WEIGHTS), OSError(errno.EDQUOT, "Quota exceeded")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        lose_later(patched, full, at=len(WEIGHTS), tells_at="close")
        pull(name, end)
    pull(name, nothing)
    check_whole(root, name)


def lose_later(monkeypatch, failing: OSError, *, at: int, tells_at: str) -> None:
    """A disk that takes bytes and loses them: it says so where they are ``at``, and ``tells_at``."""
    write, close = os.pwrite, os.close

    def taken(descriptor: int, data: bytes, offset: int) -> int:
        if offset >= at:
            raise failing
        return write(descriptor, bytes(len(data)), offset)

    def closed(descriptor: int) -> None:
        writes = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        close(descriptor)
        if tells_at == "close" and writes and path.endswith(".part"):
            raise failing

    monkeypatch.setattr(os, "pwrite", taken)
    monkeypatch.setattr(os, "close", closed)
    if tells_at == "sync":
        monkeypatch.setattr(download, "sync", Mock(side_effect=failing))


def test_where_no_file_may_be_so_large_it_is_not_room_that_lacks(root, registry):
    name, before = registry.add("team/tiny:q4", WEIGHTS), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (PART, before[1]))
    try:
        with pytest.raises(FileAccessError, match="can't hold a file that large: raise the limit"):
            pull(name, nothing)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    pull(name, nothing)
    check_whole(root, name)


def test_what_has_come_needs_no_more_room(root, registry, monkeypatch):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
    registry.play["blobs"].extend([lambda answer: answer] * 2 + [status(404)] * 100)
    with pytest.raises(BackendError, match="it lacks"):
        pull(name, nothing)
    registry.play.clear()
    room = shutil.disk_usage(root)._replace(free=len(WEIGHTS) - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    pull(name, nothing)
    check_whole(root, name)


def test_a_cloud_model_is_refused_by_its_config(root, registry):
    name = registry.add("team/tiny:q4", license="L", config={"remote_host": "x"})
    with pytest.raises(CapabilityError, match="was not fetched.*runs on another machine"):
        pull(name, nothing)


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "a/../b:c",
        "x\x1b[2J",
        "n" * 300,
        "https://h/n/m",
        "ftp://h/n/m",
        "a/b/c/d",
        ":",
        "a b",
    ],
)
def test_a_name_that_is_none_asks_nobody(root, name):
    with pytest.raises(UsageError, match="can't be a model's name"):
        pull(name, nothing)
    assert not root.exists()


@pytest.mark.parametrize("host", ["localhost:99999", "a..b", "a:b:c", "-"])
def test_a_host_that_is_none_asks_nobody(root, host):
    with pytest.raises(UsageError):
        pull(f"{host}/n/m", nothing)


def test_where_nobody_listens_it_is_said_at_once(root):
    with pytest.raises(ServerUnreachableError, match="127.0.0.1:1 can't be reached .connection re"):
        pull("127.0.0.1:1/n/m", nothing)
    assert listed(root) == []


def test_where_a_name_is_not_known_the_folder_is_not_blamed(root):
    with pytest.raises(ServerUnreachableError, match="^nosuch.invalid can't be reached"):
        pull("nosuch.invalid/n/m", nothing)


def test_a_redirect_to_a_name_that_is_not_known_names_it(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    registry.always["manifests"] = status(302, Location="https://nosuch.invalid/manifest")
    with pytest.raises(ServerUnreachableError, match="^nosuch.invalid can't be reached"):
        pull(name, nothing)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize(
    "make",
    [make_fifo, Path.mkdir, lambda path: path.symlink_to("/etc/passwd")],
    ids=["fifo", "folder", "link"],
)
@pytest.mark.parametrize("place", [BLOB, f".{BLOB}.part", f".{BLOB}.notes", f".{BLOB}.lock"])
def test_what_stands_in_the_way_is_left_as_it_is(root, registry, make, place):
    (root / "blobs").mkdir(parents=True, mode=0o700)
    path = root / "blobs" / place
    make(path)
    before = os.lstat(path)
    with pytest.raises(FileAccessError):
        pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    assert os.lstat(path).st_ino == before.st_ino and listed(root) == []


def test_nothing_is_written_through_a_hard_link_in_the_place_of_what_has_come(
    root, registry, tmp_path
):
    (root / "blobs").mkdir(parents=True, mode=0o700)
    (tmp_path / "diary").write_bytes(b"Dear diary")
    (root / "blobs" / f".{BLOB}.part").hardlink_to(tmp_path / "diary")
    name = registry.add("team/tiny:q4", WEIGHTS)
    pull(name, nothing)
    check_whole(root, name)
    assert (tmp_path / "diary").read_bytes() == b"Dear diary"


def test_weights_do_not_go_on_in_a_file_that_others_can_write_to(root, registry):
    (root / "blobs").mkdir(parents=True, mode=0o700)
    part = root / "blobs" / f".{BLOB}.part"
    part.write_bytes(WEIGHTS)
    part.chmod(0o666)
    with part.open("r+b") as of_others:
        pull(name := registry.add("team/tiny:q4", WEIGHTS), nothing)
        of_others.write(b"another model")
    check_whole(root, name)


def test_a_shelf_that_leads_elsewhere_is_not_written_to(root, registry, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    root.mkdir(parents=True)
    (root / "blobs").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileAccessError, match="symbolic link"):
        pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_what_the_engine_would_read_wrongly_is_refused_by_its_head(root, registry, monkeypatch):
    monkeypatch.setattr(download, "HEAD_BYTES", 2 * PART)
    monkeypatch.setattr(download, "AT_ONCE", 1)
    monkeypatch.setattr(download, "_END_SECONDS", 30.0)  # nobody waits for the thread so long
    stop, is_stopped, goes_on = Registry.stop, threading.Event(), threading.Event()
    monkeypatch.setattr(Registry, "stop", lambda self: [stop(self), is_stopped.set()])
    look, sent = pulling.check_unmended, []
    monkeypatch.setattr(pulling, "check_unmended", lambda each: [until(later), look(each)])

    def later():
        """Whether more is asked for than the description of the model and its head, in two parts."""
        return len(sent) > 3

    def held(answer):
        """What is later comes to a thread that was told to stop when it waited: its head alone."""
        sent.append(answer)
        if not later():
            return answer
        is_stopped.wait(30)
        return paced(lambda: goes_on.wait(30))(answer)

    begun = time.monotonic()
    weights = tiny_model(general__architecture="gptoss") + WEIGHTS
    name = registry.add("team/tiny:q4", weights, license=None, config={})
    registry.always["blobs"] = held
    with pytest.raises(CapabilityError, match="repairs while it loads it.*hf.co/"):
        pull(name, nothing)
    assert time.monotonic() - begun < 20
    goes_on.set()
    assert listed(root) == [] and len(sent) == 4
    assert [file for file in in_blobs(root) if file.endswith((".part", ".notes"))] == []


def test_a_file_is_judged_once_all_is_there_that_is_read_of_it_for_that():
    assert download.HEAD_BYTES == gguf._WHOLE_BYTES


def test_what_ollama_has_on_this_disk_is_not_fetched_once_more(
    root, registry, tmp_path, monkeypatch
):
    name = registry.add("team/tiny:q4", WEIGHTS)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("ORE_MODEL_DIR", str(tmp_path / "ollama"))
        pull(name, nothing)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    seen = []
    pull(name, lambda *step: seen.append(step[0]))
    assert "already there, in " in seen[-1] and not (root / "blobs").exists()
    registry.add("team/tiny:q4", WEIGHTS, template="newer")
    pull(name, nothing)
    check_whole(root, name)


@pytest.fixture
def ollamas(root, registry, tmp_path, monkeypatch):
    """A folder of Ollama's with the model that is returned beside it."""
    folder, name = tmp_path / "ollama", registry.add("team/tiny:q4", WEIGHTS)
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("ORE_MODEL_DIR", str(folder))
        pull(name, nothing)
        pull(registry.add("team/other:q4", WEIGHTS, template="newer"), nothing)
    monkeypatch.setenv("OLLAMA_MODELS", str(folder))
    return folder, name


def test_what_ollama_has_in_part_is_fetched(root, ollamas):
    folder, name = ollamas
    (folder / "blobs" / digest_of(LICENSE.encode()).replace(":", "-")).unlink()
    pull(name, nothing)
    check_whole(root, name)


def test_what_ollama_has_and_this_user_may_not_read_is_fetched(root, ollamas, monkeypatch):
    def refused(model):
        raise FileAccessError(f"{model.path} can't be read: permission denied.")

    monkeypatch.setattr(pulling, "check_unmended", refused)
    pull(ollamas[1], nothing)
    check_whole(root, ollamas[1])


def test_what_ollama_has_under_another_name_is_not_the_newer_model(root, registry, ollamas):
    registry.add("team/tiny:q4", WEIGHTS, template="newer")
    pull(ollamas[1], nothing)
    check_whole(root, ollamas[1])


def test_a_model_of_one_s_own_that_is_older_than_ollama_s_is_updated(root, registry, ollamas):
    folder, name = ollamas
    registry.add("team/tiny:q4", b"GGUF older")
    pull(name, nothing)
    registry.add("team/tiny:q4", WEIGHTS)
    pull(name, nothing)
    check_whole(root, name)


@pytest.mark.parametrize(
    "models, layers, said",
    [
        ((tiny_model(),), {"adapter": b"x"}, "it has an adapter"),
        ((), {"tensor": b"x"}, "single tensors"),
        ((tiny_model(general__architecture="gptoss"),), {}, "Ollama repairs while it loads it"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_ollama_has_and_the_engine_can_t_run_is_not_called_there(
    root, registry, tmp_path, monkeypatch, models, layers, said
):
    name = registry.add("team/tiny:q4", *models, **layers)
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    put_manifest(tmp_path / "ollama", name, registry.manifests["team/tiny:q4"])
    for blob in registry.blobs.values():
        put_blob(tmp_path / "ollama", blob)
    seen = []
    with pytest.raises(CapabilityError, match=said):
        pull(name, lambda *step: seen.append(step[0]))
    assert seen == ["asking the registry"] and listed(root) == []


def test_a_newer_model_takes_the_room_of_the_one_before_but_for_what_others_name(root, registry):
    pull(registry.add("team/other:q4", WEIGHTS, params={"num_ctx": 1}), nothing)
    name = registry.add("team/tiny:q4", WEIGHTS, params={"num_ctx": 2}, template="old")
    pull(name, nothing)
    newer = b"GGUF newer"
    pull(registry.add("team/tiny:q4", newer, params={"num_ctx": 1}, template="new"), nothing)
    shelf = shelf_of(root)
    manifests = [shelf.manifest(found) for found in shelf.names()]
    assert all(shelf.is_whole(manifest) for manifest in manifests) and len(manifests) == 2
    named = {shelf.blob_path(layer).name for each in manifests for layer in each.needed()}
    assert set(in_blobs(root)) == named and BLOB in named
    pull(registry.add("team/other:q4", newer, params={"num_ctx": 1}), nothing)
    assert BLOB not in in_blobs(root)


def test_an_interrupt_as_a_newer_model_takes_its_place_leaves_none_of_the_one_before(
    root, registry, monkeypatch
):
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    free = freeing.free

    def interrupted(*given):
        signal.raise_signal(signal.SIGINT)
        return free(*given)

    monkeypatch.setattr(pulling, "free", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pull(registry.add("team/tiny:q4", b"GGUF newer"), nothing)
    assert BLOB not in in_blobs(root) and len(listed(root)) == 1


def test_a_model_that_is_there_in_another_case_is_updated_and_not_hidden_behind_it(root, registry):
    pull(registry.add("Team/Tiny:Q4", WEIGHTS), nothing)
    newer = tiny_model()
    pull(registry.add("team/tiny:q4", newer), nothing)
    shelf = shelf_of(root)
    (name,) = shelf.every()
    assert shelf.weights(name).read_bytes() == newer and BLOB not in in_blobs(root)
    assert str(name).endswith("/Team/Tiny:Q4")


def test_where_a_manifest_can_t_be_read_no_room_is_made(root, registry):
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    (root / "manifests" / "h" / "n" / "m").mkdir(parents=True)
    (root / "manifests" / "h" / "n" / "m" / "t").write_text("{")
    pull(registry.add("team/tiny:q4", b"GGUF newer"), nothing)
    assert BLOB in in_blobs(root)


@pytest.mark.slow
def test_of_two_pulls_at_once_one_waits_and_finds_it_there(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None)
    goes_on, waits = threading.Event(), threading.Event()
    slow = paced(lambda: goes_on.wait(60))
    registry.always["blobs"] = lambda answer: slow(answer) if answer.status == 206 else answer
    seen: list[str] = []

    def second_progress(step: str, *_: object) -> None:
        seen.append(step)
        if "waiting" in step:
            waits.set()
            goes_on.set()

    def first_progress(step: str, *_: object) -> None:
        if step == "downloading" and not begun.is_set():
            begun.set()

    begun = threading.Event()
    first = threading.Thread(target=pull, args=(name, first_progress))
    first.start()
    assert begun.wait(60)
    pull(name, second_progress)
    first.join(60)
    assert waits.is_set() and seen[-1] == "already there"
    ranges = [seen.headers["range"] for seen in registry.asked if "range" in seen.headers]
    assert len(ranges) == len(set(ranges)) == 11
    check_whole(root, name)


def test_a_file_that_another_pull_removes_meanwhile_is_no_trouble(root):
    class Removed(Folder):
        def has(self, name: str) -> bool:
            return True  # it was there, a moment ago

    with Removed(root / "blobs", make=True) as blobs:
        pulling._check_place(blobs, ".sha256-1.lock", Shelf(root))


@pytest.mark.slow
def test_many_pulls_of_models_that_share_layers_are_all_whole(root, registry):
    names = [registry.add(f"team/tiny{n}:q4", WEIGHTS[: PART + n]) for n in range(4)] * 2
    failed = []

    def one(name: str) -> None:
        try:
            pull(name, nothing)
        except OreError as exc:
            failed.append(str(exc))

    threads = [threading.Thread(target=one, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    shelf = shelf_of(root)
    assert failed == [] and sorted(listed(root)) == sorted(set(names))
    assert all(shelf.is_whole(shelf.manifest(name)) for name in shelf.names())
    assert [file for file in in_blobs(root) if file.startswith(".")] == []


def test_what_several_pulls_hold_to_their_end_they_take_in_one_order(root, registry, monkeypatch):
    texts, taken = [f"licence {number}" for number in range(8)], list[str]()
    monkeypatch.setattr(
        pulling, "try_lock", lambda folder, name: [taken.append(name), try_lock(folder, name)][1]
    )
    layers = [registry.layer("license", text.encode()) for text in texts]
    weights = registry.layer("model", WEIGHTS)
    pull(registry.add_manifest("team/tiny:q4", {"layers": [*layers, weights]}), nothing)
    assert taken[-8:] == sorted(taken[-8:]) and len({*taken[-8:]}) == 8 and BLOB in taken[-9]


def test_a_layer_that_is_the_weights_themselves_is_fetched_once(root, registry):
    """A hostile manifest must not make a pull wait for itself."""
    tiny = b"GGUF"
    pull(registry.add("team/tiny:q4", tiny, license=tiny, template=tiny), nothing)
    assert len(listed(root)) == 1


def test_what_was_begun_and_left_for_a_week_is_removed(root, registry):
    (root / "blobs").mkdir(parents=True, mode=0o700)
    old, new = (root / "blobs" / f".sha256-{letter * 64}" for letter in "ab")
    for stem in (old, new):
        for ending in (".part", ".notes"):
            Path(f"{stem}{ending}").write_bytes(b"x")
    for ending in (".part", ".notes"):
        os.utime(f"{old}{ending}", (1, 1))
        os.utime(f"{new}{ending}", (time.time() - 6 * 24 * 3600,) * 2)
    pull(registry.add("team/tiny:q4", WEIGHTS), nothing)
    left = [name for name in in_blobs(root) if name.startswith(".")]
    assert left == [f"{new.name}.notes", f"{new.name}.part"]


def test_what_was_begun_a_week_ago_and_is_still_at_work_stays(root):
    with Folder(root / "blobs", make=True) as blobs:
        stem = f".sha256-{'a' * 64}"
        for ending in (".part", ".notes"):
            (root / "blobs" / f"{stem}{ending}").write_bytes(b"x")
            os.utime(root / "blobs" / f"{stem}{ending}", (1, 1))
        lock = try_lock(blobs, f"{stem}.lock")
        freeing.sweep(blobs)
        assert in_blobs(root) == [f"{stem}{ending}" for ending in (".lock", ".notes", ".part")]
        lock.remove(blobs)
        freeing.sweep(blobs)
        assert in_blobs(root) == []


def test_no_more_room_is_taken_than_the_file_and_a_twentieth(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS, license=None, config={})
    most = 0

    def look(*_: object) -> None:
        nonlocal most
        files = [path for path in root.rglob("*") if path.is_file()]
        most = max(most, sum(path.stat().st_size for path in files))

    pull(name, look)
    assert len(WEIGHTS) < most <= len(WEIGHTS) * 1.05


def test_notes_that_are_damaged_or_of_another_size_cost_no_more_than_time(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    (root / "blobs").mkdir(parents=True, mode=0o700)
    for size in (3 * PART, len(WEIGHTS)):
        part = WEIGHTS[: 3 * PART].ljust(size, b"\0")
        (root / "blobs" / f".{BLOB}.part").write_bytes(part)
        notes = b"5 9999999999\n99999 196608\nx y\n-1 4\n0 99999\n7 3\n0 6000000\n12 "
        (root / "blobs" / f".{BLOB}.notes").write_bytes(notes)
        pull(name, nothing)
        check_whole(root, name)
        (root / "blobs" / BLOB).unlink()


def test_notes_that_lie_are_found_by_the_hash(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS)
    (root / "blobs").mkdir(parents=True, mode=0o700)
    (root / "blobs" / f".{BLOB}.part").write_bytes(bytes(len(WEIGHTS)))
    (root / "blobs" / f".{BLOB}.notes").write_bytes(b"0 %d\n" % PART)
    with pytest.raises(
        BackendError, match=f"begun earlier .* {WRONG}.*, which begins anew"
    ) as caught:
        pull(name, nothing)
    assert registry.host not in str(caught.value)  # the disk may have lost it
    registry.always["blobs"] = lambda answer: wrong(answer) if len(answer.body) == PART else answer
    with pytest.raises(BackendError, match=f"came from {registry.host} {WRONG}"):
        pull(name, nothing)
    registry.always.clear()
    pull(name, nothing)
    check_whole(root, name)


def test_without_a_thread_it_comes_all_the_same(root, registry, monkeypatch):
    def refused(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    name = registry.add("team/tiny:q4", WEIGHTS)
    pull_thread = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread,
        "start",
        lambda each: refused() if "_work" in repr(each._target) else pull_thread(each),
    )
    pull(name, nothing)
    check_whole(root, name)


def test_the_licence_is_that_of_the_shelf(root, registry):
    name = registry.add("team/tiny:q4", WEIGHTS, params={"stop": []})
    backend = EmbeddedBackend()
    backend.pull(name, nothing)
    assert backend.licenses(name) == [LICENSE]
    with pytest.raises(ModelNotFoundError):
        backend.licenses("nobody/has:this")
    assert as_bytes(LICENSE) in registry.blobs.values() and weights.models_folder() == root


def test_no_model_is_fetched_that_a_file_of_one_s_own_goes_before(root, registry):
    root.mkdir(parents=True)
    (root / "tiny.gguf").write_bytes(WEIGHTS)
    with pytest.raises(
        FileAccessError, match="tiny.gguf is a file of yours that is also called tiny"
    ):
        EmbeddedBackend().pull("tiny", nothing)
    assert [path.name for path in root.iterdir()] == ["tiny.gguf"]


@pytest.mark.slow
def test_an_interrupt_waits_once_for_all_threads_that_a_server_lets_wait(root, registry):
    name, waiting, gate = registry.add("team/tiny:q4", WEIGHTS), list[int](), threading.Event()
    interrupted = list[float]()

    def silent(answer):
        if answer.status == 206 and not answer.headers["Content-Range"].startswith("bytes 0-"):
            waiting.append(1)
            gate.wait(PATIENCE)
        return answer

    def progress(*_):
        if len(waiting) == download.AT_ONCE:
            interrupted.append(time.monotonic())
            raise KeyboardInterrupt

    registry.always["blobs"] = silent
    try:
        with pytest.raises(KeyboardInterrupt):
            pull(name, progress)
        assert time.monotonic() - interrupted[0] < 2 * download._END_SECONDS
    finally:
        gate.set()


@pytest.mark.slow
def test_a_manifest_with_more_layers_than_files_may_be_open_is_not_blamed_on_the_folder(
    root, registry
):
    layers = [f"licence {number}" for number in range(40)]
    name = registry.add("team/tiny:q4", WEIGHTS, license=None)
    manifest = json.loads(registry.manifests["team/tiny:q4"])
    manifest["layers"] += [registry.layer("license", text.encode()) for text in layers]
    registry.add_manifest("team/tiny:q4", manifest)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(descriptor)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptor + 30, before[1]))
    try:
        with pytest.raises(BackendError, match="may open no more files; raise the limit"):
            pull(name, nothing)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    pull(name, nothing)
    assert (root / "blobs" / BLOB).read_bytes() == WEIGHTS


def test_a_folder_that_can_t_be_made_for_a_manifest_is_said_before_the_weights_come(root, registry):
    name = parse_name(registry.add("team/tiny:q4", WEIGHTS))
    (folder := Shelf(root).manifest_path(name).parents[1]).parent.mkdir(parents=True)
    folder.write_text("in the way")
    with pytest.raises(FileAccessError, match="can't be written to .*: check the folder"):
        pull(str(name), nothing)
    assert not any(DIGEST in asked.path for asked in registry.asked)
