"""The mounts of a layer: pure, the same for both makers, and in an order in which they can be made."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from interlock.workspace.layers.launcher import order
from interlock.workspace.layers.view import (
    Bind,
    Mask,
    Mount,
    Overlay,
    Tmpfs,
    Wanted,
    bubblewrap_words,
    mount_points,
    mounts_for,
    records,
    uppers,
)

P = Path
PLAIN = Wanted(
    top=P("/srv/work"),
    engine=P("/srv/work/.interlock"),
    store=P("/srv/work/.interlock/layers/r-1"),
    start="s1",
    inner=P("/srv/work/.interlock/layers/r-1/inner"),
    exchange=P("/srv/work/.interlock/layers/r-1/exchange"),
    tmp=P("/srv/work/.interlock/layers/r-1/tmp"),
    homes=(P("/home"), P("/root")),
    scratch=(P("/tmp"), P("/var/tmp")),
    services=(P("/run"),),
    home=P("/home/ann"),
    private_home=P("/srv/work/.interlock/layers/r-1/home"),
)


def by_place(wanted: Wanted) -> dict[str, Mount]:
    return {str(mount.at): mount for mount in mounts_for(wanted)}


def test_outer_mounts_come_first() -> None:
    """No mount stands after one that lies below it: otherwise it would hide that."""
    wanted = replace(
        PLAIN,
        top=P("/home/ann/work"),
        engine=P("/home/ann/work/.interlock"),
        shown_folders=tuple((P(shown), P(shown)) for shown in ("/home/ann/.cargo", "/home/ann/main")),
        git_dirs=(P("/home/ann/main/.git"),),
        masked=(P("/home/ann/.cargo/credentials"), P("/var/lib/x.sock")),
        team=("agents",),
    )
    places = [mount.at for mount in mounts_for(wanted)]
    assert not [(a, b) for a, b in combinations(places, 2) if a.is_relative_to(b)]
    assert len(places) == len(set(places))


def test_everything_private_is_there() -> None:
    """Homes empty, HOME private, temporary folders on disk, services empty, the workspace laid over."""
    mounts = by_place(PLAIN)
    assert mounts["/home"] == Tmpfs(P("/home"))
    assert mounts["/home/ann"] == Bind(PLAIN.private_home or P(), P("/home/ann"), writable=True)
    assert mounts["/tmp"] == Bind(PLAIN.tmp / "0", P("/tmp"), writable=True)
    assert mounts["/var/tmp"] == Bind(PLAIN.tmp / "1", P("/var/tmp"), writable=True)
    assert mounts["/run"] == Tmpfs(P("/run"), writable=True)
    work = mounts["/srv/work"]
    assert isinstance(work, Overlay) and work.lasting
    assert mounts["/srv/work/.interlock"] == Bind(PLAIN.inner, PLAIN.engine, writable=True)
    assert mounts[str(PLAIN.exchange)] == Bind(PLAIN.exchange, PLAIN.exchange, writable=True)


def test_shown_folders_are_laid_over_and_what_lies_in_them_is_not_repeated() -> None:
    """Writes to them go nowhere; a folder of PATH inside another shown one needs no mount of its own."""
    pairs = [(P(f"/home/ann/{name}"), P(f"/home/ann/{name}")) for name in (".cargo", ".cargo/bin")]
    linked = (P("/home/ann/.cargo/other"), P("/data/other"))
    mounts = by_place(replace(PLAIN, shown_folders=(*pairs, linked)))
    cargo, other = mounts["/home/ann/.cargo"], mounts["/home/ann/.cargo/other"]
    assert isinstance(cargo, Overlay) and not cargo.lasting
    assert isinstance(other, Overlay) and other.lower == P("/data/other")
    assert "/home/ann/.cargo/bin" not in mounts
    assert len(set(uppers(mounts.values()))) == len(uppers(mounts.values()))


@pytest.mark.req("LY-11")
def test_masks_are_only_for_what_would_be_seen() -> None:
    """A socket in a hidden place needs none; one in the workspace, in a shown folder or elsewhere does."""
    masked = ("/run/docker.sock", "/home/ann/.gnupg/S.agent", "/srv/work/app.sock", "/var/lib/db.sock")
    exchange = str(PLAIN.exchange / "relay.sock")
    mounts = by_place(
        replace(
            PLAIN,
            masked=tuple(map(P, (*masked, exchange, "/home/ann/.m2/settings.xml"))),
            shown_folders=((P("/home/ann/.m2"), P("/home/ann/.m2")),),
        )
    )
    found = {at for at, mount in mounts.items() if isinstance(mount, Mask)}
    assert found == {"/srv/work/app.sock", "/var/lib/db.sock", "/home/ann/.m2/settings.xml"}


def test_the_workspace_wins_over_what_else_is_said_of_its_folder() -> None:
    """A workspace that is HOME, or holds it, or lies in /tmp, is laid over all the same."""
    for top in ("/home/ann", "/tmp", "/home", "/tmp/x"):
        wanted = replace(
            PLAIN, top=P(top), engine=P(top) / ".interlock", home=None if top == "/home/ann" else PLAIN.home
        )
        mounts = by_place(wanted)
        assert isinstance(mounts[top], Overlay)
    inside = by_place(replace(PLAIN, home=P("/srv/work/home")))
    assert isinstance(inside["/srv/work/home"], Bind)


def test_mounts_inside_the_workspace_come_back_to_be_read() -> None:
    """An overlay shows one file system only; the engine's folder stays another one."""
    mounts = by_place(
        replace(PLAIN, mounts=(P("/"), P("/srv/work/node_modules"), P("/srv/work/.interlock/runs"), P("/srv")))
    )
    assert mounts["/srv/work/node_modules"] == Bind(P("/srv/work/node_modules"), P("/srv/work/node_modules"))
    assert "/srv/work/.interlock/runs" not in mounts and "/srv" not in mounts


