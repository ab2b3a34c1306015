"""What a request says, by rules alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.playbooks.ticket.request import (
    Clarity,
    TicketAgent,
    TicketError,
    WorkKind,
    clarity,
    find_ticket,
    needs_runtime,
    reading,
    slug,
    stated_criteria,
    tool_mandates,
    work_type,
)


@pytest.mark.req("TK-10")
@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ("ABC-12 fix it", "ABC-12"),
        ("fix it (ABC-12)", "ABC-12"),
        ("ABC-12: write UTF-8 with SHA-256 as in ISO-8601", "ABC-12"),
        ("ABC-12 and ABC-12 again", "ABC-12"),
    ],
)
def test_the_ticket_is_found(request_: str, found: str) -> None:
    """The one id counts; names of standards do not, nor the same id twice."""
    assert find_ticket(request_) == found


@pytest.mark.req("TK-11")
@pytest.mark.parametrize("request_", ["", "  ", "fix the login", "abc-12 fix it", "write UTF-8", "xABC-12y"])
def test_a_request_without_a_ticket_is_refused(request_: str) -> None:
    """No id, a lower-case one, or only a standard's name: the exact text, exit 2."""
    with pytest.raises(TicketError) as caught:
        find_ticket(request_)
    assert caught.value.what == "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING."
    assert caught.value.exit_code == 2


def test_two_tickets_are_refused_unless_one_is_named() -> None:
    """Several ids need --jira, which then decides."""
    with pytest.raises(TicketError) as caught:
        find_ticket("ABC-1 fix XYZ-2")
    assert caught.value.what == "ERROR: Several JIRA IDs found: ABC-1, XYZ-2. Use --jira."
    assert find_ticket("ABC-1 fix XYZ-2", "XYZ-2") == "XYZ-2"
    with pytest.raises(TicketError, match="is no JIRA ID"):
        find_ticket("ABC-1", "xyz")


@pytest.mark.req("TK-48")
@pytest.mark.parametrize(
    ("words", "work"),
    [
        ("fix bug defect fixes fixed fixing", WorkKind.FIX),
        ("feature add implement create adding created", WorkKind.FEATURE),
        ("refactor cleanup chore update improve updating", WorkKind.CHORE),
    ],
)
def test_keywords_say_the_kind_of_work(words: str, work: WorkKind) -> None:
    """Each keyword and its inflected forms."""
    assert {work_type(f"please {word} the thing") for word in words.split()} == {work}


def test_the_first_keyword_wins_and_only_whole_words_count() -> None:
    """`address` is no `add`, and what comes first in the text decides."""
    assert work_type("the address prefix suffix") is None
    assert work_type("Add a fix") is WorkKind.FEATURE
    assert work_type("FIX the create page") is WorkKind.FIX


@pytest.mark.req("TK-47", "TK-49")
@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("ABC-12 fix the login error", Clarity.CLEAR),
        ("ABC-12 look at the login error", Clarity.NO_WORK_TYPE),
        ("ABC-12 fix the login error somewhere", Clarity.VAGUE),
        ("ABC-12 fix something about login errors", Clarity.VAGUE),
        ("ABC-12 Maybe fix the login error", Clarity.VAGUE),
        ("ABC-12 fix the login error, probably", Clarity.VAGUE),
        ("ABC-12 fix it", Clarity.NO_CRITERIA),
    ],
)
def test_clarity_names_the_condition_that_fails(request_: str, expected: Clarity) -> None:
    """A request is clear when all conditions hold; else the first that does not is said."""
    assert clarity(request_) is expected


def test_success_criteria_come_from_demands_items_or_the_request_itself() -> None:
    """Demands and list items count first; the request's own sentence only where there are none."""
    assert stated_criteria("ABC-1 fix login. Users should get in. When locked then say so.") == [
        "Users should get in.",
        "When locked then say so.",
    ]
    assert stated_criteria("ABC-1 add export:\n- as CSV\n- as JSON") == ["as CSV", "as JSON"]
    assert reading("ABC-1", "ABC-1 fix the login error")["success_criteria"] == [
        "fix the login error",
        "build passes",
        "tests pass",
    ]


@pytest.mark.req("TK-51")
@given(st.text(), st.sampled_from(WorkKind))
def test_a_slug_is_always_three_words(text: str, work: WorkKind) -> None:
    """Whatever the request, the slug has its form."""
    assert re.fullmatch(r"[a-z0-9]+_[a-z0-9]+_[a-z0-9]+", slug(text, work))


def test_a_slug_has_the_first_significant_words() -> None:
    """Ticket id and stop words are left out; what is missing is filled up."""
    assert slug("ABC-12 add the login page for users", WorkKind.FEATURE) == "add_login_page"
    assert slug("ABC-12 fix it", WorkKind.FIX) == "fix_fix_task"
    assert slug("ABC-12", WorkKind.CHORE) == "chore_task_task"


@pytest.mark.req("TK-12", "TK-52")
def test_tool_mandates_are_found_by_their_wording() -> None:
    """Strong wording counts always; weak wording only before something that looks like a tool."""
    found = tool_mandates(
        "ABC-1 fix the login with care. You MUST use ripgrep. Do it with `jq` and using docker, "
        "leverage our cache; integrate with Stripe, use Playwright to inspect the page and use good names"
    )
    assert [one.tool for one in found] == ["ripgrep", "jq", "docker", "cache", "Stripe", "Playwright"]
    assert tool_mandates("ABC-1 write files with UTF-8 and with XYZ-2") == []


@pytest.mark.req("TK-53")
@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("MUST use Playwright to inspect the page", TicketAgent.PLANNER),
        ("MUST use Playwright to build it", TicketAgent.DEVELOPER),
        ("investigate the crash using `strace`", TicketAgent.PLANNER),
        ("MUST use Redis", TicketAgent.DEVELOPER),
    ],
)
def test_a_mandate_is_for_whoever_its_wording_is_about(text: str, agent: TicketAgent) -> None:
    """Looking into things is the planner's, making them the developer's, and so is everything else."""
    assert [one.assigned_agent for one in tool_mandates(text)] == [agent]


@pytest.mark.req("TK-57")
@given(st.text(alphabet="abU`. \nMST;use with", max_size=60).map(lambda text: f"MUST use {text} X with `y`"))
def test_a_mandate_is_a_part_of_the_request_as_it_stands(request_: str) -> None:
    """Each text is a substring of the request."""
    for mandate in tool_mandates(request_):
        assert mandate.text in request_


@given(st.text())
def test_rules_are_total(text: str) -> None:
    """No text makes them fail."""
    clarity(text)
    reading("ABC-1", f"fix {text}")


def test_some_mandates_can_only_be_met_at_runtime() -> None:
    """Looking at a page needs the program to run; a library does not."""
    assert needs_runtime("use Playwright to see the page")
    assert not needs_runtime("use Redis for sessions")
