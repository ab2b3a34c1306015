"""TREE-13 by both makers: states of a person's tree, commands of an agent, edits of the person meanwhile.

One seed is one story.  Each line that the person writes is known again, and so is each of an agent's; what the engine
does between them is `Run`, in a few lines.  After every step all lines of the person that are in no commit must be in
the workspace, and none of an agent's before its work was delivered.
"""

from __future__ import annotations

import os
import random
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from interlock.settings import SandboxSettings
from interlock.workspace.commits import Commits
from interlock.workspace.delivery import Delivery
from interlock.workspace.layers.layer import Layer
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.setting_back import owned
from interlock.workspace.trees import Trees
from interlock.workspace.values import Landing, Needs, Pending, Standing, Tree
from tests.workspace.person import LINES, Person, base_line, text

from .conftest import MAKERS

SEQUENCES = int(os.environ.get("INTERLOCK_SEQUENCES", "40"))
FIRST = int(os.environ.get("INTERLOCK_FIRST_SEED", "1"))
KINDS = ("plain", "plain", "sparse", "crlf", "autocrlf", "filter", "no git", "no commit", "worktree", "detached")
NAMES = ("app.py", "lib/core.py", "lib/util.py", "docs/ü b.md", "-dash.txt", "deep/er/x.c", "run.sh", "data.dat")


IDENTITY = {f"GIT_{who}_{what}": "agent@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
"""Of the agent, for its commits."""


class Run:
    """What the engine does with trees: the pair, dispatches, deliveries, undo."""

    def __init__(self, trees: Trees, layers: Layers) -> None:
        self.trees, self.layers = trees, layers
        self.delivery = Delivery(trees)
        self.where = trees.where()
        self.standing = trees.standing("run", self.where)
        self.pair = Pending(base=self.standing.tree, work=self.standing.tree)
        self.own: dict[str, str] = {}
        self.landings: list[tuple[Tree, Tree, Landing]] = []

    def look(self) -> Standing:
        self.standing = self.trees.standing("run", self.where, self.standing)
        return self.standing

    def open(self) -> tuple[Layer, Tree]:
        now = self.look()
        shown = self.trees.merge(self.pair.base, self.pair.work, now.tree).tree
        if shown is None:  # the person's version stands; the work goes back to whoever made it
            self.pair = Pending(base=now.tree, work=now.tree)
            shown = now.tree
        return self.layers.open("run", "writer", now, shown, Needs()), shown

    def close(self, layer: Layer, shown: Tree) -> None:
        found = layer.found(self.own)
        layer.drop(keep_ignored=True)
        if found.clashes:
            return
        now = self.look().tree
        others = self.trees.merge(self.pair.base, now, self.pair.work).tree
        work = others and self.trees.merge(shown, others, found.mended).tree
        if work:
            self.pair = Pending(base=now, work=work)

    def deliver(self, meanwhile: Callable[[], None] = lambda: None) -> bool:
        """Whether the work is in the tree; a conflict delivers nothing, and the work is gone."""
        for _ in range(3):
            now = self.look()
            after = self.trees.merge(self.pair.base, self.pair.work, now.tree).tree
            if after is None:
                break
            meanwhile()
            landing = self.delivery.deliver(now.tree, after)
            if landing.state == "done":
                self._landed(now, after, landing)
                return True
            meanwhile = _nothing
        self.pair = Pending(base=now.tree, work=now.tree)
        return False

    def _landed(self, now: Standing, after: Tree, landing: Landing) -> None:
        head = self.trees.committed(now.head)
        self.own = owned(self.trees, self.own, head=head, before=now.tree, after=after)
        self.landings.append((now.tree, after, landing))
        self.pair = Pending(base=after, work=after)

    def commit(self) -> str:
        """The commit of the last delivery on the run's branch; empty where it cannot be made."""
        before, after, _ = self.landings[-1]
        commits = Commits(self.trees, lambda tree: self.layers.spelled("run", tree))
        made = commits.plan(self.where, before, after, "work", when=datetime.now(UTC))
        if made.problem or not made.commit:
            return ""
        head = self.trees.repository.checked_out().head if self.trees.repository else ""
        published = commits.publish(self.where, made.commit, expect=head)
        assert not published.problem, published
        return made.commit

    def undo(self) -> tuple[str, ...]:
        """What stays, since a person changed it."""
        kept: list[str] = []
        for before, after, landing in reversed(self.landings):
            now = self.look().tree
            target, left = self.delivery.undoing(before, after, now)
            assert self.delivery.deliver(now, target, modes=landing.modes).state == "done"
            kept.extend(left)
        return tuple(kept)


def _run(layer: Layer, script: str) -> None:
    """The agent types it."""
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **IDENTITY, "GIT_EDITOR": "true"}
    wrapped = layer.wrap(["sh", "-c", script], env)
    words = {"env": dict(wrapped.env), "cwd": wrapped.cwd, "pass_fds": wrapped.pass_fds}
    ended = subprocess.run(wrapped.argv, **words, capture_output=True, check=False, timeout=120)  # type: ignore[call-overload]
    for handle in wrapped.pass_fds:
        os.close(handle)
    if wrapped.exit_file is not None:
        assert b"exit-code" in wrapped.exit_file.read_bytes(), ended.stderr


