"""Signatures of artifacts: made and checked by the real ssh-keygen, and what can be wrong with them."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import time

import pytest

import ore
from ore.artifact import many
from ore.artifact.signers import Signers
from ore.artifact.signing import Signer
from ore.artifact.ssh_keygen import MOST_BYTES, read_armored, ssh_keygen
from ore.errors import ArtifactError, UsageError
from tests.support.closed import beside_a_closed_folder
from tests.support.keys import allow, forget_agent, make_key, make_keys, needs_ssh_keygen, public
from tests.support.runs import forge, record, rewrite

pytestmark = needs_ssh_keygen
NOON = 1_770_000_000.0  # of a day in February 2026
DATA = b'{"a": 1}\n'


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return make_keys(tmp_path_factory.mktemp("keys"))


@pytest.fixture(autouse=True)
def no_agent(monkeypatch):
    forget_agent(monkeypatch)


@pytest.fixture
def file(folder):
    path = folder / "run.json"
    path.write_bytes(DATA)
    path.chmod(0o600)
    return path


def signed(file, key):
    signer = Signer(str(key), once=True)
    signer.check()
    return signer.sign(file, file.read_bytes())


@pytest.fixture
def signers(folder, keys):
    return Signers(allow(folder / "lab.signers", ("ada@tides.example", keys / "ada")))


def problem_of(signers, file, at=NOON):
    found = signers.look(file, file.read_bytes(), at)
    assert found.by is None
    return found.problem


def test_a_file_is_signed_by_whom_the_allowed_signers_say(file, keys, signers):
    fingerprint = signed(file, keys / "ada")
    shown = subprocess.run(
        ["ssh-keygen", "-lf", keys / "ada.pub"], capture_output=True, text=True, check=True
    )
    found = signers.look(file, DATA, NOON)
    assert (found.by, found.problem) == ("ada@tides.example", None)
    assert found.key == fingerprint == shown.stdout.split()[1]
    assert stat.S_IMODE(os.stat(f"{file}.sig").st_mode) == 0o600


@pytest.mark.slow
def test_a_certificate_is_not_said_to_be_a_key_that_is_missing(file, folder, keys):
    made = make_key(folder / "lee"), make_key(folder / "authority")
    for name, begins, by in (("lee", "-1h", "lee"), ("mia", "-1h", None), ("lee", "+1h", None)):
        words = ["-q", "-s", made[1], "-I", "lee", "-n", name, "-V", f"{begins}:+9h"]
        subprocess.run(["ssh-keygen", *words, f"{made[0]}.pub"], check=True)
        signed(file, folder / "lee-cert.pub")
        signers = Signers(allow(folder / "all", ("lee", made[1]), options="cert-authority "))
        found = signers.look(file, DATA, time.time())
        assert found.by == by and (
            by is not None or "its certificate was not" in str(found.problem)
        )
        os.remove(f"{file}.sig")


def test_ssh_keygen_itself_takes_the_signature(file, keys, signers):
    signed(file, keys / "ada")
    done = subprocess.run(
        [
            *("ssh-keygen", "-Y", "verify", "-f", signers.path, "-I", "ada@tides.example"),
            *("-n", "ore.exec.v1", "-s", f"{file}.sig"),
        ],
        input=DATA,
        capture_output=True,
    )
    assert done.returncode == 0 and done.stdout.startswith(b'Good "ore.exec.v1" signature')


def test_a_key_that_has_no_size_is_not_read(tmp_path, monkeypatch):
    """ssh-keygen, which is not even looked for, would read one of the system's files without an end."""
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "key").touch()
    with pytest.raises(ArtifactError, match="not a key that ssh-keygen can read"):
        Signer(str(tmp_path / "key")).check()


def test_a_changed_file_a_strange_key_and_none_are_each_a_sentence(file, keys, signers):
    assert problem_of(signers, file) == f"nobody signed it: there is no {file}.sig"
    signed(file, keys / "ada")
    assert signers.look(file, DATA, NOON).problem is None  # and Ada's name is known from here on
    file.write_bytes(DATA + b" ")
    assert problem_of(signers, file) == (
        "its signature does not fit it: it was changed after it was signed"
    )
    os.unlink(f"{file}.sig")
    fingerprint = signed(file, keys / "eve")
    assert problem_of(signers, file) == f"its key {fingerprint} is not in {signers.path}"


def test_a_signature_for_something_else_is_none(file, keys, signers):
    made = ssh_keygen(["sign", "-f", str(keys / "ada"), "-n", "git"], DATA)
    file.with_name("run.json.sig").write_bytes(made.out)
    assert problem_of(signers, file) == "its signature is for 'git', not for ore.exec.v1"


