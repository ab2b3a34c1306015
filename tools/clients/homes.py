"""A fresh home for a client in which it knows nobody but the scripted model.

Nothing of the developer's environment gets through but the path, so that no key, proxy or setting of theirs is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.clients.catalogue import client

KEY = "scripted-key-not-a-secret-0123456789"
"""Copilot masks the key wherever it occurs: it must be no word of any text."""

MODELS = {
    "claude": "claude-sonnet-4-5",
    "codex": "gpt-5.5",  # only for a model that it knows does codex offer apply_patch
    "opencode": "scripted/scripted",
    "copilot": "scripted",
    "gemini": "gemini-2.5-pro",
    "qwen": "scripted",
}
"""The model that each client is set up for, as its own command line spells it."""

Environment = dict[str, str]


def environment(name: str, server_url: str, home: Path) -> Environment:
    """The whole environment with which the client talks to the server alone; its settings are written into `home`.

    Args:
        name: of a client or an ACP adapter.
        home: becomes its HOME; made if it is missing.
    """
    for folder in (home, home / "tmp"):
        folder.mkdir(parents=True, exist_ok=True)
    speaks_for = {"claude-acp": "claude", "codex-acp": "codex"}
    return _common(home) | _SETUPS[speaks_for.get(client(name).name, name)](server_url, home)


def _common(home: Path) -> Environment:
    return {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        # beside the settings: codex loses its sandbox's helper when CODEX_HOME is inside of TMPDIR
        "TMPDIR": str(home / "tmp"),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "XDG_DATA_HOME": str(home / ".local" / "share"),
        "XDG_STATE_HOME": str(home / ".local" / "state"),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def _claude(server_url: str, home: Path) -> Environment:
    return {
        "ANTHROPIC_BASE_URL": server_url,
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_MODEL": MODELS["claude"],
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(server_url: str, home: Path) -> Environment:
    provider = {
        "name": "scripted",
        "base_url": f"{server_url}/v1",
        "env_key": "SCRIPTED_KEY",
        "wire_api": "responses",
        "request_max_retries": 1,
        "stream_max_retries": 1,
    }
    settings = {"model": MODELS["codex"], "model_provider": "scripted"}
    # TOML writes strings and numbers as JSON does
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    lines += ["", "[model_providers.scripted]", *(f"{name} = {json.dumps(value)}" for name, value in provider.items())]
    _write(home / ".codex" / "config.toml", "\n".join(lines) + "\n")
    return {
        "CODEX_HOME": str(home / ".codex"),
        "CODEX_CONFIG": json.dumps(settings | {"model_providers": {"scripted": provider}}),
        "SCRIPTED_KEY": KEY,
    }


def _opencode(server_url: str, home: Path) -> Environment:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{server_url}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "scripted"}},
    }
    settings = {
        "provider": {"scripted": provider},
        "model": MODELS["opencode"],
        "small_model": MODELS["opencode"],
    }
    return {
        "OPENCODE_CONFIG": _write(home / ".config" / "scripted" / "opencode.json", json.dumps(settings)),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_SHARE": "1",
    }


def _copilot(server_url: str, home: Path) -> Environment:
    return {
        "COPILOT_AUTO_UPDATE": "false",
        "COPILOT_MODEL": MODELS["copilot"],
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_PROVIDER_BASE_URL": f"{server_url}/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
    }


def _gemini(server_url: str, home: Path) -> Environment:
    settings = {
        "general": {"disableAutoUpdate": True, "maxAttempts": 2},
        "privacy": {"usageStatisticsEnabled": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
    }
    _write(home / ".gemini" / "settings.json", json.dumps(settings))
    return {
        "GEMINI_API_KEY": KEY,
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_MODEL": MODELS["gemini"],
        "GOOGLE_GEMINI_BASE_URL": server_url,
    }


def _qwen(server_url: str, home: Path) -> Environment:
    settings = {
        "general": {"disableAutoUpdate": True},
        "model": {"generationConfig": {"maxRetries": 0}},  # or it waits a minute and more after each 429
        "privacy": {"usageStatisticsEnabled": False},
    }
    _write(home / ".qwen" / "settings.json", json.dumps(settings))
    return {
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{server_url}/v1",
        "OPENAI_MODEL": MODELS["qwen"],
    }


_SETUPS: Mapping[str, Callable[[str, Path], Environment]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
    "copilot": _copilot,
    "gemini": _gemini,
    "qwen": _qwen,
}


def _write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)
