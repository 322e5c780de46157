"""What others could have prepared is said and not used: ORE's home and all that is in it."""

from __future__ import annotations

import os
import pwd
import stat
import struct
from pathlib import Path

import pytest

from ore.__main__ import _distrust
from ore.errors import HomeError
from ore.files import read_confined
from ore.files.trust import distrust, distrust_path, home_folder, kept_mode
from ore.skills import build_skill_registry
from tests.support.fake_ollama import FakeOllama
from tests.support.process import environment, run
from tests.support.skill_files import write_skill

ME = os.geteuid()
SUDO = "sudo " if ME else ""
OTHER = 54_321  # no user and no group of any system
try:
    MINE = pwd.getpwuid(ME).pw_gid
except KeyError:  # as in a container that is run for any number
    pytest.skip("who runs the tests has no name", allow_module_level=True)

ELSE = "if that changes nothing, use another disk"
"""What is said besides: exFAT and NTFS, as they are often mounted, drop a change of permissions and say nothing."""


def status(mode: int, user: int = ME, group: int = OTHER) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, user, group, 0, 0, 0, 0))


@pytest.mark.parametrize("kind", [stat.S_IFDIR, stat.S_IFREG])
@pytest.mark.parametrize(
    "mode, user, group, says",
    [
        (0o600, ME, OTHER, ""),
        (0o755, ME, OTHER, ""),
        (0o755, 0, 0, ""),
        (0o775, ME, OTHER, f"others can write to it; run chmod go-w /x/y; {ELSE}"),
        (0o702, ME, MINE, f"others can write to it; run chmod go-w /x/y; {ELSE}"),
        (0o777, ME, MINE, f"others can write to it; run chmod go-w /x/y; {ELSE}"),
        (0o1777, 0, MINE, "others can write to it, as they are meant to; use one of your own"),
        (0o600, OTHER, MINE, f"it belongs to another user; run {SUDO}chown -h {ME} /x/y"),
    ],
)
def test_only_the_user_and_root_may_write(kind, mode, user, group, says):
    assert distrust(status(kind | mode, user, group), "/x/y") == says


@pytest.mark.parametrize("user, mode", [(ME, 0o644), (0, 0o644), (OTHER, 0o600)])
def test_what_replaces_another_users_file_does_not_have_its_permissions(user, mode):
    assert kept_mode(status(stat.S_IFREG | 0o4644, user), 0o600) == mode


def test_what_is_advised_can_be_done_by_who_is_not_root_and_changes_a_link_itself(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: OTHER + 1)
    assert distrust(status(0o600, OTHER), "/x").endswith(f"; run sudo chown -h {OTHER + 1} /x")
    assert distrust(status(0o777, 0), "/x").endswith(f"; run sudo chmod go-w /x; {ELSE}")
    assert distrust(status(0o1777, OTHER + 1), "/x").endswith(f"; run chmod go-w /x; {ELSE}")


def test_nobody_is_told_to_take_from_others_what_is_there_for_all(monkeypatch):
    monkeypatch.setenv("ORE_HOME", os.devnull)
    with pytest.raises(HomeError, match="Nothing in /dev/null is used: .*; use one of your own.$"):
        home_folder("models")


@pytest.mark.parametrize(
    "path, says",
    [
        ("/home/ann/.ore/x", "it is in another user's home; set ORE_HOME to one of your own"),
        ("/home/ann", "it is in another user's home; use one of your own"),
        ("/home/ann/bin/x", "it is in another user's home; use one of your own"),
        ("/home/anne/x", f"it belongs to another user; run {SUDO}chown -h {ME} /home/anne/x"),
    ],
)
def test_nobody_is_told_to_take_another_user_s_home(path, says, monkeypatch):
    """As 'sudo -E' and 'su -m' leave HOME what it was."""
    ann = pwd.struct_passwd(("ann", "x", OTHER, OTHER, "", "/home/ann", "/bin/sh"))
    monkeypatch.setattr("pwd.getpwuid", {OTHER: ann}.__getitem__)
    monkeypatch.setenv("ORE_HOME", "/home/ann/.ore")
    assert distrust(status(0o600, OTHER), path) == says


def test_a_path_is_shown_so_that_it_can_be_pasted():
    assert distrust(status(0o777), "/a b\n/c").endswith(f"run chmod go-w '/a b^J/c'; {ELSE}")


class Group:
    def __init__(self, name: str, members: list[str], number: int = MINE):
        self.gr_name, self.gr_mem, self.gr_gid = name, members, number


NAME = pwd.getpwuid(ME).pw_name


