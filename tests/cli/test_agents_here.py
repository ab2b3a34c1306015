"""Which coding agents a machine has: found, chosen, asked; with programs that stand in for them on PATH."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.coding.probing import NoAnswer, probe
from interlock.agents.runner import (
    AgentExit,
    AgentRequest,
    Fault,
    Health,
    Limited,
    MemoryOutput,
    Observer,
)
from interlock.app import FromSettings
from interlock.cli.workshop import unanswered
from interlock.contracts import Reason
from interlock.settings import AcpAgent, CodingAgent

CLAUDE = """\
import json, os, sys
if "--version" in sys.argv:
    print("9.8.7 (Claude Code)"); sys.exit()
if sys.argv[1:3] == ["auth", "status"]:
    sys.exit(0 if os.environ.get("SIGNED") else 1)
question = sys.stdin.read()
assert "READY" in question and not os.listdir("."), question
print(json.dumps({"type": "system", "subtype": "init", "session_id": "s"}))
if os.environ.get("SIGNED"):
    result = {"is_error": False, "result": "READY"}
else:
    result = {"is_error": True, "result": "Not logged in, please run /login"}
print(json.dumps({"type": "result", "subtype": "success", **result}))
"""
FAILING = """\
import json, os, sys
if "--version" in sys.argv:
    print("9.8.7 (Claude Code)"); sys.exit()
sys.stdin.read()
said = {"type": "result", "subtype": "success", "is_error": True, **json.loads(os.environ["SAYS"])}
print(json.dumps(said))
"""
WORKER = """\
import json, os, pathlib, sys, time
if "--version" in sys.argv:
    print("9.8.7 (Claude Code)"); sys.exit()
sys.stdin.read()
agent, calls = os.environ["INTERLOCK_AGENT"], pathlib.Path(os.environ["CALLS"])
called = calls / agent
if agent == os.environ["REFUSED"] and not called.exists():
    result = {"is_error": True, "api_error_status": 429, "result": "API Error: 429 too many requests, retry in 1s"}
else:
    home = pathlib.Path(os.environ["INTERLOCK_BRIEF"]).parents[3]  # not confined, so that it can look there
    journals = home.glob("runs/*/journal.jsonl") if agent == "tester" else ()
    end = time.monotonic() + 120
    for journal in journals:
        while "run.paused" not in journal.read_text() and time.monotonic() < end:
            time.sleep(0.02)
    pathlib.Path({"planner": "plan.md", "builder": "built.txt", "tester": "tested.txt"}[agent]).write_text("done")
    result = {"is_error": False, "result": "DONE: as asked"}
called.write_text("")
print(json.dumps({"type": "result", "subtype": "success", "session_id": "s", **result}))
"""
UNCONFINED = {"INTERLOCK_SANDBOX_MODE": "off"}
"""For agents of a test that note things outside of the workspace."""
CODEX = """\
import sys
if "--version" in sys.argv:
    print("codex-cli 1.2.3"); sys.exit()
