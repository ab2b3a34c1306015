"""Settings: the nearest file, then variables, then options; everything that is wrong at once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from interlock import settings_file
from interlock.errors import ConfigInvalid, InterlockError
from interlock.settings import READY, Settings, Table, reaches_out

FULL = """\
runner = "claude"
judges = "codex"
[runners.mine]
type = "command"
argv = ["python3", "tools/agent.py", "{agent}"]
env = { MODEL = "small" }
[agents.ct-security]
model = "large"
timeout_s = 60
writes = ["src/**"]
[agents."feature/ct-security"]
timeout_s = 90
[commands]
setup = "npm ci"
test = "npm test"
[limits]
max_parallel = 2
budget_usd = 5
[sandbox]
mode = "strict"
network = "model"
hosts = ["example.org", "*.example.com:8080"]
home = ["~/.cargo"]
env = ["API_KEY"]
[evidence]
replay = "named"
weakened = "ask"
junit = ["out/*.xml"]
[web]
address = "https://box.example"
[notify]
command = ["notify-send", "interlock"]
[telemetry]
otlp = "http://localhost:4318"
[fleet]
labels = ["gpu"]
[task]
rounds = 2
[ticket]
anything = { may = "stand here" }
"""


class TaskTable(Table):
    rounds: int = Field(default=3, ge=1, le=3)
    review: bool = True


Load = Callable[..., Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Settings of a text, with what environment and options say."""

    def loaded(text: str | None, environ: Mapping[str, str] | None = None, **options: Any) -> Settings:
        if text is not None:
            (tmp_path / "interlock.toml").write_text(text)
        dotted = {name.replace("__", "."): value for name, value in options.items()}
        return settings_file.load(tmp_path, tmp_path, environ or {}, dotted, {"task": TaskTable})

    return loaded


def _told(load: Load, *args: Any, **options: Any) -> dict[str, tuple[str | None, str | None]]:
    with pytest.raises(ConfigInvalid) as caught:
        load(*args, **options)
    first: InterlockError = caught.value
    assert first.exit_code == 2
    return {each.what: (each.where, each.remedy) for each in (first, *first.also)}


def test_the_whole_file_is_read(load: Load) -> None:
    """Each table of DESIGN 5; a playbook's table by its own model, another one's is left aside."""
    found = load(FULL)
    assert found.runner_named("mine").argv == ("python3", "tools/agent.py", "{agent}")
    assert found.agent("feature", "ct-security").model_dump(exclude_defaults=True) == {
        "model": "large",
        "timeout_s": 90,
        "writes": ("src/**",),
    }
    assert found.agent("task", "nobody").runner is None
    assert found.of("task").rounds == 2
    assert found.of("ticket") is None
    assert (found.commands["test"], found.fleet.labels) == ("npm test", ("gpu",))
    assert (found.sandbox.hosts[1], found.sandbox.home) == ("*.example.com:8080", (".cargo",))
    assert found.file == "interlock.toml"
    assert found.secrets() == {"runners.mine.env.MODEL": "small"}


def test_without_a_file_everything_has_a_default(load: Load) -> None:
    """The figures of the specification."""
    found = load(None)
    assert (found.file, found.runner, found.of("task").rounds) == ("", None, 3)
    assert found.limits.rate_limit_wait_s == 8 * 86_400
    assert (found.evidence.replay, found.evidence.replay_s) == ("all", 600)
    assert [found.runner_named(name).type for name in READY] == list(READY)


def test_the_nearest_file_upward_counts_alone(tmp_path: Path) -> None:
    """From where the person stands; nothing of the one above it is mixed in, and none above the workspace is read."""
    top = tmp_path / "top"
    (top / "a/b").mkdir(parents=True)
    (tmp_path / "interlock.toml").write_text('runner = "qwen"')
    (top / "interlock.toml").write_text('runner = "codex"\njudges = "claude"')
    (top / "a/interlock.toml").write_text('runner = "claude"')
    found = settings_file.load(top / "a/b", top, {})
    assert (found.runner, found.judges, found.file) == ("claude", None, "a/interlock.toml")
    assert settings_file.load(top, top, {}).runner == "codex"


