"""What may come back of a login file: tokens and their times in their places, and nothing that could be run."""

from __future__ import annotations

import json

import pytest

from interlock.workspace.layers.logins import refreshed

OLD = {
    "oauth": {"accessToken": "a", "expiresAt": 1, "scopes": ["x"], "tokenSources": {"file": "x"}},
    "mcpServers": {"s": {"command": "good"}},
    "n": 1,
}


def merged(new: object) -> object:
    found = refreshed(json.dumps(OLD).encode(), json.dumps(new).encode())
    return OLD if found is None else json.loads(found)


@pytest.mark.req("LY-11", "LY-20")
def test_only_tokens_come_back() -> None:
    """Everything else is as it was, whatever the program wrote."""
    good = {**OLD, "oauth": {**OLD["oauth"], "accessToken": "b", "refresh_token": "r", "expiresAt": 2}}  # type: ignore[dict-item]
    assert merged(good) == good
    evil = {
        "oauth": {
            "accessToken": "b",
            "expiresAt": {"token": "x"},
            "scopes": ["x", "y"],
            "token": ["evil"],
            "tokenSources": "evil",
        },
        "mcpServers": {"s": {"command": "evil", "env": {}}, "t": {"command": "evil"}},
        "hooks": {"token": "evil"},
        "n": 2,
    }
    assert merged(evil) == {**OLD, "oauth": {**OLD["oauth"], "accessToken": "b"}}  # type: ignore[dict-item]
    for nothing in ({}, [], "x", None, {"oauth": None}):
        assert merged(nothing) == OLD


def test_the_clients_own_form_is_kept_where_nothing_else_changed() -> None:
    """A refreshed file is taken byte for byte; otherwise it is written anew."""
    old, new = b'{ "access" : "1" }\n', b'{"access":"2"}'
    assert refreshed(old, new) == new
    assert refreshed(old, b'{"access":"2","x":1}') == b'{\n  "access": "2"\n}\n'
    assert refreshed(old, old) == old


@pytest.mark.parametrize(
    ("old", "new", "comes"),
    [
        (b"token-1\n", b"token-2\n", True),
        (b"token-1\n", b"two words\n", False),
        (b"token-1\n", b"key=value\n", False),
        (b"[section]\nkey = 1\n", b"[section]\nkey = 2\n", False),
        (b"token-1\n", b"x" * 100_000, False),
        (b'{"access": "1"}', b"not json", False),
        (b"", b"token\n", False),
    ],
)
def test_what_is_not_json_comes_back_only_as_a_bare_token(old: bytes, new: bytes, comes: bool) -> None:
    """One word for one word."""
    assert refreshed(old, new) == (new if comes else None)
