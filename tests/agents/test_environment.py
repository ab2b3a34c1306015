"""What agents find in their environment, and that secrets are not written down."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.agents.environment import Redaction, agent_environment, looks_secret, redact, without_our_own


def test_an_agent_keeps_the_callers_keys() -> None:
    """Without its API key no agent could work."""
    base = {"ANTHROPIC_API_KEY": "sk-ant-1234567890", "PATH": "/bin", "GIT_AUTHOR_NAME": "A"}
    assert agent_environment(base, {}, {}) == base


@pytest.mark.req("CM-08")
def test_nothing_of_an_outer_run_or_a_git_hook_reaches_an_agent() -> None:
    """The variables of another run, and those that tie git to another repository, are gone."""
    base = {
        "INTERLOCK_RUN_ID": "outer",
        "INTERLOCK_MARKER": "outer:1",
        "INTERLOCK_ANYTHING": "x",
        "GIT_DIR": "/elsewhere/.git",
        "GIT_INDEX_FILE": "/elsewhere/index",
        "GIT_WORK_TREE": "/elsewhere",
        "HOME": "/home/me",
    }
    assert agent_environment(base, {}, {}) == {"HOME": "/home/me"}


def test_protocol_comes_before_settings_and_settings_before_the_caller() -> None:
    """A setting cannot forge what the engine says."""
    found = agent_environment(
        {"A": "caller", "B": "caller"}, {"INTERLOCK_DEPTH": "2"}, {"B": "settings", "INTERLOCK_DEPTH": "0"}
    )
    assert found == {"A": "caller", "B": "settings", "INTERLOCK_DEPTH": "2"}


@pytest.mark.req("CM-29")
@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PASSWD",
        "GOOGLE_CREDENTIALS", "NPM_AUTH", "SSH_PRIVATE_KEY", "oauth_token", "PRIVATE_THING", "apikey", "SIGNING_KEYS",
        "KEY_PASSPHRASE", "GH_PAT",
    ],
)  # fmt: skip
def test_names_that_look_secret(name: str) -> None:
    """Common names of secrets are known, in any case."""
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "GIT_AUTHOR_NAME", "KEYBOARD", "MONKEY", "XAUTHORITY", "COMPASS", "GOPRIVATE", "INTERLOCK_TOKEN",
     "INTERLOCK_MARKER", "INTERLOCK_PATH", "EDITOR"],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    """Words that only contain such a word, and the protocol's own, are plain."""
    assert not looks_secret(name)


@pytest.mark.req("CM-29")
def test_secrets_are_replaced_by_the_name_of_their_variable() -> None:
    """Everywhere in the text; short values and other variables stay."""
    env = {"API_KEY": "sk-12345678", "DB_PASSWORD": "short", "HOME": "/home/someone"}
    text = "use sk-12345678 (sk-12345678) with short in /home/someone"
    assert redact(text, env) == "use [redacted:API_KEY] ([redacted:API_KEY]) with short in /home/someone"


@pytest.mark.req("CM-29")
def test_a_secret_inside_another_does_not_leave_the_rest_readable() -> None:
    """The longest is replaced first; a key file's last newline does not hide it."""
    env = {"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefgh-ijklmnop", "PRIVATE_KEY": "-----BEGIN\nxyz\n-----END\n"}
    text = "abcdefgh-ijklmnop abcdefgh <-----BEGIN\nxyz\n-----END>"
    assert redact(text, env) == "[redacted:B_TOKEN] [redacted:A_TOKEN] <[redacted:PRIVATE_KEY]>"


@pytest.mark.req("CM-29")
@given(st.text(), st.text(), st.text(alphabet=st.characters(exclude_characters="[]:_"), min_size=8))
def test_no_secret_of_eight_characters_survives(before: str, after: str, secret: str) -> None:
    """Whatever stands around it, and whatever characters it has."""
    redacted = Redaction({"SERVICE_TOKEN": secret})(before + secret + after)
    assert secret not in redacted.replace("[redacted:SERVICE_TOKEN]", "\0[]")
    assert "[redacted:SERVICE_TOKEN]" in redacted


@given(st.text())
def test_a_text_without_secrets_is_not_changed(text: str) -> None:
    """An environment without secrets redacts nothing."""
    assert redact(text, {"HOME": text, "API_KEY": ""}) == text


@pytest.mark.req("EV-33")
def test_our_own_virtual_environment_is_taken_out(tmp_path: Path) -> None:
    """Its programs are not found first, and nothing says that it is active; everything else stays in its order."""
    own = tmp_path / "tool"
    (own / "bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(own)
    environ = {"PATH": f"/usr/bin:{own}/bin:/bin:{tmp_path}/link/bin/", "VIRTUAL_ENV": str(own), "HOME": "/h"}
    left = without_our_own(environ, tmp_path / "work", prefix=str(own))
    assert left == {"PATH": "/usr/bin:/bin", "HOME": "/h"}
    users = {"PATH": "/venv/bin:/bin", "VIRTUAL_ENV": "/venv"}
    assert without_our_own(users, tmp_path / "work", prefix=str(own)) == users


@pytest.mark.req("EV-33")
def test_an_environment_inside_the_workspace_is_the_users(tmp_path: Path) -> None:
    """interlock is then a dependency of the project, and the project's tests need the rest of it."""
    environ = {"PATH": f"{tmp_path}/.venv/bin:/bin", "VIRTUAL_ENV": f"{tmp_path}/.venv"}
    assert without_our_own(environ, tmp_path, prefix=f"{tmp_path}/.venv") == environ
