"""One call of a client: what counts and what does not, its budget, its deadline, its session, its secrets."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interlock.agents import client, process
from interlock.agents.client import ClientRow, Start, call, model_hosts, read_back
from interlock.agents.environment import Environment
from interlock.agents.process import ProcessEnd
from interlock.agents.reading import Json, Reading
from interlock.agents.redaction import Redaction
from interlock.agents.trouble import trouble
from interlock.agents.values import Ask, Exit, News, NewsKind, Role, Room, TroubleKind, Usage
from tests.agents.conftest import says, too_long_when
from tests.real import NoLayer

SECRET = "sk-0123456789abcdef"
END = {"end": "All done."}


class Stream(Reading):
    """Of a client whose stream says plainly what is to be heard."""

    def read(self, line: Json) -> None:
        for word, said in (line.value if isinstance(line.value, dict) else {}).items():
            match word:
                case "end":
                    self.finished, self.words = True, [said]
                case "form":
                    self.form = said
                case "wrong":
                    self.wrong = trouble(said)
                case _:
                    getattr(self, word)(*said)

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        self.left = dict(left)


@dataclass
class Plain:
    """A client that prints these lines, and then does what the script says."""

    lines: tuple[dict[str, Any], ...]
    script: str = ""
    stream: type[Stream] = Stream
    ROW = ClientRow("plain", "Plain", "sh", install="apt install plain")

    def start(self, ask: Ask, room: Room) -> Start:
        printed = "\n".join(json.dumps(line) for line in self.lines)
        argv = (room.program, "-c", f'printf "%s\\n" "$LINES"; {self.script}')
        env = {"LINES": printed, "WHOSE": "client's", "INTERLOCK_STEP": "client's"}
        return Start(argv, ask.brief, env, {"settings": "new"}, leaves=("left",))

    def reader(self, ask: Ask, room: Room) -> Stream:
        self.heard = self.stream(ask, room)
        return self.heard


class Grown(NoLayer):
    """A layer that holds more than it may."""

    def over(self) -> str:
        return "12 GB"


Call = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path, marker: str) -> Ask:
    role = Role(name="builder", runner="plain", type="plain")
    env = {"OWN": "settings'", "INTERLOCK_STEP": "ours"}
    return Ask(role=role, brief="Do it.", marker=marker, env=env, transcript=tmp_path / "t.jsonl", timeout_s=600)


@pytest.fixture
def made(no_layer: NoLayer, ask: Ask) -> Call:
    """Makes a call of a client with these lines; what it comes to, and the news."""

    async def make(
        *lines: dict[str, Any],
        script: str = "",
        by: Plain | None = None,
        layer: NoLayer = no_layer,
        path: str = os.environ["PATH"],
        **asked: Any,
    ) -> tuple[Exit, list[News]]:
        news: list[News] = []
        found = {"PATH": f"{layer.root}/.venv/bin:{path}", "WHOSE": "person's"}
        env = Environment(found, left_out=("HUB_TOKEN", "MY_KEY"), path=path)
        told, redact = ask.model_copy(update=asked), Redaction({"API_KEY": SECRET})
        return await call(by or Plain(lines, script), told, layer, news.append, redact, env=env), news

    return make


@pytest.mark.req("AGENT-05")
async def test_a_call_that_ended_counts(made: Call, ask: Ask) -> None:
    """With all that its stream said; the stream is kept, and told while it comes."""
    lines = ({"began": ["S-1", "m-1"]}, {"speak": ["hello"]}, {"spend": [10, 2, 0.5]}, END)
    got, news = await made(*lines, script="echo noise; echo careful >&2; exit 3")
    assert (got.finished, got.text, got.exit, got.started, got.trouble) == (True, "All done.", 3, True, None)
    assert (got.session, got.model, got.stderr) == ("S-1", "m-1", "careful\n")
    assert got.usage == Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)
    assert [one.kind for one in news] == [NewsKind.SESSION, NewsKind.TEXT, NewsKind.USAGE]
    assert ask.transcript.read_text() == "".join(f"{json.dumps(line)}\n" for line in lines) + "noise\n"


async def test_variables_and_brief_reach_the_program(made: Call, ask: Ask) -> None:
    """The protocol's and the settings' win over all, the client's over the person's; the marker is there."""
    script = 'printf "%s\\n" "$(cat)" "$WHOSE" "$OWN" "$INTERLOCK_STEP" "$INTERLOCK_MARKER" >&2'
    got, _ = await made(END, script=script)
    assert got.stderr.splitlines() == ["Do it.", "client's", "settings'", "ours", ask.marker]


@pytest.mark.req("EVID-10")
@pytest.mark.parametrize(
    ("lines", "script", "kind", "text"),
    [
        ([{"end": " \n"}], "", TroubleKind.OTHER, "without a word"),
        ([{"speak": ["OK: done"]}], "exit 0", TroubleKind.OTHER, "^it ended without reporting the end of its turn$"),
        (
            [{"speak": ["OK: done"]}],
            "echo; echo why >&2; exit 7",
            TroubleKind.OTHER,
            "^it ended with exit status 7: why$",
        ),
        ([], "kill -9 $$", TroubleKind.OTHER, "signal 9"),
        (
            [],
            'printf "error: no option --x\\n\\n  tip: y\\n\\nUsage: z\\n" >&2; exit 2',
            TroubleKind.OTHER,
            ": error: no option --x$",
        ),
        ([], 'printf "Error: no z\\n    at a:1\\n}\\nNode.js v20\\n" >&2; exit 1', TroubleKind.OTHER, ": Error: no z$"),
        ([], "echo 'Please set an Auth method' >&2; exit 41", TroubleKind.LOGIN, "Please set"),
        ([END, {"wrong": "API Error: 401 bad key"}], "", TroubleKind.LOGIN, "^API Error: 401 bad key"),
        ([END, {"wrong": "usage limit reached"}], "", TroubleKind.LIMIT, "usage limit"),
        ([], "echo 'usage limit reached, resets in 2 hours' >&2; exit 1", TroubleKind.LIMIT, "2 hours"),
    ],
)
async def test_what_did_not_finish_does_not_count(
    made: Call, lines: list[dict[str, Any]], script: str, kind: TroubleKind, text: str
) -> None:
    """Neither exit status nor text prove anything; the client's own words are the reason."""
    got, _ = await made(*lines, script=script)
    assert not got.finished
    assert got.trouble.kind is kind
    assert re.search(text, got.trouble.text)
    assert (got.trouble.until is not None) == ("hours" in text)


