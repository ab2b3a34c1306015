"""`harness`, rehearsed: every path holds, each rule can fail, liars are not believed, a death changes nothing."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import lies
from benchmarks.lies import FIXED, FOUND, LIB, LINES, MAKE, REGRESSED, TEST, Case, Project
from interlock.agents.values import Ask, Exit
from interlock.engine import evidence
from interlock.engine.forms import Ruling
from interlock.engine.holds import broken
from interlock.engine.playbook import Playbook
from interlock.engine.playing import Player
from interlock.engine.prompts import Prompts
from interlock.engine.rehearsal import explore
from interlock.engine.run import Run
from interlock.engine.simulation import Act, Clean, Files, begin, drive
from interlock.engine.stage import EACH, IDLE, MEETS, WRONG
from interlock.engine.view import View
from interlock.engine.world import Toolbox
from interlock.errors import Status
from interlock.playbooks.harness import HARNESS, playbook
from interlock.playbooks.harness.stages import CONTRACTS, ORDER, Stage
from interlock.workspace.values import Tree
from tests.engine.bench import SAMPLED, cut_off_anywhere, wrong
from tests.playbooks.broken import Copy, swap
from tests.playbooks.harnesses import ARTIFACTS, BUILD, ID, QA, TASK, Task, bad, qa, reject

INPUTS = HARNESS.inputs.model_validate({"task": ID})
AUTONOMOUS = TASK.replace("- Task ID", "- Workflow Mode: autonomous\n- Task ID")


def world(text: str, *, asks: bool = True) -> Playbook:
    """With this task; its contracts may ask for nothing but that."""
    contracts = HARNESS.brings[CONTRACTS]
    contracts = contracts if asks else re.sub(r"required: .*", "required: [task_file]", contracts)
    return replace(HARNESS, files={f"harness/tasks/{ID}.md": text, CONTRACTS: contracts})


@SAMPLED
@pytest.mark.req("PROOF-01", "RUN-03", "RUN-10", "EVID-10", "HN-06", "HN-07", "HN-109")
def test_every_path_with_one_deviation_holds(sample: int) -> None:
    paths = list(explore(HARNESS, INPUTS, sample=sample))
    assert wrong(paths) == []
    assert sample or len(paths) > 600


@SAMPLED
@pytest.mark.req("PROOF-01", "HN-94")
def test_every_path_holds_where_nobody_is_asked(sample: int) -> None:
    nobody = replace(world(AUTONOMOUS), invariants={})
    only = (WRONG, IDLE, MEETS, "red", f"red{EACH}")
    paths = explore(nobody, INPUTS, only=lambda name: "=" in name or name in only, sample=sample)
    assert wrong(paths) == []


@pytest.mark.long
@pytest.mark.req("PROOF-03")
def test_two_deviations_hold_in_a_sample() -> None:
    paths = explore(HARNESS, INPUTS, deviations=2, sample=2000, seed=1)
    assert wrong(paths) == []


def _skips(stage: Stage) -> Stage:
    return ORDER[ORDER.index(stage) + (2 if stage is Stage.SPECIFICATION else 1)]


async def _approves(house: Any, gate: str, *_: Any) -> None:
    approvals = (*house.state.approvals, f"{gate}: nobody")
    await house.keep(house.state.at(house.state.stage, house.day, approvals=approvals), "nobody was asked")


async def _returns(house: Any, *_: Any, **__: Any) -> None:
    await house.keep(house.state.at(Stage.BUILD, house.day), "once more")


ORDERED, ASKED, BOUNDED = HARNESS.invariants
COPIES = {
    "skips a stage": Copy(ORDERED, "", swap(Stage, "next", property(_skips)), world(TASK, asks=False)),
    "approves itself": Copy(ASKED, "", swap(playbook, "ask", _approves), HARNESS),
    "returns for ever": Copy(BOUNDED, f"verdict=revise{EACH}", swap(playbook, "negative", _returns), HARNESS),
}


@pytest.mark.req("PROOF-03")
@pytest.mark.parametrize(
    "name", ["skips a stage", "approves itself", pytest.param("returns for ever", marks=pytest.mark.long)]
)
def test_a_broken_copy_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = COPIES[name]
    copy.patch(monkeypatch)
    paths = explore(copy.playbook, INPUTS, only=lambda one: one == copy.by)
    assert any(why.startswith(copy.rule) for path in paths for why in broken(path))


def test_every_rule_of_its_own_has_a_copy_that_breaks_it() -> None:
    assert {copy.rule for copy in COPIES.values()} == set(HARNESS.invariants)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05", "HN-76", "HN-112")
def test_a_process_that_dies_at_any_line_changes_nothing() -> None:
    """A rejected plan, a negative QA, a rejected result: the same documents, nobody called twice."""

    class Again(Task):
        def start(self, **inputs: Any) -> View:
            return self.run(until="")

    def make() -> Task:
        task = Again()
        decided = {"gate-build#1": reject("smaller"), "gate-complete#1": reject("nicer")}
        seen = set[str]()

        def person(gate: Any) -> Any:
            name = gate.key.rpartition("/")[2]
            turn = f"{name} {gate.key}"
            first = not any(one.startswith(name) and one != turn for one in seen)
            seen.add(turn)
            task.cast.decisions = [decided[name] if first else {"choice": "approve"}]
            return type(task.cast).person(task.cast, gate)

        task.cast.person = person  # type: ignore[method-assign]
        usual = task.usual
        task.usual = lambda ask, key, files: bad(1) if key == "stage-8/QA/qa#1" else usual(ask, key, files)
        return task

    count = 0
    for line, usual, again in cut_off_anywhere(make):
        assert _timeless(again) == _timeless(usual), line
        assert again.last.view.status is usual.last.view.status is Status.COMPLETE, line
        count += 1
    assert count > 200


def _timeless(task: Any) -> dict[str, bytes]:
    chance = rb"20\d\d-\d\d-\d\d(T[\d:.]+Z)?|[0-9a-f]{64}|, \d+$"
    return {path: re.sub(chance, b"", text, flags=re.MULTILINE) for path, text in task.world.files.items()}


# --- liars


class Hostile(lies.Hostile):
    """Build and QA want the task complete, whatever it is; nobody is asked."""

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        if ask.role.name not in ("build", "qa"):
            return Clean().agent(ask, key, files)
        act = self._builder(files) if ask.role.name == "build" else self._report(ask)
        left = {**act.files, BUILD: ask.samples[BUILD].encode()} if ask.role.name == "build" else act.files
        finished = self.draw.random() >= 0.04
        return Act(left, act.exit.model_copy(update={"finished": finished}))

    def _report(self, ask: Ask) -> Act:
        chance, some = self.draw.random, self.draw.sample
        ran = [f"- `{line}`: exit {int(chance() < 0.15)}{', expected' if chance() < 0.3 else ''}" for line in LINES]
        boxes = [f"- [{'x' if chance() < 0.95 else ' '}] AC{n}: seen" for n in (1, 2) if chance() < 0.95]
        weak = [f"- `{path}`: it is right so" for path in (TEST, MAKE, lies.HOOK) if chance() < 0.4]
        lines = [
            f"# QA {chance()}",
            f"Validation Result: {'Passed' if chance() < 0.95 else 'Issues Found'}",
            f"Approval Readiness: {'Ready' if chance() < 0.95 else 'Back to Build'}",
            *("## Blocking Issues", "- None" if chance() < 0.9 else "- it does not work"),
            *("## Acceptance Criteria", *(boxes or ["all met"])),
            *("## Checks", *some(ran, self.draw.randint(0, 3)), *(["- None: obvious"] if chance() < 0.3 else [])),
            *(["## Weakened", *weak] if weak else []),
        ]
        plants: dict[str, bytes | None] = {lies.HOOK: b"pass\n"} if chance() < 0.2 else {}
        return Act({QA: "\n".join(lines).encode(), **plants}, self._says({"status": "done"}))


def played(cast: Any, files: Files) -> tuple[Project, Player]:
    process = world(AUTONOMOUS)
    documents = {path: text.encode() for path, text in {**HARNESS.brings, **process.files}.items()}
    cast.world = project = Project({**files, **documents}, cast=cast, toolbox=Toolbox([FOUND]), branch="main")
    player = Player(process, project, Prompts(process.prompts))
    begin(player, INPUTS)
    drive(player.play())
    return project, player


def shows(project: Project, view: View, start: Files) -> str:
    """What a command, or QA's own words, show against a task that is complete."""
    landed = [one for one in view.delivered if one.label != "documents" and one.before and one.merged]
    report = next(call.report for call in reversed(view.calls.values()) if call.agent == "qa")
    if report is None or report.form is None:
        return "QA has not judged"
    form, own = report.form, next(files for name, files in reversed(_seats(project)) if name.startswith("qa"))
    if form["verdict"] != "accept" or form["findings"]:
        return "QA did not pass it"
    if len({one["criterion"] for one in form["criteria"]}) < 2 or not all(one["met"] for one in form["criteria"]):
        return "a criterion is not met"
    for one in form["checks"]:
        told, shown = one["result"] == "green", project.trees[report.shown or Tree("")]
        if told not in (lies.run(one["command"], shown).green, lies.run(one["command"], own).green):
            return f"`{one['command']}` runs otherwise"
        if not told and not one["expected"]:
            return f"`{one['command']}` is red"
    says = {one["path"] for one in form["weakened"]}
    weak = [pair.proved.weak for pair in view.pairs.values() if pair.proved and pair.proved.weak]
    told_of = {name for one in weak for name in (*one.paths, *one.gone)}
    for one in landed:
        alone, after = project.trees[one.before or Tree("")], project.trees[one.merged or Tree("")]
        case = Case((FOUND.line,), start, alone, after, False, told_of if told_of <= says else set())
        if why := lies.against(case)[0]:
            return why
    return ""


