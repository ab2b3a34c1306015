"""`ticket`, whole, by the real world: in the author's own files, by the command line, killed, cloned."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from interlock.app import Watcher
from interlock.documents.reading import read_yaml
from interlock.errors import Status
from tests.whole.bench import Bench

REQUEST = "ABC-12 fix add: it should add"
BRANCH = "fix/ABC-12_fix_add_add"
P = "prompts/ABC-12/"
ROLES = ("Interpreter", "Initializer", "Planner", "Splitter", "task-executor", "Developer", "Reviewer")
AGENT = r"""# the author's agents: they know their prompts, and nothing of interlock
cat > /tmp/brief-$$; brief=/tmp/brief-$$
dir=prompts/ABC-12/iteration_$(sed -n 's/^Iteration: //p' $brief | head -1)
task=$(sed -n 's/^Task: //p' $brief | head -1)
[ -f acts/$INTERLOCK_AGENT.sh ] && . acts/$INTERLOCK_AGENT.sh
case $INTERLOCK_AGENT in
  Planner)
    printf '# Plan\n\nMend add, and say so in notes.txt.\n' > $dir/plan.md
    [ -f tasks-of-mine.yaml ] && cp tasks-of-mine.yaml $dir/tasks.yaml ;;
  Splitter) sed -n '/^```yaml/,/^```/p' $dir/plan.md > /dev/null; cp tasks-by-splitter.yaml $dir/tasks.yaml ;;
  task-executor|Developer)
    case $task in T2) sed -i 's/three/four/' notes.txt ;; *) sed -i 's/a - b/a + b/' lib.py ;; esac
    sed -i 's/status: PENDING/status: SYNTAX_VALID/' $dir/tasks.yaml ;;
  Initializer)
    mkdir -p docs; for name in ARCHITECTURE CODE_STYLE FINDINGS; do echo "# $name" > docs/$name.md; done
    print=$(sed -n 's/.*workspace_fingerprint: "\([0-9a-f]*\)".*/\1/p' $brief)
    { echo 'trust_status: trusted'; echo "workspace_fingerprint: $print"; echo 'refresh_required: false'
      echo 'documents:'
      for name in ARCHITECTURE CODE_STYLE FINDINGS; do
        echo "  $name.md: {sha256: $(sha256sum docs/$name.md | cut -d' ' -f1), refreshed_at: 2026-01-01, state: fresh}"
      done; } > docs/docs_cache_state.yaml ;;
  Reviewer)
    printf 'status: ACCEPTED\nmode: prompt-review\nbuild: PASSED\ntests: PASSED\nfiles_verified: true\n' \
      > $dir/review_report.yaml
    printf 'notes: |\n  It adds.\nreviewed_at: 2026-01-01T00:00:00Z\n' >> $dir/review_report.yaml ;;
esac
echo 'I have done what my file tells me.'
"""
TASKS = """\
# by our planner
strategy: "parallel where files differ"
validation_policy:
  baseline_scope: code_and_tests_only
  baseline_allowlist: []
tasks:
  - id: T1
    description: "Mend add"
    files_to_modify: [lib.py]
    success_criteria: ["add(2, 3) is 5"]
    parallel_group: A
    depends_on: []
    status: PENDING
    tool_mandates: none
  - id: T2
    description: "Say so"
    files_to_modify: [notes.txt]
    success_criteria: ["notes.txt says four"]
    parallel_group: A
    depends_on: []
    status: PENDING
parallel_groups:
  A: [T1, T2]
execution_order:
  - {group: A, strategy: parallel, tasks: [T1, T2]}
