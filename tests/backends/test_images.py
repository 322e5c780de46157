"""Images: checked before the call, sent with the prompt, kept as hashes only."""

from __future__ import annotations

import base64
import hashlib
import os

import pytest

from ore.backends.choice import open_backend
from ore.backends.images import MOST_IMAGE_BYTES, fewest_tokens, media_type
from ore.errors import UsageError
from ore.types import Message
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


HEADS = [
    "89504e470d0a1a0a0000000d494844520000012c000000c8",
    "ffd8ffe000104a46494600010100000100010000ffc000110800c8012c0301",
    "52494646a600000057454250565038209a0000007010009d012a2c01c800",
    "5249464622000000574542505650384c160000002f2bc131000710",
    "52494646c400000057454250565038580a000000080000002b0100c70000",
]
"""Of images of 300 by 200 pixels: PNG, JPEG, and the three kinds of WebP."""


@pytest.mark.parametrize("head", HEADS)
def test_how_few_tokens_an_image_has_is_told_by_its_size(head):
    data = bytes.fromhex(head)
    cut = tuple(data[:length] for length in range(len(data) - 2))
    for images, tokens in (((data,), 300 * 200 // 2048), ((data, data), 58), ((JPEG,), 0)):
        assert fewest_tokens([Message("user", "What?", images=images)], "m") == tokens
    assert fewest_tokens([Message("user", "What?", images=cut)], "m") < 300 * 200 // 2048 * len(cut)


def test_the_head_of_a_hostile_image_is_looked_at_for_a_moment():
    endless = b"\xff\xd8" + b"\xff\xff\0\0" * 5_000_000
    assert fewest_tokens([Message("user", "What?", images=(endless,))], "m") == 0


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
