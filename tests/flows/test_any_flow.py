"""Whatever the loader lets pass can be played to its end, and keeps every rule."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interlock.engine import Options, Status
from interlock.errors import ConfigInvalid
from interlock.flows import read, rehearsal

HEAD = """playbook: any
summary: Anything.
key: once
agents:
  worker: {instructions: You work., writes: src/**}
  judge: {instructions: You judge., judges: reading, says: severity}
steps:
  - {run: start, command: make}
  - decide: after_start
    rows:
      - {start: passed, then: go on}
      - {start: failed, then: end bad}
  - {agent: worker, task: Work., name: first}
  - {agent: judge, task: Judge., name: weighed}
"""
TAIL = """  - {end: good, status: complete, words: Good.}
  - {end: bad, status: failed, words: Bad., quotes: findings}
"""
KINDS = {
    "run": ("{{run: {name}, command: 'make {name}'}}", ("passed", "failed")),
    "must": ("{{run: {name}, command: 'make {name}', must: pass}}", ("passed", "failed")),
    "agent": (
        "{{agent: worker, name: {name}, task: Work., quotes: findings}}",
        ("pass", "revise", "blocked", "failed"),
    ),
    "judge": (
        "{{agent: judge, name: {name}, task: Judge.}}",
        ("none", "low", "medium", "high", "critical", "failed"),
    ),
    "ask": ("{{ask: {name}, question: 'What now?', choices: {{a: x, b: y, c: z}}}}", ("a", "b", "c")),
}


@st.composite
def flows(draw: st.DrawFn) -> str:
    """Steps of every kind with a table behind each, in repeats inside of repeats."""
    lines: list[str] = []
    count = 0

    def steps(indent: str, depth: int, most: int) -> None:
        nonlocal count
        for _ in range(draw(st.integers(1, most))):
            count += 1
            name = f"s{count}"
            if depth < 2 and draw(st.integers(0, 2)) == 0:
                used_up = draw(st.sampled_from(["go on", "end bad", *(["again", "leave"] if depth else [])]))
                lines.append(f"{indent}- repeat: {name}")
                lines.append(f"{indent}  at_most: {draw(st.integers(1, 3))}")
                lines.append(f"{indent}  when_used_up: {used_up}")
                lines.append(f"{indent}  steps:")
                steps(f"{indent}    ", depth + 1, 2)
                continue
            text, words = KINDS[draw(st.sampled_from(sorted(KINDS)))]
            lines.append(f"{indent}- {text.format(name=name)}")
            ways = ["go on", "end bad", *(["again", "leave"] if depth else [])]
            rows = [(words[0], draw(st.sampled_from(["go on", *ways[2:]])))]
            rows += [(word, draw(st.sampled_from(ways))) for word in words[1:]]
            lines.extend((f"{indent}- decide: d{count}", f"{indent}  rows:"))
            lines.extend(f"{indent}    - {{{name}: {word}, then: {way}}}" for word, way in rows)

    steps("  ", 0, 3)
    return HEAD + "\n".join(lines) + "\n" + TAIL


@pytest.mark.req("OW-23", "OW-24")
@pytest.mark.long
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(flows())
def test_any_flow_that_is_read_keeps_every_rule(text: str) -> None:
    """No path ends in anything but one of its endings, and no rule breaks on it."""
    try:
        setup = rehearsal(read(text, "flow.yaml"))
    except ConfigInvalid:
        return
    endings: Counter[Status] = Counter()
    for played in setup.paths(Options(), most=1):
        assert setup.broken(played) == []
        endings[played.finished.status] += 1
    assert set(endings) <= {Status.COMPLETE, Status.FAILED, Status.STOPPED}
    assert endings[Status.FAILED]
