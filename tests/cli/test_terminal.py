"""What agents, files and people put into words never reaches a terminal as anything but words."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interlock.agents import AgentNews
from interlock.cli import output
from interlock.cli.door import Errand
from interlock.cli.live import Board, LiveView, Picture
from interlock.cli.output import complain, escaped_json, print_json, print_lines, write_output
from interlock.engine.journal import Line
from interlock.telemetry import Telling, harmless

CLI = Path(output.__file__).parent
TOY = str(Path(__file__).parent / "toy_cli.py")
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\x08\x7f\u202eevil\u2066\rover\x00"
any_text = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=200)


class Terminal(io.TextIOWrapper):
    """Standard output that says to be a terminal, and keeps what it got."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def isatty(self) -> bool:
        return True

    @property
    def got(self) -> str:
        self.flush()
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode()


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    return made


# -- the edge


@pytest.mark.req("LY-43")
@given(any_text)
def test_every_way_to_a_terminal_is_harmless(text: str) -> None:
    """The playbook's output, our own lines, complaints and JSON; lines and tabs stay."""
    before = sys.stdout, sys.stderr
    made = Terminal()
    sys.stdout = sys.stderr = made
    try:
        write_output(text.encode("utf-8", "surrogatepass"))
        write_output(text.encode("utf-8", "ignore").decode())
        print_lines([text, f"\t{text}\n"])
        complain(text, text)
        print_json({text: [text]})
    finally:
        sys.stdout, sys.stderr = before
    assert is_harmless(made.got)


@pytest.mark.req("LY-43", "EN-28")
@given(st.binary(max_size=300))
def test_a_pipe_gets_the_output_byte_for_byte(raw: bytes) -> None:
    """Only a terminal is protected: programs read what the playbook wrote."""
    before, made = sys.stdout, io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    sys.stdout = made
    try:
        write_output(raw)
    finally:
        sys.stdout = before
    kept = made.buffer
    assert isinstance(kept, io.BytesIO)
    assert kept.getvalue() == raw


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.req("LY-43", "CM-31")
@given(json_values)
def test_json_stays_json_and_says_the_same(value: Any) -> None:
    """Escapes take the place of what is not printable; a number that JSON has no name for is null."""
    text = json.dumps(value, ensure_ascii=False)
    assert escaped_json(text).isprintable()
    if "NaN" not in text and "Infinity" not in text:
        assert json.loads(escaped_json(text)) == json.loads(text)


@pytest.mark.req("CM-31")
def test_a_number_that_is_none_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """NaN and Infinity are not JSON."""
    print_json({"cost": float("nan"), "list": [float("inf"), 1.5, ("x", float("-inf"))]})
    assert json.loads(capsys.readouterr().out) == {"cost": None, "list": [None, 1.5, ["x", None]]}


@pytest.mark.req("LY-43")
@given(any_text)
def test_text_without_its_power_is_still_readable(text: str) -> None:
    """What is printable stays as it is; nothing is dropped in silence; doing it twice changes nothing more."""
    shown = harmless(text)
    assert harmless(shown) == shown
    if is_harmless(text):
        assert shown == text
    assert len(shown) >= len(text.replace("\r\n", "\n"))


@pytest.mark.req("LY-43")
@pytest.mark.parametrize("file", sorted(CLI.rglob("*.py")), ids=lambda path: path.relative_to(CLI).as_posix())
def test_nobody_prints_past_the_edge(file: Path) -> None:
    """`print`, `typer.echo` and the streams themselves are for output.py alone (the version is ours, and plain)."""
    if file.name in ("output.py", "main.py"):
        return
    found = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "typer.echo", "typer.secho") or called.endswith(("stdout.write", "stderr.write")):
                found.append(f"{file.name}:{node.lineno}: {called}")
            if ".buffer." in f"{called}." or called.startswith("os.write"):
                found.append(f"{file.name}:{node.lineno}: {called}")
    assert found == []


# -- the live view


@pytest.mark.req("LY-43")
def test_the_live_view_shows_names_and_news_as_words() -> None:
    """Titles, agents, what they do and remarks; brackets in a name are no markup."""
    board = Board()
    board.begin(f"toy {EVIL}", [], None)
    data = {"member": f"[red]app/[id]{EVIL}", "step": EVIL, "try": 1, "runner": EVIL}
    board.line(Line(1, "2026-01-01T10:00:00+00:00", "r", "dispatch.start", "k", "a", 1, None, None, data, "", ""))
    console = Console(file=io.StringIO(), width=200, force_terminal=False, color_system=None)
    for kind in ("text", "thought", "tool", "plan", "waiting", "warning", "something"):
        facts = {"text": EVIL, "name": EVIL, "subject": EVIL, "why": EVIL, "entries": [[EVIL, "in_progress"]]}
        board.news("k", AgentNews(kind, facts))
        console.print(Picture(board))
    view = LiveView(Errand(), keep_output=True, root=Path("/"), console=console)
    view.remark(f"a remark {EVIL}")
    view.write("10:00:00", Telling(EVIL))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert is_harmless(shown)
    assert "[red]app/[id]" in shown


