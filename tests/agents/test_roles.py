"""Where a role is looked for, and what of its file counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock.agents.roles import Roles
from interlock.agents.values import Role
from interlock.errors import ConfigInvalid, PathRefused
from interlock.settings import Agent, Runner

OURS = "---\nname: ours\n---\nYou are ours.\n"


def write(top: Path, *paths: str) -> None:
    """Files that say where they lie."""
    for path in paths:
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{path}\n")


def role(top: Path, playbook: str = "roadmap", *, name: str = "Review", client: str = "codex", **told: Any) -> Role:
    ours = top / "shipped"
    ours.mkdir(exist_ok=True)
    (ours / "Review.md").write_text(OURS)
    return Roles(top, playbook, ours).resolve(name, runner="mine", table=Runner(type=client), settings=Agent(**told))


ORDER = [
    ".interlock/agents/roadmap/Review.md",
    ".github/agents/roadmap/Review.agent.md",
    ".claude/agents/roadmap/Review.md",
    ".opencode/agent/deep/roadmap/Review.md",
    ".interlock/agents/Review.md",
    ".github/agents/Review.agent.md",
    ".claude/agents/Review.md",
    ".opencode/agent/Review.md",
]


@pytest.mark.req("AGENT-02")
@pytest.mark.parametrize("first", range(len(ORDER)))
def test_a_playbooks_own_role_comes_before_a_bare_one_and_places_in_their_order(tmp_path: Path, first: int) -> None:
    """Whatever comes later stands there, too."""
    write(tmp_path, *ORDER[first:])
    found = role(tmp_path)
    assert (found.source, found.text) == (ORDER[first], ORDER[first])


def test_ours_comes_last_and_names_no_file(tmp_path: Path) -> None:
    """Its text is without front matter; a file of another playbook is nobody else's."""
    write(tmp_path, ".interlock/agents/feature/Review.md", ".opencode/agent/feature/Review.md")
    found = role(tmp_path)
    assert (found.source, found.text) == ("", "You are ours.")


def test_other_playbooks_look_into_our_folder_alone(tmp_path: Path) -> None:
    """A reviewer that was written for a chat is no form."""
    write(tmp_path, *ORDER[1:4], *ORDER[5:])
    found = role(tmp_path, "task")
    assert found.source == ""
    write(tmp_path, ORDER[4])
    again = role(tmp_path, "task")
    assert again.source == ORDER[4]


@pytest.mark.req("AGENT-07")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".claude/agents/REVIEW.md", "You review.\n"),
        (".claude/agents/review.MD", "You review.\n"),
        (".github/agents/roadmap/review.Agent.md", "You review.\n"),
        (".interlock/agents/x.md", "---\nname: REVIEW\ntools: {edit: true}\nmodel: [a, b]\n---\nYou review.\n"),
        (".opencode/agent/a/b/c/d/e/f/review.md", "You review.\n"),
        (".github/agents/code-critic.agent.md", "---\nname: review\ntools: [read]\n---\nYou review.\n"),
        (".opencode/agent/quality/critic.md", "---\r\nname: 'Review'\r\n---\r\nYou review.\r\n"),
    ],
)
def test_a_teams_role_is_found_by_any_case_of_its_name(tmp_path: Path, path: str, text: str) -> None:
    """Of its file, or of what its front matter calls it."""
    write(tmp_path, path)
    (tmp_path / path).write_bytes(text.encode())
    found = role(tmp_path)
    assert (found.source, found.text) == (path, "You review.")


def test_the_exact_name_comes_before_another_case_and_a_name_inside(tmp_path: Path) -> None:
    """No role is taken over by a namesake."""
    write(tmp_path, ".claude/agents/a.md", ".claude/agents/Review.md")
    (tmp_path / ".claude/agents/a.md").write_text("---\nname: Review\n---\nother\n")
    found = role(tmp_path)
    assert found.source == ".claude/agents/Review.md"


@pytest.mark.parametrize("header", ["name: [", "- a\n- b", "a: 1\na: 2", "x: !!python/object:os.system {}", "\t:"])
def test_a_broken_header_leaves_the_whole_text_as_instructions(tmp_path: Path, header: str) -> None:
    """Nothing that a team wrote gets lost."""
    text = f"---\n{header}\n---\nbody"
    assert written(tmp_path, text.encode()) == text


