"""The two makers of layers, as the sequences use them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from interlock.settings import SandboxSettings
from interlock.workspace.layers import layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.trees import Trees
from interlock.workspace.values import Found, Needs, Standing, Tree

MAKERS = {"confined": "strict", "copy": "off"}
"""By what mode of the sandbox each is had."""
_ENV = {
    "PATH": os.environ["PATH"],
    "LC_ALL": "C.UTF-8",
    "GIT_EDITOR": "true",
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "agent@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


class Maker:
    def __init__(self, trees: Trees, name: str, home: Path) -> None:
        home.mkdir(exist_ok=True)
        self._branch = trees.where().branch
        self._env = {**_ENV, "HOME": str(home)}
        self._layers = Layers(trees, SandboxSettings(mode=MAKERS[name]), self._env)

    def open(self, run: str, standing: Standing, shown: Tree) -> Layer:
        opened = self._layers.open(run, "agent", standing, shown, Needs(), branch=self._branch)
        return Layer(opened, self._env)

    def clean(self, tree: Tree) -> Tree:
        """The clean spelling of a tree."""
        return self._layers.spelled("run", tree)


class Layer:
    def __init__(self, opened: layer.Layer, env: Mapping[str, str]) -> None:
        self._layer = opened
        self._env = env

    def run(self, script: str) -> None:
        wrapped = self._layer.wrap(["sh", "-c", script], self._env)
        try:
            subprocess.run(
                wrapped.argv,
                env=dict(wrapped.env),
                cwd=wrapped.cwd,
                pass_fds=wrapped.pass_fds,
                capture_output=True,
                check=False,
                timeout=120,
            )
        finally:
            for handle in wrapped.pass_fds:
                os.close(handle)

    def found(self, own: Mapping[str, str]) -> Found:
        return self._layer.found(own)

    def drop(self) -> None:
        self._layer.drop()
