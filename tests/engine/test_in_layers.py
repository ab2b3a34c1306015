"""Whole calls of real programs in real layers: what reaches the user's tree, and what never does."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from interlock import app
from interlock.engine import Dispatch, Ending, Kind, Playbook, Run, Status, real_world
from interlock.engine.folder import known_runs
from interlock.engine.journal import Line
from interlock.engine.playing import Finished
from interlock.engine.runs import Quiet
from interlock.errors import ConfigInvalid
from interlock.telemetry import Weight, tell
from interlock.workspace import UNPROMISED, open_layers
from tests import own_python
from tests.conformance.harness import until
from tests.engine.test_people import command_runs, marked
from tests.engine.toys import GATED, ONCE, Work, single, toy

CODER = Dispatch("coder", "Write code.", writes=("src/**",), timeout_s=600.0)
JUDGE = replace(CODER, agent="judge", kind=Kind.JUDGE, writes=())
DONE = "\necho DONE: fine\n"


@pytest.fixture
def repository(workspace: Path) -> Path:
    """A repository of a user, with one commit, ignored folders and work that is not committed."""
    git(workspace, "init", "-q", "-b", "main")
    (workspace / ".gitignore").write_text("node_modules/\nbuild/\n.env\n")
    (workspace / "src").mkdir()
    (workspace / "src" / "app.py").write_text("first\n")
    git(workspace, "add", "-A")
    git(workspace, "commit", "-q", "-m", "first")
    (workspace / "unsaved.txt").write_text("not committed\n")
    (workspace / ".env").write_text("KEY=mine\n")
    return workspace


def git(root: Path, *args: str) -> str:
    return subprocess.run(["git", *args], cwd=root, check=True, capture_output=True, text=True).stdout


def ran(root: Path, playbook: Playbook, script: str, **more: Any) -> Finished:
    runs = command_runs(root, playbook, f"cat > /dev/null\n{script}", **more)
    return asyncio.run(runs.run(playbook, Work(f"run {len(known_runs(root))}")))


def called(root: Path, spec: Dispatch, script: str, **more: Any) -> dict[str, Any]:
    """The report of one dispatch whose agent is this script."""
    return json.loads(str(ran(root, single(spec), script + DONE, **more).output))


def lines(root: Path, event: str) -> list[Line]:
    return [line for line in known_runs(root)[-1].folder.lines() if line.event == event]


@pytest.mark.req("LY-08")
def test_what_a_code_writer_installs_comes_along_and_a_judges_is_dropped(repository: Path) -> None:
    """Ignored folders are moved as a whole, counted and listed; a judge leaves none."""
    install = "mkdir -p node_modules/left-pad && echo 1 > node_modules/left-pad/index.js && echo 2 > node_modules/x.js"
    report = called(repository, CODER, f"{install}; echo new > src/new.py")
    assert report["ignored"] == {"node_modules/": 2}
    assert report["changes"] == ["src/new.py"]
    assert (repository / "node_modules" / "left-pad" / "index.js").read_text() == "1\n"
    (line,) = lines(repository, "dispatch.came_along")
    assert line.data["ignored"] == {"node_modules/": 2}
    shutil.rmtree(repository / "node_modules")
    judged = called(repository, JUDGE, install)
    assert (judged["outcome"], judged["ignored"]) == ("OK", {})
    assert not (repository / "node_modules").exists()


@pytest.mark.req("LY-07", "LY-01")
def test_what_an_agent_does_to_git_stays_in_its_layer_and_its_content_counts(repository: Path) -> None:
    """Commits, branches, stashes, resets, hooks, settings: HEAD, refs and unsaved work are as they were."""
    before = git(repository, "for-each-ref"), git(repository, "rev-parse", "HEAD"), git(repository, "status", "--short")
    config = (repository / ".git" / "config").read_bytes()
    report = called(
        repository,
        CODER,
        """
        git reset -q --hard; git checkout -q -b mine; echo second > src/app.py
        git -c user.name=a -c user.email=a@b commit -qam second; echo third > src/app.py; git stash -q
        git config core.pager evil; printf '#!/bin/sh' > .git/hooks/pre-commit; git gc -q
        echo new > src/new.py; git checkout -q mine -- src/app.py
        """,
    )
    assert report["repository"]
    assert (repository / "src" / "app.py").read_text() == "second\n"
    assert (repository / "unsaved.txt").read_text() == "not committed\n"
    assert before[:2] == (git(repository, "for-each-ref"), git(repository, "rev-parse", "HEAD"))
    assert (repository / ".git" / "config").read_bytes() == config
    assert not (repository / ".git" / "hooks" / "pre-commit").exists()
    (line,) = lines(repository, "repository.touched")
    assert line.data["what"] == report["repository"]
    assert (report["outcome"], report["changes"]) == ("OK", ["src/app.py", "src/new.py"])


@pytest.mark.req("LY-33")
def test_an_ignore_rule_that_an_agent_makes_hides_nothing(repository: Path) -> None:
    """`tests/.gitignore` with everything in it, and a conftest.py beside: both are seen and refused."""
    report = called(repository, CODER, "mkdir tests; echo '*' > tests/.gitignore; echo cheat > tests/conftest.py")
    assert report["reason"] == "scope_violation"
    assert report["violations"] == ["tests/.gitignore", "tests/conftest.py"]
    assert not (repository / "tests").exists()


@pytest.mark.req("LY-33")
def test_an_ignored_file_that_steers_tools_does_not_come_along(repository: Path) -> None:
    """What the project ignores may come along, but not what would steer the next agent or the user's tools."""
    (repository / ".gitignore").write_text("node_modules/\n.vscode/\n")
    git(repository, "commit", "-qam", "ignore more")
    report = called(repository, CODER, "mkdir .vscode; echo '{}' > .vscode/settings.json; echo a > src/a.py")
    assert report["reason"] == "scope_violation"
    assert not (repository / ".vscode").exists()


