"""TODO.md: which entry is meant, and what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState, FileFacts
from interlock.engine.simulation import Act
from interlock.playbooks.router.documents import TaskEntry, find_task
from interlock.playbooks.router.problems import TASK_LIST, Problem

ENTRY = """### 259. Implement automation tactics
- **Status**: [NOT STARTED]
- **Language**: lean
- **Description**: Implement automation tactics for modal logic proofs
"""


def listed(text: str) -> Document:
    return Document(TASK_LIST, DocumentState.OK, text)


def found(text: str, number: int = 259) -> TaskEntry:
    entry = find_task(listed(text), number)
    assert isinstance(entry, TaskEntry), entry
    return entry


def refused(text: str, number: int = 259) -> str:
    problem = find_task(listed(text), number)
    assert isinstance(problem, Problem), problem
    return problem.text.split("\n")[0]


@pytest.mark.req("RT-15")
def test_the_task_list_is_read_at_its_place(bench: Any) -> None:
    """The lookup reads `.opencode/specs/TODO.md` and no other list."""
    bench.play("/plan 196")
    reads = [entry.data["in"]["path"] for entry in bench.lines if entry.event == "read"]
    assert reads[0] == ".opencode/specs/TODO.md"
    assert bench.events("stage.1.done")[0]["line"] == 5


@pytest.mark.req("RT-16")
def test_a_heading_counts_for_its_own_number_only() -> None:
    """`### 27.` is task 27, and neither 2 nor 7."""
    text = "### 27. Twenty-seven\n#### 2. Deeper\n## 7. Higher\n ### 7. Indented\ntext ### 7. inside\n###7. Tight\n"
    assert found(text, 27).title == "Twenty-seven"
    for number in (2, 7, 270):
        assert refused(text, number) == f"Error: Task {number} not found in TODO.md"


@pytest.mark.req("RT-17")
def test_an_unknown_number_is_refused(bench: Any) -> None:
    """A number without a heading ends the run with exit 2."""
    error = bench.refuse("/implement 99999")
    assert error.exit_code == 2
    assert error.what.startswith("Error: Task 99999 not found in TODO.md\n")


@pytest.mark.req("RT-18")
@pytest.mark.parametrize("heading", ["### 260. Next", "## Part", "# Book", "###", "### Notes without a number"])
def test_an_entry_ends_at_the_next_heading_of_level_one_to_three(heading: str) -> None:
    """Up to the next such heading everything belongs to the entry, also after more than fifty lines."""
    long = "".join(f"line {n}\n" for n in range(80))
    text = f"### 259. T\n**Description**: first\n{long}#### Detail\n**Status**: open\n{heading}\n**Language**: lean\n"
    entry = found(text)
    assert entry.description.endswith("line 79")
    assert entry.status == "open"
    assert entry.language == "general"


@pytest.mark.req("RT-19", "RT-22", "RT-23")
def test_language_description_and_status_are_read(bench: Any) -> None:
    """The three fields of the entry arrive: in the context and in the record of stage 1."""
    assert found(ENTRY) == TaskEntry(
        259,
        "Implement automation tactics",
        1,
        "lean",
        "Implement automation tactics for modal logic proofs",
        "[NOT STARTED]",
        True,
    )
    bench.play("/implement 259")
    assert bench.context()["language"] == "lean"
    assert bench.context()["task_description"] == "Implement automation tactics for modal logic proofs"
    assert bench.events("stage.1.done")[0]["status"] == "[NOT STARTED]"


@pytest.mark.req("RT-19")
@pytest.mark.parametrize(
    "field", ["- **Language**: lean", "**Language**:lean", "- **LANGUAGE**:  Lean  ", "**language**: LEAN\t"]
)
def test_fields_are_found_in_every_allowed_spelling(field: str) -> None:
    """With or without a bullet, in any case, the value trimmed and in lower case."""
    assert found(f"### 259. T\n{field}\n").language == "lean"


@pytest.mark.req("EV-40")
@pytest.mark.parametrize(
    "field",
    [
        *("* **Language**: lean", "+ **Language**: lean", "  - **Language**: lean", "\t* **Language:** lean"),
        *("**Language:** lean", "__Language__: lean", "1. **Language**: lean", "- [ ] **Language**: lean"),
        *("- **Language**: `lean`", "- **Language** : Lean 4", "**Language:** `Lean 4`", "**Language**: **Lean4**"),
        *("Language: lean", "- Language: Lean 4.9"),
    ],
)
def test_a_language_is_found_as_people_write_it(field: str) -> None:
    """Any bullet and indentation, emphasis around the colon or none, back-quotes, a version."""
    entry = found(f"### 259. T\n\n{field}\n- **Status**: open\n")
    assert (entry.language, entry.names_language, entry.status) == ("lean", True, "open")


@pytest.mark.req("EV-40")
@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("- **Language**: lean\n\nDo this.\n\nAnd that.\n", "Do this.\n\nAnd that."),
        ("Do this.\n\n- **Language**: lean\n\nAnd that.\n", "Do this.\n\nAnd that."),
        ("**Language**: lean\n**Description:**\n\nDo this.\n\nAnd that.\n", "Do this.\n\nAnd that."),
        ("**Language**: lean\n#### Description\n\nDo this.\n\nAnd that.\n\n#### Notes\nno\n", "Do this.\n\nAnd that."),
        (
            "- **Description**: Do this:\n  - **Fast**: yes\n  - Status: 404 is fine\n- **Language**: lean\n",
            "Do this:\n  - **Fast**: yes\n  - Status: 404 is fine",
        ),
    ],
)
def test_a_description_is_found_as_people_write_it(text: str, description: str) -> None:
    """As a field over paragraphs, below a heading of its own, or simply as the text of the entry."""
    entry = found(f"### 259. T\n\n{text}\n### 260. Next\n\nNot this.\n")
    assert (entry.description, entry.language) == (description, "lean")


@pytest.mark.req("EV-40")
def test_an_unknown_or_missing_language_is_said(bench: Any) -> None:
    """Where it decides who is called: never silently another agent."""
    bench.play("/implement 196")
    python = ".opencode/command/implement.md has no agent for language python of task 196; implementer gets it"
    assert [event["text"] for event in bench.events("warning")] == [python]
    bench.play("/implement 197")
    missing = "Task 197 names no language in .opencode/specs/TODO.md; as general it goes to implementer"
    assert [event["text"] for event in bench.events("warning")] == [missing]
    for line in ("/implement 259", "/plan 197"):
        bench.play(line)
        assert bench.events("warning") == []


@pytest.mark.req("RT-20")
@pytest.mark.parametrize("rest", ["", "- **Language**:\n", "- **Language**:   \n", "- **Status**: x\n"])
def test_a_task_without_language_is_general(rest: str) -> None:
    """No Language field, or an empty one, is `general`."""
    assert found("### 259. T\n" + rest).language == "general"


@pytest.mark.req("RT-21")
def test_nothing_but_the_field_decides_the_language(bench: Any) -> None:
    """A title, a description and file names that speak of Lean do not make a task one."""
    text = (
        "### 259. Lean proof\n- **Description**: in Modal.lean\n  Language: lean\n"
        "- **Files**: a.lean, **Language**: lean\n"
    )
    assert found(text).language == "general"
    bench.files[TASK_LIST] = text
    bench.play("/implement 259")
    assert bench.requests[0].agent == "implementer"


@pytest.mark.req("RT-22")
def test_a_description_may_have_several_lines() -> None:
    """It runs over paragraphs and code to the next field or heading; a closing rule is not part of it."""
    text = (
        "### 259. T\n**Description**: first\n  second\n\nthird\n"
        "```\n**Language**: lean\n### 1. no heading\n```\nfourth\n\n"
        "- **Status**: open\nnot the description\n\n---\n"
    )
    entry = found(text)
    assert entry.description == "first\n  second\n\nthird\n```\n**Language**: lean\n### 1. no heading\n```\nfourth"
    assert entry.language == "general"
    assert entry.status == "open"
    assert found("### 259. T\n**Description**: a\n\n- - -\n\n### 260. U\n").description == "a"


@pytest.mark.req("RT-24")
def test_a_field_of_the_next_task_is_never_taken() -> None:
    """An entry without fields stays without, whatever the next one has."""
    entry = found("### 258. T\n\n" + ENTRY, 258)
    assert (entry.language, entry.description, entry.status) == ("general", "", "")


@pytest.mark.req("RT-25")
def test_the_task_list_is_only_read(bench: Any) -> None:
    """The router leaves the list as it was; a change by the agent stays and is noted."""
    before = bench.files[TASK_LIST]
    bench.play("/implement 259")
    assert bench.simulation.world.tree.files[TASK_LIST] == before.encode()
    assert bench.events("todo.changed") == []
    assert not [entry for entry in bench.lines if entry.event.startswith("write")]
    close = bench.play("/implement 259", Act(files={TASK_LIST: "### 259. Done\n"}, message="Status: completed"))
    assert close.exit_code == 0
    assert bench.events("todo.changed")[0]["by"] == "lean-implementation-agent"
    assert bench.simulation.world.tree.files[TASK_LIST] == b"### 259. Done\n"


@pytest.mark.parametrize("fence", ["```", "~~~~", "  ```lean"])
def test_headings_in_fenced_code_do_not_count(fence: str) -> None:
    """A heading in a code block is neither a task nor the end of one."""
    mark = fence.split("lean", maxsplit=1)[0]
    text = f"{fence}\n{ENTRY}{mark}\n### 260. Real\n{fence}\n### 1. no\n{mark}\n**Status**: mine\n"
    assert refused(text) == "Error: Task 259 not found in TODO.md"
    assert found(text, 260).status == "mine"


def test_the_first_field_of_a_name_counts() -> None:
    """A field that is given twice keeps its first value."""
    assert found("### 259. T\n**Language**: lean\n**Language**: python\n").language == "lean"


@pytest.mark.req("RT-17")
def test_two_headings_with_the_number_are_refused() -> None:
    """A guess would run the wrong task: both lines are named."""
    text = ENTRY + "\n" * 6 + ENTRY
    assert refused(text) == "Error: Task 259 appears twice in TODO.md (lines 1 and 11)"
    assert refused(text + ENTRY) == "Error: Task 259 appears 3 times in TODO.md (lines 1, 11 and 15)"


MARKDOWN = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "### 1. A",
                "### 12. B",
                "### 1.",
                "## X",
                "```",
                "~~~",
                "    ```",
                "- **Language**: lean",
                "**Description**:",
            ]
        ),
        st.text(max_size=20),
    ),
    max_size=25,
).map("\n".join)


@given(MARKDOWN, st.integers(1, 13))
def test_every_text_gives_an_entry_or_a_problem(text: str, number: int) -> None:
    """No text makes the reader fail, and what it finds can be handed over as JSON."""
    entry = find_task(listed(text), number)
    if isinstance(entry, TaskEntry):
        assert text.split("\n")[entry.line - 1].startswith(f"### {number}.")
        assert entry.language
        assert "\n" not in entry.title
        assert json.dumps(entry.description)


@given(st.binary(max_size=200))
def test_every_file_gives_an_entry_or_a_problem(content: bytes) -> None:
    """Bytes that are no text are a problem that names the file."""
    facts = FileFacts(TASK_LIST, exists=True, plain=True, readable=True, content=content)
    assert isinstance(find_task(Document.of(facts), 1), TaskEntry | Problem)
