"""Documents of a process are in every tree, also where the person ignores them."""

from __future__ import annotations

import pytest

from tests.workspace.layers.conftest import Bench


@pytest.mark.req("TREE-14", "TREE-05")
def test_ignored_documents_of_a_process_are_work_like_any_other(bench: Bench) -> None:
    """Seen by agents, in their result, delivered, merged with a person's; all else that is ignored stays out."""
    bench.trees.declare(["build/T-1/**", "notes.log", "**"])
    bench.write(**{"build/T-1/plan.md": "one\ntwo\nthree\n", "build/other/o": "theirs\n", "notes.log": "a\n"})
    layer = bench.open()
    assert bench.sh(layer, "cat build/T-1/plan.md notes.log; git status --porcelain") == "one\ntwo\nthree\na\n"
    bench.sh(layer, "sed -i s/two/TWO/ build/T-1/plan.md; echo x > build/T-1/new; echo y > build/o; rm notes.log")
    bench.write(**{"build/T-1/plan.md": "one\ntwo\nthree\nmine\n"})
    found = layer.found({})
    wanted = {"build/T-1/plan.md": "changed", "build/T-1/new": "added", "notes.log": "deleted"}
    assert bench.changes(layer, found) == wanted
    assert found.ignored == ("build/o",)
    merged = bench.trees.merge(layer.shown, found.result, bench.standing().tree).tree
    assert merged is not None
    assert bench.trees.read(merged, "build/T-1/plan.md") == b"one\nTWO\nthree\nmine\n"
    layer.drop()
    after = bench.open(**{"build/T-1/new": "x"})
    assert bench.sh(after, "cat build/T-1/new build/T-1/plan.md build/other/o") == "xone\ntwo\nthree\nmine\ntheirs\n"
    assert bench.changes(after) == {}
