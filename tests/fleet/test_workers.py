"""Runs given to workers: placed by PostgreSQL, carried by git, steered from any clone."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from interlock.fleet.queue import Queue
from interlock.fleet.remote import Remote, RemoteAway
from tests.cli.conftest import CommandLine
from tests.fleet.conftest import Office, Server, Workers, until
from tests.whole.bench import ACCEPTS


def submitted(who: CommandLine, request: str = "Make add right", *words: str) -> str:
    """A run that is queued."""
    answer = who("fleet", "submit", "task", request, *words, "--json")
    assert answer.code == 0, answer.err
    return str(answer.json["run_id"])


def stands(who: CommandLine, run: str) -> str:
    answer = who("show", run, "--json")
    return str(answer.json["status"]) if answer.code == 0 else answer.err


@pytest.mark.req("FLEET-01", "FLEET-02")
def test_a_worker_takes_the_exact_tree_and_its_work_is_a_branch(
    office: Office, ada: CommandLine, workers: Workers
) -> None:
    ada.write("notes.txt", "one\ntwo\nthree\nhers, unsaved\n")
    ada.run_git("commit", "-q", "--allow-empty", "-m", "never pushed")
    before = ada.run_git("status", "--porcelain")
    run = submitted(ada)
    heads = ada.run_git("ls-remote", "--heads", "origin")
    assert "no worker is there" in ada("fleet").out
    workers.start("north")
    until(lambda: stands(ada, run) == "complete", workers.told)
    assert ada.run_git("status", "--porcelain") == before and "a - b" in ada.read("lib.py")
    assert ada("fleet", "fetch", run).code == 0
    assert "a + b" in ada.run_git("show", f"interlock/{run}:lib.py")
    assert "hers, unsaved" in ada.run_git("show", f"interlock/{run}:notes.txt")
    assert "never pushed" in ada.run_git("log", "--format=%s", f"interlock/{run}")
    assert ada.run_git("ls-remote", "--heads", "origin") == heads


def holds(who: CommandLine, office: Office, agent: str = "builder") -> tuple[Path, Path]:
    """This agent says that it is at work, and waits for a word; these two files."""
    there, go = office.folder / f"{agent}.there", office.folder / f"{agent}.go"
    act = f"echo $$ >> {there}; while [ ! -e {go} ]; do sleep 0.1; done\n"
    who.act(agent, act + ("sed -i 's/a - b/a + b/' lib.py\n" if agent == "builder" else ACCEPTS))
    return there, go


@pytest.mark.long
@pytest.mark.req("FLEET-02", "PERSON-01")
def test_a_gate_is_decided_from_any_clone(office: Office, ada: CommandLine, workers: Workers) -> None:
    """The decision is about what the run shows where it is; in the clone where it was said nothing is recorded."""
    ada.weakens()
    run = submitted(ada)
    workers.start("north")
    bob = office.clone("bob")
    until(lambda: stands(bob, run) == "waiting", workers.told)
    until(lambda: "doing" not in bob("fleet").out and "nobody" in bob("fleet").out, workers.told)
    assert "a rejection needs words" in bob("reject", run).err
    assert bob("approve", run).code == 0
    assert not list((bob.top / ".interlock/far" / run / "inbox").iterdir())
    until(lambda: stands(bob, run) == "complete", workers.told)
    assert bob("watch", run).code == 0
    assert not [ref for ref in office.refs() if "words" in ref]
    late = bob("approve", run)
    assert late.code == 2 and "waits for no decision" in late.err


@pytest.mark.long
@pytest.mark.req("FLEET-02", "RUN-07")
def test_a_run_is_cancelled_while_its_agent_works(office: Office, ada: CommandLine, workers: Workers) -> None:
    there, _ = holds(ada, office)
    run = submitted(ada)
    workers.start("north")
    until(there.exists, workers.told)
    assert ada("cancel", run).code == 0
    until(lambda: stands(ada, run) == "cancelled", workers.told)
    until(lambda: not psutil.pid_exists(int(there.read_text())), workers.told)


@pytest.mark.long
@pytest.mark.req("FLEET-03", "RUN-12")
def test_a_worker_that_is_to_leave_hands_its_run_over(office: Office, ada: CommandLine, workers: Workers) -> None:
    """Its agents are ended in order; another one goes on from the last recorded dispatch."""
    there, go = holds(ada, office, "reviewer")
    run = submitted(ada)
    north = workers.start("north")
    until(there.exists, workers.told)
    north.terminate()
    assert north.wait(60) == 0, workers.told()
    until(lambda: not psutil.pid_exists(int(there.read_text())), workers.told)
    go.touch()
    workers.start("south")
    until(lambda: stands(ada, run) == "complete", workers.told)
    calls = ada("show", run, "--json").json["dispatches"]
    assert [(one["agent"], one["calls"]) for one in calls] == [("builder", 1), ("reviewer", 2)]


@pytest.mark.long
@pytest.mark.req("FLEET-04")
def test_a_worker_takes_only_what_it_has_all_for(office: Office, ada: CommandLine, workers: Workers) -> None:
    """`fleet` says what is missing; whoever has it takes the run."""
    settings = ada.read("interlock.toml")
    ada.write("interlock.toml", settings + '[fleet]\nlabels = ["gpu"]\nprograms = ["no-such-program"]\n')
    ada.trust()
    first = submitted(ada)
    ada.write("interlock.toml", settings + '[fleet]\nlabels = ["gpu"]\n')
    ada.trust()
    second = submitted(ada, "Make add right, please")
    workers.start("north")
    until(lambda: "lacks label gpu" in ada("fleet").out, workers.told)
    workers.start("south", "--label", "gpu")
    until(lambda: stands(ada, second) == "complete", workers.told)
    until(lambda: "lacks program no-such-program" in ada("fleet").out, workers.told)
    assert stands(ada, first) == "interrupted"


@pytest.mark.long
@pytest.mark.req("FLEET-04", "OWN-01", "OWN-06")
def test_what_nobody_trusts_is_not_run(
    office: Office, ada: CommandLine, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A playbook waits for a worker whose operator trusts it; settings that reach out are refused, and said to be."""
    ada("playbooks", "new", "mine", "--yaml")
    run = ada("fleet", "submit", "mine", "Make add right", "--json").json["run_id"]
    ada.write("interlock.toml", ada.read("interlock.toml").replace('"agent.sh"', '"./agent.sh"'))
    other = submitted(ada)
    mine = os.environ["XDG_DATA_HOME"]
    monkeypatch.setenv("XDG_DATA_HOME", str(office.folder / "theirs"))
    office.clone("north").trust()
    workers.start("north")
    monkeypatch.setenv("XDG_DATA_HOME", mine)
    until(lambda: "lacks trust in" in ada("fleet").out, workers.told)
    until(lambda: "given up: settings that came with the repository" in ada("fleet").out, workers.told)
    assert (stands(ada, run), stands(ada, other)) == ("interrupted", "interrupted")