@pytest.mark.parametrize(
    "options, why",
    [
        ('valid-before="20200101" ', "was no longer valid at the time of the run"),
        ('valid-after="20990101" ', "was not yet valid at the time of the run"),
        ('namespaces="git" ', "may not sign for ore.exec.v1"),
    ],
)
def test_what_limits_a_key_is_held(file, keys, folder, options, why):
    fingerprint = signed(file, keys / "ada")
    limited = allow(folder / "limited", ("ada", keys / "ada"), options=options)
    assert problem_of(Signers(limited), file) == f"its key {fingerprint} {why}"


@pytest.mark.slow
def test_the_time_is_that_of_the_run_and_not_of_today(file, keys, folder):
    signed(file, keys / "ada")
    options = 'valid-after="20260101",valid-before="20260301" '
    signers = Signers(allow(folder / "then", ("ada", keys / "ada"), options=options))
    assert signers.look(file, DATA, NOON).by == "ada"
    assert "no longer valid" in problem_of(signers, file, NOON + 90 * 86400)
    assert "not yet valid" in problem_of(signers, file, NOON - 90 * 86400)


@pytest.mark.usefixtures("far_away")
def test_the_time_of_a_run_is_told_in_the_zone_that_ssh_keygen_reads_it_in(file, keys, folder):
    signed(file, keys / "ada")
    first, last = (
        time.strftime("%Y%m%d%H%M", time.localtime(NOON + 3600 * hours)) for hours in (-1, 1)
    )
    options = f'valid-after="{first}",valid-before="{last}" '
    signers = Signers(allow(folder / "then", ("ada", keys / "ada"), options=options))
    assert signers.look(file, DATA, NOON).by == "ada"


@pytest.mark.parametrize("at", [None, 1e300, -5e9, 0.0, 2.6e11, float("nan"), float("inf")])
def test_a_time_that_is_none_is_a_sentence(file, keys, signers, at):
    signed(file, keys / "ada")
    wanted = "its signature can't be judged: it does not say when it was made"
    assert problem_of(signers, file, at) == wanted


def test_a_key_may_stand_under_several_names_and_a_name_holds_odd_letters(file, keys, folder):
    signed(file, keys / "ada")
    allowed = allow(folder / "odd", ("ada,*@tides.example", keys / "ada"))
    assert Signers(allowed).look(file, DATA, NOON).by == "ada"
    allowed.write_text(f'"a\tb\x1b[31m" {public(keys / "ada")}\n')
    assert Signers(allowed).look(file, DATA, NOON).by == "a\tb\x1b[31m"
    allowed.write_bytes(b"\xff\xfe " + public(keys / "ada").encode() + b"\n")
    assert Signers(allowed).look(file, DATA, NOON).by == "��"


@pytest.mark.parametrize(
    "principals, by",
    [
        ("!ann,*", None),
        ("*", None),
        ("*@tides.example", None),
        ("ad?", None),
        ("!ann,ann", None),
        ("!ann,*,ada", "ada"),
        ("*@tides.example,ada@tides.example", "ada@tides.example"),
        ('"ada lovelace,*"', "ada lovelace"),
        ('"!ada lovelace,*"', None),
    ],
)
def test_only_a_name_has_signed_and_no_pattern(file, keys, folder, principals, by):
    signed(file, keys / "ada")
    signers = Signers(allow(folder / "odd", (principals, keys / "ada")))
    for _ in range(2):  # what was found out is remembered
        found = signers.look(file, DATA, NOON)
        assert found.by == by and (found.problem is None) is (by is not None)
        assert found.key is not None and "\n" not in (found.problem or "")


def test_a_pattern_that_is_nobody_s_name_is_shown_and_drives_no_terminal(file, keys, folder):
    fingerprint = signed(file, keys / "ada")
    signers = Signers(allow(folder / "odd", ('"*\x1b[31m"', keys / "ada")))
    assert problem_of(signers, file) == (
        f"its key {fingerprint} is listed in {folder / 'odd'} for '*^[[31m', which is not a name; "
        f"give it a line with one"
    )


@pytest.mark.parametrize("end", [b"\r\n", b"\r", b" \n", b"\n\n"])
def test_a_signature_may_have_other_line_ends(file, keys, signers, end):
    signed(file, keys / "ada")
    beside = file.with_name("run.json.sig")
    beside.write_bytes(end + beside.read_bytes().replace(b"\n", end))
    assert signers.look(file, DATA, NOON).by == "ada@tides.example"