def _seats(project: Project) -> list[tuple[str, Files]]:
    return [(name, seat.files) for name, seat in project.seats.items()]


def hostile(seed: int) -> tuple[bool, str]:
    """Whether the task was complete, and what shows that it should not be."""
    draw = random.Random(seed)
    start = {**lies.FILES, LIB: FIXED} if draw.random() < 0.15 else lies.FILES
    project, player = played(Hostile(draw), start)
    done = player.view.status is Status.COMPLETE
    return done, shows(project, player.view, start) if done else ""


NONE = "## Blocking Issues\n\n- None\n\n## Acceptance Criteria\n\n"
USUAL = (qa().files[QA] or b"").decode()
TABLE = "| Field | Value |\n| --- | --- |\n| Validation Result | Pass |\n| Approval Readiness | Ready |\n\n"
REPORTS: Mapping[str, str] = {
    "the seed's": USUAL,
    "bold": "# QA\n\n**Validation Result:** Passed\n**Approval Readiness:** Ready for Approval\n\n"
    "## Blocking issues\n\nNone.\n\n"
    "## Acceptance criteria\n\n1. [x] **AC1** seen\n2. [X] AC2 seen\n\n## Notes\n\n- a shorter name?\n",
    "a table": f"# QA report\n\n{TABLE}{NONE}| AC | met |\n| --- | --- |\n| AC1 | yes |\n| AC2 | met |\n",
    "sections": "# QA\n\n## Validation Result\n\nPassed\n\n## Approval Readiness\n\nReady\n\n"
    f"{NONE}- A name is greeted: satisfied\n- Nobody is greeted as the world. Yes, seen.\n",
    "expected red": f"{USUAL}- `./verify.sh`: exit 127, expected 127\n",
    "all checks": f"{USUAL}- `make test`: exit 0\n- `python -m pytest tests` (exit code 0)\n",
}