@pytest.mark.long
@pytest.mark.req("FLEET-03", "RUN-13")
def test_what_failed_waits_for_a_person(office: Office, ada: CommandLine, workers: Workers) -> None:
    """An agent that failed as often as it is repeated: told with the reason, and gone on with from any clone."""
    ada.act("reviewer", f"if [ ! -e {office.folder}/mended ]; then echo 'error: no such model'; exit 1; fi\n{ACCEPTS}")
    ada.write("interlock.toml", ada.read("interlock.toml"))
    run = submitted(ada)
    workers.start("north")
    until(lambda: "given up" in ada("fleet").out, workers.told)
    assert stands(ada, run) == "failed"
    (office.folder / "mended").touch()
    assert ada("resume", run, "--note", "It is mended now.").code == 0
    until(lambda: stands(ada, run) == "complete", workers.told)
    assert ada("show", run, "--log").out.count("It is mended now.") == 1


@pytest.mark.req("FLEET-01")
def test_a_submit_that_was_cut_off_is_put_right_by_asking_again(
    office: Office, ada: CommandLine, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between begun, sent and queued: the same run, once."""
    put, swap = Queue.put, Remote.swap

    def dies(*_: object) -> None:
        raise RemoteAway("the wire was cut")

    monkeypatch.setattr(Remote, "swap", dies)
    assert ada("fleet", "submit", "task", "Make add right").code == 5
    monkeypatch.setattr(Remote, "swap", swap)
    monkeypatch.setattr(Queue, "put", dies)
    assert ada("fleet", "submit", "task", "Make add right").code == 5
    monkeypatch.setattr(Queue, "put", put)
    assert "nobody is asked to work on it" in ada("fleet").out
    assert ada("fleet", "submit", "task", "Make add right").code == 0
    assert ada("fleet", "submit", "task", "Make add right").code == 0
    listed = ada("fleet", "--json").json
    assert len(listed["runs"]) == 1 and listed["runs"][0]["job"] == "waits: no worker is there: interlock fleet work"


@pytest.mark.req("FLEET-06", "RUN-18")
def test_a_database_is_told_of_without_its_password(
    ada: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    variable = "INTERLOCK_FLEET_DATABASE"
    for address, code, why in (
        ("", 2, "no database is set"),
        ("postgresql://u:hunter2@127.0.0.1:1/x", 5, "cannot be reached"),
        ("postgresql://u:hunter2@4@127.0.0.1/x", 2, "cannot be read"),
        ("no address", 2, "cannot be read"),
        (server.fresh(prepared=False), 2, "interlock fleet setup --database"),
    ):
        monkeypatch.setenv(variable, address)
        refused = ada("fleet", "submit", "task", "Make add right")
        assert refused.code == code and why in refused.err and "hunter2" not in refused.err, refused.err
    assert ada("fleet", "setup").code == 0
    assert "not prepared" in ada("fleet").err  # it was only shown
    made = ada("fleet", "setup", "--database")
    assert made.code == 0 and "made the tables" in made.err
    again = ada("fleet", "setup", "--database")
    assert again.code == 0 and "made" not in again.err
    assert ada("fleet").code == 0 and not (ada.top / ".interlock/runs").exists()
