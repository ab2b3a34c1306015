"""Single words by which people and programs say that something failed, is open or is not so; never sentences."""

from __future__ import annotations

import re
from typing import Any

_ELSEWHERE = (
    "fehlgeschlagen|gescheitert|nicht bestanden|(?:\u00e9chou\u00e9|echoue)e?s?|\u00e9checs?|echecs?|fall[o\u00f3]"
    "|fallid[oa]s?|falhou|falha|fallit[oaie]|mislukt|misslyckad(?:es)?"
    "|\u043f\u0440\u043e\u0432\u0430\u043b\\w*|\u043d\u0435 \u043f\u0440\u043e\u0439\u0434\u0435\u043d\\w*"
)
"""In other languages."""
_SIGNS = r"\u5931\u8d25|\u5931\u6557|\uc2e4\ud328|\u672a\u901a\u8fc7|[\u274c\u2717\u2718\u2716\u2715\U0001f534]"
FAILED = re.compile(
    r"(?<!\bno )(?<!\bnone )(?<!\bnothing )(?<!\b0 )(?<!\bwithout )"
    r"(?:\b(?:fail\w*|non-?\s?zero|errors?|false|timed? ?out|crash\w*|killed|red|broken|not ok|nok|ko"
    rf"|{_ELSEWHERE})\b|{_SIGNS})",
    re.IGNORECASE,
)
"""Where it is known that a word is about how something ended."""
FAILED_ALONE = re.compile(
    rf"(?:fail(?:ed|s|ing|ure)?|unmet|not met|not satisfied|not ok|nok|{_ELSEWHERE}|(?:{_SIGNS})+)[.!]?", re.IGNORECASE
)
"""Where nothing is known but that it stands alone."""
_OPEN = re.compile(
    r"(?:to-?do|open|pending|not (?:done|started|tested|run|yet|verified|proven|implemented)|incomplete|unfinished|wip"
    r"|in progress|blocked|missing|untested|unverified|unproven|partial(?:ly)?(?: met)?)[.!]?",
    re.IGNORECASE,
)
_NO = re.compile(r"(?:no|false|not yet|never|nein|non)[.!]?", re.IGNORECASE)


_LISTED = "(?:issues?|findings?|failures?|errors?|problems?|blockers?|regressions?|vulnerabilit(?:y|ies)|concerns?)"
_NONE = re.compile(
    r"(?:none|nothing|no|nil|n/?a|not applicable|[-\u2013\u2014]|0(?: ?(?:/|of|out of) ?\d+)?|zero|false"
    r"|keine?|aucune?|ningun[oa]|ning\u00fan|nessun[oa]?|nenhuma?|\u65e0|\u6ca1\u6709|\u306a\u3057|\uc5c6\uc74c"
    r"|\u043d\u0435\u0442|\u043d\u0435 \u043e\u0431\u043d\u0430\u0440\u0443\u0436\u0435\u043d\w"
    rf"|(?:there (?:are|were) )?(?:no|0|zero)(?: (?:blocking|new|known|open|test|lint|remaining|further|critical))*"
    rf" {_LISTED})?"
    r"(?: (?:were |was )?(?:found|known|reported|left|open|identified|detected|noted|observed|remain(?:ing)?))?"
    r"(?: in (?:the |this |these )?[\w-]+(?: [\w-]+)?)?(?:,? \(?(?:\d+ warnings?|warnings: \d+))?"
    r"(?: ?\(0(?: (?:/|of) \d+)?)?[.!)]?",
    re.IGNORECASE,
)


_NOT_NONE = r"(?!\s*[:=]\s*(?:0|none)\b)"
_SAID_FAILED = re.compile(
    rf"(?:[\w ]+: )?(?:fail\w*|crash\w*|killed|timed? ?out|broken|red)\b{_NOT_NONE}.*"
    rf"|(?:[\w ]+: )?(?:{FAILED.pattern}){_NOT_NONE}(?:\s*[^\w\s]| (?:at|in|with|because)\b).*"
    rf"|.*(?:{FAILED.pattern})(?:$|\s*[,.;!].*)",
    re.IGNORECASE | re.DOTALL,
)


def says_failed(ending: str) -> bool:
    """Whether words for how something ended say that it failed: they begin with that, or a part of them ends
    with it."""
    return _SAID_FAILED.fullmatch(ending.strip()) is not None


def says_none(text: str) -> bool:
    """Whether a text that stands where things are listed says that there are none."""
    return _NONE.fullmatch(text.strip(" \t*_`()[]")) is not None


def is_open(word: str) -> bool:
    """Whether a word says that something is not done yet."""
    return _OPEN.fullmatch(word.strip()) is not None


def denies(value: Any) -> bool:
    """Whether a value says no, where yes or no is asked."""
    return value is False or (isinstance(value, str) and _NO.fullmatch(value.strip()) is not None)
