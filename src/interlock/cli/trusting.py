"""What came with a repository counts after a person trusted it; playbooks are listed, and copied to be changed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from interlock.cli import text
from interlock.cli.door import Door
from interlock.cli.output import confirmed, print_lines, tell
from interlock.errors import BadInput, ConfigInvalid
from interlock.finding.bundle import Bundle, read
from interlock.finding.library import FOLDER, NAME
from interlock.settings import reaches_out

ORIGINS = {"shipped": "", "workspace": "of this workspace", "installed": "installed", "path": ""}


def asked(what: str, bundle: Bundle) -> bool:
    """Whether the person at the terminal trusts it, after they were told what it is."""
    wide = max(map(len, bundle.files)) + 2
    tell(
        f"{what} is code that came with the repository, and nobody here has trusted it as it is:",
        *(f"  {text.padded(path, wide)}{text.size(len(content))}" for path, content in sorted(bundle.files.items())),
    )
    return confirmed(f"Have you read it, and do you trust it (digest {bundle.digest[:16]})?")


def may_work(door: Door) -> None:
    """A person begins it, and the settings count: an agent is told why, before a word about who trusts what."""
    door.people_only("start or steer runs")
    settings_count(door)


def settings_count(door: Door) -> None:
    """Settings that came with the repository and reach out of a layer count after a person trusted them (OWN-06)."""
    place = door.place
    parts = reaches_out(place.settings)
    if not parts:
        return
    rows = [f"  {name} = {json.dumps(value)}" for name, value in parts.items()]

    def consent(file: str, _bundle: Bundle) -> bool:
        tell(f"{file} came with the repository, and sets what reaches out of an agent's layer:", *rows)
        return confirmed("Do you trust it?")

    file = place.workspace.top / place.settings.file
    if not place.library.trust.allows(file, parts, consent):
        raise ConfigInvalid(
            "settings that came with the repository reach out of an agent's layer, and nobody here has trusted them",
            where=place.settings.file,
            expected="a person who has read them and says so",
            found=", ".join(parts),
            remedy=f"Read them; then: interlock playbooks trust {shlex.quote(os.path.relpath(file, door.folder))}",
        )


def playbooks(door: Door, words: Sequence[str], *, yaml: bool) -> int:
    match list(words):
        case []:
            return _list(door)
        case ["new", name]:
            return _new(door, name, "yaml" if yaml else "python")
        case ["trust", name]:
            return _trust(door, name)
        case ["copy", name]:
            return _copy(door, name)
    raise BadInput(
        f"this is no call of `playbooks`: {' '.join(words)}",
        expected="nothing, new NAME, trust NAME, or copy NAME",
        remedy="List them: interlock playbooks",
    )


def _list(door: Door) -> int:
    """Every name, the one that counts first; nothing of anybody's is executed."""
    every, first = sorted(door.place.library, key=lambda one: one.name), door.place.library.named
    wide = max(map(len, first)) + 2
    for one in every:
        if one != first[one.name]:
            about = f"hidden by the one {ORIGINS[first[one.name].origin]}"
        elif one.origin == "shipped":
            about = door.place.library.load(one)[0].summary
        else:
            about = f"{ORIGINS[one.origin]}: {one.place}"
        print_lines([text.fitted(text.padded(one.name, wide) + about, text.WIDTH, wide)])
    return 0


def _trust(door: Door, name: str) -> int:
    """A person's word for the bytes as they are now; also the step for CI."""
    door.people_only("trust playbooks")
    place, library = door.place, door.place.library
    if door.inside(name) == place.settings.file:
        parts = reaches_out(place.settings)
        library.trust.allows(place.workspace.top / place.settings.file, parts, lambda _file, _bundle: True)
        tell(f"Trusted as it is now: {', '.join(parts) or 'it sets nothing that reaches out of a layer'}")
        return 0
    found = library.find(name, door.folder)
    if found.path is None:
        raise BadInput(f"{name} is {found.origin}: nobody has to trust it", expected="a playbook of this workspace")
    bundle = read(found.path)
    library.trust.note(bundle)
    tell(f"Trusted as it is now: {found.place} ({text.count(len(bundle.files), 'file')}, digest {bundle.digest[:16]})")
    return 0


def _new(door: Door, name: str, kind: str) -> int:
    """A playbook that rehearses, runs and has a test: a place to begin (OWN-03)."""
    if not NAME.fullmatch(name):
        raise BadInput(f"a playbook cannot be called {name!r}", expected="a letter, then letters, digits, - and _")
    target = _target(door, name)
    template = Path(str(files("interlock.finding"))) / "new" / kind
    for file in sorted(template.rglob("*.*")):
        place = target / str(file.relative_to(template)).replace("test_playbook", f"test_{name}")
        if file.is_file() and file.suffix != ".pyc":
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(file.read_text("utf-8").replace("my-playbook", name), "utf-8")
    tell(
        f"Written to {FOLDER}/{name}. Change it, then:",
        f"  interlock rehearse {name}",
        f"  pytest {os.path.relpath(target)}          # where interlock is installed, too",
        f'  interlock run {name} "what is to be done"',
    )
    return 0


def _target(door: Door, name: str) -> Path:
    target = door.place.workspace.top / FOLDER / name
    if target.exists():
        raise BadInput(f"{FOLDER}/{name} is there already", remedy="Take another name, or move it away first.")
    return target


def _copy(door: Door, name: str) -> int:
    """A shipped playbook in the workspace, to be changed; it comes before the shipped one from then on."""
    place = door.place
    found = place.library.find(name, door.folder)
    playbook = place.library.load(found)[0]
    if found.origin != "shipped" or playbook.home is None:
        raise BadInput(f"{name} is {found.origin}", expected="a shipped playbook: interlock playbooks")
    shutil.copytree(playbook.home, _target(door, name), ignore=shutil.ignore_patterns("__pycache__"))
    tell(f"Copied to {FOLDER}/{name}; it is used in place of the shipped one.")
    return 0
