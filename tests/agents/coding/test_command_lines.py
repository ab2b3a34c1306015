"""How each coding agent is started once per call: brief, role, model, session, limits, and what it may do."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.agents.coding.catalogue import dialect_of
from interlock.agents.coding.dialect import ARGUMENT_LIMIT, Invocation, RoleText, fits
from interlock.agents.coding.gemini import taken_literally
from interlock.agents.coding.toml_text import inline_table, toml_string
from interlock.agents.runner import Allowance
from tests.agents.coding.tables import FOLDER, TEXTS, ask, holds, starts

ROLE = RoleText("interlock-x", 'does "x": y', "You do x.\n---\nname: z '''more''' \\ \x7f\té\U0001f600")
PLUGIN = FOLDER / "copilot-plugin"


def called(name: str, prompt: str = "the task", **more: Any) -> Invocation:
    return dialect_of(name).invocation(f"/bin/{name}", ask(prompt, **more))


def after(word: str, call: Invocation) -> str:
    return next(value for flag, value in pairwise(call.argv) if flag == word)


def codex_settings(call: Invocation) -> dict[str, Any]:
    """The overrides of a command line, read as codex reads them: one TOML value each, put at a dotted path."""
    found: dict[str, Any] = {}
    for flag, setting in pairwise(call.argv):
        if flag == "-c":
            _merge(found, tomllib.loads(setting))
    return found


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict):
            _merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def opencode_settings(call: Invocation) -> dict[str, Any]:
    """What OpenCode gets to read, after it has filled in its placeholders."""
    text = call.env["OPENCODE_CONFIG_CONTENT"]
    found: dict[str, Any] = json.loads(re.sub(r"\{(env|file):[^}]*\}", "FILLED IN", text))
    return found


def claude_settings(call: Invocation) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call.files[Path(after("--settings", call))])
    return found


def gemini_policy(prompt: str) -> list[dict[str, Any]]:
    """The rules that gemini gets, read from the file that its command line names."""
    call = called("gemini", prompt)
    if "--admin-policy" not in call.argv:
        assert not call.files
        return []
    rules: list[dict[str, Any]] = tomllib.loads(call.files[Path(after("--admin-policy", call))])["rule"]
    return rules


ROLES: Mapping[str, Callable[[Invocation], object]] = {
    "claude": lambda call: (after("--agent", call), json.loads(after("--agents", call))),
    "codex": lambda call: codex_settings(call)["developer_instructions"],
    "copilot": lambda call: (
        f"--plugin-dir={PLUGIN}" in call.argv,
        "--agent=interlock:interlock-x" in call.argv,
        json.loads(call.files[PLUGIN / "plugin.json"])["name"],
        call.files[PLUGIN / "agents" / "interlock-x.agent.md"],
    ),
    "gemini": lambda call: call.files[Path(call.env["GEMINI_SYSTEM_MD"])],
    "opencode": lambda call: (
        after("--agent", call),
        opencode_settings(call)["default_agent"],
        opencode_settings(call)["agent"]["interlock-x"],
    ),
}
"""Where a role is found, as the agent reads it."""
GIVEN: Mapping[str, object] = {
    "claude": (ROLE.name, {ROLE.name: {"description": ROLE.description, "prompt": ROLE.text}}),
    "codex": ROLE.text,
    "copilot": (
        *(True, True, "interlock"),
        f"---\nname: interlock-x\ndescription: {json.dumps(ROLE.description)}\n---\n{ROLE.text}\n",
    ),
    # Skills and sub-agents would be lost with its own instructions.
    "gemini": f"{ROLE.text}\n\n${{SubAgents}}\n\n${{AgentSkills}}\n",
    "opencode": (
        # It would fall back to the default, in silence, where it does not know an agent.
        *(ROLE.name, ROLE.name),
        {
            **{
                "description": ROLE.description,
                "prompt": ROLE.text,
                "mode": "primary",
                "disable": False,
                "hidden": False,
            },
            "permission": {"external_directory": {"*": "deny", "/records/*": "allow"}},
        },
    ),
}
MODELS = {"claude": "--model", "codex": "-m", "copilot": "--model=", "gemini": "-m", "opencode": "--model"}
SESSIONS = {
    "claude": "--resume",
    "codex": "resume",
    "copilot": "--resume=",
    "gemini": "--resume",
    "opencode": "--session",
}
FREE = {
    "claude": "--dangerously-skip-permissions",
    "codex": "--dangerously-bypass-approvals-and-sandbox",
    "copilot": "--allow-all",
    "gemini": "yolo",
}
"""What frees an agent of its own permissions; OpenCode has it in its settings."""
each_agent = pytest.mark.parametrize("name", ROLES)


@each_agent
def test_the_brief_goes_in_whole_on_standard_input(name: str) -> None:
    """However long it is: neither the command line nor the environment holds anything of it."""
    prompt = "x" * 500_000
    call = called(name, prompt)
    assert call.stdin == prompt
    assert sum(map(len, (*call.argv, *call.env.values()))) < 5_000


@each_agent
def test_role_model_and_further_arguments_are_handed_over(name: str) -> None:
    """The role whole, where this agent takes it; what settings add comes last."""
    call = called(name, role=ROLE, model="the-model", args=("--own", "1"))
    assert call.argv[0] == f"/bin/{name}"
    assert ROLES[name](call) == GIVEN[name]
    assert f"{MODELS[name]} the-model".replace("= ", "=") in " ".join(call.argv)
    assert call.argv[-3:] == ("--own", "1", "-") if name == "codex" else call.argv[-2:] == ("--own", "1")
    assert call.stdin == "the task"


@each_agent
def test_without_a_role_or_a_model_those_of_the_user_stay(name: str) -> None:
    """Neither is forced upon an agent, and no file is made for it."""
    call = called(name, confined=True)
    assert not call.files
    given_ = [*call.argv, *call.env, *call.env.values()]
    assert not [word for word in given_ if re.search(r"agent|plugin|SYSTEM_MD|instructions|model|^-m", word)]


@each_agent
def test_nothing_is_updated_or_sent_home_or_asked(name: str) -> None:
    """Nobody is there to be asked, and a call is a call."""
    call = called(name)
    match name:
        case "claude":
            assert {"DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"} <= set(call.env)
        case "codex":
            settings = codex_settings(call)
            assert (settings["approval_policy"], settings["check_for_update_on_startup"]) == ("never", False)
            assert settings["analytics"] == settings["feedback"] == {"enabled": False}
        case "copilot":
            assert {"--no-ask-user", "--disable-client-telemetry"} <= set(call.argv)
            assert call.env["COPILOT_AUTO_UPDATE"] == "false"
        case "gemini":
            assert "--skip-trust" in call.argv
            assert call.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
        case _:
            assert "--auto" in call.argv
            settings = opencode_settings(call)
            assert (settings["share"], settings["autoupdate"]) == ("disabled", False)


# -- what it may do


@pytest.mark.req("LY-13")
@each_agent
def test_an_agent_that_the_kernel_holds_asks_nobody_and_has_no_sandbox(name: str) -> None:
    """Without a layer it keeps the mode that ends at its folder, where it has one."""
    free, held = called(name, confined=True), called(name)
    if name == "opencode":
        assert opencode_settings(free)["permission"] == {"*": "allow"}
        in_role = opencode_settings(called(name, confined=True, role=ROLE))
        assert in_role["agent"][ROLE.name]["permission"] == {"*": "allow"}
    else:
        assert FREE[name] in free.argv
        assert (FREE[name] in held.argv) == (name in ("copilot", "gemini"))
    assert not any("sandbox_mode" in word or word.startswith("permissions.") for word in free.argv)


@pytest.mark.req("LY-13")
@each_agent
@pytest.mark.parametrize("confined", [True, False])
def test_no_rule_names_a_path_of_the_workspace(name: str, confined: bool) -> None:
    """What may be written is decided by what the layer holds; files of a call lie where the agent sees them."""
    call = called(name, confined=confined, role=ROLE)
    assert not any("/ws" in text for text in [*call.argv, *call.env.values(), *call.files.values()])
    assert all(path.is_relative_to(FOLDER) for path in (*call.files, *call.leaves))


@pytest.mark.req("LY-13")
def test_claude_is_told_that_it_is_held() -> None:
    """As root it would refuse to be freed."""
    assert called("claude", confined=True).env["IS_SANDBOX"] == "1"
    assert "IS_SANDBOX" not in called("claude").env


def test_claude_without_a_layer_works_in_its_folder() -> None:
    """Edits there and all that edits nothing are allowed; tools of servers, which no rule can name, by a hook."""
    call = called("claude")
    assert (after("--permission-mode", call), after("--add-dir", call)) == ("acceptEdits", str(FOLDER))
    allowed = set(claude_settings(call)["permissions"]["allow"])
    assert {"Bash", "Read", "WebFetch"} <= allowed
    assert not {"Edit", "Write"} & allowed
    (hook,) = claude_settings(call)["hooks"]["PreToolUse"]
    assert hook["matcher"] == "mcp__.*"
    said = subprocess.run(["sh", "-c", hook["hooks"][0]["command"]], check=True, capture_output=True).stdout
    assert json.loads(said)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_codex_without_a_layer_has_its_sandbox() -> None:
    """Whatever the user's own files say; the folder of brief and answer is its own too, and commands have a network."""
    settings = codex_settings(called("codex"))
    assert settings["default_permissions"] == "interlock"
    assert settings["permissions"]["interlock"] == {
        "extends": ":workspace",
        "network": {"enabled": True},
        "filesystem": {str(FOLDER): "write"},
    }


