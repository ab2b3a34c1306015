"""Settings: precedence, caps, complaints with their place, the generated reference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from interlock.agents.runner import AgentRequest
from interlock.engine.definition import Nothing
from interlock.errors import ConfigInvalid
from interlock.playbooks import NAMES, settings_model
from interlock.playbooks import load as playbook
from interlock.settings import (
    FILE_NAME,
    PROTOCOL_VARIABLES,
    READY_RUNNERS,
    AnyProgram,
    CodingAgent,
    SandboxSettings,
    Scripted,
    Settings,
    SettingsInvalid,
    catalogue,
    find_workspace,
    json_schema,
    load_settings,
    reference,
)
from interlock.workspace.layers.seam import Bounds
from tests.proofs import examples

MODEL = settings_model()
EXAMPLE = """\
runner = "claude"                 # default runner for all agents

[runners.claude]
type = "claude"
[runners.mine]
type = "command"
argv = ["python3", "tools/agent.py", "{agent}"]
env = { MODEL = "small" }

[agents.ct-security]
runner = "mine"
timeout_s = 900
model = "large"
writes = ["docs/**"]
[agents."ticket/Planner"]
timeout_s = 30.5

[limits]
max_parallel = 4
budget_usd = 20.0
[feature]
approval = true
[ticket]
build_command = "make"
test_command = "make test"
"""


def load(folder: Path, text: str | bytes = "", environ: dict[str, str] | None = None, **overrides: object) -> Settings:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / FILE_NAME).write_bytes(raw)
    return load_settings(folder, environ or {}, {k.replace("__", "."): value for k, value in overrides.items()}, MODEL)


def complaint(
    folder: Path, text: str | bytes, environ: dict[str, str] | None = None, **overrides: object
) -> ConfigInvalid:
    with pytest.raises(ConfigInvalid) as caught:
        load(folder, text, environ, **overrides)
    assert caught.value.exit_code == 2
    return caught.value


def test_no_file_gives_the_defaults(tmp_path: Path) -> None:
    """Everything has a default."""
    loaded = load_settings(tmp_path, {}, model=MODEL)
    assert loaded == MODEL()
    assert loaded.runner is None
    assert (loaded.router.max_depth, loaded.router.timeout_s, loaded.router.partial_grace_s) == (3, 60, 30)
    assert loaded.router.cycle_detection is True
    assert loaded.router.timeout_default_s is None
    assert loaded.router.max_context_bytes == 10_000
    assert loaded.feature.approval is False
    assert loaded.sandbox == SandboxSettings(mode="auto", network="open")


def test_the_example_of_the_design_loads(tmp_path: Path) -> None:
    """The documented example means what it says."""
    loaded = load(tmp_path, EXAMPLE)
    assert loaded.runner_named("mine") == AnyProgram(
        type="command", argv=("python3", "tools/agent.py", "{agent}"), env={"MODEL": "small"}
    )
    assert loaded.agents["ct-security"].writes == ("docs/**",)
    assert loaded.agents["ct-security"].timeout_s == 900
    assert loaded.limits.budget_usd == 20.0
    assert loaded.ticket.test_command == "make test"
    assert loaded.feature.approval is True


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    """The object is frozen, its tables by name included."""
    loaded = load(tmp_path, EXAMPLE)
    with pytest.raises(ValidationError):
        loaded.runner = "codex"
    with pytest.raises(ValidationError):
        loaded.limits.max_parallel = 9
    with pytest.raises(TypeError):
        loaded.runners["x"] = loaded.runners["mine"]  # type: ignore[index]
    with pytest.raises(TypeError):
        loaded.runners["mine"].env["A"] = "b"  # type: ignore[union-attr,index]


def test_settings_survive_a_dump(tmp_path: Path) -> None:
    """What is dumped as JSON loads to the same settings."""
    loaded = load(tmp_path, EXAMPLE)
    assert MODEL.model_validate_json(loaded.model_dump_json()) == loaded


def test_options_beat_environment_beats_file(tmp_path: Path) -> None:
    """Precedence: options, environment, file, defaults."""
    environ = {"INTERLOCK_LIMITS_MAX_PARALLEL": "3", "INTERLOCK_RUNNER": "codex"}
    assert load(tmp_path, EXAMPLE).limits.max_parallel == 4
    assert load(tmp_path, EXAMPLE, environ).limits.max_parallel == 3
    assert load(tmp_path, EXAMPLE, environ, limits__max_parallel=2).limits.max_parallel == 2
    assert load(tmp_path, EXAMPLE, environ).runner == "codex"
    assert load(tmp_path, EXAMPLE, environ, runner="scripted").runner == "scripted"
    assert load(tmp_path, EXAMPLE, environ, runner=None).runner == "codex"
    assert load(tmp_path, EXAMPLE, {"INTERLOCK_RUNNER": ""}).runner == "claude"


def test_variables_of_tables_by_name_merge_into_the_file(tmp_path: Path) -> None:
    """INTERLOCK_AGENTS and INTERLOCK_RUNNERS hold a TOML table that is laid over the file's, key by key."""
    environ = {
        "INTERLOCK_AGENTS": '{ct-security = {model = "tiny"}, "router/x" = {timeout_s = 5}}',
        "INTERLOCK_RUNNERS": '{quick = {type = "scripted", scenario = "ok.yaml"}}',
    }
    loaded = load(tmp_path, EXAMPLE, environ)
    assert (loaded.agents["ct-security"].model, loaded.agents["ct-security"].timeout_s) == ("tiny", 900)
    assert loaded.agents["router/x"].timeout_s == 5
    assert loaded.runner_named("quick") == Scripted(type="scripted", scenario="ok.yaml")


