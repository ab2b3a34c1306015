"""The frontmatter of a command file, and of an agent file."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents import Document, DocumentState
from interlock.playbooks.router.documents import AgentFile, CommandFile, Returns, read_agent_file, read_command_file
from interlock.playbooks.router.problems import Problem

PATH = ".opencode/command/plan.md"
AGENT = ".opencode/agent/subagents/planner.md"


def read(header: str) -> CommandFile | Problem:
    return read_command_file(Document(PATH, DocumentState.OK, f"---\n{header}\n---\nprose: [\n"))


def refused(header: str) -> str:
    found = read(header)
    assert isinstance(found, Problem), found
    return found.text


@pytest.mark.req("RT-26")
def test_routing_and_timeout_are_read(bench: Any) -> None:
    """Every key of the format is read; keys of other programs are left alone."""
    header = (
        "name: plan\ndescription: x\nagent: orchestrator\ntimeout: 90\nreturns: json\ncontext_level: 2\n"
        "routing:\n  language_based: true\n  lean: lean-planner\n  default: planner\n  python: py-planner"
    )
    assert read(header) == CommandFile(
        PATH, "orchestrator", 90, True, "planner", "lean-planner", {"python": "py-planner"}, Returns.JSON
    )
    bench.files[PATH] = f"---\n{header}\n---\n"
    bench.play("/plan 196")
    record = bench.events("stage.1.done")[0]
    assert (record["language_based"], record["timeout"], record["returns"]) == (True, 90, "json")


@pytest.mark.req("RT-26")
def test_what_is_not_said_has_its_default() -> None:
    """No frontmatter, an empty one and keys without a value all say nothing."""
    silent = CommandFile(PATH)
    assert read_command_file(Document(PATH, DocumentState.OK, "only prose\n")) == silent
    assert read("") == silent
    assert read("name:\nagent:\ntimeout:\nreturns:\nrouting:\n  default:\n  lean:\n  language_based:") == silent
    assert (silent.agent, silent.timeout_s, silent.language_based, silent.returns) == (
        "orchestrator",
        None,
        False,
        "text",
    )


@pytest.mark.req("RT-27")
@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("a: [\nb: 1", f"Error: {PATH}: frontmatter is not valid YAML (line "),
        ("- a\n- b", f"Error: {PATH}: frontmatter is not valid YAML (line 2)"),
        ("agent: a\nagent: b", f"Error: {PATH}: frontmatter is not valid YAML (line 3)"),
        ("x: !!python/object:os.system {}", f"Error: {PATH}: frontmatter is not valid YAML"),
        ("name: [a]", f'Error: {PATH}: name must be a string; found ["a"]'),
        ("routing: fast", f'Error: {PATH}: routing must be a mapping; found "fast"'),
        ("routing:\n  language_based: 1", f"Error: {PATH}: routing.language_based must be true or false; found 1"),
        ("returns: xml", f'Error: {PATH}: returns must be json or text; found "xml"'),
        ("returns: [json]", f'Error: {PATH}: returns must be json or text; found ["json"]'),
    ],
)
def test_broken_frontmatter_names_the_file(header: str, said: str) -> None:
    """What cannot be used is refused with the file, the key and the value."""
    assert refused(header).startswith(said)


@pytest.mark.req("RT-27")
def test_a_missing_or_unusable_command_file_is_refused(bench: Any) -> None:
    """No command file, one that is no text and one whose header never ends: exit 2, the file named."""
    bench.files.pop(PATH)
    error = bench.refuse("/plan 196")
    assert (error.exit_code, error.what) == (2, f"Error: Command file {PATH} not found")
    bench.files[PATH] = b"---\nname: \xff\n---\n"
    assert bench.refuse("/plan 196").what == f"Error: {PATH} is not valid UTF-8 (byte 10)"
    bench.files[PATH] = "---\nname: plan\n"
    assert bench.refuse("/plan 196").what == f"Error: {PATH}: frontmatter is not valid YAML (line 1)"


@pytest.mark.parametrize("value", ["-1", "0", "86401", "1.5", "true", '"soon"', '"60"', "[60]"])
def test_a_timeout_is_an_integer_of_seconds(value: str) -> None:
    """Anything but 1 to 86400 is refused with what was found."""
    said = refused(f"timeout: {value}")
    assert said == f"Error: timeout must be an integer of seconds from 1 to 86400; found {value}"


@pytest.mark.req("RT-47")
@pytest.mark.parametrize("name", ["../x", "../../x", "a/b", "A", "a.md", "-a", " a", "a\\n", "", "é", "a" * 101])
@pytest.mark.parametrize("key", ["agent: ", "routing:\n  default: ", "routing:\n  lean: "])
def test_an_agent_name_is_a_plain_name(name: str, key: str) -> None:
    """A name that could be a path, or anything but a plain name, is a config error."""
    said = name.replace("\\n", "\\\\n")
    assert refused(f"{key}'{name}'") == f'Error: invalid agent name "{said}" in {PATH}'


@pytest.mark.req("RT-47")
def test_an_agent_name_is_text(bench: Any) -> None:
    """A number is no name; the router refuses it before it looks for a file."""
    assert refused("agent: 5") == f"Error: invalid agent name 5 in {PATH}"
    bench.files[PATH] = "---\nrouting:\n  default: ../../x\n---\n"
    error = bench.refuse("/plan 196")
    assert (error.exit_code, error.what) == (2, f'Error: invalid agent name "../../x" in {PATH}')


def test_routing_entries_of_others_are_left_alone() -> None:
    """Further entries of `routing` are kept unchecked: they mean nothing unless settings say so."""
    found = read("routing:\n  default: planner\n  flags: [a]\n  fallback: ../x")
    assert isinstance(found, CommandFile)
    assert found.default == "planner"


def agent(text: str) -> AgentFile | Problem:
    return read_agent_file(Document(AGENT, DocumentState.OK, text), "planner", PATH)


def test_the_agent_file_gives_instructions_and_scope() -> None:
    """The body are the instructions; without `writes` the scope is everything."""
    assert agent("---\nname: planner\nwrites: [docs/**, '!docs/a.md']\n---\nPlan.\n") == AgentFile(
        "planner", AGENT, "Plan.\n", ("docs/**", "!docs/a.md")
    )
    assert agent("Plan.\n") == AgentFile("planner", AGENT, "Plan.\n", ("**", ".opencode/specs/**"))


def test_another_name_in_the_agent_file_is_only_remarked() -> None:
    """That the file exists is what counts; another name or a broken header gives a warning."""
    named = agent("---\nname: other\n---\nPlan.\n")
    assert isinstance(named, AgentFile)
    assert named.remarks == (f'{AGENT}: name is "other", not the name of the file',)
    broken = agent("---\nname: [\n---\nPlan.\n")
    assert isinstance(broken, AgentFile)
    assert broken.body == "---\nname: [\n---\nPlan.\n"
    assert "cannot be read" in broken.remarks[0]


@pytest.mark.parametrize("writes", ["docs/**", "[1]", "[../x]", "[/etc]", "['!/etc']", "['']", "{}"])
def test_a_write_scope_that_says_nothing_usable_is_refused(writes: str) -> None:
    """A bad scope never widens to everything."""
    found = agent(f"---\nwrites: {writes}\n---\n")
    assert isinstance(found, Problem)
    assert found.text.startswith(f"Error: {AGENT}: writes must be a list of path patterns inside the workspace; found ")


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=6,
)
KEYS = st.sampled_from(["name", "agent", "timeout", "routing", "returns", "writes"])
ROUTING = st.dictionaries(st.sampled_from(["language_based", "lean", "default", "python"]), VALUES, max_size=4)


@given(st.one_of(st.text(max_size=80), st.dictionaries(KEYS, st.one_of(VALUES, ROUTING), max_size=5).map(repr)))
def test_every_frontmatter_is_read_or_refused(header: str) -> None:
    """No header makes the readers fail; a refusal is one printable text."""
    text = f"---\n{header}\n---\nbody\n"
    for found in (read_command_file(Document(PATH, DocumentState.OK, text)), agent(text)):
        if isinstance(found, Problem):
            assert all(char.isprintable() or char == "\n" for char in found.text)
