"""The shared memory in a run: life cycle, trouble that never stops it."""

from __future__ import annotations

import re

import pytest

from interlock.documents import Sections
from interlock.playbooks.feature import shared_memory
from interlock.testing import writes

from .conftest import AT, Bench, remembers


def snapshots(bench: Bench, *members: str) -> dict[str, str]:
    """The shared memory as each of these agents finds it."""
    seen: dict[str, str] = {}

    def look(request: object, act: object) -> object:
        seen[request.member] = bench.memory  # type: ignore[attr-defined]
        return remembers("Low" if request.member.startswith("ct") else "N/A", finding=f"by {request.member}")(  # type: ignore[attr-defined]
            request,
            act,  # type: ignore[arg-type]
        )

    for name in members:
        bench.ever(name, look)  # type: ignore[arg-type]
    bench.play()
    return seen


@pytest.mark.req("FT-112", "FT-113", "FT-114", "FT-130", "FT-22")
def test_entries_are_merged_step_by_step_and_pruned_after_1_2_and_4(bench: Bench) -> None:
    """Before the next step starts; after design nothing is removed; the index stays."""
    seen = snapshots(bench, "researcher-impact", "spec", "designer", "ct-security", "planner", "implementer-T01")
    assert "by researcher-impact" in seen["spec"] and "by researcher-impact" in seen["designer"]
    assert "by spec" in seen["designer"]
    assert "by designer" in seen["ct-security"]
    assert "by researcher-impact" in seen["ct-security"], "not pruned after design"
    assert "by ct-security" in seen["planner"]
    last = seen["implementer-T01"]
    assert "by researcher-impact" not in last and "by spec" not in last
    assert "by designer" in last and "by planner" in last
    assert "| research/impact.md | all | researcher-impact |" in last
    assert [one["pruned"] for one in bench.events("memory.merged")][:5] == [1, 2, None, None, 4]


@pytest.mark.req("FT-121", "FT-10", "CM-34")
@pytest.mark.parametrize(
    ("damaged", "trouble"),
    [
        (shared_memory.TEMPLATE.replace("## Recent Decisions\n", ""), 'section "## Recent Decisions" missing'),
        (shared_memory.TEMPLATE + "\n<<<<<<< mine\na\n=======\nb\n>>>>>>> theirs\n", "it has conflict markers"),
        (
            re.sub(r"^(\|.*)\|$", r"\1| more |", shared_memory.TEMPLATE, flags=re.MULTILINE),
            'the table of section "## Artifact Index" does not have 3 columns',
        ),
        (b"\xff\xfe not text", "not valid UTF-8"),
    ],
)
def test_a_damaged_memory_is_set_aside_and_rebuilt(bench: Bench, damaged: str | bytes, trouble: str) -> None:
    """From the private memories; the old copy is kept, and the run goes on."""

    raw = damaged.encode() if isinstance(damaged, str) else damaged

    bench.on("spec", remembers("N/A", finding="spec knows"))
    # A person damages it while nobody works: right after the engine has written it.
    simulation = bench.simulate()
    wrote = simulation.world.documents.write
    done: list[bool] = []

    def write(path: str, content: str | bytes, **how: object) -> object:
        result = wrote(path, content, **how)  # type: ignore[arg-type]
        if not done and b"spec knows" in (content if isinstance(content, bytes) else content.encode()):
            done.append(True)
            simulation.world.tree.put(AT.memory, raw)
        return result

    simulation.world.documents.write = write  # type: ignore[method-assign,assignment]
    assert simulation.go().exit_code == 0
    (text,) = [one["text"] for one in bench.events("memory.warning")]
    assert text.startswith("memory.md unreadable: ") and trouble in text and "rebuilt, old copy kept at " in text
    kept = text.rpartition(" at ")[2]
    content = simulation.world.tree.files[kept]
    assert content == raw
    assert shared_memory.problem(bench.memory) is None
    assert "- [designer, step-3] Nothing to add." in bench.memory


@pytest.mark.req("FT-10", "FT-111")
def test_a_run_without_shared_memory_goes_on(bench: Bench) -> None:
    """A warning, no memory in the briefs, the documents instead."""

    from interlock.documents import FileFacts

    simulation = bench.simulate()
    facts = simulation.world.tree.facts

    def unreadable(path: str) -> FileFacts:
        return FileFacts(path, exists=True, problem="it is a folder") if path == AT.memory else facts(path)

    simulation.world.tree.facts = unreadable  # type: ignore[method-assign]
    assert simulation.go().exit_code == 0
    assert any("going on without shared memory" in one["text"] for one in bench.events("memory.warning"))
    assert AT.memory not in bench.inputs_of("spec")
    assert AT.output("researcher-impact") in bench.inputs_of("spec")
    assert "There is no shared memory" in bench.brief("spec")


@pytest.mark.req("FT-10", "CM-05")
@pytest.mark.parametrize(
    "added",
    ["- [spec, step-2] seen\n  ## My remark\n", "A heading of mine\n=======\n", "```\n- [x, step-1] not an entry\n"],
)
def test_text_of_a_person_that_leaves_no_place_for_an_update_stops_nothing(bench: Bench, added: str) -> None:
    """What cannot be taken in is left out with a warning; what the person wrote is still there."""
    heading = "## Recent Updates\n"
    bench.files[AT.memory] = shared_memory.TEMPLATE.replace(heading, f"{heading}\n{added}")
    assert bench.play().exit_code == 0
    words = added.split("\n")[1 if added.startswith("-") else 0].strip()
    assert words in bench.memory


@pytest.mark.req("CM-05", "CM-23")
def test_what_a_person_adds_survives(bench: Bench) -> None:
    """A note in the memory of an earlier run is still there at the end."""
    bench.files[AT.memory] = shared_memory.TEMPLATE.replace(
        "## Lessons Learned\n", "## Lessons Learned\n\nAda says: never on Fridays.\n"
    )
    bench.play()
    assert "Ada says: never on Fridays." in Sections(bench.memory).body("## Lessons Learned")


@pytest.mark.req("FT-37")
def test_a_long_private_memory_is_warned_of(bench: Bench) -> None:
    """Only its sections are read."""
    bench.on("spec", remembers("N/A", more="\n## Essay\n" + "line\n" * 300))
    assert bench.play().exit_code == 0
    assert any("memory/spec.mem.md has" in text for text in bench.warnings)
    assert "line\nline" not in bench.memory


@pytest.mark.req("FT-120", "FT-149")
def test_the_post_mortems_memory_is_merged_unless_it_failed(bench: Bench) -> None:
    """Its result is logged either way."""
    bench.ever("post-mortem", remembers("N/A", finding="slow tests"))
    bench.play()
    assert "- [post-mortem, step-8] slow tests" in bench.memory
    assert "- [orchestrator, step-8] PostMortem dispatch: DONE. as asked." in bench.memory


def test_index_rows_of_agents_are_taken_over(bench: Bench) -> None:
    """With the sections they name."""
    row = "| feature.md | Goals, Limits | spec |"
    head = "| Artifact | Key Sections | Last Updated By |\n| --- | --- | --- |"
    text = f"# Memory: spec\n## Artifact Index\n{head}\n{row}\n"
    bench.on("spec", writes({AT.mem("spec"): text}))
    bench.play()
    assert row in bench.memory
