"""Runs move between clones by a git ref: sent, taken, fetched; no database."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.fleet import remote as remotes
from interlock.fleet.remote import Remote, RemoteAway, place_of
from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office


@pytest.mark.req("FLEET-06")
def test_a_run_goes_on_elsewhere_with_unsaved_work_and_commits(office: Office, ada: CommandLine, waiting: str) -> None:
    """The exact tree and commits that nobody pushed travel; no branch of the remote is written."""
    ada.run_git("commit", "-q", "--allow-empty", "-m", "never pushed")
    before = office.refs()
    sent = ada("fleet", "send", waiting)
    assert sent.code == 0, sent.err
    assert set(office.refs()) - set(before) == {f"refs/interlock/{waiting}"}
    gone = ada("resume", waiting)
    assert gone.code == 2 and f"interlock fleet take {waiting}" in gone.err
    assert "can be taken" in ada("show", waiting).out
    bob = office.clone("bob")
    taken = bob("fleet", "take", waiting)
    assert taken.code == 0, taken.err
    assert bob.read("notes.txt") == ada.read("notes.txt")
    assert bob.run_git("log", "-1", "--format=%s") == "never pushed"
    done = bob("approve", waiting)
    assert done.code == 0, done.err
    assert "# looked at" in bob.read("lib.py") and "# looked at" not in ada.read("lib.py")
    assert bob("fleet", "send", waiting).code == 0
    back = ada("fleet", "take", waiting)
    assert back.code == 0, back.err
    assert "# looked at" in ada.read("lib.py")
    assert ada("show", waiting, "--json").json["status"] == "complete"


@pytest.mark.req("FLEET-02")
def test_the_work_is_fetched_as_a_branch(office: Office, ada: CommandLine, waiting: str) -> None:
    """Its branch, its documents, its folder; HEAD, index, files and other branches stay as they are."""
    assert ada("fleet", "send", waiting).code == 0
    bob, cyd = office.clone("bob"), office.clone("cyd")
    assert bob("fleet", "take", waiting).code == 0
    assert bob("approve", waiting).code == 0
    cyd.write("lib.py", "mine\n")
    heads = cyd.run_git("for-each-ref", "refs/heads")
    found = cyd("fleet", "fetch", waiting)
    assert found.code == 0, found.err
    assert "# looked at" in cyd.run_git("show", f"interlock/{waiting}:lib.py")
    assert "hers, unsaved" in cyd.run_git("show", f"interlock/{waiting}~1:notes.txt")
    assert cyd.read("lib.py") == "mine\n" and cyd.run_git("rev-parse", "HEAD") == cyd.run_git("rev-parse", "main")
    assert cyd.run_git("for-each-ref", "refs/heads/main") == heads and cyd.run_git("diff", "--cached") == ""
    assert cyd("show", waiting, "--json").json["status"] == "complete"
    assert cyd("fleet", "fetch", waiting).code == 0  # again, as it is now
    assert not [ref for ref in office.refs() if ref.startswith("refs/heads/interlock")]


@pytest.mark.req("FLEET-04", "RUN-18")
def test_no_secret_travels(ada: CommandLine, waiting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not committed and holds a secret of the environment refuses the send, by name."""
    monkeypatch.setenv("SOME_TOKEN", "hunter2-and-more")
    ada.write("mine.txt", "password hunter2-and-more\n")
    refused = ada("fleet", "send", waiting)
    assert refused.code == 2 and "mine.txt" in refused.err and "hunter2" not in refused.err
    (ada.top / "mine.txt").unlink()
    assert ada("fleet", "send", waiting).code == 0


@pytest.mark.req("FLEET-06", "TREE-03")
def test_what_is_somebodys_is_not_overwritten(office: Office, ada: CommandLine, waiting: str) -> None:
    """It is said before anything is claimed; the run stays free, and comes elsewhere."""
    ada.run_git("commit", "-q", "--allow-empty", "-m", "hers")
    same, other, behind, cyd = map(office.clone, ("same", "other", "behind", "cyd"))
    same.run_git("pull", "-q", str(ada.top), "main")
    same.write("notes.txt", "one\ntwo\nthree\nhis own\n")
    other.run_git("commit", "-q", "--allow-empty", "-m", "his way")
    behind.write("his.txt", "his\n")
    assert ada("fleet", "send", waiting).code == 0
    tips = office.refs()
    for bob, why in ((same, "notes.txt"), (other, "different ways"), (behind, "not committed")):
        before = bob.run_git("status", "--porcelain")
        refused = bob("fleet", "take", waiting)
        assert refused.code == 2 and why in refused.err, refused.err
        assert (office.refs(), bob.run_git("status", "--porcelain")) == (tips, before)
    assert cyd("fleet", "take", waiting).code == 0
    assert "hers, unsaved" in cyd.read("notes.txt")


