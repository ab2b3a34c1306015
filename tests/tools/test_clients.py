"""The pinned clients: installed once and whole, set up to know nobody but the scripted model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.clients import CLIENTS, HEADLESS, KEY, InstallFailed, cache_folder, client, environment, headless, install
from tools.clients.catalogue import UnknownClient
from tools.clients.recording import CASES, EXITS, neutral

ROOT = Path(__file__).parent.parent.parent
STREAMS = ROOT / "tests" / "agents" / "streams"
URL = "http://127.0.0.1:8000"

FAKE_NPM = """#!/bin/sh
echo "$@" >> "{log}"
[ -e "{fails}" ] && {{ echo "the registry does not answer" >&2; exit 1; }}
mkdir -p node_modules/.bin && echo x > node_modules/.bin/codex
"""


class FakeNpm:
    """A node and an npm on the path that install nothing from nowhere."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "npm.log"
        self.fails = folder / "fails"
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.program("npm", FAKE_NPM.format(log=self.log, fails=self.fails))
        self.node("v20.1.0")

    def node(self, version: str) -> None:
        self.program("node", f"#!/bin/sh\necho {version}\n")

    def program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNpm:
    fake = FakeNpm(tmp_path)
    monkeypatch.setenv("PATH", f"{fake.bin}{os.pathsep}{os.defpath}")
    return fake


def test_a_client_is_installed_whole_and_once(npm: FakeNpm, tmp_path: Path) -> None:
    """npm is called once, with the exact version and no registry; nothing of the making is left."""
    cache = tmp_path / "cache"
    program = install(client("codex"), cache)
    assert install(client("codex"), cache) == program
    assert program == cache / "codex-0.166.0" / "node_modules" / ".bin" / "codex" and program.exists()
    (call,) = npm.calls
    assert call.startswith("install --prefix ") and call.endswith(" @openai/codex@0.166.0")
    assert "--no-audit" in call and "--no-fund" in call and "registry" not in call
    assert sorted(path.name for path in cache.iterdir()) in (
        ["codex-0.166.0"],
        [".codex-0.166.0.lock", "codex-0.166.0"],
    )


def test_two_at_once_install_once(npm: FakeNpm, tmp_path: Path) -> None:
    """The second waits for the first and finds it done."""
    with ThreadPoolExecutor(4) as pool:
        programs = list(pool.map(lambda _: install(client("codex"), tmp_path / "cache"), range(4)))
    assert len(set(programs)) == 1
    assert len(npm.calls) == 1


def test_a_failed_installation_leaves_nothing_and_says_why(npm: FakeNpm, tmp_path: Path) -> None:
    """npm's own words are in the error; the next try starts anew."""
    npm.fails.touch()
    with pytest.raises(InstallFailed) as failed:
        install(client("codex"), tmp_path / "cache")
    assert failed.value.found == "the registry does not answer"
    assert failed.value.remedy is not None and "network" in failed.value.remedy
    assert not client("codex").installed(tmp_path / "cache")
    npm.fails.unlink()
    assert install(client("codex"), tmp_path / "cache").exists()


def test_a_package_without_its_program_is_no_installation(npm: FakeNpm, tmp_path: Path) -> None:
    """What npm calls a success is looked at."""
    with pytest.raises(InstallFailed) as failed:
        install(client("qwen"), tmp_path / "cache")
    assert failed.value.found is not None and "'qwen'" in failed.value.found
    assert not client("qwen").installed(tmp_path / "cache")


