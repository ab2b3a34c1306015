"""`interlock plan`: what a run would take; nothing is changed and nobody is called."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.cli.main import answer
from interlock.cli.plan import MOST_PATHS, Outlook, lines_of
from interlock.engine.outlook import Figures, Seat, Spread, earlier_calls
from interlock.playbooks import NAMES, load

REQUEST = "add three to words.txt"
SCRIPTED = 'runner = "played"\n[runners.played]\ntype = "scripted"\nscenario = "scenario.yaml"\n'


class Place:
    """A repository of one's own, and the command line in it."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self.outside = root.parent / "outside"
        self._capsys = capsys

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, "utf-8")

    def everything(self) -> dict[str, tuple[int, bytes]]:
        """Every file of the workspace, of its engine's folder and of the home folder, with its mode and bytes."""
        found = [path for path in self.root.parent.rglob("*") if path.is_file() or path.is_symlink()]
        return {str(path): (path.lstat().st_mode, path.read_bytes()) for path in found}

    def folders(self) -> set[str]:
        return {str(path) for path in self.root.parent.rglob("*") if path.is_dir()}

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = answer(arguments)
        said = self._capsys.readouterr()
        return code, said.out, said.err


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Place:
    root, home = tmp_path / "work", tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Ann\n\temail = ann@localhost\n")
    for name, folder in (("HOME", ""), ("XDG_CONFIG_HOME", ".config"), ("XDG_STATE_HOME", ".local/state")):
        monkeypatch.setenv(name, str(home / folder))
    found = Place(root, capsys)
    found.write("Makefile", "test:\n\ttrue\n")
    found.write("words.txt", "one\n")
    found.write("interlock.toml", SCRIPTED)
    found.write("scenario.yaml", "reactions: []\n")
    subprocess.run(("git", "init", "-q"), cwd=root, check=True)
    monkeypatch.chdir(root)
    return found


@pytest.mark.req("OW-40")
def test_all_of_it_is_said_in_80_columns(place: Place) -> None:
    """Stages, agents, calls, commands with their origin, documents, and what comes first."""
    code, out, err = place("plan", "task", REQUEST)
    assert (code, err) == (0, "")
    figures = Figures.of(load("task"))
    assert figures is not None
    assert out.splitlines() == [
        f"task {REQUEST}: a new run starts (nothing was changed, nobody was",
        "  called)",
        "",
        "Stages",
        "  work -> checks -> review -> commit",
        "",
        "Agents",
        "  AGENT     RUNNER  MODEL        TIME HERE  COST HERE",
        "  builder   played  its default  unknown    unknown",
        "  reviewer  played  its default  unknown    unknown",
        "",
        "Calls of agents",
        f"  at least {figures.fewest}, at most {figures.most}, "
        f"on {figures.paths} paths of its rehearsal with at most 1 fault each",
        "  with more faults more of them, up to the caps: round 3",
        "",
        "Commands that interlock runs",
        "  test: make test, from Makefile",
        "",
        "Documents",
        "  none of its own",
        "",
        "First",
        "  dispatch round-1/work/builder#1",
    ]


@pytest.mark.req("OW-40")
@pytest.mark.parametrize("said", ["command line", "settings"])
def test_what_is_asked_for_narrows_the_plan(place: Place, said: str) -> None:
    """Nobody who reviews, and one round: the plan has no reviewer, and counts what such a run would call."""
    if said == "settings":
        place.write("interlock.toml", f"{SCRIPTED}[task]\nreview = false\nrounds = 1\n")
    options = ("--no-review", "--rounds", "1") if said == "command line" else ()
    code, out, err = place("plan", "task", REQUEST, "--json", *options)
    assert code == 0, err
    value = json.loads(out)
    assert [seat["agent"] for seat in value["agents"]] == ["builder"]
    assert value["stages"] == ["work", "checks", "commit"]
    assert value["caps"] == {"round": 1}
    assert value["calls"]["fewest"] == 1
    assert value["calls"]["most"] == 2  # one fault is tried again
    assert value["commands"] == ["test: make test, from Makefile"]


@pytest.mark.req("OW-40")
@pytest.mark.parametrize("before", ["nothing", "runs"])
def test_nothing_is_changed_and_nobody_is_called(place: Place, before: str) -> None:
    """The tree, the home folder and .interlock are the same bytes; neither agents nor checks leave a trace outside."""
    if before == "runs":
        assert place("run", "task", REQUEST)[0] == 0
    program = place.root.parent / "agent.py"
    program.write_text(f"open({str(place.outside)!r}, 'w').write('called')\n")
    place.write(
        "interlock.toml",
        f'[runners.mine]\ntype = "command"\nargv = ["{sys.executable}", "{program}"]\n[sandbox]\nmode = "off"\n',
    )
    for more in ((), ("--json",), ("--check", f"touch {place.outside}"), ("--commit",)):
        files, folders = place.everything(), place.folders()
        code, out, _ = place("plan", "task", "another thing", *more)
        assert (code, bool(out)) == (0, True)
        assert place.everything() == files
        assert place.folders() == folders
    assert not place.outside.exists()


