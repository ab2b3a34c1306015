"""Every maker does the same: what a program sees, what is found of its work, and what becomes of it."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from interlock.errors import PathRefused
from interlock.workspace import Bounds, Confinement, Workspace, bring_in, open_layers, work_patch

from .conftest import Bench, MakeBench

GitCall = Callable[..., str]


def held(root: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of every file of a tree, but for the engine's."""
    found: dict[str, tuple[int, bytes]] = {}
    tops = [place for place in root.iterdir() if place.name != ".interlock"]
    for place in sorted({*tops, *(below for top in tops for below in top.rglob("*"))}):
        name = str(place.relative_to(root))
        if not (place.is_symlink() or place.is_file()):
            continue
        content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes()
        found[name] = (place.lstat().st_mode, content)
    return found


@pytest.mark.req("LY-01", "LY-10")
async def test_a_program_sees_the_workspace_and_changes_nothing_of_it(bench: Bench) -> None:
    """Files are there, tracked or ignored; whatever is written, the user's tree is the same byte for byte."""
    bench.write(build__out="built", new="untracked")
    before = held(bench.root)
    layer = await bench.layer()
    assert bench.sh(layer, "cat README.md build/out new") == "hello\nbuiltuntracked"
    bench.sh(layer, "rm -rf src build new; echo x > README.md; mkdir a; echo y > a/b; ln -s a/b link; chmod 600 a/b")
    assert held(bench.root) == before
    assert layer.confined == (bench.maker != "copy")
    assert (layer.root == bench.root) == layer.confined


@pytest.mark.req("LY-02", "LY-33")
async def test_every_kind_of_change_is_found(bench: Bench) -> None:
    """Added, modified, deleted, type and mode; touched, rewritten alike and empty folders are no change."""
    bench.write(keep__a="a", keep__b="b", gone__x="x", gone__y__z="z", swap="s", folder__in="i", tool="#!/bin/sh\n")
    (bench.root / "link").symlink_to("README.md")
    (bench.root / "secret").write_text("s")
    (bench.root / "secret").chmod(0o600)
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "touch README.md; cp src/app.py t; cat t > src/app.py; rm t; mkdir empty; rm -r gone; chmod 755 tool;"
        "rm swap; mkdir swap; echo 1 > swap/in; rm -r folder; echo f > folder; rm link; echo l > link;"
        "chmod 640 keep/a; echo new > keep/c; mv keep/b keep/d; touch secret",
    )
    found = await layer.found(base)
    assert {change.path: change.kind.value for change in found.changes} == {
        "gone/x": "deleted",
        "gone/y/z": "deleted",
        "tool": "modified",
        "swap": "deleted",
        "swap/in": "added",
        "folder": "added",
        "folder/in": "deleted",
        "link": "modified",
        "keep/a": "modified",
        "keep/b": "deleted",
        "keep/c": "added",
        "keep/d": "added",
    }
    assert [change.path for change in found.changes] == sorted(change.path for change in found.changes)
    assert (found.ignored, found.refused, found.repository, found.over) == ({}, {}, (), "")


@pytest.mark.req("LY-03", "LY-37")
async def test_work_is_brought_in_exactly(bench: Bench, git: GitCall) -> None:
    """What the layer held is in the tree: bytes, types, modes; emptied folders are gone; the patch says the same."""
    bench.write(gone__deep__x="x", gone__y="y", swap="s", folder__in="i")
    (bench.root / "folder/in").chmod(0o640)
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "rm -r gone; rm swap; mkdir -p swap/in; printf '\\0\\377' > swap/in/bin; rm -r folder; ln -s README.md folder;"
        "echo more >> README.md; chmod 600 README.md; echo '#!/bin/sh' > run; chmod 750 run",
    )
    found = await layer.found(base)
    work = await layer.work(base, [change.path for change in found.changes])
    patch = await work_patch(bench.workspace, work)
    await layer.drop()
    result = await bring_in(bench.workspace, work, label="agent")
    assert result.conflicts == {}
    assert result.paths == tuple(change.path for change in found.changes)
    assert not (bench.root / "gone").exists()
    assert (bench.root / "swap/in/bin").read_bytes() == b"\x00\xff"
    assert (bench.root / "folder").readlink() == Path("README.md")
    assert stat.S_IMODE((bench.root / "README.md").stat().st_mode) == 0o600
    assert stat.S_IMODE((bench.root / "run").stat().st_mode) == 0o750
    assert (await bench.workspace.changes(base, await bench.workspace.snapshot())) == found.changes
    other = bench.root.parent / "other"
    other.mkdir()
    for path, content in [("gone/deep/x", "x"), ("gone/y", "y"), ("swap", "s"), ("folder/in", "i")]:
        (other / path).parent.mkdir(parents=True, exist_ok=True)
        (other / path).write_text(content)
    (other / "README.md").write_text("hello\n")
    git(other, "apply", "-", stdin=patch)
    ours = {name: content for name, (_, content) in held(bench.root).items()}
    theirs = {name: content for name, (_, content) in held(other).items()}
    assert theirs == {name: ours[name] for name in theirs}
    assert (await bring_in(bench.workspace, work, label="agent")) == result