@pytest.mark.parametrize(
    "group, trusted",
    [
        (Group(NAME, []), True),
        (Group(NAME, [NAME]), True),
        (Group(NAME, [NAME, "eve"]), False),
        (Group("staff", []), False),
        (Group(NAME, [], OTHER), False),
    ],
)
def test_a_group_that_is_the_user_alone_may_write(group, trusted, monkeypatch):
    """As umask 002 makes files on systems where each user has a group."""
    monkeypatch.setattr("grp.getgrgid", lambda number: group)
    monkeypatch.setattr("pwd.getpwall", lambda: [])
    assert (distrust(status(0o775, group=group.gr_gid), "/x") == "") is trusted


def test_a_group_is_not_the_user_alone_where_it_is_another_user_s_first_one(monkeypatch):
    """As ``useradd -g ann eve`` makes one: such a member does not stand in the group's list."""
    eve = pwd.struct_passwd(("eve", "x", OTHER, MINE, "", "/", "/bin/sh"))
    monkeypatch.setattr("grp.getgrgid", lambda number: Group(NAME, []))
    monkeypatch.setattr("pwd.getpwall", lambda: [pwd.getpwuid(ME), eve])
    assert "others can write" in distrust(status(0o775, group=MINE), "/x")


def test_a_group_is_not_the_user_alone_where_another_group_with_its_number_has_members(monkeypatch):
    """As ``groupadd -o -g 1000 staff`` makes one."""
    monkeypatch.setattr("grp.getgrgid", lambda number: Group(NAME, []))
    monkeypatch.setattr("grp.getgrall", lambda: [Group(NAME, []), Group("staff", ["eve"])])
    monkeypatch.setattr("pwd.getpwall", lambda: [])
    assert "others can write" in distrust(status(0o775, group=MINE), "/x")


def test_the_own_group_of_who_called_sudo_may_write(monkeypatch):
    """As umask 002 makes the files that root is to use for that user."""
    bob = pwd.struct_passwd(("bob", "x", OTHER, OTHER, "", "/", "/bin/sh"))
    known = {0: pwd.getpwuid(0), OTHER: bob}
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr("pwd.getpwuid", known.__getitem__)
    monkeypatch.setattr("pwd.getpwall", lambda: list(known.values()))
    monkeypatch.setattr("grp.getgrgid", lambda number: Group("bob", [], OTHER))
    assert distrust(status(0o664, OTHER, OTHER), "/x") != ""
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert distrust(status(0o664, OTHER, OTHER), "/x") == ""


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="lists of access are Linux's here")
@pytest.mark.parametrize(
    "entry, mask, own_group, trusted",
    [
        ((2, 6, OTHER), 6, MINE, False),  # another user may write
        ((8, 2, OTHER), 6, MINE, False),  # another group may
        ((2, 4, OTHER), 6, MINE, True),
        ((2, 6, ME), 6, MINE, True),
        ((8, 6, MINE), 6, MINE, True),
        ((2, 6, OTHER), 4, MINE, True),  # nothing is given that the limit of the list does not have
        ((2, 6, ME), 6, OTHER, True),  # the file's group may not, whatever the limit is
        ((4, 6, -1), 6, OTHER, False),  # it may
        ((4, 6, -1), 6, MINE, True),
    ],
)
def test_whom_a_list_of_access_lets_write_is_one_of_the_others(
    entry, mask, own_group, trusted, tmp_path, monkeypatch
):
    mine = Group(pwd.getpwuid(ME).pw_name, [])
    groups = {MINE: mine, OTHER: Group("staff", [], OTHER)}
    monkeypatch.setattr("grp.getgrgid", groups.__getitem__)
    monkeypatch.setattr("pwd.getpwall", lambda: [])
    path = tmp_path / "SKILL.md"
    path.touch()
    others = [each for each in [(4, 4, -1)] if each[0] != entry[0]]
    entries = sorted([(1, 6, -1), entry, *others, (16, mask, -1), (32, 4, -1)])
    packed = [struct.pack("<HHI", kind, may, who % (1 << 32)) for kind, may, who in entries]
    try:
        os.setxattr(path, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))
    except OSError:
        pytest.skip("no lists of access here")
    if own_group != path.stat().st_gid:
        if ME != 0:
            pytest.skip("only root can give a file to any group")
        os.chown(path, -1, own_group)
    why = distrust_path(path)
    assert (why == "") is trusted and ("chmod go-w" in why) is not trusted


