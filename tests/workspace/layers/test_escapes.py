"""Every way out that we know is tried in a confined layer, and held (TREE-10)."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.workspace.values import Needs

from .conftest import Bench, put, repository
from .test_layers import files, told
from .ways_out import PRELUDE, WAYS

_DRIVER = r"""
import json, subprocess, sys
for name, code in json.load(open(sys.argv[1])):
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, sys.argv[2]], capture_output=True, timeout=300)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")[-600:]
    print(json.dumps([name, done.returncode, out, err]), flush=True)
"""
_SECRET = "only the engine has this"


@dataclass
class Tried:
    results: dict[str, tuple[int, str, str]]
    before: dict[str, object]
    after: dict[str, object]
    remarks: dict[str, list[str]]
    changes: dict[str, str]


def _world(place: Path, victim: Path) -> dict[str, object]:
    """All that must be the same afterwards."""
    ours = place / "work/.interlock"
    token = json.loads((place / "home/.client/auth.json").read_text())
    return {
        "tree": files(place / "work"),
        "engine": {str(at): at.read_bytes() for name in ("runs", "agents", "layers/run-1/other", "trees.git/objects")
                   for at in sorted((ours / name).rglob("*")) if at.is_file()},
        "home": {at: text for at, text in files(place / "home").items() if "auth.json" not in at},
        "login": [key for key in token if key != "access_token"],
        "beside": (place / "beside").read_text(),
        "victim": [(at.name, at.read_text(), at.stat().st_mode) for at in sorted(victim.iterdir())],
    }  # fmt: skip


@contextmanager
def _services(place: Path) -> Iterator[dict[str, object]]:
    """Things of the person's session that a program might reach."""
    mark = f"interlock-test-{os.getpid()}"
    libc = ctypes.CDLL(None)
    key = 0x1A7E0000 | os.getpid() & 0xFFFF
    segment = libc.shmget(key, 1, 0o1600)
    for ring in (-3, -4):
        number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
        libc.syscall(ctypes.c_long(number), b"user", mark.encode(), b"secret", 6, ctypes.c_int(ring))
    shm = put(Path("/dev/shm") / mark, "secret")
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        for one, name in ((abstract, "\0" + mark), (named, str(place / "work/s"))):
            one.bind(name)
            one.listen()
        yield {"abstract": mark, "socket": str(place / "work/s"), "shm_key": key, "key": mark}
    (place / "work/s").unlink()
    shm.unlink()
    libc.shmctl(segment, 0, None)


@pytest.fixture(scope="module")
def tried() -> Iterator[Tried]:
    """What came of all ways, tried one after the other by one program in a layer."""
    place = Path(tempfile.mkdtemp(prefix="il")).resolve()
    above = next((folder for folder in ("/opt", "/srv", "/var/lib") if os.access(folder, os.W_OK)), str(place))
    victim = Path(tempfile.mkdtemp(prefix="interlock-victim-", dir=above)).resolve()
    try:
        with pytest.MonkeyPatch.context() as patch:
            yield _try_all(place, victim, patch)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(victim, ignore_errors=True)