@pytest.mark.req("LY-31")
async def test_names_of_any_bytes_survive(bench: Bench) -> None:
    """Brackets, wildcards, spaces, newlines, quotes, bytes that are not UTF-8 and 255 bytes come through everything."""
    names = [
        *("app/[id]/page.txt", "a?b", "a*b", " lead", "trail ", "a\nb", 'quo"te', "-dash", ":colon", "back\\slash"),
        *("#hash", "!bang", "ünï", os.fsdecode(b"caf\xe9"), "n" * 255, "sub/:(glob)x", "a,b", "~"),
    ]
    bench.write(**{"a*b": "old"})
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    for name in names:
        bench.sh(layer, 'mkdir -p "$(dirname "$1")"; printf %s "$1" > "$1"', *[f"./{name}"])
    kinds = dict.fromkeys(names, "added") | {"a*b": "modified"}
    assert await bench.found(layer, base) == kinds
    for name in names:
        assert layer.facts(name).content == os.fsencode(f"./{name}")
    found = await layer.found(base)
    work = await layer.work(base, [change.path for change in found.changes])
    assert type(work).from_json(work.to_json()) == work
    assert (await bring_in(bench.workspace, work, label="a\nb")).conflicts == {}
    for name in names:
        assert (bench.root / name).read_bytes() == os.fsencode(f"./{name}")
    assert (await bench.workspace.changes(base, await bench.workspace.snapshot())) == found.changes


@pytest.mark.req("LY-08", "LY-33")
async def test_the_users_rules_tell_what_is_ignored_and_a_programs_do_not(bench: Bench) -> None:
    """Ignored things are counted by topmost folder; an ignore file from the layer hides nothing; documents count."""
    bench.write(**{".gitignore": "node_modules/\n*.log\n/out\n!keep.log\nhalf/*\n!half/kept\n"}, node_modules__a="1")
    bench.workspace.wanted += ("node_modules/doc/**",)
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "mkdir -p node_modules/b/c tests deep/node_modules half out/x; echo 1 > node_modules/b/c/d;"
        "echo 2 > node_modules/b/e;"
        "echo '*' > tests/.gitignore; echo x > tests/conftest.py; echo '*' >> .gitignore; echo l > deep/x.log;"
        "echo k > keep.log; echo m > deep/node_modules/m; echo h > half/gone; echo k > half/kept; echo o > out/x/y;"
        "mkdir node_modules/doc; echo d > node_modules/doc/plan.md; touch node_modules/a",
    )
    found = await layer.found(base)
    assert {change.path for change in found.changes} == {
        *(".gitignore", "tests/.gitignore", "tests/conftest.py", "keep.log", "half/kept", "node_modules/doc/plan.md"),
    }
    assert found.ignored == {
        "node_modules/": 2,
        "deep/x.log": 1,
        "deep/node_modules/": 1,
        "half/gone": 1,
        "out/": 1,
    }


