"""The skills there are, lenient and loud, and what a turn gets of the one that is used."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ore.errors import InvalidSkillError, SkillNotFoundError
from ore.skills import (
    MAX_RESOURCE_BYTES,
    MAX_RESOURCES,
    activate_skill,
    build_skill_registry,
    build_targets_from_skill_registry,
    find_skill,
    load_skill_metadata,
)
from ore.types import RoutingTarget, SkillMetadata
from tests.support.closed import beside_a_closed_folder
from tests.support.skill_files import write_skill


def named(root: Path, name: str, folder: str = "", hints: str = "") -> Path:
    frontmatter = f"name: {name}\ndescription: About {name}.\n{hints}"
    return write_skill(root, folder or name, frontmatter)


def activated(root: Path, body: str, **resources: str | bytes) -> tuple[str, list[str]]:
    folder = write_skill(root, body=body, **resources)
    lines: list[str] = []
    return activate_skill(load_skill_metadata(folder), lines.append), lines


# The registry


def test_the_registry_holds_every_skill_by_name_in_order(tmp_path):
    root = tmp_path / "skills"
    folders = {name: named(root, name) for name in ("zip", "pdf", "a-b")}
    lines: list[str] = []
    registry = build_skill_registry(root, lines.append)
    assert list(registry.items()) == [
        (name, SkillMetadata(name, f"About {name}.", (hint,), folders[name]))
        for name, hint in (("a-b", "a b"), ("pdf", "pdf"), ("zip", "zip"))
    ]
    assert lines == []
    assert build_skill_registry(str(root)) == registry


def test_the_registry_is_in_the_home_of_ore(home, tmp_path, monkeypatch):
    folder = named(home / ".ore" / "skills", "pdf")
    assert build_skill_registry()["pdf"].path == folder
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "elsewhere"))
    assert build_skill_registry() == {}
    assert not (tmp_path / "elsewhere").exists()


def test_one_bad_skill_is_skipped_with_one_line_and_the_others_load(tmp_path):
    root = tmp_path / "skills"
    named(root, "pdf")
    write_skill(root, "broken", "name: [")
    write_skill(root, "nameless", "description: d")
    (root / "empty\nfolder").mkdir()
    lines: list[str] = []
    assert list(build_skill_registry(root, lines.append)) == ["pdf"]
    start, end = "SKILL.md in the skill folder", "The skill is skipped."
    assert lines == [
        f"{start} 'broken' can't be used: its frontmatter is not valid YAML at line 3: "
        f"while parsing a flow node did not find expected node content. {end}",
        f"{start} 'empty^Jfolder' can't be used: it is not there, and its name must be exactly "
        f"that. {end}",
        f"{start} 'nameless' can't be used: its frontmatter has no name. {end}",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a file name is always text")
def test_a_folder_whose_name_is_not_text_is_a_skill_like_any_other(tmp_path):
    root = tmp_path / "skills"
    named(root, "pdf", folder=os.fsdecode(b"latin-\xe4"))
    lines: list[str] = []
    assert list(build_skill_registry(root, lines.append)) == ["pdf"]
    assert len(lines) == 1


def test_only_folders_are_skills_and_hidden_ones_are_not(tmp_path):
    named(tmp_path, "git", folder=".git")
    (tmp_path / "README.md").write_text("# Skills")
    target = named(tmp_path / "elsewhere", "pdf")
    root = tmp_path / "skills"
    root.mkdir()
    (root / "pdf").symlink_to(target)
    (root / "gone").symlink_to(tmp_path / "gone")
    (root / "loop").symlink_to("loop")
    (root / "file").symlink_to(tmp_path / "README.md")
    lines: list[str] = []
    assert list(build_skill_registry(root, lines.append)) == ["pdf"]
    assert lines == [
        *(
            f"The skill folder '{name}' is a link that does not lead to a folder."
            for name in ("file", "gone")
        ),
        "The skill 'loop' is skipped: its folder can't be read: too many levels of symbolic links.",
    ]
    assert list(build_skill_registry(tmp_path)) == []


def test_a_skill_whose_folder_can_not_be_looked_at_is_told(tmp_path):
    build_skill_registry(tmp_path)  # imports what the other user may not be able to read
    with beside_a_closed_folder() as (there, closed):
        (there / "link").symlink_to(closed / "pdf")
        (there / "root" / "pdf").mkdir(parents=True)
        (there / "root").chmod(0o400)  # its names can be read, and nothing of what they name
        for root, name in ((there, "link"), (there / "root", "pdf")):
            lines: list[str] = []
            assert list(build_skill_registry(root, lines.append)) == []
            assert lines[0] == (
                f"The skill '{name}' is skipped: its folder can't be read: permission denied."
            )
        (there / "root").chmod(0o700)


def test_a_skill_that_is_said_to_be_skipped_is_not_used(tmp_path, monkeypatch):
    named(tmp_path / "skills", "one")
    monkeypatch.setattr("ore.skills.why_unknown", lambda path: "input/output error")  # for now
    lines: list[str] = []
    assert build_skill_registry(tmp_path / "skills", lines.append) == {}
    assert lines == ["The skill 'one' is skipped: its folder can't be read: input/output error."]


@pytest.mark.parametrize(
    ("folders", "kept", "hidden"),
    [
        (("one", "two"), "one", ["two"]),
        (("pdf", "zzz"), "pdf", ["zzz"]),
        (("aaa", "pdf", "bbb"), "pdf", ["aaa", "bbb"]),
    ],
)
def test_of_two_skills_with_one_name_the_rightful_or_first_is_kept(tmp_path, folders, kept, hidden):
    for folder in folders:
        named(tmp_path / "skills", "pdf", folder)
    lines: list[str] = []
    registry = build_skill_registry(tmp_path / "skills", lines.append)
    assert registry["pdf"].path.name == kept
    unusual = [
        f"The skill 'pdf' is loaded, but its name should be the name of its folder, '{kept}'."
    ]
    assert lines == (unusual if kept != "pdf" else []) + [
        f"The skill in the folder '{folder}' is hidden: the one in '{kept}' is called 'pdf' too. "
        f"Rename one of them."
        for folder in hidden
    ]


def test_no_folder_of_skills_is_an_empty_registry(tmp_path):
    lines: list[str] = []
    assert build_skill_registry(tmp_path / "none", lines.append) == {}
    assert lines == []


def test_a_folder_of_skills_that_is_not_a_folder_is_reported(tmp_path):
    (tmp_path / "skills").write_text("")
    lines: list[str] = []
    assert build_skill_registry(tmp_path / "skills", lines.append) == {}
    assert lines == [
        f"No skills are loaded: the folder {tmp_path}/skills can't be read: not a directory."
    ]


def test_targets_carry_what_a_router_needs(tmp_path):
    named(tmp_path, "pdf", hints="hints: [read pdf]")
    named(tmp_path, "echo")
    registry = build_skill_registry(tmp_path)
    assert build_targets_from_skill_registry(registry) == [
        RoutingTarget("echo", "skill", "About echo.", ("echo",)),
        RoutingTarget("pdf", "skill", "About pdf.", ("read pdf",)),
    ]
    assert build_targets_from_skill_registry({}) == []


def test_a_skill_is_found_by_its_exact_name(tmp_path):
    named(tmp_path, "pdf", folder="other")
    registry = build_skill_registry(tmp_path)
    assert find_skill(registry, "pdf") is registry["pdf"]
    for name in ("other", "PDF", "pd", ""):
        with pytest.raises(SkillNotFoundError):
            find_skill(registry, name)


def test_of_two_skills_whose_accents_are_stored_otherwise_the_exact_one_is_found(tmp_path):
    for name in ("cafe\u0301", "caf\u00e9"):
        named(tmp_path, name)
    registry = build_skill_registry(tmp_path)
    for name in registry:
        assert find_skill(registry, name).name == name
    assert len(registry) == 2


def test_a_skill_is_found_however_its_accents_are_stored(tmp_path):
    """A Mac stores them apart."""
    named(tmp_path, "cafe\u0301")
    registry = build_skill_registry(tmp_path)
    assert find_skill(registry, "caf\u00e9") is find_skill(registry, "cafe\u0301")


MANY = ", ".join(f"s{n:02}" for n in range(20))


@pytest.mark.parametrize(
    ("count", "there"),
    [
        (0, "put a folder with a SKILL.md into ~/.ore/skills to add one"),
        (1, "there are s00"),
        (20, f"there are {MANY}"),
        (22, f"there are {MANY} and 2 more (see `build_skill_registry()`)"),
    ],
)  # fmt: skip
def test_a_skill_that_is_missing_lists_what_there_is(tmp_path, count, there):
    names = [f"s{number:02}" for number in range(count)]
    registry = {name: SkillMetadata(name, "d", (), tmp_path) for name in names}
    with pytest.raises(SkillNotFoundError) as caught:
        find_skill(registry, "a\x1bb")
    assert str(caught.value) == f"There is no skill 'a^[b': {there}."
    assert caught.value.name == "a\x1bb"


def test_a_name_that_an_artifact_may_have_chosen_is_not_said_whole():
    with pytest.raises(SkillNotFoundError) as caught:
        find_skill({}, "a" * 100_000)
    assert len(str(caught.value)) < 500


def test_the_folder_that_skills_belong_into_is_named_wherever_it_is(ore, tmp_path, monkeypatch):
    monkeypatch.setenv("ORE_HOME", str(tmp_path / "elsewhere"))
    for args in (["--list-skills"], ["--skill", "pdf", "Hi"]):
        assert f"a SKILL.md into {tmp_path}/elsewhere/skills" in ore(*args).err


# Activation


def test_a_skill_without_resources_is_its_body(tmp_path):
    text, lines = activated(tmp_path, "\n# How\n\nDo it.\n\n", scripts__run_py="boom()")
    assert (text, lines) == ("# How\n\nDo it.", [])


def test_resources_follow_the_body_once_each_in_the_order_of_first_mention(tmp_path):
    text, lines = activated(
        tmp_path,
        "Read `references/b.md`, [a](assets/a.csv), `resources/c.txt`, [b](./references/b.md#x).",
        references__b_md="B see `references/d.md`\n",
        references__d_md="not named by the body",
        assets__a_csv="A",
        resources__c_txt="C",
    )
    assert text == (
        "Read `references/b.md`, [a](assets/a.csv), `resources/c.txt`, [b](./references/b.md#x)."
        "\n\n[Resource:references/b.md]\nB see `references/d.md`\n"
        "\n\n[Resource:assets/a.csv]\nA"
        "\n\n[Resource:resources/c.txt]\nC"
    )
    assert lines == []


@pytest.mark.invariant
def test_a_resource_that_can_not_be_read_is_reported_and_left_out(tmp_path):
    (tmp_path / "secret").write_text("secret")
    refs = ["../../secret", "gone.md", "logo.png", "link.md", "large.md", "ok.md"]
    write_skill(
        tmp_path,
        assets__logo_png=b"\x89PNG\0",
        assets__large_md="x" * (MAX_RESOURCE_BYTES + 1),
        assets__ok_md="fine",
    )
    (tmp_path / "pdf" / "assets" / "link.md").symlink_to(tmp_path / "secret")
    body = " ".join(f"`assets/{ref}`" for ref in refs)
    text, lines = activated(tmp_path, body)
    assert text == f"{body}\n\n[Resource:assets/ok.md]\nfine"
    assert [line.partition(" in the skill folder ")[0] for line in lines] == [
        "Path traversal blocked: 'assets/../../secret'",
        "Resource not found: 'assets/gone.md'",
        "The resource 'assets/logo.png'",
        "Path traversal blocked: 'assets/link.md'",
        f"{tmp_path}/pdf/assets/large.md can't be read: it is larger than 262,144 bytes. "
        "The skill is used without it.",
    ]
    assert all(line.endswith(". The skill is used without it.") for line in lines)


def test_a_resource_of_a_very_long_name_is_reported_in_a_short_sentence(tmp_path):
    _, lines = activated(tmp_path, " ".join(f"[x]({folder}/{'a' * 9999})" for folder in WORDY))
    assert len(lines) == len(WORDY) and max(map(len, lines)) < 1000


WORDY = ("references", "scripts", "..")


GUIDE = """Start with [the guide](./reference/guide.md), then `FORMS.md`.

