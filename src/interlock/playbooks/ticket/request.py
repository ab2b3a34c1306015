"""What a request says: its ticket, its kind of work, its name, its tools, its success. Pure.

Nothing here understands language.  A request that these rules cannot read is *ambiguous*, and an Interpreter is asked.
"""

from __future__ import annotations

import re
from typing import Any

from interlock.errors import BadInput


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


TICKET = re.compile(r"(?<![A-Za-z0-9_])[A-Z]+-\d+(?![A-Za-z0-9_])")
NOT_TICKETS = _set("AES ANSI CVE ECMA GPT HTTP IEC IEEE ISO PEP RFC RSA SHA TLS UCS UTF WCAG")
"""What stands before the hyphen of standards and formats: `UTF-8`, `SHA-256`, `ISO-8601`."""


def tickets(text: str) -> list[str]:
    """The ticket ids in a text, each once."""
    return list(dict.fromkeys(one for one in TICKET.findall(text) if one.split("-")[0] not in NOT_TICKETS))


def find_ticket(request: str, given: str = "") -> str:
    """The ticket id of a request; BadInput where there is none, or more than one."""
    found = [given] if given else tickets(request)
    if len(found) > 1:
        raise BadInput(f"ERROR: Several JIRA IDs found: {', '.join(found)}. Use --jira.", where="request")
    if not request.strip() or not found or not re.fullmatch(r"[A-Z]+-\d+", found[0]):
        raise BadInput(
            "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING.",
            where="--jira" if given else "request",
            remedy="Put the id into the request, or give --jira ID.",
        )
    return found[0]


# --- kind of work


