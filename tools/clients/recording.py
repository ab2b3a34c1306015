"""Samples of what each client prints, for the tests of the parsers: taken from the real programs, made neutral.

Paths, ids and times are replaced, so that a sample changes only when its client does.  `exits.json` beside the samples
has the exit statuses.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.agents import AgentRequest
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.catalogue import known, make_runner
from tools.clients.catalogue import client
from tools.clients.headless import headless
from tools.clients.homes import environment
from tools.model_server import serving

DEADLINE_S = 240
EXITS = "exits.json"

CASES: Mapping[str, str] = {
    "ok": "Please do it.\n@usage 1234 56\n@write docs/note.md :: hello from a script\n"
    "@shell echo shell-was-here > shell.txt\n@say All done: docs/note.md written.",
    "http-500": "@retry_after 0.1\n@http 500 the model is down",
    "http-429": "@retry_after 0.1\n@http 429 rate limit reached",
    "http-401": "@http 401 invalid key",
    "refused": "@usage 1234 56\n@write secret.md :: not allowed\n@say I was not allowed to write.",
}
"""By name: what the model does.  In `refused` the client may write nothing but docs/."""


@dataclass(frozen=True)
class Sample:
    """What a client printed, and its exit status; None: it was still trying at the deadline."""

    text: str
    exit: int | None


def record(name: str, target: Path) -> dict[str, int | None]:
    """Takes every sample of a client anew; gives the exit statuses by sample."""
    target.mkdir(parents=True, exist_ok=True)
    exits: dict[str, int | None] = {}
    for case, prompt in CASES.items():
        with tempfile.TemporaryDirectory() as root:
            sample = _taken(name, prompt, Path(root), confined=case == "refused")
        (target / f"{name}-{case}.jsonl").write_text(sample.text, encoding="utf-8")
        exits[f"{name}-{case}"] = sample.exit
    index = target / EXITS
    known = json.loads(index.read_text("utf-8")) if index.exists() else {}
    index.write_text(json.dumps(known | exits, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return exits


def _taken(name: str, prompt: str, root: Path, *, confined: bool) -> Sample:
    workspace, home = root / "workspace", root / "home"
    (workspace / "docs").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=workspace, check=True)
    with serving() as server:
        surroundings = environment(name, server.url, home)
        places = {str(workspace): "/workspace", str(home): "/home/user", server.url: _URL, str(root): "/elsewhere"}
        if known(name).mode == "acp":
            asked = prompt.replace("secret.md", f"{root}/secret.md")  # outside: we do not allow that
            sample = asyncio.run(_spoken(name, asked, root, surroundings))
            return Sample(neutral(sample.text, places), sample.exit)
        called = headless(name, prompt, workspace)
        argv = _CONFINED[name](called.argv, surroundings, home) if confined else called.argv
        client = subprocess.Popen(
            argv,
            cwd=workspace,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = client.communicate(called.stdin, timeout=DEADLINE_S)
            status: int | None = client.returncode
        except subprocess.TimeoutExpired:
            os.killpg(client.pid, signal.SIGKILL)
            printed, _ = client.communicate()
            status = None
        return Sample(neutral(printed, places), status)


async def _spoken(name: str, prompt: str, root: Path, surroundings: Mapping[str, str]) -> Sample:
    """What a client says that is spoken to by a protocol: here a runner has to be the other side."""
    request = AgentRequest(
        run_id="sample",
        playbook="sample",
        step="sample",
        agent="sample",
        member="sample",
        attempt=1,
        dispatch="sample#1",
        session="sample",
        workspace=root / "workspace",
        folder=root / "records",
        brief=prompt,
        timeout_s=DEADLINE_S,
    )
    runner = make_runner(name, Configured(name, str(client(name).path())), surroundings, "acp")
    ended = await runner.call(request, lambda _news: None)
    return Sample((request.folder / "stream.jsonl").read_text("utf-8"), None if ended.timed_out else ended.code)


_Confine = Callable[[tuple[str, ...], dict[str, str], Path], tuple[str, ...]]


def _claude(argv: tuple[str, ...], surroundings: dict[str, str], home: Path) -> tuple[str, ...]:
    at = argv.index("--permission-mode")
    return (*argv[:at], "--permission-mode", "dontAsk", "--allowedTools", "Write(docs/**),Edit(docs/**),Read")


def _codex(argv: tuple[str, ...], surroundings: dict[str, str], home: Path) -> tuple[str, ...]:
    return tuple("read-only" if word == "workspace-write" else word for word in argv)


def _opencode(argv: tuple[str, ...], surroundings: dict[str, str], home: Path) -> tuple[str, ...]:
    settings = Path(surroundings["OPENCODE_CONFIG"])
    rules = {"permission": {"edit": {"*": "deny", "docs/**": "allow"}, "bash": "deny"}}
    settings.write_text(json.dumps(json.loads(settings.read_text("utf-8")) | rules), encoding="utf-8")
    return argv


def _copilot(argv: tuple[str, ...], surroundings: dict[str, str], home: Path) -> tuple[str, ...]:
    kept = tuple(word for word in argv if word != "--allow-all-tools")
    return (*kept, "--allow-tool", "write(docs/**)", "--deny-tool", "shell")


def _gemini(argv: tuple[str, ...], surroundings: dict[str, str], home: Path) -> tuple[str, ...]:
    policy = home / "policy.toml"
    policy.write_text(
        '[[rule]]\ntoolName = "write_file"\nargsPattern = \'"file_path":"[^"]*/secret\'\n'
        'decision = "deny"\npriority = 900\n',
        encoding="utf-8",
    )
    return (*argv, "--policy", str(policy))


_CONFINED: Mapping[str, _Confine] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
    "copilot": _copilot,
    "gemini": _gemini,
}

_URL = "http://127.0.0.1:8000"
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_ID = re.compile(r"\b(ses_|msg_|prt_)([0-9A-Za-z]{26})\b")
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_MOMENT = re.compile(r"(?<=[:\s])1[789]\d{11}\b")
_DATE = re.compile(r"(?<=\"date\":\")[^\"]+")


def neutral(text: str, places: Mapping[str, str]) -> str:
    """The text with its places, ids and times replaced; equal ids stay equal."""
    for place, name in places.items():
        text = text.replace(place, name).replace(re.sub(r"[/._]", "-", place), name.replace("/", "-"))
        text = text.replace(place.removeprefix("http://"), name.removeprefix("http://"))
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> int:
        return numbers.setdefault(found[0], len(numbers) + 1)

    text = _UUID.sub(lambda found: f"00000000-0000-4000-8000-{numbered(found):012d}", text)
    text = _ID.sub(lambda found: f"{found[1]}{numbered(found):026d}", text)
    text = _MOMENT.sub("1767225600000", _TIME.sub("2026-01-01T00:00:00.000Z", text))
    return _DATE.sub("Thu, 01 Jan 2026 00:00:00 GMT", text)
