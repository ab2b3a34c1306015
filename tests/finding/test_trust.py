"""Code of a workspace is used when a person trusts it, and as it was then."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.documents import Store
from interlock.errors import ConfigInvalid, Refused
from interlock.finding import Library, Request
from interlock.finding.starting import start
from tests.finding.planted import FLOW, SHIP, poisoned


@pytest.fixture
def mark(root: Path, tmp_path: Path) -> Path:
    """What is there when somebody executed the playbook `ship`."""
    (root / ".interlock/playbooks/ship/playbook.py").write_text(poisoned(tmp_path / "executed"))
    return tmp_path / "executed"


def no(_request: Request) -> bool:
    return False


@pytest.mark.req("OW-04")
def test_nothing_is_executed_before_a_person_says_so(library: Callable[..., Library], mark: Path) -> None:
    """They are told what would be loaded; looking executes nothing, nor does a refusal."""
    asked: list[Request] = []
    here = library(lambda request: bool(asked.append(request)))
    here.listing()
    here.names()
    here.tables()
    with pytest.raises(ConfigInvalid) as error:
        here.load("ship")
    assert not mark.exists()
    assert "--trust" in (error.value.remedy or "")
    (request,) = asked
    assert request.changed is None
    assert "playbook.py" in request.lines[1] and request.lines[-1] == f"  digest {request.bundle.digest}"
    assert library().load("ship").name == "ship"
    assert mark.exists()


@pytest.mark.req("OW-04")
def test_trust_is_kept_for_what_was_seen_and_nothing_else(root: Path, library: Callable[..., Library]) -> None:
    """Once trusted nobody is asked; a file more, less or other is asked about, by its name."""
    folder = root / ".interlock/playbooks/ship"
    (folder / "agents").mkdir()
    (folder / "agents" / "worker.md").write_text("Work.\n")
    (folder / "decisions.py").write_text("A = 1\n")
    library().load("ship")
    library(no).load("ship")
    (folder / "agents" / "worker.md").write_text("Work harder.\n")
    (folder / "decisions.py").unlink()
    (folder / "more.py").write_text("")
    for found in (library(no), library(no)):
        with pytest.raises(ConfigInvalid) as error:
            found.load("ship")
        assert error.value.what == (
            "ship changed since it was trusted: agents/worker.md, decisions.py (gone), more.py (new)"
        )
        assert not next(one for one in found.listing() if one.found.name == "ship").trusted
    library().load("ship")
    library(no).load("ship")


@pytest.mark.req("OW-04")
def test_each_file_is_one_line_of_the_question(root: Path, library: Callable[..., Library]) -> None:
    """A file whose name has line breaks cannot write other lines; one with a bracket in it is marked as changed."""
    folder = root / ".interlock/playbooks/ship"
    library().load("ship")
    for name in ("a\n  digest 0000", "b (1).md"):
        (folder / name).write_text("x")
    asked: list[Request] = []
    with pytest.raises(ConfigInvalid):
        library(lambda request: bool(asked.append(request))).load("ship")
    (request,) = asked
    _, first, second, _, digest = request.lines
    assert not any("\n" in text for text in (request.why, *request.lines))
    assert first.startswith("  a\\n  digest 0000 ") and digest == f"  digest {request.bundle.digest}"
    assert second.startswith("  b (1).md ") and second.endswith("  changed")


@pytest.mark.req("OW-04")
def test_tests_and_caches_are_no_part_of_it(root: Path, library: Callable[..., Library]) -> None:
    """They may change as they like, since nothing can be loaded from them."""
    folder = root / ".interlock/playbooks/ship"
    library().load("ship")
    (folder / "__pycache__").mkdir()
    for name in ("test_ship.py", "conftest.py", ".hidden", "__pycache__/playbook.pyc"):
        (folder / name).write_text("")
    library(no).load("ship")
    (folder / "playbook.py").write_text("from .test_ship import evil\n" + SHIP)
    with pytest.raises(ConfigInvalid, match="ModuleNotFoundError"):
        library().load("ship")


@pytest.mark.req("OW-04")
@pytest.mark.parametrize("part", ["playbook.py", "decisions.py"])
def test_what_is_swapped_after_it_was_read_is_not_loaded(
    root: Path, library: Callable[..., Library], tmp_path: Path, part: str
) -> None:
    """The person says yes to what they saw; another program swaps the file then: the old bytes are what is loaded."""
    folder, mark = root / ".interlock/playbooks/ship", tmp_path / "executed"
    (folder / "playbook.py").write_text("from .decisions import A\n" + SHIP)
    (folder / "decisions.py").write_text("A = 1\n")

    def swap(_request: Request) -> bool:
        before = (folder / part).read_text()
        (folder / part).write_text(poisoned(mark, before))
        return True

    found = library(swap)
    assert found.load("ship").name == "ship"
    assert not mark.exists()
    with pytest.raises(ConfigInvalid, match=f"changed since it was trusted: {part}"):
        library(no).load("ship")


@pytest.mark.req("OW-04")
@pytest.mark.parametrize("package", [True, False])
def test_data_files_are_what_was_trusted_too(root: Path, library: Callable[..., Library], package: bool) -> None:
    """A playbook that asks for the files beside it gets them as the person saw them, at the top and below."""
    folder = root / ".interlock/playbooks/ship"
    (folder / "tables").mkdir()
    files = [folder / "limits.txt", folder / "tables/more.txt"]
    for file in files:
        file.write_text("seen")
        if package:
            (file.parent / "__init__.py").touch()
    (folder / "tables/reading.py").write_text("HERE = __package__\n")
    (folder / "playbook.py").write_text(
        "from importlib import resources\nfrom .tables.reading import HERE\n"
        "READ = [resources.files(__package__).joinpath('limits.txt').read_text(),"
        " (resources.files(HERE) / 'more.txt').read_text()]\n" + SHIP
    )

    def swap(_request: Request) -> bool:
        return all(file.write_text("swapped") for file in files)

    assert library(swap).load("ship").function.__globals__["READ"] == ["seen", "seen"]


@pytest.mark.req("OW-04")
def test_what_new_wrote_is_trusted_and_not_what_stands_there_then(
    root: Path, library: Callable[..., Library], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another program adds a line to a file as soon as it is written: that is asked about."""
    write = Store.write

    def and_then(store: Store, path: str, text: str) -> None:
        write(store, path, text)
        if path.endswith("playbook.py"):
            (root / path).write_text(poisoned(tmp_path / "executed", text))

    monkeypatch.setattr(Store, "write", and_then)
    start(root, "mine", yaml=False, trust=library().trust)
    with pytest.raises(ConfigInvalid, match="mine changed since it was trusted: playbook"):
        library(no).load("mine")
    assert not (tmp_path / "executed").exists()