@pytest.mark.req("TREE-10")
@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("echo 'Please set an Auth method' >&2; exit 41", "HUB_TOKEN, MY_KEY;"),
        ("echo \"KeyError: 'MY_KEY'\" >&2; exit 1", "(not handed on: MY_KEY;"),
        ("echo 'out of memory' >&2; exit 1", ""),
    ],
)
async def test_what_was_left_out_of_its_environment_is_said_beside_a_failure(
    made: Call, script: str, names: str
) -> None:
    """Where nobody is signed in, or a variable is missed by its name."""
    text = (await made(script=script))[0].trouble.text
    assert names in text
    assert ("not handed on" in text) == bool(names)


async def test_a_program_that_is_not_there_was_not_started(made: Call, ask: Ask) -> None:
    """What to type to get it is said. Deeds and forms are an answer, too: of a turn that ended without a word."""
    for line in ({"tool": ["1", "write", "a.py", "done"]}, {"form": {"verdict": "ok"}}):
        assert (await made(line, {"end": ""}))[0].finished
    got, _ = await made(role=ask.role.model_copy(update={"program": "no-such-client"}))
    assert (got.started, got.finished, got.exit) == (False, False, None)
    assert "'no-such-client' is not found. Install it: apt install plain" in got.trouble.text


@pytest.mark.req("RUN-15")
@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ([{"wait": ["model service: 429 rate limit"]}], TroubleKind.LIMIT),
        ([{"wait": ["model service: connection refused"]}], TroubleKind.BUSY),
        ([{"wait": ["model service: 429"]}, {"speak": ["going on"]}], None),
    ],
)
async def test_a_client_that_slept_through_a_limit_was_not_slow(
    made: Call, ask: Ask, lines: list[dict[str, Any]], kind: TroubleKind | None
) -> None:
    """At the deadline counts what it last waited for, unless it has worked since."""
    late = too_long_when(says(ask.transcript, b"wait"))
    got, _ = await made(*lines, script="sleep 300")
    await late
    assert (got.timed_out, got.finished, got.exit, got.trouble and got.trouble.kind) == (True, False, None, kind)


@pytest.mark.req("EVID-10")
@pytest.mark.parametrize(
    ("lines", "script"), [([END], "sleep 300"), ([{"end": "Not yet."}, END], "exec >&-; sleep 300")]
)
async def test_a_client_that_stays_after_its_turn_is_ended_and_counts(
    made: Call, monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, Any]], script: str
) -> None:
    """It is paid for, and would be asked again after its deadline."""
    monkeypatch.setattr(client, "_LEAVES_S", 0.05)
    got, _ = await made(*lines, script=script)
    assert (got.finished, got.text, got.timed_out, got.exhausted) == (True, "All done.", False, False)