def _sample(expected: str) -> tuple[str, object]:
    if expected == "true or false":
        return "true", True
    if expected == "list of texts":
        return '["a/**"]', ("a/**",)
    if expected.startswith("list of "):
        first = expected.removeprefix("list of ").partition(",")[0]
        return f'["{first}"]', (first,)
    if expected.startswith(("integer", "number")):
        return "1", 1
    if expected.startswith("one of "):
        first = expected.removeprefix("one of ").partition(",")[0]
        return first, first
    return "scripted", "scripted"


@pytest.mark.parametrize("setting", [s for s in catalogue(MODEL) if "NAME" not in s.key], ids=lambda s: s.variable)
def test_every_setting_has_a_working_variable(setting, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Each documented variable changes its setting."""
    raw, value = _sample(setting.expected)
    if setting.key[0] in ("sandbox", "fleet") and setting.expected == "list of texts":
        raw, value = '["policy"]', ("policy",)
    if setting.dotted == "telemetry.otlp":
        raw = value = "http://localhost:4318"
    loaded: object = load_settings(tmp_path, {setting.variable: raw}, model=MODEL)
    for part in setting.key:
        loaded = getattr(loaded, part)
    assert loaded == value


def test_variables_of_the_protocol_are_never_settings(tmp_path: Path) -> None:
    """A nested run inherits the protocol's variables; they change nothing and are no errors."""
    request = AgentRequest("r", "p", "s", "a", "m", 1, "d", "x", tmp_path, tmp_path, "b", 1.0)
    assert set(request.environment()) == PROTOCOL_VARIABLES
    assert not PROTOCOL_VARIABLES & {setting.variable for setting in catalogue(MODEL)}
    assert load_settings(tmp_path, dict.fromkeys(PROTOCOL_VARIABLES, "7"), model=MODEL) == MODEL()


def test_a_mistyped_variable_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    """A variable that was plainly meant as a setting is not ignored; foreign ones are."""
    wrong = {"INTERLOCK_RUNER": "x", "INTERLOCK_LIMTS_MAX_PARALLEL": "2", "INTERLOCK_ROUTER_DEPTH": "2"}
    error = complaint(tmp_path, "", wrong)
    for name in ("INTERLOCK_RUNNER?", "INTERLOCK_LIMITS_MAX_PARALLEL?", "INTERLOCK_ROUTER_MAX_DEPTH?"):
        assert name in str(error)
    assert load_settings(tmp_path, {"INTERLOCK_FROM_ANOTHER_TOOL": "1", "PATH": "/bin"}, model=MODEL) == MODEL()


@pytest.mark.req("LY-12")
def test_a_runner_has_a_sandbox_of_its_own_over_the_general_one(tmp_path: Path) -> None:
    """Field by field; a runner that says nothing, or has no table at all, gets the general one; of every type."""
    text = """
[sandbox]
mode = "strict"
network = "model"
home = ["~/.config/tool", "/opt/data"]
hosts = ["registry.example.org:443"]
[runners.mine]
type = "command"
argv = ["a"]
sandbox = { network = "open", home = [] }
[runners.same]
type = "acp"
program = "b"
"""
    loaded = load(tmp_path, text)
    general = SandboxSettings(
        mode="strict", network="model", home=(".config/tool", "/opt/data"), hosts=("registry.example.org:443",)
    )
    for name in ("same", "claude", "scripted", None):
        assert loaded.sandbox_for(name) == general
    assert loaded.sandbox_for("mine") == general.model_copy(update={"network": "open", "home": ()})
    with pytest.raises(ConfigInvalid, match="not known"):
        loaded.sandbox_for("nobody")
    for kind in ("claude", "opencode", "scripted"):
        own = load(tmp_path, f"[runners.x]\ntype = '{kind}'\nsandbox.mode = 'off'\n")
        assert (own.sandbox_for("x").mode, own.sandbox.mode) == ("off", "auto")
    laid_over = load(tmp_path, text, {"INTERLOCK_RUNNERS": '{mine = {sandbox = {mode = "off"}}}'})
    assert (laid_over.sandbox_for("mine").mode, laid_over.sandbox_for("mine").network) == ("off", "open")


@pytest.mark.req("LY-34")
def test_the_bounds_of_a_layer_are_settings(tmp_path: Path) -> None:
    """Bytes and files; their defaults are those of a layer whose maker was told nothing."""
    loaded = load(tmp_path, "[sandbox]\nmax_bytes = 1000\nmax_files = 5\n").sandbox
    assert (loaded.max_bytes, loaded.max_files) == (1000, 5)
    default = SandboxSettings()
    assert Bounds(default.max_bytes, default.max_files) == Bounds()


@pytest.mark.req("LY-33")
def test_the_protected_names_are_a_setting(tmp_path: Path) -> None:
    """Unset is interlock's own list, which belongs to the scopes; a list replaces it, also an empty one."""
    assert SandboxSettings().protected is None
    loaded = load(tmp_path, '[sandbox]\nprotected = ["CLAUDE.md", "[policy]"]\n')
    assert loaded.sandbox.protected == ("CLAUDE.md", "[policy]")
    assert load(tmp_path, "[sandbox]\nprotected = []\n").sandbox.protected == ()


@pytest.mark.parametrize("name", ["isolate", "outbox"])
def test_a_setting_that_is_gone_says_that_its_line_can_be_deleted(name: str, tmp_path: Path) -> None:
    """An older file or variable is told why, not offered the nearest key."""
    error = complaint(tmp_path, f"[workspace]\nwatch = []\n{name} = true\n")
    assert (error.what, error.where) == (f"workspace.{name} is no setting any more", f"{FILE_NAME}:3")
    in_environment = complaint(tmp_path, "", {f"INTERLOCK_WORKSPACE_{name.upper()}": "true"})
    assert in_environment.what == f"INTERLOCK_WORKSPACE_{name.upper()} is no setting any more"
    for told in (error, in_environment):
        assert told.remedy is not None
        assert "a layer of its own" in told.remedy
        assert "delete" in told.remedy


CAPS = {
    "router.max_depth": (1, 3),
    "router.timeout_s": (1, 60),
    "router.partial_grace_s": (0, 30),
    "router.max_context_bytes": (1, 10_000),
}


@pytest.mark.req("CM-18", "EN-45")
@pytest.mark.parametrize(("key", "low", "high"), [(key, *bounds) for key, bounds in CAPS.items()])
def test_a_cap_can_be_lowered_and_never_raised(key: str, low: int, high: int, tmp_path: Path) -> None:
    """Inside its range a cap is taken over; outside, from whichever source, it is exit 2 and says the range."""
    table, name = key.split(".")
    variable = f"INTERLOCK_{table}_{name}".upper()
    for value in (low, high):
        assert getattr(load(tmp_path, f"[{table}]\n{name} = {value}\n").router, name) == value
    for value in (low - 1, high + 1):
        in_file = complaint(tmp_path, f"[{table}]\n{name} = {value}\n")
        assert in_file.where == f"{FILE_NAME}:2"
        assert in_file.expected is not None
        assert f"from {low} to {high}" in in_file.expected
        assert in_file.found == f"{value} (integer)"
        in_environment = complaint(tmp_path, "", {variable: str(value)})
        assert in_environment.where == f"environment variable {variable}"
        assert complaint(tmp_path, "", None, **{key.replace(".", "__"): value}).where == f"option {key}"


@pytest.mark.req("EN-45")
def test_max_parallel_only_lowers_the_playbooks_own(tmp_path: Path) -> None:
    """Unset means the playbook's own number; set, the smaller of both."""
    assert load_settings(tmp_path, {}, model=MODEL).limits.parallel(4) == 4
    assert load(tmp_path, "[limits]\nmax_parallel = 2\n").limits.parallel(4) == 2
    assert load(tmp_path, "[limits]\nmax_parallel = 99\n").limits.parallel(4) == 4


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('runer = "claude"\n', 1, "runner"),
        ("\n# note\n[limits]\nmax_paralel = 2\n", 4, "limits.max_parallel"),
        ("limits = { budget = 2 }\n", 1, "limits.budget_usd"),
        ("limits.max_paralel = 2\n", 1, "limits.max_parallel"),
        ("[limit]\nmax_parallel = 2\n", 1, "limits"),
        ("max_depth = 2\n", 1, "router.max_depth"),
        ('[runners.x]\ntype = "command"\nargv = [\n  "a",\n]\nenvs = {}\n', 6, "runners.x.env"),
        ('[agents.qa]\nmodle = "x"\n', 2, "agents.qa.model"),
        ("[roadmap]\nspeed = 1\n", 2, "Known here: fail_fast"),
        ('[feature]\nzzz = """\n[limits]\n"""\n', 2, "Known here: approval"),
    ],
)
def test_an_unknown_key_names_the_nearest_and_its_line(text: str, line: int, words: str, tmp_path: Path) -> None:
    """An unknown key is an error with file, line and the key that was probably meant."""
    error = complaint(tmp_path, text)
    assert "unknown setting" in error.what
    assert error.where == f"{FILE_NAME}:{line}"
    assert error.remedy is not None
    assert words in error.remedy


