"""Roles are read in every dialect and found in one order, without surprises."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.roles import RoleLibrary, parse_role
from interlock.errors import DocumentInvalid, PathRefused

BROKEN = "---\nname: x\ntools: [a\n---\nbody\n"


def put(root: Path, path: str, text: str = "") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text or f"I am {path}.\n", encoding="utf-8")
    return file


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def library(workspace: Path, tmp_path: Path) -> RoleLibrary:
    for playbook, role in (("roadmap", "Review"), ("ticket", "Planner"), ("ticket", "Reviewer")):
        put(tmp_path / "shipped", f"{playbook}/agents/{role}.md", f"shipped {playbook} {role}\n")
    return RoleLibrary(workspace, [tmp_path / "shipped"])


def test_a_claude_role() -> None:
    """Tools are a comma list."""
    role = parse_role(
        "---\nname: reviewer\ndescription: Reviews code\ntools: Read, Grep ,Bash\nmodel: opus\ncolor: red\n---\n"
        "\nYou review.\n",
        ".claude/agents/reviewer.md",
    )
    assert (role.name, role.description, role.model, role.body) == ("reviewer", "Reviews code", "opus", "You review.\n")
    assert role.tools == ("Read", "Grep", "Bash")
    assert role.meta == {"color": "red"}
    assert (role.writes, role.timeout_s) == (None, None)


def test_a_copilot_role() -> None:
    """Tools are a list; what we have no field for is kept."""
    role = parse_role(
        "---\ndescription: Plans\ntools: ['read', 'search']\nagents: [a]\nhandoffs:\n  - label: go\n---\nPlan.",
        ".github/agents/Plan.agent.md",
    )
    assert (role.name, role.tools, role.body) == ("Plan", ("read", "search"), "Plan.\n")
    assert role.meta == {"agents": ["a"], "handoffs": [{"label": "go"}]}


def test_an_opencode_role() -> None:
    """Tools are a mapping; permissions and mode are kept."""
    role = parse_role(
        "---\nmode: subagent\nmodel: x/y\ntools:\n  write: false\n  edit: true\n  bash: true\n"
        "permission:\n  edit: deny\n---\nGo.\n",
        ".opencode/agent/subagents/implementer.md",
    )
    assert (role.name, role.model, role.tools) == ("implementer", "x/y", ("edit", "bash"))
    assert role.meta == {"mode": "subagent", "permission": {"edit": "deny"}}


def test_our_own_keys() -> None:
    """Write scope and time limit."""
    role = parse_role("---\nwrites: ['docs/**', a.md]\ntimeout_s: 900\n---\nx\n", "r.md")
    assert (role.writes, role.timeout_s, dict(role.meta)) == (("docs/**", "a.md"), 900.0, {})


@pytest.mark.parametrize(
    "line", ["tools: {a: maybe}", "timeout: soon", "model: [a, b]", "writes: {a: b}", "timeout_s: -1"]
)
def test_a_value_in_a_form_we_do_not_know_is_kept_aside(line: str) -> None:
    """Another product's dialect is no reason to fail."""
    role = parse_role(f"---\n{line}\n---\nx\n", "r.md")
    assert line.partition(":")[0] in role.meta
    assert (role.tools, role.timeout_s, role.model, role.writes) == ((), None, None, None)


def test_a_text_without_frontmatter_is_all_body() -> None:
    """With CRLF and byte order mark as well."""
    assert parse_role("\ufeff# You\r\n\r\nDo it.\r\n", "a/Build.md").body == "# You\n\nDo it.\n"
    assert parse_role("", "a/Build.md").name == "Build"


def test_broken_frontmatter_is_an_error_with_its_line() -> None:
    """The line is that of the file."""
    with pytest.raises(DocumentInvalid) as caught:
        parse_role(BROKEN, "r.md")
    assert caught.value.path == "r.md"
    assert caught.value.line in (3, 4)


@given(st.text())
def test_any_text_is_a_role_or_a_document_error(text: str) -> None:
    """No input makes the parser fall over."""
    try:
        role = parse_role(text, "x.md")
    except DocumentInvalid:
        return
    assert role.source == "x.md"


