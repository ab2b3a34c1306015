"""Where a role is looked for, and what of its file counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.agents.roles import Roles
from interlock.errors import ConfigInvalid, PathRefused

OURS = "---\nname: ours\n---\nYou are ours.\n"


@dataclass
class Facts:
    runner: str | None = None
    model: str | None = None
    timeout_s: float | None = None
    writes: tuple[str, ...] | None = None
    role: str | None = None


def write(top: Path, *paths: str) -> None:
    """Files that say where they lie."""
    for path in paths:
        file = top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{path}\n")


def roles(top: Path, playbook: str = "roadmap") -> Roles:
    ours = top / "shipped"
    ours.mkdir(exist_ok=True)
    (ours / "Review.md").write_text(OURS)
    return Roles(top, playbook, ours)


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
    found = roles(tmp_path).find("Review")
    assert found is not None
    assert (found.source, found.text) == (ORDER[first], ORDER[first])


def test_ours_comes_last_and_names_no_file(tmp_path: Path) -> None:
    """Its text is without front matter; a file of another playbook is nobody else's."""
    write(tmp_path, ".interlock/agents/feature/Review.md", ".opencode/agent/feature/Review.md")
    found = roles(tmp_path).find("Review")
    assert found is not None
    assert (found.source, found.text) == ("", "You are ours.")


def test_other_playbooks_look_into_our_folder_alone(tmp_path: Path) -> None:
    """A reviewer that was written for a chat is no form."""
    write(tmp_path, *ORDER[1:4], *ORDER[5:])
    found = roles(tmp_path, "task").find("Review")
    assert found is not None
    assert found.source == ""
    write(tmp_path, ORDER[4])
    again = roles(tmp_path, "task").find("Review")
    assert again is not None
    assert again.source == ORDER[4]


@pytest.mark.req("AGENT-07")
@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".claude/agents/REVIEW.md", "You review.\n"),
        (".github/agents/code-critic.agent.md", "---\nname: review\ntools: [read]\n---\nYou review.\n"),
        (".opencode/agent/quality/critic.md", "---\r\nname: 'Review'\r\n---\r\nYou review.\r\n"),
    ],
)
def test_a_teams_role_is_found_by_any_case_of_its_name(tmp_path: Path, path: str, text: str) -> None:
    """Of its file, or of what its front matter calls it."""
    write(tmp_path, path)
    (tmp_path / path).write_bytes(text.encode())
    found = roles(tmp_path).find("Review")
    assert found is not None
    assert (found.source, found.text) == (path, "You review.")


def test_the_exact_name_comes_before_another_case_and_a_name_inside(tmp_path: Path) -> None:
    """No role is taken over by a namesake."""
    write(tmp_path, ".claude/agents/a.md", ".claude/agents/Review.md")
    (tmp_path / ".claude/agents/a.md").write_text("---\nname: Review\n---\nother\n")
    found = roles(tmp_path).find("Review")
    assert found is not None
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
    found = roles(top).find("Review")
    assert found is not None
    return found.text


def test_settings_name_another_file_and_win_over_it(tmp_path: Path) -> None:
    """Any path of the workspace; runner, model, time and scope are theirs."""
    write(tmp_path, "docs/critic.md")
    facts = Facts(model="big", timeout_s=5, writes=("docs/**",), role="docs/critic.md")
    role = roles(tmp_path, "task").resolve("Review", runner="mine", type="codex", settings=facts)
    assert role is not None
    assert (role.text, role.source, role.model) == ("docs/critic.md", "docs/critic.md", "big")
    assert (role.runner, role.timeout_s, role.writes) == ("mine", 5, ("docs/**",))


@pytest.mark.parametrize(("client", "model"), [("claude", "opus"), ("codex", "")])
def test_a_model_counts_for_the_client_that_it_was_written_for(tmp_path: Path, client: str, model: str) -> None:
    """Another client would not know it."""
    write(tmp_path, ".claude/agents/Review.md")
    (tmp_path / ".claude/agents/Review.md").write_text("---\nmodel: opus\n---\nYou review.\n")
    role = roles(tmp_path).resolve("Review", runner=client, type=client)
    assert role is not None
    assert role.model == model


def test_no_role_at_all_says_what_to_write(tmp_path: Path) -> None:
    """With the nearest name; a file that settings name has to be there."""
    assert roles(tmp_path).find("Nobody") is None
    with pytest.raises(ConfigInvalid, match="did you mean 'Review'") as caught:
        roles(tmp_path, "task").resolve("Reviewer", runner="x", type="claude")
    assert caught.value.expected == ".interlock/agents/task/Reviewer.md"
    with pytest.raises(ConfigInvalid, match="not there"):
        roles(tmp_path).resolve("Review", runner="x", type="claude", settings=Facts(role="gone.md"))


@pytest.mark.parametrize("named", ["", "../secret.md"])
def test_a_role_is_a_file_of_the_workspace(tmp_path: Path, named: str) -> None:
    """Where a repository's link or setting leads out, a secret would be told to a model."""
    top = tmp_path / "top"
    (top / ".claude/agents").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (top / ".claude/agents/Review.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(PathRefused):
        roles(top).find("Review", named)


def test_a_file_that_nobody_asked_for_hinders_nobody(tmp_path: Path) -> None:
    """A link that leads out, a closed file: only who asks for it by name is told."""
    top = tmp_path / "top"
    write(top, ".claude/agents/critic.md")
    (top / ".claude/agents/critic.md").write_text("---\nname: Review\n---\nYou review.\n")
    (top / ".claude/agents/a.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "secret.md").write_text("---\nname: Review\n---\nsecret\n")
    found = roles(top).find("Review")
    assert found is not None
    assert found.source == ".claude/agents/critic.md"
    with pytest.raises(PathRefused):
        roles(top).find("a")