@pytest.mark.parametrize(
    "data, why",
    [
        (b"", "it is not an SSH signature"),
        (b"\0" * 100, "it is not an SSH signature"),
        (b"-----BEGIN SSH SIGNATURE-----\n", "it is not an SSH signature"),
        (b"-----BEGIN SSH SIGNATURE-----\n!\n-----END SSH SIGNATURE-----", "its Base64 is damaged"),
        (b"-----BEGIN SSH SIGNATURE-----\nQUJD\n-----END SSH SIGNATURE-----", "of version 1"),
        (
            b"-----BEGIN SSH SIGNATURE-----\nU1NIU0lHAAAAAf////8=\n-----END SSH SIGNATURE-----",
            "it is cut short",
        ),
        (b"x" * (MOST_BYTES + 1), f"it is larger than {MOST_BYTES:,} bytes"),
    ],
)
def test_what_is_no_signature_is_a_sentence(file, signers, data, why):
    file.with_name("run.json.sig").write_bytes(data)
    assert why in problem_of(signers, file)


def test_a_signature_that_was_cut_inside_is_a_sentence(file, keys, signers):
    signed(file, keys / "ada")
    beside = file.with_name("run.json.sig")
    lines = beside.read_bytes().splitlines()
    beside.write_bytes(b"\n".join([*lines[:-2], b"", lines[-1]]))
    assert "its signature" in problem_of(signers, file)


@pytest.mark.parametrize("kind", ["fifo", "folder", "device", "loop"])
def test_what_is_no_file_is_not_waited_for(file, keys, signers, kind):
    beside = f"{file}.sig"
    make = {
        "fifo": lambda: os.mkfifo(beside),
        "folder": lambda: os.mkdir(beside),
        "device": lambda: os.symlink("/dev/zero", beside),
        "loop": lambda: os.symlink(beside, beside),
    }
    make[kind]()
    assert "its signature can't be used: " in problem_of(signers, file)
    with pytest.raises(ArtifactError, match="is there already and is no signature"):
        signed(file, keys / "ada")


def test_a_signature_of_the_same_key_is_replaced_and_no_other_file(file, keys):
    signed(file, keys / "ada")
    file.write_bytes(b"another run")
    signed(file, keys / "ada")
    beside = file.with_name("run.json.sig")
    kept = beside.read_bytes()
    with pytest.raises(ArtifactError, match="it is there already, of another key; move it away"):
        signed(file, keys / "eve")
    assert beside.read_bytes() == kept
    beside.write_text("a diary")
    with pytest.raises(ArtifactError, match="is there already and is no signature"):
        Signer(str(keys / "ada")).check_place(file)


def test_what_can_t_be_read_is_not_said_to_be_no_signature(keys):
    with beside_a_closed_folder() as (there, _):
        (there / "run.json.sig").write_text("-----BEGIN SSH SIGNATURE-----")
        (there / "run.json.sig").chmod(0)
        words = r"already and can't be read \(permission denied\); move it away first"
        with pytest.raises(ArtifactError, match=words):
            Signer(str(keys / "ada")).check_place(there / "run.json")


def test_what_is_no_file_is_not_signed(folder, keys):
    os.mkfifo(folder / "pipe")
    with pytest.raises(ArtifactError, match="pipe is not a regular file"):
        Signer(str(keys / "ada")).check_place(folder / "pipe")
    record(folder / "a.json", "hi")
    pipe, write = os.pipe()
    os.write(write, (folder / "a.json").read_bytes())
    os.close(write)
    [checked] = ore.sign([f"/dev/fd/{pipe}"], keys / "ada").checked
    os.close(pipe)
    assert "is not a regular file" in checked.signature.problem


@pytest.mark.parametrize(
    "name, why",
    [
        ("none", "no such file or directory"),
        ("folder", "it is not a regular file"),
        ("text", "it is not a key that ssh-keygen can read"),
        ("sparse", "it is not a key that ssh-keygen can read"),
        ("open", "others can read it; run chmod 600 on it"),
        ("half.pub", "its private key is neither beside it nor with an agent; run ssh-add"),
        ("locked", "it would ask for its passphrase for each file; run ssh-add on it first"),
    ],
)
def test_a_key_that_can_t_sign_is_known_before_and_why(folder, keys, name, why):
    (folder / "folder").mkdir()
    (folder / "text").write_text("not a key")
    (folder / "sparse").touch(mode=0o600)
    os.truncate(folder / "sparse", 1 << 42)
    shutil.copy(keys / "ada", folder / "open")
    (folder / "open").chmod(0o644)
    shutil.copy(keys / "ada.pub", folder / "half.pub")
    shutil.copy(keys / "locked", folder / "locked")
    with pytest.raises(ArtifactError) as raised:
        Signer(str(folder / name)).check()
    assert str(raised.value) == f"The key {folder / name} can't sign: {why}."