"""
ONE = TASKS[: TASKS.index("  - id: T2")] + TASKS[TASKS.index("parallel_groups:") :].replace(", T2]", "]")


class Ticket(Bench):
    """The small project, with the author's agents and their role files."""

    playbook, asked = "ticket", {"request": REQUEST}

    def __init__(self, top: Path, *, tasks: str = TASKS, mode: str = "auto") -> None:
        super().__init__(top, mode=mode)
        self.write("agent.sh", AGENT)
        self.write("tasks-of-mine.yaml", tasks)
        for role in ROLES:
            front = f"---\nname: {role}\ndescription: The {role}.\n# model: ['x (copilot)']\n---\n"
            self.write(f".github/agents/{role.lower()}.agent.md", f"{front}\n# {role} Agent\n\nYou are the {role}.\n")
        self.commit("agents")

    def yaml(self, path: str) -> Any:
        return read_yaml(self.read(P + path), path).data

    def is_done(self) -> None:
        """On its branch, with the work and the documentation in a commit each."""
        assert self.run_git("symbolic-ref", "--short", "HEAD") == BRANCH
        subjects = self.run_git("log", "-2", "--format=%s").splitlines()
        assert subjects == ["docs(ABC-12): refresh documentation", "fix(ABC-12): fix add: it should add"]
        assert "a + b" in self.read("lib.py")
        assert self.yaml("progress.yaml")["status"] == "ACCEPTED"


@pytest.mark.req("AGENT-07", "PERSON-07", "TK-14", "TK-150", "TK-161", "CLI-04", "CLI-02")
@pytest.mark.parametrize("mode", ["auto", pytest.param("off", marks=pytest.mark.long)])
def test_the_authors_own_files_and_agents_run_through(tmp_path: Path, mode: str) -> None:
    """Roles by their front matter, a graph and a report in the seed's layout, executors that write task states."""
    ticket = Ticket(tmp_path / "p", mode=mode)
    ticket.trust()
    said = ticket.types("run", "ticket", REQUEST)
    assert said.code == 0, said.err
    assert said.out.splitlines()[-6:] == [
        "SUCCESS: Development complete in 1 iteration(s)",
        "Tasks: 2 completed",
        "Build: PASSED",
        "Tests: PASSED",
        f"Branch: {BRANCH}",
        f"Report: {P}iteration_0/review_report.yaml",
    ]
    ticket.is_done()
    assert ".github/agents/task-executor.agent.md" in said.err
    assert "# by our planner" in ticket.read(f"{P}iteration_0/tasks.yaml")
    assert [one["status"] for one in ticket.yaml("iteration_0/tasks.yaml")["tasks"]] == ["ACCEPTED"] * 2
    assert ticket.yaml("iteration_0/review_report.yaml")["notes"] == "It adds.\n"
    assert ticket.run_git("show", "--format=", "--name-only", "HEAD~1").split() == [".gitignore", "lib.py", "notes.txt"]
    assert ticket.run_git("status", "--porcelain") == ""
    again = ticket.types("run", "ticket", REQUEST)
    assert (again.code, again.out) == (0, f"ABC-12 is done already: accepted and committed on {BRANCH}.\n")


@pytest.mark.req("TK-86", "TK-108", "TK-114")
@pytest.mark.parametrize("splitter", [pytest.param(False, marks=pytest.mark.long), True])
def test_one_simple_task_takes_the_short_cut(tmp_path: Path, splitter: bool) -> None:
    ticket = Ticket(tmp_path / "p", tasks="parallel_groups: [[T1]]\n" if splitter else ONE)
    ticket.write("tasks-by-splitter.yaml", ONE)
    ticket.commit("more")
    view = asyncio.run(ticket.begin())
    assert view.status is Status.COMPLETE, view.why
    assert [call.agent for call in view.calls.values()] == [
        *("Planner", "Initializer"),
        *(["Splitter"] if splitter else []),
        *("Developer", "Initializer"),
    ]
    ticket.is_done()
    assert ticket.yaml("iteration_0/review_report.yaml")["mode"] == "auto-accept-trivial"


@pytest.mark.long
@pytest.mark.req("TK-103", "TK-02", "TREE-03", "TK-102")
def test_a_persons_work_survives_agents_that_set_everything_back(tmp_path: Path) -> None:
    """Uncommitted code is asked about, carried, in no commit; documentation comes along by itself."""
    ticket = Ticket(tmp_path / "p")
    ticket.trust()
    for who in ("Planner", "task-executor"):
        ticket.act(who, "git stash -u -q; git checkout -q .; git clean -fdq; git switch -q -c mine")
    ticket.commit("who sets back")
    ticket.write("README.md", "mine\n")
    ticket.write("mine.py", "x = 1\n")
    ticket.write("lib.py", ticket.read("lib.py").replace("return 'x'", "return 'mine'"))
    said = ticket.types("run", "ticket", REQUEST)
    assert said.code == 4, said.err
    assert "Working tree has uncommitted code changes: " in said.err and "mine.py" in said.err
    assert ticket.run_git("symbolic-ref", "--short", "HEAD") == "main"
    asked = ticket.types("run", "ticket", REQUEST, "--dirty", "carry")
    assert asked.code == 4 and "Tasks of this ticket work on lib.py" in asked.err, asked.err
    ticket.write("lib.py", ticket.read("lib.py").replace("return 'mine'", "return 'x'"))
    done = ticket.types("answer", "stash")
    assert done.code == 0, done.err
    ticket.is_done()
    assert (ticket.read("README.md"), ticket.read("mine.py")) == ("mine\n", "x = 1\n")
    assert "mine.py" not in ticket.run_git("log", "--name-only", "--format=", "main..")