@pytest.mark.req("OW-04")
def test_a_workspace_cannot_trust_itself(root: Path, library: Callable[..., Library], mark: Path) -> None:
    """Records in the workspace do not count and are not written there, however the folder is named."""
    inside = root / "config"
    with pytest.raises(ConfigInvalid, match="inside of the workspace"):
        library(XDG_CONFIG_HOME=str(inside)).load("ship")
    assert not mark.exists() and not inside.exists()
    found = library(XDG_CONFIG_HOME="config").load("ship")  # a relative one does not count
    assert found.name == "ship" and not inside.exists()
    mark.unlink()
    record = next((root.parent / "home/.config/interlock/trusted").iterdir())
    (inside / "interlock/trusted").mkdir(parents=True)
    (inside / "interlock/trusted" / record.name).write_bytes(record.read_bytes())
    with pytest.raises(ConfigInvalid, match="nobody here has trusted"):
        library(no, XDG_CONFIG_HOME=str(inside)).load("ship")
    assert not mark.exists()


@pytest.mark.req("OW-04")
def test_an_agent_cannot_trust(library: Callable[..., Library], mark: Path) -> None:
    """Whoever was started inside a dispatch is refused, with --trust too."""
    with pytest.raises(Refused, match="only a person may trust a playbook"):
        library(INTERLOCK_DISPATCH="a#1").load("ship")
    assert not mark.exists()


@pytest.mark.req("OW-04")
def test_a_record_is_for_one_place_and_one_user(root: Path, library: Callable[..., Library], tmp_path: Path) -> None:
    """The same files elsewhere are asked about; a record that was tampered with is none."""
    library().load("ship")
    records = tmp_path / "home/.config/interlock/trusted"
    assert oct(records.stat().st_mode)[-3:] == "700"
    elsewhere = root / "copy"
    os.renames(root / ".interlock/playbooks/ship", elsewhere)
    with pytest.raises(ConfigInvalid, match="nobody here has trusted"):
        library(no).load("./copy")
    os.renames(elsewhere, root / ".interlock/playbooks/ship")
    (record,) = records.iterdir()
    facts = json.loads(record.read_text())
    for broken in ("{", "[]", json.dumps({**facts, "place": "/elsewhere"}), json.dumps({"files": facts["files"]})):
        record.write_text(broken)
        with pytest.raises(ConfigInvalid, match="nobody here has trusted"):
            library(no).load("ship")


@pytest.mark.req("OW-04")
def test_yaml_needs_trust_and_packages_do_not(root: Path, library: Callable[..., Library]) -> None:
    """A flow can run commands; what is shipped somebody has installed."""
    (root / "flow.yaml").write_text(FLOW)
    with pytest.raises(ConfigInvalid, match="nobody here has trusted"):
        library(no).load("./flow.yaml")
    assert library().load("./flow.yaml").name == "flow"
    assert library(no).load("router").name == "router"


@pytest.mark.req("OW-04")
def test_what_a_playbook_calls_is_trusted_too(root: Path, library: Callable[..., Library], mark: Path) -> None:
    """A trusted flow does not bring in code that nobody trusted; and calls in a circle are an error."""
    calling = FLOW.replace("steps:\n", "steps:\n  - call: ship\n    with: {what: x}\n    name: other\n")
    (root / "flow.yaml").write_text(calling)
    asked: list[str] = []

    def only_the_flow(request: Request) -> bool:
        asked.append(request.what)
        return request.what == "./flow.yaml"

    with pytest.raises(ConfigInvalid, match="ship is code of this workspace"):
        library(only_the_flow).load("./flow.yaml")
    assert asked == ["./flow.yaml", "ship"] and not mark.exists()
    loaded = library().load("./flow.yaml")
    assert loaded.source is not None and set(loaded.source.files) == {"flow.yaml", "ship: playbook.py"}
    for name, other in (("flow", "back"), ("back", "flow")):
        text = calling.replace("call: ship", f"call: {other}").replace("playbook: flow", f"playbook: {name}")
        (root / f".interlock/playbooks/{name}.yaml").write_text(text)
    with pytest.raises(ConfigInvalid, match="would call itself: flow -> back"):
        library().load("flow")
