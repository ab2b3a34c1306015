"""What every layer promises, whichever maker made it."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from interlock.workspace.layers.layers import Making
from interlock.workspace.values import EMPTY, Found, Needs, RemarkKind

from .conftest import MAKERS, Bench, MakeBench, put, repository


def told(found: Found) -> dict[str, list[str]]:
    """Kind of remark to its paths."""
    kinds = {remark.kind.value for remark in found.remarks}
    return {kind: sorted(path for one in found.remarks if one.kind == kind for path in one.paths) for kind in kinds}


def files(top: Path) -> dict[str, bytes]:
    """Everything of the person's, git's folder too."""
    apart = top / ".interlock"
    places = (place for place in top.rglob("*") if place.is_file() and not place.is_relative_to(apart))
    return {place.relative_to(top).as_posix(): place.read_bytes() for place in places}


@pytest.mark.req("TREE-01", "TREE-02", "TREE-07")
def test_a_layer_shows_workspace_and_pending_work_and_nothing_outside_changes(bench: Bench) -> None:
    """Unsaved edits, ignored files and what the run has done; what programs write and commit stays in there."""
    bench.write(**{"README.md": "mine\n", "new": "unsaved\n", "build/out": "built\n"})
    before = files(bench.top)
    layer = bench.open(**{"src/three": "3\n", "src/two.py": None, "src/app.py": "pending\n"})
    out = bench.sh(layer, "cat README.md new build/out src/app.py src/three; ls src")
    assert out == "mine\nunsaved\nbuilt\npending\n3\napp.py\nthree\n"
    script = "echo x > x; echo y > src/app.py; echo y >> README.md; rm new; echo z > build/out"
    bench.sh(layer, f"{script}; git add -A; git commit -qm mine")
    found = layer.found({})
    changes = {"x": "added", "src/app.py": "changed", "README.md": "changed", "new": "deleted"}
    assert bench.changes(layer, found) == changes and told(found) == {"changed unsaved work": ["README.md"]}
    assert found.mended != found.result, "taking the unsaved file away is set back"
    assert found.set_back == ("new",)
    assert files(bench.top) == before


@pytest.mark.req("TREE-01", "TREE-11")
def test_a_folder_of_the_persons_that_nobody_may_read_stays_closed(bench: Bench) -> None:
    """It is in no copy, and costs none: for another user than root, who reads everything."""
    bench.write(**{"build/closed/secret": "mine\n"})
    closed = bench.top / "build/closed"
    closed.chmod(0)
    try:
        assert Making("copy", "", top=bench.top).cost_bytes > 0
        assert bench.sh(bench.open(), "cat src/app.py") == (bench.top / "src/app.py").read_text()
        assert stat.S_IMODE(closed.stat().st_mode) == 0
    finally:
        closed.chmod(0o700)


@pytest.mark.req("TREE-03")
@pytest.mark.parametrize("pending", [{}, {"src/app.py": "pending\n", "src/two.py": None}])
def test_head_is_the_very_tree_that_is_shown(bench: Bench, pending: dict[str, str | None]) -> None:
    """On the person's branch: their commits, one of what they have not committed, one of the run's work."""
    bench.write(**{"README.md": "mine\n", "new": "unsaved\n"})
    layer = bench.open(**pending)
    assert bench.sh(layer, "git status --porcelain; git branch --show-current") == "main\n"
    log = bench.sh(layer, "git log --format=%s").splitlines()
    assert len(log) == (3 if pending else 2) and log[-1] == "start"
    assert bench.sh(layer, "git rev-parse HEAD^{tree}").strip() == layer.shown
    if pending:
        assert bench.sh(layer, "git diff --name-only HEAD~1").split() == ["src/app.py", "src/two.py"]


_TAKING = (
    "git stash -u", "git stash && git stash pop || true", "git reset --hard", "git checkout .", "git checkout -f main",
    "git restore .", "git clean -ffd", "git switch -q -c other && git switch -q main", "git add -A && git reset -q",
    "git rebase -q HEAD~1 2>/dev/null || true", "git worktree list && git gc -q"
)  # fmt: skip


@pytest.mark.req("TREE-03")
def test_gits_ways_to_throw_changes_away_give_unsaved_work_back(bench: Bench) -> None:
    """After each of them the layer holds what it showed."""
    bench.write(**{"README.md": "mine\n", "new": "unsaved\n"})
    bench.git("stash", "push", "-q", "README.md")
    bench.write(**{"README.md": "mine, newer\n"})
    layer = bench.open(**{"src/app.py": "pending\n"})
    for command in _TAKING:
        bench.sh(layer, command)
        assert bench.changes(layer) == {}, command


@pytest.mark.req("TREE-12")
def test_what_a_person_is_in_the_middle_of_is_not_there(bench: Bench) -> None:
    """No merge, no lock of a git that runs outside, no stash of theirs; branches and tags are."""
    bench.git("checkout", "-qb", "side")
    bench.write(**{"README.md": "side\n"})
    bench.git("commit", "-qam", "side")
    bench.git("tag", "v1")
    bench.git("checkout", "-q", "main")
    bench.write(**{"README.md": "main\n"})
    bench.git("stash", "-q")
    bench.write(**{"README.md": "main\n"})
    bench.git("commit", "-qam", "main")
    assert "CONFLICT" in bench.sh_outside("git merge side || true")
    layer = bench.open()
    put(bench.top / ".git/index.lock")
    script = "git for-each-ref refs/stash; git status; git tag; git branch --list; git add -A"
    out = bench.sh(layer, f"{script}; git commit -qm x --allow-empty")
    assert "nothing to commit" in out and "v1" in out and "side" in out and "merg" not in out and "stash" not in out
    assert "<<<<<<<" in bench.sh(layer, "cat README.md")


@pytest.mark.req("TREE-05")
def test_ignored_is_what_the_persons_rules_or_the_layers_say(bench: Bench) -> None:
    """Neither a rule that an agent takes away nor one that it adds brings an ignored file along."""
    layer = bench.open()
    script = "mkdir -p build made; echo 1 > build/o; echo 2 > made/p; echo 3 > a.log; echo 4 > n"
    bench.sh(layer, f"echo 'made/' > .gitignore; {script}")
    found = layer.found({})
    assert bench.changes(layer, found) == {".gitignore": "changed", "n": "added"}


_REFUSED = {
    # what makes it, path, why
    "mkfifo pipe": ("pipe", "it is a named pipe"),
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'": ("s", "it is a socket"),
    "cp /bin/true suid; chmod u+s suid": ("suid", "it has a set-uid or set-gid bit"),
    "ln -s /etc/passwd out": ("out", "a link that leads out"),
    "ln -s ../../x src/out": ("src/out", "a link that leads out"),
    "ln -s .git/config src/../conf": ("conf", "a link that leads out"),
    "mkdir .GIT; echo x > .GIT/x": (".GIT/x", "git cannot hold a file of this name"),
}


@pytest.mark.req("TREE-12")
def test_what_must_not_come_along_is_refused_and_the_rest_is_work(bench: Bench) -> None:
    """The path is told, with why."""
    layer = bench.open()
    bench.sh(layer, "; ".join((*_REFUSED, "echo fine > fine; ln -s fine to-fine")))
    found = layer.found({})
    assert bench.changes(layer, found) == {"fine": "added", "to-fine": "link"}
    assert {remark.kind for remark in found.remarks} == {RemarkKind.REFUSED}
    why = {path: remark.text for remark in found.remarks for path in remark.paths}
    assert why == {path: f"not taken: {text}" for path, text in _REFUSED.values()}


@pytest.mark.req("TREE-12")
def test_nested_repositories_and_large_files_are_told(bench: Bench) -> None:
    """Work in a repository of its own is kept as a difference; what is new and too large stays in the layer."""
    bench.anew(max_untracked_bytes=1000)
    (bench.top / "inner").mkdir()
    repository(bench.top / "inner")
    layer = bench.open()
    script = "head -c 2000 /dev/zero > large; echo s > small; git -C inner status"
    bench.sh(layer, f"echo changed > inner/README.md; {script}")
    found = layer.found({})
    assert bench.changes(layer, found) == {"small": "added"}
    assert told(found) == {"large": ["large"], "nested": ["inner/README.md"]}
    (nested,) = (remark for remark in found.remarks if remark.kind is RemarkKind.NESTED)
    assert nested.old and nested.new and b"+changed" in bench.trees.patch(nested.old, nested.new)


_ONLY_IN_GIT = {
    "echo w > work; echo x >> README.md; git stash -qu": ["README.md", "work"],
    "git switch -qc side; echo w > work; git add .; git commit -qm w; git switch -q main": ["work"],
    "git switch -qc side; echo w > work; git add .; git commit -qm w": None,
    "echo w > work; git stash -qu; git stash apply -q": None,
    "git switch -qc side; echo w > work; git add .; git commit -qm w; git switch -q main; git merge -q side": None,
}


@pytest.mark.req("TREE-07")
@pytest.mark.parametrize("command", list(_ONLY_IN_GIT))
def test_work_that_is_left_in_a_stash_or_on_another_branch_alone_is_told(bench: Bench, command: str) -> None:
    """With the files it is about; not when they lie there, too."""
    layer = bench.open(**{"src/app.py": "pending\n"})
    bench.sh(layer, command)
    paths = _ONLY_IN_GIT[command]
    assert told(layer.found({})) == ({"git": paths} if paths else {})


@pytest.mark.req("TREE-05", "TREE-09")
def test_the_next_layer_of_a_slot_is_cleared_but_for_what_is_ignored(bench: Bench) -> None:
    """A writer's caches stay; its work is there as far as it is shown."""
    bench.write(**{"build/mine": "m\n", "x.log": "x\n", "extra/one": "1\n", "extra/build/o": "o\n"})
    layer = bench.open()
    bench.sh(layer, "rm -r build; mkdir build; echo c > build/cache; rm x.log; echo w > work; touch left")
    bench.sh(layer, "rm -r extra src; mkdir src; git commit -qam x")
    layer.drop(keep_ignored=True)
    layer = bench.open(work="w\n")
    out = bench.sh(layer, "cat work build/cache; find . -path ./.git -prune -o -type f -print | sort; git status -s")
    there = ["README.md", "build/cache", "extra/one", "src/app.py", "src/two.py", "work"]
    assert [name for name in out.split() if ".git" not in name and ".interlock" not in name] == [
        "w", "c", *(f"./{name}" for name in there),
    ]  # fmt: skip
    assert bench.changes(layer) == {}
    layer.drop()
    assert bench.sh(bench.open(), "ls build") == "mine\n"


