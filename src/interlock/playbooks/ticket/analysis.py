"""What the startup analysis concludes from a project's files. Pure: files come in as text and digests.

Whether the documentation can be trusted, what makes it out of date, and which files a request is probably about.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from interlock.contracts import YamlKeys, is_test
from interlock.engine import PROJECT_FILES
from interlock.playbooks.ticket.request import STOP_WORDS, words

FALLBACK_CORES = 2
MOST_PARALLEL = 8


def parallel_tasks(said: str, bound: int | None) -> int:
    """Tasks side by side: the number of cores that the machine says, at least 1; 2 where it says nothing."""
    found = re.search(r"\d+", said)
    cores = int(found[0]) if found else FALLBACK_CORES
    return max(1, min(cores or FALLBACK_CORES, MOST_PARALLEL, bound or MOST_PARALLEL))


# -- documentation

DOCS = ("docs/ARCHITECTURE.md", "docs/CODE_STYLE.md", "docs/FINDINGS.md")
CACHE = "docs/docs_cache_state.yaml"
MANIFESTS = (*(name for name in PROJECT_FILES if "*" not in name), "requirements.txt")


class DocsTrust(StrEnum):
    TRUSTED = "trusted"
    STALE = "stale"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class DocsState:
    """What the documentation is worth for planning, and which of it has to be renewed."""

    exists: Mapping[str, bool]
    trust: DocsTrust
    renew: tuple[str, ...]

    @property
    def trusted(self) -> bool:
        return self.trust is DocsTrust.TRUSTED

    def to_json(self) -> dict[str, bool]:
        """`startup.docs_state`."""
        names = ("architecture_exists", "code_style_exists", "findings_exists")
        there = {name: self.exists[path] for name, path in zip(names, DOCS, strict=True)}
        return {**there, "docs_trusted_for_planning": self.trusted, "refresh_required": not self.trusted}


NOT_LISTED = (*DOCS, CACHE, ".gitignore")
"""What a ticket itself brings along; it does not make documentation out of date."""


def fingerprint(listed: str, manifests: Mapping[str, str]) -> str:
    """SHA-256 over the listing of the tracked files and the manifests' digests."""
    lines = [listed, *(f"{path} {manifests[path]}" for path in sorted(manifests))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def docs_state(digests: Mapping[str, str], cache: Any, now: str) -> DocsState:
    """The state of the documentation: `digests` of the documents there are, the cache's data, today's fingerprint."""
    exists = {path: bool(digests.get(path)) for path in DOCS}
    if not isinstance(cache, dict):
        return DocsState(exists, DocsTrust.UNKNOWN, DOCS)
    kept = {path: _entry(cache, path) for path in DOCS}
    known, said = is_digest(cache.get("workspace_fingerprint")), cache.get("trust_status")
    valid = {
        path
        for path, entry in kept.items()
        if entry.get("state") == "fresh" and is_digest(entry.get("sha256")) and entry["sha256"] == digests.get(path)
    }
    same_tree = known and cache["workspace_fingerprint"] == now
    renew = tuple(path for path in DOCS if not same_tree or path not in valid)
    evidence = known and all(is_digest(entry.get("sha256")) for entry in kept.values())
    if said == DocsTrust.TRUSTED and not renew and cache.get("refresh_required") is False:
        return DocsState(exists, DocsTrust.TRUSTED, ())
    return DocsState(
        exists,
        DocsTrust.STALE if evidence and said in (DocsTrust.TRUSTED, DocsTrust.STALE) else DocsTrust.UNKNOWN,
        renew,
    )


def is_digest(value: object) -> bool:
    """Whether this is evidence: a SHA-256, and neither a placeholder nor nothing."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _entry(cache: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    documents = cache.get("documents")
    entry = documents.get(PurePosixPath(path).name) if isinstance(documents, dict) else None
    return entry if isinstance(entry, dict) else {}


def cache_rule(fingerprint: str, digests: Mapping[str, str]) -> YamlKeys:
    """The rule for the cache that the Initializer leaves; `digests` serve its sample only."""

    def complaints(data: dict[str, Any]) -> Iterator[str]:
        if data.get("workspace_fingerprint") != fingerprint:
            yield f"workspace_fingerprint is not {fingerprint}"
        for path in DOCS:
            if not is_digest(_entry(data, path).get("sha256")):
                yield f"documents.{PurePosixPath(path).name}.sha256 is no SHA-256"

    fresh = {path: {"sha256": digests.get(path) or "0" * 64, "refreshed_at": "", "state": "fresh"} for path in DOCS}
    sample = {
        "trust_status": DocsTrust.TRUSTED.value,
        "workspace_fingerprint": fingerprint,
        "refresh_required": False,
        "documents": {PurePosixPath(path).name: entry for path, entry in fresh.items()},
    }
    return YamlKeys({"trust_status": tuple(DocsTrust), "documents": dict}, sample, complaints)


# -- impact

MOST_FILES = 1000
LARGEST = 1_000_000
SHOWN = 20
_PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+|[\w-]+\.[A-Za-z]\w{0,5}\b")


def search_terms(request: str) -> list[str]:
    """What is looked for: paths that the request names, and its words of more than three letters."""
    named = [path.lower() for path in _PATH.findall(request)]
    plain = [word for word in words(request) if len(word) > 3 and word not in STOP_WORDS]
    return list(dict.fromkeys([*named, *plain]))


def impact(likely: Sequence[str]) -> dict[str, list[str]]:
    """`startup.impact_scan`: the files that a request is probably about, best first, and the areas in which they lie:
    their first two folders, `.` for a file at the root."""
    areas = ("/".join(PurePosixPath(path).parent.parts[:2]) or "." for path in likely)
    return {"affected_areas": list(dict.fromkeys(areas)), "likely_files": list(likely)}


# -- what makes documentation out of date

_BUILD_FILES = (
    *PROJECT_FILES,
    *("requirements*.txt", "*.lock", "package-lock.json", "Dockerfile*", "docker-compose*", "compose.y*ml"),
    *("Jenkinsfile", ".gitlab-ci.yml", "*.cmake", "*.mk", "*.gradle"),
)
_CI_FOLDERS = (".github/workflows/", ".circleci/", ".buildkite/", ".azure-pipelines/")


def architecture_relevant(changes: Iterable[tuple[str, str]]) -> bool:
    """Whether changes, as (status letter, path), touch what the documentation describes: a file came, went or was
    renamed outside of tests, or says how the project is built."""
    theirs = [(status, path) for status, path in changes if path != ".gitignore" and path not in DOCS]
    return any(
        (status[:1] in ("A", "D", "R") and not is_test(path))
        or path.startswith(_CI_FOLDERS)
        or any(fnmatchcase(PurePosixPath(path).name, pattern) for pattern in _BUILD_FILES)
        for status, path in theirs
    )
