"""A client learns of the server by one entry in its own file; the rest of the file stays as it is."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from interlock.errors import DocumentInvalid
from interlock.mcp import EDITORS, registration
from interlock.mcp.editors import NAME, blanked
from tests.mcp.conftest import Place

JSON = [name for name, editor in EDITORS.items() if not editor.is_toml]
KEPT = [
    "{}",
    "{ }\n",
    '{\n  "KEY": {}\n}\n',
    '{"KEY":{"a":{"command":"x"}}}',
    '{\n\t"KEY": {\n\t\t"a": {"command": "x"}\n\t},\n\t"more": [1, 2]\n}\n',
    '{\r\n  "KEY": {\r\n    "a": {}\r\n  }\r\n}\r\n',
    '// mine\n{\n  /* servers */\n  "KEY": {\n    "a": {"u": "http://x//y", "v": ",}"}, // first\n    /* last */\n'
    "  },\n}\n",
    '\ufeff{\n  "KEY": { // none yet\n  }\n}',
    '{\n  "other": true // no comma\n}\n',
]


def put(root: Path, name: str, text: str) -> Path:
    place = root / EDITORS[name].path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text.encode())
    return place


@pytest.mark.req("WB-21")
@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("text", KEPT)
def test_a_file_of_json_keeps_all_else(name: str, text: str, tmp_path: Path) -> None:
    """Comments, order, line ends, entries; a second time nothing changes."""
    editor = EDITORS[name]
    before = text.replace("KEY", editor.keys[0])
    place = put(tmp_path, name, before)
    registration(tmp_path, name).write()
    after = place.read_bytes().decode()
    was, now = (json.loads(blanked(one.removeprefix("\ufeff"))) for one in (before, after))
    servers = was.get(editor.keys[0], {})
    assert now == {**was, editor.keys[0]: {**servers, NAME: dict(editor.entry)}}
    assert is_within(before, after)
    assert after.count("\r\n") == (after.count("\n") if "\r\n" in before else 0)
    again = registration(tmp_path, name)
    assert (again.needed, again.other) == (False, False)


def is_within(before: str, after: str) -> bool:
    """Whether every character that is no blank is still there, in its order."""
    rest = iter(after)
    return all(char in rest for char in before if not char.isspace())


@pytest.mark.req("WB-21")
@pytest.mark.parametrize(
    "text",
    ["", "# mine\n", 'model = "x" # why\n[a]\nb = 1', '[mcp_servers.other]\r\ncommand = "x"\r\n', "\ufeffx = 1\n"],
)
def test_a_file_of_toml_gets_a_table_at_its_end(text: str, tmp_path: Path) -> None:
    """What was there is there byte for byte."""
    place = put(tmp_path, "codex", text)
    registration(tmp_path, "codex").write()
    after = place.read_bytes().decode()
    assert after.startswith(text)
    assert tomllib.loads(after.removeprefix("\ufeff"))["mcp_servers"][NAME] == EDITORS["codex"].entry
    assert not registration(tmp_path, "codex").needed


@pytest.mark.req("WB-21")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("claude", '{"mcpServers": '),
        ("claude", "[]"),
        ("vscode", '{"servers": []}'),
        ("cursor", '{"mcpServers": {}, "mcpServers": {}}'),
        ("codex", "model = "),
        ("codex", 'mcp_servers = { other = { command = "x" } }\n'),
        ("codex", "mcp_servers = 1\n"),
    ],
)
def test_a_broken_file_is_refused_and_left_alone(name: str, text: str, tmp_path: Path) -> None:
    """The error says which file, and that nothing was changed."""
    place = put(tmp_path, name, text)
    with pytest.raises(DocumentInvalid) as refused:
        registration(tmp_path, name)
    assert EDITORS[name].path in refused.value.what
    assert "Nothing was changed" in (refused.value.remedy or "")
    assert place.read_text("utf-8") == text


@pytest.mark.req("WB-21")
def test_init_registers_with_every_client_and_breaks_nothing_halfway(place: Place) -> None:
    """One broken file, and nothing at all is written; else each client has its file, and a second time keeps it."""
    broken = put(place.root, "vscode", "{")
    done = place.command("init", "--editor", "claude", "--editor", "vscode")
    assert (done.returncode, ".vscode/mcp.json" in done.stderr) == (2, True)
    assert not (place.root / ".mcp.json").exists()
    broken.unlink()
    words = [word for name in EDITORS for word in ("--editor", name)]
    done = place.command("init", *words, "--json")
    paths = [editor.path for editor in EDITORS.values()]
    assert json.loads(done.stdout)["written"][-len(paths) :] == paths
    own = put(place.root, "claude", '{"mcpServers": {"interlock": {"command": "mine"}}}')
    again = place.command("init", *words, "--json")
    assert json.loads(again.stdout)["kept"][-len(paths) :] == paths
    assert ".mcp.json has a server interlock of its own" in again.stderr
    assert own.read_text("utf-8") == '{"mcpServers": {"interlock": {"command": "mine"}}}'
