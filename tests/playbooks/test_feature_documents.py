"""The documents of `feature`, as agents and people write them, and the rules that decide on them: pure."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.forms import Given, Unusable, judge
from interlock.playbooks.feature import decisions, memory
from interlock.playbooks.feature.answers import Judged, answer, criteria_of, grown
from interlock.playbooks.feature.decisions import Kind, Move, Reviewed, Said, Verdict
from interlock.playbooks.feature.members import CRITICS, SPEC, V_OTHERS, WEIGHED, WORKERS, Agent
from interlock.playbooks.feature.plan import PlanBroken, read_plan, read_task
from interlock.workspace.values import Change


def read(agent: Agent, text: str, remembers: str = "", artifact: str = "# It\n", **more: Any) -> Any:
    outputs = {"m.mem.md": remembers, **({"a.md": artifact} if artifact else {})}
    given_ = Given(more.get("form"), text, outputs, told=more.get("told", False))
    return answer(agent, given_, memory="m.mem.md", artifact="a.md")


@pytest.mark.req("FT-05", "EVID-01")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("DONE: written", "DONE"),
        ("I looked.\n\n**DONE:** written\n", "DONE"),
        ('```json\n{"status": "DONE", "summary": "written"}\n```', "DONE"),
        ("DONE", ""),
        ("done: written", ""),
        ("**DONE:** written\n\nFiles: a.py, and the error: handling", "DONE"),
        ("DONE: at first\n\n- ERROR: written", None),
        ("It says `ERROR:` there.", ""),
    ],
)
def test_the_last_completion_line_counts_and_nothing_else(text: str, said: str | None) -> None:
    found = read(SPEC, text)
    if said is None:
        assert found.problems == ("ERROR: written",)
        return
    assert (found.status if not isinstance(found, Unusable) else "") == said
    assert isinstance(found, Unusable) or found.summary == "written"


LOW, PASS = "## Highest Severity\nLow\n", "# Memory: v\n## Status\nDONE\n## Highest Severity\nPASS\n"


@pytest.mark.req("FT-56", "FT-61", "FT-76", "FT-94", "AGENT-07", "EVID-02")
@pytest.mark.parametrize(
    ("agent", "remembers", "severity", "said"),
    [
        (CRITICS[0], LOW, "Low", "DONE"),
        (CRITICS[0], "**Highest Severity:** high\n", "High", "DONE"),
        (CRITICS[0], "- Status: DONE\n- Highest Severity: `Critical`\n", "Critical", "DONE"),
        (CRITICS[0], f"{LOW}## Medium Severity\n- None.\n", "Low", "DONE"),
        (CRITICS[0], f"{LOW}## Medium Severity\n- names\n- tests\n", "Medium", "DONE"),
        (CRITICS[0], "## HIGHEST SEVERITY\n\n- **Low** — see the findings\n", "Low", "DONE"),
        (CRITICS[0], "## Highest Severity\nLow-Medium\n", "", "DONE"),
        (CRITICS[0], "```\n## Highest Severity\nLow\n```\n", "", "DONE"),
        (WEIGHED[0], "## Status\nNEEDS_REVISION\n## Highest Severity\nCritical\n", "Blocker", "NEEDS_REVISION"),
        (V_OTHERS[0], PASS, "PASS", "DONE"),
        (V_OTHERS[0], PASS.replace("DONE", "NEEDS_REVISION: two tests fail"), "PASS", "NEEDS_REVISION"),
        (V_OTHERS[0], "## Status\nNEEDS_REVISION\n## Highest Severity\nFAIL\n", "FAIL", "NEEDS_REVISION"),
    ],
)
def test_a_judges_memory_is_its_verdict(agent: Agent, remembers: str, severity: str, said: str) -> None:
    first, last = (read(agent, "DONE: seen", remembers, told=told) for told in (False, True))
    assert isinstance(first, Unusable) is (severity == "")
    assert isinstance(last, Judged) and last.status == said
    assert agent.kind.known(last.severity) == severity


FULL = """---
findings:
  - severity: High
    title: it leaks
    files: [a.py]
---
# Review