@pytest.mark.req("FLEET-06")
def test_another_branch_stays_checked_out(office: Office, ada: CommandLine, waiting: str) -> None:
    """The run's branch and records come, and no file of the other one changes."""
    assert ada("fleet", "send", waiting).code == 0
    bob = office.clone("bob")
    bob.run_git("checkout", "-q", "-b", "other")
    taken = bob("fleet", "take", waiting)
    assert taken.code == 0 and "git checkout main" in taken.err
    assert bob.run_git("status", "--porcelain") == ""


@pytest.mark.req("FLEET-06", "FLEET-03")
def test_who_has_a_run_is_asked_for_it_or_fenced_out(office: Office, ada: CommandLine, waiting: str) -> None:
    """`--over` takes it all the same; then its old place changes nothing of it any more."""
    assert ada("fleet", "send", waiting).code == 0
    bob, cyd = office.clone("bob"), office.clone("cyd")
    assert bob("fleet", "take", waiting).code == 0
    assert "is here already" in bob("fleet", "take", waiting).err
    refused = cyd("fleet", "take", waiting)
    assert refused.code == 2 and "not free" in refused.err
    assert cyd("fleet", "take", waiting, "--over").code == 0
    tips = office.refs()
    for words in (("approve", waiting), ("resume", waiting), ("fleet", "send", waiting)):
        fenced = bob(*words)
        assert fenced.code == 2 and "here" in fenced.err, fenced.err
    assert office.refs() == tips
    assert cyd("approve", waiting).code == 0
    assert bob("fleet", "take", waiting).code == 2  # it is Cyd's


@pytest.mark.req("FLEET-03", "RUN-08")
@pytest.mark.parametrize("words", [("resume", "RUN"), ("Make add right",)])
def test_what_is_recorded_of_a_taken_run_is_pushed(
    office: Office, ada: CommandLine, waiting: str, words: tuple[str, ...]
) -> None:
    """However it is gone on with: who looks from elsewhere sees it, and who took it over meanwhile keeps it."""
    assert ada("fleet", "send", waiting).code == 0
    bob, cyd = office.clone("bob"), office.clone("cyd")
    assert bob("fleet", "take", waiting).code == 0
    copy = cyd.top / ".interlock" / "far" / waiting / "journal.jsonl"
    assert cyd("show", waiting).code == 0 and '"resumed"' not in copy.read_text()
    typed = [waiting if word == "RUN" else word for word in words]
    assert bob(*typed).code == 4
    assert cyd("show", waiting).code == 0 and '"resumed"' in copy.read_text()
    assert cyd("fleet", "take", waiting, "--over").code == 0
    assert "took it over" in bob(*typed).err