@pytest.mark.parametrize(
    "raw", [b"body\n", b"\xef\xbb\xbfbody\n", b"---\n---\nbody\n", b"\xef\xbb\xbf---\r\nname: x\r\n---\r\nbody\r\n"]
)
def test_front_matter_is_no_part_of_the_text(tmp_path: Path, raw: bytes) -> None:
    """With and without a header, with a mark of byte order, with line ends of another system."""
    assert written(tmp_path, raw) == "body"


def written(top: Path, raw: bytes) -> str:
    write(top, ".interlock/agents/Review.md")
    (top / ".interlock/agents/Review.md").write_bytes(raw)
    found = role(top)
    return found.text


def test_settings_name_another_file_and_win_over_it(tmp_path: Path) -> None:
    """Any path of the workspace; runner, model, time and scope are theirs."""
    write(tmp_path, "docs/critic.md")
    found = role(tmp_path, "task", model="big", timeout_s=5.0, writes=("docs/**",), role="docs/critic.md")
    assert (found.text, found.source, found.model) == ("docs/critic.md", "docs/critic.md", "big")
    assert (found.runner, found.timeout_s, found.writes) == ("mine", 5, ("docs/**",))


@pytest.mark.parametrize(
    ("client", "written", "model"),
    [("claude", "opus", "opus"), ("codex", "opus", ""), ("claude", "inherit", ""), ("claude", "[a, b]", "")],
)
def test_a_model_counts_for_the_client_that_it_was_written_for(
    tmp_path: Path, client: str, written: str, model: str
) -> None:
    """Another client would not know it."""
    write(tmp_path, ".claude/agents/Review.md")
    (tmp_path / ".claude/agents/Review.md").write_text(f"---\nmodel: {written}\n---\nYou review.\n")
    assert role(tmp_path, client=client).model == model


def test_no_role_at_all_says_what_to_write(tmp_path: Path) -> None:
    """With the nearest name; a file that settings name has to be there."""
    with pytest.raises(ConfigInvalid, match="did you mean 'Review'") as caught:
        role(tmp_path, "task", name="Reviewer")
    assert caught.value.expected == ".interlock/agents/task/Reviewer.md"
    with pytest.raises(ConfigInvalid, match="not there"):
        role(tmp_path, role="gone.md")


@pytest.mark.parametrize("named", ["", "../secret.md"])
def test_a_role_is_a_file_of_the_workspace(tmp_path: Path, named: str) -> None:
    """Where a repository's link or setting leads out, a secret would be told to a model."""
    top = tmp_path / "top"
    (top / ".claude/agents").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (top / ".claude/agents/Review.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(PathRefused):
        role(top, role=named or None)


def test_a_folder_that_leads_out_is_not_looked_through(tmp_path: Path) -> None:
    """It may be a whole disk, or a home; one that stays in the workspace is a folder like any other."""
    top = tmp_path / "top"
    write(tmp_path, "home/Review.md")
    write(top, "team/Review.md")
    (top / ".opencode/agent").mkdir(parents=True)
    (top / ".opencode/agent/home").symlink_to(tmp_path / "home")
    (top / ".opencode/agent/z-loop").symlink_to(".")
    assert role(top).source == ""
    (top / ".opencode/agent/team").symlink_to("../../team")
    assert role(top).source == ".opencode/agent/team/Review.md"


def test_a_file_that_nobody_asked_for_hinders_nobody(tmp_path: Path) -> None:
    """A link that leads out, a closed file: only who asks for it by name is told."""
    top = tmp_path / "top"
    write(top, ".claude/agents/critic.md")
    (top / ".claude/agents/critic.md").write_text("---\nname: Review\n---\nYou review.\n")
    (top / ".claude/agents/a.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "secret.md").write_text("---\nname: Review\n---\nsecret\n")
    found = role(top)
    assert found.source == ".claude/agents/critic.md"
    with pytest.raises(PathRefused):
        role(top, name="a")


@pytest.mark.req("OWN-02")
def test_instructions_in_a_playbook_stand_where_nobody_has_a_file(tmp_path: Path) -> None:
    roles = Roles(tmp_path, "mine", tmp_path / "agents", {"judge": "You judge."})
    known: Any = {"runner": "mine", "table": Runner(type="codex"), "settings": Agent()}
    assert (roles.resolve("judge", **known).text, roles.resolve("judge", **known).source) == ("You judge.", "")
    write(tmp_path, ".interlock/agents/judge.md")
    assert roles.resolve("judge", **known).text == ".interlock/agents/judge.md"