def test_a_public_key_signs_with_the_agent_that_has_the_private_one(file, keys, signers, tmp_path):
    if not shutil.which("ssh-agent"):
        pytest.skip("there is no ssh-agent (openssh-client)")
    place = str(tmp_path / "agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", place], stdout=subprocess.DEVNULL)
    try:
        while not os.path.exists(place):
            assert agent.poll() is None
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SSH_AUTH_SOCK", place)
            subprocess.run(["ssh-add", "-q", keys / "ada"], check=True)
            shutil.copy(keys / "ada.pub", tmp_path / "ada.pub")
            signed(file, tmp_path / "ada.pub")
    finally:
        agent.terminate()
        agent.wait()
    assert signers.look(file, DATA, NOON).by == "ada@tides.example"


@pytest.mark.parametrize("text", ["", "\n \n", "# ada@tides.example ssh-ed25519 AAAA\n"])
def test_a_file_that_names_nobody_is_an_error(folder, text):
    (folder / "none").write_text(text)
    with pytest.raises(ArtifactError, match="names no allowed signer"):
        Signers(folder / "none")


def test_a_malformed_line_of_the_allowed_signers_is_shown(file, keys, folder):
    signed(file, keys / "ada")
    (folder / "bad").write_text("garbage\n")
    assert "bad (ssh-keygen: " in problem_of(Signers(folder / "bad"), file)
    for name in ("nothing", "folder"):
        (folder / "folder").mkdir(exist_ok=True)
        with pytest.raises(ArtifactError, match="The allowed signers can't be read"):
            Signers(folder / name)


def test_without_ssh_keygen_it_is_said_what_to_install(file, keys, folder, monkeypatch):
    lab = allow(folder / "lab", ("ada", keys / "ada"))
    signed(file, keys / "ada")
    signers = Signers(lab)
    monkeypatch.setenv("PATH", str(folder))
    for use in (lambda: Signer(str(keys / "ada")).check(), lambda: Signers(lab)):
        with pytest.raises(ArtifactError, match="no program ssh-keygen.*install OpenSSH's client"):
            use()
    assert "no program ssh-keygen" in problem_of(signers, file)