@pytest.mark.req("EN-43")
def test_places_count_in_their_order(workspace: Path, library: RoleLibrary) -> None:
    """Each place hides the ones after it; what we ship comes last."""
    files = [
        ".interlock/agents/roadmap/Review.md",
        ".github/agents/roadmap/Review.agent.md",
        ".claude/agents/roadmap/Review.md",
        ".opencode/agent/deep/roadmap/Review.md",
        ".interlock/agents/Review.md",
        ".github/agents/Review.agent.md",
        ".claude/agents/Review.md",
        ".opencode/agent/subagents/Review.md",
    ]
    placed = [put(workspace, path) for path in files]
    for path, file in zip(files, placed, strict=True):
        found = library.find("roadmap", "Review")
        assert found is not None
        assert (found.source, found.body) == (path, f"I am {path}.\n")
        file.unlink()
    shipped = library.find("roadmap", "Review")
    assert shipped is not None
    assert (shipped.source, shipped.body) == ("shipped:roadmap/Review.md", "shipped roadmap Review\n")


@pytest.mark.req("EN-43")
def test_a_namesake_of_another_playbook_or_case_is_not_taken(workspace: Path, library: RoleLibrary) -> None:
    """A file in another playbook's folder, or spelled otherwise, is another role."""
    put(workspace, ".interlock/agents/feature/Planner.md")
    put(workspace, ".opencode/agent/roadmap/Planner.md")
    put(workspace, ".claude/agents/planner.md")
    put(workspace, ".github/agents/Planner.md")  # not *.agent.md
    put(workspace, ".claude/agents/a/b/Planner.md")  # too deep for this place
    found = library.find("ticket", "Planner")
    assert found is not None
    assert found.source == "shipped:ticket/Planner.md"
    assert library.find("roadmap", "Reviewer") is None
    assert library.find("ticket", "planner") is not None


@pytest.mark.req("EN-43")
def test_all_sources_are_listed_with_their_places(workspace: Path, library: RoleLibrary, tmp_path: Path) -> None:
    """In the order in which they count, unusable ones with the reason."""
    put(workspace, ".claude/agents/Review.md")
    put(workspace, ".opencode/agent/ticket/Planner.md", BROKEN)
    sources = library.sources()
    assert [(s.playbook, s.role, s.place) for s in sources] == [
        ("ticket", "Planner", ".opencode/agent"),
        (None, "Review", ".claude/agents"),
        ("roadmap", "Review", "shipped"),
        ("ticket", "Planner", "shipped"),
        ("ticket", "Reviewer", "shipped"),
    ]
    assert [s.problem is None for s in sources] == [False, True, True, True, True]


@pytest.mark.parametrize("link", [".claude/agents/Review.md", ".claude/agents", ".claude"])
def test_a_link_out_of_the_workspace_is_refused(
    workspace: Path, library: RoleLibrary, tmp_path: Path, link: str
) -> None:
    """Instructions from elsewhere are not taken in silence."""
    outside = tmp_path / "elsewhere"
    target = put(outside, "agents/Review.md", "Do evil.\n")
    place = workspace / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(
        {".claude/agents/Review.md": target, ".claude/agents": outside / "agents", ".claude": outside}[link]
    )
    with pytest.raises(DocumentInvalid, match="leaves the workspace"):
        library.find("roadmap", "Review")
    assert "leaves the workspace" in (library.sources()[0].problem or "")


def test_a_link_inside_the_workspace_is_followed(workspace: Path, library: RoleLibrary) -> None:
    """Teams share one file between products."""
    put(workspace, "agents/Review.md", "Ours.\n")
    (workspace / ".claude").mkdir()
    (workspace / ".claude/agents").symlink_to(workspace / "agents")
    found = library.find("roadmap", "Review")
    assert found is not None
    assert found.body == "Ours.\n"


@pytest.mark.parametrize("name", ["../x", "a/b", "", ".hidden", "a\0b"])
def test_a_name_that_is_a_path_is_refused(library: RoleLibrary, name: str) -> None:
    """Names come from settings and files."""
    with pytest.raises(PathRefused):
        library.find("roadmap", name)


def test_a_role_that_is_not_utf8_is_refused_with_the_byte(workspace: Path, library: RoleLibrary) -> None:
    """The position helps to find it."""
    put(workspace, ".claude/agents/Review.md").write_bytes(b"abc\xff")
    with pytest.raises(DocumentInvalid, match="byte 3"):
        library.find("roadmap", "Review")