sys.exit(0 if sys.argv[1:] == ["login", "status"] else 3)
"""


@pytest.fixture
def on_path(tmp_path: Path) -> Callable[..., str]:
    """A PATH with these programs, and git."""

    def make(**programs: str) -> str:
        folder = tmp_path / "programs"
        folder.mkdir()
        for name, text in programs.items():
            (folder / name).write_text(f"#!{sys.executable}\n{text}")
            (folder / name).chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    return make


def unset(workspace: Any) -> None:
    (workspace.root / "interlock.toml").unlink()


def test_init_finds_the_agents_and_chooses_one_that_is_signed_in(workspace: Any, on_path: Callable[..., str]) -> None:
    """Claude Code is there but signed out, Codex is signed in: Codex is chosen, the other stands in a comment."""
    unset(workspace)
    answer = workspace("init", PATH=on_path(claude=CLAUDE, codex=CODEX))
    assert answer.stdout.decode().splitlines()[:2] == [
        "found    claude: Claude Code 9.8.7, not signed in",
        "found    codex: Codex 1.2.3, signed in",
    ]
    text = (workspace.root / "interlock.toml").read_text("utf-8")
    assert tomllib.loads(text) == {"runner": "codex"}
    assert "#   claude: Claude Code 9.8.7, not signed in" in text


def test_init_as_json_lists_them_too(workspace: Any, on_path: Callable[..., str]) -> None:
    """Version and sign-in of each."""
    unset(workspace)
    found = workspace("init", "--json", PATH=on_path(claude=CLAUDE), SIGNED="1").json
    assert found["agents"] == {"claude": {"version": "9.8.7", "signed_in": True}}


def test_init_copies_roles_for_editing_and_a_copy_counts_first(workspace: Any) -> None:
    """Every role of the playbook, where a team's own are looked for; without a playbook it is refused."""
    answer = workspace("init", "--playbook", "roadmap", "--roles", "--json")
    copies = [path for path in answer.json["written"] if path.startswith(".interlock/agents/roadmap/")]
    assert [Path(path).stem for path in copies] == ["Architect", "Implement", "Research", "Review", "Testing"]
    assert "roadmap/Review: .interlock/agents/roadmap/Review.md" in workspace("doctor", "--no-ask").stdout.decode()
    assert workspace("init", "--roles").code == 2


def test_doctor_asks_the_agent_that_runs_would_use(workspace: Any, on_path: Callable[..., str]) -> None:
    """Version, mode and the answer to one line; nothing is left in the workspace."""
    unset(workspace)
    before = workspace.digest()
    answer = workspace("doctor", PATH=on_path(claude=CLAUDE, codex=CODEX), SIGNED="1")
    said = answer.stdout.decode()
    assert answer.code == 0
    assert "claude (default): version 9.8.7" in said
    assert "mode headless; answers in" in said
    assert "codex: Codex 1.2.3, signed in; not used here" in said
    assert workspace.digest() == before


def test_doctor_says_what_to_do_when_the_agent_does_not_answer(workspace: Any, on_path: Callable[..., str]) -> None:
    """Exit 2, the agent's own words, and how to sign in; without asking it is only found."""
    unset(workspace)
    path = on_path(claude=CLAUDE)
    answer = workspace("doctor", PATH=path)
    said = answer.stdout.decode()
    assert answer.code == 2
    assert "does not answer: Not logged in, please run /login" in said
    assert "to do: Run `claude` once and sign in, or set ANTHROPIC_API_KEY." in said
    quiet = workspace("doctor", "--no-ask", PATH=path)
    assert quiet.code == 0
    assert "not asked" in quiet.stdout.decode()


@pytest.mark.parametrize(
    ("says", "remedy"),
    [
        ({"result": "API Error: 401 invalid x-api-key"}, "to do: Run `claude` once and sign in, or set"),
        ({"result": "unknown model: opuss"}, "to do: Correct runners.mine.model, which is 'opuss'. Run it by hand"),
        ({"result": "API Error: 500 internal error"}, "to do: Check the network. Run it by hand and see what it says:"),
        ({"is_error": False, "result": ""}, "to do: Check the network. Run it by hand and see what it says:"),
    ],
)
def test_the_remedy_fits_what_kept_the_agent_from_answering(
    workspace: Any, on_path: Callable[..., str], says: dict[str, Any], remedy: str
) -> None:
    """Only who is not signed in is told to sign in."""
    (workspace.root / "interlock.toml").write_text('[runners.mine]\ntype = "claude"\nmodel = "opuss"\nargs = ["-x"]\n')
    answer = workspace("doctor", PATH=on_path(claude=FAILING), SAYS=json.dumps(says))
    said = answer.stdout.decode()
    assert answer.code == 2
    assert remedy in said
    assert ("sign in" in said) == ("401" in said)
    assert "by hand" not in remedy or "see what it says: claude -x\n" in said


