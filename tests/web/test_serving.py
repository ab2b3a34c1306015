"""`interlock web` as a program: where it listens, whom it invites, how it ends (PAGE-01, PAGE-02)."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import psutil
import pytest

from tests.cli.conftest import CommandLine
from tests.web.conftest import Serve


@pytest.mark.req("PAGE-01", "PAGE-02")
def test_the_page_is_served_to_one_browser_after_the_other(serve: Serve) -> None:
    """At both addresses of this machine alone; the next invitation is told when one was used; streams end with it."""
    served = serve()
    found = psutil.Process(served.process.pid).net_connections()
    assert {one.laddr.ip for one in found if one.status == psutil.CONN_LISTEN} <= {"127.0.0.1", "::1"}
    cookie = served.enter()
    invitation = served.said("For another one: ")
    assert invitation.startswith(f"{served.parts.scheme}://{served.parts.netloc}/enter?token=")
    with served.ask("/", Cookie=cookie) as page:
        assert (page.status, b"a kite" in page.read()) == (200, True)
        assert page.getheader("server") is None
    stream = served.ask("/stream/", Cookie=cookie)
    assert stream.readline() == b"retry: 1000\n"
    served.process.send_signal(signal.SIGTERM)
    stream.read()
    stream.close()
    served.process.communicate()
    assert served.process.returncode == 0


@pytest.mark.req("PAGE-02", "RUN-20", "CLI-05")
def test_where_it_is_not_served(interlock: CommandLine, serve: Serve, tmp_path: Path) -> None:
    """Each refusal says what to do; nothing was listened at."""
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    taken = str(serve().parts.port)
    behind = ("--proxy-user", "X-User", "--proxy-secret", str(secret))
    refused = {
        ("--port", taken): "interlock web --port 0",
        ("--host", "0.0.0.0"): "--proxy-user and --proxy-secret",
        ("--host", "192.0.2.1"): "ssh -L",
        behind[:2]: "both, or none of them",
        ("--host", "0.0.0.0", *behind): "[web] address",
        (*behind[:3], str(tmp_path / "none")): "openssl rand",
    }
    for words, said in refused.items():
        done = interlock("web", *words)
        assert (done.code, said in done.err) == (2, True), (words, done.err)
    env = {**os.environ, "INTERLOCK_DISPATCH": "plan#1"}
    agent = interlock.spawn("web", "--port", "0", env=env)
    _, said = agent.communicate()
    assert (agent.returncode, "an agent inside a run cannot serve the page" in said) == (2, True)


@pytest.mark.req("PAGE-01", "PAGE-02")
def test_a_browser_is_opened_without_telling_anybody_the_address(serve: Serve, tmp_path: Path) -> None:
    """It gets a file that only this user reads, which leads there, and is gone when the address is used up."""
    heard = tmp_path / "heard"
    os.mkfifo(heard)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > {heard}\n')
    browser.chmod(0o755)
    served = serve("--open", BROWSER=f"{browser} %s")
    shown = heard.read_text().strip()  # waits until it is opened
    assert served.parts.query not in shown
    file = Path(shown.removeprefix("file://"))
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert f"url={served.address}" in file.read_text()
    assert served.enter()
    served.said("A browser came in")
    assert not file.exists()