def test_opencode_without_a_layer_stays_in_its_folder() -> None:
    """What a person allows it, but nothing outside."""
    found = opencode_settings(called("opencode"))["permission"]
    assert found == {"external_directory": {"*": "deny", f"{FOLDER}/*": "allow"}}


# -- sessions and limits


@pytest.mark.req("LY-15")
@each_agent
def test_a_session_is_named_to_go_on_with(name: str) -> None:
    """In each agent's own way, without its long role again; otherwise it is not mentioned."""
    call, plain = called(name, "go on", resume="S-1", role=RoleText("r", "d", "x" * 300_000)), called(name)
    assert (f"{SESSIONS[name]} S-1".replace("= ", "=") in " ".join(call.argv)) or name == "codex"
    assert name != "codex" or (call.argv[call.argv.index("--json") - 1], *call.argv[-2:]) == ("resume", "S-1", "-")
    assert call.stdin == "go on"
    assert not any("S-1" in word or "resume" in word for word in plain.argv)


@pytest.mark.req("LY-15")
def test_copilot_is_told_the_name_of_its_session_since_it_says_it_too_late() -> None:
    """Known as soon as it has taken the prompt, so that it can go on after a crash."""
    assert "--session-id=U-1" in called("copilot", new_session="U-1").argv


@pytest.mark.req("LY-16")
def test_claude_is_given_its_limit_in_dollars() -> None:
    """Never nothing: it takes no limit of zero."""
    for usd, limit in ((0.25, "0.250000"), (0.0, "0.000001")):
        assert after("--max-budget-usd", called("claude", allowance=Allowance(usd=usd, tokens=5))) == limit
    assert "--max-budget-usd" not in called("claude", allowance=Allowance(tokens=5)).argv


