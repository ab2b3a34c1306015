"""What a request says: its ticket, its kind of work, its name, its tools, its success. Pure.

Nothing here understands language.  A request that these rules cannot read is *ambiguous*, and an Interpreter is asked.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from interlock.errors import BadInput

TICKET = re.compile(r"(?<![A-Za-z0-9_])[A-Z]+-\d+(?![A-Za-z0-9_])")
_STANDARDS = "AES CVE ECMA HTTP IEC IEEE ISO PEP RFC RSA SHA TLS UCS UTF WCAG"
NOT_TICKETS = frozenset(_STANDARDS.split())
"""What stands before the hyphen of standards and formats: `UTF-8`, `SHA-256`, `ISO-8601`."""


class TicketError(BadInput):
    """The ticket cannot be worked on as things are."""


def find_ticket(request: str, given: str | None = None) -> str:
    """The ticket id of a request; `TicketError` when there is none or more than one."""
    form = "capital letters, a hyphen, digits"
    if given is not None:
        if not re.fullmatch(r"[A-Z]+-\d+", given):
            said = f"ERROR: {given!r} is no JIRA ID (expected a pattern like ABC-123). STOPPING."
            raise TicketError(said, where="--jira", expected=form, found=repr(given))
        return given
    found = list(dict.fromkeys(one for one in TICKET.findall(request) if one.split("-")[0] not in NOT_TICKETS))
    if not found:
        raise TicketError(
            "ERROR: No JIRA ID found (expected a pattern like ABC-123). STOPPING.",
            where="request",
            expected=f"a ticket id, {form}",
            found=repr(request[:200]),
            remedy="Put the id into the request, or give it with --jira ABC-123.",
        )
    if len(found) > 1:
        raise TicketError(
            f"ERROR: Several JIRA IDs found: {', '.join(found)}. Use --jira.",
            where="request",
            remedy=f"Say which one is meant, for example: --jira {found[0]}",
        )
    return str(found[0])


# -- kind of work


class WorkKind(StrEnum):
    FIX = "fix"
    FEATURE = "feature"
    CHORE = "chore"


_FORMS = {
    WorkKind.FIX: "fix fixes fixed fixing bug bugs defect defects",
    WorkKind.FEATURE: (
        "feature features add adds added adding implement implements implemented implementing create creates created "
        "creating"
    ),
    WorkKind.CHORE: (
        "refactor refactors refactored refactoring cleanup cleanups chore chores update updates updated updating "
        "improve improves improved improving"
    ),
}
_WORK_OF = {form: work for work, forms in _FORMS.items() for form in forms.split()}
_WORK = re.compile(rf"\b({'|'.join(_WORK_OF)})\b", re.IGNORECASE)
_VAGUE = re.compile(r"\b(somewhere|something|maybe|probably)\b", re.IGNORECASE)


def work_type(request: str) -> WorkKind | None:
    """The kind of work that the first keyword of the text says."""
    found = _WORK.search(request)
    return _WORK_OF[found[1].lower()] if found else None


class Clarity(StrEnum):
    """Why a request can or cannot be read by rules."""

    CLEAR = "clear"
    NO_WORK_TYPE = "no work-type keyword"
    VAGUE = "a vague word"
    NO_CRITERIA = "no success criteria"


def clarity(request: str) -> Clarity:
    """Whether code can process the request, and if not, the first condition that fails."""
    if work_type(request) is None:
        return Clarity.NO_WORK_TYPE
    if _VAGUE.search(request):
        return Clarity.VAGUE
    return Clarity.CLEAR if stated_criteria(request) else Clarity.NO_CRITERIA


# -- words

_STOP_WORDS = """
a about after all also an and any are as at be because been before being both but by can could did do does for from
had has have how if in into is it its just make may more most must need needs not of on only or other our out over
please shall should so some such than that the their them then there these they this those to under until up use
used using was we were what when where which while who why will with within without would you your
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
_WORD = re.compile(r"[a-z0-9]+")


def words(text: str) -> list[str]:
    """The words of a text in lower case, accents dropped, without ticket ids."""
    plain = unicodedata.normalize("NFKD", TICKET.sub(" ", text)).encode("ascii", "ignore").decode().lower()
    return _WORD.findall(plain.replace("'", ""))


def slug(request: str, work: WorkKind) -> str:
    """Three words in snake case that name the work."""
    significant = [word for word in words(request) if word not in STOP_WORDS]
    return "_".join([*significant[:3], work.value, "task", "task"][:3])


# -- success

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d+[.)])\s+")
_DEMANDS = re.compile(r"\b(?:should|must|so that)\b|\bwhen\b.*\bthen\b", re.IGNORECASE | re.DOTALL)
ALWAYS_CRITERIA = ("build passes", "tests pass")


def sentences(request: str) -> list[str]:
    found = (_ITEM.sub("", part).strip() for part in _SENTENCE.split(request))
    return [part for part in found if part]


