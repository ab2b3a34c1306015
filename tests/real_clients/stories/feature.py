"""A feature: researched, specified, designed, judged, planned, built in a wave, verified, reviewed, looked back on."""

from __future__ import annotations

from interlock.playbooks.feature import FeatureInputs
from interlock.playbooks.feature.layout import Layout
from interlock.playbooks.feature.members import ANYBODY, CT, MEMBERS, R, V
from interlock.playbooks.feature.memory_file import sample_memory
from tests.real_clients.house import CHANGED, LOGIN, MISCHIEF, SESSION, TEST, House, Story, anybody, by
from tests.real_clients.person import CODES, REMARKS, Remark
from tools.model_server import Rule, Say, Shell, Write
from tools.model_server.steps import Step

AT = Layout("names")
PLAN = """\
# Plan

## Execution Waves

### Wave 1

- T01: sign-in
- T02: greeting
"""
MEMORY = r"^## Outputs\n\n(?:- `[^`\n]+`(?: \(optional\))?\n)*?- `(?P<memory>[^`\n]+\.mem\.md)`"
TEXT = "# As it is\n\nThere is little to say.\n"
PROVEN = f"{TEXT}\n## Commands\n\n- `pytest -q`: exit 0\n"


def task(name: str, file: str) -> Write:
    return Write(AT.task(name), f'---\nid: {name}\nfiles: ["{file}"]\n---\n\nMake the tests of `{file}` pass.\n')


def remembers(name: str) -> tuple[Step, ...]:
    """The private memory of an agent that has nothing against the work, and its last word."""
    return Write("{memory}", sample_memory(name, (MEMBERS.row(name) or ANYBODY).words.all[-1])), Say("DONE: as asked")


def member(name: str, *work: Step) -> Rule:
    """An agent that does this, and then remembers it."""
    return by(name, *work, *remembers(name), matches=(MEMORY,))


def outputs(*names: str) -> str:
    """The first paths that a brief lists under its outputs, by these names."""
    return r"^## Outputs\n\n" + "\n".join(rf"- `(?P<{name}>[^`\n]+)`(?: \(optional\))?" for name in names) + "$"


def writer(name: str, *paths: str, text: str = TEXT, before: tuple[Step, ...] = ()) -> Rule:
    """An agent that writes its first outputs."""
    named = paths or ("own",)
    writes = (Write(f"{{{path}}}", text) for path in named)
    return by(name, *before, *writes, *remembers(name), matches=(outputs(*named), MEMORY))


def check(house: House) -> None:
    assert house.finished is not None
    assert str(house.finished.output).splitlines()[0] == "DONE: feature names is complete"
    assert set(house.git("diff", "--name-only").splitlines()) == {"README.md", *CHANGED}


FEATURE = Story(
    "feature",
    FeatureInputs("Names are typed in any way", slug=AT.slug),
    (
        member("planner", Write(AT.plan, PLAN), task("T01", CHANGED[0]), task("T02", CHANGED[1])),
        member("implementer-T01", LOGIN, MISCHIEF, CODES, Shell(f"git diff --stat {CHANGED[0]}")),
        member("implementer-T02", SESSION),
        writer("v-tests", text=PROVEN, before=(Shell(TEST), REMARKS)),
        *(writer(name, text=PROVEN) for name in MEMBERS.names(V) if name != "v-tests"),
        writer("r-knowledge", "own", "suggestions", "decisions"),
        *(writer(name) for name in MEMBERS.names(CT, R) if name != "r-knowledge"),
        writer("post-mortem", "own", "run_log"),
        anybody(Write("{own}", TEXT), *remembers("anybody"), matches=(outputs("own"), MEMORY)),
    ),
    calls={
        "researcher": 4,
        "implementer": 2,
        **dict.fromkeys(("spec", "designer", "planner", *MEMBERS.names(CT, V, R), "post-mortem"), 1),
    },
    meddler="implementer-T01",
    check=check,
    remarks=tuple(Remark(path, "\nA person was here.\n") for path in (AT.memory, AT.request)),
)
