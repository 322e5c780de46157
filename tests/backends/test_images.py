"""Images: checked before the call, sent with the prompt, kept as hashes only."""

from __future__ import annotations

import base64
import hashlib
import os

import pytest

from ore.backends.choice import open_backend
from ore.backends.images import MOST_IMAGE_BYTES, media_type
from ore.errors import UsageError
from tests.support.fake_ollama import FakeOllama
from tests.support.harness import run_ore

PNG = b"\x89PNG\r\n\x1a\n...."
JPEG = b"\xff\xd8\xff\xe0...."
WEBP = b"RIFF....WEBPVP8 "


@pytest.fixture
def png(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    return str(path)


@pytest.mark.parametrize(
    "data, kind", [(PNG, "image/png"), (JPEG, "image/jpeg"), (WEBP, "image/webp")]
)
def test_the_bytes_tell_the_kind(data, kind):
    assert media_type(data) == kind


@pytest.mark.parametrize(
    "data", [b"RIFF\x24\0\0\0WAVEfmt ", b"GIF89a", b"BM", b"<svg/>", b"\x89PNG"]
)
def test_what_is_none_of_the_three_kinds_is_refused(data):
    with pytest.raises(UsageError, match="is not an image that models read"):
        media_type(data)


def seen(*args: str, capabilities=("completion", "vision")):
    with FakeOllama(capabilities=capabilities) as fake:
        return run_ore(*args, "--host", fake.url, open_backend=open_backend), fake


def test_images_are_sent_and_their_hashes_kept(png, tmp_path, home):
    second = tmp_path / "b"
    second.write_bytes(WEBP)
    result, fake = seen("hi", "--image", png, "--image", str(second), "-j", "--session", "trip")
    assert result.code == 0
    sent = fake.chats[0].json["messages"][-1]
    assert [base64.b64decode(image) for image in sent["images"]] == [PNG, WEBP]
    hashes = [hashlib.sha256(data).hexdigest() for data in (PNG, WEBP)]
    assert result.json["metadata"]["images"] == hashes
    saved = (home / ".ore/sessions/trip.json").read_text()
    assert "images" not in saved and base64.b64encode(PNG).decode() not in saved


def test_a_conversation_goes_on_without_the_image_of_an_earlier_run(png):
    seen("look", "--image", png, "--session", "trip")
    result, fake = seen("and now?", "--session", "trip")
    assert result.code == 0
    assert all("images" not in message for message in fake.chats[0].json["messages"])


def test_a_model_that_can_not_look_is_told_before_the_call(png):
    result, fake = seen("hi", "--image", png, capabilities=("completion",))
    assert (result.code, fake.chats) == (1, [])
    assert "can't look at images: leave --image out" in result.err


@pytest.mark.parametrize(
    "name, code, words",
    [
        ("missing.png", 1, "can't be read"),
        ("text.png", 2, "is not an image that models read: give a PNG, JPEG or WebP."),
        ("empty.png", 2, "is not an image"),
        ("huge.png", 1, "larger than"),
        ("fifo.png", 1, "not a regular file"),
    ],
)
def test_a_file_that_is_not_an_image_is_refused_before_anything_is_sent(
    ore, tmp_path, name, code, words
):
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "empty.png").write_bytes(b"")
    with open(tmp_path / "huge.png", "wb") as file:
        file.write(PNG)
        file.truncate(MOST_IMAGE_BYTES + 1)
    os.mkfifo(tmp_path / "fifo.png")
    result = ore("hi", "--image", str(tmp_path / name))
    assert (result.code, result.calls) == (code, []) and words in result.err


def test_an_image_is_for_one_turn(ore, png):
    assert ore("-c", "--image", png).code == 2
