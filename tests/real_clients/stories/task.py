"""A request: done by one agent, checked by interlock itself, judged by a reviewer."""

from __future__ import annotations

from interlock.playbooks.task import TaskInputs
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, SESSION, TEST, House, Story, answer, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Say, Shell

NOTES = "docs/notes.md"


def check(house: House) -> None:
    assert house.finished is not None
    assert b"Accepted in round 1" in house.finished.output.encode()
    changed = set(house.git("diff", "--name-only").splitlines())
    assert changed == {"README.md", NOTES, *CHANGED}


TASK = Story(
    "task",
    TaskInputs("Names are typed in any way: case and blanks around one do not matter.", check=[TEST]),
    (
        by("builder", LOGIN, SESSION, MISCHIEF, CODES, Shell(TEST), Say("DONE: names are taken in any case.")),
        by(
            "reviewer",
            Shell("git diff --stat"),
            REMARKS,
            answer(
                verdict="accept",
                summary="It does what was asked.",
                findings=[],
                remarks=[],
                evidence={"verification": [{"command": TEST, "exit": 0, "summary": "2 passed"}]},
            ),
        ),
    ),
    calls={"builder": 1, "reviewer": 1},
    meddler="builder",
    check=check,
    files={NOTES: "# Notes\n\nNothing yet.\n"},
    remarks=(Remark(NOTES, "Names in any case.", "Nothing yet."),),
)
