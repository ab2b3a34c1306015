"""What the scripted model says next: pure, from the script and the conversation alone."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import DocumentInvalid
from tools.model_server import Edit, Refuse, Rule, Say, Script, Shell, Sleep, Spend, Usage, Use, Write, parse
from tools.model_server.conversation import (
    Call,
    Conversation,
    Human,
    Refusal,
    Result,
    System,
    Tool,
    Turn,
    conversation,
)
from tools.model_server.dialects.dialect import pieces
from tools.model_server.directives import DirectiveInvalid, program
from tools.model_server.toolbox import example

SHELL = Tool("bash", {"properties": {"command": {"type": "string"}, "why": {"type": "string"}}, "required": ["why"]})
CREATE = Tool("create", {"properties": {"path": {}, "file_text": {}}})
CLAUDE = (
    Tool("Write", {"properties": {"file_path": {}, "content": {}}}),
    Tool("Edit", {"properties": {"file_path": {}, "old_string": {}, "new_string": {}}}),
    Tool("Read", {"properties": {"file_path": {}}}),
    Tool("Bash", {"properties": {"command": {}}}),
)

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"]), max_size=30)
paths = st.text("abc/._-", min_size=1, max_size=12).filter(lambda path: "::" not in path)


def talk(
    human: str, *results: str, tools: tuple[Tool, ...] = (*CLAUDE,), folder: str | None = "/project"
) -> Conversation:
    return Conversation("m", "", human, results, tools, folder)


def answer(script_text: str, *results: str, asked_before: int = 0, **with_: Any) -> Turn | Refusal:
    return Script().answer(talk(script_text, *results, **with_), asked_before)


def call(turn: Turn | Refusal) -> tuple[str, Any]:
    assert isinstance(turn, Turn) and turn.call is not None, turn
    return turn.call.tool.name, turn.call.arguments


# --- the program counter

actions = st.one_of(
    st.builds(Write, paths, words), st.builds(Edit, paths, words, words), st.builds(Shell, words.filter(bool))
)
pauses = st.one_of(st.builds(Say, words.filter(bool)), st.builds(Sleep, st.floats(0, 5)))


@given(st.lists(st.one_of(actions, pauses), min_size=1, max_size=8))
def test_every_action_is_called_once_and_in_order(steps: list[Any]) -> None:
    """With results that complain of nothing, the n-th result leads to the n-th action, and then to the last words."""
    script = Script((Rule(tuple(steps)),))
    acting = [step for step in steps if isinstance(step, Write | Edit | Shell)]
    called = []
    for count in range(len(acting)):
        turn = script.answer(talk("anything", *["fine"] * count))
        called.append(call(turn)[0])
    assert called == [type(step).__name__.replace("Shell", "Bash") for step in acting]
    last = script.answer(talk("anything", *["fine"] * len(acting)))
    assert isinstance(last, Turn) and last.call is None and last.text


@given(st.lists(actions, max_size=5), st.integers(0, 6), st.integers(0, 3))
def test_the_same_question_has_the_same_answer(steps: list[Any], results: int, asked_before: int) -> None:
    """The script keeps nothing between two questions."""
    script = Script((Rule(tuple(steps)),))
    question = talk("anything", *["fine"] * results)
    assert script.answer(question, asked_before) == script.answer(question, asked_before)


def test_words_and_pauses_belong_to_the_next_call() -> None:
    """What stands before a call comes with it; what stands after the last one is the end."""
    human = "@say Now the file.\n@sleep 2\n@write a :: 1\n@say Both\n@say done."
    first = answer(human)
    assert isinstance(first, Turn)
    assert (first.text, first.delay_s) == ("Now the file.", 2.0)
    assert answer(human, "ok") == Turn("Both\ndone.")


def test_refusals_hold_once_each_and_then_for_ever() -> None:
    """Every `once` is used up by one question at its place; one without `once` stays."""
    human = "@write a :: 1\n@http_once 500 first\n@retry_after 3\n@http 429 then\n@say never"
    assert call(answer(human, asked_before=5))[0] == "Write"
    told = [answer(human, "ok", asked_before=count) for count in range(3)]
    assert told == [Refusal(500, "first"), Refusal(429, "then", 3.0), Refusal(429, "then", 3.0)]


# --- tools of the clients


def test_paths_are_absolute_where_the_folder_is_known() -> None:
    """Most clients demand it; without a known folder the path stays as it was written."""
    assert call(answer("@write a/b :: 1")) == ("Write", {"file_path": "/project/a/b", "content": "1\n"})
    assert call(answer("@write a/b :: 1", folder=None))[1]["file_path"] == "a/b"
    assert call(answer("@write /x/b :: 1"))[1]["file_path"] == "/x/b"


def test_a_file_that_must_be_read_first_is_read() -> None:
    """On the complaint: read, write again, go on; it is never tried a third time."""
    human = "@write a :: 1\n@shell make"
    complaint = "File has not been read yet. Read it first before writing to it."
    assert call(answer(human, complaint)) == ("Read", {"file_path": "/project/a"})
    assert call(answer(human, complaint, "old text"))[0] == "Write"
    assert call(answer(human, complaint, "old text", complaint))[0] == "Bash"


@pytest.mark.parametrize(
    ("complaint", "command"),
    [
        ("Parent directory /project/a does not exist. You need to create it", "mkdir -p a"),
        ("Path /project/a/b already exists as a file.", "rm -f a/b"),
    ],
)
def test_what_hinders_a_new_file_is_cleared_away(complaint: str, command: str) -> None:
    """A missing folder is made, a file in the way removed, then the file is created."""
    tools = (CREATE, SHELL)
    assert call(answer("@write a/b :: 1", tools=tools))[0] == "create"
    assert call(answer("@write a/b :: 1", complaint, tools=tools)) == ("bash", {"command": command, "why": "scripted"})
    assert call(answer("@write a/b :: 1", complaint, "", tools=tools))[0] == "create"


def test_a_complaint_that_nothing_helps_against_is_accepted() -> None:
    """A refused write is over, and the script goes on."""
    assert answer("@write a :: 1\n@say Not allowed.", "Permission denied") == Turn("Not allowed.")
    assert answer("@write a/b :: 1\n@say No.", "already exists", tools=(CREATE,)) == Turn("No.")


def test_a_patch_stands_for_writing_and_editing() -> None:
    """Codex has one free-form tool for both."""
    tools = (Tool("apply_patch", freeform=True),)
    added = "*** Begin Patch\n*** Add File: a\n+1\n+2\n*** End Patch\n"
    assert call(answer("@write a :: 1\\n2", tools=tools)) == ("apply_patch", added)
    changed = "*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n*** End Patch\n"
    assert call(answer("@edit a :: 1 => 2", tools=tools)) == ("apply_patch", changed)


def test_without_a_write_tool_the_shell_writes() -> None:
    """The command needs no substitution: Gemini CLI refuses any."""
    name, arguments = call(answer("@write a b/c :: it's", tools=(SHELL,)))
    assert name == "bash"
    assert arguments["command"] == "mkdir -p 'a b' && printf %s 'it'\"'\"'s\n' > 'a b/c'"


def test_a_step_without_any_tool_ends_the_turn_and_says_so() -> None:
    """A client that offers nothing suitable hears which tools it offered."""
    turn = answer("@shell make", tools=(CREATE,))
    assert turn == Turn("No tool for shell; offered: create")


def test_a_tool_can_be_called_literally() -> None:
    """Its name and arguments are taken as they are, offered or not."""
    assert call(answer('@tool Glob {"pattern": "*.py"}')) == ("Glob", {"pattern": "*.py"})


def test_a_command_as_a_list_is_given_as_a_list() -> None:
    """Where the schema wants an argument vector, the shell is named in it."""
    shell = Tool("shell", {"properties": {"command": {"type": "array"}}})
    assert call(answer("@shell ls", tools=(shell,)))[1] == {"command": ["bash", "-lc", "ls"]}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"enum": ["b", "a"]}, "b"),
        ({"type": ["integer", "null"]}, 0),
        ({"type": "array"}, []),
        ({"type": "null"}, None),
        ({"properties": {"x": {"type": "boolean"}, "y": {"type": "string"}}}, {"x": False, "y": "scripted"}),
    ],
)
def test_the_plainest_value_fits_its_schema(schema: dict[str, Any], value: Any) -> None:
    """Required arguments that no step knows get something harmless."""
    assert example(schema) == value


# --- the conversation


def test_context_of_the_client_is_not_the_human() -> None:
    """Leading elements are the client's; the words after them, letter for letter, are the turn."""
    heard = conversation(
        "m",
        [
            System("instructions"),
            Human("<environment_context>\n  <cwd>/home/p</cwd>\n</environment_context>"),
            Human("first"),
            Result("old"),
            Human("<now a='b'>noon</now>\n\n<more>x</more>\nsecond <b>bold</b>"),
            Result("new"),
            Human("<system-reminder>careful</system-reminder>"),
        ],
        (),
    )
    assert (heard.human, heard.results, heard.folder) == ("second <b>bold</b>", ("new",), "/home/p")
    assert "careful" in heard.system and "noon" in heard.system and "instructions" in heard.system


