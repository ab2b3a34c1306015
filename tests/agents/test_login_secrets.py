"""Secrets of login files and of settings are found, and are in no record."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents import AgentRequest, CommandRunner
from interlock.agents.environment import Redaction
from interlock.agents.login_secrets import login_secrets

CLAUDE = {
    "claudeAiOauth": {
        "accessToken": "sk-ant-oat01-aaaaaaaaaaaaaaaa",
        "refreshToken": "plain-refresh-value",
        "expiresAt": 1767225600000,
        "scopes": ["user:inference"],
        "subscriptionType": "enterprise",
    }
}
CODEX = {
    "OPENAI_API_KEY": "short-k1",
    "tokens": {"id_token": "eyJhbGciOiJIUzI1NiJ9.e30.x", "account_id": "0f0e0d0c-1111-2222-3333-444455556666"},
    "last_refresh": "2026-01-01T00:00:00Z",
}
OPENCODE = {"anthropic": {"type": "oauth", "access": "acc-1234567", "refresh": "ref-1234567"}}
SETTINGS = {
    "model": "claude-sonnet-4-5-20250929",
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "env": {"GATEWAY_TOKEN": "gateway-token-1"},
    "mcpServers": {"hub": {"headers": {"Authorization": "Bearer abcdefgh12345678"}, "command": "npx"}},
    "customApiKeyResponses": {"approved": ["aaaaBBBB1111cccc2222"]},
}


def found_in(tmp_path: Path, content: Any, name: str = "auth.json") -> set[str]:
    (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return set(login_secrets([tmp_path / name]).values())


@pytest.mark.req("LY-39")
@pytest.mark.parametrize(
    ("content", "secrets"),
    [
        (CLAUDE, {"sk-ant-oat01-aaaaaaaaaaaaaaaa", "plain-refresh-value"}),
        (
            CODEX,
            {"short-k1", "eyJhbGciOiJIUzI1NiJ9.e30.x", "0f0e0d0c-1111-2222-3333-444455556666"},
        ),
        (OPENCODE, {"acc-1234567", "ref-1234567"}),
        (
            SETTINGS,
            {"gateway-token-1", "Bearer abcdefgh12345678", "abcdefgh12345678", "aaaaBBBB1111cccc2222"},
        ),
        ("GEMINI_API_KEY=AIza0123456789abcdef\n# a remark\nexport NAME=harmless-value\n", {"AIza0123456789abcdef"}),
        ('[model_providers.x]\nbase_url = "https://x"\nexperimental_bearer_token = "tok-12345"\n', {"tok-12345"}),
        ("github.com:\n    oauth_token: gho_0123456789abcdef\n    user: me\n", {"gho_0123456789abcdef"}),
        ("", set()),
        ("[1, null, true, 3.5]", set()),
    ],
)
def test_secrets_are_found_where_agents_keep_them(tmp_path: Path, content: Any, secrets: set[str]) -> None:
    """Under keys that look secret, and by their form; names of models and kinds of login are none."""
    assert found_in(tmp_path, content) == secrets


def test_each_secret_has_a_name_that_may_be_shown(tmp_path: Path) -> None:
    """The file and the key, in plain letters; equal names are told apart."""
    (tmp_path / "auth.json").write_text(json.dumps({'we"ird key': {"token": "token-of-weird"}, "key": ["k-12345678"]}))
    found = login_secrets([tmp_path / "auth.json", tmp_path / "missing.json"])
    assert found == {"auth.json:we_ird_key.token": "token-of-weird", "auth.json:key.0": "k-12345678"}
    (tmp_path / "auth.json").write_text(json.dumps({"keys": ["first-12345678", "second-12345678"]}))
    assert set(login_secrets([tmp_path / "auth.json"]).values()) == {"first-12345678", "second-12345678"}


@given(st.recursive(st.none() | st.integers() | st.text(max_size=30), lambda inner: st.dictionaries(st.text(), inner)))
def test_any_file_can_be_looked_into(content: Any) -> None:
    """Nothing in it is an error."""
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        for text in (json.dumps(content), str(content)):
            Path(place, "x").write_text(text, errors="replace")
            assert all(len(value) >= 8 for value in login_secrets([Path(place, "x")]).values())


@pytest.mark.req("LY-39")
def test_further_values_are_replaced_whatever_their_names() -> None:
    """With the secrets of the environment, in texts, in JSON and line by line."""
    known = Redaction({"API_KEY": "key-of-the-environment"}, {"OWN_TOKEN": "token-of-a-runner"})
    wider = known.with_values({"auth.json:x": 'with "quotes" and ü', "file:key": "line-one-1\nline-two-2\n"})
    text = "key-of-the-environment token-of-a-runner line-two-2"
    assert wider(text) == "[redacted:API_KEY] [redacted:OWN_TOKEN] [redacted:file:key]"
    assert known(text) == "[redacted:API_KEY] [redacted:OWN_TOKEN] line-two-2"
    for written in (
        json.dumps({"a": 'with "quotes" and ü'}),
        json.dumps({"a": 'with "quotes" and ü'}, ensure_ascii=False),
    ):
        assert json.loads(wider(written)) == {"a": "[redacted:auth.json:x]"}
    assert not Redaction().needed
    assert Redaction().with_values({"x": "eight-or-more"}).needed


@pytest.mark.req("LY-39")
async def test_a_program_s_own_keys_are_in_none_of_its_records(
    request_for: Callable[..., AgentRequest], program: Callable[[str], list[str]]
) -> None:
    """Output, standard error and answer."""
    argv = program(
        """
        import os, sys
        key = os.environ["MY_TOKEN"]
        print("the key is", key)
        sys.stderr.write(f"the key is {key}\\n")
        open(os.environ["INTERLOCK_RESULT"], "w").write(f'{{"key": "{key}"}}')
        """
    )
    request = request_for()
    runner = CommandRunner("mine", argv, {"MY_TOKEN": "secret-0123456789"}, {"PATH": "/usr/bin:/bin"})
    ended = await runner.call(request, lambda _news: None)
    assert ended.output.read() == b"the key is [redacted:MY_TOKEN]\n"
    assert ended.result == b'{"key": "[redacted:MY_TOKEN]"}'
    assert "secret-0123456789" not in (request.folder / "stderr.log").read_text()
    assert runner.needs().secrets == {"MY_TOKEN": "secret-0123456789"}