@pytest.mark.req("LY-16")
def test_codex_is_given_its_limit_in_tokens() -> None:
    """It counts after each answer of its model, which its stream does not tell."""
    settings = codex_settings(called("codex", allowance=Allowance(usd=1.0, tokens=5000)))
    assert settings["features"]["rollout_budget"]["limit_tokens"] == 5000
    assert "features" not in codex_settings(called("codex", allowance=Allowance(usd=1.0)))


# -- however long a role is


def test_what_fits_is_what_the_system_takes() -> None:
    """By bytes, not by characters; one more is refused."""
    assert fits("ü" * (ARGUMENT_LIMIT // 2))
    assert starts(["x" * ARGUMENT_LIMIT], {})
    assert not fits("ü" * (ARGUMENT_LIMIT // 2) + "xx")
    with pytest.raises(OSError, match="too long"):
        starts(["x" * (ARGUMENT_LIMIT + 1)], {})


@each_agent
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("confined", [False, True])
def test_every_agent_can_be_started_and_has_its_role_once(name: str, text: str, confined: bool) -> None:
    """Apart from the task where it fits, in its finished form, or in a file; else at the head of the prompt."""
    call = called(name, role=RoleText("interlock-x", "d", text), confined=confined)
    assert starts(call.argv[1:], call.env)
    apart = holds(text, [*call.argv, *call.env.values(), *call.files.values()])
    assert call.stdin == ("the task" if apart else f"{text}\n\nthe task")
    assert apart or (len(text) > 60_000 and name not in ("copilot", "gemini"))


def test_claude_is_not_expected_to_know_a_role_that_stayed_in_the_prompt() -> None:
    """Its first event names the roles it knows."""
    for text, known in (("short", False), (TEXTS["far too long"], True)):
        reader = dialect_of("claude").reader(ask(role=RoleText("interlock-x", "d", text)))
        list(reader.take({"type": "system", "subtype": "init", "agents": []}))
        assert (reader.conclude().trouble is None) == known


# -- to the letter


@given(st.text(), st.text())
@example("\udcff", "a\udc80\x7f")
def test_every_text_is_written_as_toml_reads_it(key: str, value: str) -> None:
    """On one line; bytes of a file that are no text are replaced, not refused."""

    def sound(text: str) -> str:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")

    assert "\n" not in toml_string(value)
    assert tomllib.loads(f"x = {toml_string(value)}")["x"] == sound(value)
    assert tomllib.loads(f"x = {inline_table({key: value})}")["x"] == {sound(key): sound(value)}


@given(st.text(alphabet='{}evnfil:/"\\a\n', max_size=40))
def test_a_role_of_opencode_arrives_to_the_letter_whatever_placeholders_it_seems_to_have(text: str) -> None:
    """OpenCode fills in variables and files wherever its settings seem to name one."""
    for role in (text, f"{{env:HOME}}{text}{{file:/etc/passwd}}"):
        found = opencode_settings(called("opencode", role=RoleText("r", "d", role)))
        assert found["agent"]["r"]["prompt"] == role


def test_a_file_named_after_an_at_sign_is_not_pasted_into_the_brief(tmp_path: Path) -> None:
    """Its name gets a backslash, which is how gemini is told to leave it; everything else stays as it is."""
    (tmp_path / "src").mkdir()
    (tmp_path / "a b.md").write_text("")
    prompt = 'See @src/, @src. @"a b.md" @a\\ b.md \\@src\n@pytest.fixture a@src.org @@ -1 @@ @' + "x" * 5000
    expected = 'See \\@src/, \\@src. \\@"a b.md" \\@a\\ b.md \\@src\n@pytest.fixture a@src.org @@ -1 @@ @' + "x" * 5000
    assert taken_literally(prompt, tmp_path) == expected
    assert taken_literally("/quit now", Path("/ws")) == "\n/quit now"


@given(st.text(alphabet='@ab./\\" \n,', max_size=30))
def test_nothing_but_backslashes_is_added_to_a_brief(prompt: str) -> None:
    """Without them it is the brief, letter by letter."""
    written = taken_literally(prompt, Path("/nowhere"))
    assert written.removeprefix("\n").replace("\\@", "@") == prompt.removeprefix("\n").replace("\\@", "@")


def test_gemini_does_not_search_for_files_that_the_brief_seems_to_name() -> None:
    """Its search for names that only contain the word needs a tool; without an ``@`` the agent keeps it."""
    assert gemini_policy("@fixture\n") == [{"toolName": ["glob"], "decision": "deny", "priority": 999}]
    assert gemini_policy("no such sign\n") == []
