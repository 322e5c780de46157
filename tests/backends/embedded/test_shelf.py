"""What stands on a shelf in Ollama's layout, and what is said of what can't be used."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from ore.backends import local_models, shelf_care
from ore.backends.manifest import MANIFEST_BYTES, parse_manifest
from ore.backends.model_names import parse_name
from ore.backends.shelf import Shelf, shelves
from ore.errors import CapabilityError, FileAccessError, HomeError, OreError
from tests.support.shelves import put_blob, put_manifest, put_model

GGUF = b"GGUF" + bytes(60)
NAME = parse_name("tiny")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def root(tmp_path) -> Path:
    return tmp_path / "models"


def manifest_of(*layers, **more) -> bytes:
    return json.dumps({"schemaVersion": 2, "layers": list(layers), **more}).encode()


def layer(**changes):
    return {
        "mediaType": "application/vnd.ollama.image.model",
        "digest": DIGEST,
        "size": 1,
    } | changes


def test_a_shelf_lists_names_in_order_and_passes_over_what_is_none(root):
    for name in ("zoo", "hf.co/U/R:Q4_K_M", "me/mine", "llama3.2", "llama3.2:1b"):
        put_model(root, name, GGUF)
    (root / "manifests/registry.ollama.ai/library/zoo/.hidden").write_text("{}")
    (root / "manifests/registry.ollama.ai/library/zoo/a b").write_text("{}")
    (root / "manifests/notes").write_text("x")
    os.symlink(root / "manifests/hf.co", root / "manifests/elsewhere")
    os.mkfifo(root / "manifests/registry.ollama.ai/library/zoo/fifo")
    names = [str(name) for name in Shelf(root).names()]
    assert names == ["hf.co/U/R:Q4_K_M", "llama3.2", "llama3.2:1b", "me/mine", "zoo"]


@pytest.mark.slow
def test_a_shelf_lists_all_of_its_models_however_many_there_are(root):
    first = put_manifest(root, "m:t0", b"{}")
    for number in range(1, 10_001):
        first.with_name(f"t{number}").touch()
    assert len(Shelf(root).names()) == 10_001


@pytest.fixture
def closed(root, monkeypatch) -> Path:
    """A folder of a shelf that this user may not list, with a model, which shares its blobs with ``tiny``."""
    for name in ("tiny", "me/closed"):
        put_model(root, name, GGUF)
    folder, scandir = root / "manifests/registry.ollama.ai/me", os.scandir

    def refuse(path):
        if str(path) == str(folder):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setenv("ORE_MODEL_DIR", str(root))
    return folder


def test_a_folder_that_may_not_be_listed_hides_no_other(root, closed):
    assert Shelf(root).names() == [NAME] and not Shelf(root).is_empty()
    assert local_models.names() == ["tiny"]


def test_no_model_is_removed_or_called_whole_while_a_folder_may_not_be_listed(root, closed):
    with pytest.raises(FileAccessError, match=rf"{closed} can't be listed: permission denied"):
        shelf_care.remove("tiny")
    with pytest.raises(FileAccessError, match=rf"{closed} can't be listed: permission denied"):
        list(shelf_care.check_models(lambda *_: None))
    assert Shelf(root).is_whole(Shelf(root).manifest(NAME))


def test_a_blob_is_read_once_however_many_models_and_layers_name_it(root, monkeypatch):
    monkeypatch.setenv("ORE_MODEL_DIR", str(root))
    put_model(root, "one", GGUF)
    manifest = json.loads(Shelf(root).manifest_path(parse_name("one")).read_bytes())
    put_manifest(root, "two", json.dumps(manifest | {"layers": manifest["layers"] * 100}).encode())
    told = []
    found = list(shelf_care.check_models(lambda *each: told.append(each)))
    assert [(each.name, each.problem) for each in found] == [("one", None), ("two", None)]
    assert [done for _, done, size in told if size] == [0, len(GGUF)]


def test_a_shelf_is_empty_that_has_no_name_whatever_else_is_there(root):
    assert Shelf(root).is_empty()
    path = put_manifest(root, "tiny", b"{}")
    assert not Shelf(root).is_empty()
    path.rename(path.with_name(".hidden"))
    assert Shelf(root).is_empty()


def test_a_model_is_found_whatever_its_case_and_its_layers_are_read(root):
    put_model(root, "Mine:Big", GGUF, params={"stop": ["x"]}, license=["A\n", "B"], system="Hi.")
    shelf = Shelf(root)
    name = shelf.find("mine:BIG")
    assert name is not None and str(name) == "Mine:Big"
    manifest = shelf.manifest(name)
    assert shelf.weights(name).read_bytes() == GGUF
    assert shelf.is_whole(manifest)
    assert shelf.parameters(name, manifest) == {"stop": ["x"]}
    assert shelf.texts(name, manifest, "license") == ["A\n", "B"]
    assert shelf.texts(name, manifest, "system") == ["Hi."]
    assert shelf.config(name, manifest)["model_type"] == "134.52M"
    assert shelf.find("mine") is None and shelf.find("../mine") is None


def test_without_a_folder_there_is_nothing(root):
    assert Shelf(root).names() == [] and Shelf(root).find("tiny") is None


MANY = [layer(mediaType="application/vnd.ollama.image.license")] * 10_000


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"[]", "schemaVersion"),
        (b'{"schemaVersion": 1, "layers": []}', "schemaVersion"),
        (manifest_of(), "no layers"),
        (manifest_of(7), "layer 1 is not an object"),
        (manifest_of(layer(size=-1)), "no size"),
        (manifest_of(layer(size=1.5)), "no size"),
        (manifest_of(layer(size=True)), "no size"),
        (manifest_of(layer(size=2**50)), "no size"),  # whose parts alone would take gigabytes
        (manifest_of(layer(size=2**63)), "no size"),
        (manifest_of(layer(digest="sha256:../../../etc/passwd")), "no SHA-256"),
        (manifest_of(layer(digest=DIGEST + "\n")), "no SHA-256"),
        (manifest_of(layer(digest="md5:" + "0" * 32)), "no SHA-256"),
        (manifest_of(layer(mediaType="\x1b[2J")), "no media type"),
        (manifest_of(layer(), config=7), "config is not an object"),
        (manifest_of(*MANY), "10,000 layers"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"schemaVersion": 2, "schemaVersion": 2}', "twice"),
        (b" " * (MANIFEST_BYTES + 1), "larger than"),
    ],
)
def test_what_is_no_manifest_is_said_in_one_sentence(root, data, why):
    path = put_manifest(root, "tiny", data)
    with pytest.raises(FileAccessError, match=why) as caught:
        Shelf(root).manifest(NAME)
    assert str(path) in str(caught.value) and str(caught.value).isprintable()
    assert str(caught.value).endswith("; fetch it again with ollama pull tiny.")


@pytest.mark.parametrize("kind", ["template", "license", "params"])
def test_one_text_is_read_as_often_as_a_manifest_names_it_and_not_without_end(root, kind):
    put_model(root, "tiny", GGUF, **{kind: ["{}"] * 64})
    manifest = Shelf(root).manifest(NAME)
    assert Shelf(root).texts(NAME, manifest, kind) == ["{}"] * 64
    put_model(root, "tiny", GGUF, **{kind: ["{}"] * 65})
    with pytest.raises(FileAccessError, match=f"65 layers of the kind {kind}"):
        Shelf(root).manifest(NAME)


def test_an_empty_config_is_none():
    assert parse_manifest(manifest_of(layer(), config={"digest": ""})).config is None


@pytest.mark.parametrize(
    "models, layers, why",
    [
        ([GGUF], {"adapter": GGUF}, "adapter"),
        ([], {"tensor": [b"1", b"2"]}, "safetensors"),
        ([GGUF, GGUF + b"2"], {}, "2 parts"),
    ],
)
def test_what_the_engine_can_t_run_is_refused_in_one_sentence(root, models, layers, why):
    put_model(root, "tiny", *models, **layers)
    with pytest.raises(CapabilityError, match=f"tiny can't be run by the embedded engine.*{why}"):
        Shelf(root).weights(NAME)


def test_a_model_of_ollama_s_cloud_and_one_without_weights_are_told_apart(root):
    put_model(root, "tiny", license="free", config={"remote_host": "https://example.com"})
    with pytest.raises(CapabilityError, match="cloud"):
        Shelf(root).weights(NAME)
    put_model(root, "tiny", license="free")
    with pytest.raises(CapabilityError, match="names no weights; name another model"):
        Shelf(root).weights(NAME)


def _missing(path):
    path.unlink()


def _short(path):
    path.write_bytes(b"GGUF")


def _folder(path):
    path.unlink()
    path.mkdir()


def _fifo(path):
    path.unlink()
    os.mkfifo(path)


def _link(path):
    path.rename(path.parent / "elsewhere")
    path.symlink_to(path.parent / "elsewhere")


def _linked_folder(path):
    path.parent.rename(path.parents[1] / "moved")
    path.parent.symlink_to(path.parents[1] / "moved")


@pytest.mark.parametrize(
    "damage, why",
    [
        (_missing, "it is not there"),
        (_short, "it has 4 bytes, and its manifest says 64"),
        (_folder, "not a regular file; move it away; fetch it again"),
        (_fifo, "not a regular file; move it away; fetch it again"),
        (
            _link,
            "a link, which ORE does not follow; put its target there, or move it away; fetch it",
        ),
    ],
)
@pytest.mark.parametrize(
    "is_own, again", [(True, r"`EmbeddedBackend.pull\('tiny'\)`"), (False, "ollama pull tiny")]
)
def test_weights_that_are_not_as_they_must_be_are_said_in_one_sentence(
    root, damage, why, is_own, again
):
    put_model(root, "tiny", GGUF)
    shelf = Shelf(root, is_own)
    damage(shelf.weights(NAME))
    with pytest.raises(FileAccessError, match=f"The weights of tiny, .*{why}.*{again}"):
        shelf.weights(NAME)


def test_what_fetching_does_not_help_is_not_to_be_fetched_again(root, monkeypatch):
    put_model(root, "tiny", GGUF)
    shelf, failing = Shelf(root), OSError(errno.EACCES, "Permission denied")
    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", Mock(side_effect=failing))
        with pytest.raises(FileAccessError, match=r"can't be used: permission denied\.$"):
            shelf.weights(NAME)
    _linked_folder(shelf.weights(NAME))
    with pytest.raises(FileAccessError, match=r"blobs is a symbolic link, .* in its place\.$"):
        shelf.weights(NAME)


def test_a_layer_that_is_a_link_or_too_large_or_no_json_is_said(root):
    put_model(root, "tiny", GGUF, params="[1]", license="x" * (1 << 21))
    shelf = Shelf(root)
    manifest = shelf.manifest(NAME)
    with pytest.raises(FileAccessError, match="parameters of tiny.*not a JSON object"):
        shelf.parameters(NAME, manifest)
    with pytest.raises(FileAccessError, match="larger than"):
        shelf.texts(NAME, manifest, "license")
    path = shelf.blob_path(manifest.of_kind("params")[0])
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(
        FileAccessError, match="link, which ORE does not follow; put what it leads to in its place"
    ):
        shelf.parameters(NAME, manifest)
    assert not shelf.is_whole(manifest)


def test_manifests_behind_links_are_not_read(root, tmp_path):
    put_model(tmp_path / "other", "tiny", GGUF)
    root.mkdir()
    (root / "manifests").symlink_to(tmp_path / "other/manifests")
    with pytest.raises(FileAccessError, match="symbolic link"):
        Shelf(root).names()
    with pytest.raises(FileAccessError, match="symbolic link"):
        Shelf(root).manifest(NAME)


def test_the_shelves_are_ore_s_own_then_ollama_s(tmp_path):
    own, ollama, service = tmp_path / "own", tmp_path / ".ollama/models", tmp_path / "service"
    put_model(service, "tiny", GGUF)

    def roots(**environ):
        found = shelves(own, environ, service)
        return [(shelf.root, shelf.is_own) for shelf in found]

    assert roots(HOME=str(tmp_path)) == [(own, True), (service, False)]
    put_model(ollama, "tiny", GGUF)
    assert roots(HOME=str(tmp_path)) == [(own, True), (ollama, False), (service, False)]
    named = str(tmp_path / "named")
    assert roots(HOME=str(tmp_path), OLLAMA_MODELS=f' "{named}" ')[1] == (Path(named), False)
    assert roots(OLLAMA_MODELS=str(service)) == [(own, True), (service, False)]
    assert roots(OLLAMA_MODELS=str(own)) == [(own, True), (service, False)]
    with pytest.raises(HomeError, match="OLLAMA_MODELS is 'models'"):
        roots(OLLAMA_MODELS="models")


@pytest.mark.invariant
def test_reading_a_shelf_writes_nothing(root):
    put_model(root, "tiny", GGUF, params={"top_k": 1})
    put_blob(root, b"orphan")

    def seen():
        return {path: path.stat().st_mtime_ns for path in sorted(root.rglob("*"))}

    before, shelf = seen(), Shelf(root, is_own=True)
    for name in shelf.names():
        manifest = shelf.manifest(name)
        shelf.weights(name, manifest)
        shelf.parameters(name, manifest)
    for wrong in ("nothing", "tiny:other"):
        with pytest.raises(OreError):
            shelf.manifest(parse_name(wrong))
    assert seen() == before
