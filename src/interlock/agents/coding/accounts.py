"""Where each coding agent keeps its login and its settings, and where its model answers.

In a place of its own an agent finds these files and nothing else of its home.  What a person keeps in a key ring of the
system cannot be handed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interlock.agents.environment import looks_secret
from interlock.agents.login_secrets import login_secrets
from interlock.agents.plain_files import read_plain
from interlock.agents.runner import ClientNeeds
from interlock.agents.surroundings import beyond_system, home_of, hosts_of, named_places, program_places

_LARGEST: Final = 1_000_000
_CLOUD_FILES: Final = ("GOOGLE_APPLICATION_CREDENTIALS", "AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")
_BASE_URL: Final = re.compile(r"""base_?url["']?\s*[:=]\s*["'](?P<url>[^"'\s]+)""", re.IGNORECASE)


@dataclass(frozen=True)
class Folders:
    """The folders of one person, as an environment names them."""

    home: Path
    env: Mapping[str, str]

    def named(self, variable: str, usual: str) -> Path:
        """The folder that the variable names, or the usual one in the home."""
        return Path(self.env.get(variable) or self.home / usual)

    @property
    def config(self) -> Path:
        return self.named("XDG_CONFIG_HOME", ".config")

    @property
    def data(self) -> Path:
        return self.named("XDG_DATA_HOME", ".local/share")

    @property
    def cache(self) -> Path:
        return self.named("XDG_CACHE_HOME", ".cache")

    def cloud(self, *switches: str) -> Iterator[Path]:
        """The logins of cloud services, where one of these variables says that the model is reached through them."""
        if any(self.env.get(switch) for switch in switches):
            yield from (self.home / ".aws" / name for name in ("credentials", "config"))
            yield self.config / "gcloud" / "application_default_credentials.json"


def _nothing(_folders: Folders) -> Iterable[Path]:
    return ()


@dataclass(frozen=True)
class AgentAccount:
    """Of one coding agent."""

    login: Callable[[Folders], Iterable[Path]] = _nothing
    """Its own files: the login, and the settings in which a person chose model and service. Names may be patterns."""
    shown: Callable[[Folders], Iterable[Path]] = _nothing
    """Folders that it reads besides."""
    hosts: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    """Variables that name another service."""
    named: tuple[str, ...] = ()
    """Variables that name a file with settings."""
    texts: tuple[str, ...] = ()
    """Variables that hold settings."""


def _claude(folders: Folders) -> Iterator[Path]:
    place = folders.named("CLAUDE_CONFIG_DIR", ".claude")
    yield from (place / name for name in (".credentials.json", "settings.json", ".claude.json"))
    yield folders.home / ".claude.json"
    yield from folders.cloud("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX")


def _codex(folders: Folders) -> Iterator[Path]:
    place = folders.named("CODEX_HOME", ".codex")
    yield from (place / name for name in ("auth.json", "config.toml", "*.config.toml", ".credentials.json"))


def _gemini(folders: Folders) -> Iterator[Path]:
    place = folders.named("GEMINI_CLI_HOME", "") / ".gemini"
    names = ("settings.json", "oauth_creds.json", "google_accounts.json", "gemini-credentials.json", ".env")
    yield from (place / name for name in (*names, "installation_id", "mcp-oauth-tokens*.json"))
    yield from folders.cloud("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA")


def _qwen(folders: Folders) -> Iterator[Path]:
    place = folders.named("QWEN_HOME", ".qwen")
    names = ("settings.json", "oauth_creds.json", ".env", "installation_id", "mcp-oauth-tokens*.json")
    yield from (place / name for name in names)


def _opencode(folders: Folders) -> Iterator[Path]:
    yield from (folders.data / "opencode" / name for name in ("auth.json", "mcp-auth.json"))


def _copilot(folders: Folders) -> Iterator[Path]:
    place = folders.named("COPILOT_HOME", ".copilot")
    yield from (place / name for name in ("config.json", "settings.json", "mcp-config.json"))


ACCOUNTS: Final = {
    "claude": AgentAccount(
        _claude,
        hosts=("api.anthropic.com", "platform.claude.com", "console.anthropic.com", "claude.ai"),
        urls=(
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_AWS_BASE_URL",
            "ANTHROPIC_BEDROCK_BASE_URL",
            "ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
            "ANTHROPIC_FOUNDRY_BASE_URL",
            "ANTHROPIC_VERTEX_BASE_URL",
        ),
    ),
    "codex": AgentAccount(
        _codex,
        hosts=("api.openai.com", "chatgpt.com", "auth.openai.com"),
        urls=("OPENAI_BASE_URL",),
        texts=("CODEX_CONFIG",),
    ),
    "gemini": AgentAccount(
        _gemini,
        hosts=(
            "generativelanguage.googleapis.com",
            "cloudcode-pa.googleapis.com",
            "aiplatform.googleapis.com",
            "oauth2.googleapis.com",
            "www.googleapis.com",
        ),
        urls=("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"),
        named=("GEMINI_CLI_SYSTEM_SETTINGS_PATH", "GEMINI_CLI_SYSTEM_DEFAULTS_PATH"),
    ),
    "qwen": AgentAccount(
        _qwen,
        hosts=("chat.qwen.ai", "portal.qwen.ai", "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com"),
        urls=("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GEMINI_BASE_URL"),
        named=("QWEN_CODE_SYSTEM_SETTINGS_PATH",),
    ),
    "opencode": AgentAccount(
        _opencode,
        shown=lambda folders: (folders.config / "opencode", folders.cache / "opencode"),
        hosts=(
            "opencode.ai",
            "models.dev",
            "api.anthropic.com",
            "api.openai.com",
            "chatgpt.com",
            "generativelanguage.googleapis.com",
            "openrouter.ai",
            "api.githubcopilot.com",
        ),
        named=("OPENCODE_CONFIG", "OPENCODE_CONFIG_DIR", "OPENCODE_MODELS_PATH"),
        texts=("OPENCODE_CONFIG_CONTENT",),
    ),
    "copilot": AgentAccount(
        _copilot,
        # It unpacks itself at its first start, which takes seconds.
        shown=lambda folders: (folders.cache / "copilot" / "pkg",),
        hosts=(
            "api.github.com",
            "*.githubcopilot.com",
        ),
        urls=("COPILOT_PROVIDER_BASE_URL",),
    ),
}


def coding_needs(kind: str, program: str, env: Mapping[str, str], own: Mapping[str, str]) -> ClientNeeds:
    """What the agent of this kind needs, by the environment that it will get; one that is not known, its program alone.

    Args:
        own: the variables that the settings give to it.
    """
    account, home = ACCOUNTS.get(kind, AgentAccount(urls=tuple(filter(_names_a_service, env)))), home_of(env)
    folders = Folders(home, env) if home is not None else None
    login = tuple(dict.fromkeys(_files(account.login(folders)))) if folders is not None else ()
    settings = beyond_system(account.shown(folders)) if folders is not None else ()
    named = named_places(env, (*account.named, *_CLOUD_FILES))
    told = (env.get(name, "") for name in account.texts)
    urls = (
        *(env.get(name, "") for name in account.urls),
        *_urls_in(told),
        *_urls_in(_texts((*login, *named, *settings))),
    )
    return ClientNeeds(
        login=login,
        shown=tuple(dict.fromkeys((*program_places(program, env), *named, *settings))),
        home=home,
        hosts=tuple(dict.fromkeys((*account.hosts, *hosts_of(urls)))),
        can_resume=True,
        secrets={
            **{name: value for name, value in own.items() if looks_secret(name)},
            **login_secrets((*login, *(place for place in named if place.is_file()))),
        },
    )


def _names_a_service(variable: str) -> bool:
    return variable.endswith("_BASE_URL")


def _files(places: Iterable[Path]) -> Iterator[Path]:
    """The files among these that are there; a name may be a pattern."""
    for place in places:
        if place.is_absolute():
            yield from (found for found in sorted(place.parent.glob(place.name)) if found.is_file())


def _texts(places: Iterable[Path]) -> Iterator[str]:
    for place in places:
        files = sorted(place.glob("*.json*")) if place.is_dir() else [place]
        yield from ((read_plain(file.resolve(), _LARGEST) or b"").decode(errors="replace") for file in files)


def _urls_in(texts: Iterable[str]) -> Iterator[str]:
    return (found["url"] for text in texts for found in _BASE_URL.finditer(text))