class Ends:
    """A runner whose calls all end in one way."""

    name = "ends"

    def __init__(self, exit_: AgentExit) -> None:
        self._exit = exit_

    async def call(self, request: AgentRequest, observe: Observer) -> AgentExit:
        return self._exit

    async def ready(self) -> Health:
        return await self.health()

    async def health(self) -> Health:
        return Health(True, "")


LIMITED = Limited("it waited for its model service: 429")
FAULT = Fault(Reason.CRASHED, "the agent ended with exit status 3 without reporting the end of its turn: Segmentation")


@pytest.mark.parametrize(
    ("exit_", "failure", "remedy"),
    [
        (
            AgentExit(None, spawn_error="exec format"),
            NoAnswer.START,
            "Run it by hand and see what it says: x -y. Or name",
        ),
        (AgentExit(-9, timed_out=True), NoAnswer.TIME, "Check the network. Run it by hand and see what it says: x -y"),
        (AgentExit(-9, timed_out=True, limited=LIMITED), NoAnswer.LIMIT, "Nothing: it will answer again later."),
        (AgentExit(3, fault=FAULT), NoAnswer.OTHER, "Check the network. Run it by hand"),
        (AgentExit(3, MemoryOutput(b"READY")), NoAnswer.OTHER, "Check the network. Run it by hand"),
        (
            AgentExit(1, fault=Fault(Reason.AGENT_ERROR, "please log in")),
            NoAnswer.ACCESS,
            "Sign in with its own program.",
        ),
        (AgentExit(1, fault=Fault(Reason.AGENT_ERROR, "unknown model")), NoAnswer.REQUEST, "Run it by hand"),
        (AgentExit(0, MemoryOutput(b"I am ready")), None, ""),
    ],
)
async def test_every_end_of_a_question_has_a_remedy(exit_: AgentExit, failure: NoAnswer | None, remedy: str) -> None:
    """One for each kind of failure, also where the agent is none that interlock knows, and no model is set."""
    asked = await probe(Ends(exit_), limit_s=5.0)
    assert (asked.ok, asked.failure) == (failure is None, failure)
    assert asked.text
    assert unanswered(failure, "mine", None, None, "x -y").startswith(remedy)


def test_a_limit_of_the_service_is_nothing_to_mend(workspace: Any, on_path: Callable[..., str]) -> None:
    """A note, and exit 0: tomorrow it answers again."""
    unset(workspace)
    says = json.dumps({"api_error_status": 429, "result": "usage limit reached"})
    answer = workspace("doctor", PATH=on_path(claude=FAILING), SAYS=says)
    (line,) = [line for line in answer.stdout.decode().splitlines() if "claude (default)" in line]
    assert answer.code == 0
    assert line.startswith("note ")
    assert "does not answer: usage limit reached" in line
    assert "to do: Nothing: it will answer again later." in answer.stdout.decode()


def test_what_the_agent_says_is_shown_without_secrets(workspace: Any, on_path: Callable[..., str]) -> None:
    """A service that quotes the key it refuses does not bring it onto the screen."""
    unset(workspace)
    says = json.dumps({"result": "401 wrong key: sk-0123456789abcdef"})
    answer = workspace("doctor", PATH=on_path(claude=FAILING), SAYS=says, ANTHROPIC_API_KEY="sk-0123456789abcdef")
    assert "401 wrong key: [redacted:ANTHROPIC_API_KEY]" in answer.stdout.decode()
    assert "sk-0123456789abcdef" not in answer.stdout.decode()