@pytest.mark.parametrize(
    ("text", "line", "expected", "found"),
    [
        ("[limits]\nmax_parallel = 'four'\n", 2, "integer from 1", "'four' (text)"),
        ("[limits]\nmax_parallel = true\n", 2, "integer from 1", "true (true or false)"),
        ("[limits]\nmax_parallel = 1.5\n", 2, "integer from 1", "1.5 (number)"),
        ("[limits]\nbudget_usd = inf\n", 2, "number over 0", "inf (number)"),
        ("[limits]\nbudget_usd = nan\n", 2, "number over 0", "nan (number)"),
        ("[workspace]\nwatch = 'a'\n", 2, "list of texts", "'a' (text)"),
        ("[feature]\napproval = 1\n", 2, "true or false", "1 (integer)"),
        ("[sandbox]\nmode = 'on'\n", 2, "one of auto, strict, off", "'on' (text)"),
        ("[sandbox]\nnetwork = 'closed'\n", 2, "one of open, model, none", "'closed' (text)"),
        ("[sandbox]\nmax_bytes = 0\n", 2, "integer from 1", "0 (integer)"),
        ("[sandbox]\nmax_files = -1\n", 2, "integer from 1", "-1 (integer)"),
        ("[runners.x]\ntype = 'codex'\n[runners.x.sandbox]\nmode = 'on'\n", 4, "one of auto, strict", "'on' (text)"),
        ("limits = 5\n", 1, "a table", "5 (integer)"),
        ("[runners.x]\ntype = 'robot'\n", 2, "one of acp, claude", "'robot' (text)"),
        ("[runners.x]\ntype = 'claude'\nmode = 'fast'\n", 3, "one of headless, acp", "'fast' (text)"),
        ("[runners.x]\ntype = 'command'\nargv = ['a', 2]\n", 3, "list of texts", "2 (integer)"),
        ("[runners.x]\ntype = 'command'\nargv=['a']\nenv = {TOKEN = 77123}\n", 4, "table of texts", "integer"),
        ("runner = 2020-01-01\n", 1, "text", "datetime.date(2020, 1, 1) (date)"),
        ("runner = ''\n", 1, "text", "'' (text)"),
    ],
)
def test_a_type_error_says_expected_and_found(text: str, line: int, expected: str, found: str, tmp_path: Path) -> None:
    """A value of the wrong type or range: what it must be, and what stood there; never a variable's value."""
    error = complaint(tmp_path, text)
    assert error.where == f"{FILE_NAME}:{line}"
    assert error.expected is not None
    assert error.expected.startswith(expected)
    assert error.found == found


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[runners.x]\ntype = 'command'\n", 1, "runners.x.argv is missing"),
        ("[runners.x]\ntype = 'command'\nargv = []\n", 3, "the program to start"),
        ("[runners.x]\ntype = 'command'\nargv = ['', 'x']\n", 3, "the program to start"),
        ("\n[runners.x]\nprogram = 'a'\n", 2, "runners.x.type is missing"),
        ("[runners.x]\ntype = 'acp'\n", 1, "runners.x.program is missing"),
        ('[agents.a]\nwrites = ["../up"]\n', 2, "inside the workspace"),
        ('[workspace]\nwatch = ["/etc/**"]\n', 2, "inside the workspace"),
        ('[runners.x]\ntype="command"\nargv=["a\\u0000b"]\n', 3, "NUL"),
        *(
            (f"[sandbox]\nhome = [{place!r}]\n", 2, "a file or folder below HOME")
            for place in ("", ".", "~", "~/", "/", "//", "..", "a/../b", "~root/x", "/etc/../root")
        ),
        ('[sandbox]\nhome = ["a\\u0000b"]\n', 2, "NUL"),
        *(
            (f"[sandbox]\nprotected = [{name!r}]\n", 2, "the name of a file or folder")
            for name in ("", ".", "..", "docs/policy", "/etc")
        ),
        *(
            (f"[sandbox]\nhosts = [{host!r}]\n", 2, "HOST, HOST:PORT or *.DOMAIN")
            for host in ("", "*", "*.", "a.*", "http://a", "a/b", "a b", "a:", "a:http", "a:1:2", "u@a", "[::1")
        ),
        ('[runners.x]\ntype="command"\nargv=["a"]\nenv={INTERLOCK_PATH="x"}\n', 4, "INTERLOCK_"),
        ('runner = "mine"\n', 1, "runner 'mine' is not known"),
        ('[agents."ticket/Planner"]\nrunner = "command"\n', 2, "runner 'command' is not known"),
    ],
)
def test_what_cannot_work_is_refused(text: str, line: int, what: str, tmp_path: Path) -> None:
    """Missing parts, paths out of the workspace, unusable texts and unknown runners are found at the start."""
    error = complaint(tmp_path, text)
    assert what in error.what
    assert error.where == f"{FILE_NAME}:{line}"


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    """One error carries every problem, each with its own place."""
    text = 'runer = "x"\n[limits]\nmax_parallel = 0\n[router]\nmax_depth = 4\nmax_dept = 1\n'
    error = complaint(tmp_path, text, {"INTERLOCK_FEATURE_APPROVAL": "perhaps"})
    assert isinstance(error, SettingsInvalid)
    places = {problem.where for problem in error.problems}
    lines = {f"{FILE_NAME}:{line}" for line in (1, 3, 5, 6)}
    assert places == {*lines, "environment variable INTERLOCK_FEATURE_APPROVAL"}
    assert all(problem.where in str(error) for problem in error.problems)