@pytest.mark.parametrize(
    "told",
    [
        " - Primary working directory: /home/p\n - Is a git repository",
        "<env>\n  Working directory: /home/p\n</env>",
        "* Current working directory: /home/p\n* Git",
        "- **Workspace Directories:**\n  - /home/p\n- **Directory Structure:**",
        "I'm currently working in the directory: /home/p\n",
        "<cwd>/home/p</cwd>",
    ],
)
def test_the_working_folder_is_found_as_each_client_tells_it(told: str) -> None:
    """Instructions name the folder, each client in its own way; some as if a person had said it."""
    assert conversation("m", [System(told)], ()).folder == "/home/p"
    assert conversation("m", [Human(told.lstrip("<")), Human("the task")], ()).folder in ("/home/p", None)
    assert conversation("m", [Human("Context: " + told), Human("the task")], ()).folder == "/home/p"


@given(st.text())
def test_streamed_pieces_make_the_whole(text: str) -> None:
    """However it is cut, nothing is lost, and there are never more than eight pieces of it."""
    cut = list(pieces(text))
    assert "".join(cut) == text
    assert len(cut) <= 8


# --- directives and files


@given(paths.map(lambda path: path.strip()).filter(bool), words.filter(lambda text: "\\n" not in text))
def test_a_written_file_is_read_from_its_line(path: str, content: str) -> None:
    """Path and content come out of the directive as they went in, apart from spaces at the end."""
    (step,) = program(f"some words\n@write {path} :: {content}\nmore")
    assert step == Write(path, content.rstrip(" \t") + "\n")