- `templates/page.html`: copy it. `templates/` has more; `logo.png` goes on top.
- `scripts/fill.py` fills a form; run `python scripts/fill.py --help`.
- See [the old way](gone.md), [the system's](/etc/hostname), [ours](../other/SKILL.md).
- The user's `package.json` and `evals/evals.json` stay; https://example.org/a.md is [here][h].

[h]: https://example.org/a.md
"""


@pytest.mark.invariant
def test_every_file_that_the_body_names_is_read_in_order_or_said_with_its_reason(tmp_path):
    """In the shape of public skills: files of any folder, and things that are not for reading."""
    files = {
        "reference__guide_md": "Guide.",
        "FORMS_md": "Forms.",
        "templates__page_html": "<p>",
        "scripts__fill_py": "import os",
        "logo_png": b"\x89PNG\0",
        "LICENSE_txt": "Free.",
    }
    text, lines = activated(tmp_path, GUIDE, **files)
    assert text == (
        GUIDE.strip() + "\n\n[Resource:reference/guide.md]\nGuide."
        "\n\n[Resource:FORMS.md]\nForms.\n\n[Resource:templates/page.html]\n<p>"
    )
    where = "in the skill folder 'pdf'"
    assert [line.removesuffix(" The skill is used without it.") for line in lines] == [
        "'templates' of the skill 'pdf' is not read: it is a folder.",
        f"The resource 'logo.png' {where} is not text: it has a NUL at byte 4; name a text file.",
        "'scripts/fill.py' of the skill 'pdf' is not read: what is in scripts is for running.",
        f"Resource not found: 'gone.md' {where} is not there; check the path.",
        f"Path traversal blocked: '/etc/hostname' {where} leads out of the folder; name a file "
        "inside it.",
        f"Path traversal blocked: '../other/SKILL.md' {where} leads out of the folder; name a file "
        "inside it.",
    ]


def test_all_resources_together_are_at_most_a_mebibyte(tmp_path):
    names = ["a", "b", "c", "d", "e", "f"]
    sizes = [
        MAX_RESOURCE_BYTES,
        MAX_RESOURCE_BYTES,
        MAX_RESOURCE_BYTES,
        MAX_RESOURCE_BYTES - 5,
        6,
        5,
    ]
    body = " ".join(f"`assets/{name}.txt`" for name in names)
    text, lines = activated(
        tmp_path,
        body,
        **{f"assets__{name}_txt": "é" * (size // 2) + "x" * (size % 2) for name, size in zip(names, sizes)},
    )  # fmt: skip
    assert [part[:8] for part in text.split("[Resource:assets/")[1:]] == [
        f"{name}.txt]\né" for name in "abcdf"
    ]
    assert lines == [
        "The resource 'assets/e.txt' of the skill 'pdf' is left out: all resources together would "
        "be larger than 1,048,576 bytes."
    ]


def test_a_skill_that_names_countless_resources_is_cut_off(tmp_path):
    body = " ".join(f"`assets/{number}`" for number in range(MAX_RESOURCES + 7))
    text, lines = activated(tmp_path, body, assets__0="first")
    assert text == f"{body}\n\n[Resource:assets/0]\nfirst"
    assert len(lines) == MAX_RESOURCES
    assert lines[-1] == ("The skill 'pdf' names over 1,000 files: the rest is unused.")


def test_a_skill_without_instructions_is_reported(tmp_path):
    assert activated(tmp_path, " \n") == (
        "",
        ["The skill 'pdf' has no instructions below its frontmatter."],
    )


def test_a_skill_that_has_gone_since_the_scan_is_an_error(tmp_path):
    skill = build_skill_registry(write_skill(tmp_path / "skills").parent)["pdf"]
    (skill.path / "SKILL.md").unlink()
    with pytest.raises(InvalidSkillError, match="it is not there"):
        activate_skill(skill)


@pytest.mark.parametrize(
    "body, said", [("Read `FORMS.md` first.", 1), ("Do it well.", 0), ("```\nls\n```", 0)]
)
def test_a_folder_that_can_not_be_listed_is_told_where_a_file_of_it_may_be_named(body, said):
    with beside_a_closed_folder() as (there, _):
        folder = write_skill(there, body=body)
        (folder / "FORMS.md").write_text("the forms")
        lines: list[str] = []
        skill = load_skill_metadata(folder)
        folder.chmod(0o300)
        try:
            assert activate_skill(skill, lines.append) == body
        finally:
            folder.chmod(0o700)
    assert len(lines) == said
    assert all("'pdf' can't be listed: permission denied." in line for line in lines)
