"""An agent in its layer, with the network on, that finds the page and tries to decide (WB-08)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.web.conftest import SETTINGS, Place, Site
from tests.web.test_attacks import approving

AGENT = '''"""Knows everything but the cookie: the port, the name, the run, the form."""

import http.client, json, os, pathlib, subprocess, sys

known = json.load(open("known.json"))
tried = {}


def ask(method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", known["port"], timeout=120)
    connection.request(method, path, body, {"Host": known["host"], "Origin": known["origin"], **headers})
    answer = connection.getresponse()
    answer.read()
    return answer.status


form = {"Content-Type": "application/x-www-form-urlencoded"}
try:
    tried["reached"] = ask("GET", "/static/nothing")
    tried["board"] = ask("GET", "/")
    tried["approve"] = ask("POST", known["gate"], known["form"], **form)
    for name in ("interlock", "__Host-interlock"):
        cookie = f"{name}={known['form'][-43:]}"
        tried[f"forged {name}"] = ask("POST", known["gate"], known["form"], Cookie=cookie, **form)
    claimed = {"X-Interlock-Proxy-Secret": "guessed", "X-Forwarded-User": "ada", "Remote-User": "ada"}
    tried["claimed"] = ask("POST", known["gate"], known["form"], **claimed, **form)
    tried["enter"] = ask("GET", "/enter?token=" + known["used"])
except OSError as error:
    tried["network"] = str(error)
state = pathlib.Path(known["home"], ".local/state/interlock/web")
tried["state seen"] = state.exists()
tried["server seen"] = pathlib.Path(f"/proc/{known['pid']}/environ").exists() and "interlock" in pathlib.Path(
    f"/proc/{known['pid']}/cmdline"
).read_text()
for words in (["approve", known["run"]], ["web", "--port", "0"]):
    done = subprocess.run(
        [sys.executable, "-m", "interlock", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=240
    )
    tried[f"command {words[0]}"] = done.returncode
pathlib.Path("plan.md").write_text("# Plan\\n\\n" + json.dumps(tried) + "\\n")
print("DONE: planned")
'''


@pytest.mark.long
@pytest.mark.req("WB-08")
def test_an_agent_that_finds_the_page_decides_nothing(place: Place, site: Site) -> None:
    """It reaches the port, and knows name, run and form: without the cookie there is nothing to be had by them."""
    run_id = place.waiting("a kite")
    client = site.client()
    used = client.cookie
    path = f"/{place.name}/runs/{run_id}/gate"
    from urllib.parse import urlencode, urlsplit

    known = {
        "port": site.port,
        "host": urlsplit(site.origin).netloc,
        "origin": site.origin,
        "gate": path,
        "form": urlencode(approving(client, place, run_id)),
        "run": run_id,
        "home": str(place.home),
        "pid": site.process.pid,
        "used": "A" * 43,
    }
    (place.root / "known.json").write_text(json.dumps(known), "utf-8")
    (place.root / "agent.py").write_text(AGENT, "utf-8")
    program = json.dumps([sys.executable, "agent.py"])
    network = '[sandbox]\nnetwork = "open"\n'
    settings = f'runner = "attacker"\n{network}[runners.attacker]\ntype = "command"\nargv = {program}\n'
    (place.root / "interlock.toml").write_text(settings, "utf-8")
    said = place.json("run", "ship", "an attack")
    (place.root / "interlock.toml").write_text(SETTINGS, "utf-8")
    assert said["status"] == "waiting", said
    tried = json.loads((place.root / "plan.md").read_text("utf-8").splitlines()[-1])
    refused = {name: tried[name] for name in ("board", "approve", "forged interlock", "claimed", "enter")}
    assert tried["reached"] == 404, tried
    assert set(refused.values()) == {401}, tried
    assert tried["command approve"] == 2
    assert tried["command web"] == 2
    if confined(place):
        assert not tried["state seen"], tried
    assert place.decisions(run_id) == []
    assert Path(place.home, ".local/state/interlock/web/name").exists()
    assert used not in "".join(path.read_text("utf-8", "replace") for path in place.home.rglob("*") if path.is_file())
    assert client.post(path, approving(client, place, run_id)).status == 303
    assert len(place.decisions(run_id)) == 1


def confined(place: Place) -> bool:
    from interlock.workspace import Workspace, open_layers

    return open_layers(Workspace(place.root, place.root / ".interlock"), environ=place.env).probe().confined