def test_a_variable_does_not_hide_a_broken_table(tmp_path: Path) -> None:
    """What stands in a table's place is complained of where it stands, whatever else sets a key of the table."""
    error = complaint(tmp_path, "\nlimits = 5\n", {"INTERLOCK_LIMITS_MAX_PARALLEL": "2"}, limits__budget_usd=3.0)
    assert (error.where, error.expected, error.found) == (f"{FILE_NAME}:2", "a table", "5 (integer)")


@pytest.mark.parametrize(
    "text", ["a = \n", "\n\n[limits\n", 'x = "', "a = 1\na = 2\n", "x = " + "9" * 5000, "x=" + "[" * 9000]
)
def test_bad_toml_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    """A syntax error says where, and that it is one."""
    error = complaint(tmp_path, text)
    assert error.where is not None
    assert error.where.startswith(FILE_NAME)
    assert "TOML" in error.what or "nested" in error.what


def test_the_line_of_a_syntax_error_is_right(tmp_path: Path) -> None:
    """Line 3 is called line 3."""
    assert complaint(tmp_path, "\n[limits]\nmax_parallel = \n").where == f"{FILE_NAME}:3"


def test_byte_order_mark_and_windows_line_ends_are_accepted(tmp_path: Path) -> None:
    """A file from another editor loads, and lines are still counted right."""
    assert load(tmp_path, b'\xef\xbb\xbfrunner = "codex"\r\n\r\n[limits]\r\nmax_parallel = 2\r\n').runner == "codex"
    error = complaint(tmp_path, b"\xef\xbb\xbf[limits]\r\nmax_parallel = 0\r\n")
    assert error.where == f"{FILE_NAME}:2"