@pytest.mark.req("TREE-12")
async def test_a_program_of_the_workspace_does_not_get_the_persons_login(
    made: Call, no_layer: NoLayer, tmp_path: Path
) -> None:
    """One of the client's name lies before it on PATH; it is started only where the person has none."""
    one, path = Plain((END,)), os.environ["PATH"]
    one.ROW = ClientRow("plain", "Plain", "plain", logins=(".plain/login",))
    for folder, own, code in ((no_layer.root / ".venv/bin", path, 7), (tmp_path / "own", f"{tmp_path}/own:{path}", 8)):
        folder.mkdir(parents=True)
        (folder / "plain").write_text(f"#!/bin/sh\nexit {code}\n")
        (folder / "plain").chmod(0o755)
        assert (await made(by=one, path=own))[0].exit == code


TOKENS, DOLLARS = {"budget_tokens": 1000}, {"budget_usd": 0.25}


@pytest.mark.req("RUN-14")
@pytest.mark.parametrize(
    ("lines", "budget", "counts"),
    [
        ([{"tool": ["1", "shell", "make"]}, {"spend": [900, 200]}], TOKENS, False),
        ([{"spend": [900, 200]}, {"tool": ["1", "shell", "make"]}], TOKENS, False),
        ([{"spend": [900, 200]}], TOKENS, False),
        ([{"spend": [900, 200, 0.3]}], DOLLARS, False),
        ([{"spend": [900, 200]}], TOKENS, True),
        ([{"spend": [500, 200, 0.2]}], TOKENS | DOLLARS, True),
    ],
)
async def test_a_budget_ends_a_call_at_most_one_turn_over(
    made: Call, monkeypatch: pytest.MonkeyPatch, lines: list[dict[str, Any]], budget: dict[str, Any], counts: bool
) -> None:
    """Before the next tool; what was spent last may be the answer, and then it counts."""
    monkeypatch.setattr(client, "_END_OF_TURN_S", 1e4 if counts or "tool" in str(lines) else 0.05)
    script = f"sleep 0.1; printf '%s\\n' '{json.dumps(END)}'" if counts else "sleep 300"
    got, _ = await made(*lines, script=script, **budget)
    assert (got.finished, got.exhausted, got.timed_out) == (counts, not counts, False)
    assert got.usage.tokens in (700, 1100)
    assert got.trouble is None