## Checks
- `make test`: exit 0
* `make lint`: exit 2, expected 2
- `make x`: exit 1

## Criteria
- **AC-1**: met, I saw it
- AC-2: not met

## Weakened
- tests/test_a.py: the request says so
"""


@pytest.mark.req("FT-156", "FT-157", "EVID-03")
def test_what_a_judge_writes_beside_its_word_counts() -> None:
    found = read(V_OTHERS[0], "DONE: fine", PASS, FULL)
    assert [(one.command, one.result, one.expected) for one in found.checks] == [
        ("make test", "green", False),
        ("make lint", "red", True),
        ("make x", "red", False),
    ]
    assert [(one.criterion, one.met) for one in found.criteria] == [("AC-1", True), ("AC-2", False)]
    assert [(one.severity, one.title, one.files) for one in found.findings] == [("High", "it leaks", ["a.py"])]
    assert [one.path for one in found.weakened] == ["tests/test_a.py"]
    assert not judge(found.claim(("AC-1", "AC-2"))).passes
    plain = read(V_OTHERS[0], "DONE: fine", PASS, "# Fine\n\n## Checks\n\nNothing to run: only text\n")
    assert judge(plain.claim(("AC-1",)), criteria=("AC-1",)).passes, "the seed's own report has no criteria"
    assert not judge(read(V_OTHERS[0], "DONE: fine", PASS).claim(()), criteria=()).passes
    assert judge(read(CRITICS[0], "DONE: fine", LOW).claim(()), criteria=()).passes, "critics judge by reading"
    broken = read(V_OTHERS[0], "DONE: fine", PASS, "---\nfindings: [1]\n---\n# X\n")
    assert isinstance(broken, Unusable) and "`findings` is no list" in broken.problems[0]


@pytest.mark.req("FT-06", "FT-07", "AGENT-07")
def test_all_that_is_missing_is_told_at_once() -> None:
    found = read(CRITICS[0], "DONE: fine", "# Memory\n", "no title")
    assert isinstance(found, Unusable) and len(found.problems) == 2
    assert read(SPEC, "ERROR: no").problems == ("ERROR: no",) and not read(SPEC, "ERROR: no").final
    assert read(WORKERS["implementer"], "ERROR: no").final
    assert read(SPEC, "NEEDS_REVISION: hm").final
    assert read(CRITICS[0], "NEEDS_REVISION: hm", LOW).status == "NEEDS_REVISION"


def test_criteria_of_a_specification() -> None:
    text = "# F\n## Acceptance Criteria\n- AC-1: it greets\n* **AC-2** - by\n  name\n- other\n"
    assert criteria_of(text) == {"AC-1": "it greets", "AC-2": "by name"}


@pytest.mark.req("FT-32")
@given(st.lists(st.sampled_from("abc"), max_size=4), st.lists(st.sampled_from("abcd"), max_size=5))
def test_what_only_grows_only_grows(before: list[str], now: list[str]) -> None:
    old, new = "".join(f"- {one}\n" for one in before), "".join(f"- {one}\n" for one in now)
    came = grown(old, new)
    assert came.startswith(old.rstrip("\n")) and grown(old, came) == came
    assert set(new.splitlines()) <= set(came.splitlines())


# --- plans

TASKS = {name: f"---\nid: {name}\n---\n# {name}\n" for name in ("T01", "T02", "T03")}


@pytest.mark.req("FT-136", "PERSON-07")
@pytest.mark.parametrize(
    "text",
    [
        "## Execution Waves\n\n### Wave 1\n\n- T01: a\n- T02: b (as T03 wants)\n\n### Wave 2\n\n- T03\n",
        "## Execution Waves\n### Wave 1: x\n- [ ] **T01**: a\n  - needs T02\n- [x] `T02`\n### Wave 2\n1. T03: see it\n",
        "# Plan\n\nWords on T03.\n\n**Wave 1**\n* T01\n+ T02 T03\n\n**Wave 2:**\n* T03 T01\n",
        "| Wave | Tasks |\n| --- | --- |\n| Wave 1 | T01, T02 |\n| **Wave 2** | T03 |\n",
        "## Wave 1 (T01, T02)\n\n## Wave 2 (T03)\n\n## Risks\n\n- T01 may fail\n",
        "## Wave 1\n- T01\n- T02\n",
        "## Execution Waves\n\nWave 2 waits for T01.\n\nWave 1:\n  * Task T01 -> T01.md\n  * T02\n\nWAVE 2:\n- T03",
        "## Execution Waves\n\n- Wave 1 (parallel): T01, T02\n- Wave 2: T03\n",
        "| Wave | Task | File | Depends on |\n|---|---|---|---|\n| 1 | T01 | `tasks/T01.md` | |\n|  | T02 | x | — |\n"
        "| 2 | T03 | `tasks/T03.md` | T01, T02 |\n\n| Task | Risk |\n|---|---|\n| T01 | 7 |\n",
    ],
)
def test_waves_are_read_as_people_write_them(text: str) -> None:
    found = read_plan(text, TASKS)
    assert found.waves == (("T01", "T02"), ("T03",))
    assert found.added == (("T03",) if "T03" not in text else ())


@pytest.mark.req("FT-136", "FT-161")
@pytest.mark.parametrize(
    ("text", "files", "problem"),
    [
        ("# Plan\n- T01\n", {}, 'plan.md: section "## Execution Waves" not found'),
        ("## Wave 2\n- T09\n", {}, "plan.md: wave 2 lists T09 but tasks/T09.md does not exist"),
        ("## Wave 1\n- T01\n## Wave 2\n- T01\n", {}, "plan.md: T01 stands in wave 1 and in wave 2"),
        ("## Wave 1\n- T01\n- T02\n", {"T01": "---\ndepends_on: [T02]\n---\n"}, "T01 (wave 1) depends on T02 (wave 1)"),
        (
            "## Wave 1\n- T01\n- T02\n",
            {"T01": "---\ndepends_on: [T7]\n---\n"},
            "T01 (wave 1) depends on T7; no such task",
        ),
        (
            "## Wave 1\n- T01\n",
            {"T01": "---\nid: T01\na: [\n---\n"},
            "tasks/T01.md: frontmatter is not valid YAML: line",
        ),
        ("## Wave 1\n- T01\n", {"T01": "---\nid: T02\n---\n"}, "tasks/T01.md: id is 'T02', expected 'T01'"),
        ("## Wave 1\n- T01\n", {"T01": "---\nfiles: [../x]\n---\n"}, "is not a path pattern inside the workspace"),
        ("## Wave 1\n- T01\n", {"a b": ""}, "tasks/a b.md: 'a b' is no task id"),
    ],
)
def test_a_plan_that_does_not_hold_is_told_with_all_that_is_wrong(
    text: str, files: dict[str, str], problem: str
) -> None:
    with pytest.raises(PlanBroken) as broken:
        read_plan(text, {**TASKS, **files})
    assert any(problem in one for one in broken.value.args), broken.value.args


@pytest.mark.req("FT-49", "FT-161")
def test_a_replans_waves_begin_anew_and_what_was_begun_is_nobodys_to_plan() -> None:
    found = read_plan("## Wave 1\n- T02\n- T01\n## Wave 3\n- T03\n", TASKS, begun=["T01"])
    assert found.waves == (("T02",), ("T03",))


@pytest.mark.req("FT-14", "PERSON-07")
def test_a_task_file_is_read_as_people_write_it() -> None:
    task = read_task("T01", "# T01\n\n**Agent:** documentation-writer\n\n- Depends on: T02, `T03`\n\nWrite.\n")
    assert (task.worker, task.depends_on, task.scope) == (
        "documentation-writer",
        ["T02", "T03"],
        ("**", "!docs/feature/**"),
    )
    text = "# T01\n\nAGENT: `Documentation Writer` <!-- or ... -->\n\n**Depends on:** all of wave 1, and T02\n"
    task = read_task("T01", f"{text}\n## Acceptance Criteria\n\n- [ ] it says so\n", TASKS)
    assert (task.worker, task.agent) == ("documentation-writer", "documentation-writer")
    assert (task.depends_on, task.acceptance) == (["T02"], ["it says so"])
    assert read_task("T01", "---\ndepends_on: T02, T9\n---\n", TASKS).depends_on == ["T02", "T9"]
    assert read_task("T01", "---\nagent: someone\ntitle: x\nextra: 1\n---\n").worker == "implementer"
    assert read_task("T01", "Just do it.").depends_on == []


# --- memory

WORDS = st.text("ab |]\n#", min_size=1, max_size=8).filter(str.strip)
PRIVATE = "## Key Findings\n- found\n## Decisions\n- made. Rationale: it\n## Lessons Learned\n- a → b\n" + (
    "## Artifact Index\n| Artifact | Key Sections | Last Updated By |\n| --- | --- | --- |\n| `x.md` | a | me |\n"
)
EDITS: list[Callable[[memory.Shared], None]] = [
    lambda it: it.merge("spec", "2", PRIVATE),
    lambda it: it.merge("implementer-T1", "5.2", PRIVATE, lessons=True),
    lambda it: it.log("6", "V cluster decision"),
    lambda it: it.invalidate(["spec"], "it [is] revised"),
    lambda it: it.prune(4),
    memory.Shared.clean,
]


@pytest.mark.req("FT-09", "FT-10", "FT-113", "FT-117", "PERSON-04")
@given(st.lists(st.sampled_from(EDITS), max_size=6), st.lists(WORDS, max_size=3))
def test_an_edit_twice_is_an_edit_once_and_what_people_wrote_stays(edits: list[Any], words: list[str]) -> None:
    text = memory.edited("", edits)
    for one in words:
        text = text.replace("\n## Lessons", f"\nmine {' '.join(one.split())}\n\n## Lessons", 1)
    for edit in edits:
        once = memory.edited(text, [edit])
        assert memory.edited(once, [edit]) == once
        assert all(f"mine {' '.join(one.split())}" in once for one in words)
        assert all(once.count(title) == 1 for title in memory.SECTIONS)


@pytest.mark.req("FT-109", "FT-113", "FT-115", "FT-116", "FT-117", "FT-09")
def test_the_life_of_an_entry() -> None:
    empty = memory.edited("", [])
    assert empty.startswith(
        "# Operational Memory\n\n## Artifact Index\n\n| Artifact | Key Sections | Last Updated By |\n"
    )
    both = memory.edited(empty, EDITS[:3])
    assert "- [spec, step-2] made. Rationale: it" in both and "| x.md | a | implementer-T1 |" in both
    assert "- [implementer-T1, step-5.2] a → b" in both and "[spec, step-2] a → b" not in both
    marked = memory.edited(both, [EDITS[3]])
    assert "- [INVALIDATED — it [is) revised] [spec, step-2] found" in marked
    assert "INVALIDATED" not in memory.edited(marked, [EDITS[0]])
    left = memory.edited(marked, [EDITS[5]])
    assert "[spec" not in left and "| x.md |" in left
    pruned = memory.edited(both, [EDITS[4]])
    assert "[spec" not in pruned and "[implementer-T1, step-5.2] found" in pruned and "| x.md |" in pruned
    old = memory.known_entries(both)
    aged = memory.edited(both, [lambda it: it.prune(1, old)])
    assert "a → b" in aged and "found" not in aged
    own = both.replace("## Lessons", "- [me, step-0] in our own form\n\n## Lessons")
    kept = memory.edited(
        own, [lambda it: it.prune(9, memory.known_entries(own)), lambda it: it.invalidate(["me"], "x")]
    )
    assert "- [me, step-0] in our own form" in kept, "a person's entry stays"
    nothing = "## Decisions\n- None.\n"
    assert "None" not in memory.edited(empty, [lambda it: it.merge("spec", "2", nothing)])
    gone = both.replace("## Recent Updates", "")
    assert memory.edited(gone, [EDITS[2]]).count("## Recent Updates") == 1


# --- rules

DONE, REVISES, LOST = Verdict(Said.DONE, "PASS"), Verdict(Said.NEEDS_REVISION, "FAIL"), decisions.LOST


@pytest.mark.req("FT-77", "FT-158", "FT-48")
def test_the_v_cluster() -> None:
    """4.8: all rows, worst first."""
    verdicts = (DONE, REVISES, LOST)
    for build, *others in product(verdicts, repeat=4):
        for against in (False, True):
            lost, wants = build is not DONE or others.count(LOST) > 1, against or REVISES in others
            expected = Said.ERROR if lost else Said.NEEDS_REVISION if wants else Said.DONE
            assert decisions.v_cluster(build, others, against) is expected


def review(*words: str) -> list[Verdict]:
    return [LOST if one == "-" else Verdict(Said.DONE, one) for one in words]


@pytest.mark.req("FT-90", "FT-93", "FT-96", "FT-97")
@pytest.mark.parametrize(
    ("words", "against", "came"),
    [
        (("None", "Minor", "None"), False, Reviewed.DONE),
        (("None", "Minor", "None"), True, Reviewed.NEEDS_REVISION),
        (("Major", "None", "None"), False, Reviewed.NEEDS_REVISION),
        (("None", "Blocker", "None"), False, Reviewed.NEEDS_REVISION),
        (("Blocker", "None", "None"), False, Reviewed.BLOCKED),
        (("Blocker", "-", "-"), False, Reviewed.BLOCKED),
        (("-", "Major", "None"), False, Reviewed.LOST),
        (("None", "-", "None"), False, Reviewed.DONE),
        (("None", "-", "-"), False, Reviewed.LOST),
    ],
)
def test_the_r_cluster(words: tuple[str, ...], against: bool, came: Reviewed) -> None:
    security, *others = review(*words)
    assert decisions.r_cluster(security, others, against) is came
    assert decisions.r_cluster(security, [Verdict(Said.ERROR, conflict=True), *others[1:]], against) is (
        Reviewed.NEEDS_REVISION
    )


@pytest.mark.req("FT-103", "FT-105", "FT-60", "FT-62", "FT-102", "FT-87")
def test_the_other_rules() -> None:
    wants, blocked = Reviewed.NEEDS_REVISION, Reviewed.BLOCKED
    moves = {key: decisions.after_review(*key) for key in product(Reviewed, (0, 1), (0, 1))}
    assert {key for key, move in moves.items() if move is Move.FIX} == {(wants, 0, n) for n in (0, 1)}
    again = {key for key, move in moves.items() if move is Move.REPLAN}
    assert again == {(wants, 1, 0), (blocked, 0, 0), (blocked, 1, 0)}
    assert decisions.ct_cluster({"a": "Low"}) is Said.ERROR
    assert decisions.ct_cluster({"a": "Low", "b": "Low"}) is Said.DONE
    assert decisions.ct_cluster({"a": "Low", "b": "Medium"}) is Said.NEEDS_REVISION
    assert Kind.CRITIC.worse("Low", "odd") == "Critical" and Kind.VERIFIER.worse("") == "FAIL"
    scopes = {"T1": ("src/a/**",), "T2": ("src/b.py", "!docs/**")}
    assert decisions.affected(["T2", "T9"], [], scopes) == ["T2"]
    assert decisions.affected(["T9"], ["src/a/x.py"], scopes) == ["T1"]
    assert decisions.affected([], ["other.py"], scopes) == ["T1", "T2"]
    changes = [Change(path=f"{n}.py", kind="changed", added=200, removed=1) for n in range(3)]
    assert [decisions.review_tier(changes[:n]) for n in (1, 2, 3)] == ["Standard", "Standard", "Full"]
    for path in ("go.mod", "a/package.json", ".github/workflows/x.yml", "src/Secrets.py"):
        assert decisions.review_tier([Change(path=path, kind="changed", added=1, removed=0)]) == "Full"


@pytest.mark.parametrize(
    ("request_", "slug"),
    [
        ("Add a Login page!", "add-a-login-page"),
        ("x" * 60, "x" * 40),
        ("one two three four five six seven eight nine ten", "one-two-three-four-five-six-seven-eight"),
        ("登录", "feature-"),
    ],
)
def test_a_slug(request_: str, slug: str) -> None:
    made = decisions.slug_of(request_)
    assert made.startswith(slug) and decisions.SLUG.fullmatch(made) and len(made) <= 40
