"""Secrets of environments, settings and login files are found, and replaced wherever they stand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.redaction import Redaction, login_secrets, looks_secret

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
SECRET_NAMES = """OPENAI_API_KEY GITHUB_TOKEN AWS_SECRET_ACCESS_KEY DB_PASSWORD PGPASSWORD MYSQL_PASSWD NPM_AUTH
    GOOGLE_CREDENTIALS SSH_PRIVATE_KEY oauth_token PRIVATE_THING apikey SIGNING_KEYS KEY_PASSPHRASE GH_PAT HUB_BEARER"""
PLAIN_NAMES = "PATH HOME GIT_AUTHOR_NAME KEYBOARD MONKEY XAUTHORITY COMPASS GOPRIVATE INTERLOCK_PATH EDITOR"


@pytest.mark.req("RUN-18")
def test_names_of_secrets_are_known_and_others_are_not() -> None:
    """In any case of the letters; words that only contain such a word are plain."""
    assert [name for name in SECRET_NAMES.split() if not looks_secret(name)] == []
    assert [name for name in PLAIN_NAMES.split() if looks_secret(name)] == []


@pytest.mark.req("RUN-18")
def test_secrets_are_replaced_by_the_name_of_their_variable() -> None:
    """The longest first, a key file's last newline does not hide it; short values and other variables stay."""
    env = {
        "API_KEY": "sk-12345678",
        "DB_PASSWORD": "short",
        "HOME": "/home/someone",
        "A_TOKEN": "abcdefgh",
        "B_TOKEN": "abcdefgh-ijklmnop",
        "PRIVATE_KEY": "-----BEGIN\nxyz\n-----END\n",
    }
    text = "sk-12345678 (sk-12345678) short /home/someone abcdefgh-ijklmnop abcdefgh- <-----BEGIN\nxyz\n-----END>"
    assert Redaction(env)(text) == (
        "[redacted:API_KEY] ([redacted:API_KEY]) short /home/someone [redacted:B_TOKEN] [redacted:A_TOKEN]- "
        "<[redacted:PRIVATE_KEY]>"
    )


@pytest.mark.req("RUN-18")
def test_values_of_login_files_are_replaced_in_whatever_way_they_are_written(tmp_path: Path) -> None:
    """In texts, in JSON, line by line, in bytes that are no text."""
    login = tmp_path / "login.json"
    login.write_text(json.dumps({'we"ird token': 'with "quotes" and ü', "key": "line-one-1\nline-two-2\n"}))
    redact = Redaction({"API_KEY": "key-of-the-environment"}, {"OWN_TOKEN": "token-of-a-runner"}, files=[login])
    assert redact("key-of-the-environment token-of-a-runner line-two-2") == (
        "[redacted:API_KEY] [redacted:OWN_TOKEN] [redacted:login.json:key]"
    )
    for plain in (True, False):
        written = json.dumps({"a": 'with "quotes" and ü'}, ensure_ascii=plain)
        assert json.loads(redact(written)) == {"a": "[redacted:login.json:we_ird_token]"}
        assert redact.raw(b"\xff" + written.encode()) == b'\xff{"a": "[redacted:login.json:we_ird_token]"}'


SECRETS = st.lists(st.text("ab-xy1", min_size=8, max_size=14), min_size=1, max_size=8)


@pytest.mark.req("RUN-18")
@given(SECRETS, st.lists(st.text("ab-xy1", max_size=20) | st.integers(0, 7)))
def test_no_secret_of_eight_characters_survives(secrets: list[str], pieces: list[str | int]) -> None:
    """However many there are, whatever stands around them and whatever they have in common."""
    redact = Redaction({f"K{number}_TOKEN": secret for number, secret in enumerate(secrets)})
    text = "".join(piece if isinstance(piece, str) else secrets[piece % len(secrets)] for piece in pieces)
    left = redact(text).split("[redacted:")
    kept = [left[0], *(piece.partition("]")[2] for piece in left[1:])]
    assert not any(secret in piece for secret in secrets for piece in kept)
    assert "".join(kept) == text or len(left) > 1


def found_in(folder: Path, content: Any) -> set[str]:
    (folder / "auth.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return {value for _, value in login_secrets([folder / "auth.json", folder / "missing"])}


@pytest.mark.req("RUN-18")
@pytest.mark.parametrize(
    ("content", "secrets"),
    [
        (CLAUDE, {"sk-ant-oat01-aaaaaaaaaaaaaaaa", "plain-refresh-value"}),
        (CODEX, {"short-k1", "eyJhbGciOiJIUzI1NiJ9.e30.x", "0f0e0d0c-1111-2222-3333-444455556666"}),
        (OPENCODE, {"acc-1234567", "ref-1234567"}),
        (SETTINGS, {"gateway-token-1", "Bearer abcdefgh12345678", "abcdefgh12345678", "aaaaBBBB1111cccc2222"}),
        ("GEMINI_API_KEY=AIza0123456789abcdef\n# a remark\nexport NAME=harmless-value\n", {"AIza0123456789abcdef"}),
        ('[model_providers.x]\nbase_url = "https://x"\nexperimental_bearer_token = "tok-12345"\n', {"tok-12345"}),
        ('[model_providers.x]\nenv_key = "CODEX_API_KEY"\n', set()),
        ("github.com:\n    oauth_token: gho_0123456789abcdef\n    user: me\n", {"gho_0123456789abcdef"}),
        ({"a.key": "first-12345678", "a": {"key": "second-12345678"}}, {"first-12345678", "second-12345678"}),
        ("", set()),
        ("[1, null, true, 3.5]", set()),
    ],
)
def test_secrets_are_found_where_agents_keep_them(tmp_path: Path, content: Any, secrets: set[str]) -> None:
    """Under keys that look secret, and by their form; names of models and kinds of login are none."""
    assert found_in(tmp_path, content) == secrets