def _try_all(place: Path, victim: Path, patch: pytest.MonkeyPatch) -> Tried:
    top, home = place / "work", place / "home"
    put(home / ".gitconfig", "[user]\n\tname = Ann\n\temail = ann@localhost\n")
    patch.setenv("HOME", str(home))
    for name in (".ssh/id", ".cargo/credentials.toml", ".npmrc"):
        put(home / name, "secret")
    put(home / ".cargo/bin/cargo", "good")
    put(home / ".cargo/registry/index", "good")
    put(home / ".client/auth.json", json.dumps({"access_token": "old"}))
    put(place / "beside", "secret")
    put(victim / "file", "as it was")
    repository(top)
    for name in ("runs/r/journal.jsonl", "layers/run-1/other/top/theirs", "agents/qa.md"):
        put(top / ".interlock" / name, "as it was")
    bench = Bench(top, home, "confined", {"max_bytes": 30_000_000})
    if (made := bench.layers.maker()).maker != "confined":
        pytest.skip(made.why)
    with _services(place) as names:
        layer = bench.open(needs=Needs(logins=(".client/auth.json",)))
        about = {
            **names, "victim": str(victim / "file"), "workspace": str(top), "beside": str(place / "beside"),
            "secret": str(home / ".ssh/id"), "home": str(home), "engine": os.getpid(), "engine_secret": _SECRET,
            "mark": f"3000.{os.getpid()}"
        }  # fmt: skip
        before = _world(place, victim)
        ways = layer.exchange / "ways"
        ways.write_text(json.dumps([(way.id, PRELUDE + "\n" + way.code) for way in WAYS]))
        patch.setenv("ENGINE", _SECRET)
        done = bench.run(layer, [sys.executable, "-I", "-S", "-c", _DRIVER, str(ways), json.dumps(about)])
        assert done.returncode == 0, done.stderr
        layer.logins_back()
        after = _world(place, victim)
        found = layer.found({})
    assert about["mark"] not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    results = {name: (code, out, err) for name, code, out, err in map(json.loads, done.stdout.splitlines())}
    return Tried(results, before, after, told(found), bench.changes(layer, found))


def _has_scopes() -> bool:
    return int(ctypes.CDLL(None).syscall(ctypes.c_long(444), None, ctypes.c_long(0), ctypes.c_long(1))) >= 6


@pytest.mark.req("TREE-10", "TREE-01", "RUN-20")
@pytest.mark.parametrize("name", [way.id for way in WAYS])
def test_the_way_is_held(tried: Tried, name: str) -> None:
    """The program inside did not get where it must not get."""
    code, said, errors = tried.results[name]
    if name == "abstract-socket" and not _has_scopes():
        pytest.skip("this kernel has no Landlock scopes (Linux 6.12)")
    assert "OUT:" not in said
    # An error of the system is what holding looks like; anything else is a mistake in the test.
    assert code == 0 or "Error: [Errno" in errors or "not allowed to raise" in errors, errors


@pytest.mark.req("TREE-10")
def test_nothing_outside_has_changed_and_nothing_planted_comes_along(tried: Tried) -> None:
    """Tree, repository, the engine's folder, HOME, logins and files elsewhere are what they were."""
    for part, was in tried.before.items():
        assert tried.after[part] == was, part
    refused = {".GIT/hooks/x", "l", "planted.fifo", "planted.link", "planted.sock", "planted.suid", "suid"}
    assert refused <= set(tried.remarks["refused"])
    assert not refused & set(tried.changes) and not any(".git/" in path.lower() for path in tried.changes)


def test_the_ways_would_get_out_without_a_layer(tmp_path: Path) -> None:
    """Run outside, several of them report that they got out: the tests above prove something."""
    for name in ("victim/file", "home/.cargo/credentials.toml", "home/.ssh/id", "beside", "work/README.md"):
        put(tmp_path / name, "secret")
    about = {
        "victim": str(tmp_path / "victim/file"), "home": str(tmp_path / "home"), "beside": str(tmp_path / "beside"),
        "secret": str(tmp_path / "home/.ssh/id"), "workspace": str(tmp_path / "work")
    }  # fmt: skip
    wanted = (
        "absolute-path", "abstract-socket", "beside", "keys", "link-out", "attributes", "shared-memory", "named-socket"
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="il") as short:
        (Path(short) / "work").mkdir()
        with _services(Path(short)) as names:
            for way in (way for way in WAYS if way.id in wanted):
                words = [sys.executable, "-I", "-S", "-c", f"{PRELUDE}\n{way.code}", json.dumps({**about, **names})]
                done = subprocess.run(words, cwd=short, capture_output=True, text=True, check=False)
                assert "OUT:" in done.stdout, (way.id, done.stderr)
