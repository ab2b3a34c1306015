"""A workspace with a person, and programs that work in layers of it, by each maker."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from interlock.settings import SandboxSettings
from interlock.workspace.layers.layer import Layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import Found, Needs, Standing, Tree
from tests.workspace.conftest import tree

MAKERS = ("confined", "copy")


@dataclass
class Bench:
    """One workspace, and how programs are run in layers of it."""

    top: Path
    home: Path
    maker: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.trees = Trees(Workspace(self.top))
        self.env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self.anew()

    def anew(self, **settings: Any) -> None:
        """As another process would begin."""
        self.settings |= settings
        mode = "auto" if self.maker == "confined" else "off"
        self.layers = Layers(self.trees, SandboxSettings(**{"mode": mode, **self.settings}), self.env)

    def standing(self) -> Standing:
        return self.trees.standing("run-1", self.trees.where())

    def tree(self, base: Tree, **files: str | None) -> Tree:
        return tree(self.trees, files, base)

    def open(self, slot: str = "one", *, needs: Needs | None = None, goes_on: bool = False, **pending: Any) -> Layer:
        """A layer that shows the workspace with some pending work."""
        standing = self.standing()
        shown = self.tree(standing.tree, **pending)
        return self.layers.open("run-1", slot, standing, shown, needs or Needs(), goes_on=goes_on)

    def command(self, *, keeps: bool = False, staged: bool = False, **pending: Any) -> Layer:
        standing = self.standing()
        tree = self.tree(standing.tree, **pending)
        return self.layers.for_command("run-1", standing, tree, keeps=keeps, staged=staged)

    def run(
        self, layer: Layer, argv: Sequence[str], *, network: str = "", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in a layer to its end."""
        wrapped = layer.wrap(argv, {**self.env, **(env or {})}, network=network)
        how = {"env": dict(wrapped.env), "cwd": wrapped.cwd, "pass_fds": wrapped.pass_fds, "capture_output": True}
        done = subprocess.run(wrapped.argv, **how, check=False, text=True, errors="surrogateescape")  # type: ignore[call-overload]
        for handle in wrapped.pass_fds:
            os.close(handle)
        return done  # type: ignore[no-any-return]

    def sh(self, layer: Layer, script: str, *words: str, check: bool = True, network: str = "") -> str:
        """What a shell script in a layer printed; it runs in the workspace."""
        done = self.run(layer, ["sh", "-ec", script, "sh", *words], network=network)
        assert not check or done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def python(self, layer: Layer, code: str, *words: str, network: str = "") -> str:
        done = self.run(layer, [sys.executable, "-I", "-S", "-c", code, *words], network=network)
        assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout

    def changes(self, layer: Layer, found: Found | None = None) -> dict[str, str]:
        """Path to kind of what differs between what the layer shows and what it holds."""
        found = found or layer.found({})
        return {change.path: change.kind for change in self.trees.between(layer.shown, found.result)}

    def write(self, **files: str) -> None:
        """Files of the person."""
        for name, text in files.items():
            put(self.top / name, text)

    def git(self, *words: str) -> str:
        return git(self.top, *words)

    def sh_outside(self, line: str) -> str:
        return subprocess.run(line, shell=True, cwd=self.top, capture_output=True, text=True, check=True).stdout


def git(top: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=top, check=True, capture_output=True, text=True).stdout


def put(place: Path, text: str = "x", mode: int = 0o644) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(mode)
    return place


def repository(top: Path) -> Path:
    """One commit, with an ignored folder and files that are not committed."""
    top.mkdir(parents=True, exist_ok=True)
    git(top, "init", "-qb", "main")
    files = {"README.md": "hello\n", "src/app.py": "1\n", "src/two.py": "2\n", ".gitignore": "*.log\nbuild/\n"}
    for name, text in files.items():
        put(top / name, text)
    git(top, "add", ".")
    git(top, "commit", "-qm", "start")
    return top


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The person's HOME, with who they are."""
    place = tmp_path / "a home"
    put(place / ".gitconfig", "[user]\n\tname = Ann\n\temail = ann@localhost\n[safe]\n\tdirectory = *\n")
    for name in [name for name in os.environ if name.startswith(("GIT_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(place))
    return place


class _Echo(BaseHTTPRequestHandler):
    """Says what it was asked; also a proxy of the person's that notes who knocked, and is the host itself."""

    def do_GET(self) -> None:
        told = [self.path, *(self.headers.get(name, "-") for name in ("Host", "Proxy-Authorization", "A"))]
        self._say(" ".join(told).encode())

    def do_POST(self) -> None:
        self._say(self.rfile.read(int(self.headers["Content-Length"]))[::-1])

    def do_CONNECT(self) -> None:
        self.server.met.append((self.path, self.headers["Proxy-Authorization"]))  # type: ignore[attr-defined]
        self._say(b"")
        self.wfile.write(b"through " + self.rfile.readline())

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def served() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Echo) as server:
        server.met = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


MakeBench = Callable[..., Bench]


@pytest.fixture
def make(home: Path) -> MakeBench:
    """A bench by a maker; where the kernel refuses to confine, the test says so and is left out."""

    def make(top: Path, maker: str = "confined", **settings: Any) -> Bench:
        bench = Bench(top, home, maker, settings)
        if maker == "confined" and (made := bench.layers.maker()).maker != "confined":
            pytest.skip(made.why)
        return bench

    return make


@pytest.fixture(params=MAKERS)
def bench(request: pytest.FixtureRequest, tmp_path: Path, make: MakeBench) -> Bench:
    """A repository with one commit, by each maker."""
    return make(repository(tmp_path / "the work"), request.param)


@pytest.fixture
def confined(tmp_path: Path, make: MakeBench) -> Bench:
    """The same, confined."""
    return make(repository(tmp_path / "the work"))
