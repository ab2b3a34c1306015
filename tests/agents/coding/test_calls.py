"""Keys of an agent's environment stand in nothing that is kept or told."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.agents import AgentNews, AgentRequest
from interlock.agents.coding.asking import Configured
from interlock.agents.coding.claude import Claude
from interlock.agents.coding.headless import HeadlessRunner

INHERITED, OWN = "sk-inherited-0123456789", "sk-own-9876543210"
PROGRAM = """\
import json, os, sys
keys = f"{os.environ['ANTHROPIC_API_KEY']} and {os.environ['GATEWAY_TOKEN']}"
sys.stdin.read()
print(json.dumps({"type": "system", "subtype": "api_retry", "error": f"refused {keys}", "retry_delay_ms": 5}))
text = {"type": "text", "text": f"cut \\ud83d {keys}"}
print(json.dumps({"type": "assistant", "message": {"content": [text]}}))
print(f"trouble with {keys}", file=sys.stderr)
error = {"is_error": True, "api_error_status": 429, "result": f"429 {keys}"}
print(json.dumps({"type": "result", "subtype": "success", **error}))
"""


async def test_no_secret_is_kept_or_told(tmp_path: Path) -> None:
    """News, transcript, raw stream, standard error, final message, fault and limit: all without the keys."""
    (tmp_path / "agent").write_text(f"#!{sys.executable}\n{PROGRAM}")
    (tmp_path / "agent").chmod(0o755)
    (tmp_path / "workspace").mkdir()
    configured = Configured("claude", str(tmp_path / "agent"), env={"GATEWAY_TOKEN": OWN})
    runner = HeadlessRunner(Claude(), configured, {"PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": INHERITED})
    request = AgentRequest(
        run_id="r",
        playbook="p",
        step="s",
        agent="a",
        member="a",
        attempt=1,
        dispatch="k",
        session="s1",
        workspace=tmp_path / "workspace",
        folder=tmp_path / "records",
        brief="Work.",
        timeout_s=30,
        marker=f"calls:{tmp_path}",
    )
    news: list[AgentNews] = []
    exit_ = await runner.call(request, news.append)
    assert exit_.limited is not None
    assert exit_.fault is not None
    kept = {path.name: path.read_text() for path in (tmp_path / "records").iterdir()}
    assert {"output.md", "stream.jsonl", "stderr.log", "transcript.jsonl"} <= set(kept)
    told = json.dumps([dict(one.data) for one in news])
    for place, text in {**kept, "news": told, "fault": exit_.fault.text, "limited": exit_.limited.text}.items():
        assert INHERITED not in text, place
        assert OWN not in text, place
    for place in ("stream.jsonl", "stderr.log", "transcript.jsonl", "output.md"):
        assert "[redacted:ANTHROPIC_API_KEY] and [redacted:GATEWAY_TOKEN]" in kept[place], place


@pytest.mark.req("LY-39")
async def test_no_token_of_its_login_is_kept_or_told(request_for: Callable[..., AgentRequest], tmp_path: Path) -> None:
    """It was let in for the agent to use; what the agent prints of it stays with nobody."""
    login = tmp_path / "home" / ".claude" / ".credentials.json"
    login.parent.mkdir(parents=True)
    login.write_text(json.dumps({"claudeAiOauth": {"accessToken": "access-0123456789"}}))
    program = """\
import json, os, pathlib, sys
token = json.loads(pathlib.Path(os.environ["HOME"], ".claude", ".credentials.json").read_text())
print(f"using {token}", file=sys.stderr)
pathlib.Path(os.environ["INTERLOCK_RESULT"]).write_text(json.dumps(token))
print(json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": str(token)}]}}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": str(token)}))
"""
    (tmp_path / "agent").write_text(f"#!{sys.executable}\n{program}")
    (tmp_path / "agent").chmod(0o755)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home")}
    runner = HeadlessRunner(Claude(), Configured("claude", str(tmp_path / "agent")), env)
    request, news = request_for(), list[AgentNews]()
    exit_ = await runner.call(request, news.append)
    kept = b"".join(path.read_bytes() for path in request.folder.iterdir() if path.name != "answer.json")
    assert kept.count(b"[redacted:.credentials.json:claudeAiOauth.accessToken]") >= 4
    for place in (kept, exit_.result or b"", repr(news).encode()):
        assert b"access-0123456789" not in place
