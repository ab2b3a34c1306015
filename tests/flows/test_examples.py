"""The three examples that ship: read, rehearsed, simulated, cut at every point, and run on disk (OW-25)."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.agents.roles import parse_role
from interlock.app import open_runs
from interlock.engine import AgentRequest, CommandResult, Playbook, Status
from interlock.engine.people import decide
from interlock.engine.playing import Finished
from interlock.engine.runs import Quiet
from interlock.flows import Flow, compiled, read, rehearsal
from interlock.testing import Act, Bench, Change, rehearse, says
from tests import own_python
from tests.flows.test_schema import check
from tests.proofs import long

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if folder.is_dir())


def load(name: str) -> Flow:
    file = EXAMPLES / name / "playbook.yaml"
    return read(file.read_bytes(), str(file.relative_to(EXAMPLES.parent)))


def bench(name: str, worker: str, path: str) -> Bench:
    """The example, with a worker that changes a file at each call."""
    return Bench(compiled(load(name))).ever(worker, changes(path))


def changes(path: str) -> Change:
    def change(request: AgentRequest, act: Act) -> Act:
        return Act({**act.files, path: f"{request.dispatch}\n"}, act.message)

    return change


# -- each of them


@pytest.mark.req("OW-25")
def test_there_are_three() -> None:
    """Fix until reviewers agree; documentation kept true; a dependency upgrade with a gate."""
    assert NAMES == ["fix-until-agreed", "true-docs", "upgrade"]


@pytest.mark.req("OW-25")
@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_whole(name: str) -> None:
    """It loads under the name of its folder, editors have no complaint, and each agent has its role beside it."""
    flow, folder = load(name), EXAMPLES / name
    playbook = compiled(flow)
    text = (folder / "playbook.yaml").read_text(encoding="utf-8")
    assert flow.name == name and text.startswith("# yaml-language-server: $schema=../../docs/playbook.schema.json\n")
    assert check(text) == []
    roles = {file.stem: parse_role(file.read_text(encoding="utf-8"), file.name) for file in folder.glob("agents/*.md")}
    assert isinstance(playbook.needs_roles, frozenset) and set(roles) == set(playbook.agents) == playbook.needs_roles
    assert all(role.name == stem and role.description and len(role.body) > 200 for stem, role in roles.items())
    assert f"interlock run ./examples/{name} " in (folder / "README.md").read_text(encoding="utf-8")


WORDS = {
    "verdict": ("DONE", "NEEDS_REVISION", "BLOCKED"),
    "severity": ("NONE", "LOW", "MEDIUM", "HIGH", "CRITICAL"),
}


@pytest.mark.req("OW-25")
@pytest.mark.parametrize("name", NAMES)
def test_the_roles_of_judges_name_the_words_that_are_understood(name: str) -> None:
    """A role that teaches another word would be asked again and again."""
    for agent in load(name).agents:
        body = (EXAMPLES / name / "agents" / f"{agent.name}.md").read_text(encoding="utf-8")
        known = WORDS[agent.says]
        said = [word for words in WORDS.values() for word in words if f"`{word}:`" in body]
        assert set(said) <= set(known)
        assert not agent.judges or known[0] in said


@pytest.mark.req("OW-24", "OW-25")
@pytest.mark.parametrize(("name", "most"), [*((name, 1) for name in NAMES), *long(*((name, 2) for name in NAMES))])
def test_an_example_keeps_every_rule(name: str, most: int) -> None:
    """On every path, and every step and ending is reached."""
    assert rehearse(rehearsal(load(name)), most=most) == []


# -- simulated


@pytest.mark.req("OW-25")
def test_a_fix_goes_back_with_its_evidence_until_all_agree() -> None:
    """A red check, then a reviewer who wants more, then agreement."""
    fix = bench("fix-until-agreed", "fixer", "src/a.py")
    fix.on("tests", says("There is no test for the last row.\n\nNEEDS_REVISION: no test"))
    results = iter([CommandResult(1, stdout="1 failed: test_rows\n"), *[CommandResult(0)] * 9])
    fix.command = lambda _call: next(results)
    finished = fix.play(fix.playbook.inputs(problem="The export drops a row."))
    assert (finished.status, finished.reason) == (
        Status.COMPLETE,
        "The check passes, and both reviewers agree.",
    )
    assert fix.called == ["fixer", "fixer", "correctness", "tests", "fixer", "correctness", "tests"]
    assert "1 failed: test_rows" in fix.brief("fixer", 1)
    assert "There is no test for the last row." in fix.brief("fixer", 2)
    assert "What you did before is in the tree." not in fix.brief("fixer")


@pytest.mark.req("OW-25")
def test_a_fix_that_never_passes_its_check_never_completes() -> None:
    """Reviewers are not paid for it; the same failure twice stops the run."""
    fix = bench("fix-until-agreed", "fixer", "src/a.py")
    fix.command = lambda _call: CommandResult(1, stdout="1 failed\n")
    finished = fix.play(fix.playbook.inputs(problem="x"))
    assert (finished.status, finished.reason) == (Status.STOPPED, "The same was found wrong twice.")
    assert fix.called == ["fixer", "fixer"]


@pytest.mark.req("OW-25")
@pytest.mark.parametrize(
    ("answers", "status", "calls"),
    [
        ([], Status.COMPLETE, ["checker"]),
        (["MEDIUM: a command is wrong"], Status.COMPLETE, ["checker", "writer", "checker"]),
        (["CRITICAL: it promises encryption"], Status.STOPPED, ["checker"]),
        (["LOW: a", "LOW: b", "LOW: c"], Status.DEGRADED, ["checker", "writer"] * 3),
        (["LOW: a", "LOW: a"], Status.DEGRADED, ["checker", "writer", "checker"]),
    ],
)
def test_pages_are_corrected_by_how_wrong_they_are(answers: list[str], status: Status, calls: list[str]) -> None:
    """Nothing to do; some rounds; a person; no end in sight; the same again."""
    docs = bench("true-docs", "writer", "docs/a.md").on("checker", *map(says, answers))
    assert docs.play(docs.playbook.inputs()).status is status
    assert docs.called == calls


@pytest.mark.req("OW-25")
def test_a_person_decides_twice_about_an_upgrade() -> None:
    """About the plan, and about what becomes of it; their words reach the next attempt."""
    upgrade = bench("upgrade", "upgrader", "requirements.txt")
    finished = upgrade.play(upgrade.playbook.inputs(package="requests"))
    assert finished.status is Status.WAITING and finished.gate is not None and finished.gate["gate"] == "go_ahead"
    assert list(finished.gate["digests"]) == ["docs/upgrades/requests.md"] and upgrade.called == ["scout"]
    upgrade.answer("approve")
    finished = upgrade.resume()
    assert finished.gate is not None
    assert finished.gate["question"] == "The check passes; the inspector says: pass. What now?"
    upgrade.answer("once_more", note="Pin it in the lock file too.")
    upgrade.resume()
    assert "Pin it in the lock file too." in upgrade.brief("upgrader", 1)
    upgrade.answer("keep")
    finished = upgrade.resume()
    assert (finished.status, finished.reason) == (Status.COMPLETE, "requests is upgraded, and a person has seen it.")


@pytest.mark.req("OW-25")
def test_a_plan_that_is_rejected_costs_no_upgrade() -> None:
    """The run stops at the first gate."""
    upgrade = bench("upgrade", "upgrader", "requirements.txt")
    upgrade.play(upgrade.playbook.inputs(package="requests"))
    upgrade.answer("reject", note="Too risky.")
    assert upgrade.resume().status is Status.STOPPED
    assert upgrade.called == ["scout"]


# -- crashes


@pytest.mark.req("OW-25", "OW-23")
@pytest.mark.parametrize(
    ("name", "worker", "path", "inputs", "status"),
    [
        ("true-docs", "writer", "docs/a.md", {}, Status.COMPLETE),
        *long(
            ("fix-until-agreed", "fixer", "src/a.py", {"problem": "x"}, Status.COMPLETE),
            ("upgrade", "upgrader", "requirements.txt", {"package": "x"}, Status.WAITING),
        ),
    ],
)
def test_an_example_survives_every_crash(
    name: str, worker: str, path: str, inputs: dict[str, str], status: Status
) -> None:
    """Cut at each point at which interlock can die, and gone on with: the same end, the same documents."""
    example = bench(name, worker, path)
    if name == "true-docs":
        example.on("checker", says("LOW: a link"))
    asked = example.playbook.inputs(**inputs)
    assert example.play(asked).status is status
    files = {path: example.text(path) for path in example.paths}
    points = 0
    for finished in example.crashes(asked):
        points += 1
        assert finished.status is status
        assert {path: example.text(path) for path in example.paths} == files
    assert points > 20


# -- on disk


@dataclass
class Place:
    """A repository on disk in which an example runs with scripted agents."""

    root: Path
    playbook: Playbook

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    async def go(self, inputs: object, answers: list[str]) -> Finished:
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.root.parent), **own_python.SHOWN}
        runs = open_runs(self.root, Quiet(), environ=environ, playbooks=(self.playbook,))
        finished = await runs.run(self.playbook, inputs)
        for answer in answers:
            assert finished.status is Status.WAITING
            await decide(runs, "latest", answer)
            finished = await runs.resume("latest")
        return finished


@pytest.fixture
def place(tmp_path: Path) -> Callable[[str, str], Place]:
    def make(name: str, scenario: str) -> Place:
        found = Place(tmp_path / "work", compiled(load(name)))
        for role in (EXAMPLES / name / "agents").glob("*.md"):
            found.write(f".interlock/agents/{name}/{role.name}", role.read_text("utf-8"))
        found.write("scenario.yaml", scenario)
        found.write("interlock.toml", 'runner = "s"\n[runners.s]\ntype = "scripted"\nscenario = "scenario.yaml"\n')
        found.write("src/sum.sh", "echo 3\n")
        subprocess.run(["git", "init", "-q", str(found.root)], check=True)
        return found

    return make


@pytest.mark.req("OW-25", "OW-23")
def test_a_fix_on_disk_is_checked_by_interlock(place: Callable[[str, str], Place]) -> None:
    """The first attempt is red for real, the second one green; the file in the tree is the second."""
    scenario = """
