"""What a command's output says: what failed, so that two outputs can be compared (EV-05); that something did, whatever
its exit status (EV-01); that nothing ran (EV-02).  Pure.

Theory of operation.  Programs print how they ended in forms of their own, which nobody uses in a sentence by chance:
these count.  Sentences do not: "test that a failed login is rejected" is about a test that passed."""

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


_TESTS = "(?:tests?|cases?|specs?|examples?|checks?|assertions?|suites?|files?|steps?|jobs?)"
_GOES_ON = rf"(?=\s*(?:[^\w\s]|$)| (?:{_TESTS}|in|of|out|and|but|while|at|after|now|again|so|because|as before)\b)"
"""What may follow; any other word says what failed, and that need not be a test ("2 failed logins are refused")."""
_NOT_NOW = "".join(
    rf"(?<!\b{word} )"
    for word in ("fixed", "fixes", "mended", "resolved", "repaired", "the", "expected", "0 of", "0 out of", "none of")
)
"""It is said of what was so before, of what a test wants, or of none."""
_MENDED = rf"(?! {_TESTS} (?:are |were )?(?:now |all )?(?:fixed|mended|repaired|resolved|pass)\b)"
_WANTED = r"(?! ?\((?:an? |as |all )?(?:expected|xfail|intended)|\s*[:=]\s*0\b)"
_COUNTED = re.compile(
    rf"{_NOT_NOW}(?<![\w.])(?<!\b0/)(?:[1-9]\d*(?: ?(?:/|of|out of) ?(?:the )?\d+)?"
    r"(?: (?!previously|formerly|once)\w+)?"
    rf"|(?:one|two|three|four|five|several|some)(?: \w+)? {_TESTS})"
    r" (?:is |are |was |were |still |has |have )*(?:failed|failing|fails?|errored|(?:did|do|does) not pass"
    r"|not passing)\b"
    rf"{_MENDED}{_WANTED}{_GOES_ON}"
    rf"|{_NOT_NOW}(?<![\w.])[1-9]\d* (?:failures?|errors?)(?=\s*(?:[,.;)|]|$|in \d))"
    rf"|(?<![\w.])[1-9]\d* (?:previously|formerly|once)[ -](?:passing|green) {_TESTS} (?:now |still )?fail\w*"
    r"|(?<!\bexpected )\b(?:failed|failing|failures|errors)\s*[:=]\s*[1-9]"
    r"|\bFound [1-9]\d* errors?\b(?! \(\d+ fixed, 0 remaining\b)",
    re.IGNORECASE,
)
"""That some of it failed, by its number."""
_HISTORY = re.compile(
    r"(?:^|(?<=[;.,(\n] )|(?<=[;(\n]))(?:before(?=:| (?:the|this|that|my|it|any|fix|change)\b)|previously\b|formerly\b"
    r"|(?:on|at) (?:the )?(?:main|master|base)\b|(?<=\()was(?= \d))"
    r"[^;.\n()]*?(?=[;.\n)]|,? (?:now|here|after|but)\b|$)",
    re.IGNORECASE,
)
"""A clause about the time before: it begins with that."""
_PRINTED = re.compile(
    r"(?:^|(?<=[.;:,] ))(?:(?:Traceback \(most recent call last\)|(?:\[\w+\] )?BUILD FAIL(?:URE|ED)|Segmentation fault)"
    r"(?=\s*(?:[:;.,(]|$|in \d))|(?:npm|yarn) (?:ERR!|error)|FAILURES!|error(?:\[E\d{4}\]| TS\d{4}| CS\d{4}): \S"
    r"|FAIL(?:ED)?\s+\S*[./:]\S*|FAILED \(\w+=|fatal error: \S|panic: \S|error: could not compile"
    r"|not ok \d+\b(?![^;\n]*# (?:TODO|SKIP)))"
    r"|(?:^|\s)--- FAIL: \w|\bthread '[^']*' panicked at|\bmake(?:\[\d+\])?: \*\*\* \S|\btest result: FAILED"
    r"|(?:^|[.;:,] )test \S+ \.\.\. FAILED"
    r"|^[ \t]*[\u2715\u2717\u2718\u2716\u274c\u00d7] (?!\d+ problems? \(0 errors)\S",
    re.MULTILINE,
)
"""That something failed, in the words of a program."""
_STATUS = re.compile(
    r"(?:^|[.;,] )(?:the )?(?:process |command )?(?:exit(?:ed|s)?(?:[ _-]?(?:status|code))?|return ?code|rc)"
    r"(?: with)?(?: (?:exit|code|status)){0,2}[ :=]*(?:[1-9]\d*|non-?zero)(?=\s*(?:[.;,]|$))",
    re.IGNORECASE | re.MULTILINE,
)
"""A status that is not 0, as a sentence of its own."""
_PART = re.compile(
    r"(?<!\bshard )(?<!\battempt )(?<![\w./])"
    r"(?:(\d{1,9}) ?(?:/|of|out of) ?(\d{1,9}) (?:\w+ )?(?:pass(?:ed|ing|es)?|green|ok)\b)(?! before\b)",
    re.IGNORECASE,
)
"""How many of how many; not which one of them."""
_NONE_RAN = re.compile(
    r"(?<![\w.])(?:collected 0 items|no tests? (?:ran|run|found|collected|files?|were run|executed)"
    r"|(?:ran|running|run) 0 tests?"
    r"|0 (?:tests?|specs?|examples?)(?: (?:were |was )?(?:ran|run|executed|found|collected))?(?=\s*(?:[.;,)]|$))"
    r"|tests run: 0|0 (?:passed|passing)|no test files"
    r"|all (?:\d+ )?(?:tests? )?(?:were )?skipped(?=\s*(?:[.;,)]|$))|skipped (\d+) of \1\b"
    r"|(\d+) of \2 (?:tests? )?(?:were )?skipped)",
    re.IGNORECASE,
)
_SOME_RAN = re.compile(
    r"(?<![\w.])[1-9]\d* (?:tests? )?(?:pass(?:ed|ing|es)?|ok|green|succeeded)\b|\bran [1-9]"
    r"|\bok\s+\S+\s+\(?(?:[\d.]+s|cached)\b",
    re.IGNORECASE,
)


def told_failed(output: str) -> str:
    """Where an output, or what somebody quotes of it, says that something failed; empty where it does not."""
    text = _HISTORY.sub("", _ANSI.sub("", output))
    found = next((one for form in (_COUNTED, _PRINTED, _STATUS) if (one := form.search(text))), None)
    if found is not None:
        return " ".join(found[0].strip(" .;:,").split())
    part = _PART.search(text)
    short = part is not None and int(part[1]) < int(part[2]) and "skip" not in text.casefold()
    return part[0] if part is not None and short else ""


def told_idle(output: str) -> str:
    """Where an output of tests says that none of them ran; empty where some did."""
    found = _NONE_RAN.search(output)
    return found[0] if found is not None and _SOME_RAN.search(output) is None else ""
