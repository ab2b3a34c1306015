"""Every way out that we know is tried in every confined maker, and held; the page lists exactly these."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.workspace import Confinement, Workspace, open_layers
from interlock.workspace.layers.git_dirs import PlainGitDir, state_of

from .conftest import CONFINED, environment
from .test_conformance import held
from .ways_out import PRELUDE, WAYS

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"

_DRIVER = r"""
import json, subprocess, sys
ways = json.load(open(sys.argv[1]))
for name, code in ways:
    words = [sys.executable, "-I", "-S", "-c", code, name, sys.argv[2]]
    done = subprocess.run(words, capture_output=True, timeout=300)
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")[-600:]
    print(json.dumps([name, done.returncode, out, err]), flush=True)
"""


@dataclass
class Tried:
    results: dict[str, tuple[int, str, str]]
    before: dict[str, object]
    after: dict[str, object]
    exit_code: int | None


def _world(place: Path) -> dict[str, object]:
    """All that must be the same afterwards."""
    repository = PlainGitDir(place / "work/.git")
    return {
        "tree": held(place / "work"),
        "engine": {
            str(file.relative_to(place)): file.read_bytes()
            for folder in ("runs", "agents", "layers/other", "snapshots.git/objects")
            for file in sorted((place / "work/.interlock" / folder).rglob("*"))
            if file.is_file()
        },
        "git": state_of(repository, repository),
        "home": {name: content for name, content in held(place / "home").items() if name != ".client/auth.json"},
        "beside": (place / "beside").read_text(),
        "victim": [(file.name, file.read_text(), file.stat().st_mode) for file in sorted((place / "victim").iterdir())],
        "login": {
            key: value
            for key, value in json.loads((place / "home/.client/auth.json").read_text()).items()
            if key != "access_token"
        },
    }


def _put(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _victims() -> Iterator[Path]:
    """Folders that are in sight inside, and that the user could write to outside."""
    for folder in ("/opt", "/srv", "/var/lib", "/usr/local"):
        if os.access(folder, os.W_OK):
            yield Path(folder)


@pytest.fixture(scope="module", params=CONFINED)
def tried(request: pytest.FixtureRequest) -> Iterator[Tried]:
    """What came of all ways, tried one after the other by one program in a layer."""
    place = Path(tempfile.mkdtemp(prefix="il"))
    elsewhere = Path(tempfile.mkdtemp(prefix="interlock-victim-", dir=next(_victims(), place)))
    try:
        yield asyncio.run(_try_all(place.resolve(), elsewhere.resolve(), request.param))
    finally:
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(elsewhere, ignore_errors=True)


async def _try_all(place: Path, elsewhere: Path, maker: str) -> Tried:
    root, home = place / "work", place / "home"
    _put(home / ".gitconfig", "[user]\n\tname = Ann\n\temail = ann@localhost\n")
    _put(home / ".ssh/id", "secret")
    _put(home / ".cargo/bin/cargo", "good")
    _put(home / ".cargo/credentials.toml", "secret")
    _put(home / ".client/auth.json", json.dumps({"access_token": "old"}))
    _put(place / "beside", "secret")
    _put(elsewhere / "file", "as it was")
    (place / "victim").symlink_to(elsewhere)
    _put(root / "README.md", "hello\n")
    _put(root / "src/app.py", "1\n")
    for name in ("runs/r/journal.jsonl", "layers/other/upper/theirs", "agents/qa.md"):
        _put(root / ".interlock" / name, "as it was")
    _put(root / ".interlock/.gitignore", "*\n")
    env = {**environment(home), "INTERLOCK_TEST_SECRET": "for the program"}
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "start"]):
        await asyncio.to_thread(subprocess.run, ["git", *words], cwd=root, env=env, check=True)
    workspace = Workspace(root, root / ".interlock")
    layers = open_layers(workspace, environ=env, maker=maker)
    if (found := layers.probe()).maker != maker:
        pytest.skip(f"{maker} cannot be used here: {found.why}")
    base = await workspace.snapshot()
    confinement = Confinement(home=home, login=(home / ".client/auth.json",))
    with _services(place) as names:
        layer = await layers.make("run-1", confinement, parent=b"{}")
        about = {
            **names,
            "victim": str(elsewhere / "file"),
            "workspace": str(root),
            "beside": str(place / "beside"),
            "secret": str(home / ".ssh/id"),
            "home": str(home),
            "layer": str(root / ".interlock/layers/run-1"),
            "engine": os.getpid(),
            "engine_secret": "only the engine has this",
        }
        before = _world(place)
        ways = [(way.id, PRELUDE + "\n" + way.code) for way in WAYS]
        (layer.exchange / "ways").write_text(json.dumps(ways))
        words = [sys.executable, "-I", "-S", "-c", _DRIVER, str(layer.exchange / "ways"), json.dumps(about)]
        line = layer.command_line(words, cwd=layer.root, env=env)
        # The engine's own environment is not the program's.
        starter = [sys.executable, "-c", _ENGINE, json.dumps(line)]
        engine_env = {**env, "ENGINE": "only the engine has this"}
        done = await asyncio.to_thread(subprocess.run, starter, env=engine_env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        await layer.found(base)
        await layer.bring_back_logins()
        left = layer.exit()
        after = _world(place)
    results = {name: (code, out, err) for name, code, out, err in map(json.loads, done.stdout.splitlines())}
    return Tried(results, before, after, left.code if left is not None else None)


_ENGINE = r"""
import json, os, subprocess, sys
env = {name: value for name, value in os.environ.items() if name != "ENGINE"}
sys.exit(subprocess.run(json.loads(sys.argv[1]), env=env).returncode)
"""


class _services:
    """Things of the user's session that a program might reach."""

    def __init__(self, place: Path) -> None:
        self._mark = f"interlock-test-{os.getpid()}"
        self._place = place

    def __enter__(self) -> dict[str, object]:
        self._abstract = socket.socket(socket.AF_UNIX)
        self._abstract.bind("\0" + self._mark)
        self._abstract.listen()
        self._named = socket.socket(socket.AF_UNIX)
        self._named.bind(str(self._place / "work/s"))
        self._named.listen()
        self._shm = Path("/dev/shm") / self._mark
        self._shm.write_text("secret")
        libc = ctypes.CDLL(None)
        self._key = 0x1A7E0000 | os.getpid() & 0xFFFF
        self._segment = libc.shmget(self._key, 1, 0o1600)
        for ring in (-3, -4):
            number = {"x86_64": 248, "aarch64": 217}[os.uname().machine]
            libc.syscall(ctypes.c_long(number), b"user", self._mark.encode(), b"secret", 6, ctypes.c_int(ring))
        return {
            "abstract": self._mark,
            "socket": str(self._place / "work/s"),
            "shm": self._mark,
            "shm_key": self._key,
            "key": self._mark,
        }

    def __exit__(self, *_: object) -> None:
        self._abstract.close()
        self._named.close()
        (self._place / "work/s").unlink()
        self._shm.unlink()
        ctypes.CDLL(None).shmctl(self._segment, 0, None)


