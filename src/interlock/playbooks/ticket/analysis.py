"""What the startup analysis finds in a tree: the worth of the documentation, and the files a request is about. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

from interlock.engine.kept import Kept, complaints, dumped, parsed
from interlock.engine.run import Look
from interlock.playbooks.ticket.documents import CACHE
from interlock.playbooks.ticket.request import words
from interlock.workspace.scope import within
from interlock.workspace.values import Change

DOCS = ("docs/ARCHITECTURE.md", "docs/CODE_STYLE.md", "docs/FINDINGS.md")
OURS = (*DOCS, CACHE, ".gitignore")
"""What a ticket itself brings along: it does not make documentation out of date."""
MANIFESTS = (
    *("package.json", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "Cargo.toml", "go.mod", "pom.xml"),
    *("build.gradle", "build.gradle.kts", "*.sln", "*.csproj", "CMakeLists.txt", "Makefile", "requirements*.txt"),
)
_BUILT_BY = (
    *(*MANIFESTS, "*.lock", "package-lock.json", "Dockerfile*", "docker-compose*", "compose.y*ml", "Jenkinsfile"),
    *(".gitlab-ci.yml", "*.cmake", "*.mk", "*.gradle"),
)
LEGACY = (
    *("startup_context.yaml", "context_compact.yaml", "validation_plan.yaml", "task_packets/**"),
    *("logs/task_*_summary.yaml", "summaries/task_*_summary.yaml"),
)
_CI = (".github/workflows/", ".circleci/", ".buildkite/", ".azure-pipelines/")
MOST_FILES, LARGEST, SHOWN = 1000, 1_000_000, 20
MOST_PARALLEL = 8


def survey(look: Look, request: str) -> dict[str, Any]:
    """What the startup analysis finds: the worth of the documentation, and what the request is about."""
    return {**docs(look), "impact": impact(look, request)}


def artifacts(look: Look, folder: str) -> dict[str, list[str]]:
    """Of a ticket's folder: all files, task files, and what an older model left behind (TK-20)."""
    paths = [path for path in look.paths() if path.startswith(folder)]
    return {
        "all": paths,
        "tasks": [path for path in paths if within(path.removeprefix(folder), ("iteration_*/tasks.yaml",))],
        "legacy": [path for path in paths if within(path.removeprefix(folder), LEGACY)],
    }


def parallel_tasks(cores: int) -> int:
    """Tasks side by side: as many as there are cores, 1 to 8; 2 where nobody knows (TK-36)."""
    return max(1, min(cores or 2, MOST_PARALLEL))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def fingerprint(look: Look) -> str:
    """SHA-256 over the paths and the manifests."""
    paths = [path for path in look.paths() if path not in OURS and not path.startswith(("prompts/", ".interlock/"))]
    manifests = [path for path in paths if _is(path, MANIFESTS)]
    return _digest("\n".join([*paths, *(f"{path} {_digest(look.read(path) or '')}" for path in manifests)]))


class Entry(Kept):
    """What the cache says of one document."""

    sha256: str = ""
    state: str = ""


class Cache(Kept):
    """`docs/docs_cache_state.yaml` (4.6), as far as it can be evidence."""

    trust_status: str = ""
    workspace_fingerprint: str = ""
    refresh_required: Any = None
    documents: dict[str, Entry] = {}

    @classmethod
    def of(cls, text: str | None) -> Cache:
        return Cache() if text is None or complaints(Cache, text, CACHE) else parsed(Cache, text, CACHE)

    def known(self, path: str) -> Entry:
        return self.documents.get(path.rpartition("/")[2], Entry())


def docs(look: Look) -> dict[str, Any]:
    """`startup.docs_state`, how far the documentation is trusted, and what of it is to be renewed (TK-40, TK-42).

    Believed by its evidence alone: hashes and fingerprint are computed anew.
    """
    digests = {path: _digest(text) for path in DOCS if (text := look.read(path)) is not None}
    now, cache = fingerprint(look), Cache.of(look.read(CACHE))
    fresh = {path: cache.known(path) == Entry(sha256=digests.get(path, "-"), state="fresh") for path in DOCS}
    renew = [path for path in DOCS if cache.workspace_fingerprint != now or not fresh[path]]
    evidence = all(map(_is_digest, (cache.workspace_fingerprint, *(cache.known(path).sha256 for path in DOCS))))
    trusted = cache.trust_status == "trusted" and not renew and cache.refresh_required is False
    trust = "trusted" if trusted else "stale" if evidence and cache.trust_status in ("trusted", "stale") else "unknown"
    there = {f"{path[5:-3].lower()}_exists": path in digests for path in DOCS}
    state = {**there, "docs_trusted_for_planning": trusted, "refresh_required": not trusted}
    return {"state": state, "trust": trust, "renew": [] if trusted else renew or list(DOCS), "fingerprint": now}


def cache_problems(text: str | None, fingerprint: str) -> list[str]:
    """What is wrong with the cache that the Initializer left."""
    left = Cache.of(text)
    wrong = [] if left.workspace_fingerprint == fingerprint else [f"workspace_fingerprint is not {fingerprint}"]
    wrong += [f"sha256 of {path} is no SHA-256" for path in DOCS if not _is_digest(left.known(path).sha256)]
    return [f"ERROR: docs_cache_state.yaml: {one}" for one in wrong]


def cache(fingerprint: str) -> str:
    """A cache that would do, for who plays by script."""
    entry = {"sha256": _digest("# Documentation\n"), "refreshed_at": "2026-01-01T00:00:00Z", "state": "fresh"}
    head = {"trust_status": "trusted", "workspace_fingerprint": fingerprint, "refresh_required": False}
    return dumped({**head, "documents": {path.rpartition("/")[2]: entry for path in DOCS}})


def _is_digest(value: str) -> bool:
    """Evidence, and neither a placeholder nor nothing."""
    return re.fullmatch("[0-9a-f]{64}", value) is not None


def impact(look: Look, request: str) -> dict[str, list[str]]:
    """`startup.impact_scan`: the files that a request is probably about, best first, and their first two folders."""
    named = [path.lower() for path in re.findall(r"[\w.-]+(?:/[\w.-]+)+|[\w-]+\.[A-Za-z]\w{0,5}\b", request)]
    terms = list(dict.fromkeys([*named, *(word for word in words(request) if len(word) > 3)]))
    paths = [path for path in look.paths() if not path.startswith(("prompts/", ".interlock/"))]
    hits = {path: 10 * sum(term in path.lower() for term in terms) for path in paths}
    for path in sorted(paths, key=lambda path: (-hits[path], path))[:MOST_FILES] if terms else ():
        text = look.read(path) or ""
        if len(text) <= LARGEST:
            hits[path] += sum(term in text.lower() for term in terms)
    likely = [path for path in sorted(paths, key=lambda path: (-hits[path], path)) if hits[path]][:SHOWN]
    areas = ("/".join(path.split("/")[:-1][:2]) or "." for path in likely)
    return {"affected_areas": list(dict.fromkeys(areas)), "likely_files": likely}


def architecture_relevant(changes: Sequence[Change]) -> bool:
    """Whether what the documentation describes changed: a file came or went outside of tests, or says how it is
    built."""
    return any(
        (one.kind != "changed" and not re.search(r"(^|/)(tests?|spec)(/|_)|(_|\.)(test|spec)\.", one.path))
        or one.path.startswith(_CI)
        or _is(one.path, _BUILT_BY)
        for one in changes
        if one.path not in OURS and not one.path.startswith("prompts/")
    )


def _is(path: str, patterns: Sequence[str]) -> bool:
    return within(path.rpartition("/")[2], patterns)
