"""A ticket: planned, worked on side by side, built and tested by the engine, reviewed, committed on its branch."""

from __future__ import annotations

import json

from interlock.playbooks.ticket import TicketInputs
from interlock.playbooks.ticket.rehearsing import BRANCH, HOME, graph, task
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, PYTHON, SESSION, TEST, House, Story, answer, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Say, Shell, Write

WORK = "fix the login error so that users can sign in"
TASKS = graph(task("T1", files=("shop/login.py",)), task("T2", files=("shop/session.py",)))
REVIEW = {
    "status": "ACCEPTED",
    "mode": "prompt-review",
    "build": "PASSED",
    "tests": "PASSED",
    "files_verified": True,
    "checks": [{"command": TEST, "exit": 0, "summary": "2 passed"}],
    "notes": "Both changes do what the prompt asks for.",
    "reviewed_at": "2026-01-01T00:00:00Z",
    "issues": [],
}
DOCUMENTS = ("ARCHITECTURE.md", "CODE_STYLE.md", "FINDINGS.md")
CACHE = f"""\
import hashlib, json
from pathlib import Path
documents = {{
    name: {{"sha256": hashlib.sha256(Path("docs", name).read_bytes()).hexdigest(),
            "refreshed_at": "2026-01-01T00:00:00Z", "state": "fresh"}}
    for name in {DOCUMENTS!r}
}}
state = {{"trust_status": "trusted", "refresh_required": False, "documents": documents,
          "workspace_fingerprint": "{{print}}"}}
Path("docs/docs_cache_state.yaml").write_text(json.dumps(state))
"""
VALID = answer(status="SYNTAX_VALID", files_changed=[], notes="done")


def check(house: House) -> None:
    assert "ACCEPTED" in house.text(f"{HOME}/progress.yaml")
    changed = house.git("show", "--format=", "--name-only", "HEAD~1").splitlines()
    assert set(changed) == {".gitignore", *CHANGED}
    assert house.git("status", "--porcelain", "--", "shop") == ""
    assert house.git("log", "--format=%s", "main") == "first"


TICKET = Story(
    "ticket",
    TicketInputs(f"ABC-12 {WORK}"),
    (
        by(
            "Planner",
            Write("{plan}", "# Plan\n\nTrim and lower the name at sign-in; trim it in the greeting.\n"),
            Write("{tasks}", TASKS),
            Say("Status: written"),
            matches=(r"^Create plan at: (?P<plan>\S+)$", r"^Create tasks at: (?P<tasks>\S+)$"),
        ),
        by("task-executor-T1", LOGIN, MISCHIEF, CODES, Shell(f"{PYTHON} -m compileall -q shop"), VALID),
        by("task-executor-T2", SESSION, VALID),
        by(
            "Reviewer",
            Shell(TEST),
            REMARKS,
            Write("{report}", json.dumps(REVIEW)),
            Say("Status: written"),
            matches=(r"^- `(?P<report>[^`\n]+review_report\.yaml)`$",),
        ),
        by(
            "Initializer",
            *(Write(f"docs/{name}", f"# {name}\n\nAs it is now.\n") for name in DOCUMENTS),
            Shell(f"{PYTHON} - <<'END'\n{CACHE}END"),
            Say("Status: written"),
            matches=(r"^workspace_fingerprint: (?P<print>\S+)$",),
        ),
    ),
    calls={"Planner": 1, "task-executor": 2, "Reviewer": 1, "Initializer": 1},
    meddler="task-executor-T1",
    check=check,
    remarks=(
        Remark(f"{HOME}/progress.yaml", "\n# A person was here.\n"),
        Remark(f"{HOME}/iteration_0/tasks.yaml", "\n# A person was here, too.\n"),
    ),
    branch=BRANCH,
    commits=("docs(ABC-12): refresh documentation", f"fix(ABC-12): {WORK}"),
)