def test_mount_points_are_made_in_private_folders() -> None:
    """Those that the machine has are not listed: nothing is ever made there."""
    wanted = replace(PLAIN, shown_files=((P("/home/ann/.big"), P("/home/ann/.big")),), team=("agents",))
    points = dict(mount_points(mounts_for(wanted)))
    home, inner = PLAIN.private_home or P(), PLAIN.inner
    assert points == {home / ".big": True, inner / "agents": False, inner / "layers/r-1/exchange": False}


def test_both_makers_get_the_same_steps() -> None:
    """Each place is mounted by our launcher and by bubblewrap, in the same order; empty ones are sealed at the end."""
    mounts = mounts_for(replace(PLAIN, masked=(P("/var/lib/x.sock"),), team=("agents",), parent=P("/x/parent.json")))
    ours = [fields[{"tmpfs": 0, "bind": 1, "overlay": 3, "mask": 0}[word]] for word, fields in records(mounts)]
    words = bubblewrap_words(mounts)
    theirs = []
    at = 0
    length = {
        "--perms": 2,
        "--tmpfs": 2,
        "--bind": 3,
        "--ro-bind": 3,
        "--overlay-src": 2,
        "--overlay": 4,
        "--remount-ro": 2,
    }
    while at < len(words):
        end = at + length[words[at]]
        if words[at] not in ("--perms", "--overlay-src", "--remount-ro"):
            theirs.append(words[end - 1])
        at = end
    assert ours == theirs == [str(mount.at) for mount in mounts]
    assert words[-4:] == ["--remount-ro", "/home", "--remount-ro", "/root"]


@pytest.mark.req("LY-31")
def test_an_order_is_read_as_it_was_written() -> None:
    """Fields may be empty, and hold anything but NUL."""
    given: list[order.Record] = [
        ("a", []),
        ("b", ["", "x\ny", "\udcff", "1"]),
        ("b", ["2"]),
        ("argv", ["sh", "-c", ""]),
    ]
    text = order.written(given).encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    assert list(order.read(text)) == [(word, list(fields)) for word, fields in given]