def _nothing() -> None:
    pass


@dataclass
class Story:
    """One sequence, and what must hold after each of its steps."""

    seed: int
    top: Path
    maker: str
    told: list[str] = field(default_factory=list)
    mine: dict[bytes, str] = field(default_factory=dict)
    """Lines of the person that are in no commit, and where they wrote them."""
    gone: set[str] = field(default_factory=set)
    """What the person has removed and not committed."""
    moved: set[str] = field(default_factory=set)
    during: set[bytes] = field(default_factory=set)
    agents: int = 0
    edits: int = 0
    delivered: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)
        self.kind = KINDS[self.seed % len(KINDS)]
        self.eol = b"\r\n" if self.kind in ("crlf", "autocrlf") else b"\n"
        self.person = Person(self.top)
        self.paths = list(NAMES)

    # -- the repository

    def begin(self) -> None:
        """A repository with some history, then what is not committed."""
        person, draw = self.person, self.draw
        top = self.top
        if self.kind == "worktree":
            person.top = top.parent / "main"
        if self.kind == "no git":
            top.mkdir(parents=True)
        else:
            person.init()
        if self.kind == "autocrlf":
            person.git("config", "core.autocrlf", "true")
        if self.kind == "crlf":
            person.write(".gitattributes", "* text=auto eol=crlf\n")
        if self.kind == "filter":
            person.write(".gitattributes", "*.dat filter=turn\n*.md ident\n")
            person.git("config", "filter.turn.clean", "tr a-y b-z")
            person.git("config", "filter.turn.smudge", "tr b-z a-y")
        person.write(".gitignore", b"*.o" + self.eol + b"build/" + self.eol)
        for version in (2, 1, 0):
            for path in self.paths:
                person.write(path, text(path, eol=self.eol, version=version), mode=0o755 if path == "run.sh" else None)
            if self.kind not in ("no git", "no commit"):
                person.commit(f"version {version}")
        if self.kind not in ("no git", "no commit"):
            person.git("branch", "side", "HEAD~1")
        if self.kind == "worktree":
            person.git("worktree", "add", "-q", str(top), "-b", "work")
            person.top = top
            for path in sorted(person.files()):
                person.age(path)
        if self.kind == "detached":
            person.git("checkout", "-q", "--detach")
        if self.kind == "sparse":
            person.git("sparse-checkout", "set", "lib", "docs")
        person.settle()
        person.write("cache.o", b"ignored " + person.says("cache.o"))
        self.ignored = person.files()["cache.o"]
        for _ in range(draw.randint(1, 4)):
            self.edit()
        if draw.random() < 0.6:
            person.settle()

    # -- the person

    def edit(self, *, meanwhile: bool = False) -> None:
        """Something that the person does to their files."""
        there = [path for path in self.paths if (self.top / path).is_file() and not (self.top / path).is_symlink()]
        path = self.draw.choice(there)
        what = self.draw.choices(
            ("replace", "insert", "drop", "new", "remove", "mode", "stage", "end"), (6, 5, 1, 3, 1, 1, 2, 2)
        )[0]
        if meanwhile and what in ("remove", "stage"):
            what = "insert"
        self.edits += 1
        line = self.person.says(path)
        rows = self.person.read(path).split(b"\n")
        base = [at for at, row in enumerate(rows) if b" line " in row and b"agent" not in row]
        if what in ("replace", "insert", "drop") and not base:
            what = "end"
        self.told.append(f"person: {what} {path}{' meanwhile' if meanwhile else ''}")
        cr = b"\r" if self.eol == b"\r\n" else b""
        match what:
            case "new":
                path = f"lib/new {len(self.paths)}.txt"
                self.paths.append(path)
                self.person.write(path, self.eol.join([line, *(base_line(path, at) for at in range(LINES)), b""]))
            case "replace":
                rows[self.draw.choice(base)] = line + cr
                self.person.write(path, b"\n".join(rows))
            case "insert":
                rows.insert(self.draw.choice(base), line + cr)
                self.person.write(path, b"\n".join(rows))
            case "end":
                self.person.write(path, self.person.read(path) + line + self.eol)
            case "drop":
                del rows[self.draw.choice(base)]
                self.person.write(path, b"\n".join(rows))
            case "remove":
                (self.top / path).unlink()
                self.gone.add(path)
                self.mine = {line: at for line, at in self.mine.items() if at != path}
            case "mode":
                (self.top / path).chmod(0o755)
            case "stage" if self.kind != "no git":
                self.person.git("add", "--", path)
        if what in ("new", "replace", "insert", "end"):
            self.mine[line] = path
            self.gone.discard(path)
            if meanwhile:
                self.during.add(line)

    # -- the agent

    def command(self) -> str:
        """Something that an agent types."""
        self.agents += 1
        mark = f"agent {self.seed}.{self.agents}"
        path = self.draw.choice(self.paths)
        name = shlex.quote(f"./{path}")
        # An agent that replaces a line of the person's by one of its own has changed it, whatever it typed before.
        rows = self.person.read(path) if (self.top / path).is_file() else b""
        lines = [line for line in (base_line(path, at) for at in range(LINES)) if not rows or line in rows]
        at = self.draw.choice(lines or [base_line(path, 0)]).decode()
        cr = "\\r" if self.eol == b"\r\n" else ""
        edit = f"sed -i 's/^{at}\\b/{mark} {at}/' {name}"
        lay = "sed 's/$/\\r/'" if cr else "cat"
        older = self.draw.choice(["HEAD", "HEAD~1", "HEAD~2", "HEAD~3", "side"])
        ways = {
            edit: 10,
            f"sed -i 's/^{at}\\b/{mark}{cr}\\n&/' {name}": 5,
            f"test ! -f {name} || printf '%s\\n' '{mark}' >> {name}": 3,
            f"mkdir -p made; printf '{mark}\\n' > made/{self.agents}.txt": 3,
            f"git checkout {older} -- {name}": 3,
            f"git checkout {older} -- {name}; {edit}": 6,
            f"git show {older}:{name} > .old && {lay} .old > {name} && {edit}; rm -f .old": 2,
            "git stash": 2,
            "git stash -u": 1,
            "git stash; git stash pop": 1,
            "git reset -q --hard": 2,
            "git reset -q --hard HEAD~1": 2,
            "git reset -q HEAD~1; git checkout -q .": 1,
            "git checkout -q .": 2,
            "git clean -fdq": 2,
            "git clean -fdxq": 1,
            "git restore .": 1,
            f"git restore --source={older} {name}": 2,
            "git switch -q -c other; git switch -q -": 1,
            "git switch -q side": 1,
            "git switch -q -f main": 1,
            "git add -A; git commit -qm work": 3,
            f"git rm -qf {name}": 2,
            f"rm -f {name}": 2,
            f"mkdir -p away; mv {name} away/{self.agents}": 2,
            f"mkdir -p away; git mv {name} away/{self.agents}": 1,
            f"chmod +x {name}": 1,
            "echo junk > x.o; mkdir -p build; echo junk > build/y": 1,
        }
        chosen = self.draw.choices(list(ways), list(ways.values()))[0]
        if "mv " in chosen:
            self.moved.add(path)
        self.told.append(f"agent: {chosen}")
        return chosen

    # -- the story

    def play(self) -> None:
        """All of it; an assertion that fails names the seed and what was done."""
        self.begin()
        trees = Trees(Workspace.find(self.top))
        layers = Layers(trees, SandboxSettings(mode="auto" if self.maker == "confined" else "off"))
        if (made := layers.maker()).maker != self.maker:
            pytest.skip(made.why)
        run = Run(trees, layers)
        meanwhile = self.draw.random() < 0.34
        for _ in range(self.draw.randint(1, 3)):
            layer, shown = run.open()
            for _ in range(self.draw.randint(1, 5)):
                if meanwhile and self.draw.random() < 0.6:
                    self.edit(meanwhile=True)
                _run(layer, self.command())
            if meanwhile and self.draw.random() < 0.3:
                self.edit(meanwhile=True)
            run.close(layer, shown)
            self.holds(run, "after a dispatch")
            if self.draw.random() < 0.3:
                self.edit()
            if self.draw.random() < 0.4:
                self.deliver(run)
        if self.draw.random() < 0.7:
            self.deliver(run)
        if self.draw.random() < 0.4:
            self.edit()
        if not run.landings:
            self.before, self.edits_before = self.person.files(), self.edits
        self.told.append("undo")
        kept = run.undo()
        self.holds(run, "after undo", kept=kept)
        if self.edits == self.edits_before:
            assert self.person.files() == self.before, f"undo did not give everything back\n{self}"

    def deliver(self, run: Run) -> None:
        hasty = self.draw.random() < 0.2
        if not run.landings:
            self.before, self.edits_before = self.person.files(), self.edits
        self.told.append(f"deliver{' while the person writes' if hasty else ''}")
        if run.deliver(self.edit if hasty else _nothing):
            self.delivered += 1
            if self.kind != "no git" and self.draw.random() < 0.4:
                self.commit(run)
        self.holds(run, "after a delivery")

    def commit(self, run: Run) -> None:
        files, staged = self.person.files(), self._staged()
        commit = run.commit()
        self.told.append(f"commit {commit or '(none)'}")
        assert self.person.files() == files, f"a commit changed files\n{self}"
        assert staged <= self._staged(), f"{staged - self._staged()} is not staged any more\n{self}"
        if commit:
            told = self.person.git("show", "-m", "--no-renames", "--format=", commit)
            theirs = [row for row in told.split("\n") if row[:1] in tuple("+-") and "mine " in row]
            lines = [line.decode() for line, path in self.mine.items() if path not in self.moved]
            held = [line for line in lines if any(line in row for row in theirs)]
            assert not held, f"a commit holds {held}\n{self}"

    def _staged(self) -> set[str]:
        """Lines of the person that their index holds."""
        return {*self.person.git("grep", "--cached", "-h", "-a", "^mine ", ok=(0, 1)).splitlines()}

    def holds(self, run: Run, when: str, *, kept: tuple[str, ...] | None = None) -> None:
        """What a person counts on."""
        files = self.person.files()
        everything = b"\n".join(files.values())
        for line, path in self.mine.items():
            assert line in everything, f"{when}: {line.decode()} of {path} is lost\n{self}"
        for path in self.gone:
            back = files.get(path, b"")
            assert b"agent" in back or not back, f"{when}: {path} is back\n{self}"
        assert files.get("cache.o") == self.ignored, f"{when}: an ignored file was touched\n{self}"
        agents = [path for path, content in files.items() if b"agent" in content]
        assert not [path for path in agents if path.endswith((".o", "build/y"))], f"{when}: {agents}\n{self}"
        if kept is not None:
            agents = [path for path in agents if path not in kept]
        assert (self.delivered and kept is None) or not agents, f"{when}: {agents} have lines of an agent\n{self}"
        patch = run.trees.patch(run.pair.base, run.pair.work)
        theirs = [row for row in patch.split(b"\n") if row[:1] in b"+-" and b"mine " in row]
        lines = {line for line in self.during if self.mine.get(line) not in self.moved}
        held = [line for line in lines if any(line in row for row in theirs)]
        assert not held, f"{when}: pending work holds {held}\n{self}"

    def __str__(self) -> str:
        rows: Iterator[str] = iter([f"seed {self.seed}, {self.kind}", *self.told])
        return "\n  ".join(rows)


@pytest.mark.req("TREE-13")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEQUENCES))
def test_nothing_uncommitted_is_lost(seed: int, maker: str, tmp_path: Path) -> None:
    """Every line of the person is there after each dispatch, delivery and undo, and nothing else has got in."""
    story = Story(seed, tmp_path / "w", maker)
    story.play()
    print(story)