@pytest.mark.req("TREE-09")
def test_a_layer_goes_on_as_it_lies(bench: Bench) -> None:
    """After a crash: the same files, the same stat data, found by another process."""
    layer = bench.open(**{"src/app.py": "pending\n"})
    bench.sh(layer, "echo w > work; git switch -qc side")
    bench.anew()
    again = bench.open(goes_on=True)
    assert bench.sh(again, "cat work; git branch --show-current") == "w\nside\n"
    assert bench.changes(again) == {"work": "added"} and again.shown == layer.shown
    assert bench.changes(bench.open("another", goes_on=True)) == {}, "there was none: a new one"


def test_a_laid_file_is_later_than_anything_in_the_layer_and_only_when_it_changes(bench: Bench) -> None:
    """By a whole second; also where the person's version is back. Build tools and Python compare times."""
    app = bench.top / "src/app.py"
    os.utime(app, (10**9, 10**9))
    times = [10**9]
    for text in ("one\n", "one\n", "two\n", None, None, "two\n"):
        layer = bench.open(**({"src/app.py": text} if text else {}))
        line = "stat -c %Y src/app.py; cat src/app.py; touch build.log"
        when, *said = bench.sh(layer, line).split()
        assert said == [text.strip() if text else "1"]
        times.append(int(when))
        layer.drop(keep_ignored=True)
    first, one, same, two, back, still, again = times
    assert first < one == same < two < back == still < again


