"""Real coding agents in tests: a scripted model, a home for each client in which it knows nobody else, no layer.

Nothing of the developer's environment gets through but the path, so that no key, proxy or setting of theirs is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import clients, scripted_llm

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


@pytest.fixture
def model() -> Iterator[scripted_llm.Model]:
    """A model that does what the words of its human say; `model.rules` may be filled before it is asked."""
    with scripted_llm.serving() as served:
        yield served


def program(name: str) -> str:
    return str(clients.PACKAGES[name].path)


def home(name: str, url: str, place: Path) -> dict[str, str]:
    """The whole environment with which the client talks to the model at `url` alone; `place` becomes its HOME.

    Where the client works in a layer, what it needs of this is in the files below `place` and in its row's variables.
    """
    temporary = place / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    common = {
        "HOME": str(place),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "TMPDIR": str(temporary),  # codex loses its sandbox's helper where its folder is inside of it
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    settings, own = _SETTINGS[name.removesuffix("-acp")], _VARIABLES[name.removesuffix("-acp")]
    for path, text in settings.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text.replace("@URL", url), encoding="utf-8")
    return common | {key: value.replace("@URL", url) for key, value in own.items()}


_PROVIDER = {
    "npm": "@ai-sdk/openai-compatible",
    "name": "scripted",
    "options": {"baseURL": "@URL/v1", "apiKey": KEY},
    "models": {"scripted": {"name": "scripted"}},
}
_OPENCODE = {"provider": {"scripted": _PROVIDER}, "model": MODELS["opencode"], "small_model": MODELS["opencode"]}
_GEMINI = {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}}}
_CODEX = f"""\
model = "{MODELS["codex"]}"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "@URL/v1"
env_key = "CODEX_API_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 1
"""
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "claude": {},
    "codex": {".codex/config.toml": _CODEX},
    "opencode": {".config/opencode/opencode.json": json.dumps(_OPENCODE)},
    "copilot": {},
    "gemini": {".gemini/settings.json": json.dumps(_GEMINI)},
    "qwen": {".qwen/settings.json": json.dumps({"security": {"auth": {"selectedType": "openai"}}})},
}
_VARIABLES: Mapping[str, Mapping[str, str]] = {
    "claude": {"ANTHROPIC_BASE_URL": "@URL", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": MODELS["claude"]},
    "codex": {"CODEX_API_KEY": KEY},
    "opencode": {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"},
    "copilot": {
        "COPILOT_MODEL": MODELS["copilot"],
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_PROVIDER_BASE_URL": "@URL/v1",
        "COPILOT_PROVIDER_TYPE": "openai",
    },
    "gemini": {"GEMINI_API_KEY": KEY, "GEMINI_MODEL": MODELS["gemini"], "GOOGLE_GEMINI_BASE_URL": "@URL"},
    "qwen": {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "@URL/v1", "OPENAI_MODEL": MODELS["qwen"]},
}


@dataclass(frozen=True)
class Plain:
    """How a program is started without a layer."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    pass_fds: Sequence[int] = ()
    exit_file: Path | None = None


@dataclass(frozen=True)
class NoLayer:
    """A stand-in for a layer: the folder itself, held by nobody."""

    root: Path
    exchange: Path
    confined: bool = False
    """What clients are told of it."""

    @property
    def inside_exchange(self) -> str:
        return str(self.exchange)

    def wrap(self, argv: Sequence[str], env: Mapping[str, str], *, cwd: str = ".") -> Plain:
        return Plain(argv, env, str(self.root / cwd))

    def over(self) -> str:
        return ""


@pytest.fixture
def no_layer(tmp_path: Path) -> NoLayer:
    """A workspace and its exchange."""
    layer = NoLayer(tmp_path / "workspace", tmp_path / "exchange")
    layer.root.mkdir()
    layer.exchange.mkdir()
    return layer