@pytest.mark.req("LY-08")
async def test_ignored_files_are_moved_into_the_tree(bench: Bench) -> None:
    """What an install made is there afterwards, what it removed in the same folder is not; nothing odd comes along."""
    bench.write(**{".gitignore": "node_modules/\n*.log\n.env\n"}, node_modules__old__a="1", node_modules__kept__k="k")
    bench.write(**{".env": "SECRET=1", "x.log": "before"})
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "rm -r node_modules/old; mkdir -p node_modules/.bin node_modules/new; echo n > node_modules/new/n;"
        "ln -s ../new/n node_modules/.bin/n; chmod 755 node_modules/new/n; mkfifo node_modules/new/pipe;"
        "mkdir -p node_modules/new/.git/hooks; echo h > node_modules/new/.git/hooks/x; echo after > x.log; rm .env;"
        "mkdir fresh.log; echo f > fresh.log/f",
    )
    found = await layer.found(base)
    assert found.changes == ()
    assert set(found.ignored) == {"node_modules/", "x.log", ".env", "fresh.log/"}
    await layer.take_ignored(list(found.ignored))
    assert not (bench.root / "node_modules/old").exists()
    assert (bench.root / "node_modules/kept/k").read_text() == "k"
    assert (bench.root / "node_modules/.bin/n").readlink() == Path("../new/n")
    assert os.access(bench.root / "node_modules/new/n", os.X_OK)
    assert sorted(place.name for place in (bench.root / "node_modules/new").iterdir()) == ["n"]
    assert (bench.root / "x.log").read_text() == "after\n"
    assert (bench.root / ".env").read_text() == "SECRET=1", "what only the user has is never deleted"
    assert (bench.root / "fresh.log/f").read_text() == "f\n"
    taken = [place for folder in ("node_modules", "fresh.log") for place in (bench.root / folder).rglob("*")]
    assert not [name for place in taken for name in os.listxattr(place, follow_symlinks=False)]


@pytest.mark.req("LY-03", "LY-40")
async def test_what_never_comes_in_is_told(bench: Bench) -> None:
    """Pipes, sockets, set-uid files and links that lead out are changes, and refused with a reason."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "mkfifo pipe; echo s > suid; chmod 4755 suid; ln -s /etc/passwd out; ln -s ../../x up; ln -s README.md in;"
        'ln -s "$PWD/README.md" absolute; mkdir d; ln -s .. d/round; ln -s d/round/d/round/../../x twice;'
        "ln -s .git/config git; ln -s .interlock/runs engine; ln -s loop loop; mkdir .GIT; echo g > .GIT/config",
    )
    bench.python(layer, "import socket; s = socket.socket(socket.AF_UNIX); s.bind('sock')")
    found = await layer.found(base)
    refused = {"pipe", "suid", "out", "up", "twice", "git", "engine", "sock", ".GIT/config"}
    refused |= {"absolute"} if bench.maker == "copy" else set()
    assert set(found.refused) == refused
    assert {change.path for change in found.changes} == refused | {"in", "absolute", "d/round", "loop"}
    assert (
        "pipe" in found.refused["pipe"] and "set-uid" in found.refused["suid"] and "leads out" in found.refused["out"]
    )
    for path in ("pipe", "sock", ".GIT/config"):
        with pytest.raises(PathRefused):
            await layer.work(base, [path])
    with pytest.raises(PathRefused):
        await bring_in(bench.workspace, await layer.work(base, ["suid"]), label="agent")
    assert layer.facts("pipe").problem and not layer.facts("pipe").plain
    assert layer.facts("out").problem
    assert layer.facts("loop").exists


@pytest.mark.req("LY-07")
async def test_what_was_done_to_git_stays_in_the_layer_and_is_told(bench: Bench, git: GitCall) -> None:
    """Commits, branches, stashes, hooks and settings are sentences; the user's repository is the same."""
    before = held(bench.root)
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer,
        "echo 1 > one; git add .; git commit -qm one; echo 2 > two; git add .; git commit -qm two;"
        "echo s >> README.md; git stash -q; git checkout -q -b other; echo 3 > three; git add .; git commit -qm three;"
        "git tag v1; git config core.fsmonitor /tmp/evil; echo '#!/bin/sh' > .git/hooks/pre-commit;"
        "git -c gc.auto=0 reset -q --hard HEAD~1; git gc -q --prune=now",
    )
    found = await layer.found(base)
    assert {change.path: change.kind.value for change in found.changes} == {"one": "added", "two": "added"}
    told = " / ".join(found.repository)
    assert "HEAD was switched from 'main' to 'other'" in told
    assert "branch 'other' was made" in told
    assert "branch 'main'" in told
    assert "tag 'v1' was made" in told
    assert "1 stash made" in told
    assert "hook 'pre-commit' was put in" in told
    assert "git's settings were changed" in told
    assert held(bench.root) == before
    assert git(bench.root, "status", "--short") == ""