@pytest.mark.req("OW-40")
def test_time_and_cost_are_those_of_earlier_runs_here(place: Place) -> None:
    """Median and range for each role, of this playbook and this workspace only."""
    for number, cost in enumerate((0.1, 0.4, 0.2), start=1):
        reaction = {
            "agent": "builder",
            "append": {"words.txt": "more\n"},
            "usage": {"cost_usd": cost, "input_tokens": 1, "output_tokens": 1},
        }
        place.write("scenario.yaml", json.dumps({"reactions": [reaction]}))
        assert place("run", "task", f"{REQUEST} {number}")[0] == 0
    code, out, _ = place("plan", "task", REQUEST, "--json")
    builder, reviewer = json.loads(out)["agents"]
    assert code == 0
    assert builder["cost_usd"] == {"number": 3, "median": 0.2, "least": 0.1, "most": 0.4}
    assert builder["seconds"]["number"] == 3
    assert reviewer["cost_usd"] is None
    assert reviewer["seconds"]["number"] == 3
    assert earlier_calls(place.root, "ticket") == {}
    assert "0.20 USD (0.10 to 0.40, 3 calls)" in place("plan", "task", REQUEST)[1]


@pytest.mark.req("OW-40")
def test_a_run_that_is_open_is_said_to_go_on(place: Place) -> None:
    """With what comes next in it: here a person's decision."""
    assert place("new", "mine")[0] == 0
    assert place("run", "mine", "what is to be done")[0] == 4
    files = place.everything()
    code, out, _ = place("plan", "mine", "what is to be done")
    assert code == 0
    assert " goes on (nothing was changed" in " ".join(out.split())
    assert "\nFirst\n  decision round-1/" in out
    assert place.everything() == files


def test_runs_that_cannot_be_read_tell_nothing(place: Place) -> None:
    """A damaged journal is no figure, and no reason to refuse a plan."""
    assert place("run", "task", REQUEST)[0] == 0
    (journal,) = place.root.glob(".interlock/runs/task-*/journal.jsonl")
    journal.write_bytes(b"torn\n" + journal.read_bytes())
    code, out, _ = place("plan", "task", "another", "--json")
    assert (code, json.loads(out)["agents"][0]["seconds"]) == (0, None)


@pytest.mark.req("OW-40")
@pytest.mark.parametrize(("kind", "first"), [((), "round"), (("--yaml",), "work")], ids=["python", "yaml"])
def test_a_playbook_of_ones_own_is_rehearsed_on_the_spot(place: Place, kind: tuple[str, ...], first: str) -> None:
    """Within a bound; how many paths were seen is said, and its commands as they were run there."""
    assert place("new", "mine", *kind)[0] == 0
    files = place.everything()
    code, out, err = place("plan", "mine", "what is to be done", "--json")
    value: dict[str, Any] = json.loads(out)
    assert code == 0, err
    assert place.everything() == files
    calls = value["calls"]
    assert calls["whole"] and 10 < calls["paths"] < MOST_PATHS
    assert calls["fewest"] == 2 <= calls["most"]
    assert value["commands"] == ["true, in its rehearsal"]
    assert value["stages"][0] == first
    assert [seat["agent"] for seat in value["agents"]] == ["worker", "reviewer"]


@pytest.mark.req("OW-40")
def test_what_keeps_a_run_from_starting_keeps_its_plan_from_being_made(place: Place) -> None:
    """Exit 2 and the same words as `run` has."""
    place.write("interlock.toml", 'runner = "nobody"\n')
    planned, begun = place("plan", "task", REQUEST), place("run", "task", REQUEST, "--dry-run")
    assert planned == begun
    assert planned[0] == 2
    assert place("plan", "nothing-like-it", "x")[0] == 2


@pytest.mark.req("OW-40")
@pytest.mark.parametrize("name", NAMES)
def test_every_shipped_playbook_has_its_figures_beside_it(name: str) -> None:
    """So that a plan takes no minutes; `make docs` writes them, and the check of the diagrams compares them."""
    figures = Figures.of(load(name))
    assert figures is not None
    assert figures.whole
    assert figures.fewest is not None
    assert 1 <= figures.fewest <= figures.most


def test_a_plan_with_long_names_stays_within_80_columns() -> None:
    """Agents go on lines of their own, texts are wrapped; control characters do not reach the terminal."""
    spread = Spread(12, 61.5, 1.25, 4000.0)
    seat = Seat(
        "a-reviewer-with-a-long-name",
        "claude-with-a-name",
        "a-model-with-a-long-name",
        spread,
        Spread(1, 1.5, 1.5, 1.5),
    )
    outlook = Outlook(
        playbook="mine",
        key="key \x1b[31m" + "word " * 30,
        run_id="mine-1",
        stages=("one", "two") * 20,
        agents=(seat,),
        calls=Figures(1, 300, None, 9, whole=False),
        caps={"rounds": 3},
        commands=("check: " + "make " * 30,),
        documents=("docs/**",),
        next={"next": "end", "status": "stopped", "reason": "so"},
    )
    lines = lines_of(outlook)
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "\x1b" not in text
    assert "time 1 min 02 s (1.2 s to 1 h 06 min, 12 calls); cost 1.50 USD once" in " ".join(text.split())
    assert "on the first 300 paths" in text
    assert "run mine-1 goes on" in " ".join(text.split())
    assert "it ends at once: stopped so" in text