@pytest.mark.req("LY-31", "LY-03")
def test_any_name_that_git_can_hold_comes_into_the_tree(repository: Path) -> None:
    """Brackets, wildcards, spaces, newlines, bytes that are no text, 255 of them."""
    names = [b"app/[id]/page.txt", b"a*b?c", b" two  spaces ", b"line\nbreak", b"\xff\xfe.bin", b"-dash", b"x" * 255]
    script = "\n".join(
        f'mkdir -p "$(dirname {quoted(n)})"; echo text > {quoted(n)}' for n in (b"src/" + n for n in names)
    )
    report = called(repository, CODER, script)
    assert report["outcome"] == "OK"
    for name in names:
        assert os.path.isfile(os.fsencode(repository) + b"/src/" + name), name  # noqa: PTH113
    again = called(repository, replace(CODER, task="Once more."), f"echo more >> {quoted(b'src/app/[id]/page.txt')}")
    assert again["changes"] == ["src/app/[id]/page.txt"]
    assert (repository / "src/app/[id]/page.txt").read_text() == "text\nmore\n"


def quoted(name: bytes) -> str:
    octal = "".join(f"\\{byte:03o}" for byte in name)
    return f"\"$(printf '{octal}X' | sed '$s/X$//')\"" if b"\n" not in name else f"\"$(printf '{octal}')\""


@pytest.mark.req("LY-34")
def test_a_layer_over_its_bounds_fails_and_frees_the_disk(repository: Path) -> None:
    """Nothing of it is imported, not even what is in scope."""
    overrides = {"sandbox": {"max_files": 20}}
    report = called(repository, CODER, "for i in $(seq 30); do echo $i > src/$i.txt; done", overrides=overrides)
    assert (report["outcome"], report["reason"]) == ("FAIL", "scope_violation")
    assert "20" in " ".join(report["complaints"])
    assert sorted(path.name for path in (repository / "src").iterdir()) == ["app.py"]
    assert not list((repository / ".interlock" / "layers").glob("toy-*"))


@pytest.mark.req("LY-34", "LY-01")
def test_an_agent_can_neither_end_nor_outlive_its_engine(repository: Path) -> None:
    """It sees no process but its own; what it sends into the background ends with it."""
    script = (
        "setsid sh -c 'sleep 1000; echo late > src/late' & kill -9 $PPID; kill -9 -1; kill -STOP 1; echo a > src/a.py"
    )
    report = called(repository, CODER, script)
    run = known_runs(repository)[-1].identity.run_id
    assert marked(run) == []
    assert report["outcome"] in ("OK", "FAIL")
    assert not (repository / "src" / "late").exists()