def test_other_encodings_are_refused_with_the_byte(tmp_path: Path) -> None:
    """A file that is not UTF-8 names the byte and its line."""
    error = complaint(tmp_path, b'# fine\nrunner = "caf\xe9"\n')
    assert error.where == f"{FILE_NAME}:2"
    assert error.found == "byte 0xe9 at position 20"


def test_an_unreadable_file_is_no_traceback(tmp_path: Path) -> None:
    """A folder in the file's place, or a file without end, is a ConfigInvalid."""
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_settings(tmp_path, {}, model=MODEL)
    (tmp_path / "b").mkdir()
    with (tmp_path / "b" / FILE_NAME).open("wb") as file:
        file.truncate(10_000_001)
    with pytest.raises(ConfigInvalid, match="too large"):
        load_settings(tmp_path / "b", {}, model=MODEL)


def test_known_agents_need_no_table() -> None:
    """A known agent is usable by its name alone; a table of that name replaces its defaults."""
    assert MODEL().runner_named("gemini") == CodingAgent(type="gemini")
    for name in READY_RUNNERS:
        assert MODEL().runner_named(name).type == name
    own = Settings.model_validate({"runners": {"claude": {"type": "scripted"}}})
    assert own.runner_named("claude") == Scripted(type="scripted")


def test_a_role_of_one_playbook_goes_before_the_role_of_all() -> None:
    """`playbook/role` is laid over `role`, field by field; case counts."""
    loaded = Settings.model_validate(
        {"agents": {"Planner": {"model": "m", "timeout_s": 9}, "ticket/Planner": {"timeout_s": 5}, "planner": {}}}
    )
    assert (loaded.agent("ticket", "Planner").timeout_s, loaded.agent("ticket", "Planner").model) == (5, "m")
    assert loaded.agent("feature", "Planner").timeout_s == 9
    assert loaded.agent("feature", "planner").timeout_s is None
    assert loaded.agent("feature", "unheard-of").model is None