@pytest.mark.parametrize(
    "caller, trusted", [(str(OTHER), True), ("", False), ("x", False), ("9" * 5_000, False)]
)
def test_root_trusts_who_called_sudo(caller, trusted, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", caller)
    assert (distrust(status(0o644, OTHER), "/x") == "") is trusted
    monkeypatch.setattr("os.geteuid", lambda: 7)
    assert distrust(status(0o644, OTHER), "/x") != ""


def test_what_root_owns_is_trusted(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: OTHER)
    assert distrust(status(0o755, 0, 0), "/x") == ""
    assert distrust(status(0o755, OTHER + 1), "/x") != ""


def test_a_link_of_another_user_s_is_as_bad_as_a_file_of_theirs(tmp_path):
    if ME != 0:
        pytest.skip("only root can give a link away")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "own").symlink_to("link")
    assert distrust_path(tmp_path / "link") == distrust_path(tmp_path / "own") == ""
    os.chown(tmp_path / "link", OTHER, -1, follow_symlinks=False)
    for name in ("link", "own", "own/"):
        says = distrust_path(f"{tmp_path}/{name}")
        assert says == f"it belongs to another user; run chown -h 0 {tmp_path / 'link'}"


def test_a_link_of_another_user_s_counts_wherever_on_the_way_it_is(tmp_path):
    if ME != 0:
        pytest.skip("only root can give a link away")
    (tmp_path / "real/ore").mkdir(parents=True, mode=0o700)
    (tmp_path / "folder").symlink_to("real")
    (tmp_path / "own").symlink_to("./folder/ore")
    ways = ("folder/ore", "folder/../real/ore", "folder/ore/.", "own", "own/..")
    assert [distrust_path(f"{tmp_path}/{way}") for way in ways] == [""] * len(ways)
    os.chown(tmp_path / "folder", OTHER, -1, follow_symlinks=False)
    for way in ways:
        says = distrust_path(f"{tmp_path}/{way}")
        assert says == f"it belongs to another user; run chown -h 0 {tmp_path / 'folder'}"


def test_a_link_of_the_system_is_trusted_where_a_sandbox_shows_root_as_another_user(
    tmp_path, monkeypatch
):
    if ME != 0:
        pytest.skip("only root can give a link away")
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "folder").symlink_to("real")
    os.chown(tmp_path / "folder", OTHER, -1, follow_symlinks=False)
    assert distrust_path(tmp_path / "folder/.") != ""
    root = os.stat_result((*os.stat("/")[:4], OTHER, *os.stat("/")[5:]))
    real = os.stat
    monkeypatch.setattr("os.stat", lambda path, **more: root if path == "/" else real(path, **more))
    assert distrust_path(tmp_path / "folder/.") == ""