@pytest.mark.req("LY-39")
def test_known_secrets_are_in_no_record(repository: Path) -> None:
    """The environment's, and those of a runner's own: printed, written to files, committed, answered."""
    secret, own = "s3cr3t-value-of-the-shell", "s3cr3t-value-of-the-runner"
    environ = {**os.environ, "API_TOKEN": secret}
    spec = replace(CODER, timeout_s=600.0)
    script = (
        'echo "$API_TOKEN $OWN_KEY"; echo "$API_TOKEN" >&2; echo "$OWN_KEY" > elsewhere.txt; '
        'echo "key = $API_TOKEN" > src/key.py; '
        'printf \'{"status": "DONE", "summary": "%s"}\' "$OWN_KEY" > "$INTERLOCK_RESULT"'
    )
    runs = command_runs(repository, single(spec), f"cat > /dev/null\n{script}{DONE}", environ=environ)
    settings = (repository / "interlock.toml").read_text() + f'env = {{ OWN_KEY = "{own}" }}\n'
    (repository / "interlock.toml").write_text(settings)
    asyncio.run(runs.run(runs.setup.playbooks[0], Work()))
    runs = repository / ".interlock" / "runs"
    found = [
        str(path.relative_to(runs))
        for path in runs.rglob("*")
        if path.is_file() and any(word.encode() in path.read_bytes() for word in (secret, own))
    ]
    assert found == []


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("place", ["$INTERLOCK_RESULT", "src/pipe", "$(dirname $INTERLOCK_BRIEF)/output.md"])
def test_a_pipe_where_a_file_is_expected_blocks_nothing(repository: Path, place: str) -> None:
    """The dispatch comes to its end; a pipe in the tree is refused, one elsewhere is no answer."""
    report = called(repository, CODER, f'rm -f "{place}"; mkfifo "{place}"; echo a > src/a.py')
    assert report["outcome"] == ("FAIL" if place.startswith("src") else "OK")
    assert not (repository / "src" / "pipe").exists()


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_run_whose_agent_only_waits(repository: Path, number: signal.Signals) -> None:
    """A program that ignores requests to end, with a pipe that nobody reads, is ended all the same."""
    script = "trap '' TERM INT HUP\nmkfifo src/pipe\necho started > src/started\ncat src/pipe"
    runs = command_runs(repository, single(CODER), f"cat > /dev/null\n{script}{DONE}")

    async def main() -> Finished:
        async def strike() -> None:
            await until(lambda: list(repository.glob(".interlock/layers/*/upper/src/started")))
            os.kill(os.getpid(), number)

        striking = asyncio.ensure_future(strike())
        finished = await runs.run(runs.setup.playbooks[0], Work())
        await striking
        return finished

    finished = asyncio.run(main())
    assert finished.status is Status.INTERRUPTED
    assert marked(str(finished.run_id)) == []


# -- commands


def commanding(script: str, **how: Any) -> Playbook:
    async def body(run: Run, _work: Work) -> Ending:
        result = await run.command(["sh", "-c", script], **how)
        return Ending.complete(json.dumps([result.exit, list(result.changed)]))

    return toy(body, retries=ONCE)


@pytest.mark.req("LY-09")
def test_a_command_keeps_its_ignored_outputs_and_other_changes_are_reported_and_dropped(repository: Path) -> None:
    """A second build finds what the first one left; a file that it rewrote on the way is as it was."""
    build = "mkdir -p build; ls build; echo object > build/app.o; echo broken > src/app.py; echo mine > new.txt"
    finished = ran(repository, commanding(build), "")
    assert json.loads(str(finished.output)) == [0, ["new.txt", "src/app.py"]]
    assert (repository / "build" / "app.o").read_text() == "object\n"
    assert (repository / "src" / "app.py").read_text() == "first\n"
    assert not (repository / "new.txt").exists()
    (line,) = lines(repository, "command.dropped")
    assert line.data["paths"] == ["new.txt", "src/app.py"]
    assert tell(line).weight is Weight.ATTENTION


@pytest.mark.req("LY-09")
@pytest.mark.req("EV-30")
def test_caches_that_a_command_left_are_told_only_to_who_asks(repository: Path) -> None:
    """They are dropped as everything else is, and nobody misses them."""
    ran(repository, commanding("mkdir -p src/__pycache__ .pytest_cache; echo > src/__pycache__/a.pyc"), "")
    (line,) = lines(repository, "command.dropped")
    assert line.data["paths"] == ["src/__pycache__/a.pyc"]
    assert tell(line).weight is Weight.DETAIL


@pytest.mark.req("LY-09")
def test_a_command_that_is_declared_to_write_brings_its_files_in(repository: Path) -> None:
    """A formatter's changes are taken over, but not those of what steers tools."""
    script = "echo formatted > src/app.py; echo planted > CLAUDE.md"
    finished = ran(repository, commanding(script, writes=True), "")
    assert json.loads(str(finished.output)) == [0, ["src/app.py"]]
    assert (repository / "src" / "app.py").read_text() == "formatted\n"
    assert not (repository / "CLAUDE.md").exists()


