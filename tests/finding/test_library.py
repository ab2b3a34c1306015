"""Playbooks of one's own: found, checked, trusted by their bytes, loaded from a copy of these (OWN-01)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from interlock.errors import BadInput, ConfigInvalid
from interlock.finding.bundle import Bundle, read
from interlock.finding.library import Found, Library
from interlock.finding.trust import Trust

FLOW = """\
playbook: look
summary: Look.
key: once
agents: {looker: {writes: ["**"]}}
steps:
  - {agent: looker, task: Look.}
  - {end: done, status: complete, words: Done.}
"""
CODE = """\
from interlock.documents.model import Model
from interlock.engine.playbook import Playbook
from interlock.engine.run import Outcome

from .words import SAID


class Inputs(Model):
    what: str = "it"


async def play(run, inputs):
    run.say(SAID)
    return Outcome.complete("done")


KNOWN = dict(play=play, inputs=Inputs, rows=(), caps={}, headline=lambda i: "Look", key=lambda i, w: "k")
LOOK = Playbook(name="look", **KNOWN)
OTHER = Playbook(name="other", **KNOWN)
"""


def git(top: Path, *args: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(top), *who, *args], check=True, capture_output=True)


class Asked:
    """A person who says the same to whatever they are asked."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.about = answer, list[str]()

    def __call__(self, what: str, bundle: Bundle) -> bool:
        self.about.append(what)
        return self.answer


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "a project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


def library(top: Path, *, home: str = "home") -> Library:
    trust = Trust(top, {"HOME": str(top.parent / home)})
    return Library(top, {"task": "interlock.playbooks.task:TASK"}, trust)


def write(top: Path, **files: str) -> None:
    for path, text in files.items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)


def commit(top: Path) -> None:
    git(top, "add", "-A")
    git(top, "commit", "-qm", "x")


@pytest.mark.req("OWN-01")
def test_it_is_found_by_path_in_the_workspace_and_among_the_shipped(top: Path) -> None:
    own = ".interlock/playbooks"
    for name in ("look/playbook.yaml", "look.yaml", "task.yaml", "test_look.py", ".hidden.yaml", "no name.yaml"):
        write(top, **{f"{own}/{name}": FLOW})
    write(top, **{"a/flow.yaml": FLOW})
    here = library(top)
    assert [(one.name, one.origin) for one in here if one.origin != "installed"] == [
        ("look", "workspace"),
        ("look", "workspace"),
        ("task", "workspace"),
        ("task", "shipped"),
    ]
    assert here.find("look", top).place == f"{own}/look", "a folder comes before a file of its name"
    assert here.find("./flow.yaml", top / "a").place == "a/flow.yaml"
    assert here.load(here.find("./flow.yaml", top / "a"))[0].name == "look"
    with pytest.raises(BadInput, match="there is no playbook 'loook'") as caught:
        here.find("loook", top)
    assert caught.value.remedy == "Did you mean look?"


@pytest.mark.req("OWN-01")
@pytest.mark.parametrize("state", ["untracked", "edited", "committed", "no repository"])
def test_what_came_with_the_repository_is_asked_for_once_for_its_bytes(top: Path, state: str) -> None:
    """What git does not track, and bytes in no commit, are one's own; noted, so that committing asks nothing."""
    write(top, **{"look.yaml": FLOW.replace("Look.", "Older.") if state == "edited" else FLOW})
    if state != "untracked":
        commit(top)
    write(top, **{"look.yaml": FLOW})
    here, person = library(top), Asked(answer=True)
    if state == "no repository":
        shutil.rmtree(top / ".git")
    found = here.find("./look.yaml", top)
    here.load(found, person)
    assert person.about == (["./look.yaml"] if state == "committed" else [])
    if state in ("untracked", "edited"):
        commit(top)
    assert library(top).load(found)[0].name == "look", "it was noted"
    if state == "no repository":
        git(top, "init", "-q")
    write(top, **{"look.yaml": FLOW.replace("Done.", "Other.")})
    commit(top)
    with pytest.raises(ConfigInvalid, match="nobody here has trusted it") as caught:
        library(top).load(found)
    assert caught.value.remedy == "Read it; then: interlock playbooks trust ./look.yaml"


@pytest.mark.req("OWN-01")
def test_what_was_trusted_is_what_is_loaded(top: Path) -> None:
    """Files beside it are imported from the copy; one that is swapped meanwhile, here or there, counts not."""
    write(top, **{"look/playbook.py": CODE, "look/words.py": "SAID = 'good'\n", "look/prompts/do.md": "Do it."})
    here = library(top)
    found = here.find("./look:look", top)
    playbook, digest = here.load(found)
    write(top, **{"look/words.py": "SAID = 'bad'\n"})
    assert playbook.play.__globals__["SAID"] == "good"
    assert playbook.prompts == {"do": "Do it."}
    copy = here.trust.folder / digest / "words.py"
    assert copy.read_text() == "SAID = 'good'\n"
    write(top, **{"look/words.py": "SAID = 'good'\n"})
    copy.write_text("SAID = 'bad'\n")
    assert not here.trust.trusts(read(top / "look"))


