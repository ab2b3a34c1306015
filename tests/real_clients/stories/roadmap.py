"""A roadmap item: implemented, tested, reviewed, passed."""

from __future__ import annotations

import json

from interlock.playbooks.roadmap import RoadmapInputs
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, SESSION, TEST, House, Story, answer, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Shell

ITEM = {
    "id": "LOGIN-1",
    "title": "Names are typed in any way",
    "complexity": "simple",
    "priority": 1,
    "status": "ready",
    "passes": False,
    "acceptanceCriteria": ["case and blanks around a name do not matter"],
    "verification": [TEST],
    "retryCount": 0,
}
EARLIER = {**ITEM, "id": "LOGIN-0", "title": "People sign in", "status": "done", "passes": True}
PASSED = {"command": TEST, "exit": 0, "summary": "2 passed"}


def check(house: House) -> None:
    earlier, item = json.loads(house.text("roadmap.json"))["items"]
    assert (item["passes"], item["status"], item["retryCount"]) == (True, "done", 0)
    assert earlier["title"] == "People sign in by name"
    changed = set(house.git("diff", "--name-only").splitlines())
    assert changed == {"README.md", "roadmap.json", *CHANGED}


ROADMAP = Story(
    "roadmap",
    RoadmapInputs(),
    (
        by(
            "Implement",
            LOGIN,
            SESSION,
            MISCHIEF,
            CODES,
            Shell(TEST),
            answer(
                status="success",
                evidence={"files": list(CHANGED), "verification": [PASSED]},
                learnings=[],
                nextSteps=[],
            ),
        ),
        by(
            "Testing",
            Shell(f"{TEST} > tested.txt; rm tested.txt"),
            REMARKS,
            answer(
                status="success",
                verdict="pass",
                evidence={"tests": {"passed": 2, "failed": 0, "failures": []}, "verification": [PASSED]},
                issues=[],
                nextSteps=[],
            ),
        ),
        by(
            "Review",
            Shell("git diff --stat"),
            answer(
                status="success",
                verdict="pass",
                evidence={
                    "checks": dict.fromkeys(("lint", "typecheck", "build", "quality"), "pass"),
                    "verification": [PASSED],
                },
                issues=[],
                nextSteps=[],
            ),
        ),
    ),
    calls={"Implement": 1, "Testing": 1, "Review": 1},
    meddler="Implement",
    check=check,
    files={"roadmap.json": json.dumps({"version": 1, "items": [EARLIER, ITEM]}, indent=2)},
    remarks=(Remark("roadmap.json", '"title": "People sign in by name"', '"title": "People sign in"'),),
)