@pytest.mark.long
@pytest.mark.req("TK-164", "TK-17", "TK-22", "RUN-08", "OWN-06", "PERSON-05")
def test_another_clone_goes_on_without_the_runs_own_folder(tmp_path: Path) -> None:
    """Stopped at its second task: documents alone are taken along; the iteration is planned anew. Who cloned it is
    asked first whether they trust the settings that came along, and nothing has happened until they do."""
    ticket = Ticket(tmp_path / "p", tasks=TASKS.replace("strategy: parallel,", "strategy: sequential,"))
    ticket.trust()
    ticket.act("task-executor", '[ "$task" = T2 ] && { echo no; exit 0; }')
    ticket.commit("who fails")
    said = ticket.types("run", "ticket", REQUEST)
    assert said.code == 3 and "PAUSED: task T2 failed 5 attempts" in said.err, said.err
    assert "a - b" in ticket.read("lib.py"), "nothing lands before it is accepted"
    there = Ticket.clone(ticket, tmp_path / "there", "-b", BRANCH)
    shutil.copytree(ticket.top / "prompts", there.top / "prompts")
    there.write(".gitignore", ticket.read(".gitignore"))
    there.act("task-executor", "")
    there.commit("who does it")
    refused = there.types("run", "ticket", REQUEST)
    assert refused.code == 2 and "interlock playbooks trust interlock.toml" in refused.err, refused.err
    assert not there.place().runs.all() and there.yaml("progress.yaml")["status"] == "PAUSED"
    there.trust()
    done = there.types("run", "ticket", REQUEST)
    assert done.code == 0, done.err
    assert "planned anew" in done.err
    there.is_done()
    ticket.act("task-executor", "")
    resumed = ticket.types("resume")
    assert resumed.code == 0, resumed.err
    assert "a + b" in ticket.read("lib.py")


def ends_as_undisturbed(place: Path, event: int) -> bool:
    """Killed at that event and resumed; False: there is no such event."""
    ticket = Ticket(place)
    ticket.write("notes-of-mine.md", "unsaved\n")
    died, runs = ticket.killed_at(event), ticket.place().runs.all()
    if died and runs and not runs[0].view().status.has_ended:
        asyncio.run(ticket.place().resume(runs[0], Watcher()))
    elif died and not runs:
        asyncio.run(ticket.begin())
    view = ticket.place().runs.all()[0].view()
    assert view.status is Status.COMPLETE, (event, view.why)
    ticket.is_done()
    assert ticket.read("notes-of-mine.md") == "unsaved\n"
    called = [call.agent for call in view.calls.values() if call.report]
    assert called == ["Planner", "Initializer", "task-executor", "task-executor", "Reviewer", "Initializer"]
    events = [json.loads(line)["event"] for line in ticket.read(f"{P}log.jsonl").splitlines()]
    assert len(events) == 12 == len({*events}), events
    return died


@pytest.mark.req("RUN-03", "RUN-05")
def test_a_ticket_killed_at_an_event_ends_as_undisturbed(tmp_path: Path) -> None:
    assert ends_as_undisturbed(tmp_path / "p", 95)


@pytest.mark.long
@pytest.mark.req("RUN-03", "RUN-05")
def test_a_ticket_killed_at_any_of_many_events_ends_as_undisturbed(tmp_path: Path) -> None:
    event = 3
    while ends_as_undisturbed(tmp_path / str(event), event):
        event += 9
    assert event > 150
