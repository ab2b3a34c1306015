"""Members are rows: another one is one row and one role file, and a row that cannot work is refused."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from interlock.agents.roles import RoleLibrary
from interlock.engine import Options, Status
from interlock.errors import ConfigInvalid
from interlock.playbooks.feature.members import (
    ALONE,
    MEMBERS,
    NEVER,
    NO_WORDS,
    WITH_OTHERS,
    Member,
    Members,
    R,
    reviewer,
)
from interlock.playbooks.feature.playbook import feature_of
from interlock.playbooks.feature.rehearsing import rehearsal
from interlock.testing import both, leaves_out, writes

from .conftest import AT, Bench, plans, remembers
from .test_end import decide

ROW = reviewer(
    name="r-privacy",
    about="privacy. Which personal data is kept, for how long, and who sees it.",
    blocks=WITH_OTHERS,
    optional=True,
)
ROLE = "---\nname: r-privacy\ndescription: Looks after personal data.\n---\n\n# Privacy reviewer\n\nLook closely.\n"
FIVE = Members((*MEMBERS.rows, ROW))
FOUND = "# Review\n\n### Major: names are kept for ever\n\nFiles: src/a.py\nTasks: T01\n"
MAJOR = both(remembers("Major", status="NEEDS_REVISION"), writes({AT.output("r-privacy"): FOUND}))
BLOCKER = remembers("Blocker", finding="names are sold")


def bench(members: Members = FIVE, **known: Any) -> Bench:
    return Bench(playbook=feature_of(members), **known)


# -- a fifth reviewer


@pytest.mark.req("OW-10", "OW-11")
def test_a_fifth_reviewer_is_one_row() -> None:
    """It is called with the others, told what to look at, owes its review, and what it remembers is merged."""
    run = bench().on("r-privacy", remembers("Minor", finding="names are hashed"))
    assert run.play().exit_code == 0
    assert run.called.count("r-privacy") == 1 and run.simulation.world.most_at_once == 4
    brief = run.brief("r-privacy")
    assert "Which personal data is kept" in brief and "Review tier: Lightweight" in brief
    assert "`## Highest Severity` is one of Blocker, Major, Minor, None" in brief
    assert "### Changed files" in brief and run.inputs_of("r-privacy")[-1].endswith("changes.patch")
    assert AT.at("review/r-privacy.md") in run.paths and AT.mem("r-privacy") in run.paths
    assert "- [r-privacy, step-7] names are hashed" in run.memory
    assert "| review/r-privacy.md | all | r-privacy |" in run.memory
    assert "R-Privacy=DONE/Minor, R-Knowledge=DONE (non-blocking), result: DONE." in run.memory
    assert "| r-privacy | 7.2 | A | DONE |" in run.brief("post-mortem")


@pytest.mark.req("OW-11")
def test_its_major_finding_is_fixed_by_the_task_it_concerns() -> None:
    """As with those who were there before."""
    run = bench().on("planner", plans("T01 T02", T01={"files": "[src/a.py]"}, T02={"files": "[src/b.py]"}))
    assert run.on("r-privacy", MAJOR).play().exit_code == 0
    assert run.events("review.fix") == [{"tasks": ["T01"], "reviewers": ["r-privacy"]}]
    assert "### Major: names are kept for ever" in run.brief("implementer-T01", 1)
    assert (run.called.count("implementer-T01"), run.called.count("implementer-T02")) == (2, 1)


@pytest.mark.req("OW-11")
def test_its_blocker_blocks() -> None:
    """Nothing is DONE over it: a fix pass, a replan whose planner gets its review, then ERROR."""
    run = bench().on("planner", None, plans("T02", first=2)).ever("r-privacy", BLOCKER)
    close = run.play()
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: review: NEEDS_REVISION (r-privacy DONE/Blocker)")
    assert len(run.events("review.fix")) == 1 and run.called.count("planner") == 2
    assert {AT.mem("r-privacy"), AT.output("r-privacy")} <= set(run.inputs_of("planner", 1))


@pytest.mark.req("OW-11")
@pytest.mark.parametrize("security", [None, BLOCKER])
def test_one_that_blocks_alone_is_confirmed_and_never_passed(security: Any) -> None:
    """What `blocks` says is what happens; two of them at once are both asked again."""
    run = bench(Members((*MEMBERS.rows, replace(ROW, blocks=ALONE, optional=False))))
    run.on("planner", None, plans("T02", first=2)).ever("r-privacy", BLOCKER).on("r-security", security)
    close = run.play()
    assert close.exit_code == 5
    assert str(close.output).startswith("ERROR: review: blocker (r-privacy DONE/Blocker)")
    assert run.called.count("r-privacy") == 3 and run.events("review.fix") == []
    assert run.called.count("r-security") == (2 if security is None else 3)
    gone = bench(Members((*MEMBERS.rows, replace(ROW, blocks=ALONE, optional=False))))
    close = gone.ever("r-privacy", leaves_out(AT.mem("r-privacy"))).play()
    assert "a verdict that is needed is not usable (r-privacy" in close.reason


@pytest.mark.req("OW-11")
def test_one_that_never_blocks_changes_nothing() -> None:
    """Its words are kept, and that is all."""
    run = bench(Members((*MEMBERS.rows, replace(ROW, blocks=NEVER)))).ever("r-privacy", BLOCKER)
    assert run.play().exit_code == 0
    assert "R-Privacy=DONE (non-blocking)" in run.memory and "[r-privacy, step-7] names are sold" in run.memory


@pytest.mark.req("OW-11")
def test_it_is_rehearsed_as_the_others_are() -> None:
    """Every invariant holds whatever it does, and each of its verdicts is played."""
    setup = rehearsal(FIVE)
    clean = setup.make(setup.base, Options())
    assert clean.go().status is Status.COMPLETE
    (call,) = [number for number, one in enumerate(clean.world.calls) if one.member == "r-privacy"]
    endings: Counter[str] = Counter()
    for played in setup.paths(Options(), most=1, sample_of=lambda schedule: set(schedule) == {call}):
        assert setup.broken(played) == []
        endings[next(iter(played.schedule.values()), "")] += 1
    assert {"says ERROR", "asks for revision", "gives the worst verdict", "lies", "crash"} <= set(endings)


@pytest.mark.req("OW-11")
def test_its_role_is_one_file(tmp_path: Path) -> None:
    """Before it is there its agent is the only one that is missing."""
    library = RoleLibrary(tmp_path, [files("interlock.playbooks")])
    agents = feature_of(FIVE).agents
    assert [name for name in agents if library.find("feature", name) is None] == ["r-privacy"]
    path = tmp_path / ".interlock/agents/feature/r-privacy.md"
    path.parent.mkdir(parents=True)
    path.write_text(ROLE)
    assert [name for name in agents if library.find("feature", name) is None] == []


@pytest.mark.req("OW-11")
def test_workspaces_of_before_still_run() -> None:
    """A complete one begins anew with five, one that waits goes on with them, and five go back to four."""
    before = Bench()
    assert before.play().exit_code == 0
    again = bench(files=dict(before.simulation.world.tree.files))
    assert again.play(request="Add a logout page").exit_code == 0
    assert again.called.count("r-privacy") == 1
    back = Bench(files=dict(again.simulation.world.tree.files))
    assert back.play(request="Add more").exit_code == 0
    waiting = Bench()
    assert waiting.play(approval=True).exit_code == 4
    waiting.simulation.playbook = feature_of(FIVE)
    for _ in range(2):
        decide(waiting, "approve")
        close = waiting.simulation.go()
    assert close.exit_code == 0 and waiting.called.count("r-privacy") == 1


# -- rows that cannot work


@pytest.mark.req("OW-10")
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "privacy"}, "its name does not begin with r-"),
        ({"about": " "}, "would not say what to look at"),
        ({"words": NO_WORDS}, "has no words for a verdict"),
        ({"blocks": NEVER, "optional": False}, "never blocks and is not optional"),
        ({"blocks": ALONE}, "only a reviewer blocks alone, and is not optional"),
        ({"gate": True, "optional": False}, "only a verifier is a gate"),
    ],
)
def test_an_incomplete_row_is_refused(wrong: dict[str, Any], said: str) -> None:
    """When it is made, which is when the playbook is imported."""
    with pytest.raises(ConfigInvalid, match=said):
        replace(ROW, **wrong)
    with pytest.raises(TypeError, match="blocks"):
        reviewer(name="r-privacy", about="privacy.")


@pytest.mark.req("OW-10")
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((*MEMBERS.rows, ROW, ROW), "r-privacy is there twice"),
        ((*MEMBERS.rows, replace(ROW, reads=("minutes.md",))), "nobody writes minutes.md, which r-privacy reads"),
        (MEMBERS.of(*{row.cluster for row in MEMBERS.rows} - {R}), "cluster r needs 2 members"),
        (tuple(row for row in MEMBERS.rows if not row.gate), "the first verifier is the gate"),
    ],
)
def test_rows_that_do_not_go_together_are_refused(rows: tuple[Member, ...], said: str) -> None:
    with pytest.raises(ConfigInvalid, match=said):
        Members(rows)


@pytest.mark.req("OW-10")
def test_the_table_says_who_blocks() -> None:
    """One reviewer alone, one never, all others with the rest."""
    blocks = {row.name: row.blocks for row in MEMBERS.of(R) if row.blocks is not WITH_OTHERS}
    assert blocks == {"r-security": ALONE, "r-knowledge": NEVER}


@pytest.mark.req("OW-10")
def test_the_page_has_the_table() -> None:
    """As the rows have it."""
    page = (Path(__file__).parents[3] / "docs/playbooks/feature.md").read_text("utf-8")
    for row in MEMBERS.rows:
        name = f"`{row.name}`" + (" (gate)" if row.gate else "")
        cells = (name, ", ".join(row.reads) or "—", ", ".join((row.document, *row.grows)), ", ".join(row.words.all))
        said = f"| {' | '.join(cells)} | {row.blocks} | {'yes' if row.optional else 'no'} |"
        assert said in page.splitlines()