reactions:
  - {agent: fixer, attempt: 1, files: {src/sum.sh: "echo 5\\n"}, status: DONE}
  - {agent: fixer, files: {src/sum.sh: "echo 4\\n"}, status: DONE}
"""
    work = place("fix-until-agreed", scenario)
    asked = work.playbook.inputs(problem="The sum is wrong.", command='test "$(sh src/sum.sh)" = 4')
    finished = asyncio.run(work.go(asked, []))
    assert (finished.status, finished.reason) == (Status.COMPLETE, "The check passes, and both reviewers agree.")
    assert (work.root / "src/sum.sh").read_text() == "echo 4\n"
    proofs = [line.data["exit"] for line in finished.lines if line.event == "proof"]
    assert proofs == [1, 0]


@pytest.mark.req("OW-25", "OW-23")
@pytest.mark.long
def test_pages_on_disk_are_corrected(place: Callable[[str, str], Place]) -> None:
    """Inside the writer's scope; what it does beside it stays out of the tree."""
    scenario = """
reactions:
  - {agent: checker, attempt: 1, status: MEDIUM, message: "README.md:1 is wrong."}
  - {agent: writer, files: {README.md: "# True\\n"}, status: DONE}
"""
    work = place("true-docs", scenario)
    finished = asyncio.run(work.go(work.playbook.inputs(command="grep -q True README.md"), []))
    assert (finished.status, finished.reason) == (Status.COMPLETE, "What the pages say is true.")
    assert (work.root / "README.md").read_text() == "# True\n"


@pytest.mark.req("OW-25", "OW-23")
@pytest.mark.long
def test_an_upgrade_on_disk_waits_for_people(place: Callable[[str, str], Place]) -> None:
    """Two gates, each passed by a recorded answer."""
    scenario = 'reactions:\n  - {agent: upgrader, files: {deps.txt: "x 2\\n"}, status: DONE}\n'
    work = place("upgrade", scenario)
    asked = work.playbook.inputs(package="x", command="grep -q 'x 2' deps.txt")
    finished = asyncio.run(work.go(asked, ["approve", "keep"]))
    assert (finished.status, finished.reason) == (Status.COMPLETE, "x is upgraded, and a person has seen it.")
    assert (work.root / "docs/upgrades/x-inspection.md").exists()
