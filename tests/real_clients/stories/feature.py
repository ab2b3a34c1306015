"""A feature: researched, specified, designed, judged, planned, built in a wave, verified, reviewed, looked back on."""

from __future__ import annotations

from interlock.playbooks.feature import FeatureInputs
from interlock.playbooks.feature.layout import CRITICS, REVIEWERS, VERIFIERS, Layout
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
MEMORY = (
    r"^## Outputs\n\n(?:- `[^`\n]+`\n)*?- `(?P<memory>[^`\n]+\.mem\.md)`$",
    r"^### Form of your private memory\n\n```markdown\n(?P<form>.*?)```",
)
REMEMBERS = (Write("{memory}", "{form}"), Say("DONE: as asked"))
TEXT = "# As it is\n\nThere is little to say.\n"


def task(name: str, file: str) -> Write:
    return Write(AT.task(name), f'---\nid: {name}\nfiles: ["{file}"]\n---\n\nMake the tests of `{file}` pass.\n')


def member(name: str, *work: Step) -> Rule:
    """An agent that does this, and then remembers it in the form that its brief shows."""
    return by(name, *work, *REMEMBERS, matches=MEMORY)


def outputs(*names: str) -> str:
    """The first paths that a brief lists under its outputs, by these names."""
    return r"^## Outputs\n\n" + "\n".join(rf"- `(?P<{name}>[^`\n]+)`" for name in names) + "$"


def check(house: House) -> None:
    assert house.finished is not None
    assert house.finished.close.output == "DONE: feature names is complete"
    assert set(house.git("diff", "--name-only").splitlines()) == {"README.md", *CHANGED}


FEATURE = Story(
    "feature",
    FeatureInputs("Names are typed in any way", slug=AT.slug),
    (
        member("planner", Write(AT.plan, PLAN), task("T01", CHANGED[0]), task("T02", CHANGED[1])),
        member("implementer-T01", LOGIN, MISCHIEF, CODES, Shell(f"git diff --stat {CHANGED[0]}")),
        member("implementer-T02", SESSION),
        by("v-tests", Shell(TEST), REMARKS, Write("{own}", TEXT), *REMEMBERS, matches=(outputs("own"), *MEMORY)),
        by(
            "r-knowledge",
            *(Write(path, TEXT) for path in ("{own}", "{suggestions}", "{decisions}")),
            *REMEMBERS,
            matches=(outputs("own", "suggestions", "decisions"), *MEMORY),
        ),
        by(
            "post-mortem",
            *(Write(path, TEXT) for path in ("{own}", "{run_log}")),
            *REMEMBERS,
            matches=(outputs("own", "run_log"), *MEMORY),
        ),
        anybody(Write("{own}", TEXT), *REMEMBERS, matches=(outputs("own"), *MEMORY)),
    ),
    calls={
        "researcher": 4,
        "implementer": 2,
        **dict.fromkeys(("spec", "designer", *CRITICS, "planner", *VERIFIERS, *REVIEWERS, "post-mortem"), 1),
    },
    meddler="implementer-T01",
    check=check,
    remarks=tuple(Remark(path, "\nA person was here.\n") for path in (AT.memory, AT.request)),
)
