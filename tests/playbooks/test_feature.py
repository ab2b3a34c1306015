"""`feature` in the simulated world: what each agent's word leads to, and what the next ones are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from interlock.cli.telling import _call
from interlock.errors import BadInput, Exit
from interlock.playbooks.feature import FEATURE
from interlock.playbooks.feature.playbook import NO_PAUSE
from tests.engine.bench import GREEN, RED
from tests.playbooks.features import CRASH, ERROR, ROOT, Feature, mute, nothing, plans, says, story

FAIL = says("NEEDS_REVISION: it is red", severity="FAIL")
REVISE = says("NEEDS_REVISION: change it", severity="Major")
BLOCKER = says("NEEDS_REVISION: a hole", severity="Blocker", findings=[{"severity": "Blocker", "title": "a hole"}])
ANOTHER = says("NEEDS_REVISION: no", severity="Blocker", findings=[{"severity": "Blocker", "title": "another hole"}])
HIGH = says(
    severity="High", findings=[{"severity": "High", "title": "it leaks"}, {"severity": "Low", "title": "taste"}]
)
MAJOR = [{"severity": "Major", "title": "unclear"}]
UNKNOWN = says(leave="# Memory: x\n## Status\nDONE\n## Highest Severity\nsomewhat\n")
NO_LINE = says("I have done it.")
WRONG = says(files={"./implementer-T01.txt": "wrong\n"})
SAME = says(files={"./implementer-T01.txt": None})
WRITER = {"agent": "documentation-writer"}
TWO = [None, plans(["T02"])]
FOUR = [None, *(plans([f"T0{n}"]) for n in (2, 3, 4))]
V_LOG = "[orchestrator, step-6] V cluster decision: V-Build={}, V-Tests={}, V-Tasks={}, V-Feature={}, result: {}."
BEFORE = "researcher spec designer ct"
PLAIN, AGAIN, FIXED, ALL = "T01 v r", "T01 v planner T02 v r", "T01 v r T01 r", "T01 v r planner T02 v r"
SAME_TASK, THRICE = "T01 v planner T01 v r", "T01 v planner T02 v planner T03 v planner T04 v r"


@dataclass(frozen=True)
class Case:
    """A run, and what came of it."""

    acts: Mapping[str, Any]
    then: str = PLAIN
    """Who is called behind the planner."""
    whole: str = ""
    """Who is called, where it does not come to that."""
    exit: int = 0
    tries: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Calls of each of a member's dispatches."""
    why: str = ""
    warns: str | Sequence[str] = ()
    memory: str | Sequence[str] = ()
    """What stands in the shared memory at the end."""
    output: str | Sequence[str] = ()
    brief: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What the last brief of a member says; `!` before it: does not."""
    kit: Mapping[str, Any] = field(default_factory=dict)
    red: bytes | None = None
    """The command is red where a file has this."""


def case(name: str, rows: str, then: str = PLAIN, **more: Any) -> Any:
    acts = {key: more.pop(key) for key in [*more] if key not in Case.__dataclass_fields__}
    return pytest.param(Case(acts, then, **more), id=name, marks=pytest.mark.req(*rows.split()))


CASES = [
    case(
        "all goes well",
        "FT-02 FT-08 FT-47 FT-48 FT-54 FT-64 FT-84 FT-99 FT-149 FT-150 FT-62 FT-97",
        memory=[
            "[orchestrator, step-3b] CT cluster decision: severity values [Low, Low, Low, Low], result: DONE.",
            V_LOG.format(*["DONE"] * 5),
            "[orchestrator, step-7] R cluster decision: R-Security=DONE/None, R-Quality=DONE/None, "
            "R-Testing=DONE/None, R-Knowledge=DONE (non-blocking), result: DONE.",
            "[orchestrator, step-8] PostMortem dispatch: DONE. no summary.",
        ],
        output="DONE: feature greeting is complete\n",
    ),
    # the last line, and what is asked once more
    case("an error is retried once", "FT-06", spec=[ERROR, None], tries={"spec": [2]}),
    case(
        "a lasting error halts",
        "FT-06 FT-150",
        **{"spec": ERROR, "whole": "researcher spec", "exit": 5, "tries": {"spec": [2]}},
        output="ERROR: spec: ERROR: I cannot",
    ),
    case(
        "no last line is retried once, with the complaint",
        "FT-05",
        researcher_impact=[NO_LINE, None],
        brief={"researcher-impact": ["- no DONE:/NEEDS_REVISION:/ERROR: line"]},
    ),
    case(
        "what cannot wait is told of who failed, too",
        "FT-41",
        spec=[says("ERROR: no", leave="## Status\nERROR\n## Security Flags\n- a key stands in config.py\n"), None],
        warns="severity: critical: spec: a key stands in config.py",
    ),
    case("a missing artifact is retried", "FT-06", designer=[nothing("DONE: x"), None], tries={"designer": [2]}),
    case(
        "who may not revise and does has failed, and is not asked again",
        "FT-07",
        designer=nothing("NEEDS_REVISION: it is vague"),
        **{"whole": "researcher spec designer", "exit": 5, "tries": {"designer": [1]}},
    ),
    case("weather is repeated twice", "FT-38", planner=[CRASH, CRASH, None], tries={"planner": [3]}),
    # research
    case(
        "two researchers are enough",
        "FT-122 FT-47 FT-04",
        **{"researcher_impact": ERROR, "researcher_patterns": ERROR, "output": "researcher-impact: ERROR: I cannot"},
        brief={"spec": ["!research/impact.md", "research/architecture.md", "memory/researcher-dependencies.mem.md"]},
    ),
    case(
        "one is not",
        "FT-122",
        **{"researcher_impact": ERROR, "researcher_patterns": ERROR, "researcher_architecture": ERROR},
        **{"whole": "researcher", "exit": 5, "why": "research: 1 of 4 usable; at least 2 required"},
    ),
    # the critics
    case(
        "findings go back to the designer once, and hold as constraints",
        "FT-66 FT-70 FT-61 FT-62 FT-117",
        whole=f"{BEFORE} designer ct planner {PLAIN} post-mortem",
        ct_security=HIGH,
        warns="the critics' findings are not settled",
        output="ct-review/ct-security.md`: High: it leaks",
        brief={
            "designer": ["Revise the design", "memory/ct-security.mem.md", "ct-review/ct-strategy.md"],
            "planner": [
                f"Planning constraints\n\nWhat the critics found and the design leaves open. Each is met by a task, or "
                f"the plan says why it cannot be:\n\n```\n- `{ROOT}/ct-review/ct-security.md`: High: it leaks\n```",
                "!Low: taste",
            ],
        },
        memory=["severity values [High, Low, Low, Low], result: NEEDS_REVISION. Decision 2.", "!INVALIDATED"],
    ),
    case(
        "a pass whose own artifact is graver counts as that; settled, it binds nobody",
        "FT-156 FT-66",
        whole=f"{BEFORE} designer ct planner {PLAIN} post-mortem",
        ct_strategy=[says(findings=[{"severity": "High", "title": "no"}])] * 2 + [None],
        memory="severity values [Low, Low, Low, High], result: NEEDS_REVISION.",
        brief={"planner": ["!Planning constraints"]},
    ),
    case(
        "an unknown word is asked about once, then it is the worst",
        "FT-56 FT-57",
        whole=f"{BEFORE} designer ct planner {PLAIN} post-mortem",
        **{"ct_strategy": [UNKNOWN, UNKNOWN, None], "tries": {"ct-strategy": [2, 1]}},
        memory=[
            "[orchestrator, step-3b] WARNING: memory/ct-strategy.mem.md missing/malformed — treating as worst-case.",
            "severity values [Low, Low, Low, Critical], result: NEEDS_REVISION.",
        ],
    ),
    case(
        "a critic without a memory file is an error, and two of four decide",
        "FT-55 FT-57 FT-58 FT-60",
        kit={"files": {f"{ROOT}/memory/ct-strategy.mem.md": b"## Highest Severity\nLow\n"}},
        **{"ct_strategy": mute("ct-strategy"), "ct_security": ERROR},
        memory=["values [ERROR, Low, Low, ERROR], result: DONE.", "memory/ct-security.mem.md missing/malformed"],
    ),
    case(
        "who has none again is told again; what it had left before is nobody's to read",
        "FT-57 FT-58 FT-04",
        whole=f"{BEFORE} designer ct planner {PLAIN} post-mortem",
        ct_security=HIGH,
        ct_strategy=[HIGH, ERROR, ERROR],
        ct_scalability=ERROR,
        memory=[
            f"ct-scalability.mem.md missing/malformed — treating as worst-case.{n}\n" for n in ("", " Decision 2.")
        ],
        brief={"planner": ["memory/ct-security.mem.md", "!ct-strategy"]},
    ),
    case(
        "one of four halts",
        "FT-60",
        **{"ct_strategy": ERROR, "ct_security": ERROR, "ct_scalability": ERROR, "whole": BEFORE, "exit": 5},
        why="CT cluster: 1 of 4 usable; at least 2 required",
    ),
    case(
        "Critical of ct-security is told at once",
        "FT-41",
        whole=f"{BEFORE} designer ct planner {PLAIN} post-mortem",
        ct_security=says(severity="Critical", findings=[{"severity": "Critical", "title": "keys in the log"}]),
        warns="severity: critical: ct-security: Critical: keys in the log",
    ),
    # waves
    case(
        "the file says who does it",
        "FT-14",
        "T1+T2+T3 v r",
        planner=plans(["T1", "T2", "T3"], T1=WRITER, T2={"agent": "reviewer"}, T3={"agent": ""}),
        warns='T2: unknown agent "reviewer"; using implementer',
        tries={"documentation-writer-T1": [1], "implementer-T2": [1], "implementer-T3": [1]},
    ),
    case(
        "a failed implementer: its sub-wave ends, no next wave begins",
        "FT-140 FT-161 FT-158 FT-49",
        "T1+T2 v planner T1+T3 v r",
        planner=[plans(["T1", "T2"], ["T3"]), plans(["T1", "T3"])],
        implementer_T1=[says("ERROR: no", files={"./src/T1.py": "half\n"}), None],
        tries={"implementer-T1": [1, 1]},
        brief={
            "planner": ["MODE: REPLAN", "```\n- T1: failed: ERROR: no", "T3: was not begun", "added src/T1.py"],
            "implementer-T1": ["- Attempt: 2\n", "What the attempt before had changed", "added src/T1.py"],
        },
    ),
    case(
        "NEEDS_REVISION of an implementer is an error",
        "FT-140",
        SAME_TASK,
        **{"implementer_T01": [says("NEEDS_REVISION: hm"), None], "planner": [None, plans(["T01"])]},
        tries={"implementer-T01": [1, 1]},
    ),
    case(
        "a failed documentation-writer stops only what depends on it",
        "FT-142",
        "D1 T2 v planner D1+T3 v r",
        planner=[plans(["D1"], ["T2"], ["T3"], D1=WRITER, T3={"depends_on": "[D1]"}), plans(["D1", "T3"], D1=WRITER)],
        documentation_writer_D1=[ERROR, None],
    ),
    case(
        "a task outside of its files has failed",
        "FT-44 FT-21",
        "T1 v planner T1 v r",
        planner=[plans(["T1"]), plans(["T1"])],
        implementer_T1=[
            *[says(files={"./src/T1.py": "x\n", "./lib.py": "x\n", "memory/spec.mem.md": "x\n"})] * 2,
            None,
        ],
        brief={"planner": [f"you may not write `{ROOT}/memory/spec.mem.md`", "you may not write `lib.py`"]},
    ),
    case(
        "a task that changes nothing and shows nothing has failed",
        "FT-160",
        SAME_TASK,
        **{"implementer_T01": [SAME, None], "planner": [None, plans(["T01"])]},
        brief={"planner": ["failed: Nothing was changed. If it is so already, name the commands"]},
    ),
    case(
        "one that is so already shows it",
        "FT-160",
        "T1+T2 v r",
        planner=plans(["T1", "T2"]),
        implementer_T1=says(files={"./src/T1.py": None}, already_so=["look"]),
        output="T1 changed nothing: look shows that it is so already",
    ),
    case(
        "a task that no wave lists comes last",
        "FT-161",
        "T1 T9 v r",
        **{"planner": plans(["T1"], T9={}), "warns": "T9 stands in no wave: it is added as the last one"},
    ),
    # verification
    case(
        "v-build's error skips the three",
        "FT-48 FT-77 FT-84",
        AGAIN,
        **{"v_build": [ERROR, ERROR, None], "planner": TWO, "tries": {"v-build": [2, 1], "v-tests": [1]}},
        memory=V_LOG.format("ERROR", "ERROR", "ERROR", "ERROR", "ERROR"),
        brief={"planner": ["MODE: REPLAN", "memory/v-build.mem.md", "- v-build: ERROR: I cannot"]},
    ),
    case(
        "a negative verifier leads to a replan with what it found",
        "FT-49 FT-77 FT-58 FT-117 FT-76",
        AGAIN,
        v_tests=[
            says("NEEDS_REVISION: x", severity="FAIL", findings=[{"severity": "FAIL", "title": "t is red"}]),
            None,
        ],
        planner=TWO,
        memory=[V_LOG.format(*["DONE"] * 5) + " Decision 2.", "!INVALIDATED"],
        brief={
            "planner": ["FAIL: t is red", "memory/v-tests.mem.md", "memory/v-feature.mem.md", "T01: done", "T01.md"]
        },
    ),
    case(
        "who was not asked in a pass says nothing in it",
        "FT-58 FT-04 FT-49",
        "T01 v planner T02 v planner T03 v r",
        v_tests=[says(severity="FAIL", findings=[{"severity": "FAIL", "title": "t is red"}]), None],
        **{"v_build": [None, ERROR, ERROR, None], "planner": FOUR},
        brief={"planner": ["!t is red", f"Not available: `{ROOT}/memory/v-tests.mem.md`", "- v-build: ERROR"]},
    ),
    case(
        "FAIL in the memory beats DONE in the answer",
        "FT-76",
        AGAIN,
        **{"v_tasks": [says(severity="FAIL"), None], "planner": TWO},
        memory=V_LOG.format("DONE", "DONE", "NEEDS_REVISION", "DONE", "NEEDS_REVISION"),
    ),
    case(
        "without one of the three it goes on, and says so",
        "FT-57 FT-150",
        **{"v_feature": ERROR, "exit": 1},
        memory=[V_LOG.format(*["DONE"] * 3, "ERROR", "DONE"), "[orchestrator, step-6] WARNING: memory/v-feature"],
        output="DONE: feature greeting is complete\n- v-feature gave no verdict",
    ),
    case(
        "a memory that can be read is not told as missing",
        "FT-57",
        **{"v_feature": says("ERROR: no browser", severity="FAIL"), "exit": 1, "memory": "!WARNING"},
    ),
    case(
        "three replans, then review; never verified is no success",
        "FT-49 FT-52",
        THRICE,
        **{"v_tests": FAIL, "planner": FOUR, "exit": 1},
        output="verification did not pass (NEEDS_REVISION): see docs/feature/greeting/verification/",
    ),
    case(
        "a red command is against the work, whatever agents say",
        "FT-158",
        THRICE,
        **{"planner": FOUR, "red": b"x", "exit": 5, "output": "ERROR: `pytest` is still red"},
        brief={"planner": ["`pytest` is still red"]},
    ),
    case(
        "a criterion that is not met is no pass",
        "FT-156 FT-157",
        AGAIN,
        v_feature=[says(criteria=[{"criterion": "AC-1", "met": False}])] * 2 + [None],
        **{"planner": TWO, "tries": {"v-feature": [2, 1]}},
        brief={"v-feature": ["- AC-1: it works"], "v-tasks": ["- T01.1: it is done"], "v-tests": ["!T01.1"]},
    ),
    case(
        "where no command ran a verifier names its checks, or why there are none",
        "FT-156",
        THRICE,
        **{"kit": {"commands": ()}, "v_tests": says(no_check=""), "planner": FOUR, "exit": 1},
        **{"tries": {"v-tests": [2] * 4}, "warns": "no command checks this work: judges alone decide"},
    ),
    # review
    case(
        "Major: the tasks concerned are mended once, then all review again",
        "FT-102 FT-103 FT-117",
        "T1+T2 v r T2 r",
        planner=plans(["T1", "T2"]),
        r_quality=[says("NEEDS_REVISION: no", affected=["T2", "T99"], findings=MAJOR, severity="Major"), None],
        warns="r-quality: Affected Tasks lists T99; no such task",
        brief={
            "implementer-T2": [
                "# step 7.4: ",
                "- r-quality: Major: unclear",
                "review/r-quality.md",
                "review/r-testing.md",
            ]
        },
    ),
    case(
        "nobody named, no file named: all of them; NEEDS_REVISION alone counts",
        "FT-102 FT-97",
        "T1+T2 v r T1+T2 r",
        **{"planner": plans(["T1", "T2"]), "r_testing": [says("NEEDS_REVISION: hm"), None]},
    ),
    case(
        "still wanting: one full replan with the reviewers' memories",
        "FT-105 FT-150",
        "T01 v r T01 r planner T02 v r",
        **{"r_quality": REVISE, "planner": TWO, "exit": 5},
        brief={"planner": ["memory/r-quality.mem.md", "review/r-security.md", "MODE: REPLAN"]},
        output="ERROR: review: NEEDS_REVISION (r-security DONE/None, r-quality NEEDS_REVISION/Major",
    ),
    case(
        "without commands a fix is verified once",
        "FT-103",
        "T01 v r T01 v r",
        **{"kit": {"commands": ()}, "r_quality": [REVISE, None]},
    ),
    case(
        "a fix that breaks a command is none",
        "FT-103 FT-105",
        "T01 v r T01 r planner T02 v planner T03 v planner T04 v planner T05 v r",
        **{"r_quality": [REVISE, None], "planner": TWO, "implementer_T01": [None, WRONG], "red": b"wrong", "exit": 5},
        output="ERROR: `pytest` is broken",
    ),
    case(
        "what a task told no longer holds when it fails",
        "FT-117",
        "T01 v r T01 r planner T02 T01 v r",
        implementer_T01=[says(leave="## Decisions\n- it is a cache\n"), ERROR],
        **{"r_quality": [REVISE, None], "planner": TWO, "brief": {"planner": ["T01: failed"]}, "memory": "!a cache"},
    ),
    case(
        "r-security lost ends it: no replan cures a reviewer",
        "FT-90 FT-144",
        **{"r_security": ERROR, "exit": 5, "tries": {"r-security": [2]}, "output": "- r-security gave no verdict"},
        memory=["R-Security=ERROR/-", "result: ERROR."],
    ),
    case(
        "a Blocker is looked at once more; confirmed it leads to a full replan; a later one is shown at once, too",
        "FT-93 FT-41 FT-105 FT-150",
        ALL,
        **{"r_security": [BLOCKER, BLOCKER, ANOTHER], "planner": TWO, "exit": 5, "tries": {"r-security": [1, 1, 1]}},
        warns=[f"severity: critical: r-security: Blocker: {one} hole" for one in ("a", "another")],
    ),
    case(
        "a Blocker that vanished stays listed",
        "FT-93",
        **{"r_security": [BLOCKER, None], "exit": 1},
        output="- r-security did not confirm its Blocker: Blocker: a hole",
    ),
    case(
        "so does one whose second look came to nothing",
        "FT-93",
        **{"r_security": [BLOCKER, CRASH, CRASH, CRASH], "exit": 5},
        output="- r-security did not confirm its Blocker: Blocker: a hole",
    ),
    case(
        "Critical of a reviewer is a Blocker, and told",
        "FT-94",
        **{"r_security": [says(severity="Critical"), None], "exit": 1},
        warns='r-security: severity "Critical" is not in Blocker/Major/Minor; treated as Blocker',
    ),
    case(
        "r-knowledge changes nothing",
        "FT-95",
        **{"r_knowledge": ERROR, "tries": {"r-knowledge": [1]}, "warns": "r-knowledge gave nothing that counts"},
        memory="R-Knowledge=ERROR (non-blocking), result: DONE.",
    ),
    case(
        "r-knowledge without a memory is an error, and told",
        "FT-55 FT-57 FT-95",
        r_knowledge=mute("r-knowledge"),
        memory=["R-Knowledge=ERROR (non-blocking), result: DONE.", "WARNING: memory/r-knowledge.mem.md missing"],
    ),
    case(
        "what r-knowledge may not say is told with its reason",
        "FT-95",
        **{"r_knowledge": says("NEEDS_REVISION: hm"), "warns": "(r-knowledge: NEEDS_REVISION: hm)"},
    ),
    case(
        "who was lost in a round that did not decide, is not missed",
        "FT-150",
        FIXED,
        **{"r_testing": [ERROR, ERROR, None], "r_quality": [REVISE, None]},
    ),
    case(
        "one of the three is lost: the others decide",
        "FT-96 FT-150",
        **{"r_testing": ERROR, "exit": 1},
        output="DONE: feature greeting is complete\n- r-testing gave no verdict",
    ),
    # post-mortem, memory
    case(
        "a post-mortem that fails changes nothing, and the log is there",
        "FT-147 FT-149 FT-120 FT-03",
        **{"post_mortem": ERROR, "tries": {"post-mortem": [1]}, "warns": "the post-mortem gave nothing that counts"},
        memory="[orchestrator, step-8] PostMortem dispatch: ERROR.",
    ),
    case(
        "a post-mortem without its documents has failed",
        "FT-147 FT-149",
        **{"post_mortem": nothing("DONE: fine"), "tries": {"post-mortem": [2]}},
        memory=f"PostMortem dispatch: ERROR. {ROOT}/post-mortems/2026-01-01-post-mortem.md is missing;",
    ),
    case(
        "a missing private memory is a warning, flags are told at once, nobody else writes the shared one",
        "FT-119 FT-41 FT-20",
        spec=mute("spec"),
        designer=says(files={"memory.md": "# mine\n"}, leave="## Security Flags\n- a key stands in config.py\n"),
        warns=["memory/spec.mem.md is missing", "severity: critical: designer: a key stands in config.py"],
        memory=["# Operational Memory", "!# mine"],
    ),
    case(
        "lessons of tasks are kept",
        "FT-116 FT-115 FT-09",
        implementer_T01=says(leave="## Lessons Learned\n- it hung → a timeout\n## Key Findings\n- found\n"),
        memory=["- [implementer-T01, step-5.2] it hung → a timeout", "- [implementer-T01, step-5.2] found"],
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_what_each_word_leads_to(case: Case) -> None:
    bench = Feature(**case.kit)
    bench.acts(**case.acts)
    bench.cast.commands["look"] = lambda files: GREEN
    if case.red is not None:
        bench.cast.commands["pytest"] = lambda files: RED if case.red in b"".join(files.values()) else GREEN
    view = bench.go()
    assert story(view) == (case.whole or f"{BEFORE} planner {case.then} post-mortem")
    assert view.ended is not None and (view.ended.exit, case.why in view.why) == (case.exit, True), view.why
    for member, tries in case.tries.items():
        assert [one.report.calls for one in view.calls.values() if one.member == member and one.report] == list(tries)
    told = {
        "warned": ("\n".join(view.warnings), case.warns),
        "memory": (bench.doc("memory.md"), case.memory),
        "output": (bench.output, case.output),
        **{member: (bench.brief(member), words) for member, words in case.brief.items()},
    }
    for where, (text, wanted) in told.items():
        for words in [wanted] if isinstance(wanted, str) else wanted:
            assert (words.removeprefix("!") in text) is not words.startswith("!"), f"{where}: {words}\n\n{text}"


@pytest.mark.req("FT-12", "FT-13", "FT-136")
def test_a_wave_is_cut_into_sub_waves_of_four() -> None:
    bench = Feature()
    bench.acts(planner=plans([f"T{n}" for n in range(1, 10)]))
    bench.go()
    waves = [one.members for one in bench.events("joined") if any(name.startswith("impl") for name in one.members)]
    assert [len(one) for one in waves] == [4, 4, 1]
    assert max(map(len, (one.members for one in bench.events("joined")))) == 4


@pytest.mark.req("FT-04", "FT-11", "FT-19", "FT-27", "FT-26", "FT-24", "FT-35", "FT-43", "FT-109", "FT-33", "FT-08")
def test_what_agents_are_told_and_where_their_work_lies() -> None:
    bench = Feature()
    seen: dict[str, list[str]] = {}
    usual = bench.cast.agent

    def agent(ask: Any, key: str, files: Any) -> Any:
        seen[ask.env["INTERLOCK_MEMBER"]] = sorted(path for path in files if path.startswith(ROOT))
        return usual(ask, key, files)

    bench.cast.agent = agent  # type: ignore[method-assign]
    request = "Add a greeting\n\n  that says   hello."
    view = bench.go(request=request)
    assert seen["researcher-impact"] == [f"{ROOT}/initial-request.md", f"{ROOT}/memory.md"]
    assert not any("agent-metrics" in path or "post-mortems" in path for path in seen["post-mortem"])
    assert bench.doc("initial-request.md") == f"# Initial Request\n\n{request}\n"
    told = [words for call in view.calls.values() for words in _call(call)]
    assert ("ct-security", "begins", "step 3b.1  simulated", "begin") in told
    assert {tone for *_, tone in told} == {"begin", "good"}, "nobody's DONE is shown as if it were against the work"
    for call in view.calls.values():
        brief = bench.brief(call.member)
        assert brief.startswith(f"# step {call.step}: {call.member}: ")
        assert f"`{ROOT}/initial-request.md`" in brief and f"`{ROOT}/memory/{call.member}.mem.md`" in brief
        assert f"`{ROOT}/artifact-evaluations/{call.member}.md`" in brief and "at most 3 tries of your own" in brief
    assert "test first" in bench.brief("implementer-T01") and "across all tasks" in bench.brief("v-tests")
    inputs = bench.brief("spec").partition("## Inputs")[2]
    assert inputs.index("memory/researcher-impact.mem.md") < inputs.index("research/impact.md")
    bench = Feature()
    rates = says(files={"artifact-evaluations/spec.md": "- artifact: research/impact.md\n"})
    bench.acts(planner=plans(["T1"]), designer=mute("designer"), spec=rates)
    bench.go()
    assert bench.doc("artifact-evaluations/spec.md").startswith("- artifact")
    assert f"Not available: `{ROOT}/memory/designer.mem.md`" in bench.brief("planner")
    changed = {path for path in bench.world.files if path not in bench.world.head}
    assert {path for path in changed if not path.startswith(ROOT)} == {"src/T1.py"}
    assert not any("verifier" in path for path in changed)


@pytest.mark.req("FT-23", "FT-144", "FT-146", "FT-147", "FT-24")
def test_the_post_mortem_gets_the_telemetry() -> None:
    bench = Feature(files={f"{ROOT}/artifact-evaluations/spec.md": b"of an earlier run\n"})
    bench.acts(spec=[ERROR, None], v_tests=[FAIL, None], planner=[None, plans(["T02"])], r_knowledge=ERROR)
    bench.go()
    brief = bench.brief("post-mortem")
    rows = [line.split(" | ") for line in brief.splitlines() if line.startswith("| ")]
    cells = {(row[0].strip("| "), row[1], row[6]): row for row in rows if len(row) == 9}
    assert "## Dispatch Telemetry\n\n**Feature:** greeting\n**Run Date:** 2026-01-01\n" in brief
    head = "| Agent | Step | Pattern | Status | Retries | Failure | Iteration | Human | Timestamp |"
    assert f"### Agent Dispatches\n\n{head}\n" in brief
    assert cells["spec", "2", "1"][2:8] == ["sequential", "DONE", "1", "—", "1", "no"]
    assert cells["v-tests", "6.2", "1"][2:5] == ["B", "NEEDS_REVISION", "0"]
    assert cells["v-tests", "6.2", "2"][3] == "DONE"
    assert cells["r-knowledge", "7.2", "1"][3] == "ERROR" and "I cannot" in cells["r-knowledge", "7.2", "1"][5]
    assert cells["spec", "2", "1"][8].startswith("2026-01-01T")
    assert "| 6 | v | 4 | 0 | NEEDS_REVISION |" in brief and "| 7 | r | 4 | 1 | DONE |" in brief
    assert f"`{ROOT}/memory/`" in brief and f"`{ROOT}/artifact-evaluations/`" in brief
    assert f"- `{ROOT}/memory/spec.mem.md`" in brief and "artifact-evaluations/spec.md" not in brief
    assert bench.doc("agent-metrics/2026-01-01-run-log.md") and bench.doc("post-mortems/2026-01-01-post-mortem.md")
    bench = Feature()
    bench.cast.moments["called 3/designer"] = [lambda: bench.world.files.update({f"{ROOT}/design.md": b"# Mine\n"})]
    told, again = [call for call in bench.go().calls.values() if call.member == "designer"]
    assert told.report and told.report.reason == "conflict" and again.ended
    row = "| designer | 3 | sequential | DONE | 0 | — | 1 | no |"
    assert f"{row} {again.ended.isoformat()} |" in bench.brief("post-mortem"), "when it was heard"
    bench = Feature(files={f"{ROOT}/agent-metrics/2026-01-01-run-log.md": b"old"})
    bench.acts(post_mortem=ERROR)
    bench.go()
    log = bench.doc("agent-metrics/2026-01-01-2-run-log.md")
    assert "```yaml\nfeature: greeting\nrun_date: 2026-01-01-2\ndispatches:\n" in log and "Agent: spec" in log


APPROVES, REJECTS = {"choice": "approve"}, {"choice": "reject", "note": "Look at the tests, too."}


@pytest.mark.req("FT-17", "FT-125", "FT-134", "PERSON-02", "PERSON-03")
def test_a_person_approves_research_and_the_first_plan() -> None:
    bench = Feature()
    bench.cast.decisions = [REJECTS, APPROVES, REJECTS, APPROVES]
    bench.acts(planner=[None, plans(["T9"]), plans(["T10"])], v_tests=[FAIL, None])
    view = bench.go(approval=True)
    asked = "researcher researcher spec designer ct planner planner T9 v planner T10 v r post-mortem"
    assert (story(view), [one.decision.choice for one in view.gates.values() if one.decision]) == (
        asked,
        ["reject", "approve", "reject", "approve"],
    )
    assert "Look at the tests, too." in bench.brief("researcher-impact", 1)
    brief = bench.brief("planner", 1)
    assert "Look at the tests, too." in brief and "## Task files of the plan" in brief and "Do it." in brief
    gate = list(view.gates.values())[-1]
    assert set(gate.shown) == {f"{ROOT}/plan.md", f"{ROOT}/tasks/T9.md"} and "planner" in gate.summary
    assert "| researcher-impact | 1.1 | A | DONE | 0 | — | 2 | yes |" in bench.brief("post-mortem")


@pytest.mark.req("FT-117", "FT-134")
def test_a_refused_plan_binds_nobody_and_may_stay_in_what_was_not_refused() -> None:
    bench = Feature()
    bench.cast.decisions = [APPROVES, REJECTS, APPROVES]

    def again(ask: Any, there: Any) -> Any:
        act = plans(["T01"])(ask, there)  # type: ignore[operator]
        return replace(act, files={path: text for path, text in act.files.items() if not path.endswith("/plan.md")})

    bench.acts(planner=[says(leave="## Decisions\n- all in one file\n"), again])
    view = bench.go(approval=True)
    assert (view.status, "all in one file" in bench.doc("memory.md")) == ("complete", False)


@pytest.mark.req("FT-125", "FT-134", "RUN-10")
@pytest.mark.parametrize("gate", ["research", "plan"])
def test_five_revisions_are_all(gate: str) -> None:
    bench = Feature()
    bench.cast.decisions = [*([] if gate == "research" else [APPROVES]), *[REJECTS] * 6]
    bench.acts(planner=[plans([f"T{n}"]) for n in range(6)])
    view = bench.go(approval=True)
    assert (view.status, view.ended and view.ended.exit) == ("stopped", Exit.STOPPED)
    assert view.why == f"{gate} was rejected: Look at the tests, too."
    made = [one for one in view.calls.values() if one.member == ("planner" if gate == "plan" else "researcher-impact")]
    assert len(made) == 6


@pytest.mark.req("FT-18", "FT-17")
def test_nobody_there_is_waited_for_unless_that_was_said() -> None:
    bench = Feature()
    assert bench.go(approval=True).status == "waiting"
    bench = Feature(approval_fallback="proceed")
    view = bench.go(approval=True)
    assert view.status == "complete" and not view.gates
    assert view.warnings[-1] == NO_PAUSE
    assert not Feature().go().gates


@pytest.mark.req("FT-134", "FT-136", "PERSON-04")
def test_a_plan_that_a_person_edits_at_its_gate_is_the_plan() -> None:
    bench = Feature()
    bench.acts(planner=plans(["T1"], ["T2"]))

    def edits() -> None:
        bench.world.files[f"{ROOT}/plan.md"] = b"# Mine\n\n**Wave 1**\n* T2\n* T3 (new)\n"
        bench.world.files[f"{ROOT}/tasks/T3.md"] = b"# T3\n\nAgent: documentation-writer\n\nWrite it down.\n"
        bench.world.files.pop(f"{ROOT}/tasks/T1.md")

    bench.cast.moments["ask plan"] = [edits]
    bench.cast.decisions = [APPROVES, APPROVES, APPROVES]
    view = bench.go(approval=True)
    assert story(view) == "researcher spec designer ct planner T2+T3 v r post-mortem"
    assert "documentation-writer-T3" in {one.member for one in view.calls.values()}


@pytest.mark.req("FT-136", "PERSON-04", "PERSON-05")
def test_a_plan_that_a_person_breaks_stops_the_run_until_they_mend_it() -> None:
    bench = Feature()
    bench.acts(planner=plans(["T1"], ["T2"]))
    path = f"{ROOT}/tasks/T2.md"

    def breaks() -> None:
        bench.world.files[path] = b"---\nid: T2\ndepends_on: [T7]\n---\n"

    bench.cast.moments["called wave-1"] = [breaks]
    view = bench.go()
    assert (view.status, view.ended and view.ended.exit, view.why) == (
        "stopped",
        Exit.STOPPED,
        "T2 (wave 2) depends on T7; no such task",
    )
    bench.world.files[path] = b"---\nid: T2\n---\n"
    view = bench.resume()
    assert story(view) == "researcher spec designer ct planner T1 T2 v r post-mortem" and view.status == "complete"


@pytest.mark.req("FT-10", "FT-113", "FT-115")
def test_the_shared_memory_is_no_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Feature(files={f"{ROOT}/memory.md": b"\xff\xfe"})
    view = bench.go()
    assert view.status == "complete" and "cannot be written" in view.warnings[0]
    bench = Feature()

    def edits() -> None:
        text = bench.doc("memory.md").replace("## Recent Decisions", "A line of mine.\n")
        bench.world.files[f"{ROOT}/memory.md"] = text.encode()

    bench.cast.moments["called 3/designer"] = [edits]
    bench.go()
    memory = bench.doc("memory.md")
    assert "A line of mine." in memory and "## Recent Decisions" in memory
    assert "- [designer, step-3]" in memory
    bench = Feature()
    bench.go()
    assert "[spec, step-2]" not in bench.doc("memory.md"), "older than the phase before the plan's"


@pytest.mark.req("FT-32", "FT-113", "RUN-08")
def test_a_later_run_keeps_what_only_grows() -> None:
    bench = Feature(files={f"{ROOT}/plan.md": b"# Old\n", f"{ROOT}/tasks/T77.md": b"# T77\n"})
    designed = says(files={"design.md": "# The same\n"})
    bench.acts(designer=designed)
    bench.go()
    first = bench.doc("decisions.md")
    kept = bench.doc("memory.md").replace("## Lessons Learned\n", "## Lessons Learned\n\n- [x, step-5] a → b\n")
    bench.world.files[f"{ROOT}/memory.md"] = kept.encode()
    bench.world.files[f"{ROOT}/decisions.md"] = first.encode() + b"By a person.\n"

    later = Feature(files=dict(bench.world.files))
    rewritten = says(files={"decisions.md": "# All new\n- one more\n"})
    later.acts(r_knowledge=[rewritten], designer=designed)
    view = later.go(request="Add a farewell")
    assert view.status == "complete" and "T77" not in story(view)
    assert later.doc("decisions.md") == f"{first}By a person.\n\n# All new\n- one more\n"
    assert f"{ROOT}/decisions.md: earlier content changed; restored, new text appended" in view.warnings
    memory = later.doc("memory.md")
    assert "- [x, step-5] a → b" in memory and "[post-mortem, step-8]" in memory
    assert memory.count("CT cluster decision") == 1, "entries of the earlier run are older than all"
    assert later.doc("initial-request.md") == "# Initial Request\n\nAdd a farewell\n"
    assert not later.doc("tasks/T77.md")
    assert later.doc("design.md") == "# The same\n", "committed, set aside and written anew: nothing is taken back"
    later = Feature(files={f"{ROOT}/initial-request.md": b"# Initial Request\n\nAdd a greeting, and a captcha\n"})
    later.go()
    assert later.doc("initial-request.md") == "# Initial Request\n\nAdd a greeting\n"


@pytest.mark.req("FT-87")
@pytest.mark.parametrize(("path", "tier"), [("a.py", "Lightweight"), ("src/auth/login.py", "Full")])
def test_the_tier_is_that_of_what_was_changed(path: str, tier: str) -> None:
    bench = Feature(commands=())
    bench.acts(implementer_T01=says(files={"./implementer-T01.txt": None, f"./{path}": "x"}))
    bench.go()
    assert all(f"Review tier: {tier}" in bench.brief(name) for name in ("r-security", "r-knowledge"))
    assert f"`{path}`" in bench.brief("r-quality")


@pytest.mark.req("FT-150", "FT-160", "PERSON-05", "RUN-08")
@pytest.mark.parametrize(
    ("acts", "why", "again"),
    [
        ({"r_security": [ERROR, ERROR, None]}, "review: ERROR (r-security ERROR/-", []),
        (
            {"documentation_writer": [ERROR] * 4, "planner": plans(["T1"], T1=WRITER)},
            "`pytest` is still red; task T1 failed",
            ["documentation-writer-T1", "v-build", "v-tests", "v-tasks", "v-feature"],
        ),
    ],
)
def test_resume_asks_again_who_decided_the_end(acts: Any, why: str, again: list[str]) -> None:
    bench = Feature()
    bench.acts(**acts)
    assert bench.go().why.startswith(why)
    before = len(bench.cast.asks)
    view = bench.resume()
    asked = [ask.env["INTERLOCK_MEMBER"] for ask in bench.cast.asks[before:]]
    assert view.status == "complete"
    assert asked == [*again, "r-security", "r-quality", "r-testing", "r-knowledge", "post-mortem"]


@pytest.mark.req("FT-108")
def test_nothing_applies_what_r_knowledge_proposes() -> None:
    bench = Feature()
    bench.acts(r_knowledge=says(files={"review/knowledge-suggestions.md": "# Name `obey` in `CLAUDE.md`\n"}))
    bench.go()
    assert bench.doc("review/knowledge-suggestions.md").startswith("# Name")
    assert {path for path in bench.world.files if not path.startswith(ROOT)} == {"lib.py", "implementer-T01.txt"}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"request": "  "}, "Feature request is empty"),
        ({"slug": "../x"}, 'Invalid feature slug "../x": use lower-case letters, digits and "-"'),
        ({"slug": "x" * 41}, "Invalid feature slug"),
    ],
)
def test_what_cannot_be_run_is_refused(asked: dict[str, str], said: str) -> None:
    assert FEATURE.check is not None
    with pytest.raises(BadInput, match=said.replace(".", "[.]").replace('"', ".")):
        FEATURE.check(FEATURE.inputs.model_validate({"request": "Add", **asked}), lambda branch: "")
