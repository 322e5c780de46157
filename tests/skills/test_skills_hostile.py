"""Whatever is in a skill's folder: a clean skill or a clean error, quickly, and nothing else."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ore.errors import InvalidSkillError, SkillResourceNotFoundError
from ore.skills import (
    activate_skill,
    build_skill_registry,
    load_skill_frontmatter,
    load_skill_instructions,
    load_skill_metadata,
    load_skill_resource,
)
from ore.types import SkillMetadata
from tests.support.skill_files import write_skill

SECRET = "kept outside"
SECONDS = 5
many = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
SEEDS = [
    b"---\nname: pdf\ndescription: Works with PDF files.\n---\nBody\n",
    b"---\nname: 'a b'\ndescription: Use when: it's asked\nhints: [x, 'y z']\n---\n`assets/a`\n",
    b"\xef\xbb\xbf---\r\nname: a\r\ndescription: >\r\n  b\r\n  c\r\n---\r\n[a](references/a)\r\n",
    b"---\nname: a\ndescription: |\n  b: c\nmetadata:\n  hints: x, y\n  d: {e: [1, 2.5]}\n---\n",
]
TOKENS = [
    *(b"---\n", b"--- ", b"...\n", b"\n", b"\r\n", b"\r", b"\t", b"  ", b"- ", b"? ", b": ", b"#"),
    *(b"&a ", b"*a", b"!!str ", b"!!python/name:os ", b"! ", b"<<: ", b"{", b"}", b"[", b"]", b","),
    *(b"'", b'"', b"|\n", b">-\n", b"%YAML 1.1\n", b"\\", b"\\u202e", b"@", b"`", b"~", b"=", b"\0"),
    *(b"name: ", b"description: ", b"hints: ", b"metadata:\n", b"2024-02-30", b"0x", b"1:59:59.5"),
    *(b"\xff", b"\xc3", b"\xe2\x80\xae", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\x1b[31m", b"\x85"),
    *(b"`../x`", b"[a](assets/../../x)", b"]" * 40, b"[" * 40, b"- " * 40, b"9" * 5000),
]  # fmt: skip


def judge(folder: Path, data: bytes) -> bool:
    """Read every level of a skill; return whether it loads. Anything unclean is an error here."""
    (folder / "SKILL.md").write_bytes(data)
    lines: list[str] = []
    started = time.process_time()
    try:
        skill = load_skill_metadata(folder, lines.append)
    except InvalidSkillError as exc:
        skill = None
        lines.append(str(exc))
    for load in (load_skill_frontmatter, load_skill_instructions):
        try:
            load(folder)
        except InvalidSkillError as exc:
            lines.append(str(exc))
    if skill is not None:
        assert type(skill) is SkillMetadata
        assert skill.name and skill.name.isprintable() and skill.description.strip()
        assert all(type(hint) is str and hint for hint in skill.hints)
        try:
            assert SECRET not in activate_skill(skill, lines.append)
        except InvalidSkillError as exc:
            lines.append(str(exc))
    assert time.process_time() - started < SECONDS
    assert all(line.isprintable() and line.endswith(".") for line in lines), lines
    return skill is not None


@pytest.mark.invariant
@given(data=st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode()))
@many
def test_any_bytes_are_a_skill_or_an_invalid_skill(tmp_path, data):
    folder = write_skill(tmp_path)
    judge(folder, data)
    judge(folder, b"---\n" + data + b"\n---\n")
    judge(folder, b"---\nname: a\ndescription: b\n" + data + b"\n---\n" + data)


@pytest.mark.slow
@pytest.mark.invariant
def test_hundreds_of_mutated_skills_are_skills_or_invalid_skills(tmp_path):
    (tmp_path / "x").write_text(SECRET)
    folder = write_skill(tmp_path, assets__a="A", references__a="R")
    chance = random.Random(20260)
    loaded = sum(judge(folder, mutated(chance)) for _ in range(500))
    assert 50 < loaded < 450  # both outcomes are really there


def mutated(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(SEEDS))
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(data))
        end = min(len(data), at + chance.randint(0, 6))
        kind = chance.randrange(4)
        if kind == 0:
            data[at:end] = b""
        elif kind == 1:
            data[at:at] = chance.choice(TOKENS)
        elif kind == 2:
            data[at:end] = data[at:end] * chance.randint(2, 30)
        elif at < len(data):
            data[at] = chance.randrange(256)
    return bytes(data)


@pytest.mark.invariant
@given(
    pieces=st.lists(
        st.sampled_from(
            [
                "..",
                "/",
                "references",
                "assets",
                "up",
                "here",
                "a.md",
                "x",
                "\\",
                "\0",
                "~",
                ".",
                "é",
            ]
            + ["%2e%2e", "\ud800", "C:", "//", "\n", "/etc/hostname", "loop", "SKILL.md"]
        ),
        max_size=8,
    )
)
@many
def test_no_reference_whatever_reads_outside_the_folder(tmp_path, pieces):
    folder = write_skill(tmp_path / "skills", references__a_md="inside")
    if not (folder / "references" / "up").is_symlink():
        (tmp_path / "skills" / "x").write_text(SECRET)
        (tmp_path / "x").write_text(SECRET)
        (folder / "references" / "up").symlink_to(tmp_path)
        (folder / "references" / "here").symlink_to(".")
        (folder / "references" / "loop").symlink_to("loop")
        (folder / "references" / "x").symlink_to(tmp_path / "x")
    ref = "".join(pieces)
    try:
        text = load_skill_resource(folder, ref)
    except (InvalidSkillError, SkillResourceNotFoundError) as exc:
        assert "\n" not in str(exc)
        return
    inside = [(folder / "references" / "a.md").read_text(), (folder / "SKILL.md").read_text()]
    assert text in inside


@pytest.mark.slow
@pytest.mark.parametrize(
    "frontmatter",
    ["a: " + "[" * 65_000, "- " * 32_000, "? " * 32_000, "a: '" + "\n" * 65_000, "#" * 65_000]
    + ["a: &a [*a]\n" * 5_000, "a:\n" * 20_000, "a: >\n" + " \n" * 30_000, "? a\n" * 15_000]
    + ["a: " + "b " * 32_000, "a: " + "{a: b}, " * 8_000, "".join(f"k{n}: v\n" for n in range(6000))]
    + ["x: y: z\n" * 8_000, "a: " + "b:c" * 20_000, "a:" + " " * 65_000 + "b", "%" * 65_000],
    ids=lambda text: text[:12],
)  # fmt: skip
def test_the_largest_frontmatter_of_any_shape_is_judged_in_time(tmp_path, frontmatter):
    judge(write_skill(tmp_path), f"---\n{frontmatter}\n---\n".encode())
    judge(
        write_skill(tmp_path),
        f"---\nname: a\ndescription: b\n{frontmatter[:65000]}\n---\n".encode(),
    )


def test_one_folder_of_everything_bad_never_stops_the_good_skill(tmp_path):
    root = tmp_path / "skills"
    chance = random.Random(7)
    for number in range(100):
        (write_skill(root, f"s{number:03}") / "SKILL.md").write_bytes(mutated(chance))
    write_skill(root, "fine", "name: fine\ndescription: d")
    assert "fine" in build_skill_registry(root)