@pytest.mark.req("FLEET-06")
@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("verb", ["send", "take"])
def test_who_is_cut_off_asks_again(
    office: Office, ada: CommandLine, waiting: str, verb: str, carried_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The push that gives or claims dies, before or after it was carried out: the run is in one place, whole."""
    swap, bob = Remote.swap, office.clone("bob")

    def dies(self: Remote, *words: str) -> bool:
        if carried_out:
            swap(self, *words)
        raise RemoteAway("the wire was cut")

    if verb == "take":
        assert ada("fleet", "send", waiting).code == 0
    who = ada if verb == "send" else bob
    monkeypatch.setattr(Remote, "swap", dies)
    assert who("fleet", verb, waiting).code == 5
    monkeypatch.setattr(Remote, "swap", swap)
    if verb == "send" and not carried_out:
        assert "interlock fleet take" in ada("resume", waiting).err
        assert ada("fleet", "take", waiting).code == 0  # it never left
        assert ada("fleet", "send", waiting).code == 0
    taken = bob("fleet", "take", waiting)
    assert taken.code == 0, taken.err
    assert bob("approve", waiting).code == 0


@pytest.mark.req("FLEET-06")
def test_a_push_whose_answer_was_lost_counts(
    office: Office, ada: CommandLine, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the ref says decides, not the exit code of git."""
    git = Remote.git

    def loses(self: Remote, *words: str, **how: object) -> remotes.Reply:
        reply = git(self, *words, **how)  # type: ignore[arg-type]
        return remotes.Reply(128, b"", b"the wire was cut") if words[0] == "push" else reply

    monkeypatch.setattr(Remote, "git", loses)
    assert ada("fleet", "send", waiting).code == 0
    assert office.clone("bob")("fleet", "take", waiting).code == 0


@pytest.mark.req("FLEET-06")
def test_a_remote_that_refuses_keeps_the_run_here(office: Office, ada: CommandLine, waiting: str) -> None:
    hook = office.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no such refs here' >&2\nexit 1\n")
    hook.chmod(0o755)
    refused = ada("fleet", "send", waiting)
    assert refused.code == 5 and "does not let" in refused.err and "no such refs here" in refused.err
    assert ada("approve", waiting).code == 0


JOURNAL = "run/journal/000000"
DAMAGE: dict[str, Callable[[dict[str, Any], dict[str, bytes]], object]] = {
    "another run": lambda about, files: about.update(run="task-20200101-000000-aaaa"),
    "an odd file": lambda about, files: files.update({"run/held.json": b"{}"}),
    "an option": lambda about, files: about.update(where={"place": ".", "branch": "--upload-pack=x"}),
    "no commit": lambda about, files: about.update(head="HEAD"),
    "forged": lambda about, files: files.update(
        {JOURNAL: files[JOURNAL].replace(b"Make add right", b"Make add wrong")}
    ),
}


@pytest.mark.req("FLEET-06")
def test_what_is_no_run_is_refused_before_it_is_claimed(office: Office, ada: CommandLine, waiting: str) -> None:
    """Somebody wrote something else into the ref: nothing of it is used."""
    assert ada("fleet", "send", waiting).code == 0
    tip, ref = ada.run_git("ls-remote", "origin", f"refs/interlock/{waiting}").split()
    bob = office.clone("bob")
    for why, damage in DAMAGE.items():
        rewrite(office.remote, tip, ref, damage)
        before = ada.run_git("ls-remote", "origin")
        refused = bob("fleet", "take", waiting)
        assert refused.code == 2 and "cannot be used" in refused.err, (why, refused.err)
        assert ada.run_git("ls-remote", "origin") == before
        assert not (bob.top / ".interlock/runs").exists() and bob.run_git("status", "--porcelain") == ""


def rewrite(remote: Path, tip: str, ref: str, damage: Callable[[dict[str, Any], dict[str, bytes]], object]) -> None:
    def git(*words: str, stdin: bytes = b"") -> bytes:
        env = {"GIT_INDEX_FILE": str(remote / "damaging"), "PATH": "/usr/bin:/bin"}
        argv = ["git", "-C", str(remote), *words]
        return subprocess.run(argv, input=stdin, env=env, capture_output=True, check=True).stdout

    def written(content: bytes, kind: str = "blob") -> str:
        return git("hash-object", "-w", "--no-filters", "-t", kind, "--stdin", stdin=content).decode().strip()

    names = git("ls-tree", "-r", "-z", "--name-only", tip).decode().split("\0")[:-1]
    files = {name: git("cat-file", "blob", f"{tip}:{name}") for name in names}
    about = json.loads(files["about.json"])
    damage(about, files)
    files["about.json"] = json.dumps(about).encode()
    rows = "".join(f"100644 {written(content)}\t{name}\0" for name, content in files.items())
    git("read-tree", "--empty")
    git("update-index", "-z", "--add", "--index-info", stdin=rows.encode())
    tree = git("write-tree").strip()
    git("update-ref", ref, written(b"tree " + tree + git("cat-file", "commit", tip)[45:], "commit"))


@pytest.mark.req("FLEET-06")
def test_what_cannot_be_sent_or_asked_is_said(office: Office, ada: CommandLine, waiting: str) -> None:
    for words, why in (
        (("fleet", "take", "task-20200101-000000-aaaa"), "has no run"),
        (("fleet", "fetch", waiting), "is here"),
        (("fleet", "send", "nothing"), "there is no run"),
    ):
        refused = ada(*words)
        assert refused.code == 2 and why in refused.err, refused.err
    ada.run_git("remote", "rename", "origin", "upstream")
    refused = ada("fleet", "send", waiting)
    assert refused.code == 2 and "[fleet] remote" in refused.err and "upstream" in refused.err


ADDRESSES = {
    "https://ada:secret@Example.org:8443/team/app.git": "example.org/team/app",
    "git@example.org:team/app.git": "example.org/team/app",
    "ssh://git@example.org/team/app/": "example.org/team/app",
    "file:///srv/app.git": "/srv/app",
    "/srv/team/../app.git": "/srv/app",
    "../srv/app.git": "/srv/app",
    "[::1]:team/app": "::1/team/app",
    "http://[x/app": "http://[x/app",
}


@pytest.mark.req("FLEET-04")
def test_one_repository_has_one_name() -> None:
    assert {address: place_of(address) for address in ADDRESSES} == ADDRESSES


@pytest.mark.req("RUN-18")
def test_a_password_of_an_address_is_in_no_message(ada: CommandLine, waiting: str) -> None:
    ada.run_git("remote", "set-url", "origin", "http://ada:hunter2@127.0.0.1:1/app.git")
    refused = ada("fleet", "send", waiting)
    assert refused.code == 5 and "hunter2" not in refused.err