@pytest.mark.req("RUN-16")
def test_options_count_over_variables_over_the_file(load: Load) -> None:
    """Text is taken as it stands, all else as TOML; what is empty or not given is unset. What an agent that starts us
    hands on is no setting, and others may use our prefix, too."""
    environ = {
        **{f"INTERLOCK_{name}": "x" for name in ("RUN_ID", "AGENT", "DEPTH", "BRIEF", "PATH", "OTHER_PROGRAMS_OWN")},
        "INTERLOCK_RUNNER": "codex",
        "INTERLOCK_LIMITS_BUDGET_USD": "7.5",
        "INTERLOCK_LIMITS_MAX_PARALLEL": "",
        "INTERLOCK_SANDBOX_HOSTS": '["a.example"]',
        "INTERLOCK_RUNNERS": '{other = {type = "acp", argv = ["x"]}}',
        "INTERLOCK_COMMANDS_TEST": "pytest -q",
        "INTERLOCK_TASK_ROUNDS": "1",
        "INTERLOCK_WEB_ADDRESS": "http://x",
        "PATH": "/bin",
    }
    found = load(FULL, environ, runner="gemini", limits__budget_usd=None)
    assert (found.runner, found.limits.budget_usd, found.limits.max_parallel) == ("gemini", 7.5, 2)
    assert found.sandbox.hosts == ("a.example",)
    assert found.runners.keys() == {"other"}  # in place of those of the file, which nobody has to trust then
    assert not any(name.startswith("runners") for name in reaches_out(found))
    assert found.commands == {"setup": "npm ci", "test": "pytest -q"}
    assert (found.of("task").rounds, found.web.address) == (1, "http://x")


@pytest.mark.req("CLI-05", "RUN-11")
def test_everything_that_is_wrong_is_told_at_once_where_it_stands(load: Load) -> None:
    """File with line, variable, option; with the nearest name."""
    text = """\
x = 1
[sandbx]
mode = "strict"
[sandbox]
mode = "strickt"
hosts = ["https://x"]
[task]
round = 2
[runners.m]
type = "claud"
env = { A = 1 }
"""
    told = _told(
        load,
        text,
        {"INTERLOCK_LIMITS_BUDGE_USD": "3", "INTERLOCK_TASK_ROUNDS": "7"},
        limits__budget_tokens="many",
        agents__x__timeout_s=0,
    )
    assert told.pop("x is not known")[0] == "interlock.toml:1:1"
    assert told == {
        "INTERLOCK_LIMITS_BUDGE_USD is no setting": ("environment", "Did you mean INTERLOCK_LIMITS_BUDGET_USD?"),
        "sandbx is not known": ("interlock.toml:2:1", "Did you mean sandbox?"),
        "sandbox.mode cannot be used": ("interlock.toml:5:1", "Did you mean 'strict'?"),
        "sandbox.hosts[0]: expected HOST, HOST:PORT or *.DOMAIN, without a scheme and a path": (
            "interlock.toml:6:1",
            None,
        ),
        "task.rounds cannot be used": ("environment variable INTERLOCK_TASK_ROUNDS", None),
        "task.round is not known": ("interlock.toml:8:1", "Did you mean task.rounds?"),
        "runners.m.type cannot be used": ("interlock.toml:10:1", "Did you mean 'claude'?"),
        "runners.m.env.A cannot be used": ("interlock.toml:11:1", None),
        "limits.budget_tokens cannot be used": ("option limits.budget_tokens", None),
        "agents.x.timeout_s cannot be used": ("option agents.x.timeout_s", None),
    }


BAD = {
    'runners.r = {type = "acp"}': "runners.r: argv is missing: what a runner of type 'acp' starts",
    'runners.r = {type = "claude", argv = ["x"]}': "argv is for types",
    'runners.r = {type = "command", argv = []}': "the first item must be the program",
    'sandbox.home = ["~"]': "below HOME",
    'sandbox.home = ["~/../x"]': "below HOME",
    'sandbox.guarded = ["a/b"]': "name of a file",
    'agents.x.writes = ["../x"]': "path pattern must be relative",
    'sandbox.env = ["INTERLOCK_X"]': "does not begin with INTERLOCK_",
    'web.address = "box"': "begins with http",
    'commands.test = ""': "commands.test cannot be used",
    'runner = "a\\u0000b"': "NUL",
    "limits.max_parallel = true": "limits.max_parallel cannot be used",
    "limits.budget_usd = 0": "limits.budget_usd cannot be used",
    "runner = 1": "runner cannot be used",
    "sandbox = 1": "sandbox cannot be used",
    'task = "x"': "task cannot be used",
    'commands = "pytest"': "commands cannot be used",
    'runners.r = {type = "claude", env = {KEY = ["hunter2"]}}': "runners.r.env.KEY cannot be used",
    'fleet.x = "hunter2"': "fleet.x is not known",
}