@pytest.mark.parametrize("missing", ["node", "npm"])
def test_without_node_or_npm_the_message_names_it(
    npm: FakeNpm, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line says what to install."""
    (npm.bin / missing).unlink()
    monkeypatch.setenv("PATH", str(npm.bin))
    with pytest.raises(InstallFailed, match=rf"^{missing} is missing"):
        install(client("codex"), tmp_path / "cache")


def test_an_old_node_is_refused_before_npm_is_asked(npm: FakeNpm, tmp_path: Path) -> None:
    """The clients need Node 20; npm would only warn."""
    npm.node("v18.20.0")
    with pytest.raises(InstallFailed, match="too old"):
        install(client("codex"), tmp_path / "cache")
    assert npm.calls == []


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"INTERLOCK_CLIENTS": "/x/clients", "XDG_CACHE_HOME": "/y"}, Path("/x/clients")),
        ({"XDG_CACHE_HOME": "/y"}, Path("/y/interlock/clients")),
        ({}, Path.home() / ".cache" / "interlock" / "clients"),
    ],
)
def test_the_cache_is_outside_the_repository(variables: dict[str, str], expected: Path) -> None:
    """Where `$INTERLOCK_CLIENTS` says, else in the user's cache."""
    assert cache_folder(variables) == expected


def test_an_unknown_client_is_refused_with_the_known_ones() -> None:
    """A wrong name is the user's mistake, and the error helps."""
    with pytest.raises(UnknownClient) as refused:
        client("cluade")
    assert refused.value.expected is not None and "claude" in refused.value.expected


def test_the_program_lists_and_refuses(tmp_path: Path) -> None:
    """`list` shows every client and what is installed; a wrong name is exit 2 without a traceback."""
    surroundings = {**os.environ, "INTERLOCK_CLIENTS": str(tmp_path)}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tools.clients", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=surroundings, check=False)

    listed = call("list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:]] == list(CLIENTS)
    refused = call("install", "cluade")
    assert refused.returncode == 2
    assert "cluade" in refused.stderr and "Traceback" not in refused.stderr


@pytest.mark.parametrize("name", CLIENTS)
def test_a_home_names_the_scripted_model_and_nothing_of_the_developer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's URL and the scripted key are set; keys, proxies and homes of the developer do not get through."""
    theirs = ("ANTHROPIC_AUTH_TOKEN", "OPENAI_ORG_ID", "HTTPS_PROXY", "GH_TOKEN", "XDG_RUNTIME_DIR")
    for variable in theirs:
        monkeypatch.setenv(variable, "theirs")
    surroundings = environment(name, URL, tmp_path / "home")
    files = [path.read_text() for path in (tmp_path / "home").rglob("*") if path.is_file()]
    everything = "\n".join([*surroundings.values(), *files])
    assert URL in everything and KEY in everything
    assert "theirs" not in everything and not set(theirs) & set(surroundings)
    homes = [value for variable, value in surroundings.items() if variable == "HOME" or variable.endswith("_HOME")]
    assert all(Path(value).is_relative_to(tmp_path / "home") for value in homes)


def test_codex_keeps_its_home_out_of_the_temporary_folder(tmp_path: Path) -> None:
    """Inside of it, its sandbox would lose its helper, and commands would fail without a word."""
    surroundings = environment("codex", URL, tmp_path / "home")
    assert not Path(surroundings["CODEX_HOME"]).is_relative_to(surroundings["TMPDIR"])
    settings = tomllib.loads((Path(surroundings["CODEX_HOME"]) / "config.toml").read_text())
    assert settings["model_providers"]["scripted"]["base_url"] == f"{URL}/v1"
    assert json.loads(surroundings["CODEX_CONFIG"]) == settings


@pytest.mark.parametrize("name", HEADLESS)
def test_a_prompt_is_given_whole(name: str, tmp_path: Path) -> None:
    """It is one argument, or all of standard input."""
    prompt = "# Title\n\n'quotes' \"and\" $dollars\n"
    called = headless(name, prompt, tmp_path)
    assert (prompt in called.argv) != (called.stdin == prompt)
    assert called.argv[0] == str(client(name).path())


def test_every_client_has_a_way_to_speak_acp() -> None:
    """Four speak it themselves, two by an adapter."""
    commands = {name: client(name).acp_command(Path("/c")) for name in HEADLESS}
    assert {name: Path(command[0]).name for name, command in commands.items() if command} == {
        "claude": "claude-agent-acp",
        "codex": "codex-acp",
        "opencode": "opencode",
        "copilot": "copilot",
        "gemini": "gemini",
        "qwen": "qwen",
    }


def test_the_samples_are_complete_and_neutral() -> None:
    """Every client has a sample of every case with its exit status, and none knows the machine it was taken on."""
    names = [f"{name}-{case}" for name in HEADLESS for case in CASES]
    exits = json.loads((STREAMS / EXITS).read_text())
    assert sorted(exits) == sorted(names)
    for name in names:
        text = (STREAMS / f"{name}.jsonl").read_text()
        assert all(isinstance(json.loads(line), dict) for line in text.splitlines())
        assert text or exits[name] is None
        assert str(Path.home()) + "/" not in text and "/tmp/tmp" not in text, name


def test_neutral_keeps_what_belongs_together() -> None:
    """Equal ids stay equal, different ones different; places and times are gone."""
    one, two = "3f2c4e9a-0000-4b1c-9d2e-5f6a7b8c9d0e", "3f2c4e9a-0000-4b1c-9d2e-5f6a7b8c9d0f"
    line = f'{{"a":"{one}","b":"{two}","c":"{one}","at":"2026-11-15T16:15:30.756Z","in":"/x/ws/f","t":1794759346565}}'
    told = json.loads(neutral(line, {"/x/ws": "/workspace"}))
    assert told["a"] == told["c"] != told["b"]
    assert (told["at"], told["in"], told["t"]) == ("2026-01-01T00:00:00.000Z", "/workspace/f", 1767225600000)
