"""Whom a file belongs to and who else can write to it, judged as ``ssh`` does.

Whoever can write to a user's skills, sessions or variables would choose what a model is told, and
where prompts go.
"""

from __future__ import annotations

import os
import shlex
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from ore.errors import HomeError
from ore.files.home import instead_of, ore_home
from ore.files.neutral import one_line

_ACL_HEAD, _ACL_USER, _ACL_OWN_GROUP, _ACL_GROUP, _ACL_WRITE = 4, 2, 4, 8, 2
"""Of Linux's ``posix_acl_xattr.h``: bytes of its version, a named user, the file's group, a named
group, and writing."""
_MOST_DIGITS = 10  # of a user's number
_MOST_LINKS = 40  # as Linux follows


def distrust(status: os.stat_result, path: Path | str) -> str:
    """Return why the file or folder ``path`` can't be trusted, and what to run; ``""`` if it can.

    It belongs to this user, to root, or to whoever called ``sudo``; and nobody else can write to
    it. Its group may, where one of these is all of it: many systems give each user such a group.
    """
    shown = one_line(shlex.quote(str(path)))
    is_own = os.geteuid() in (0, status.st_uid)
    as_root = "" if is_own else "sudo "  # who else may give nothing away, nor change root's
    if status.st_uid not in _owners():
        if _is_in_home_of(status.st_uid, path):
            return f"it is in another user's home; {instead_of(Path(path))} one of your own"
        return f"it belongs to another user; run {as_root}chown -h {os.geteuid()} {shown}"
    mode = status.st_mode
    if mode & stat.S_IWOTH or mode & stat.S_IWGRP and _is_shared(path, status.st_gid):
        is_systems = status.st_uid == 0 and (stat.S_ISCHR(mode) or mode & stat.S_ISVTX)
        if is_systems:  # /dev/null and /tmp are there for all
            return "others can write to it, as they are meant to; use one of your own"
        otherwise = "; if that changes nothing, use another disk"  # some keep no permissions
        return f"others can write to it; run {as_root}chmod go-w {shown}{otherwise}"
    return ""


def distrust_path(path: Path | str) -> str:
    """Return what ``distrust`` says of ``path``, or of a link on the way to it; nothing if it is not there.

    Raises:
        OSError: The system does not tell.
    """
    with suppress(FileNotFoundError):
        if (found := _link_of_others(path, _owners())) is not None:
            return distrust(os.lstat(found), found)
    with suppress(FileNotFoundError):
        return distrust(os.stat(path), path)
    return ""


def distrust_now(path: Path | str) -> str:
    """Return what ``distrust_path`` says of ``path``, or of ORE's home if ``path`` is right below it.

    Raises:
        OSError: The system does not tell.
    """
    with suppress(HomeError):
        if Path(path).parent == (home := ore_home()):
            return distrust_path(home) or distrust_path(path)
    return distrust_path(path)


def is_as_safe(path: Path | str, program: Path | str) -> bool:
    """Tell whether nobody can write to ``path``, or lead it elsewhere, who can't write to ``program``.

    Raises:
        OSError: The system does not tell.
    """
    own, other = os.stat(program), os.stat(path)
    if own.st_uid != other.st_uid or other.st_mode & ~own.st_mode & 0o022:
        return False
    if other.st_mode & stat.S_IWGRP:
        is_same_group = own.st_gid == other.st_gid
        if not is_same_group or _access_list(path) != _access_list(program):
            return False
    return _link_of_others(path, {*_owners(), own.st_uid}) is None


def _link_of_others(path: Path | str, owners: set[int]) -> str | None:
    """Return the first link on the way to ``path``, or at its end, that none of ``owners`` owns.

    Whoever owns a link chooses where it ends, however many folders follow. Who owns the root folder is
    the system, which a sandbox shows as another user.
    """
    owners = {*owners, os.stat(os.sep).st_uid}
    for step, status in steps(path):
        if stat.S_ISLNK(status.st_mode) and status.st_uid not in owners:
            return step
    return None


