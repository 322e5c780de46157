"""One skill's three levels: what is read, what is refused, and that nothing outside is reached."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ore.errors import InvalidSkillError
from ore.skills import (
    MAX_SKILL_BYTES,
    load_skill_frontmatter,
    load_skill_instructions,
    load_skill_metadata,
    load_skill_resource,
)
from ore.types import SkillMetadata
from tests.support.skill_files import write_skill

LEVELS = [load_skill_metadata, load_skill_frontmatter, load_skill_instructions]
MINIMUM = "name: pdf\ndescription: d"


def test_level_1_is_the_name_the_description_and_the_hints(tmp_path):
    folder = write_skill(tmp_path, frontmatter=MINIMUM + "\nhints: [read pdf, merge]")
    lines: list[str] = []
    skill = load_skill_metadata(folder, lines.append)
    assert skill == SkillMetadata("pdf", "d", ("read pdf", "merge"), folder)
    assert load_skill_metadata(str(folder)) == skill
    assert lines == []


def test_every_field_is_kept_and_none_grants_anything(tmp_path):
    fields = (
        "license: Proprietary. See LICENSE.txt\ncompatibility: Needs git\n"
        "metadata:\n  author: me\n  version: '1.0'\nallowed-tools: Bash(git:*) Read\nunknown: [1]"
    )
    folder = write_skill(tmp_path, frontmatter=f"{MINIMUM}\n{fields}")
    assert load_skill_frontmatter(folder) == {
        "name": "pdf",
        "description": "d",
        "license": "Proprietary. See LICENSE.txt",
        "compatibility": "Needs git",
        "metadata": {"author": "me", "version": "1.0"},
        "allowed-tools": "Bash(git:*) Read",
        "unknown": [1],
    }
    assert load_skill_metadata(folder) == SkillMetadata("pdf", "d", ("pdf",), folder)


@pytest.mark.parametrize(
    ("name", "fields", "hints"),
    [
        ("pdf-tools", "", ("pdf tools",)),
        ("one_health  Analysis", "", ("one health Analysis",)),
        ("café-2", "", ("café 2",)),
        ("'!!!'", "", ()),
        ("pdf", "hints: [b, a, b, ' ', 'two  words ']", ("b", "a", "two words")),
        ("pdf", "hints: one, two words ,", ("one", "two words")),
        ("pdf", "metadata: {hints: 'one, two words'}", ("one", "two words")),
        ("pdf", "metadata: {hints: [one, two]}", ("one", "two")),
        ("pdf", "hints: [a]\nmetadata: {hints: b}", ("a",)),
        ("pdf", "hints: []", ("pdf",)),
        ("pdf", "hints: ''", ("pdf",)),
        ("pdf", "metadata: text", ("pdf",)),
    ],
)
def test_hints_are_the_given_ones_or_the_words_of_the_name(tmp_path, name, fields, hints):
    folder = write_skill(tmp_path, frontmatter=f"name: {name}\ndescription: d\n{fields}")
    assert load_skill_metadata(folder).hints == hints


@pytest.mark.parametrize(
    ("fields", "hints"),
    [("hints: 5", ("pdf",)), ("hints: {a: b}", ("pdf",)), ("hints: [read, 5, [x]]", ("read",))],
)
def test_hints_that_are_not_text_are_reported_and_ignored(tmp_path, fields, hints):
    folder = write_skill(tmp_path, frontmatter=f"{MINIMUM}\n{fields}")
    lines: list[str] = []
    assert load_skill_metadata(folder, lines.append).hints == hints
    assert lines == ["The skill 'pdf' has hints that are not text: they were ignored."]


@pytest.mark.parametrize(
    ("name", "folder", "line"),
    [
        ("PDF", "PDF", "should be lower-case letters, digits and single hyphens"),
        ("a--b", "a--b", "should be lower-case letters, digits and single hyphens"),
        ("'-rf'", "-rf", "should be lower-case letters, digits and single hyphens"),
        ("../../x", "x", "should be lower-case letters, digits and single hyphens and should be the name of its folder, 'x'"),
        ("pdf", "other\x1b", "should be the name of its folder, 'other^['"),
        ("a" * 65, "a" * 65, "should have at most 64 characters"),
    ],
)  # fmt: skip
def test_a_name_that_breaks_the_specification_is_reported_and_loaded(tmp_path, name, folder, line):
    path = write_skill(tmp_path, folder, f"name: {name}\ndescription: d")
    lines: list[str] = []
    skill = load_skill_metadata(path, lines.append)
    assert skill.name == name.strip("'")
    assert lines == [f"The skill '{skill.name}' is loaded, but its name {line}."]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_texts_that_had_to_be_quoted_are_reported(tmp_path, end):
    frontmatter = f"name: pdf{end}description: Use when:{end}  asked{end}hints: [a]"
    folder = write_skill(tmp_path, frontmatter=frontmatter)
    lines: list[str] = []
    assert load_skill_metadata(folder, lines.append).description == "Use when: asked"
    assert len(lines) == 1
    assert "'pdf' is loaded" in lines[0] and "quote texts that have a ':'" in lines[0]


@pytest.mark.parametrize(
    ("frontmatter", "problem"),
    [
        ("description: d", "its frontmatter has no name"),
        ("name:\ndescription: d", "its frontmatter has no name"),
        ("name: pdf", "its frontmatter has no description"),
        ("name: pdf\ndescription: '  '", "its description is blank, or not text: put it in quotes"),
        ("name: ''\ndescription: d", "its name is blank, or not text: put it in quotes"),
        ("name: 5\ndescription: d", "its name is blank, or not text: put it in quotes"),
        ("name: yes\ndescription: d", "its name is blank, or not text: put it in quotes"),
        ("name: [pdf]\ndescription: d", "its name is blank, or not text: put it in quotes"),
        ("name: pdf\ndescription: {a: b}", "its description is blank, or not text: put it in quotes"),
        ('name: "a\\e[31m"\ndescription: d', "its name 'a^[[31m' has characters that can't be shown"),
        (f"name: {'a' * 256}\ndescription: d", "its name has more than 255 characters"),
        ('name: "a\\nb"\ndescription: d', "its name 'a^Jb' has characters that can't be shown"),
        ('name: "a\\u202eb"\ndescription: d', "its name 'a\\u202eb' has characters that can't be shown"),
        ("- pdf", "its frontmatter is not a mapping of 'field: value' lines"),
        ("name: *pdf", "its frontmatter has an anchor or an alias (& or *): quote the text"),
    ],
)  # fmt: skip
def test_a_skill_without_usable_metadata_is_refused_in_one_sentence(tmp_path, frontmatter, problem):
    folder = write_skill(tmp_path, frontmatter=frontmatter)
    with pytest.raises(InvalidSkillError) as caught:
        load_skill_metadata(folder)
    assert str(caught.value) == f"SKILL.md in the skill folder 'pdf' can't be used: {problem}."
    assert caught.value.name == "pdf"
    assert isinstance(caught.value, ValueError)


def test_level_2_is_the_body_stripped_with_plain_line_ends(tmp_path):
    folder = write_skill(tmp_path)
    (folder / "SKILL.md").write_bytes(
        b"---\r\na: b\r\n---\r\n\r\n # One\r\n---\r\nTwo \xc3\xa4\r\n\r\n"
    )
    assert load_skill_instructions(folder) == "# One\n---\nTwo ä"


def test_level_1_does_not_look_at_the_body(tmp_path):
    folder = write_skill(tmp_path)
    with (folder / "SKILL.md").open("ab") as file:
        file.write(b"\xff")
    assert load_skill_metadata(folder).name == "pdf"
    with pytest.raises(InvalidSkillError, match="is not UTF-8 at byte 65"):
        load_skill_instructions(folder)


@pytest.mark.parametrize("load", LEVELS)
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"---\na: \xe4\n---\n", "is not UTF-8 at byte 7"),
        (b"\xef\xbb\xbf---\na: \xe4\n---\n", "is not UTF-8 at byte 10"),
        (b"---\na: \0\n---\n", "NUL at byte 7"),
    ],
)
def test_frontmatter_that_is_not_text_is_refused_at_its_byte(tmp_path, load, data, problem):
    folder = write_skill(tmp_path)
    (folder / "SKILL.md").write_bytes(data)
    with pytest.raises(
        InvalidSkillError, match=rf"SKILL\.md in the skill folder 'pdf' .*{problem}"
    ):
        load(folder)


def no_file(folder: Path) -> None:
    folder.mkdir()


def other_case(folder: Path) -> None:
    folder.mkdir()
    (folder / "skill.txt").write_text("---\n")


def no_folder(folder: Path) -> None:
    folder.write_text("---\n")


def a_folder(folder: Path) -> None:
    (folder / "SKILL.md").mkdir(parents=True)


def a_fifo(folder: Path) -> None:
    folder.mkdir()
    os.mkfifo(folder / "SKILL.md")


def a_link(folder: Path) -> None:
    write_skill(folder.parent, "elsewhere")
    folder.mkdir()
    (folder / "SKILL.md").symlink_to(folder.parent / "elsewhere" / "SKILL.md")


def a_device(folder: Path) -> None:
    folder.mkdir()
    (folder / "SKILL.md").symlink_to("/dev/zero")


def ten_megabytes(folder: Path) -> None:
    write_skill(folder.parent, folder.name, body="x" * 10_000_000)


def sparse(folder: Path) -> None:
    write_skill(folder.parent, folder.name)
    os.truncate(folder / "SKILL.md", MAX_SKILL_BYTES + 1)


def empty(folder: Path) -> None:
    folder.mkdir()
    (folder / "SKILL.md").touch()


@pytest.mark.parametrize("load", LEVELS)
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (no_file, "it is not there, and its name must be exactly that"),
        (other_case, "it is not there, and its name must be exactly that"),
        (no_folder, "not a directory"),
        (a_folder, "regular file"),
        (a_fifo, "regular file"),
        (a_link, "it leads through a symbolic link"),
        (a_device, "it leads through a symbolic link"),
        (ten_megabytes, "it is larger than 1,048,576 bytes"),
        (sparse, "it is larger than 1,048,576 bytes"),
        (empty, "does not begin with frontmatter, after a line that is exactly '---'"),
    ],
)
def test_a_skill_md_that_is_not_a_small_regular_file_is_refused(tmp_path, load, make, problem):
    make(tmp_path / "bad")
    with pytest.raises(InvalidSkillError) as caught:
        load(tmp_path / "bad")
    said = str(caught.value)
    assert "SKILL.md" in said and "bad" in said and said.endswith(f"{problem}.")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_a_skill_md_that_may_not_be_read_is_refused(tmp_path):
    folder = write_skill(tmp_path)
    (folder / "SKILL.md").chmod(0)
    with pytest.raises(InvalidSkillError, match="permission denied"):
        load_skill_metadata(folder)


@pytest.mark.parametrize("folder", ["", "skills"])
def test_a_skill_of_one_s_own_is_not_used_where_others_can_write_above_it_by_now(
    folder, tmp_path, monkeypatch
):
    monkeypatch.setenv("ORE_HOME", str(tmp_path))
    skill = write_skill(tmp_path / "skills", references__a_md="A")
    assert load_skill_instructions(skill) == "Do it well."
    (tmp_path / folder).chmod(0o777)
    says = f"others can write to it; run chmod go-w {tmp_path / folder};"
    with pytest.raises(InvalidSkillError, match=says):
        load_skill_instructions(skill)
    with pytest.raises(InvalidSkillError, match=says):
        load_skill_resource(skill, "references/a.md")


def test_a_skill_folder_may_be_a_link_that_the_user_placed(tmp_path):
    target = write_skill(tmp_path, "checkout", references__a_md="A")
    link = tmp_path / "pdf"
    link.symlink_to(target)
    lines: list[str] = []
    assert load_skill_metadata(link, lines.append).path == link
    assert load_skill_instructions(link) == "Do it well."
    assert load_skill_resource(link, "references/a.md") == "A"
    assert lines == []


def test_a_skill_is_known_by_its_folder_wherever_the_process_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(write_skill(tmp_path))
    lines: list[str] = []
    load_skill_metadata(".", lines.append)
    assert lines == []


def test_importing_the_skills_does_not_import_yaml():
    script = "import sys, ore.skills; sys.stdout.write(str('yaml' in sys.modules))"
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=root, check=True
    )
    assert done.stdout == "False"