@pytest.mark.req("TREE-13")
def test_what_a_person_writes_meanwhile_is_in_no_result(make: MakeBench, tmp_path: Path) -> None:
    """The folder below is live: the agent may take up their lines, and its result is freed of them."""
    bench = make(repository(tmp_path / "work"))
    text = "".join(f"{number}\n" for number in range(20))
    bench.write(free=text, clash=text, new="n\n", gone="g\n")
    bench.git("add", ".")
    bench.git("commit", "-qm", "more")
    layer = bench.open(laid="l\n")
    bench.write(free=f"theirs\n{text}", clash=text.replace("5\n", "theirs\n"), only="theirs\n", laid="theirs\n")
    bench.sh(layer, "echo mine >> free; sed -i s/theirs/both/ clash; touch only; echo mine > laid; echo mine > new")
    found = layer.found({})
    assert bench.trees.read(found.result, "free") == f"{text}mine\n".encode()
    assert bench.changes(layer, found) == {"free": "changed", "laid": "changed", "new": "changed"}
    assert found.clashes == ("clash",) and told(found)["you both wrote it"] == ["clash", "free", "laid"]


@pytest.mark.req("EVID-07")
def test_it_is_known_which_laid_files_were_opened(bench: Bench) -> None:
    """By their times of access, in an agent's layer and in a command's."""
    pending = {"src/app.py": "pending\n", "src/two.py": "two\n", "src/three.py": "three\n"}
    for layer in (bench.open(**pending), bench.command(**pending)):
        bench.sh(layer, "ls -l src; cat src/app.py; echo x >> src/three.py")
        assert layer.opened([*pending, "README.md"]) == {"src/app.py", "src/three.py"}
        layer.drop()