def steps(path: Path | str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what the system looks up on the way to ``path``, which comes last, with the links on that way.

    Raises:
        OSError: The system does not tell, or there is no such step.
    """
    way, ahead, links = "", [*Path(path).parts][::-1], 0
    while ahead and links <= _MOST_LINKS:
        part = ahead.pop()
        is_up = part == os.pardir and os.path.isabs(way)
        step = os.path.dirname(way) if is_up else os.path.join(way, part)
        status = os.lstat(step)
        yield step, status
        if stat.S_ISLNK(status.st_mode):
            ahead += [*Path(os.readlink(step)).parts][::-1]  # a "/" begins anew
            links += 1
        else:
            way = step


def home_folder(name: str) -> Path:
    """Return the folder ``name`` of ORE's home; it need not exist.

    Raises:
        HomeError: No home is known; or it, or the folder, is not this user's alone.
    """
    home = ore_home()
    for path in (home, home / name):
        refuse_opened(path)
    return home / name


def refuse_opened(path: Path | str) -> None:
    """Raise ``HomeError`` where ``path``, which is ORE's home or in it, is not this user's alone."""
    try:
        why = distrust_path(path)
    except OSError:  # what it is used for says so
        return
    if why:
        raise HomeError(f"Nothing in {one_line(str(path))} is used: {why}.")


def kept_mode(replaced: os.stat_result, new: int) -> int:
    """Return the permissions of a file that takes the place of another: those of that one.

    Of another user's, they would say who may read what is this user's now; then they are ``new``.
    """
    return stat.S_IMODE(replaced.st_mode) & 0o777 if replaced.st_uid in _owners() else new


def may_be_planted(status: os.stat_result, folder: Path) -> bool:
    """Tell whether another user may have put what has this status into a folder that is for all.

    That is what Linux asks of pipes and files where it protects them (``fs.protected_fifos``).
    """
    with suppress(OSError):  # it is gone, and nothing is written there
        there = os.stat(folder)
        return bool(there.st_mode & stat.S_IWOTH) and status.st_uid not in {
            *_owners(),
            there.st_uid,
        }
    return False


def _owners() -> set[int]:
    owners = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    is_user = caller.isdecimal() and len(caller) <= _MOST_DIGITS
    return owners | {int(caller)} if 0 == os.geteuid() and is_user else owners


def _is_in_home_of(user: int, path: Path | str) -> bool:
    """Tell whether a path is a user's own home or in it, which nobody is to take from them."""
    with suppress(KeyError):
        home = str(import_module("pwd").getpwuid(user).pw_dir).rstrip("/")
        return home != "" and f"{os.path.abspath(path)}/".startswith(f"{home}/")
    return False


def _is_shared(path: Path | str, own_group: int) -> bool:
    """Tell whether others may write, by its group or by a list of access.

    Where there is a list, the group's rights in the file's mode are only the limit of what it gives.
    """
    if not (entries := _access_list(path)):
        return not _is_private(own_group)
    groups = {_ACL_GROUP, _ACL_OWN_GROUP}
    return any(
        may & _ACL_WRITE
        and (
            kind == _ACL_USER
            and who not in _owners()
            or kind in groups
            and not _is_private(who if kind == _ACL_GROUP else own_group)
        )
        for kind, may, who in struct.iter_unpack("<HHI", entries)
    )


def _access_list(path: Path | str) -> bytes:
    try:
        return os.getxattr(path, "system.posix_acl_access")[_ACL_HEAD:]
    except (AttributeError, OSError):  # a system, a file system or a file without one
        return b""


def _is_private(group: int) -> bool:
    """Tell whether a group is the own group of a user whose files are trusted, and nobody else's.

    It has that user's name. Users whose first group it is are not listed among its members, and groups
    of another name may have its number.
    """
    pwd, grp, users = import_module("pwd"), import_module("grp"), {}  # which no usual turn needs
    try:
        found = grp.getgrgid(group)
    except KeyError:
        return False
    listed = {*found.gr_mem, *(m for g in grp.getgrall() if g.gr_gid == group for m in g.gr_mem)}
    for user in _owners():
        with suppress(KeyError):
            users[pwd.getpwuid(user).pw_name] = pwd.getpwuid(user).pw_gid
    if users.get(found.gr_name) != found.gr_gid or not users.keys() >= listed:
        return False
    return all(each.pw_uid in _owners() for each in pwd.getpwall() if each.pw_gid == group)