@pytest.mark.parametrize("mode", ["headless", "acp"])
def test_a_program_given_as_a_path_counts_from_the_workspace(tmp_path: Path, mode: str) -> None:
    """Wherever a call or a question starts; a bare name is looked for on PATH, an absolute path stays as it is."""
    (tmp_path / "interlock.toml").write_text(
        f'[runners.here]\ntype = "claude"\nmode = "{mode}"\nprogram = "tools/claude"\n'
        '[runners.there]\ntype = "acp"\nprogram = "./tools/agent"\n'
        '[runners.far]\ntype = "codex"\nprogram = "/opt/codex"\n'
        '[runners.named]\ntype = "codex"\nprogram = "codex-nightly"\n'
    )
    setup = FromSettings(tmp_path, {})
    found = {}
    for name, table in setup.settings.runners.items():
        assert isinstance(table, CodingAgent | AcpAgent)
        found[name] = setup.program_of(table)
    root = tmp_path.resolve()
    assert found == {
        "here": f"{root}/tools/claude",
        "there": f"{root}/tools/agent",
        "far": "/opt/codex",
        "named": "codex-nightly",
    }


def test_a_way_of_speaking_that_was_given_up_stops_a_run_before_it_begins(workspace: Any) -> None:
    """With the setting, what is expected, and what to do; `doctor` says the same."""
    (workspace.root / "interlock.toml").write_text('[runners.mine]\ntype = "gemini"\nmode = "acp"\n')
    ran = workspace("run", "toy", "a", "--mode", "quick")
    assert ran.code == 2
    for words in ("Gemini CLI is not spoken to in mode 'acp'", "runners.mine.mode", "'headless'", "Remove the line"):
        assert words in ran.stderr
    said = workspace("doctor", "--no-ask").stdout.decode()
    assert "Gemini CLI is not spoken to in mode 'acp'" in said
    assert "Remove the line" in said


def test_a_program_in_the_workspace_is_found_by_doctor_and_by_runs(workspace: Any, on_path: Callable[..., str]) -> None:
    """For its version, for a call in another folder, and for one in the workspace: the same file."""
    (workspace.root / "interlock.toml").write_text('[runners.mine]\ntype = "claude"\nprogram = "tools/claude"\n')
    place = workspace.root / "tools" / "claude"
    place.parent.mkdir()
    place.write_text(f"#!{sys.executable}\n{CLAUDE}")
    place.chmod(0o755)
    path = on_path()
    answer = workspace("doctor", PATH=path, SIGNED="1")
    assert answer.code == 0
    assert f"mine (default): version 9.8.7, {place}; mode headless; answers in" in answer.stdout.decode()
    place.write_text(f"#!{sys.executable}\n{WORKER}")
    (workspace.root.parent / "calls").mkdir()
    ran = workspace(
        *("run", "toy", "a", "--mode", "quick"),
        PATH=path,
        REFUSED="",
        CALLS=str(workspace.root.parent / "calls"),
        **UNCONFINED,
    )
    assert ran.code == 0, ran.stderr
    assert (workspace.root / "plan.md").read_text() == "done"


def test_doctor_says_how_to_get_an_agent_that_is_not_installed(workspace: Any, on_path: Callable[..., str]) -> None:
    """A runner that is set but not there."""
    unset(workspace)
    answer = workspace("doctor", "--runner", "gemini", PATH=on_path())
    assert answer.code == 2
    assert "'gemini' is not found" in answer.stdout.decode()
    assert "npm install -g @google/gemini-cli" in answer.stdout.decode()


def test_a_run_without_settings_uses_the_agent_on_path_and_says_so(router: Any, on_path: Callable[..., str]) -> None:
    """Whoever pays is told which agent is called, before it is."""
    (router.root / "interlock.toml").unlink()
    speaks = CLAUDE.replace('assert "READY" in question and not os.listdir("."), question', "").replace(
        '"READY"', json.dumps("Status: completed\nDone.")
    )
    answer = router(
        "run", "router", "/implement 259", PATH=on_path(claude=speaks), SIGNED="1", ANTHROPIC_API_KEY="a-key-for-nobody"
    )
    assert "agents are called with claude, found on PATH" in answer.stderr
    assert answer.code == 0
    starts = [line for line in router.journal() if line["event"] == "dispatch.start"]
    assert [line["data"]["runner"] for line in starts] == ["claude"]