@pytest.mark.req("TREE-05")
def test_commands_find_what_setup_left_and_nothing_of_agents_or_of_each_other(bench: Bench) -> None:
    """The engine's cache is filled by what keeps; what a check leaves is thrown away."""
    agent = bench.open()
    bench.sh(agent, "mkdir -p build; echo planted > build/planted")
    agent.drop(keep_ignored=True)
    bench.write(**{"build/mine": "m\n"})
    setup = bench.command(keeps=True)
    script = "echo changed > src/app.py; echo t > untracked; rm src/two.py"
    bench.sh(setup, f"rm -r build; mkdir build; echo s > build/setup; {script}")
    setup.drop(keep_ignored=True)
    for text in ("one\n", "two\n", "1\n"):
        check = bench.command(**{"src/app.py": text})
        out = bench.sh(check, "ls build; cat src/app.py; ls; git status --porcelain")
        assert out == f"setup\n{text}README.md\nbuild\nsrc\n"
        bench.sh(check, "echo c > build/check; rm build/setup; echo no > src/two.py")
        assert bench.changes(check) == {"src/two.py": "changed"}
        check.drop()
    assert bench.sh(bench.command(keeps=True), "ls build; cat src/app.py") == "setup\n1\n"
    bench.layers.reset_cache("run-1")
    assert bench.sh(bench.command(), "ls build") == "mine\n"
    bench.layers.clean("run-1")
    assert not (bench.top / ".interlock/layers/run-1").exists()


def test_a_source_that_changed_is_later_than_what_setup_built_from_another(bench: Bench) -> None:
    """Also where that was the run's version and the person's is back: no stale green, no stale red."""
    make = "[ build/app -nt src/app.py ] || cp src/app.py build/app; cat build/app"
    bench.write(**{"build/x": "x"})
    for text in ("one\n", "two\n"):
        layer = bench.command(keeps=True, **{"src/app.py": text})
        assert bench.sh(layer, make) == text
        layer.drop(keep_ignored=True)
    for given, text in (({"src/app.py": "three\n"}, "three\n"), ({}, "1\n"), ({"src/app.py": "two\n"}, "two\n")):
        check = bench.command(**given)
        assert bench.sh(check, make) == text
        check.drop()


