"""Every kind of mistake is said with its place, what was expected, and the nearest name."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import ConfigInvalid
from interlock.flows import read

FIX = (Path(__file__).parent / "fix.yaml").read_text(encoding="utf-8")
SMALL = """playbook: small
summary: One check.
key: once
steps:
  - run: check
    command: make check
  - decide: then_what
    rows:
      - {check: passed, then: end good}
      - {check: failed, then: end bad}
  - end: good
    status: complete
    words: It is good.
  - end: bad
    status: failed
    words: It is bad.
"""


def mistakes(text: str | bytes) -> list[ConfigInvalid]:
    with pytest.raises(ConfigInvalid) as caught:
        read(text, "flow.yaml")
    first = caught.value
    return [first, *(one for one in first.also if isinstance(one, ConfigInvalid))]


def with_check(check: str) -> str:
    return SMALL.replace("    command: make check", f"    command: make check\n    {check}")


def with_input(declared: str) -> str:
    return SMALL.replace("key: once", f"inputs:\n  one: {declared}\nkey: once")


def with_agent(declared: str, step: str = "task: Work.") -> str:
    text = SMALL.replace("key: once", f"key: once\nagents:\n  worker: {declared}")
    return text.replace("steps:\n", f"steps:\n  - agent: worker\n    {step}\n")


MISTAKES: dict[str, tuple[str, str, str, str]] = {
    # name: (text, where, what, expected or remedy)
    "no yaml": ("playbook: [", "flow.yaml:2:1", "this is not YAML", "quotes"),
    "a tab": ("playbook: a\n\tsummary: b\n", "flow.yaml:2:1", "a tab stands where YAML has spaces", "spaces"),
    "empty": ("", "flow.yaml:1:1", "the file is empty", "playbook"),
    "only a comment": ("# nothing\n", "flow.yaml:1:1", "the file is empty", "playbook"),
    "a list": ("- a\n", "flow.yaml:1:1", "a list cannot stand here", "a playbook: a mapping with playbook, summary"),
    "a word": ("playbook\n", "flow.yaml:1:1", "'playbook' cannot stand here", "a mapping"),
    "two documents": (f"{SMALL}---\na: b\n", "flow.yaml:17:1", "a second document begins here", "one document"),
    "an alias": ("playbook: &a x\nsummary: *a\n", "flow.yaml:1:11", "an anchor (&a)", "aliases are not used"),
    "a tag": ("playbook: !!python/name:os.system x\n", "flow.yaml:1:11", "a tag", "without a tag"),
    "a key twice": (
        SMALL.replace("key: once", "key: once\nkey: twice"),
        "flow.yaml:4:1",
        "'key' appears twice",
        "once",
    ),
    "a mapping as a key": ("? {a: b}\n: c\n", "flow.yaml:1:3", "a key must be a simple word", "a word"),
    "unquoted braces": (SMALL.replace("make check", "{{ one }}"), "flow.yaml:6:15", "simple word", "quotes"),
    "unknown key at the top": (SMALL.replace("summary", "sumary"), "flow.yaml:2:1", "'sumary' is not known", "summary"),
    "no name": (SMALL.replace("playbook: small\n", ""), "flow.yaml:1:1", "has no 'playbook'", "playbook: Its name"),
    "no summary": (SMALL.replace("summary: One check.\n", ""), "flow.yaml:1:1", "has no 'summary'", "summary"),
    "no steps": ("playbook: a\nsummary: b\nkey: c\n", "flow.yaml:1:1", "has no 'steps'", "steps"),
    "no step in steps": ("playbook: a\nsummary: b\nkey: c\nsteps: []\n", "flow.yaml:4:8", "a list", "at least 1"),
    "an odd name": (SMALL.replace("playbook: small", "playbook: 9/a"), "flow.yaml:1:11", "'9/a' cannot", "a name"),
    "an unknown step": (SMALL.replace("- run: check", "- rum: check"), "flow.yaml:5:5", "'rum' is not known", "run"),
    "a step that is two": (with_check("ask: me"), "flow.yaml:5:5", "a step is run and ask at once", "one of agent"),
    "a name in single quotes": (
        with_input("{help: x}").replace("make check", "grep '{{ one }}' x"),
        "flow.yaml:8:14",
        "{{ one }} stands inside quotes",
        "without quotes",
    ),
    "a name in double quotes": (
        with_input("{help: x}").replace("make check", """'echo \\" "a {{ one }}"'"""),
        "flow.yaml:8:14",
        "{{ one }} stands inside quotes",
        "without quotes",
    ),
    "a name behind a backslash": (
        with_input("{help: x}").replace("make check", "echo 'a\\' \\{{ one }}"),
        "flow.yaml:8:14",
        "{{ one }} stands inside quotes",
        "without quotes",
    ),
    "a step that is a word": (SMALL.replace("steps:\n", "steps:\n  - go\n"), "flow.yaml:5:5", "no step", "agent"),
    "an unknown key of a step": (with_check("comand: x"), "flow.yaml:7:5", "'comand' is not known", "command"),
    "no command": (SMALL.replace("    command: make check\n", ""), "flow.yaml:5:5", "has no 'command'", "command"),
    "an empty command": (SMALL.replace(" make check", ""), "flow.yaml:6:5", "nothing cannot stand", "text"),
    "a time limit without unit": (with_check("time_limit: 90"), "flow.yaml:7:17", "'90'", "90 s, 10 min or 2 h"),
    "must what": (with_check("must: pas"), "flow.yaml:7:11", "'pas'", "pass"),
    "an unknown type": (with_input("{help: x, type: txt}"), "flow.yaml:4:24", "'txt'", "text"),
    "an input without help": (with_input("{type: text}"), "flow.yaml:4:3", "an input has no 'help'", "--help"),
    "a default of another type": (
        with_input("{help: x, type: number, default: many}"),
        "flow.yaml:4:41",
        "'many' is no default",
        "a number",
    ),
    "a default that cannot be chosen": (
        with_input("{help: x, one_of: [fast, slow], default: fst}"),
        "flow.yaml:4:49",
        "'fst' is not known",
        "fast",
    ),
    "a number out of its range": (
        with_input("{help: x, type: number, at_most: 3, default: 9}"),
        "flow.yaml:4:53",
        "out of its range",
        "",
    ),
    "a range for a text": (with_input("{help: x, at_most: 3}"), "flow.yaml:4:3", "largest number", "type number"),
    "a list as an argument": (
        with_input("{help: x, type: list, argument: true}"),
        "flow.yaml:4:3",
        "cannot be an argument",
        "text or file",
    ),
    "a switch of words": (with_input("{help: x, argument: maybe}"), "flow.yaml:4:28", "'maybe'", "true or false"),
    "an input that means something else": (
        with_input("{help: x}").replace("one:", "turn:"),
        "flow.yaml:4:3",
        "'turn'",
        "",
    ),
    "an agent nobody declared": (
        SMALL.replace("steps:\n", "steps:\n  - agent: worker\n    task: x\n"),
        "flow.yaml:5:5",
        "the agent 'worker' is not known",
        "none: there is nothing",
    ),
    "an agent nobody calls": (
        SMALL.replace("key: once", "key: once\nagents:\n  idle: {}"),
        "flow.yaml:5:3",
        "no step calls",
        "a step",
    ),
    "a misspelt agent": (
        with_agent("{}").replace("- agent: worker", "- agent: wroker"),
        "flow.yaml:7:5",
        "'wroker'",
        "worker",
    ),
    "role and instructions": (
        with_agent("{role: a, instructions: b}"),
        "flow.yaml:5:3",
        "a role and instructions",
        "one",
    ),
    "a judge that writes": (
        with_agent("{judges: reading, writes: src/**}"),
        "flow.yaml:5:3",
        "judges, and may write",
        "only",
    ),
    "two runners for a role": (
        with_agent("{runner: mine}").replace("  worker: {", "  other: {role: worker, runner: theirs}\n  worker: {"),
        "flow.yaml:6:3",
        "has the role worker with another runner",
        "one runner",
    ),
    "a repeat that is named inside of itself": (
        FIX.replace("Carry out the plan.", "Carry out the plan, {{ revise }}."),
        "flow.yaml:34:15",
        "the name 'revise' is not known",
        "slug",
    ),
    "a judge that shows nothing": (
        with_agent("{judges: running}"),
        "flow.yaml:7:5",
        "judges by running, and writes down nothing",
        "produces",
    ),
    "a path outside": (with_agent("{writes: ../x}"), "flow.yaml:5:20", "path '../x' is refused", "inside"),
    "an absolute product": (
        with_agent("{}", "task: x\n    produces: /etc/passwd"),
        "flow.yaml:9:15",
        "refused",
        "relative",
    ),
    "an odd heading": (
        with_agent("{}", "task: x\n    produces: {path: a.md, headings: Steps}"),
        "flow.yaml:9:38",
        "'Steps'",
        "## Steps",
    ),
    "no task": (with_agent("{}", "reads: a.md"), "flow.yaml:7:5", "has no 'task'", "task"),
    "a name that nobody fills in": (
        with_agent("{}", "task: Do {{ wrok }}."),
        "flow.yaml:8:11",
        "the name 'wrok' is not known",
        "none: there",
    ),
    "a text that is no text": (with_agent("{}", "task: Do {{ }}."), "flow.yaml:8:11", "cannot be filled in", "names"),
    "a call in a text": (
        with_agent("{}", "task: 'Do {{ range(9) }}.'"),
        "flow.yaml:8:11",
        "a call",
        "Tables decide",
    ),
    "a look into a value": (with_agent("{}", "task: 'Do {{ check.x }}.'"), "flow.yaml:8:11", "a dot", "names"),
    "an unknown filter": (with_agent("{}", "task: 'Do {{ 1 | uper }}.'"), "flow.yaml:8:11", "'uper'", "upper"),
    "a step that is quoted too early": (
        with_agent("{}", "task: x\n    quotes: check"),
        "flow.yaml:7:5",
        "not run on every way",
        "",
    ),
    "a step nobody knows is quoted": (
        with_agent("{}", "task: x\n    quotes: chek"),
        "flow.yaml:7:5",
        "'chek'",
        "findings",
    ),
    "a name twice": (
        SMALL.replace("decide: then_what", "decide: check"),
        "flow.yaml:7:5",
        "is taken",
        "name of its own",
    ),
    "a row without an end": (
        SMALL.replace("passed, then: end good", "passed"),
        "flow.yaml:9:9",
        "where it leads",
        "then",
    ),
    "a row that is a word": (
        SMALL.replace("- {check: passed, then: end good}", "- passed"),
        "flow.yaml:9:9",
        "no row",
        "then",
    ),
    "a way that is none": (SMALL.replace("end good}", "goon}"), "flow.yaml:9:31", "'goon' cannot stand", "go on"),
    "an ending that is none": (SMALL.replace("end good}", "end god}"), "flow.yaml:9:31", "'god' is not known", "good"),
    "an outcome that is none": (SMALL.replace("check: passed", "check: pased"), "flow.yaml:9:9", "'pased'", "passed"),
    "a column that is none": (SMALL.replace("{check: passed", "{chek: passed"), "flow.yaml:9:9", "'chek'", "check"),
    "a column of an ending": (SMALL.replace("{check: passed", "{good: passed"), "flow.yaml:9:9", "'good'", "check"),
    "a missing combination": (
        SMALL.replace("      - {check: failed, then: end bad}\n", ""),
        "flow.yaml:7:5",
        "check failed",
        "every",
    ),
    "a row out of reach": (
        SMALL.replace("{check: failed,", "{check: passed,"),
        "flow.yaml:10:9",
        "no combination comes",
        "above",
    ),
    "a table about nothing": (
        SMALL.replace("check: passed, then: end good", "then: go on").replace(
            "      - {check: failed, then: end bad}\n", ""
        ),
        "flow.yaml:7:5",
        "asks about nothing",
        "a column",
    ),
    "again outside": (SMALL.replace("end good}", "again}"), "flow.yaml:9:31", "`again` stands outside", "go on"),
    "leave outside": (SMALL.replace("end good}", "leave}"), "flow.yaml:9:31", "`leave` stands outside", "go on"),
    "an ending out of reach": (
        SMALL.replace("end bad}", "end good}"),
        "flow.yaml:14:5",
        "no way leads to the ending 'bad'",
        "end bad",
    ),
    "a step out of reach": (
        SMALL.replace("  - end: bad", "  - run: late\n    command: x\n  - end: bad"),
        "flow.yaml:14:5",
        "no way leads to the step 'late'",
        "",
    ),
    "no end": (SMALL.replace("end good}", "go on}").partition("  - end: good")[0], "flow.yaml:7:5", "", "`end` step"),
    "no status": (SMALL.replace("    status: complete\n", ""), "flow.yaml:11:5", "has no 'status'", "status"),
    "an unknown status": (SMALL.replace("complete", "completed"), "flow.yaml:12:13", "'completed'", "complete"),
    "no bound": (FIX.replace("    at_most: 3\n", ""), "flow.yaml:29:5", "has no 'at_most'", "at_most"),
    "too many turns": (FIX.replace("at_most: 3", "at_most: 999"), "flow.yaml:30:14", "'999'", "1 to 100"),
    "no answer to the last turn": (
        FIX.replace("    when_used_up: end no_agreement\n", ""),
        "flow.yaml:29:5",
        "has no 'when_used_up'",
        "last turn",
    ),
    "a repeat that never repeats": (
        FIX.replace("then: again", "then: end nowhere"),
        "flow.yaml:31:19",
        "never used up",
        "again",
    ),
    "a gate that nobody heeds": (
        SMALL.replace("steps:\n", "steps:\n  - ask: which\n    question: Which?\n    choices: {a: x, b: y}\n"),
        "flow.yaml:5:5",
        "no table asks what was answered",
        "decide",
    ),
    "one choice": (
        SMALL.replace("steps:\n", "steps:\n  - ask: which\n    question: Which?\n    choices: {a: x}\n"),
        "flow.yaml:7:14",
        "a mapping",
        "at least 2",
    ),
    "too many combinations": (
        with_agent("{judges: reading, says: severity}")
        .replace(
            "  - agent: worker\n    task: Work.\n",
            "".join(
                ["  - together: all\n    members:\n", *(f"      m{n}: {{agent: worker, task: x}}\n" for n in range(6))]
            ),
        )
        .replace("{check: passed,", "{check: passed, m0: low, m1: low, m2: low, m3: low, m4: low, m5: low,"),
        "flow.yaml:17:5",
        "too many combinations",
        "together",
    ),
    "an outcome that was sent elsewhere": (
        SMALL.replace("end good}", "go on}").replace(
            "  - end: good", "  - decide: once_more\n    rows:\n      - {check: failed, then: end bad}\n  - end: good"
        ),
        "flow.yaml:13:9",
        "'check' cannot be 'failed' here",
        "elsewhere",
    ),
}


@pytest.mark.req("OW-22")
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_with_its_place(name: str) -> None:
    """File, line and column, what is wrong, what was expected, and the nearest known name where there is one."""
    text, where, what, told = MISTAKES[name]
    found = mistakes(text)
    assert found[0].where is not None and found[0].where.startswith("flow.yaml:")
    if where:
        right = [one for one in found if one.where == where and what in one.what]
        assert right, [(one.where, one.what) for one in found]
        assert told in f"{right[0].expected} {right[0].remedy}"
