"""The real coding agents with a scripted model: without a layer, and in a confined one."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import clients
from interlock.agents.client import Client, Layer, call, model_hosts, read_back
from interlock.agents.environment import environment
from interlock.agents.redaction import Redaction
from interlock.agents.values import Ask, Exit, News, NewsKind, Role, TroubleKind
from interlock.settings import Runner, SandboxSettings
from interlock.workspace.layers.layers import Layers
from interlock.workspace.place import Workspace
from interlock.workspace.trees import Trees
from interlock.workspace.values import Needs
from tests import real
from tests.agents.conftest import eventually, marked
from tests.real import NoLayer
from tools.clients import PACKAGES
from tools.scripted_llm import Model

SPOKEN = {
    "claude-acp": (),
    "codex-acp": (),
    "copilot-acp": ("--acp",),
    "gemini-acp": ("--acp",),
    "opencode-acp": ("acp",),
    "qwen-acp": ("--acp", "--auth-type", "openai"),
}
"""What stands behind the program's name."""
LATE = ("copilot", "copilot-acp", "gemini-acp")
"""Who may not find a session again: one writes it late, one overwrites it when it is loaded within the same minute."""


def package(name: str) -> str:
    return name if name in PACKAGES else name.removesuffix("-acp")


def params(*names: str) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.agents(package(name))) for name in names]


CLIENTS = params(*real.MODELS, *SPOKEN)
TWO = params("claude", "codex")
FOUR = params("claude", "codex", "claude-acp", "codex-acp")
DAEMON = "setsid sleep 300 >/dev/null 2>&1 &"  # with its output open, some clients would wait for it
WORK = f"@usage 1234 56\n@write docs/note.md :: hello\n@shell {DAEMON} echo was-here > shell.txt\n@say All done."
FORM = {"type": "object", "properties": {"verdict": {"enum": ["ok", "bad"]}}, "required": ["verdict"]}


def client(name: str) -> Client:
    argv = (real.program(package(name)), *SPOKEN.get(name, ()))
    table = {"type": "acp", "argv": argv} if name in SPOKEN else {"type": name}
    return clients.client(Runner.model_validate(table), Path())


class Person:
    """A person with a workspace, a home that knows the scripted model alone, and one client."""

    def __init__(self, name: str, model: Model, place: Path, marker: str) -> None:
        self.name, self.client, self.model, self.place = name, client(name), model, place
        self.environ = real.home(name, model.url, place / "home")
        self.top = place / "workspace"
        self.top.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "-q"], cwd=self.top, check=True)
        role = Role(name="builder", runner=name, type=name, program=real.program(package(name)))
        self.ask = Ask(role=role, brief=WORK, marker=marker, transcript=place / "t.jsonl", timeout_s=600)
        self.news: list[News] = []

    async def call(self, layer: Layer, brief: str = WORK, **asked: Any) -> Exit:
        env = environment(self.environ, layer.root, needed=self.client.ROW.variables)
        ask, redact = self.ask.model_copy(update={"brief": brief, **asked}), Redaction(self.environ)
        return await call(self.client, ask, layer, self.news.append, redact, env=env)

    def layer(self, **sandbox: Any) -> tuple[Trees, Any]:
        """A confined layer; skips where the kernel lets nobody make one."""
        trees = Trees(Workspace(self.top))
        layers = Layers(trees, SandboxSettings(**sandbox), self.environ)
        if layers.maker().maker != "confined":
            pytest.skip(layers.maker().why)
        row, standing = self.client.ROW, trees.standing("run-1", trees.where())
        needs = Needs(
            logins=row.logins,
            shows=(real.program(package(self.name)),),
            hosts=model_hosts(row, self.environ, self.place / "home"),
        )
        return trees, layers.open("run-1", "one", standing, standing.tree, needs)


@pytest.fixture
def person(model: Model, tmp_path: Path, marker: str) -> Callable[[str], Person]:
    """The marker's fixture looks for what a call has left running."""
    return lambda name: Person(name, model, tmp_path, marker)