def test_a_hook_finds_the_branchs_head_and_the_tree_to_be_committed_in_the_index(bench: Bench) -> None:
    """Else `git diff --cached` is empty there, and every hook passes."""
    bench.write(**{"README.md": "mine\n"})
    put(bench.top / ".git/hooks/pre-commit", "#!/bin/sh\ngit diff --cached --name-only; exit 3\n", 0o755)
    layer = bench.command(staged=True, **{"src/app.py": "pending\n"})
    assert bench.sh(layer, "git log --format=%s") == "start\n"
    done = bench.run(layer, ["git", "hook", "run", "pre-commit"])
    assert (done.returncode, done.stderr.split()) == (3, ["README.md", "src/app.py"]), done


@pytest.mark.req("TREE-10")
@pytest.mark.parametrize("command", ["head -c 3000000 /dev/urandom > big", "for i in $(seq 200); do echo > f$i; done"])
def test_a_layer_over_its_bounds_counts_for_nothing(bench: Bench, command: str) -> None:
    """Bytes and files; both are counted while the program works."""
    bench.anew(max_bytes=2_000_000, max_files=100)
    layer = bench.open("over", **{"src/app.py": "pending\n"})
    assert layer.over() == ""
    bench.sh(layer, command)
    assert "[sandbox] max_" in layer.over()
    found = layer.found({})
    assert found.result == found.mended == layer.shown and told(found) == {"over": []}


def test_files_are_read_as_they_lie_in_the_layer_links_not_followed(bench: Bench) -> None:
    """What is no plain file there is nothing, and hangs nobody."""
    layer = bench.open(**{"src/app.py": "pending\n"})
    bench.sh(layer, "mkfifo pipe; ln -s README.md l; ln -s src s; echo x > new; rm README.md")
    names = ("src/app.py", "src/two.py", "new", "README.md", "pipe", "l", "s/app.py", "src", "absent")
    assert [layer.read(name) for name in names] == [b"pending\n", b"2\n", b"x\n", *[None] * 6]


@pytest.mark.parametrize("maker", MAKERS)
def test_the_workspace_may_have_any_name(tmp_path: Path, make: MakeBench, maker: str) -> None:
    """Paths need no escaping, in overlays, git's settings and alternates."""
    bench = make(repository(tmp_path / "a b:c,d ünï %e #f back\\slash quo'te\"s\nnew line"), maker)
    bench.write(unsaved="u\n")
    layer = bench.open("a/b#1 c", **{"p": "pending\n"})
    out = bench.sh(layer, "cat p; git status --porcelain; git log --format=%s | wc -l; echo x > x")
    assert out.split() == ["pending", "3"]
    assert bench.changes(layer) == {"x": "added"}


# -- repositories as they are


_LINE_ENDS = r"""
    mv full work; cd work; git config core.autocrlf true; printf '*.bin -text\nsrc/* filter=up\n' > .gitattributes
    git config filter.up.clean 'tr a-z A-Z'; git config filter.up.smudge 'tr A-Z a-z'
    printf 'one\r\ntwo\r\n' > crlf.txt; git add .; git commit -qm converted; printf 'mine\r\n' >> crlf.txt"""
_SUBMODULE = """
    cp -r full work; git -C work -c protocol.file.allow=always submodule --quiet add "$PWD/full" sub
    git -C work/sub checkout -q main"""
_REPOSITORIES = {
    "no git": "rm -r full/.git; mv full work",
    "no commit": "git -C full update-ref -d HEAD; rm full/.git/index; mv full work",
    "worktree": "git -C full worktree add -q -b side ../work",
    "submodule": _SUBMODULE.replace("work", "outer") + "; ln -s outer/sub work",
    "with submodule": _SUBMODULE,
    "shallow": 'cd full; git commit -qm two --allow-empty; git clone -q --depth=1 "file://$PWD" ../work',
    "shared": "git clone -q --shared full work",
    "detached": "mv full work; git -C work checkout -q --detach",
    "sparse": """
        mv full work; cd work; mkdir other; echo o > other/file; git add .; git commit -qm other
        git sparse-checkout set src""",
    "line ends": _LINE_ENDS,
}


def _made(folder: Path, script: str) -> Path:
    """The workspace that a script makes of a repository with one commit."""
    repository(folder / "full")
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True, capture_output=True)
    return (folder / "work").resolve()


