"""A skill's resources: text inside its folder, and nothing that lies outside it."""

from __future__ import annotations

import os

import pytest

from ore.errors import InvalidSkillError, SkillResourceNotFoundError
from ore.skills import MAX_RESOURCE_BYTES, load_skill_resource
from tests.support.skill_files import write_skill


@pytest.mark.parametrize("ref", ["references/a.md", "./references//a.md", "LICENSE.txt"])
def test_level_3_is_the_text_of_a_file_in_the_folder(tmp_path, ref):
    folder = write_skill(
        tmp_path, references__a_md=b"\xef\xbb\xbfA\r\n\xc3\xa4 ", LICENSE_txt="A\nä "
    )
    assert load_skill_resource(folder, ref) == "A\nä "


@pytest.mark.invariant
@pytest.mark.parametrize(
    "ref",
    ["../secret", "references/../../secret", "/etc/hostname", "", ".", "..", "references/.."]
    + ["linked.md", "linked/a.md", "references/up/secret", "references/loop"],
)
def test_nothing_outside_the_skills_folder_is_reached(tmp_path, ref):
    (tmp_path / "secret").write_text("secret")
    folder = write_skill(tmp_path, references__a_md="A")
    (folder / "linked.md").symlink_to("references/a.md")
    (folder / "linked").symlink_to("references")
    (folder / "references" / "up").symlink_to(tmp_path)
    (folder / "references" / "loop").symlink_to("loop")
    with pytest.raises(InvalidSkillError) as caught:
        load_skill_resource(folder, ref)
    assert str(caught.value).startswith(
        f"Path traversal blocked: '{ref}' in the skill folder 'pdf' "
    )


@pytest.mark.parametrize("ref", ["references/b.md", "nowhere/a.md", "references/A.md\n"])
def test_a_resource_that_is_missing_is_named(tmp_path, ref):
    folder = write_skill(tmp_path, references__a_md="A")
    with pytest.raises(SkillResourceNotFoundError) as caught:
        load_skill_resource(folder, ref)
    shown = ref.replace("\n", "^J")
    assert str(caught.value) == (
        f"Resource not found: '{shown}' in the skill folder 'pdf' is not there; check the path."
    )
    assert isinstance(caught.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        ("references", "regular file."),
        ("references/fifo", "regular file."),
        ("references/a.md/b", "not a directory"),
        ("references/latin.md", "is not UTF-8 at byte 4"),
        ("references/image.png", "NUL at byte 3"),
        ("references/large.md", "it is larger than 262,144 bytes"),
        ("references/a\0.md", "no file can have that name"),
        ("references/" + "a" * 280, "file name too long"),
    ],
)
def test_a_resource_that_is_not_a_small_text_is_refused(tmp_path, ref, problem):
    folder = write_skill(
        tmp_path,
        references__a_md="A",
        references__latin_md=b"\xef\xbb\xbfa\xe4",
        references__image_png=b"PNG\0",
        references__large_md="x" * (MAX_RESOURCE_BYTES + 1),
        references__full_md="x" * MAX_RESOURCE_BYTES,
    )
    os.mkfifo(folder / "references" / "fifo")
    assert len(load_skill_resource(folder, "references/full.md")) == MAX_RESOURCE_BYTES
    with pytest.raises(InvalidSkillError) as caught:
        load_skill_resource(folder, ref)
    assert ref.replace("\0", "\\x00") in str(caught.value) and problem in str(caught.value)
    assert str(caught.value).isprintable() and caught.value.name == "pdf"


def test_a_resource_with_a_name_of_any_length_is_named_in_short(tmp_path):
    folder = write_skill(tmp_path, references__a_md="A")
    with pytest.raises(
        InvalidSkillError, match="a…' in the skill folder 'pdf' can't be read: file name too long"
    ) as caught:
        load_skill_resource(folder, "references/" + "a" * 100_000)
    assert len(str(caught.value)) < 500
