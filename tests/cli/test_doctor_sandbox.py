"""`doctor` on the sandbox: which maker, why, how to get a better one, and what a mere copy cannot promise."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.workshop import Condition, sandbox
from interlock.settings import Settings
from interlock.workspace import UNPROMISED, Probe

CONFINED = Probe("bubblewrap", confined=True, why="bubblewrap 0.11.0 is installed.")
NAMESPACES = Probe("namespaces", confined=True, why="There is no bubblewrap.", remedy="Install bubblewrap 0.11.")
COPY = Probe("copy", confined=False, why="The kernel refuses user namespaces.", remedy="Set that sysctl to 1.")


def told(probe: Probe, home: Path = Path("/"), **tables: Mapping[str, Any]) -> list[tuple[Condition, str, str | None]]:
    checks = list(sandbox(probe, Settings.model_validate(tables), home))
    assert all(check.subject == "sandbox" for check in checks)
    return [(check.state, check.text, check.remedy) for check in checks]


@pytest.mark.req("LY-10")
def test_a_confined_machine_is_told_its_maker_and_why() -> None:
    """Nothing to do; what is set stands beside it; a better maker is named where there is one."""
    assert told(CONFINED) == [
        (Condition.OK, "bubblewrap: agents are confined by the kernel. bubblewrap 0.11.0 is installed.", None),
        (Condition.OK, "mode auto, network open, of HOME: logins, tool chains", None),
    ]
    assert told(NAMESPACES)[0][:2] == (
        Condition.OK,
        "namespaces: agents are confined by the kernel. There is no bubblewrap. Install bubblewrap 0.11.",
    )


@pytest.mark.req("LY-10", "LY-12")
def test_a_mere_copy_is_a_note_with_the_reason_the_remedy_and_what_is_not_promised() -> None:
    """In mode auto runs go on; what cannot be promised is said."""
    first, _, last = told(COPY)
    assert first == (
        Condition.NOTE,
        "copy: agents work in a private copy and are not confined. The kernel refuses user namespaces.",
        "Set that sysctl to 1.",
    )
    assert last == (Condition.NOTE, UNPROMISED, None)


@pytest.mark.req("LY-12")
@pytest.mark.parametrize("network", ["open", "none"])
def test_strict_without_confinement_is_broken(network: str) -> None:
    """No run would start, and both ways on are named; with confinement it is as sound as any."""
    table = {"mode": "strict", "network": network}
    (state, text, remedy), second, _ = told(COPY, sandbox=table)
    assert (state, text.startswith("mode strict, and agents cannot be confined here")) == (Condition.BROKEN, True)
    assert remedy == 'Set that sysctl to 1. Or allow a private copy: mode = "auto" in [sandbox].'
    assert "stays open" not in second[1]
    assert {state for state, _, _ in told(CONFINED, sandbox=table)} == {Condition.OK}


@pytest.mark.req("LY-12")
def test_switched_off_is_said_though_the_kernel_could() -> None:
    """The choice, how to take it back, and what is lost by it."""
    first, *_, last = told(CONFINED, sandbox={"mode": "off"})
    assert (first[0], first[2]) == (Condition.NOTE, 'Set mode = "auto" in [sandbox].')
    assert last[1] == UNPROMISED


@pytest.mark.req("LY-12")
def test_a_runner_with_settings_of_its_own_has_its_own_line() -> None:
    """Strict for one runner breaks that one; off for one is told; runners that say nothing are not listed."""
    scripted = {"type": "scripted"}
    runners = {"plain": scripted, "sealed": {**scripted, "sandbox": {"mode": "strict"}}}
    listed = told(COPY, runners=runners)
    assert [state for state, text, _ in listed if text.startswith("runner sealed: mode strict")] == [Condition.BROKEN]
    assert not any("plain" in text for _, text, _ in listed)
    free = told(CONFINED, runners={"free": {**scripted, "sandbox": {"mode": "off"}}})
    assert (Condition.OK, "runner free: mode off, network open, of HOME: logins, tool chains", None) in free
    assert free[-1][1] == UNPROMISED


@pytest.mark.req("LY-11", "LY-12")
@pytest.mark.parametrize("network", ["model", "none"])
def test_a_network_that_cannot_be_cut_is_not_passed_over(network: str) -> None:
    """Without confinement it stays open: said, with the setting that refuses to run instead."""
    assert told(CONFINED, sandbox={"network": network})[1][0] is Condition.OK
    state, text, remedy = told(COPY, sandbox={"network": network})[1]
    assert state is Condition.NOTE
    assert f"network {network}" in text
    assert "the network stays open" in text
    assert 'mode = "strict" in [sandbox]' in (remedy or "")


def test_a_path_of_home_that_is_not_there_is_a_note(tmp_path: Path) -> None:
    """A slip of the pen would otherwise only show in an agent's failure; escapes in it do not reach the terminal."""
    (tmp_path / ".tool").mkdir()
    checks = told(CONFINED, tmp_path, sandbox={"home": [".tool", ".too\x1b[2Jl", str(tmp_path)]})
    notes = [text for state, text, _ in checks if state is Condition.NOTE]
    assert len(notes) == 1
    assert notes[0].startswith("sandbox.home: .too")
    assert not any("\x1b" in text for _, text, _ in checks)


@pytest.mark.req("LY-10")
def test_the_command_itself_says_which_maker_is_used(workspace: Any) -> None:
    """As text and as JSON; looking leaves no trace."""
    before = workspace.digest()
    answer = workspace("doctor", "--no-ask", "--json")
    assert answer.code == 0
    texts = [check["text"] for check in answer.json["checks"] if check["subject"] == "sandbox"]
    assert texts[0].split(":")[0] in ("bubblewrap", "namespaces", "copy")
    assert texts[1] == "mode auto, network open, of HOME: logins, tool chains"
    assert texts[0] in workspace("doctor", "--no-ask").stdout.decode()
    assert workspace.digest() == before
