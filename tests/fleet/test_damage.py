"""What a remote has of a run is not believed before it is whole; secrets stay where they are."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Workspace
from tests.fleet.conftest import Office, git
from tests.fleet.test_moving import waiting_run

Entry = tuple[str, str, str]


def entries(office: Office, tree: str) -> list[Entry]:
    """(mode and kind, object, name) of a tree of the remote."""
    listed = git(office.bare, "ls-tree", tree).splitlines()
    return [
        (about.rsplit(" ", 1)[0], about.rsplit(" ", 1)[1], name) for about, name in (row.split("\t") for row in listed)
    ]


def made(office: Office, kind: str, content: bytes) -> str:
    words = ["git", "mktree", "--missing"] if kind == "tree" else ["git", "hash-object", "-w", "--stdin"]
    return (
        subprocess.run(words, cwd=office.bare, input=content, check=True, capture_output=True).stdout.decode().strip()
    )


def changed(office: Office, tree: str, path: str, change: Callable[[list[Entry]], list[Entry]]) -> str:
    """The tree with other entries in one of its folders."""
    first, _, rest = path.partition("/")
    listed = entries(office, tree)
    if not path:
        listed = change(listed)
    else:
        listed = [
            (about, changed(office, name, rest, change) if found == first else name, found)
            for about, name, found in listed
        ]
    return made(office, "tree", "".join(f"{about} {name}\t{found}\n" for about, name, found in listed).encode())


def without(name: str) -> Callable[[list[Entry]], list[Entry]]:
    return lambda listed: [entry for entry in listed if entry[2] != name]


FORGED: dict[str, tuple[str, Callable[[Office], Callable[[list[Entry]], list[Entry]]], str]] = {
    "no claim": ("", lambda _: without("claim.json"), "no readable claim.json"),
    "a claim that is none": (
        "",
        lambda office: (
            lambda listed: [
                *without("claim.json")(listed),
                ("100644 blob", made(office, "blob", b"{"), "claim.json"),
            ]
        ),
        "no readable claim.json",
    ),
    "a journal without its end": ("journal", lambda _: lambda listed: listed[:-1], "ends with line"),
    "a journal without its beginning": ("journal", lambda _: lambda listed: listed[1:], "are missing"),
    "a line that nobody wrote": (
        "journal",
        lambda office: (
            lambda listed: [
                *listed[:-1],
                ("100644 blob", made(office, "blob", b"{}\n" * lines_of(listed[-1][2])), listed[-1][2]),
            ]
        ),
        "is not a journal line",
    ),
    "an object that is gone": ("run/objects", lambda _: lambda listed: listed[1:], "object"),
    "another run's identity": (
        "run",
        lambda office: (
            lambda listed: [
                *without("run.json")(listed),
                ("100644 blob", made(office, "blob", b"{}"), "run.json"),
            ]
        ),
        "run.json",
    ),
    "a link among the records": (
        "run",
        lambda office: lambda listed: [*listed, ("120000 blob", made(office, "blob", b"/etc/passwd"), "notes")],
        "is no plain file",
    ),
    **{
        f"a claim with {more}": (
            "",
            lambda office, more=more: claiming(office, more),  # type: ignore[misc]
            "no readable claim.json",
        )
        for more in (
            {"branch": "a\0b"},
            {"branch": "-d"},
            {"branch": "HEAD"},
            {"holder": "ada\x1b[2J\nError: all is well"},
            {"prefix": "../beside/"},
            {"since": "\ud800"},
            {"orders": []},
            {"orders": {"budget": "all of it"}},
            {"orders": {"flags": ["no_preflight"]}},
            {"orders": {"labels": [1]}},
        )
    },
    "a file in the engine's folder": ("tree", lambda office: planted(office, ".interlock"), "that no workspace has"),
    "a file in git's folder": ("tree", lambda office: planted(office, ".git"), "that no workspace has"),
    "a file beside the workspace": ("tree", lambda office: planted(office, ".."), "that no workspace has"),
}


def claiming(office: Office, more: dict[str, Any]) -> Callable[[list[Entry]], list[Entry]]:
    """A claim that says something else too."""

    def change(listed: list[Entry]) -> list[Entry]:
        (claim,) = (name for _, name, found in listed if found == "claim.json")
        said = {**json.loads(git(office.bare, "cat-file", "blob", claim)), **more}
        blob = made(office, "blob", json.dumps(said).encode())
        return [*without("claim.json")(listed), ("100644 blob", blob, "claim.json")]

    return change


def planted(office: Office, folder: str) -> Callable[[list[Entry]], list[Entry]]:
    """One more folder, with a file in it."""
    below = made(office, "tree", f"100644 blob {made(office, 'blob', b'evil')}\tevil.txt\n".encode())
    return lambda listed: [*listed, ("040000 tree", below, folder)]


def lines_of(segment: str) -> int:
    first, last = segment.removesuffix(".jsonl").split("-")
    return int(last) - int(first) + 1


@pytest.mark.req("WK-10")
def test_what_was_damaged_or_forged_is_refused_and_changes_nothing(office: Office) -> None:
    """Each way is told; no claim is made, no folder appears, the tree stays."""
    laptop, other = office.clone("laptop"), office.clone("other")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    assert laptop("take", run).code == 0
    assert laptop("reject", run, "--note", "no").code == 0
    assert laptop("send", run).code == 0
    ref = f"refs/interlock/{run}/state"
    good = office.refs()[ref]
    assert len(entries(office, f"{good}:journal")) == 2, "a checkpoint adds one segment"
    before = other.digest()
    for what, (path, change, complaint) in FORGED.items():
        tree = changed(office, f"{good}^{{tree}}", path, change(office))
        forged = git(office.bare, "commit-tree", tree, "-p", good, "-m", "forged")
        git(office.bare, "update-ref", ref, forged)
        refused = other("take", run)
        assert refused.code == 2, (what, refused.stderr)
        assert complaint in refused.stderr, (what, refused.stderr)
        assert office.refs()[ref] == forged, what
        assert other.folders == [], what
        assert list(office.folder.rglob("evil.txt")) == [], what
        assert git(other.root, "status", "--porcelain") == "", what
    git(office.bare, "update-ref", ref, good)
    assert other("take", run).code == 0
    assert before != other.digest()


@pytest.mark.req("WK-10")
def test_records_that_nobody_could_read_are_refused_though_their_chain_is_whole(office: Office) -> None:
    """Whoever may push can make a chain of hashes too; a run like that would keep `runs` and `show` from answering."""
    laptop, other = office.clone("laptop"), office.clone("other")
    run = waiting_run(laptop)
    assert laptop("send", run).code == 0
    ref = f"refs/interlock/{run}/state"
    good = office.refs()[ref]
    lines = laptop.journal()
    identity = json.loads((laptop.folders[0] / "run.json").read_bytes())
    several: list[dict[str, Any]] = [{"inputs": []}, {"started_at": "no time"}, {"key": "a\0b"}, {"before": [1]}]
    for more in several:
        forged = git(office.bare, "commit-tree", chained(office, good, {**identity, **more}, lines), "-m", "forged")
        git(office.bare, "update-ref", ref, forged)
        for verb in ("take", "fetch"):
            refused = other(verb, run)
            assert refused.code == 2, (more, refused.stderr)
            assert "cannot be used" in refused.stderr
        assert office.refs()[ref] == forged
        assert other.folders == []
    same = git(office.bare, "commit-tree", chained(office, good, identity, lines), "-p", good, "-m", "the same")
    git(office.bare, "update-ref", ref, same)
    taken = other("take", run)
    assert taken.code == 0, "what was forged is whole but for that: " + taken.stderr


def chained(office: Office, commit: str, identity: dict[str, Any], lines: list[dict[str, Any]]) -> str:
    """The tree of a checkpoint with another ``run.json``, and all that follows from it."""
    raw = json.dumps(identity).encode()
    last = digest = hashlib.sha256(raw).hexdigest()
    journal = b""
    for line in lines:
        fields = {name: value for name, value in line.items() if name != "hash"} | {"prev": last}
        body = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
        last = hashlib.sha256(body).hexdigest()
        journal += body[:-1] + f',"hash":"{last}"}}\n'.encode()
    segment = f"100644 blob {made(office, 'blob', journal)}\t000001-{len(lines):06d}.jsonl\n"
    folder: Entry = ("040000 tree", made(office, "tree", segment.encode()), "journal")
    record = made(office, "blob", raw)
    tree = changed(office, f"{commit}^{{tree}}", "", claiming(office, {"last": last}))
    tree = changed(office, tree, "", lambda listed: [*without("journal")(listed), folder])
    tree = changed(office, tree, "run", lambda listed: [*without("run.json")(listed), plain(record, "run.json")])
    return changed(office, tree, "run/objects", lambda listed: [*without(digest)(listed), plain(record, digest)])


def plain(blob: str, name: str) -> Entry:
    return ("100644 blob", blob, name)


@pytest.mark.req("WK-10")
def test_a_remote_that_is_away_is_said_and_nothing_is_half_done(office: Office) -> None:
    """Sending and taking say so; the run stays usable where it is, and goes on where its remote cannot be asked."""
    laptop, other = office.clone("laptop"), office.clone("other")
    run = waiting_run(laptop)
    nowhere = laptop("send", run, "--remote", "upstream")
    assert nowhere.code == 2
    assert "there is no remote 'upstream'" in nowhere.stderr
    gone = office.bare.rename(office.folder / "gone.git")
    refused = laptop("send", run)
    assert refused.code == 5
    assert "the remote origin cannot be reached" in refused.stderr
    assert laptop("show", run).code == 0
    gone.rename(office.bare)
    assert laptop("send", run).code == 0
    assert other("take", run).code == 0
    office.bare.rename(gone)
    approved = other("approve", run, "--resume")
    assert approved.code == 0, approved.stderr
    assert "Nobody can say whether somebody else took this run over" in approved.stderr


@pytest.mark.req("WK-10")
def test_a_remote_that_does_not_let_a_run_be_written_takes_none_away(office: Office) -> None:
    """A hook of the remote, or its rights: the reason is told, and the run goes on where it is."""
    laptop, other = office.clone("laptop"), office.clone("other")
    run = waiting_run(laptop)
    hook = office.bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho nobody writes here >&2\nexit 1\n", "utf-8")
    hook.chmod(0o755)
    refused = laptop("send", run)
    assert refused.code == 5
    assert "the remote origin does not let refs/interlock/" in refused.stderr
    assert "nobody writes here" in refused.stderr
    assert laptop("reject", run, "--note", "once more").code == 0
    hook.rename(office.folder / "hook")
    assert laptop("send", run).code == 0
    (office.folder / "hook").rename(hook)
    assert other("take", run).code == 5
    assert other.folders == []
    assert git(other.root, "status", "--porcelain") == ""
    hook.unlink()
    assert other("take", run).code == 0


@pytest.mark.req("WK-16")
def test_secrets_do_not_travel(office: Office) -> None:
    """Settings or other new work that hold one refuse the send by name; the environment is recorded nowhere."""
    laptop, other = office.clone("laptop"), office.clone("other")
    secret = "sk-0123456789abcdef"
    settings = (laptop.root / "interlock.toml").read_text("utf-8")
    table = f'[runners.mine]\ntype = "command"\nargv = ["true"]\nenv = {{ API_KEY = "{secret}" }}\n'
    run = waiting_run(laptop)

    def refused_for(path: str) -> None:
        refused = laptop("send", run, MY_TOKEN="ghp-aaaabbbbcccc")
        assert refused.code == 2
        assert path in refused.stderr
        assert not any(one in refused.stderr for one in (secret, "ghp-aaaabbbbcccc"))
        assert not any(ref.startswith("refs/interlock") for ref in office.refs())

    (laptop.root / "interlock.toml").write_text(settings + table, "utf-8")
    refused_for("interlock.toml")
    (laptop.root / "interlock.toml").write_text(settings, "utf-8")
    (laptop.root / "notes.txt").write_text("the token is ghp-aaaabbbbcccc\n", "utf-8")
    refused_for("notes.txt")
    (laptop.root / "notes.txt").unlink()
    assert laptop("send", run, MY_TOKEN="ghp-aaaabbbbcccc", OTHER_TOKEN="never-recorded-value").code == 0
    assert not any(one in everything(office) for one in (secret.encode(), b"ghp-aaaabbbbcccc", b"never-recorded"))
    assert other("take", run).code == 0


@pytest.mark.req("WK-16")
def test_a_secret_in_an_earlier_snapshot_does_not_travel(office: Office) -> None:
    """A snapshot that the journal names may hold what the tree holds no more."""
    laptop = office.clone("laptop")
    (laptop.root / "notes.txt").write_text("the token is ghp-aaaabbbbcccc\n", "utf-8")
    run = waiting_run(laptop)
    (laptop.root / "notes.txt").unlink()
    refused = laptop("send", run, MY_TOKEN="ghp-aaaabbbbcccc")
    assert refused.code == 2
    assert "notes.txt" in refused.stderr
    assert b"ghp-aaaabbbbcccc" not in everything(office)


@pytest.mark.req("WK-16")
def test_a_secret_in_the_records_does_not_travel(office: Office) -> None:
    """Records are redacted by what was known when they were written; what is known now is looked for again."""
    laptop = office.clone("laptop")
    assert laptop("run", "toy", "ghp-aaaabbbbcccc").code == 4
    refused = laptop("send", "latest", MY_TOKEN="ghp-aaaabbbbcccc")
    assert refused.code == 2
    assert "run.json" in refused.stderr
    assert b"ghp-aaaabbbbcccc" not in everything(office)
    assert laptop("approve", "latest", "--resume").code == 0, "it goes on where it is"


def everything(office: Office) -> bytes:
    """All bytes that the remote holds."""
    words = ["git", "cat-file", "--batch", "--batch-all-objects"]
    return subprocess.run(words, cwd=office.bare, check=True, capture_output=True).stdout


@pytest.mark.req("WK-10")
def test_a_folder_without_a_repository_sends_too(office: Office, tmp_path: Path, door: str) -> None:
    """The remote is an address then; whoever takes the run may be in a folder like it."""
    folders = []
    for name in ("plain", "plainer"):
        root = tmp_path / name
        root.mkdir()
        (tmp_path / f"{name}-state").mkdir()
        (root / "interlock.toml").write_bytes((office.folder / "seed" / "interlock.toml").read_bytes())
        (root / "scenario.yaml").write_text(json.dumps({"reactions": []}), "utf-8")
        folders.append(Workspace(root, tmp_path / f"{name}-state", door))
    here, there = folders
    run = waiting_run(here)
    sent = here("send", run, "--remote", office.address)
    assert sent.code == 0, sent.stderr
    (there.root / "scenario.yaml").unlink()
    (there.root / "interlock.toml").unlink()
    taken = there("-C", str(there.root), "take", run, "--remote", office.address)
    assert taken.code == 0, taken.stderr
    assert there("-C", str(there.root), "approve", run, "--resume").code == 0
