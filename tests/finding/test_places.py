"""Where playbooks are found: a path, the workspace, installed packages, shipped."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.engine.identity import Identity
from interlock.errors import ConfigInvalid
from interlock.finding import Library, Origin
from interlock.finding.places import Whereabouts, is_path
from tests.finding.planted import FLOW, SHIP, poisoned


def installed(site: Path, name: str, value: str, *, package: str = "acme-playbooks", files: dict[str, str]) -> None:
    """What an installer leaves behind."""
    facts = site / f"{package.replace('-', '_')}-1.2.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    (facts / "entry_points.txt").write_text(f"[interlock.playbooks]\n{name} = {value}\n")
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)


@pytest.mark.req("OW-02")
@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("./fix.py", True),
        ("fix.py", True),
        ("./fix.py:name", True),
        ("flow.yaml", True),
        ("./flow.yml", True),
        ("./folder", True),
        ("folder/", True),
        ("../x/playbook.py", True),
        (".", True),
        ("fix", False),
        ("my-fix", False),
        ("fix:name", False),
    ],
)
def test_a_path_has_a_slash_or_the_ending_of_a_file(word: str, path: bool) -> None:
    """Whatever else is typed is a name."""
    assert is_path(word) is path


@pytest.mark.req("OW-02")
def test_the_first_place_wins_and_namesakes_are_told(
    root: Path, library: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workspace before installed before shipped; a path is what it says. Who is hidden is said."""
    site = tmp_path / "site"
    installed(site, "ship", "acme.flow:process", files={"acme/flow.py": SHIP, "acme/__init__.py": ""})
    monkeypatch.syspath_prepend(str(site))
    shared = root / ".interlock/playbooks"
    (shared / "router.yaml").write_text(FLOW.replace("playbook: flow", "playbook: router"))
    (root / "mine.py").write_text(SHIP)
    here = library()
    assert [(one.found.name, one.found.origin) for one in here.listing()][:2] == [
        ("ship", Origin.WORKSPACE),
        ("router", Origin.WORKSPACE),
    ]
    assert here.find("ship").place == ".interlock/playbooks/ship"
    assert here.find("./mine.py").origin is Origin.PATH
    assert here.find("harness").origin is Origin.SHIPPED
    hidden = {one.found.name: [str(other) for other in one.hides] for one in here.listing() if one.hides}
    assert hidden == {"ship": ["installed acme-playbooks 1.2"], "router": ["shipped router"]}
    assert here.namesakes("router") == [
        "router is taken twice: workspace .interlock/playbooks/router.yaml counts, shipped router does not"
    ]
    assert here.namesakes("harness") == []
    (shared / "ship").rename(tmp_path / "gone")
    assert library().find("ship").origin is Origin.INSTALLED


@pytest.mark.req("OW-02")
def test_four_forms_below_the_folder_of_the_workspace(root: Path, library: Callable[..., Library]) -> None:
    """A folder with either process, or a file of either kind; a folder before a file of its name."""
    shared = root / ".interlock/playbooks"
    (shared / "ship.py").write_text("not this one")
    (shared / "b").mkdir()
    (shared / "b" / "playbook.yaml").write_text(FLOW.replace("playbook: flow", "playbook: b"))
    (shared / "c.py").write_text(SHIP.replace('"ship"', '"c"'))
    (shared / "flow.yaml").write_text(FLOW)
    (shared / "empty").mkdir()
    (shared / "test_c.py").write_text("")
    (shared / "playbook.py").write_text("")
    assert [one.name for one in library().places.of_workspace] == ["b", "ship", "c", "flow", "ship"]
    for name in ("b", "ship", "c", "flow"):
        assert library().load(name).name == name


@pytest.mark.req("OW-02")
def test_an_unknown_name_tells_the_nearest(library: Callable[..., Library]) -> None:
    """And all that there are."""
    with pytest.raises(ConfigInvalid) as error:
        library().load("shap")
    assert error.value.remedy == "Did you mean ship?"
    assert "harness" in (error.value.expected or "")


@pytest.mark.req("OW-02", "OW-04")
def test_the_folder_in_which_somebody_stands_has_installed_nothing(
    root: Path, library: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`python -m interlock` has the current folder on its path: metadata that lies there is no package."""
    mark = tmp_path / "executed"
    installed(root, "evil", "evil:process", files={"evil.py": poisoned(mark)})
    monkeypatch.setattr(sys, "path", ["", str(root), *sys.path])
    monkeypatch.chdir(root)
    here = library()
    assert "evil" not in here.names()
    here.listing()
    assert not mark.exists()


@pytest.mark.req("OW-02")
def test_a_package_that_cannot_be_imported_does_not_keep_others_from_being_listed(
    library: Callable[..., Library], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line says what is wrong; asking for it is a clear error, also where it leaves the program."""
    files = {"broken_acme.py": "raise RuntimeError('out of order')", "leaving_acme.py": "raise SystemExit(0)"}
    files |= {"odd_acme.py": "process = 3"}
    for number, name in enumerate(("broken", "leaving", "odd")):
        site = tmp_path / f"site{number}"
        installed(site, name, f"{name}_acme:process", package=f"acme-{name}", files=files)
        monkeypatch.syspath_prepend(str(site))
    here = library()
    problems = {one.found.name: one.problem.what for one in here.listing() if one.problem}
    assert problems == {
        "broken": "the playbook cannot be loaded: RuntimeError: out of order",
        "leaving": "the playbook cannot be loaded: SystemExit: 0",
        "odd": "the entry point odd is no playbook",
    }
    with pytest.raises(ConfigInvalid, match="out of order") as error:
        here.load("broken")
    assert error.value.where == "acme-broken 1.2: broken_acme:process"
    for name in ("broken_acme", "leaving_acme", "odd_acme"):
        sys.modules.pop(name, None)


def test_a_path_is_named_from_where_the_person_is(root: Path, tmp_path: Path) -> None:
    """And noted from the workspace, where it lies in it; a process stands for its folder."""
    places = Whereabouts(root)
    inside = root / "tools"
    assert places.find("./fix.py", inside).place == "tools/fix.py"
    assert places.find("../fix.py:other", inside).place == "fix.py"
    assert places.find("../.interlock/playbooks/ship/playbook.py", inside).place == ".interlock/playbooks/ship"
    assert places.find("../../fix.py", inside).place == str(tmp_path / "fix.py")


@pytest.mark.req("OW-02", "OW-05")
def test_what_can_be_no_path_is_said(root: Path, library: Callable[..., Library]) -> None:
    """Typed, or noted by a run that somebody planted: a link to itself, a zero in it, the home of nobody."""
    (root / "loop.py").symlink_to("loop.py")
    for word in ("./loop.py", "./a\0b.py", "~nobody-of-this-name/x.py"):
        with pytest.raises(ConfigInvalid):
            library().load(word)
        planted = Identity("x-1", "x", "a", {}, {}, "0", "now", source={"origin": "path", "place": word})
        with pytest.raises(ConfigInvalid):
            library().again(planted)