async def test_commits_are_counted(bench: Bench) -> None:
    """Two commits are two commits; reading and a refreshed index are nothing."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(layer, "touch README.md; git status; git log; git diff; git stash list")
    assert (await layer.found(base)).repository == ()
    bench.sh(layer, "echo 1 > one; git add .; git commit -qm one; git commit -q --allow-empty -m two")
    assert (await layer.found(base)).repository == ("2 commits on branch 'main'",)


async def test_a_repository_that_a_program_makes_is_told(bench: Bench) -> None:
    """Its files are changes, its git dir is not."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(layer, "mkdir lib; cd lib; git init -q; echo x > x; git add .; git commit -qm x")
    found = await layer.found(base)
    assert [change.path for change in found.changes] == ["lib/x"]
    assert found.repository == ("a repository was made in 'lib'",)


@pytest.mark.req("LY-38")
async def test_the_exit_is_left_beside_the_layer(bench: Bench) -> None:
    """Exit codes, signals and programs that are not there; a new start forgets the old exit."""
    layer = await bench.layer()
    assert layer.exit() is None
    for script, code in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", -15), ("kill -KILL $$", -9)]:
        layer.forget_exit()
        assert layer.exit() is None
        assert bench.run(layer, ["sh", "-c", script]).code == code
        left = layer.exit()
        assert left is not None and left.code == code
        assert left.at.startswith("20") and left.at.endswith("+00:00")
    layer.forget_exit()
    missing = bench.run(layer, ["no-such-program"])
    assert missing.code == 127
    assert "no-such-program" in missing.err


async def test_environment_directory_input_and_output_are_the_programs_own(bench: Bench) -> None:
    """The environment comes through unchanged, also odd bytes; so do standard input, output, error and the folder."""
    odd = os.fsdecode(b"\xff=\n x")
    bench.env = {**bench.env, "ODD": odd, "EMPTY": "", "LC_ALL": "C", "PYTHONHOME": "/nowhere"}
    layer = await bench.layer()
    done = bench.run(layer, ["env", "-0"])
    told = dict(line.split("=", 1) for line in done.out.split("\0") if line and not line.startswith(("PWD=", "_=")))
    assert {name: value for name, value in told.items() if name != "SHLVL"} == {
        name: value for name, value in bench.env.items() if name not in ("PWD", "_", "SHLVL")
    }
    done = bench.run(layer, ["sh", "-c", "pwd; cat; echo e >&2; exit 3"], cwd=layer.root / "src", stdin=b"\x00in")
    assert (done.code, done.out, done.err) == (3, f"{layer.root / 'src'}\n\x00in", "e\n")


async def test_the_exchange_is_one_folder_for_both(bench: Bench) -> None:
    """Program and engine write to it and read each other's files, at the same path."""
    layer = await bench.layer()
    (layer.exchange / "brief").write_text("do it")
    assert bench.sh(layer, 'cat "$1/brief"; echo done > "$1/answer"', str(layer.exchange)) == "do it"
    assert (layer.exchange / "answer").read_text() == "done\n"


@pytest.mark.req("LY-04")
async def test_a_layer_goes_on_with_what_it_holds(bench: Bench) -> None:
    """A second program finds what the first left; reverted files are as they were, given ones are there."""
    bench.write(dir__a="a", dir__b="b", other="o")
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(
        layer, "rm -r dir; echo n > new; echo changed > README.md; mkdir deep; echo d > deep/d; rm other; mkdir other"
    )
    assert bench.sh(layer, "cat new README.md; ls dir 2>/dev/null || echo gone") == "n\nchanged\ngone\n"
    await layer.revert(base, ["README.md", "new", "dir/a", "deep/d", "other"])
    assert await bench.found(layer, base) == {"dir/b": "deleted"}
    assert bench.sh(layer, "cat README.md dir/a other; ls -d new deep dir/b 2>/dev/null || true") == "hello\nao"
    first = await bench.layer("run-2")
    bench.sh(first, "echo w > work; rm src/app.py; chmod 700 README.md; ln -s work l; mkdir -p p/q; echo r > p/q/r")
    found = await first.found(base)
    work = await first.work(base, [change.path for change in found.changes])
    second = await bench.layer("run-3")
    await second.start_from(work)
    assert await second.found(base) == replace(found, files=(await second.found(base)).files)
    assert bench.sh(second, "cat work l p/q/r; ls src; stat -c %a README.md") == "w\nw\nr\n700\n"
    only = work.only(["work"])
    assert [entry.path for entry in only.entries] == ["work"]