def _clone(top: Path) -> Path:
    """Somebody else's repository, beside this one."""
    other = top.parent / "theirs"
    other.mkdir()
    git(other, "init", "-q", "-b", "main")
    write(other, **{"look.yaml": FLOW})
    commit(other)
    return other


def _laid(top: Path, attributes: str, flow: str = FLOW, *, copied: bool = False) -> str:
    """The file as git lays it there by these attributes; a copy of the tree is as good as a clone."""
    write(top, **{".gitattributes": attributes, "look.yaml": flow})
    commit(top)
    (top / "look.yaml").unlink()
    git(top, "checkout", "-q", "look.yaml")
    if copied:
        (top / "look.yaml").write_bytes((top / "look.yaml").read_bytes())
    return "./look.yaml"


def _pulled(top: Path) -> str:
    """The attributes by which it was laid there are gone again."""
    word = _laid(top, "look.yaml ident\n", f"# $Id$\n{FLOW}")
    os.utime(top / "look.yaml", (1e9, 1e9))
    git(top, "update-index", "--refresh")
    git(top, "rm", "-q", ".gitattributes")
    git(top, "commit", "-qm", "y")
    assert b"$Id: " in (top / "look.yaml").read_bytes()
    return word


def _submodule(top: Path) -> str:
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(_clone(top)), ".interlock/playbooks/x")
    commit(top)
    return ".interlock/playbooks/x/look.yaml"


def _merged(top: Path) -> str:
    """Only the merge itself has it."""
    for branch in ("a", "b"):
        git(top, "checkout", "-q", "--orphan", branch)
        write(top, **{branch: branch})
        commit(top)
    git(top, "merge", "-q", "--no-commit", "--allow-unrelated-histories", "a")
    write(top, **{"look.yaml": FLOW})
    commit(top)
    (top / "look.yaml").touch()
    return "./look.yaml"


def _fetched(top: Path) -> str:
    git(top, "fetch", "-q", str(_clone(top)), "main")
    git(top, "checkout", "-q", "FETCH_HEAD", "--", "look.yaml")
    return "./look.yaml"


def _beside(top: Path) -> str:
    return str(_clone(top) / "look.yaml")


def _linked(top: Path) -> str:
    write(top, **{"a/look.yaml": FLOW})
    (top / "b").symlink_to("a")
    commit(top)
    return "./b/look.yaml"