_QUICK = ("no git", "no commit", "worktree", "submodule", "sparse", "line ends")
_EACH = [
    pytest.param(kind, maker, marks=() if kind in _QUICK and maker == "confined" else pytest.mark.long)
    for kind in _REPOSITORIES
    for maker in MAKERS
]


@pytest.mark.req("TREE-12")
@pytest.mark.parametrize(("kind", "maker"), _EACH)
def test_repositories_are_taken_as_they_are(tmp_path: Path, make: MakeBench, kind: str, maker: str) -> None:
    """In each HEAD is what is shown, a commit and a stash work, and the result is what was done."""
    top = _made(tmp_path, _REPOSITORIES[kind])
    put(top / "unsaved", "u\n")
    bench = make(top, maker)
    before = files(top)
    for _ in range(2):
        layer = bench.open(**{"pending": "p\n"})
        if kind != "no git":
            assert bench.sh(layer, "git status --porcelain; git stash list; cat .git/HEAD >/dev/null") == ""
            bench.sh(layer, "git stash -qu; git fsck --connectivity-only 2>&1 | grep -v dangling || true")
        bench.sh(layer, "echo w > work; echo c >> README.md; cat unsaved pending")
        if kind != "no git":
            bench.sh(layer, "git add -A; git commit -qm done; git log --oneline > /dev/null")
        found = layer.found({})
        changes = {"work": "added", "README.md": "changed"}
        assert bench.changes(layer, found) == changes and found.set_back == (), found
        layer.drop(keep_ignored=True)
    assert files(top) == before


@pytest.mark.req("TREE-12", "TREE-03")
@pytest.mark.parametrize("maker", MAKERS)
def test_the_clean_spelling_is_the_persons_own(tmp_path: Path, make: MakeBench, maker: str) -> None:
    """Their filters and line ends, run in a layer; what they planted there runs nowhere else."""
    bench = make(_made(tmp_path, _LINE_ENDS), maker)
    tree = bench.tree(bench.standing().tree, **{"src/app.py": "abc\n", "new.txt": "x\r\n"})
    spelled = bench.layers.spelled("run-1", tree)
    names = ("crlf.txt", "src/app.py", "new.txt")
    assert [bench.trees.read(spelled, name) for name in names] == [b"one\ntwo\nmine\n", b"ABC\n", b"x\n"]
    assert bench.layers.spelled("run-1", tree) == spelled
    layer = bench.open(**{"src/app.py": "abc\n"})
    assert bench.sh(layer, "git status --porcelain; git show HEAD:src/app.py; cat src/app.py") == "ABC\nabc\n"


@pytest.mark.req("TREE-15")
def test_while_another_branch_is_checked_out_the_layer_shows_the_runs_own(bench: Bench) -> None:
    """On its branch, whatever lies on disk now."""
    where, last = bench.trees.where(), bench.standing()
    bench.git("checkout", "-qb", "other")
    bench.write(**{"README.md": "other\n", "theirs": "t\n"})
    bench.git("add", ".")
    bench.git("commit", "-qm", "other")
    standing = bench.trees.standing("run-1", where, last)
    assert standing.away
    layer = bench.layers.open("run-1", "one", standing, standing.tree, Needs(), branch=where.branch)
    out = bench.sh(layer, "git branch --show-current; git status --porcelain; cat README.md; ls; echo w > work")
    assert out == "main\nhello\nREADME.md\nsrc\n"
    assert bench.changes(layer) == {"work": "added"}


def test_modes_beyond_gits_one_bit_stay(bench: Bench) -> None:
    """A laid file has the mode of the person's, and is executable or not as the tree says."""
    (bench.top / "src/app.py").chmod(0o640)
    layer = bench.open(**{"src/app.py": "pending\n", "new*": "n\n"})
    modes = [int(mode, 8) for mode in bench.sh(layer, "stat -c %a src/app.py new").split()]
    assert modes[0] == 0o640 and modes[1] & stat.S_IXUSR
    assert layer.shown != EMPTY