@pytest.mark.req("LY-15")
async def test_a_layer_is_found_again_by_another_process(bench: Bench) -> None:
    """With all it holds; one that was never whole, or was dropped, is not there."""
    base = await bench.workspace.snapshot()
    layer = await bench.layer("run-1")
    bench.sh(layer, 'echo n > new; echo s > "$1/s"; exit 0', str(layer.exchange))
    again = open_layers(Workspace(bench.root, bench.root / ".interlock"), environ=bench.env, maker=bench.maker)
    found = await again.find("run-1", bench.confinement)
    assert found is not None
    assert (found.name, found.root, found.exchange, found.exit()) == ("run-1", layer.root, layer.exchange, layer.exit())
    assert await bench.found(found, base) == {"new": "added"}
    bench.sh(found, 'cat new; echo 2 > second; cat "$1/s"', str(layer.exchange))
    assert await bench.found(layer, base) == {"new": "added", "second": "added"}
    assert await again.find("run-2", bench.confinement) is None
    (bench.root / ".interlock/layers/run-3").mkdir()
    assert await again.find("run-3", bench.confinement) is None
    await found.drop()
    assert await again.find("run-1", bench.confinement) is None


async def test_layers_are_swept_by_run(bench: Bench) -> None:
    """Those of one run go, whatever modes their files have; those of others stay."""
    for name in ("one-1", "one-2", "onemore-1"):
        layer = await bench.layer(name)
        bench.sh(layer, "mkdir -p a/b; echo x > a/b/c; chmod 000 a/b; chmod 500 a")
    assert await bench.layers.sweep("one") == ["one-1", "one-2"]
    left = [place.name for place in (bench.root / ".interlock/layers").iterdir() if place.name != "copies"]
    assert left == ["onemore-1"]
    for name in ("../x", "", "a/b", ".x", "copies"):
        with pytest.raises(PathRefused):
            await bench.layer(name)


@pytest.mark.req("LY-14", "LY-34")
async def test_a_layer_over_its_bounds_is_said_and_dropped(bench: Bench) -> None:
    """Too many files, too many bytes, too large a file, folders too deep: a sentence, and nothing else."""
    base = await bench.workspace.snapshot()
    for number, (bounds, script, word) in enumerate(
        [
            (Bounds(files=20), "for i in $(seq 30); do echo x > f$i; done", "more than 20 files"),
            (Bounds(size=100_000), "for i in 1 2 3; do head -c 50000 /dev/zero > f$i; done", "more than 100000 bytes"),
            (Bounds(), "d=.; for i in $(seq 300); do mkdir x; cd x; done", "deep"),
        ]
    ):
        layer = await bench.layer(f"run-{number}", Confinement(home=bench.home, bounds=bounds))
        bench.sh(layer, script)
        found = await layer.found(base)
        assert word in found.over
        assert found.changes == ()
        await layer.drop()
        assert not (bench.root / f".interlock/layers/run-{number}").exists()
    layer = await bench.layer("run-9", Confinement(home=bench.home, bounds=Bounds(size=100_000)))
    done = bench.run(layer, ["sh", "-c", "head -c 200000 /dev/zero > big; ls -l big"])
    assert "100000" in done.out


@pytest.mark.req("LY-14")
async def test_a_chmod_of_everything_is_bounded_and_seen(bench: Bench) -> None:
    """Modes of all files changed: each is a modification, and more of them than allowed is said."""
    bench.write(**{f"many__{number}": "x" for number in range(30)})
    base = await bench.workspace.snapshot()
    layer = await bench.layer("run-1")
    bench.sh(layer, "chmod -R u+x many")
    assert set((await bench.found(layer, base)).values()) == {"modified"}
    assert len(await bench.found(layer, base)) == 30
    bounded = await bench.layer("run-2", Confinement(home=bench.home, bounds=Bounds(files=20)))
    bench.sh(bounded, "chmod -R u+x many")
    assert "files" in (await bounded.found(base)).over