def _without_history(top: Path) -> str:
    """What commits held cannot be told, as in a clone without trees."""
    word = _laid(top, "")
    write(top, **{"look.yaml": FLOW.replace("Done.", "Over.")})
    commit(top)
    tree = subprocess.check_output(["git", "-C", str(top), "rev-parse", "HEAD~1^{tree}"], text=True).strip()
    (top / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    write(top, **{"look.yaml": FLOW})
    return word


WAYS_IN = {
    "crlf": lambda top: _laid(top, "*.yaml text eol=crlf\n"),
    "mixed ends": lambda top: _laid(top, "*.yaml text eol=crlf\n", FLOW.replace("\n", "\r\n", 1), copied=True),
    "ident": lambda top: _laid(top, "*.yaml ident\n", f"# $Id$\n{FLOW}", copied=True),
    "encoding": lambda top: _laid(top, "*.yaml text working-tree-encoding=UTF-8\n", copied=True),
    "attributes of before": _pulled,
    "submodule": _submodule,
    "in a merge": _merged,
    "fetched": _fetched,
    "beside": _beside,
    "linked": _linked,
    "without history": _without_history,
}


@pytest.mark.req("OWN-01")
@pytest.mark.parametrize("way", WAYS_IN)
def test_whatever_brought_it_in_it_is_asked_for(top: Path, way: str) -> None:
    """A repository of a stranger decides what git lays there, not whether it is taken for a person's own."""
    person = Asked(answer=False)
    word = WAYS_IN[way](top)
    with pytest.raises(ConfigInvalid, match="nobody here has trusted it"):
        library(top).load(library(top).find(word, top), person)
    assert person.about == [word]


@pytest.mark.req("OWN-06")
@pytest.mark.parametrize("more", ["", "runner = 'codex'\n"])
def test_settings_that_came_with_the_repository_stay_theirs_beside_ones_own(top: Path, more: str) -> None:
    """Who adds a line of their own to the file has not said a word about the others."""
    theirs, own = {"notify.command": ["sh", "evil.sh"]}, {"notify.command": ["sh", "mine.sh"]}
    write(top, **{"interlock.toml": "[notify]\ncommand = ['sh', 'evil.sh']\n"})
    commit(top)
    file = top / "interlock.toml"
    file.write_text(f"{more}{file.read_text()}")
    assert not library(top).trust.allows(file, theirs)
    file.write_text(file.read_text().replace("evil", "mine"))
    assert library(top).trust.allows(file, own)
    commit(top)
    file.write_text(f"runner = 'qwen'\n{file.read_text()}[telemetry]\notlp = 'http://mine'\n")
    assert library(top).trust.allows(file, {**own, "telemetry.otlp": "http://mine"}), (
        "their own words are noted, one by one"
    )


@pytest.mark.req("OWN-01")
def test_a_file_that_is_swapped_while_it_is_asked_about_is_not_what_is_loaded(top: Path) -> None:
    write(top, **{"look/playbook.py": CODE, "look/words.py": "SAID = 'good'\n"})
    commit(top)

    def consent(what: str, bundle: Bundle) -> bool:
        assert bundle.files["words.py"] == b"SAID = 'good'\n"
        write(top, **{"look/words.py": "SAID = 'bad'\n"})
        return True

    here = library(top)
    playbook, _ = here.load(here.find("./look:look", top), consent)
    assert playbook.play.__globals__["SAID"] == "good"


WRONG: list[tuple[dict[str, str], str, str]] = [
    ({"x/playbook.py": CODE, "x/playbook.yaml": FLOW}, "./x", "two files say what the process is"),
    ({"x/readme.md": ""}, "./x", "there is no playbook in this folder"),
    ({}, "./x.yaml", "there is no playbook at this path"),
    ({"x.py": "def ("}, "./x.py", "the playbook is no Python"),
    ({"x.py": "import nothing_of_that_name"}, "./x.py", "the playbook cannot be loaded: ModuleNotFoundError"),
    ({"x.py": "raise SystemExit(3)"}, "./x.py", "the playbook cannot be loaded: SystemExit"),
    ({"x.py": "X = 1"}, "./x.py", "this file has no playbook"),
    ({"x/playbook.py": CODE, "x/words.py": "SAID = 1"}, "./x", "this file has several playbooks"),
    ({"x/playbook.py": CODE, "x/words.py": "SAID = 1"}, "./x:lok", "this file has no such playbook"),
    ({"x.yaml": FLOW.replace("end: done", "ending: done")}, "./x.yaml", "this is no step"),
    ({"x.yaml": FLOW.replace("Look.}", "'{{ gone }}'}")}, "./x.yaml", "the name 'gone' is not known"),
]


@pytest.mark.req("OWN-01", "CLI-05")
def test_what_cannot_be_used_is_told_before_anybody_is_asked(top: Path) -> None:
    here, person = library(top), Asked(answer=True)
    for number, (files, _, _) in enumerate(WRONG):
        write(top / str(number), **files)
    commit(top)
    for number, (_, word, what) in enumerate(WRONG):
        with pytest.raises(BadInput) as caught:
            here.load(here.find(word, top / str(number)), person)
        assert any(what in one.what for one in (caught.value, *caught.value.also)), what
        assert caught.value.where
    assert set(person.about) == {"./x.py", "./x"}, "a flow is checked first"


@pytest.mark.req("OWN-01")
def test_nothing_that_is_trusted_lies_in_a_workspace_and_no_link_is_followed(top: Path) -> None:
    write(top, **{"x.yaml": FLOW, "y/playbook.yaml": FLOW})
    inside: Any = Library(top, {}, Trust(top, {"HOME": str(top)}))
    with pytest.raises(ConfigInvalid, match="cannot be kept inside of the workspace"):
        inside.load(inside.find("./x.yaml", top))
    (top / "link.yaml").symlink_to("x.yaml")
    (top / "y" / "agents").symlink_to(top)
    for word in ("./link.yaml", "./y"):
        here = library(top)
        with pytest.raises(ConfigInvalid, match="a link stands where"):
            here.load(here.find(word, top))


@pytest.mark.req("OWN-01")
def test_one_of_an_installed_package_is_listed_and_loaded(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standing in a folder installs nothing of it, as with `python -m` where somebody planted packages."""
    for site in (top, top.parent / "site"):
        write(site, **{"theirs.py": CODE.replace("from .words import SAID", "SAID = ''")})
        write(site / "theirs-1.0.dist-info", METADATA="Name: theirs\nVersion: 1.0\n")
        write(site / "theirs-1.0.dist-info", **{"entry_points.txt": "[interlock.playbooks]\nlook = theirs:LOOK\n"})
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.chdir(top)
        here = library(top)
        if site == top:
            assert "look" not in {one.name for one in here}
    found = here.find("look", top)
    assert found == Found("look", "installed", "theirs 1.0", entry=found.entry)
    assert here.load(found)[0].name == "look"