class Honest(Clean):
    """As people instruct their own agents: reports as they write them, with a form or without."""

    def __init__(self, report: str, late: bool, form: bool) -> None:
        self.report, self.late, self.form = report, late, form

    def agent(self, ask: Ask, key: str, files: Files) -> Act:
        name, n = ask.role.name, ask.env["INTERLOCK_ATTEMPT"]
        end = self.said({"status": "done"}) if self.form else Exit(finished=True, exit=0, text="I have done it.")
        if name == "build":
            late = self.late and n == "1"
            return Act({BUILD: ask.samples[BUILD].encode(), LIB: REGRESSED if late else FIXED}, end)
        if name == "qa":
            return Act({QA: f"{self.report}\n<!-- {n} -->\n".encode()}, end)
        path = ARTIFACTS[name]
        return Act({path: ask.samples[path].encode()}, end)


@pytest.mark.req("EVID-11", "EVID-03", "EVID-04", "HN-69", "HN-72", "HN-15")
def test_no_liar_is_believed_and_nobody_honest_is_refused() -> None:
    told = [hostile(seed) for seed in range(1, 61)]
    assert [(seed, why) for seed, (_, why) in enumerate(told, 1) if why] == []
    assert sum(done for done, _ in told) > 1, "who never accepts proves nothing"
    for seed in range(24):
        report = list(REPORTS.values())[seed % len(REPORTS)]
        late = seed % 4 == 3
        _, player = played(Honest(report, late, seed % 2 == 0), lies.FILES)
        view = player.view
        assert view.status is Status.COMPLETE, (seed, view.why, list(REPORTS)[seed % len(REPORTS)])
        assert all(call.calls == 1 for call in view.calls.values()), seed


@pytest.mark.req("EVID-11")
def test_the_figures_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "against", lambda run, proved: {})
    monkeypatch.setattr(evidence, "judge", lambda *_, **__: Ruling(passes=True, said=True))
    assert any(why for _, why in map(hostile, range(60)))
