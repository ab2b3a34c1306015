"""Write scopes: which paths an agent may change.

A pattern is a path with ``?`` (one character), ``*`` (any within a folder's name) and ``**`` (any folders, also
none); all other characters, brackets too, stand for themselves.  ``dir/`` and ``dir/**`` are everything below a
folder.  A leading ``!`` excludes; an exclusion wins over every other pattern, whatever the order.

Some names are protected: what steers agents and tools, git's and interlock's own.  No wildcard stands for a protected
name, at any depth and in whatever case it is written: ``**`` does not cover ``docs/CLAUDE.md``, ``docs/CLAUDE.md``
does; ``.github/**`` covers ``.github/workflows/ci.yml`` and not ``.github/AGENTS.md``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final

from interlock.errors import PathRefused
from interlock.workspace.paths import normal

ALWAYS_PROTECTED: Final = ("interlock.toml", ".interlock", ".git")
"""Protected whatever the settings say."""

DEFAULT_PROTECTED: Final = (
    *ALWAYS_PROTECTED,
    # what coding agents read by themselves: instructions, settings, hooks, tools
    *("CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "AGENTS.override.md", "AGENT.md", "GEMINI.md", "QWEN.md"),
    *("CRUSH.md", "WARP.md", ".agents", ".claude", ".codex", ".gemini", ".geminiignore", ".qwen", ".qwenignore"),
    *(".opencode", "opencode.json", "opencode.jsonc", ".copilot", ".mcp.json", ".cursor", ".cursorrules"),
    *(".cursorignore", ".windsurf", ".windsurfrules", ".clinerules", ".roo", ".roorules", ".roomodes", ".kiro"),
    *(".amazonq", ".augment", ".factory", ".junie", ".goose", ".goosehints", ".continue", ".crush", ".rules"),
    *(".aider.conf.yml", ".aiderignore", ".aiignore"),
    # what a forge runs by itself
    *(".github", ".gitlab", ".gitlab-ci.yml", ".forgejo", ".gitea", ".circleci", ".buildkite", ".woodpecker"),
    *(".travis.yml", ".drone.yml", "azure-pipelines.yml", "bitbucket-pipelines.yml", "Jenkinsfile"),
    # what an editor, a shell or git runs by itself
    *(".vscode", ".idea", ".zed", ".devcontainer", ".devcontainer.json", ".envrc", ".mise.toml", "mise.toml"),
    *(".gitattributes", ".gitmodules", ".husky", ".githooks", "lefthook.yml", ".lefthook.yml"),
    ".pre-commit-config.yaml",
    # where package managers get programs from
    *(".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml", ".cargo", "uv.toml"),
)
"""Protected unless the settings have a list of their own."""


def protected_names(given: Iterable[str] | None = None) -> frozenset[str]:
    """The protected names for scopes: those given, else the default list; what always is protected in any case."""
    return frozenset((*ALWAYS_PROTECTED, *(DEFAULT_PROTECTED if given is None else given)))


@dataclass(frozen=True)
class Scope:
    """The paths that at least one pattern covers, no exclusion hits, and every bound covers too."""

    patterns: tuple[str, ...]
    bounds: tuple[Scope, ...] = ()
    named: tuple[str, ...] = ()
    """Files covered although an exclusion hits them: what somebody must produce, they may write."""
    protected: frozenset[str] = frozenset()
    """Names of files and folders that no wildcard stands for; their case does not count."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "patterns", tuple(_normal_pattern(pattern) for pattern in self.patterns))
        object.__setattr__(self, "protected", _casefolded(self.protected))

    def covers(self, path: str) -> bool:
        """Whether the file `path` may be changed; never for a path that leaves the workspace."""
        try:
            path = normal(path)
        except PathRefused:
            return False
        return self._covers(path)

    def within(self, parent: Scope) -> Scope:
        """The scope of what both cover: a nested run never gets more than its parent's dispatch has.

        What is protected here must be named by the parent too.
        """
        bound = replace(parent, protected=parent.protected | self.protected)
        return replace(self, bounds=(*self.bounds, bound))

    def narrowed(self, inner: Scope) -> Scope:
        """`inner`, cut down to this scope."""
        return inner.within(self)

    def _covers(self, path: str) -> bool:
        return (path in self.named or self._hits(path)) and all(bound._covers(path) for bound in self.bounds)

    def _hits(self, path: str) -> bool:
        included, excluded = self._expressions
        return bool(included.fullmatch(self._marked(path))) and not excluded.fullmatch(path)

    def _marked(self, path: str) -> str:
        """The path with a mark before every protected name."""
        if not self.protected:
            return path
        return "/".join(_MARK + part if part.casefold() in self.protected else part for part in path.split("/"))

    @cached_property
    def _expressions(self) -> tuple[re.Pattern[str], re.Pattern[str]]:
        included = tuple(pattern for pattern in self.patterns if not pattern.startswith("!"))
        excluded = tuple(pattern[1:] for pattern in self.patterns if pattern.startswith("!"))
        return _any_of(included), _any_of(excluded)


@lru_cache(maxsize=64)
def _casefolded(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.casefold() for name in names)


_MARK: Final = "\0"
"""Before a protected name. No path has it, no wildcard stands for it; a name that is spelled out may follow it."""


@lru_cache(maxsize=4096)
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    nothing = r"(?!)"
    return re.compile("|".join(map(_expression, patterns)) or nothing)


def _expression(pattern: str) -> str:
    *folders, last = pattern.split("/")
    any_folders, any_name = r"(?:[^/\0]+/)*", r"[^/\0]*"
    above = "".join(any_folders if part == "**" else f"{_name(part)}/" for part in folders)
    return above + (any_folders + any_name if last == "**" else _name(last))


_WILD: Final = {"*": r"[^/\0]*", "?": r"[^/\0]"}


def _name(part: str) -> str:
    pieces = re.split(r"(\*+|\?)", part)
    if len(pieces) == 1:
        return r"\0?" + re.escape(part)
    return "".join(_WILD.get(piece[:1]) or re.escape(piece) for piece in pieces)


@lru_cache(maxsize=4096)
def _normal_pattern(pattern: str) -> str:
    bare = pattern.removeprefix("!")
    path = normal(bare)
    if bare.endswith("/"):
        path += "/**"
    return "!" + path if pattern.startswith("!") else path