def test_the_workspace_is_the_nearest_folder_with_settings(tmp_path: Path) -> None:
    """interlock.toml goes before git's top level; without both it is the folder itself."""
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert find_workspace(deep, tmp_path / "a") == (tmp_path / "a").resolve()
    (tmp_path / "a" / "b" / ".git").mkdir()
    assert find_workspace(deep, None) == deep.resolve()  # an empty .git, as sandboxes leave behind, is no repository
    (tmp_path / "a" / "b" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert find_workspace(deep, None) == (tmp_path / "a" / "b").resolve()
    (tmp_path / "a" / FILE_NAME).touch()
    assert find_workspace(deep, None) == (tmp_path / "a").resolve()
    with pytest.raises(ConfigInvalid, match="not a folder"):
        find_workspace(deep, tmp_path / "absent")


def test_the_workspace_of_a_real_git_worktree_is_its_top(tmp_path: Path) -> None:
    """In a linked worktree `.git` is a file; its folder is the top level."""
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    main = tmp_path / "main"
    for argv in (
        ["git", "init", "-q", str(main)],
        [
            "git",
            "-C",
            str(main),
            *("-c", "user.name=a", "-c", "user.email=a@b"),
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "x",
        ],
        ["git", "-C", str(main), "worktree", "add", "-q", "--detach", str(tmp_path / "linked")],
    ):
        subprocess.run(argv, check=True, env=environ, capture_output=True)
    inside = tmp_path / "linked" / "src"
    inside.mkdir()
    assert find_workspace(inside, None) == (tmp_path / "linked").resolve()


def test_a_folder_without_marks_is_its_own_workspace(tmp_path: Path) -> None:
    """Neither settings nor git above: the folder itself."""
    if any((parent / mark).exists() for parent in tmp_path.parents for mark in (FILE_NAME, ".git/HEAD")):
        pytest.fail("the temporary folder lies inside a workspace; set TMPDIR elsewhere")
    assert find_workspace(tmp_path, None) == tmp_path.resolve()


def test_asking_for_the_workspace_needs_no_pydantic() -> None:
    """Commands that only look around find their workspace without the cost of the models."""
    script = "import sys; from interlock.settings import find_workspace; sys.exit('pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_reference_has_every_key_of_the_schema() -> None:
    """Reference and JSON Schema list the same settings, each with a meaning."""
    text, schema = reference(MODEL), json_schema(MODEL)
    json.dumps(schema)
    assert schema["additionalProperties"] is False
    for model in schema["$defs"].values():
        for name in model["properties"]:
            assert f"{name}` |" in text or f".{name}." in text  # a table in a table
    assert all(setting.meaning for setting in catalogue(MODEL))
    assert text.count("\n") == len(catalogue(MODEL)) + 2


def test_each_playbook_has_its_table() -> None:
    """The settings have a table for each playbook that has settings, the one that its definition names."""
    for name in NAMES:
        assert type(MODEL().of(name) or Nothing()) is playbook(name).settings
    assert Settings().of("feature") is None


WORDS = st.sampled_from(
    [s for setting in catalogue(MODEL) for s in (*setting.key, setting.dotted)]
    + [
        "[",
        "]",
        "[[",
        "]]",
        "{",
        "}",
        "=",
        "\n",
        '"',
        "'''",
        '"""',
        "1",
        "-1",
        "nan",
        "true",
        "type",
        "command",
        ",",
        ".",
        "\\",
        "#",
        "\r",
    ]
)


@settings(examples(3), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=60), st.lists(WORDS, max_size=25).map(lambda words: " ".join(words).encode())))
@example(b'[[runners]]\ntype="command"\n')
@example(b'runners = {"" = {type = 1}}\n')
@example(b'agents = [1]\nrunners = "x"\n')
def test_no_text_breaks_loading(tmp_path: Path, raw: bytes) -> None:
    """Whatever the file holds: settings, or a ConfigInvalid that can be shown."""
    try:
        load(tmp_path, raw)
    except ConfigInvalid as error:
        assert str(error)
        assert dict(error.parts())


@examples(2)
@given(st.dictionaries(st.sampled_from([s.variable for s in catalogue(MODEL)]), st.text(max_size=20), max_size=4))
@example({"INTERLOCK_RUNNERS": "{}\nvalue2 = 1"})
@example({"INTERLOCK_RUNNER": "\udc80", "INTERLOCK_AGENTS": "\udc80"})
def test_no_environment_breaks_loading(environ: dict[str, str]) -> None:
    """Whatever the variables hold: settings, or a ConfigInvalid."""
    try:
        load_settings(Path("does-not-exist"), environ, model=MODEL)
    except ConfigInvalid as error:
        assert str(error)