_KINDS = re.compile(
    r"\b(?:(?P<fix>fix(?:es|ed|ing)?|bugs?|defects?)"
    r"|(?P<feature>features?|add(?:s|ed|ing)?|implement(?:s|ed|ing)?|creat(?:e|es|ed|ing))"
    r"|(?P<chore>refactor(?:s|ed|ing)?|cleanups?|chores?|updat(?:e|es|ed|ing)|improv(?:e|es|ed|ing)))\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(r"\b(somewhere|something|maybe|probably)\b", re.IGNORECASE)


def work_type(request: str) -> str:
    """`fix`, `feature` or `chore`, as the first keyword of the text says; empty: none does."""
    found = _KINDS.search(request)
    return str(found.lastgroup) if found else ""


def unclarity(request: str) -> str:
    """Why rules cannot read the request, the first condition that fails (TK-47); empty: they can."""
    if not work_type(request):
        return "no work-type keyword"
    if _VAGUE.search(request):
        return "a vague word"
    return "" if stated_criteria(request) else "no success criteria"


# --- words

STOP_WORDS = _set(
    """
a about after all also an and any are as at be because been before being both but by can could did do does for from
had has have how if in into is it its just make may more most must need needs not of on only or other our out over
please shall should so some such than that the their them then there these they this those to under until up use
used using was we were what when where which while who why will with within without would you your
"""
)


def words(text: str) -> list[str]:
    """The significant words of a text in lower case, without ticket ids."""
    plain = TICKET.sub(" ", text).lower().replace("'", "")
    return [word for word in re.findall(r"[a-z0-9]+", plain) if word not in STOP_WORDS]


def slug(request: str, work: str) -> str:
    """Three words in snake case that name the work."""
    return "_".join([*words(request)[:3], work, "task", "task"][:3])


# --- success

_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_DEMANDS = re.compile(r"\b(?:should|must|so that)\b|\bwhen\b.*\bthen\b", re.IGNORECASE | re.DOTALL)
ALWAYS_CRITERIA = ("build passes", "tests pass")


def stated_criteria(request: str) -> list[str]:
    """What the request itself says about success: demands, list items, or else what is to be worked on."""
    parts = [_ITEM.sub("", part).strip() for part in re.split(r"(?<=[.!?])\s+|\n+", request)]
    found = [part for part in parts if _DEMANDS.search(part)]
    found += [_ITEM.sub("", line).strip() for line in request.splitlines() if _ITEM.match(line)]
    if stated := list(dict.fromkeys(filter(None, map(_tidy, found)))):
        return stated
    return [_tidy(part) for part in parts if (at := _KINDS.search(part)) and len(words(part[at.end() :])) >= 2][:1]


def _tidy(sentence: str) -> str:
    return " ".join(TICKET.sub(" ", sentence).split()).strip(" :,-")


# --- tools

KNOWN_TOOLS = _set(
    """
ansible black bun cargo chrome-devtools clang cmake context7 curl cypress docker eslint ffmpeg gcc git gradle
graphql grpc helm jest jq kafka kubectl kubernetes make maven mocha mypy mysql nginx node npm openapi playwright
pnpm poetry postgres postgresql prettier puppeteer pytest redis ripgrep ruff rustfmt selenium sqlite strace
tailwind terraform tox uv vite vitest webpack yarn
"""
)
_TOOL = r"\s+(?:(?:the|a|an|our|your)\s+)?(`[^`\n]+`|[A-Za-z][\w.+#/-]*[\w+#]|[A-Za-z])"
_ALWAYS = re.compile(rf"\b(?:MUST use|leverage|integrate with){_TOOL}", re.IGNORECASE)
_SOMETIMES = re.compile(rf"\b(?:use|with|using){_TOOL}", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;!?](?=\s|$)|\n")
_WORDINGS = re.compile(
    r"\b(?:(?P<planner>analy[sz]|inspect|investigat|research|diagnos|see the page)"
    r"|(?P<developer>implement|build|built|fix|creat|deploy))",
    re.IGNORECASE,
)
_AT_RUNTIME = re.compile(
    r"\b(?:verif|check|run|execut|test|browser|page|screenshot|inspect|open|click|devtools|playwright|selenium|cypress|"
    r"puppeteer)",
    re.IGNORECASE,
)


def tool_mandates(request: str) -> list[dict[str, str]]:
    """The tools that are demanded, in the order of the text; each text is a part of the request as it stands."""
    found = {match.start(1): match for match in _SOMETIMES.finditer(request) if _is_tool(match[1])}
    found |= {match.start(1): match for match in _ALWAYS.finditer(request)}
    return [_mandate(request, found[place]) for place in sorted(found)]


def _is_tool(word: str) -> bool:
    if TICKET.fullmatch(word) or word.split("-", maxsplit=1)[0] in NOT_TICKETS:
        return False
    return word.startswith("`") or word.lower() in KNOWN_TOOLS or (word[0].isupper() and word != "I")


def _mandate(request: str, match: re.Match[str]) -> dict[str, str]:
    text = (match[0] + _CLAUSE_END.split(request[match.end() :])[0]).rstrip()
    before = _CLAUSE_END.split(request[: match.start()])[-1]
    return {"text": text, "tool": match[1].strip("`"), "assigned_agent": assigned_agent(text, before)}


def assigned_agent(text: str, before: str = "") -> str:
    """Who a mandate is for: its first wording about looking into or making things, else the last one before it."""
    found = [*_WORDINGS.finditer(text)][:1] or [*_WORDINGS.finditer(before)][-1:]
    return str(found[0].lastgroup) if found else "developer"


def needs_runtime(mandate: str) -> bool:
    """Whether a mandate can only be met by looking at the running program."""
    return bool(_AT_RUNTIME.search(mandate))


def reading(ticket: str, request: str, at: str) -> dict[str, Any]:
    """What a clear request says: prompt.yaml."""
    work = work_type(request)
    return {
        "jira": ticket,
        "type": work,
        "slug": slug(request, work),
        "tool_mandates": tool_mandates(request),
        "original_request": request,
        "refined_prompt": _tidy(request) or request.strip(),
        "success_criteria": [*stated_criteria(request), *ALWAYS_CRITERIA],
        "created_at": at,
    }