def test_without_any_agent_a_run_says_how_to_get_one(router: Any, on_path: Callable[..., str]) -> None:
    """Exit 2, nothing written: install one, name a program, or try the scripted runner."""
    unset(router)
    before = router.digest()
    answer = router("run", "router", "/implement 259", PATH=on_path())
    assert answer.code == 2
    assert "no coding agent is found on PATH" in answer.stderr
    assert "npm install -g" in answer.stderr
    assert "--runner scripted" in answer.stderr
    assert router.digest() == before


# -- a service that takes no more requests for now


@pytest.fixture
def refused(workspace: Any, on_path: Callable[..., str], tmp_path: Path) -> Callable[..., Any]:
    """The command line with an agent on PATH whose service refuses the first call of one role with a 429."""
    unset(workspace)
    (tmp_path / "calls").mkdir()
    env = {"PATH": on_path(claude=WORKER), "CALLS": str(tmp_path / "calls"), **UNCONFINED}
    return lambda *arguments, role="planner": workspace(*arguments, REFUSED=role, **env)


def test_a_run_waits_for_its_service_as_long_as_the_settings_allow(refused: Callable[..., Any], workspace: Any) -> None:
    """By default that is long enough for a limit of a second; the wait is told."""
    answer = refused("run", "toy", "a", "--mode", "quick")
    assert answer.code == 0, answer.stderr
    assert "429 too many requests, retry in 1s; waiting 2.0 s for it" in answer.stderr
    (again,) = [line for line in workspace.journal() if line["event"] == "dispatch.try"]
    assert again["data"]["move"] == "wait"


def test_a_run_that_may_not_wait_pauses_and_resume_goes_on(refused: Callable[..., Any], workspace: Any) -> None:
    """Exit 4, and the limit is named; the same dispatch is called again by the next process."""
    (workspace.root / "interlock.toml").write_text("[limits]\nrate_limit_wait_s = 0\n")
    answer = refused("run", "toy", "a", "--mode", "quick")
    assert answer.code == 4
    assert "it lasts longer than may be waited" in answer.stderr
    assert workspace.events()[-1] == "run.paused"
    assert refused("resume", "latest").code == 0
    assert workspace.events().count("dispatch.start") == 2


def test_a_cluster_that_was_paused_is_shown_as_paused(refused: Callable[..., Any], workspace: Any) -> None:
    """Another member ends after the pause, and has the last word in the journal; how the run stands is still told."""
    (workspace.root / "interlock.toml").write_text("[limits]\nrate_limit_wait_s = 0\n")
    assert refused("run", "toy", "a", role="builder").code == 4
    assert refused("approve", "latest", "--resume", role="builder").code == 4
    assert workspace.events()[-1] == "dispatch.end"
    why = "paused: claude: API Error: 429 too many requests"
    (listed,) = workspace("runs", "--json").json
    assert (listed["status"], listed["how"][: len(why)]) == ("waiting", why)
    assert why in workspace("show", "latest").stdout.decode()
    again = workspace("approve", "latest")
    assert again.code != 0
    assert why in again.stderr
    assert refused("resume", "latest", role="builder").code == 0


def test_however_much_the_others_write_after_a_pause(refused: Callable[..., Any], workspace: Any) -> None:
    """The list looks for the line that tells, not at a piece of the journal's end."""
    (workspace.root / "interlock.toml").write_text("[limits]\nrate_limit_wait_s = 0\n")
    refused("run", "toy", "a", "--mode", "quick")
    last = workspace.journal()[-1]
    with (workspace.folders[0] / "journal.jsonl").open("a") as journal:
        for _ in range(3):
            line = {**last, "event": "scope.violation", "data": {"paths": ["x" * 40_000]}}
            journal.write(json.dumps(line, separators=(",", ":")) + "\n")
    (listed,) = workspace("runs", "--json").json
    assert listed["how"].startswith("paused: claude")
