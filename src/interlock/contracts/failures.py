"""What a command's output says has failed, so that two outputs can be compared (EV-05). Pure."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NAMED = (
    re.compile(r"^(?:FAILED|ERROR)\s+(\S+)"),  # pytest
    re.compile(r"^(?:FAIL|ERROR): (\S+ \(\S+\)|\S+)"),  # unittest
    re.compile(r"^\s*--- FAIL: (\S+)"),  # go
    re.compile(r"^\s*(?:✕|✗|×|✖)\s+(.+)"),  # jest, vitest, node
    re.compile(r"^\s*FAIL\s+(\S.*)"),  # jest, vitest, phpunit
    re.compile(r"^\s*not ok \d+ -? ?(.*)"),  # tap
    re.compile(r"^test (\S+) \.\.\. FAILED"),  # cargo
    re.compile(r"^\s*\d+\) (\S.*)"),  # mocha, rspec
    re.compile(r"^(?:\[ERROR\]|\[  FAILED  \])\s+(\S.*)"),  # maven, gtest
    re.compile(r"^(\S+?):\d+(?::\d+)?: (?:fatal )?error: (.*)"),  # compilers
    re.compile(r"^(\S+?)(?:\(\d+,\d+\))?: error (TS\d+: .*)"),  # tsc
)
_TIMING = re.compile(r"[\[(]?\b\d+(?:\.\d+)? ?(?:ms|s|sec|seconds|m)\b[\])]?")
_NUMBER = re.compile(r"0x[0-9a-f]+|\d+")


def failures_in(output: str) -> frozenset[str]:
    """What failed, by name; where no name can be made out, every line that says something, without its numbers."""
    lines = [_ANSI.sub("", line).rstrip() for line in output.splitlines()]
    named = {" ".join(_TIMING.sub("", " ".join(found.groups())).split()) for line in lines if (found := _found(line))}
    if named:
        return frozenset(named)
    return frozenset(text for line in lines if (text := _NUMBER.sub("#", _TIMING.sub("", line)).strip()))


def _found(line: str) -> re.Match[str] | None:
    return next((found for pattern in _NAMED if (found := pattern.match(line))), None)