def test_one_that_never_ends_is_ended(file, keys, folder, monkeypatch):
    (folder / "ssh-keygen").write_text("#!/bin/sh\nexec sleep 100\n")
    (folder / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("ore.artifact.ssh_keygen.SECONDS", 0.1)
    with pytest.raises(ArtifactError, match="took longer than 0.1 seconds and was ended"):
        Signer(str(keys / "ada")).check()


@pytest.mark.slow
@pytest.mark.parametrize(
    "said, why",
    [
        ("Confirm user presence for key ED25519-SK SHA256:x", "said: 'Confirm user presence for"),
        ("", "A security key may wait to be touched, or an agent for its question"),
    ],
)
def test_what_a_signing_waited_for_is_said(file, keys, folder, monkeypatch, said, why):
    (folder / "ssh-keygen").write_text(f"#!/bin/sh\necho '{said}' >&2\nexec sleep 100\n")
    (folder / "ssh-keygen").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr("ore.artifact.ssh_keygen.SECONDS", 0.3)
    with pytest.raises(ArtifactError, match=f"longer than 0.3 seconds and was ended.*{why}"):
        Signer(str(keys / "ada")).check()


@pytest.mark.slow
@pytest.mark.invariant
def test_a_forged_run_whose_hashes_were_made_anew_is_not_signed(folder, keys):
    """What a seal can't show."""
    path = folder / "run.json"
    record(path, "hi")
    signed(path, keys / "ada")
    lab = allow(folder / "lab", ("ada", keys / "ada"))
    held = ore.verify([path], allowed_signers=lab)
    assert held.holds and held.checked[0].signature.by == "ada"
    forge(path, "Paris", "Lyon")
    assert ore.verify([path]).holds
    found = ore.verify([path], allowed_signers=lab)
    assert not found.holds and found.checked[0].state == "not signed"
    assert found.checked[0].signature.problem == (
        "its signature does not fit it: it was changed after it was signed"
    )


def test_a_program_asks_for_signatures_of_files_not_of_objects(folder, keys):
    path = folder / "run.json"
    record(path, "hi")
    artifact = ore.ExecutionArtifact.from_dict(rewrite(path, lambda document: None))
    lab = allow(folder / "lab", ("ada", keys / "ada"))
    found = ore.verify([artifact], allowed_signers=lab).checked[0]
    assert found.state == "not signed"
    assert found.signature.problem == "nobody signed it: give the path of its file"
    with pytest.raises(ArtifactError):
        ore.verify([path], allowed_signers=folder / "nothing")


@pytest.mark.slow
def test_the_processes_that_read_many_files_check_their_signatures(folder, keys, monkeypatch):
    monkeypatch.setattr(many, "ALONE", 4)
    record(folder / "run.json", "hi")
    for number in range(12):
        shutil.copy(folder / "run.json", folder / f"{number:02}.json")
        if number != 7:
            signed(folder / f"{number:02}.json", keys / "ada")
    signers = Signers(allow(folder / "lab", ("ada", keys / "ada")))
    paths = [str(folder / f"{number:02}.json") for number in range(12)]
    found = [*many.check_each(paths, lambda done: None, signers)]
    assert [each.path for each in found if each.signature.problem] == [paths[7]]


def test_a_signature_says_whose_key_and_what_for(file, keys):
    signed(file, keys / "ada")
    said = read_armored(file.with_name("run.json.sig").read_bytes())
    assert said.namespace == "ore.exec.v1" and said.key.startswith(b"\0\0\0\x0bssh-ed25519")


def test_a_program_signs_what_holds_and_nothing_else(folder, keys):
    for name in ("a", "b", "c"):
        record(folder / f"{name}.json", "hi")
    forge(folder / "c.json", "Hello", "Ho")
    rewrite(folder / "b.json", lambda document: document["output"].update(content="Ho"))
    told = []
    found = ore.sign([folder], keys / "ada", told=lambda *counts: told.append(counts))
    assert not found.holds and found.counts == {"holds": 2, "broken": 1}
    assert told == [(1, 2), (2, 2)] and not os.path.lexists(folder / "b.json.sig")
    assert found.checked[0].signature.key.startswith("SHA256:")
    lab = allow(folder / "lab", ("ada@tides.example", keys / "ada"))
    found = ore.verify([folder / "a.json"], allowed_signers=lab)
    assert found.holds and found.checked[0].signature.by == "ada@tides.example"


def test_what_a_program_can_not_sign_does_not_hold(folder, keys):
    for name in ("a", "b", "c"):
        record(folder / f"{name}.json", "hi")
    ore.sign([folder / "c.json"], keys / "eve")

    def meanwhile(done, of):
        if done == 1:
            rewrite(folder / "b.json", lambda document: document["output"].update(content="Ho"))

    found = ore.sign([folder], keys / "ada", told=meanwhile)
    problems = [each.signature.problem for each in found.checked]
    assert problems[:2] == [None, "It was changed meanwhile"] and "of another key" in problems[2]
    assert found.counts == {"holds": 1, "not signed": 2}
    with pytest.raises(ArtifactError, match="can't sign"):
        ore.sign([folder], folder / "none")
    with pytest.raises(UsageError, match="stdin"):
        ore.sign(["-"], keys / "ada")


def test_a_signature_has_the_permissions_of_its_file(file, keys):
    before = os.umask(0o022)  # whoever runs the tests may have another
    try:
        for mode in (0o600, 0o640, 0o644):
            file.chmod(mode)
            signed(file, keys / "ada")
            assert stat.S_IMODE(file.with_name("run.json.sig").stat().st_mode) == mode
    finally:
        os.umask(before)


def test_the_key_of_several_files_asks_in_no_window_either(folder, keys, monkeypatch):
    asks = folder / "asks"
    asks.write_text(f"#!/bin/sh\n: > {folder}/asked\n")
    asks.chmod(0o700)
    monkeypatch.setenv("SSH_ASKPASS", str(asks))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(ArtifactError, match="it would ask for its passphrase for each file"):
        Signer(str(keys / "locked")).check()
    assert not (folder / "asked").exists()


def test_the_key_of_several_files_asks_for_no_passphrase(folder, keys):
    record(folder / "a.json", "hi")
    with pytest.raises(ArtifactError, match="for each file"):
        ore.sign([folder], keys / "locked")
    assert not os.path.lexists(folder / "a.json.sig")


def test_a_program_that_ignores_the_ends_of_its_children_takes_no_wrong_signature(
    file, keys, signers
):
    signed(file, keys / "ada")
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert signers.look(file, DATA, NOON).by == "ada@tides.example"
        for _ in range(2):  # the name of the key is known the second time
            file.write_bytes(DATA + b" ")
            assert "does not fit it" in problem_of(signers, file)
    finally:
        signal.signal(signal.SIGCHLD, before)