@pytest.mark.req("AGENT-01", "AGENT-05", "RUN-12", "RUN-18")
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_does_its_work_and_goes_on_with_its_session(
    name: str, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """It edits, runs commands, leaves nothing running; a later call remembers, and tells what it alone has cost."""
    one = person(name)
    got = await one.call(no_layer)
    assert (got.finished, got.text, got.trouble) == (True, "All done.", None)
    assert got.exit == 0 or name in SPOKEN  # some of these have to be ended
    assert (one.top / "docs/note.md").read_text() == "hello\n"
    assert (one.top / "shell.txt").read_text() == "was-here\n"
    assert (got.usage.tokens or 0) >= (1 if name == "opencode-acp" else 3) * 1290  # it tells of its last request alone
    assert {NewsKind.SESSION, NewsKind.TOOL, NewsKind.TEXT} <= {news.kind for news in one.news}
    assert real.KEY not in one.ask.transcript.read_text()
    more = await one.call(no_layer, "@usage 100 7\n@say Still here.", session=got.session, spent=got.usage)
    if is_its_session_there(name, more):
        assert (more.finished, more.text, more.session, more.usage.tokens) == (True, "Still here.", got.session, 107)
        assert "All done." in str(one.model.work[-1].talk.system) or len(one.model.work) > 3
    assert one.model.unknown == []


def is_its_session_there(name: str, more: Exit) -> bool:
    """Else it says so, and the engine starts anew."""
    return name not in LATE or more.trouble is None or more.trouble.kind is not TroubleKind.SESSION


@pytest.mark.req("AGENT-05")
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_session_that_is_gone_is_told_apart(
    name: str, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """Then the engine starts anew; nothing was asked of the model."""
    one = person(name)
    gone = "ses_000000000000AAAAAAAAAAAAAA" if "opencode" in name else "00000000-0000-4000-8000-000000000000"
    got = await one.call(no_layer, session=gone)
    assert (got.finished, got.trouble and got.trouble.kind) == (False, TroubleKind.SESSION)
    assert one.model.work == []


@pytest.mark.req("AGENT-05", "TREE-09", "RUN-12")
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_that_was_killed_goes_on_with_its_session(
    name: str, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """In the middle of a turn: what it had done is in its memory, and the half turn counts for nothing."""
    one = person(name)
    at_work = asyncio.create_task(one.call(no_layer, "@shell echo one > one.txt\n@sleep 600\n@say late"))
    await eventually(lambda: at_work.done() or len(one.model.work) > 1)  # the answer to its tool is due
    await eventually(lambda: at_work.done() or any(news.kind is NewsKind.SESSION for news in one.news))
    for pid in marked(one.ask.marker):
        os.kill(pid, signal.SIGKILL)
    got = await at_work
    assert (got.finished, got.exit, got.timed_out) == (False, -9, False)
    more = await one.call(no_layer, "@say Still here.", session=got.session, spent=got.usage)
    if is_its_session_there(name, more):
        assert (more.finished, more.text, more.session) == (True, "Still here.", got.session)
        assert "one.txt" in str(one.model.work[-1].talk)


REFUSALS = {
    "401 invalid key": (TroubleKind.LOGIN, CLIENTS),
    "404 model: nonesuch not found": (TroubleKind.MODEL, CLIENTS),
    "0": (TroubleKind.BUSY, CLIENTS[:-3]),  # half of an answer
    "429 rate limit reached": (TroubleKind.LIMIT, FOUR),  # the others try again for a minute or more
    "500 the model is down": (TroubleKind.BUSY, FOUR),
}


@pytest.mark.req("AGENT-04", "RUN-15", "EVID-10")
@pytest.mark.parametrize(
    ("refusal", "kind", "name"),
    [
        pytest.param(refusal, kind, name.values[0], marks=name.marks)
        for refusal, (kind, names) in REFUSALS.items()
        for name in names
    ],
)
async def test_a_service_that_refuses_is_the_reason(
    name: str, refusal: str, kind: TroubleKind, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """In the client's own words; nothing of it counts, whatever text there is."""
    got = await person(name).call(no_layer, f"@retry_after 0.1\n@http {refusal}")
    assert (got.finished, got.trouble and got.trouble.kind) == (False, kind)


@pytest.mark.req("EVID-01")
@pytest.mark.parametrize("name", TWO)
async def test_a_client_holds_its_model_to_the_form(
    name: str, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """The form comes apart from the text; where the model does not care, its words are there with their block."""
    answer, one = json.dumps({"verdict": "ok"}), person(name)
    got = await one.call(no_layer, f"@write a.md :: x\n@form {answer}", form=FORM)
    assert (got.finished, got.form) == (True, {"verdict": "ok"})
    got = await one.call(no_layer, f"@say Fine.\\n```json\\n{answer}\\n```", form=FORM)
    assert (got.finished, got.form, answer in got.text) == (True, None, True)


@pytest.mark.req("RUN-19")
@pytest.mark.parametrize("name", TWO)
async def test_a_brief_of_half_a_megabyte_arrives_whole(
    name: str, person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """By standard input: no argument may be so long."""
    one = person(name)
    brief = "".join(f"Line {number} of a long brief.\n" for number in range(18_000)) + "@say Read it all."
    assert (await one.call(no_layer, brief)).text == "Read it all."
    assert one.model.work[0].talk.human == brief


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("name", "share"),
    [
        pytest.param("claude", {"budget_usd": 0.005}, marks=pytest.mark.agents("claude")),
        pytest.param("claude", {"budget_tokens": 1500}, marks=pytest.mark.agents("claude")),
        pytest.param("codex", {"budget_tokens": 1500}, marks=pytest.mark.agents("codex")),
    ],
)
async def test_a_budget_ends_the_work(
    name: str, share: dict[str, Any], person: Callable[[str], Person], no_layer: NoLayer
) -> None:
    """After the turn that used it up, long before the tenth."""
    one = person(name)
    steps = "".join(f"@shell sleep 1; echo {number} > {number}.txt\n" for number in range(10))
    got = await one.call(no_layer, steps, **share)
    assert (got.finished, got.exhausted) == (False, True)
    assert len(one.model.work) <= 3


@pytest.mark.req("AGENT-01", "AGENT-05", "TREE-10")
@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_works_in_a_confined_layer(name: str, person: Callable[[str], Person]) -> None:
    """Where it reaches its model alone; its session goes on there, and a call whose engine died is read back."""
    one = person(name)
    trees, layer = one.layer(network="model")
    got = await one.call(layer)
    assert (got.finished, got.text, got.trouble) == (True, "All done.", None)
    found = layer.found({})
    assert {change.path for change in trees.between(layer.shown, found.result)} == {"docs/note.md", "shell.txt"}
    assert not (one.top / "shell.txt").exists()
    back = read_back(one.client, one.ask, layer, Redaction(one.environ))
    assert back is not None
    assert (back.finished, back.text, back.session) == (True, got.text, got.session)
    more = await one.call(layer, "@say Still here.", session=got.session)
    if is_its_session_there(name, more):
        assert (more.finished, more.text) == (True, "Still here.")
