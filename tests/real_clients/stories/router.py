"""A command for one task of the list: routed to its agent, whose answer comes back as it is."""

from __future__ import annotations

from interlock.playbooks.router import RouterInputs, example_files
from interlock.playbooks.router.problems import TASK_LIST
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, SESSION, TEST, House, Story, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Edit, Say, Shell

OPEN, DONE = (f"### 7. Names are typed in any way\n\n- **Status**: [{state}]" for state in ("NOT STARTED", "DONE"))
ENTRY = f"\n{OPEN}\n- **Language**: python\n- **Description**: Case and blanks around a name do not matter.\n"
ANSWER = "Sign-in and greeting take a name in any case.\n\nStatus: completed"


def check(house: House) -> None:
    assert house.finished is not None
    assert house.finished.output == ANSWER.encode()
    assert DONE in house.text(TASK_LIST)
    changed = set(house.git("diff", "--name-only").splitlines())
    assert changed == {"README.md", TASK_LIST, *CHANGED}


ROUTER = Story(
    "router",
    RouterInputs("/implement 7"),
    (
        by(
            "implementer",
            LOGIN,
            SESSION,
            Edit(TASK_LIST, OPEN, DONE),
            MISCHIEF,
            CODES,
            Shell(TEST),
            REMARKS,
            Say(ANSWER),
        ),
    ),
    calls={"implementer": 1},
    meddler="implementer",
    check=check,
    files={**example_files(), TASK_LIST: example_files()[TASK_LIST] + ENTRY},
    remarks=(Remark(TASK_LIST, "# Tasks of ours", "# Tasks"),),
)