def test_every_directive_has_its_step() -> None:
    """One line, one step; quotation marks and bullets before it, and other words after an @, do not matter."""
    steps = program(
        "\n".join(
            (
                "> @write a :: 1\\n2",
                "- @edit a :: 1 => 3",
                "@shell make test",
                '@tool Glob {"x": 1}',
                "@say so\\nit is",
                "@big 130",
                "@sleep 0.5",
                "@http_once 503",
                "@retry_after 9",
                "@http 429 too much",
                "@http 500",
                "@usage 10 2",
                "@pytest.mark.req is no directive, nor is mail@write a :: b",
            )
        )
    )
    big = steps[5]
    assert isinstance(big, Say) and len(big.text.encode()) == 130
    assert (*steps[:5], *steps[6:]) == (
        Write("a", "1\n2\n"),
        Edit("a", "1", "3"),
        Shell("make test"),
        Use("Glob", {"x": 1}),
        Say("so\nit is"),
        Sleep(0.5),
        Refuse(503, once=True),
        Refuse(429, "too much", retry_after_s=9.0),
        Refuse(500),
        Spend(Usage(10, 2)),
    )


@pytest.mark.parametrize("line", ["@write a", "@edit a :: b", "@http soon", "@sleep", "@tool", "@tool x {", "@usage 1"])
def test_a_directive_without_sense_is_refused(line: str) -> None:
    """The error names the directive and the line."""
    with pytest.raises(DirectiveInvalid) as refused:
        program(f"do this\n{line}")
    assert refused.value.where == line