def stated_criteria(request: str) -> list[str]:
    """What the request itself says about success: demands, list items, or else what is to be worked on."""
    items = [_ITEM.sub("", line).strip() for line in request.splitlines() if _ITEM.match(line)]
    demands = [_tidy(part) for part in sentences(request) if _DEMANDS.search(part)]
    if found := list(dict.fromkeys(filter(None, (*demands, *map(_tidy, items))))):
        return found
    return [_tidy(part) for part in sentences(request) if _object_words(part) >= 2][:1]


def _object_words(sentence: str) -> int:
    """Significant words behind the first keyword of the sentence."""
    found = _WORK.search(sentence)
    return len([word for word in words(sentence[found.end() :]) if word not in STOP_WORDS]) if found else 0


def _tidy(sentence: str) -> str:
    return " ".join(TICKET.sub(" ", sentence).split()).strip(" :,-")


# -- tools


class TicketAgent(StrEnum):
    PLANNER = "planner"
    DEVELOPER = "developer"


@dataclass(frozen=True)
class Mandate:
    """A tool that the user demands, in the user's words."""

    text: str
    tool: str
    assigned_agent: TicketAgent


_KNOWN_TOOLS = """
ansible black bun cargo chrome-devtools clang cmake context7 curl cypress docker eslint ffmpeg gcc git gradle
graphql grpc helm jest jq kafka kubectl kubernetes make maven mocha mypy mysql nginx node npm openapi playwright
pnpm poetry postgres postgresql prettier puppeteer pytest redis ripgrep ruff rustfmt selenium sqlite strace
tailwind terraform tox uv vite vitest webpack yarn
"""
KNOWN_TOOLS = frozenset(_KNOWN_TOOLS.split())
_ARTICLE = r"(?:(?:the|a|an|our|your)\s+)?"
_TOOL = r"(`[^`\n]+`|[A-Za-z][\w.+#/-]*[\w+#]|[A-Za-z])"
_ALWAYS = re.compile(rf"\b(?:MUST use|leverage|integrate with)\s+{_ARTICLE}{_TOOL}", re.IGNORECASE)
_SOMETIMES = re.compile(rf"\b(?:use|with|using)\s+{_ARTICLE}{_TOOL}", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.;!?](?=\s|$)|\n|$")
_WORDINGS = {
    TicketAgent.PLANNER: r"\b(?:analy[sz]|inspect|investigat|research|diagnos|see the page)",
    TicketAgent.DEVELOPER: r"\b(?:implement|build|built|fix|creat|deploy)",
}
"""About looking into things, and about making them."""


def tool_mandates(request: str) -> list[Mandate]:
    """The tools that are demanded, in the order of the text; each text is a part of the request as it stands."""
    found: dict[int, re.Match[str]] = {}
    for match in _ALWAYS.finditer(request):
        found[match.start(1)] = match
    for match in _SOMETIMES.finditer(request):
        if match.start(1) not in found and _is_tool(match[1]):
            found[match.start(1)] = match
    return [_mandate(request, found[place]) for place in sorted(found)]


def _is_tool(word: str) -> bool:
    if TICKET.fullmatch(word) or word.split("-", maxsplit=1)[0] in NOT_TICKETS:
        return False
    return word.startswith("`") or word.lower() in KNOWN_TOOLS or (word[0].isupper() and word != "I")


def _mandate(request: str, match: re.Match[str]) -> Mandate:
    end = next(place.start() for place in _CLAUSE_END.finditer(request, match.end()))
    begin = max((place.end() for place in _CLAUSE_END.finditer(request, 0, match.start())), default=0)
    begin = begin if begin < match.start() else 0
    text = request[match.start() : end].rstrip()
    return Mandate(text, match[1].strip("`"), assigned_agent(text, request[begin : match.start()]))


def assigned_agent(text: str, before: str = "") -> TicketAgent:
    """Who a mandate is for: the first wording about looking into or making things, the mandate's own words first."""
    for part in (text, before):
        found = {agent: re.search(words, part, re.IGNORECASE) for agent, words in _WORDINGS.items()}
        hits = {match.start(): agent for agent, match in found.items() if match}
        if hits:
            return hits[min(hits)]
    return TicketAgent.DEVELOPER


_AT_RUNTIME = re.compile(
    r"\b(?:verif|check|run|execut|test|browser|page|screenshot|inspect|open|click|devtools|playwright|selenium|cypress|"
    r"puppeteer)",
    re.IGNORECASE,
)


def needs_runtime(mandate: str) -> bool:
    """Whether a mandate can only be met by looking at the running program."""
    return bool(_AT_RUNTIME.search(mandate))


# -- the whole


def reading(ticket: str, request: str) -> dict[str, Any]:
    """What a clear request says: prompt.yaml, but for the moment at which it is written."""
    work = work_type(request)
    assert work is not None
    return {
        "jira": ticket,
        "type": work.value,
        "slug": slug(request, work),
        "tool_mandates": [asdict(mandate) for mandate in tool_mandates(request)],
        "original_request": request,
        "refined_prompt": _tidy(request) or request.strip(),
        "success_criteria": [*stated_criteria(request), *ALWAYS_CRITERIA],
    }