# -- whole commands on a real terminal


def on_terminal(workspace: Any, *arguments: str) -> bytes:
    """What a terminal gets when it is stdout and stderr of the command line."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, TOY, *arguments],
        cwd=workspace.root,
        env={**workspace.env, "TERM": "xterm", "COLUMNS": "200"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    got = b""
    while True:
        ready, _, _ = select.select([ours], [], [], 120)
        assert ready, "the terminal got nothing more"
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        got += part
    os.close(ours)
    process.wait()
    return got


@pytest.fixture
def evil(workspace: Any) -> Any:
    """A run whose key, agents, documents and messages are all meant for the terminal."""
    workspace.scenario(
        {"agent": "planner", "message": f"{EVIL}\nDONE: {EVIL}"},
        {"agent": "tester", "exit": 1, "message": EVIL, "files": {"tested.txt": None}},
    )
    return workspace


NO_NUL = EVIL.replace("\x00", "")


def is_free_of_it(got: bytes) -> bool:
    """Whether nothing of what was planted is there as it was: a live view has sequences of its own."""
    planted = [b"\x1b]0;", b"\x07", b"\x1b[2J", "\x9b".encode(), b"\x08", b"\x7f", "\u202e".encode(), "\u2066".encode()]
    return not any(part in got for part in planted)


@pytest.mark.long
@pytest.mark.req("LY-43")
def test_no_command_lets_anything_through(evil: Any) -> None:
    """From the first start over the gate to the report: the terminal is told, and not driven."""
    said = on_terminal(evil, "run", "toy", NO_NUL)
    assert is_free_of_it(said.replace(b"\a", b"", 1))  # the bell, since a person is waited for
    assert b"owned" in said
    assert is_free_of_it(on_terminal(evil, "run", "toy", NO_NUL, "--dry-run"))
    for words in (["runs"], ["show", "latest"], ["logs", "latest"], ["report", "latest"], ["show", NO_NUL]):
        for more in ([], ["--json"]):
            said = on_terminal(evil, *words, *more)
            assert b"\x1b" not in said, words
            assert is_free_of_it(said), words
    assert is_free_of_it(on_terminal(evil, "approve", "latest", "--note", NO_NUL, "--resume"))
    for words in (
        ["show", "latest"],
        ["logs", "latest"],
        ["report", "latest"],
        ["report", "latest", "--html", "r.html"],
    ):
        assert is_free_of_it(on_terminal(evil, *words)), words
    for place in (evil.root / "r.html", evil.folders[0] / "report.md"):
        assert is_harmless(place.read_text("utf-8")), place
        assert "owned" in place.read_text("utf-8")


@pytest.mark.req("LY-43")
def test_errors_quote_what_they_were_given_as_words(evil: Any) -> None:
    """An unknown command, a run that is not there, a word that is no choice."""
    for words in ([NO_NUL], ["show", NO_NUL], ["runs", f"--{NO_NUL}"], ["answer", "latest", NO_NUL]):
        said = on_terminal(evil, *words)
        assert is_free_of_it(said), words
        assert b"owned" in said or b"no runs" in said


@pytest.mark.req("LY-43")
def test_a_planted_run_folder_does_not_drive_the_terminal(workspace: Any) -> None:
    """Its name, its run.json and its journal are read by everybody who lists the runs."""
    workspace("run", "toy", "a", "--mode", "quick")
    folder = workspace.folders[0]
    planted = folder.with_name(NO_NUL.replace("/", ""))
    planted.mkdir()
    identity = json.loads((folder / "run.json").read_bytes())
    (planted / "run.json").write_text(json.dumps({**identity, "run_id": planted.name, "order": 99}))
    (planted / "journal.jsonl").write_bytes(b'{"event":"\x1b[2J"}\n')
    for words in (["runs"], ["show", "latest"], ["logs", "latest"], ["show", "latest", "--verify"]):
        assert is_free_of_it(on_terminal(workspace, *words)), words


ASIDES = """
import asyncio, sys, threading, warnings
from interlock.cli.main import keep_asides
keep_asides()

class Dying:
    def __del__(self) -> None:
        raise ValueError("\\x1b[2J in passing")

async def nobody_waits() -> None:
    async def lost() -> None:
        raise ValueError("\\x1b[2J in a task")
    task = asyncio.ensure_future(lost())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    del task

warnings.warn("\\x1b[2J a warning")
Dying()
thread = threading.Thread(target=lambda: {}["\\x1b[2J in a thread"])
thread.start()
thread.join()
asyncio.run(nobody_waits())
"""


@pytest.mark.req("LY-43", "LY-42")
def test_what_python_would_print_beside_our_words_is_kept_as_logs(tmp_path: Path) -> None:
    """Warnings and errors that nobody waits for: nothing on the terminal, and nothing lost."""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    env.pop("PYTHONWARNINGS", None)
    done = subprocess.run([sys.executable, "-c", ASIDES], env=env, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    logs = "".join(path.read_text("utf-8") for path in (tmp_path / "interlock").iterdir())
    assert all(words in logs for words in ("in passing", "in a task", "in a thread"))
