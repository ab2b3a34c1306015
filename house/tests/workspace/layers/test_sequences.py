"""TREE-13 by both makers: whatever an agent types and whenever a person writes, nothing uncommitted is lost."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from interlock.settings import SandboxSettings
from interlock.workspace.layers import layer as layers_layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.trees import Trees
from interlock.workspace.values import Found, Needs, Standing, Tree
from tests.workspace.sequences import IDENTITY, Story

from .conftest import MAKERS

SEQUENCES = int(os.environ.get("INTERLOCK_SEQUENCES", "40"))
FIRST = int(os.environ.get("INTERLOCK_FIRST_SEED", "1"))


class _Maker:
    def __init__(self, maker: str, trees: Trees) -> None:
        self._layers = Layers(trees, SandboxSettings(mode="auto" if maker == "confined" else "off"))
        if (made := self._layers.maker()).maker != maker:
            pytest.skip(made.why)

    def open(self, run: str, standing: Standing, shown: Tree) -> _Layer:
        return _Layer(self._layers.open(run, "writer", standing, shown, Needs()))

    def clean(self, tree: Tree) -> Tree:
        return self._layers.spelled("run", tree)


class _Layer:
    def __init__(self, layer: layers_layer.Layer) -> None:
        self._layer = layer

    def run(self, script: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **IDENTITY, "GIT_EDITOR": "true"}
        wrapped = self._layer.wrap(["sh", "-c", script], env)
        words = {"env": dict(wrapped.env), "cwd": wrapped.cwd, "pass_fds": wrapped.pass_fds}
        ended = subprocess.run(wrapped.argv, **words, capture_output=True, check=False, timeout=120)  # type: ignore[call-overload]
        for handle in wrapped.pass_fds:
            os.close(handle)
        if wrapped.exit_file is not None:
            assert b"exit-code" in wrapped.exit_file.read_bytes(), ended.stderr

    def found(self, own: Mapping[str, str]) -> Found:
        return self._layer.found(own)

    def drop(self) -> None:
        self._layer.drop(keep_ignored=True)


@pytest.mark.req("TREE-13")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEQUENCES))
def test_nothing_uncommitted_is_lost(seed: int, maker: str, tmp_path: Path) -> None:
    """Every line of the person is there after each dispatch, delivery and undo, and nothing else has got in."""
    story = Story(seed, tmp_path / "w", partial(_Maker, maker))
    story.play()
    print(story)
