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
    """Its text is without front matter; a file of another playbook is nobody else's. Where a reviewer that was written
    for a chat would be no form, our folder alone is looked into."""
    write(tmp_path, ".interlock/agents/feature/Review.md", ".opencode/agent/feature/Review.md")
    assert (role(tmp_path).source, role(tmp_path).text) == ("", "You are ours.")
    write(tmp_path, *ORDER[1:4], *ORDER[5:])
    assert role(tmp_path, "task").source == ""
    write(tmp_path, ORDER[4])
    assert role(tmp_path, "task").source == ORDER[4]


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
    exact = str(Path(path).with_name("Review.agent.md" if ".github" in path else "Review.md"))
    write(tmp_path, exact)  # no role is taken over by a namesake
    assert role(tmp_path).source == exact


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        *((raw, "body") for raw in (b"body\n", b"\xef\xbb\xbfbody\n", b"---\n---\nbody\n")),
        (b"\xef\xbb\xbf---\r\nname: x\r\n---\r\nbody\r\n", "body"),
        *((f"---\n{bad}\n---\nbody".encode(), f"---\n{bad}\n---\nbody") for bad in ("name: [", "- a\n- b", "\t:")),
    ],
)
def test_front_matter_is_no_part_of_the_text(tmp_path: Path, raw: bytes, text: str) -> None:
    """With a mark of byte order, with line ends of another system; of a broken one nothing gets lost."""
    write(tmp_path, ".interlock/agents/Review.md")
    (tmp_path / ".interlock/agents/Review.md").write_bytes(raw)
    assert role(tmp_path).text == text


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


def test_a_role_is_a_file_of_the_workspace(tmp_path: Path) -> None:
    """Where a link or a setting leads out, a secret would be told to a model; only who asks for such a file is told. A
    folder that leads out may be a whole disk; one that stays in the workspace is a folder like any other."""
    top = tmp_path / "top"
    write(tmp_path, "home/Review.md")
    (tmp_path / "home/Review.md").write_text("---\nname: Review\n---\nsecret\n")
    write(top, "team/Review.md", ".opencode/agent/x.md", ".claude/agents/x.md")
    for name in ("home", "z-loop"):
        (top / f".opencode/agent/{name}").symlink_to(tmp_path / "home" if name == "home" else ".")
    (top / ".claude/agents/a.md").symlink_to(tmp_path / "home/Review.md")
    assert role(top).source == ""
    for asked in ({"name": "a"}, {"role": "../home/Review.md"}):
        with pytest.raises(PathRefused):
            role(top, **asked)
    (top / ".opencode/agent/team").symlink_to("../../team")
    assert role(top).source == ".opencode/agent/team/Review.md"


@pytest.mark.req("OWN-02")
def test_instructions_in_a_playbook_stand_where_nobody_has_a_file(tmp_path: Path) -> None:
    roles = Roles(tmp_path, "mine", tmp_path / "agents", {"judge": "You judge."})
    known: Any = {"runner": "mine", "table": Runner(type="codex"), "settings": Agent()}
    assert (roles.resolve("judge", **known).text, roles.resolve("judge", **known).source) == ("You judge.", "")
    write(tmp_path, ".interlock/agents/judge.md")
    assert roles.resolve("judge", **known).text == ".interlock/agents/judge.md"
