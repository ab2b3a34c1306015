"""Playbooks of one's own through the real command line: every command, and nothing is executed that nobody trusts."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_gates import at_a_terminal
from tests.finding.planted import FLOW, SHIP, poisoned

TRUST_IT = b"[y/N] "


@pytest.fixture
def own(workspace: Any, tmp_path: Path) -> Any:
    """A workspace with `ship` in its folder for playbooks, and a user who trusts nothing yet."""
    workspace.env |= {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    folder = workspace.root / ".interlock/playbooks/ship"
    folder.mkdir(parents=True)
    (folder / "playbook.py").write_text(SHIP)
    return workspace


@pytest.fixture
def mark(own: Any, tmp_path: Path) -> Path:
    """What is there when somebody executed `ship`."""
    (own.root / ".interlock/playbooks/ship/playbook.py").write_text(poisoned(tmp_path / "executed"))
    return tmp_path / "executed"


@pytest.mark.req("OW-04")
def test_nothing_executes_what_nobody_trusts(own: Any, mark: Path) -> None:
    """Listing, doctor, help, completion, validate, rehearse, run, plan: exit 2 at most, and `--trust` is named."""
    (own.root / "evil.py").write_text(poisoned(mark))
    (own.root / "interlock.toml").write_text(
        (own.root / "interlock.toml").read_text() + '\n[ship]\nanything = ["is", "no", "error"]\n'
    )
    looking = [
        ("playbooks",),
        ("playbooks", "--json"),
        ("doctor",),
        ("run", "--help"),
        ("init", "--playbook", "router"),
    ]
    for words in looking:
        assert own(*words).code == 0, words
    for words in (
        ("validate", "ship"),
        ("rehearse", "ship"),
        ("run", "ship", "--what", "x"),
        ("run", "ship", "--help"),
        ("run", "ship", "--what", "x", "--dry-run"),
        ("run", "./evil.py", "--what", "x", "--json"),
    ):
        answer = own(*words)
        assert answer.code == 2 and "--trust" in answer.stderr, (words, answer.stderr)
    assert completed(own, "interlock run sh", 2) == ["ship"]
    assert completed(own, "interlock validate sh", 2) == ["ship"]
    assert "--what" not in completed(own, "interlock run ship --", 3)
    assert "--what" not in completed(own, "interlock run ./evil.py --trust --", 4)
    assert not mark.exists()
    known = own("run", "ship", "--what", "x", "--dry-run", "--trust")
    assert known.code == 2 and "unknown setting ship" in known.stderr  # it has no table, now that it is loaded
    assert mark.exists()
    assert "--what" in completed(own, "interlock run ship --", 3)


def completed(own: Any, line: str, number: int) -> list[str]:
    """What the shell offers."""
    asked = {"_INTERLOCK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(number)}
    done = subprocess.run(
        [sys.executable, "-c", "from interlock.cli.main import main; main()"],
        cwd=own.root,
        env={**own.env, **asked},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.req("OW-04")
@pytest.mark.parametrize("words", [("run", "--help"), ("plan", "--help"), ("playbooks",), ("doctor", "--no-ask")])
def test_what_nobody_trusts_does_not_drive_the_terminal(own: Any, words: tuple[str, ...]) -> None:
    """Names and purposes of a clone reach it as text; a name that no playbook can have is not offered."""
    shared, order = own.root / ".interlock/playbooks", "\x1b]0;taken\x07\x1b[2J"
    (shared / "ship/playbook.py").write_text(SHIP.replace("Work, then", f"Work{order}, then"))
    (shared / "flow.yaml").write_text(FLOW.replace("Ask a person.", '"Ask \\e]0;taken\\a a person."'))
    for name in (f"odd{order}", "two\nlines", "--trust", "bad\udcff"):
        (shared / f"{name}.py").write_text(SHIP)
    answer = own(*words)
    assert answer.code == 0, answer.stderr
    assert "ship" in answer.stdout.decode()
    unwanted = (b"\x1b]", b"\x1b[2J", b"odd", b"lines", b"--trust.py", b"bad")
    assert [one for one in unwanted if one in answer.stdout] == []


@pytest.mark.req("OW-04")
def test_modules_of_the_folder_one_stands_in_are_not_imported(own: Any, tmp_path: Path) -> None:
    """`python -m` would take them for ours: for the standard library's, for a dependency's, for a playbook's."""
    for name in ("json", "typer", "psutil", "yaml", "helper", "sitecustomize", "conftest"):
        (own.root / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()\n")
    (own.root / ".interlock/playbooks/ship/playbook.py").write_text(f"import helper\n{SHIP}")
    for words, code in ((("playbooks",), 0), (("doctor", "--no-ask"), 0), (("validate", "ship", "--trust"), 2)):
        done = subprocess.run(
            [sys.executable, "-m", "interlock", *words], cwd=own.root, env=own.env, capture_output=True, check=False
        )
        assert done.returncode == code, done.stderr
    assert b"No module named 'helper'" in done.stderr
    assert not (tmp_path / "executed").exists()


@pytest.mark.req("OW-04")
@pytest.mark.parametrize("name", ["sandbox", "limits", "runners", "runner", "of", "agent", "model_fields"])
def test_a_planted_name_takes_no_settings_away(own: Any, name: str) -> None:
    """A file that nobody trusts is called as a table of interlock.toml: that table is checked as ever."""
    (own.root / f".interlock/playbooks/{name}.py").write_text("")
    assert own("doctor", "--no-ask").code == 0
    place = own.root / "interlock.toml"
    place.write_text(place.read_text() + '\n[sandbox]\nmode = "nonsense"\n')
    answer = own("run", "task", "x", "--dry-run")
    assert answer.code == 2 and "one of auto, strict, off" in answer.stderr


@pytest.mark.req("OW-04")
@pytest.mark.parametrize(
    "text", ["trust = true", "[trust]\nship = true", "[sandbox]\ntrust = true", "[ship]\ntrust = true"]
)
def test_settings_of_a_workspace_cannot_trust(own: Any, mark: Path, text: str) -> None:
    """There is no such setting; nor does a table of the playbook say it."""
    place = own.root / "interlock.toml"
    place.write_text(f"{text.partition('[')[0]}\n{place.read_text()}\n{''.join(text.partition('[')[1:])}\n")
    for environ in ({}, {"INTERLOCK_TRUST": "true"}):
        answer = own("run", "ship", "--what", "x", **environ)
        assert answer.code == 2 and "nobody here has trusted" in answer.stderr
    assert not mark.exists()


@pytest.mark.req("OW-04")
def test_a_value_that_looks_like_a_workspace_is_not_one(own: Any, tmp_path: Path) -> None:
    """The playbook that is loaded is one of the workspace in which it runs."""
    other = tmp_path / "other"
    (other / ".interlock/playbooks").mkdir(parents=True)
    (other / ".interlock/playbooks/ship.py").write_text(SHIP)
    answer = own("run", "ship", "--trust", "--what", "-C", str(other))
    assert answer.code == 2 and not own.folders


@pytest.mark.req("OW-04")
def test_a_text_that_reads_like_trust_is_none(own: Any, mark: Path) -> None:
    """Whoever passes on words of others, as the value of an option, has not said that they trust anything."""
    for words in (("--what", "--trust"), ("--what", "x", "--runner", "--trust"), ("--what", "x", "--", "--trust")):
        answer = own("run", "ship", *words)
        assert answer.code == 2 and "nobody here has trusted" in answer.stderr, words
    assert not mark.exists()
    assert own("run", "ship", "--trust", "--what", "--trust").code == 4
    mark.unlink()
    file = own.root / ".interlock/playbooks/ship/playbook.py"
    file.write_text(file.read_text() + "# changed\n")
    refused = own("resume", "latest", "--note", "--trust")
    assert refused.code == 2 and "ship changed since it was trusted" in refused.stderr
    assert not mark.exists()
    assert own("resume", "latest", "--dry-run", "--trust").code == 0
    assert mark.exists()


@pytest.mark.req("OW-04", "WB-07")
@pytest.mark.parametrize("lost", ["a file changed", "the record is gone"])
def test_what_is_not_trusted_any_more_does_not_go_on_in_the_background(
    own: Any, mark: Path, tmp_path: Path, lost: str
) -> None:
    """The caller hears it, exit 2, as without --detach; nothing is executed, and the run stays as it is."""
    assert own("run", "ship", "--what", "x", "--trust").code == 4
    mark.unlink()
    file = own.root / ".interlock/playbooks/ship/playbook.py"
    if lost == "a file changed":
        file.write_text(file.read_text() + "# changed\n")
    else:
        shutil.rmtree(tmp_path / "config")
    before = own.journal()
    for words in (("resume", "latest"), ("resume", "latest", "--json"), ("approve", "latest")):
        plain, detached = own(*words), own(*words, "--detach")
        assert detached.code == plain.code == 2, words
        assert "--trust" in detached.stderr, words
        assert detached.stderr == plain.stderr, words
    assert own.journal() == before
    assert not mark.exists()
    assert not list(own.root.rglob("detached.log"))


@pytest.mark.req("OW-04")
def test_a_person_at_a_terminal_is_asked_once(own: Any, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They see files, sizes and the digest; no is no, yes is kept."""
    monkeypatch.setattr("tests.cli.test_gates.PROMPTS", (TRUST_IT,))
    words = ("run", "ship", "--what", "x", "--dry-run")
    code, screen = at_a_terminal(own, *words, answers=["n"])
    assert code == 2 and not mark.exists()
    assert "nobody here has trusted yet" in screen
    assert "playbook.py" in screen and " bytes" in screen and "digest " in screen
    code, _ = at_a_terminal(own, *words, answers=["y"])
    assert code == 0 and mark.exists()
    assert at_a_terminal(own, *words, answers=[])[0] == 0


@pytest.mark.req("OW-02", "OW-03")
def test_a_shipped_name_that_was_planted_is_said_and_needs_trust(own: Any, mark: Path) -> None:
    """`.interlock/playbooks/router/`: the list, doctor and validate say it; it is not run by accident."""
    planted = own.root / ".interlock/playbooks/router"
    planted.mkdir()
    (planted / "playbook.py").write_text(poisoned(mark, SHIP.replace('"ship"', '"router"')))
    said = "router is taken twice: workspace .interlock/playbooks/router counts, shipped router does not"
    assert "hides: shipped router" in own("playbooks").stdout.decode()
    assert said in own("doctor").stdout.decode()
    refused = own("run", "router", "/implement 259")
    assert refused.code == 2 and "--trust" in refused.stderr and not mark.exists()
    assert said in own("validate", "router", "--trust").stderr


@pytest.mark.req("OW-03")
def test_every_command_serves_it(own: Any) -> None:
    """run, show, logs, why, diff, report, approve, answer, reject, cancel, resume: from separate processes."""
    own.scenario({"agent": "worker", "files": {"src/x.py": "x = 1\n"}})
    started = own("run", "ship", "--what", "a", "--trust")
    assert started.code == 4 and "decide with: interlock approve" in started.stderr
    for words in (("show",), ("logs",), ("why",), ("report",)):
        assert own(*words, "latest").code == 0, words
    assert "+x = 1" in own("diff", "latest").stdout.decode()
    assert own("approve", "latest").code == 0
    assert own("resume", "latest").stdout == b"shipped\n"
    again = own("run", "ship", "--what", "b", "--times", "2")
    assert again.code == 4
    assert own("reject", "latest", "--note", "no", "--resume").code == 3
    assert own("run", "ship", "--what", "c").code == 4
    assert own("answer", "latest", "approve", "--resume").code == 0
    assert own("run", "ship", "--what", "d").code == 4
    assert own("cancel", "latest").code == 0
    assert "ship --what d --new-run" in own("resume", "latest").stderr
    shown = own("run", "ship", "--help").stdout.decode()
    assert "What is to be shipped." in shown and "How often it is done." in shown
    assert own("rehearse", "ship", "--most", "1", "--json").json["broken"] == []
    missing = own("run", "ship")
    assert missing.code == 2 and "--what" in missing.stderr


@pytest.mark.req("OW-03")
def test_a_resume_can_be_told_what_the_playbook_understands(own: Any) -> None:
    """`moves` of a playbook of one's own are options of resume, for its runs that have stopped."""
    text = SHIP.replace("\n\n@playbook", "\n\n@dataclass(frozen=True)\nclass Moves:\n    more: int = 0\n\n\n@playbook")
    following = "successor=lambda asked, said: replace(asked, times=said.get('more', 1)), "
    text = text.replace("needs_roles", f"moves=Moves, {following}needs_roles").replace(
        "import dataclass", "import dataclass, replace"
    )
    (own.root / ".interlock/playbooks/ship/playbook.py").write_text(text)
    assert own("run", "ship", "--what", "a", "--trust").code == 4
    assert "is for one that has stopped" in own("resume", "latest", "--more", "2").stderr
    assert own("reject", "latest", "--note", "no", "--resume").code == 3
    assert own("resume", "latest", "--more", "2").code == 4
    assert json.loads((own.folders[-1] / "run.json").read_text())["inputs"]["times"] == 2
    assert "means nothing to playbook ship" in own("resume", "latest", "--from", "QA").stderr


@pytest.mark.req("OW-05")
def test_a_resume_says_which_files_changed(own: Any) -> None:
    """Words that no key depends on may change; a question that was asked already is another one: it diverges."""
    file = own.root / ".interlock/playbooks/ship/playbook.py"
    assert own("run", "ship", "--what", "a", "--trust").code == 4
    identity = json.loads((own.folders[0] / "run.json").read_text())
    assert identity["source"]["place"] == ".interlock/playbooks/ship"
    assert set(identity["source"]["files"]) == {"playbook.py"}
    assert "playbook changed" not in own("resume", "latest").stderr
    file.write_text(SHIP.replace('"kept"', '"kept back"'))
    (file.parent / "notes.md").write_text("More.\n")
    refused = own("resume", "latest")
    assert refused.code == 2
    assert "ship changed since it was trusted: notes.md (new), playbook.py" in refused.stderr
    answer = own("resume", "latest", "--trust")
    assert answer.code == 4
    assert "the playbook changed since the run began: notes.md (new), playbook.py" in answer.stderr
    file.write_text(SHIP.replace("Do {asked.what}.", "Do {asked.what} now."))
    diverged = own("resume", "latest", "--trust")
    assert diverged.code == 2
    assert "asks at worker#1 for something else than what is recorded" in diverged.stderr


@pytest.mark.req("OW-05")
def test_a_run_of_before_resumes(own: Any) -> None:
    """One that noted no source is found by its name."""
    from interlock.engine.identity import Identity
    from interlock.finding import Library

    library = Library(own.root, own.env, consent=lambda _request: True)
    before = Identity("ship-1", "ship", "a", {}, {}, "0", "now")
    assert library.again(before).name == "ship"
    assert library.has(before) and not library.has(Identity("gone-1", "gone", "a", {}, {}, "0", "now"))


@pytest.mark.req("OW-03")
def test_settings_are_checked_when_it_is_loaded(own: Any) -> None:
    """A typed table of its own; unknown keys are errors with the nearest one, and the environment may say it too."""
    text = SHIP.replace(
        "\n\n@dataclass",
        "\nfrom interlock.settings import SettingsTable\n\n\n"
        "class Ours(SettingsTable):\n    channel: str = 'beta'\n\n\n@dataclass",
        1,
    )
    text = text.replace("needs_roles", "settings=Ours, needs_roles").replace('"shipped"', "run.settings.channel")
    (own.root / ".interlock/playbooks/ship/playbook.py").write_text(text)
    place = own.root / "interlock.toml"
    before = place.read_text()
    place.write_text(f'{before}\n[ship]\nchanel = "stable"\n')
    assert own("doctor").code == 0
    wrong = own("run", "ship", "--what", "a", "--trust")
    assert wrong.code == 2
    assert "unknown setting ship.chanel" in wrong.stderr and "Did you mean ship.channel?" in wrong.stderr
    place.write_text(f'{before}\n[ship]\nchannel = "stable"\n')
    assert own("run", "ship", "--what", "a").code == 4
    assert own("approve", "latest", "--resume").stdout == b"stable\n"
    assert own("run", "ship", "--what", "b").code == 4
    assert own("approve", "latest", "--resume", INTERLOCK_SHIP_CHANNEL="edge").stdout == b"edge\n"


@pytest.mark.req("OW-01", "OW-03")
def test_roles_and_prompts_come_from_its_folder_and_a_team_may_replace_them(own: Any) -> None:
    """`agents/` and `prompts/` of the folder, then `.interlock/agents/` and `.interlock/prompts/`."""
    folder = own.root / ".interlock/playbooks/ship"
    text = SHIP.replace(", needs_roles=False", "").replace('f"Do {asked.what}."', 'Prompt.of("work", what=asked.what)')
    (folder / "playbook.py").write_text(text.replace("Option, Run", "Option, Prompt, Run"))
    refused = own("validate", "ship", "--trust")
    assert refused.code == 2 and "no role of this name was found for ship" in refused.stderr
    for path, words in {"agents/worker.md": "You work.\n", "prompts/work.md": "Own words: {{ what }}.\n"}.items():
        (folder / path).parent.mkdir()
        (folder / path).write_text(words)
    assert own("run", "ship", "--what", "a", "--trust").code == 4

    def brief() -> str:
        return next(own.folders[-1].rglob("brief.md")).read_text()

    assert "Own words: a." in brief() and "You work." in brief()
    for path, words in {
        "agents/ship/worker.md": "You work for us.\n",
        "prompts/ship/work.md": "Ours: {{ what }}\n",
    }.items():
        (own.root / ".interlock" / path).parent.mkdir(parents=True)
        (own.root / ".interlock" / path).write_text(words)
    assert own("run", "ship", "--what", "b").code == 4
    assert "Ours: b" in brief() and "You work for us." in brief()


@pytest.mark.req("OW-04")
def test_no_agent_writes_where_playbooks_are(own: Any) -> None:
    """Not even one whose scope names the place."""
    text = SHIP.replace('"src/**",', '"**", ".interlock/**", ".interlock/playbooks/**",')
    (own.root / ".interlock/playbooks/ship/playbook.py").write_text(text)
    tries = "mkdir -p .interlock/playbooks/more; echo x >.interlock/playbooks/more/playbook.py; echo x >kept.txt"
    own.scenario({"agent": "worker", "run": ["sh", "-c", f"{tries}; echo >>.interlock/playbooks/ship/playbook.py; :"]})
    assert own("run", "ship", "--what", "a", "--trust").code == 4
    assert (own.root / "kept.txt").exists()
    assert not (own.root / ".interlock/playbooks/more").exists()
    assert (own.root / ".interlock/playbooks/ship/playbook.py").read_text() == text


@pytest.mark.req("OW-02", "OW-03")
def test_a_path_serves_from_any_folder(own: Any) -> None:
    """The run notes the path from the workspace; what people are told to type fits where they are."""
    tools = own.root / "tools"
    tools.mkdir()
    (tools / "fix.py").write_text(SHIP.replace('"ship"', '"fix"'))
    (own.root / "flow.yaml").write_text(FLOW)
    assert own("run", "tools/fix.py", "--what", "a", "--trust").code == 4
    assert json.loads((own.folders[-1] / "run.json").read_text())["source"]["place"] == "tools/fix.py"
    assert own("approve", "latest", "--resume").code == 0
    assert own("run", "./flow.yaml", "a", "--trust", "--json").code == 4
    assert own("approve", "latest", "--resume").stdout == b"fine\n"
    done = subprocess.run(
        [sys.executable, "-m", "interlock", "run", "./fix.py", "--what", "b"],
        cwd=tools,
        env=own.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert own("cancel", "latest").code == 0
    assert "interlock run ./tools/fix.py --what b --new-run" in own("resume", "latest").stderr


@pytest.mark.req("OW-08")
@pytest.mark.parametrize("words", [(), ("--yaml",)])
def test_what_new_writes_works_as_it_is(own: Any, words: tuple[str, ...]) -> None:
    """It validates, rehearses, runs with the scripted agent up to its gate and behind it, and its test passes."""
    made = own("new", "my-release", *words, "--json")
    assert made.code == 0
    paths = set(made.json["written"])
    folder = ".interlock/playbooks/my-release"
    process = "playbook.yaml" if words else "playbook.py"
    assert {f"{folder}/{one}" for one in (process, "agents/worker.md", "README.md", "test_my_release.py")} <= paths
    assert own("validate", "my-release").code == 0
    rehearsed = own("rehearse", "my-release", "--most", "1", "--json").json
    assert rehearsed["broken"] == [] and rehearsed["paths"] > 10
    assert own("run", "my-release", "Add a page").code == 4
    assert own("approve", "latest", "--resume").code == 0
    test = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder],
        cwd=own.root,
        env=own.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert test.returncode == 0, test.stdout
    assert own("validate", "my-release").code == 0  # a test is no part of it, nor what it leaves behind
    before = own.digest()
    again = own("new", "my-release")
    assert again.code == 2 and "already" in again.stderr and own.digest() == before
    edited = own.root / folder / "agents/worker.md"
    edited.write_text(edited.read_text() + "\nBe brief.\n")
    asked = own("validate", "my-release")
    assert asked.code == 2 and "changed since it was trusted: agents/worker.md" in asked.stderr


@pytest.mark.req("OW-08")
@pytest.mark.parametrize("name", ["Release", "a/b", "..", "limits", "-x", "a" * 41, "a b", ""])
def test_new_checks_the_name(own: Any, name: str) -> None:
    """Nothing is written for one that could not be asked for."""
    before = own.digest()
    assert own("new", "--", name).code == 2
    assert own.digest() == before


@pytest.mark.req("OW-04", "OW-08")
def test_an_agent_cannot_have_one_made(own: Any) -> None:
    """It would stand there trusted, under a name that the next run may ask for: nothing is written."""
    before = own.digest()
    answer = own("new", "task", INTERLOCK_DISPATCH="a#1")
    assert answer.code == 2 and "only a person may" in answer.stderr
    assert own.digest() == before
    assert not (own.root / ".interlock/playbooks/task").exists()


@pytest.mark.req("OW-04")
def test_planted_records_start_nothing(own: Any, tmp_path: Path) -> None:
    """A clone with runs in it: what their snapshots lack would be fetched, by a program that their settings name."""
    mark, planted = tmp_path / "executed", own.root / ".interlock/snapshots.git"
    own.scenario({"agent": "worker", "run": ["sh", "-c", "mkdir -p src; echo x >src/a.txt"]})
    assert own("run", "ship", "--what", "a", "--trust").code == 4
    assert "src/a.txt" in own("diff", "latest").stdout.decode()
    program = tmp_path / "fetch"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    with (planted / "config").open("a") as config:
        config.write(
            '[core]\nrepositoryformatversion = 1\n[extensions]\npartialClone = origin\n[remote "origin"]\n'
            f"promisor = true\nurl = {own.root}\nuploadpack = {program}\n"
        )
    for file in [file for file in (planted / "objects").rglob("*") if file.is_file()]:
        file.unlink()
    for words in (("diff", "latest"), ("show", "latest"), ("report", "latest"), ("runs",), ("doctor", "--no-ask")):
        own(*words)
        assert not mark.exists(), words


@pytest.mark.req("OW-02")
def test_the_list_of_playbooks_fits_80_columns(own: Any) -> None:
    """Purposes and inputs go on below; nothing of them is left out."""
    folder = own.root / ".interlock/playbooks"
    (folder / "ship/playbook.py").write_text(SHIP.replace("Work, then ask", f"{'Work, ' * 20}then ask"))
    (folder / "broken.yaml").write_text("playbook: [\n" * 20)
    said = own("playbooks").stdout.decode()
    assert max(map(len, said.splitlines())) <= 80
    text = " ".join(said.split())
    for one in json.loads(own("playbooks", "--json").stdout):
        assert f"{one['name']} {one['purpose']}".strip() in text
        assert not one["purpose"] or f"\n{one['name']}  {one['purpose'].split()[0]}" in f"\n{said}"  # set off
        assert all(f"{asked['name']}: {asked['kind']}" in text for asked in one["inputs"] or ())


FILE_READ = FLOW.replace("argument: true", "type: file")
FILE_WRITTEN = FILE_READ.replace(
    "steps:\n",
    'agents:\n  scribe: {instructions: Write.}\nsteps:\n  - {agent: scribe, task: Write., produces: "{{ what }}"}\n',
)


@pytest.mark.req("OW-03", "OW-20")
@pytest.mark.parametrize(
    ("file", "text", "is_read"),
    [
        ("own.py", SHIP.replace('metavar="WHAT"', "file=True"), True),
        ("own.py", SHIP.replace('metavar="WHAT"', "file=True, must_exist=False"), False),
        ("own.yaml", FILE_READ, True),
        ("own.yaml", FILE_WRITTEN, False),
    ],
    ids=["python, read", "python, written", "yaml, read", "yaml, written"],
)
def test_a_file_that_is_to_be_read_must_be_there(own: Any, file: str, text: str, is_read: bool) -> None:
    """Exit 2 before there is a run, for what is not there and for a folder; what is to be written need not be there."""
    (own.root / file).write_text(text)
    (own.root / "there.md").write_text("Here.\n")
    (own.root / "folder").mkdir()
    assert own("run", f"./{file}", "--what", "there.md", "--trust", "--dry-run").code == 0
    for words in (("run",), ("run", "--dry-run"), ("plan",)) if is_read else ():
        missing = own(words[0], f"./{file}", "--what", "not-there.md", *words[1:])
        assert (missing.code, "what: there is no file not-there.md" in missing.stderr) == (2, True), missing.stderr
    if is_read:
        folder = own("run", f"./{file}", "--what", "folder")
        assert (folder.code, "what: folder is no file" in folder.stderr) == (2, True), folder.stderr
    else:
        assert own("run", f"./{file}", "--what", "not-there.md", "--dry-run").code == 0
    assert own.folders == []