@pytest.mark.req("TREE-10")
async def test_a_layer_that_grows_beyond_its_bounds_ends_the_call(
    made: Call, no_layer: NoLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it counts, and which bound it broke is said."""
    monkeypatch.setattr(process, "WATCH_S", 0.01)
    got, _ = await made(END, script="sleep 300", layer=Grown(no_layer.root, no_layer.exchange))
    assert (got.over, got.finished, got.trouble) == ("12 GB", False, None)


@pytest.mark.req("AGENT-05")
@pytest.mark.parametrize(("lines", "kind"), [([], TroubleKind.SESSION), ([{"tool": ["1", "a", "b", "done"]}], "other")])
async def test_a_session_that_is_not_known_is_told_apart(made: Call, lines: list[dict[str, Any]], kind: str) -> None:
    """Only where one was asked for and nothing was done yet: then the engine starts anew."""
    words = "\x1b[91mError: \x1b[0mNo conversation found with session ID: S-9"
    got, _ = await made(*lines, script=f"echo '{words}' >&2; exit 1", session="S-9")
    assert got.trouble.kind == kind
    assert "Error: No conversation found with session ID: S-9" in got.trouble.text
    got, _ = await made(script=f"echo '{words}' >&2; exit 1")
    assert got.trouble.kind != TroubleKind.SESSION


async def test_what_was_refused_is_remembered_unless_it_was_done_after_all(made: Call) -> None:
    """One line each, with the reason."""
    lines = (
        {"tool": ["1", "write", "a.py", "refused", "no\nrule"]},
        {"tool": ["2", "shell", "make", "refused"]},
        {"tool": ["3", "shell", "make", "done"]},
    )
    assert (await made(*lines, END))[0].refused == ("write a.py: no rule",)


class Odd(Stream):
    """Adds words up, goes down into what it is given, and gives its form nested without end."""

    def read(self, line: Json) -> None:
        self.words.append(line.text("piece"))
        self.speak(self.text)
        self.look(line.value)
        super().read(line if line.value == END else Json({}))

    def look(self, value: Any, depth: int = 20) -> None:
        json.dumps(value) if depth == 0 else self.look(value, depth - 1)

    def end(self, ended: ProcessEnd, left: Mapping[str, str]) -> None:
        for _ in range(10_000):
            self.form = [self.form]


@pytest.mark.req("RUN-18", "RUN-19")
async def test_secrets_in_pieces_and_what_is_nested_nearly_too_deeply(made: Call) -> None:
    """The whole of a message is looked at once more; whatever its reader does with a line; a form is a complaint."""
    deep = """printf '{"a": '; printf '[%.0s' $(seq $n); printf ']%.0s' $(seq $n); echo '}'"""
    torn = ({"piece": SECRET[:9]}, {"piece": SECRET[9:]}, END)
    got, news = await made(by=Plain(torn, f"for n in $(seq 800 20 999); do {deep}; done", Odd))
    assert SECRET not in f"{got.text}{got.trouble}{news!r}"
    assert "[redacted:API_KEY]" in [one.facts["text"] for one in news]
    assert (got.finished, got.form) == (True, "the form is nested too deeply")


@pytest.mark.req("RUN-18")
async def test_no_secret_is_in_anything_that_comes_of_a_call(made: Call, ask: Ask, no_layer: NoLayer) -> None:
    """Transcript, news, text in pieces, form, standard error, and what it leaves in files."""
    script = f"echo {SECRET} >&2; echo {SECRET} > '{no_layer.exchange}/left'"
    one = Plain(({"speak": [f"the key {SECRET}"]}, {"form": {"key": SECRET}}, {"end": f"it is {SECRET}"}), script)
    got, news = await made(by=one)
    everything = f"{got!r}{news!r}{ask.transcript.read_text()}{one.heard.left!r}"
    assert SECRET not in everything
    assert everything.count("[redacted:API_KEY]") == 8
    assert got.form == {"key": "[redacted:API_KEY]"}


async def test_nothing_that_stood_in_the_exchange_is_taken_for_this_call_s(made: Call, no_layer: NoLayer) -> None:
    """Folders and links that an agent left in the place of our files are gone; what is no plain file is not read."""
    outside = no_layer.root / "outside"
    outside.write_text("old")
    (no_layer.exchange / "settings").symlink_to(outside)
    (no_layer.exchange / "left").mkdir()
    one = Plain((END,), f"cd '{no_layer.exchange}'; cat settings >&2; mkfifo left")
    got, _ = await made(by=one)
    assert (got.stderr, one.heard.left, outside.read_text()) == ("new", {}, "old")


@pytest.mark.req("AGENT-05")
async def test_a_call_whose_engine_died_is_read_back(made: Call, ask: Ask, no_layer: NoLayer) -> None:
    """From what is kept of its stream, whatever its budget was: it is paid for; a half turn is none."""
    one, redact = Plain(()), Redaction({"API_KEY": SECRET})
    assert read_back(one, ask, no_layer, redact) is None
    live, _ = await made({"began": ["S"]}, {"spend": [900, 200]}, END)
    poor = ask.model_copy(update={"budget_tokens": 1000})
    got = await asyncio.to_thread(read_back, one, poor, no_layer, redact)  # where no event loop is
    assert got == live.model_copy(update={"exit": None, "seconds": 0.0})
    ask.transcript.write_text('{"speak": ["half a turn"]}\n{"end": "torn')
    assert read_back(one, ask, no_layer, redact) is None


@pytest.mark.req("TREE-10")
def test_the_hosts_of_a_model_are_the_usual_ones_and_those_of_a_gateway(tmp_path: Path) -> None:
    """Named by a variable, or in the client's own settings; what is no address is none."""
    (tmp_path / "config.toml").write_text(
        '[x]\nbase_url = "https://Gate.example.org/v1"\n"baseURL": "http://[::1]:80/"'
    )
    row = ClientRow("x", "X", "x", hosts=("api.example.com",), urls=("X_URL", "Y_URL"), logins=("config.toml", "none"))
    variables = {"X_URL": "http://me:secret@127.0.0.1:8099/v1?a", "Y_URL": "nothing"}
    hosts = ("api.example.com", "127.0.0.1:8099", "gate.example.org", "[::1]:80")
    assert model_hosts(row, variables, tmp_path) == hosts