@pytest.mark.req("LY-14")
async def test_an_existing_folder_can_be_renamed_with_mv(bench: Bench) -> None:
    """`mv` copies where the kernel says EXDEV; the change is the files' change."""
    bench.write(old__a="a", old__deep__b="b")
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.sh(layer, "mv old new")
    assert await bench.found(layer, base) == {
        "old/a": "deleted",
        "old/deep/b": "deleted",
        "new/a": "added",
        "new/deep/b": "added",
    }


@pytest.mark.req("LY-05", "LY-14")
async def test_what_people_change_meanwhile_is_not_the_programs(bench: Bench) -> None:
    """Edits, new files and deletions of a person during a dispatch are no changes of the layer."""
    bench.write(one="1", two="2", three="3")
    base = await bench.workspace.snapshot()
    layer = await bench.layer()
    bench.write(one="person", four="person's")
    (bench.root / "three").unlink()
    bench.sh(layer, "echo agent > two; touch one; rm -f four three")
    assert await bench.found(layer, base) == {"two": "modified"}
    result = await bench.bring(layer, base)
    assert result.paths == ("two",)
    assert (bench.root / "one").read_text() == "person"
    assert (bench.root / "four").read_text() == "person's"
    assert not (bench.root / "three").exists()


@pytest.mark.req("LY-14")
async def test_nested_repositories_and_submodules_are_worked_in(
    folder: Path, tmp_path: Path, git: GitCall, make_bench: MakeBench, request: pytest.FixtureRequest
) -> None:
    """Their files are changes by the workspace's paths and their own ignore rules; their git dirs stay as they were."""
    for maker in ("namespaces", "bubblewrap", "copy"):
        root = folder / maker
        library = tmp_path / f"library-{maker}"
        for place in (library, root):
            place.mkdir()
            git(place, "init", "-q")
            (place / "lib.c").write_text("int x;\n")
            (place / ".gitignore").write_text("*.o\n")
            git(place, "add", ".")
            git(place, "commit", "-qm", "start")
        git(root, "submodule", "--quiet", "add", str(library), "third/lib")
        (root / "nested").mkdir()
        git(root / "nested", "init", "-q")
        (root / "nested/n").write_text("n")
        git(root, "commit", "-qm", "submodule")
        bench = make_bench(root, maker)
        before = held(root)
        base = await bench.workspace.snapshot()
        layer = await bench.layer()
        bench.sh(
            layer,
            "cd third/lib; echo y > lib.c; echo o > x.o; git add .; git commit -qm inner; cd ../../nested; echo m > m;"
            "git add .; git commit -qm nested; git status >/dev/null",
        )
        found = await layer.found(base)
        assert {change.path: change.kind.value for change in found.changes} == {
            "third/lib/lib.c": "modified",
            "nested/m": "added",
        }, maker
        assert found.ignored == {"third/lib/x.o": 1}
        told = " / ".join(found.repository)
        assert "commit on branch" in told and "third/lib" in told and "nested" in told, told
        assert held(root) == before
        assert (await bench.bring(layer, base, found)).paths == ("nested/m", "third/lib/lib.c")
        assert (root / "third/lib/lib.c").read_text() == "y\n"


@pytest.mark.req("LY-14")
async def test_a_linked_worktree_is_a_workspace(
    repository: Path, tmp_path: Path, git: GitCall, make_bench: MakeBench
) -> None:
    """Its git dir lies elsewhere and is layered too: commits in the layer leave the repository alone."""
    for maker in ("namespaces", "bubblewrap", "copy"):
        root = tmp_path / f"linked {maker}"
        git(repository, "worktree", "add", "-q", str(root), "-b", f"side-{maker}")
        bench = make_bench(root, maker)
        before = held(repository / ".git")
        base = await bench.workspace.snapshot()
        layer = await bench.layer()
        out = bench.sh(
            layer, "echo x > x; git add x; git commit -qm x; git branch more; git log --oneline | wc -l; git status -s"
        )
        assert out.strip() == "2"
        found = await layer.found(base)
        assert [change.path for change in found.changes] == ["x"]
        assert f"1 commit on branch 'side-{maker}'" in found.repository
        assert held(repository / ".git") == before