def test_what_links_say_that_lead_to_no_path_is_not_taken_for_one(tmp_path):
    """As a folder that is open and was removed has it: ``/proc/self/fd/9`` reads ``/x (deleted)``."""
    (tmp_path / "folder").mkdir(mode=0o777)
    (tmp_path / "folder").chmod(0o777)
    descriptor = os.open(tmp_path / "folder", os.O_RDONLY)
    try:
        (tmp_path / "folder").rmdir()
        path = f"/proc/self/fd/{descriptor}"
        if not os.path.exists(path):
            pytest.skip("there is no /proc")
        assert distrust_path(path).startswith("others can write to it; ")
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("program, file, says", [(0o644, 0o646, "others"), (0o646, 0o646, "")])
def test_a_file_beside_the_program_is_to_be_as_well_protected_as_that(
    program, file, says, tmp_path, monkeypatch
):
    monkeypatch.setattr("ore.__main__.__file__", str(tmp_path / "ore/__main__.py"))
    for name, mode in (("main.py", program), (".env", file)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    assert _distrust(str(tmp_path / ".env"))[:6] == says


@pytest.mark.parametrize("how", ["group", "list", "link", "own link"])
def test_a_file_beside_the_program_may_be_open_to_no_other_group_and_no_other_s_link(
    how, tmp_path, monkeypatch
):
    if ME != 0:
        pytest.skip("only root can give a file away")
    monkeypatch.setattr("ore.__main__.__file__", str(tmp_path / "ore/__main__.py"))
    program, file = tmp_path / "main.py", tmp_path / ".env"
    for path in (program, tmp_path / "file"):
        path.touch()
        path.chmod(0o664)
    (tmp_path / "file").rename(file)
    if how == "group":
        os.chown(file, -1, OTHER)
    elif how == "list":
        entries = [(1, 6, -1), (2, 6, OTHER), (4, 6, -1), (16, 6, -1), (32, 4, -1)]
        packed = [struct.pack("<HHI", kind, may, who % (1 << 32)) for kind, may, who in entries]
        try:
            os.setxattr(file, "system.posix_acl_access", struct.pack("<I", 2) + b"".join(packed))
        except OSError:
            pytest.skip("no lists of access here")
    else:
        file.rename(tmp_path / "file")
        file.symlink_to("file")
        os.chown(file, OTHER if how == "link" else ME, -1, follow_symlinks=False)
    assert (_distrust(str(file)) == "") is (how == "own link")


def test_no_other_main_py_makes_what_is_beside_it_trusted(tmp_path):
    """Whoever can write to ORE's home can put both there."""
    for name in ("main.py", ".env"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o646)
    assert _distrust(str(tmp_path / ".env"))[:6] == "others"


def test_what_is_not_there_is_trusted(tmp_path):
    assert distrust_path(tmp_path / "none") == ""
    (tmp_path / "nowhere").symlink_to(tmp_path / "none")
    assert distrust_path(tmp_path / "nowhere") == ""


def test_every_folder_on_the_way_to_a_file_is_judged(tmp_path):
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    judged: list[Path] = []
    read_confined(tmp_path, "a/b/file", 10, judge=lambda _, path: judged.append(Path(path)) or "")
    assert judged == [tmp_path, tmp_path / "a", tmp_path / "a/b", tmp_path / "a/b/file"]


@pytest.fixture
def full_home(home):
    """A home with something of each kind in it, which only its user can write to."""
    ore = home / ".ore"
    for folder in (ore, ore / "skills", ore / "personas", ore / "sessions"):
        folder.mkdir(mode=0o755)
    write_skill(ore / "skills", "pdf", body="See [it](references/a.md).", references__a_md="A!")
    (ore / "personas/terse.md").write_text("Be terse.")
    (ore / "sessions/trip.json").write_text('{"id":"1","created_at":1.0,"messages":[]}')
    (ore / ".env").write_text("ORE_MODEL=mistral\n")
    for path in ore.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return ore


USES = {
    ".": [".env", "skills", "personas", "sessions"],
    ".env": [".env"],
    "skills": ["skills"],
    "skills/pdf": ["skills"],
    "skills/pdf/SKILL.md": ["skills"],
    "skills/pdf/references": ["resource"],
    "skills/pdf/references/a.md": ["resource"],
    "personas": ["personas"],
    "personas/terse.md": ["personas"],
    "sessions": ["sessions"],
    "sessions/trip.json": ["sessions"],
}
ASKS = {
    "skills": ["--skill", "pdf"],
    "resource": ["--skill", "pdf"],
    "personas": ["--persona", "terse"],
    "sessions": ["--resume-session", "trip"],
}


@pytest.mark.invariant
@pytest.mark.parametrize("path", USES)
@pytest.mark.parametrize("how", ["mode", "owner"])
@pytest.mark.slow
def test_what_others_can_write_to_is_said_and_not_used(path, how, full_home):
    changed = full_home / path
    if how == "mode":
        changed.chmod(changed.stat().st_mode | 0o002)
    elif ME == 0:
        os.chown(changed, OTHER, -1)
    else:
        pytest.skip("only root can give a file away")
    step = "chmod go-w" if how == "mode" else "chown"
    with FakeOllama(models=("llama3.2", "mistral")) as server:
        env = environment(OLLAMA_HOST=server.url)
        for use in USES[path]:
            server.requests.clear()
            done = run("Hi", *ASKS.get(use, ()), env=env)
            assert f"{step} " in done.err and str(changed.parent) in done.err, (use, done)
            if use == ".env":
                assert (done.code, server.chats[0].json["model"]) == (0, "llama3.2")
            elif use == "resource":
                assert "A!" not in str(server.chats[0].json)
            else:
                assert (done.code, done.out, server.chats) == (1, "", [])


@pytest.mark.slow
def test_the_same_home_is_used_where_only_the_user_can_write(full_home):
    with FakeOllama(models=("llama3.2", "mistral")) as server:
        env = environment(OLLAMA_HOST=server.url)
        flags = ["--skill", "pdf", "--persona", "terse", "--session", "trip"]
        done = run("Hi", *flags, env=env)
        assert (done.code, done.err) == (0, "")
        sent = server.chats[0].json
    assert sent["model"] == "mistral"
    assert [each["content"] for each in sent["messages"]][0] == "Be terse."
    assert "A!" in sent["messages"][1]["content"]


def test_a_folder_of_home_names_itself_where_it_is_not_trusted(home):
    (home / ".ore/models").mkdir(parents=True)
    (home / ".ore/models").chmod(0o757)
    with pytest.raises(HomeError, match=r"^Nothing in .*/\.ore/models is used: others can write"):
        home_folder("models")
    assert home_folder("skills") == home / ".ore/skills"


def test_a_skill_that_another_user_s_link_leads_to_is_not_loaded(full_home):
    if ME != 0:
        pytest.skip("only root can give a link away")
    skills, said = full_home / "skills", []
    (full_home / "apart").mkdir(mode=0o755)
    (skills / "pdf").rename(full_home / "apart/pdf")
    (skills / "pdf").symlink_to(full_home / "apart/pdf")
    assert [*build_skill_registry(report=said.append)] == ["pdf"] and not said
    os.chown(skills / "pdf", OTHER, -1, follow_symlinks=False)
    assert not [*build_skill_registry(report=said.append)]
    assert f"run chown -h 0 {skills / 'pdf'}" in said[0]