EVERYTHING = r"""
rules:
  - when: ["- Agent: Implement", "- Attempt: 1"]
    matches: ["- `(?P<report>[^`]+report\\.md)`"]
    turns:
      - write:
          path: "{report}"
          content: |
            # Report
            {"json": true} in {cwd}
      - edit: {path: a, old: x, new: y}
      - shell: make
      - tool: {name: Glob, arguments: {pattern: "{cwd}/*"}}
      - sleep: 1
      - http: {status: 429, retry_after: 2, once: true}
      - usage: {input: 5, output: 6}
      - big: 70
      - say: Done with {report}.
otherwise: What?
"""


def test_a_file_has_every_step_and_fills_its_placeholders() -> None:
    """Lines, patterns and names of the file arrive; braces around anything else stay."""
    script = parse(EVERYTHING)
    assert script.otherwise == "What?"
    steps = script.program(talk("- Agent: Implement\n- Attempt: 1\n- `docs/x-report.md`: the report"))
    assert steps[0] == Write("docs/x-report.md", '# Report\n{"json": true} in /project\n')
    assert steps[1:7] == (
        Edit("a", "x", "y"),
        Shell("make"),
        Use("Glob", {"pattern": "/project/*"}),
        Sleep(1.0),
        Refuse(429, once=True, retry_after_s=2.0),
        Spend(Usage(5, 6)),
    )
    assert steps[-1] == Say("Done with docs/x-report.md.")
    assert script.program(talk("- Agent: Implement\n- Attempt: 1")) == ()


@given(st.lists(st.tuples(paths, words), max_size=4))
def test_a_file_in_json_is_a_file_too(files: list[tuple[str, str]]) -> None:
    """JSON is read as YAML is, and contents survive letter for letter."""
    turns = [{"write": {"path": path, "content": content}} for path, content in files]
    script = parse(json.dumps({"rules": [{"when": ["x"], "turns": turns}]}))
    assert script == Script((Rule(tuple(Write(path, content) for path, content in files), contains=("x",)),))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("rules: [{turns: [{say: a, shell: b}]}]", "rules.0.turns.0"),
        ("rules: [{turns: [{shout: a}]}]", "shout"),
        ("rules: [{turns: [{say: null}]}]", "rules.0.turns.0"),
        ("rules: [{turns: [{http: {status: 200}}]}]", "status"),
        ("rules: [{matches: ['('], turns: []}]", "matches"),
        ("rules: [", "YAML"),
    ],
)
def test_a_file_that_is_no_script_is_refused(text: str, where: str) -> None:
    """The error names the file and the place in it."""
    with pytest.raises(DocumentInvalid, match=re.escape(where)) as refused:
        parse(text, "script.yaml")
    assert refused.value.where == "script.yaml"


def test_a_call_of_a_freeform_tool_carries_text() -> None:
    """A literal call can carry a text in place of arguments."""
    script = parse("rules: [{turns: [{tool: {name: apply_patch, arguments: text of {cwd}}}]}]".replace("{cwd}", "it"))
    turn = script.answer(talk("x", tools=(Tool("apply_patch", freeform=True),)))
    assert isinstance(turn, Turn)
    assert turn.call == Call(Tool("apply_patch", freeform=True), "text of it")