def _fenced() -> bool:
    number = ctypes.CDLL(None).syscall(ctypes.c_long(444), None, ctypes.c_long(0), ctypes.c_long(1))
    return int(number) >= 6


@pytest.mark.req("LY-01", "LY-11", "LY-20", "LY-32")
@pytest.mark.parametrize("name", [way.id for way in WAYS])
def test_the_way_is_held(tried: Tried, name: str) -> None:
    """The program inside did not get where it must not get."""
    code, said, errors = tried.results[name]
    if name == "abstract-socket" and not _fenced():
        pytest.skip("this kernel has no Landlock scopes (Linux 6.12)")
    assert "OUT:" not in said
    # An error of the system is what holding looks like; anything else is a mistake in the test.
    assert code == 0 or "OSError" in errors or any(f"{kind}: [Errno" in errors for kind in _ERRORS), errors


_ERRORS = (
    "PermissionError",
    "FileNotFoundError",
    "ConnectionRefusedError",
    "NotADirectoryError",
    "ProcessLookupError",
    "FileExistsError",
)


@pytest.mark.req("LY-01", "LY-07", "LY-20", "LY-32")
def test_nothing_outside_has_changed(tried: Tried) -> None:
    """Tree, repository, engine's folder, home, logins and files elsewhere are what they were before all that."""
    for part, was in tried.before.items():
        assert tried.after[part] == was, part
    assert tried.exit_code == 0, "the exit is the one that the launcher saw"


@pytest.mark.req("LY-20")
def test_at_least_thirty_five_ways_are_tried_and_the_page_lists_them() -> None:
    """The table of the page is the table of the test, row by row."""
    assert len(WAYS) >= 35
    assert len({way.id for way in WAYS}) == len(WAYS)
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- ways out: begin -->", "<!-- ways out: end -->"
    table = text.partition(begin)[2].partition(end)[0].strip()
    rows = [f"| `{way.id}` | {way.tried} | {way.held} |" for way in WAYS]
    assert table == "\n".join(["| way | what is tried | held by |", "| --- | --- | --- |", *rows])


def test_the_tries_would_get_out_without_a_layer(tmp_path: Path) -> None:
    """Run outside, several of them do report that they got out: the tests above prove something."""
    for name in ("victim/file", "home/.cargo/credentials.toml", "home/.ssh/id", "beside"):
        _put(tmp_path / name, "secret")
    about: dict[str, object] = {
        "victim": str(tmp_path / "victim/file"),
        "home": str(tmp_path / "home"),
        "beside": str(tmp_path / "beside"),
        "secret": str(tmp_path / "home/.ssh/id"),
        "workspace": str(tmp_path),
    }
    wanted = ("absolute-path", "abstract-socket", "beside", "tool-keys", "link-out", "attributes", "shared-memory")
    with tempfile.TemporaryDirectory(prefix="il") as short:
        (Path(short) / "work").mkdir()
        with _services(Path(short)) as names:
            for way in (way for way in WAYS if way.id in wanted):
                code = f"{PRELUDE}\n{way.code}"
                words = [sys.executable, "-I", "-S", "-c", code, way.id, json.dumps({**about, **names})]
                done = subprocess.run(words, cwd=short, capture_output=True, text=True, check=False)
                assert "OUT:" in done.stdout, (way.id, done.stderr)