@pytest.mark.req("LY-09", "LY-01")
def test_a_command_cannot_leave_its_layer(repository: Path, tmp_path: Path) -> None:
    """No process outlives it, no file of the user's home or of the engine changes, no commit is made."""
    outside = tmp_path / "home" / "outside.txt"
    script = (
        f"echo x > {outside}; echo x > {tmp_path}/also; echo x >> .interlock/runs/*/journal.jsonl; "
        "git -c user.name=a -c user.email=a@b commit -qam evil; (setsid sleep 1000 &); true"
    )
    head = git(repository, "rev-parse", "HEAD")
    finished = ran(repository, commanding(script), "")
    assert finished.status is Status.COMPLETE
    assert not outside.exists()
    assert not (tmp_path / "also").exists()
    assert git(repository, "rev-parse", "HEAD") == head
    assert known_runs(repository)[-1].folder.verify() == []
    assert marked(str(finished.run_id)) == []


@pytest.mark.req("LY-12")
def test_strict_refuses_to_run_where_nothing_can_confine(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without confinement no run begins; the reason is said. `auto` says once what is missing, and at gates."""
    monkeypatch.setattr(app, "open_layers", lambda workspace, **more: open_layers(workspace, **more, maker="copy"))
    monkeypatch.setattr(real_world, "open_layers", app.open_layers)
    with pytest.raises(ConfigInvalid, match="confined"):
        called(repository, CODER, "echo a > src/a.py", overrides={"sandbox": {"mode": "strict"}})
    assert known_runs(repository) == []
    runs = command_runs(repository, GATED, "cat > /dev/null; echo p > plan.md; echo DONE: fine")
    asyncio.run(runs.run(GATED, Work()))
    view = runs.view
    assert isinstance(view, Quiet)
    assert [text for text in view.remarks if UNPROMISED in text and "not confined here" in text]
    assert [text for text in view.remarks if UNPROMISED in text and "before you decide" in text]


@pytest.mark.req("LY-10", "LY-12")
def test_with_a_mere_copy_the_same_comes_into_the_tree(repository: Path) -> None:
    """`mode = off`: another path, no confinement, the same result; the tree is not written to by the agent."""
    script = 'test "$PWD" != "$OLD" && git commit -q --allow-empty -m x; echo new > src/new.py; rm unsaved.txt'
    head = git(repository, "rev-parse", "HEAD")
    report = called(repository, CODER, script, overrides={"sandbox": {"mode": "off"}})
    assert (report["reason"], report["violations"]) == ("scope_violation", ["unsaved.txt"])
    assert (repository / "unsaved.txt").exists()
    assert git(repository, "rev-parse", "HEAD") == head


# -- the network


class Echo(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"from the model\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def servers() -> Iterator[tuple[int, int]]:
    """Two servers on loopback: the ports of the model, and of something else."""
    both = [ThreadingHTTPServer(("127.0.0.1", 0), Echo) for _ in range(2)]
    for server in both:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield both[0].server_port, both[1].server_port
    for server in both:
        server.shutdown()
        server.server_close()


@pytest.mark.req("LY-11")
@pytest.mark.parametrize(("network", "reached"), [("open", "both"), ("model", "the model"), ("none", "nothing")])
def test_the_network_lets_through_what_the_settings_say(
    repository: Path, servers: tuple[int, int], network: str, reached: str
) -> None:
    """Everything, the model's hosts alone, or nothing; what was refused is an event."""
    model, other = servers
    fetch = (
        "import sys, urllib.request\n"
        "for name, port in zip(('model', 'other'), sys.argv[1:]):\n"
        "    try:\n"
        "        text = urllib.request.urlopen(f'http://127.0.0.1:{port}/', timeout=120).read().decode()\n"
        "        open(f'src/{name}.txt', 'w').write(text)\n"
        "    except OSError as error:\n"
        "        print(error)\n"
    )
    (repository / "fetch.py").write_text(fetch)
    shown = list(map(str, own_python.PLACES))
    overrides = {"sandbox": {"network": network, "hosts": [f"127.0.0.1:{model}"], "home": shown}}
    report = called(repository, CODER, f"{sys.executable} fetch.py {model} {other}", overrides=overrides)
    found = {"both": ["src/model.txt", "src/other.txt"], "the model": ["src/model.txt"], "nothing": []}
    assert report["changes"] == found[reached]