@pytest.mark.req("CLI-05", "RUN-18")
@pytest.mark.parametrize(("text", "said"), BAD.items())
def test_a_value_that_cannot_be_used_is_refused(load: Load, text: str, said: str) -> None:
    """With a sentence that says what it must be, and never what a secret is."""
    with pytest.raises(ConfigInvalid) as caught:
        load(text)
    assert (said in caught.value.what, caught.value.also) == (True, ())
    assert "hunter2" not in json.dumps(caught.value.to_json())


def test_runners_are_known_by_name(load: Load) -> None:
    """Wherever one is named; with those there are and the nearest."""
    mine = '[agents.x]\nrunner = "nobody"\n[runners.mine]\ntype = "codex"'
    remedy = "Add [runners.nobody] with its type to interlock.toml."
    assert _told(load, f'runner = "clade"\njudges = "mien"\n{mine}') == {
        "runner 'clade' is not known": ("interlock.toml:1:1", "Did you mean claude?"),
        "runner 'mien' is not known": ("interlock.toml:2:1", "Did you mean mine?"),
        "runner 'nobody' is not known": ("interlock.toml:4:1", remedy),
    }


@pytest.mark.req("CLI-05", "RUN-19")
def test_a_file_that_cannot_be_read_is_bad_input(tmp_path: Path, load: Load) -> None:
    """Bad bytes, bad TOML, a pipe: with the line if there is one; never a wait."""
    (tmp_path / "interlock.toml").write_bytes(b"\xef\xbb\xbfrunner = 'claude'\r\n# \xff\r\n")
    assert _told(load, None) == {"interlock.toml is not valid UTF-8": ("interlock.toml:2", "Save the file as UTF-8.")}
    assert list(_told(load, "a = [1,\n").values()) == [("interlock.toml:2", None)]
    assert next(iter(_told(load, "[web]\n[web]\n").values()))[0] == "interlock.toml:2:5"
    (tmp_path / "interlock.toml").unlink()
    os.mkfifo(tmp_path / "interlock.toml")
    assert list(_told(load, None)) == ["cannot read interlock.toml: is not a plain file"]


@pytest.mark.req("OWN-06")
def test_what_of_the_file_reaches_out_of_a_layer_is_known(load: Load) -> None:
    """Programs outside of it and a weaker sandbox; not what is stronger, nor what the person's own words replace."""
    assert set(reaches_out(load(FULL))) == {
        *("runners.mine.argv", "runners.mine.env.MODEL", "notify.command", "telemetry.otlp", "fleet.labels"),
        *("sandbox.hosts", "sandbox.home", "sandbox.env"),
    }
    weak = (
        '[sandbox]\nmode = "off"\nmax_bytes = 9000000000000\nguarded = []\n[runners.r]\ntype = "qwen"\nnetwork = "open"'
    )
    assert set(reaches_out(load(weak))) == {"sandbox.mode", "sandbox.max_bytes", "sandbox.guarded", "runners.r.network"}
    mended = load(weak, {"INTERLOCK_SANDBOX_MODE": "strict"}, sandbox__guarded=["x"])
    assert set(reaches_out(mended)) == {"sandbox.max_bytes", "runners.r.network"}
    harmless = 'runner = "codex"\n[sandbox]\nmode = "strict"\nnetwork = "none"\nmax_files = 5\n[commands]\ntest = "x"'
    assert reaches_out(load(harmless, {"INTERLOCK_NOTIFY_COMMAND": '["x"]'})) == {}


@pytest.mark.req("RUN-16", "CLI-05")
@pytest.mark.parametrize(
    ("text", "now"),
    [
        ('[mcp]\ngates = "elicit"\n', "a client that can ask"),
        ('[notify]\nurls = ["x"]\n', "[notify] command"),
        ('[sandbox]\nprotected = ["x"]\n', "[sandbox] guarded"),
        ('[runners.mine]\ntype = "claude"\nargs = ["x"]\n', "of type `command`"),
        ('[runners.mine]\ntype = "claude"\n[runners.mine.sandbox]\nmode = "off"\n', "of the runner itself"),
    ],
)
def test_a_key_of_before_is_named_with_its_successor(tmp_path: Path, text: str, now: str) -> None:
    (tmp_path / "interlock.toml").write_text(text)
    with pytest.raises(ConfigInvalid) as raised:
        settings_file.load(tmp_path, tmp_path, {})
    (error,) = (raised.value, *raised.value.also)
    assert now in str(error.remedy)
    assert str(error.where).startswith("interlock.toml:")