@pytest.mark.req("LY-14")
async def test_a_part_of_a_repository_is_a_workspace(repository: Path, git: GitCall, make_bench: MakeBench) -> None:
    """Git works in it, with the rest of the repository in sight; only the part's files count."""
    for maker in ("namespaces", "bubblewrap", "copy"):
        root = repository / "packages" / f"app {maker}"
        root.mkdir(parents=True)
        (root / "main.py").write_text("1\n")
        git(repository, "add", ".")
        git(repository, "commit", "-qm", maker)
        bench = make_bench(root, maker)
        before = held(repository / ".git")
        base = await bench.workspace.snapshot()
        layer = await bench.layer()
        bench.sh(
            layer,
            "echo 2 > main.py; echo l > x.log; cat ../../README.md; git add .; git commit -qm part; git status -s",
        )
        found = await layer.found(base)
        assert {change.path: change.kind.value for change in found.changes} == {"main.py": "modified"}
        assert found.ignored == {"x.log": 1}
        assert found.repository == ("1 commit on branch 'main'",)
        assert held(repository / ".git") == before
        assert (await bench.bring(layer, base, found)).paths == ("main.py",)
        assert (root / "main.py").read_text() == "2\n"
        git(repository, "checkout", "-q", ".")


async def test_a_folder_that_is_no_repository_is_a_workspace(folder: Path, make_bench: MakeBench) -> None:
    """There is nothing to tell of git, and all else is the same."""
    for maker in ("namespaces", "bubblewrap", "copy"):
        root = folder / maker
        root.mkdir()
        (root / ".gitignore").write_text("*.tmp\n")
        (root / "a").write_text("a")
        bench = make_bench(root, maker)
        base = await bench.workspace.snapshot()
        layer = await bench.layer()
        bench.sh(layer, "echo b > a; echo t > x.tmp")
        found = await layer.found(base)
        assert [change.path for change in found.changes] == ["a"]
        assert found.ignored == {"x.tmp": 1}
        assert (await bench.bring(layer, base, found)).paths == ("a",)


@pytest.mark.req("LY-06")
async def test_four_layers_at_once_stay_apart(bench: Bench) -> None:
    """Four programs change one file at once; each sees its own, and all come in one after the other."""
    lines = "".join(f"line {number}\n" for number in range(20))
    bench.write(text=lines)
    base = await bench.workspace.snapshot()
    layers = [await bench.layer(f"run-{number}") for number in range(4)]
    running = []
    for number, layer in enumerate(layers):
        script = f"sed -i 's/line {number * 5}$/changed {number}/' text; cat text"
        words = layer.command_line(["sh", "-ec", script], cwd=layer.root, env=bench.env)
        running.append(subprocess.Popen(words, env=bench.env, stdout=subprocess.PIPE))
    for number, program in enumerate(running):
        out, _ = program.communicate()
        assert out.decode() == lines.replace(f"line {number * 5}\n", f"changed {number}\n")
    for layer in layers:
        assert (await bench.bring(layer, base)).paths == ("text",)
    assert (bench.root / "text").read_text().count("changed") == 4


async def test_facts_are_those_of_the_layer(bench: Bench) -> None:
    """What the program left, through its links; what it did not touch is the tree's, also when that changes."""
    bench.write(dir__a="a")
    layer = await bench.layer()
    bench.sh(layer, "echo new > n; rm dir/a; ln -s n l; mkdir sub; ln -s ../n sub/l; ln -s sub s; mkdir emptied")
    assert layer.facts("n").content == b"new\n"
    assert layer.facts("l").content == b"new\n" and layer.facts("l").link
    assert layer.facts("s/l").content == b"new\n"
    assert not layer.facts("dir/a").exists
    assert not layer.facts("no/where").exists
    assert layer.facts("emptied").problem == "is a directory"
    assert layer.facts("README.md").content == b"hello\n"
    assert not layer.facts("README.md/x").exists
    with pytest.raises(PathRefused):
        layer.facts("../x")
