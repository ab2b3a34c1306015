"""What a playbook says of itself, without executing it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.finding import Library
from tests.finding.planted import FLOW, poisoned


@pytest.mark.req("OW-02", "OW-04")
def test_purpose_and_inputs_are_read_from_the_text(root: Path, library: Callable[..., Library], tmp_path: Path) -> None:
    """Python from its syntax tree, YAML from its fields; shipped ones as they are offered."""
    mark = tmp_path / "executed"
    shared = root / ".interlock/playbooks"
    (shared / "ship/playbook.py").write_text(poisoned(mark))
    (shared / "flow.yaml").write_text(FLOW)
    (shared / "odd.py").write_text("import interlock\nNAME = 'odd'\nprocess = interlock.engine.playbook(NAME)\n")
    listed = {one.found.name: one for one in library().listing()}
    ship, flow, odd = (listed[name] for name in ("ship", "flow", "odd"))
    assert ship.purpose == "Work, then ask a person." and ship.inputs is not None
    assert [(one.name, one.kind, one.required, one.help) for one in ship.inputs] == [
        ("what", "str", True, "What is to be shipped."),
        ("times", "int", False, "How often it is done."),
    ]
    assert flow.purpose == "Ask a person." and flow.inputs is not None
    assert [(one.name, one.kind, one.required) for one in flow.inputs] == [("what", "text", True)]
    assert (odd.purpose, odd.inputs, odd.problem) == ("", None, None)
    router = listed["router"]
    assert router.inputs is not None and [one.name for one in router.inputs] == ["line"]
    assert not any((ship.trusted, flow.trusted, odd.trusted)) and router.trusted
    assert not mark.exists()


@pytest.mark.req("OW-02")
@pytest.mark.parametrize("text", ["def (", "(" * 5000, "\0", "x = '\ud800'", "x = ¬"])
def test_a_file_that_is_no_python_is_listed_with_what_is_wrong(
    root: Path, library: Callable[..., Library], text: str
) -> None:
    """The others are listed all the same."""
    (root / ".interlock/playbooks/ship/playbook.py").write_bytes(text.encode("utf-8", "surrogatepass"))
    listed = {one.found.name: one for one in library().listing()}
    assert listed["ship"].problem is not None
    assert listed["router"].problem is None
