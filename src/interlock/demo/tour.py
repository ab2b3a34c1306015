"""The tour: a feature is built by scripted agents with the real command line; then what was seen, and the proof."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.demo.account import Account, filled
from interlock.demo.workspace import environment, make
from interlock.engine.folder import RunFolder, find_run
from interlock.errors import InterlockError

REQUEST = "Export the expenses of a month as CSV, for use in a spreadsheet"
SLUG = "csv-export"
REPORT = "report.html"
OPENING = """\
{folder}/ is a small project in git: purse, which keeps expenses in a text file. A feature is wanted, in one sentence. \
interlock takes it through research, specification, design, review, waves of implementers, verification and a final \
review. The agents are scripted and no model is called, but they write real files, and verifiers really run the code. \
Watch for three things: the design goes back once, an agent writes where it may not, and the first verification does \
not pass."""
SEEN = "What you saw"
PROOF = "The result: what changed in the project, its tests, and the feature itself, all really run."


def main(arguments: Sequence[str]) -> int:
    """Make the sample workspace and walk through it; 0 when everything did what was said."""
    parser = argparse.ArgumentParser(prog="python -m interlock.demo", description="A tour with scripted agents.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("demo"), help="made anew (default: demo)")
    parser.add_argument("--fast", action="store_true", help="the agents do not take time to be watched")
    given = parser.parse_args(arguments)
    try:
        tour = Tour(make(given.folder, pauses=not given.fast))
        return tour.walk()
    except InterlockError as error:
        print(
            f"Error: {error.what}", *(f"  {label}: {text}" for label, text in error.parts()), sep="\n", file=sys.stderr
        )
        return error.exit_code


@dataclass
class Tour:
    """A walk through the workspace in `folder`; `code` is the exit code so far."""

    folder: Path
    code: int = 0

    def walk(self) -> int:
        say(filled(OPENING.format(folder=self.folder)))
        self.interlock("run", "feature", REQUEST, "--slug", SLUG)
        if self.code != 0:
            return self.code
        run = find_run(self.folder, "latest").folder
        account = Account(run.lines(), self.folder)
        if (account.turns("ct"), account.turns("replan")) != (1, 1):
            print("This run has not revised and replanned once, as was said.", file=sys.stderr, flush=True)
            return 1
        say(f"{SEEN}\n{'-' * len(SEEN)}")
        for number, told in enumerate(account.told(), start=1):
            say(told.render(number))
        say(filled(PROOF))
        self.command("git", "status", "--short")
        self.python("-m", "unittest")
        self.python("-m", "purse", "export", "expenses.txt", "--month", "2026-03")
        say("And the report of the run, as a page:")
        self.interlock("report", "latest", "--html", REPORT)
        say(self.further(run, account))
        return self.code

    # -- commands, really run in the workspace

    def interlock(self, *words: str) -> None:
        self._run("interlock", [sys.executable, "-m", "interlock", *words], words)

    def python(self, *words: str) -> None:
        self._run("python3", [sys.executable, "-B", *words], words)

    def command(self, *words: str) -> None:
        self._run(words[0], words, words[1:])

    def _run(self, name: str, command: Sequence[str], words: Sequence[str]) -> None:
        say(f"  $ {name} {spoken(words)}\n")
        code = patient(command, self.folder)
        if code != 0:
            self.code = self.code or code
            print(f"This ended with exit code {code}; 0 was expected.", file=sys.stderr, flush=True)

    def further(self, run: RunFolder, account: Account) -> str:
        program, at = "interlock" if shutil.which("interlock") else beside_python("interlock"), f"-C {self.folder}"
        failed = account.dispatch("v-tests", "REVISE")
        commands = {
            f"{program} show latest {at}": "every call: who, how long, how it ended",
            f"{program} logs latest {at}": "every event, every decision",
            f"git -C {self.folder} status": "what the agents really changed",
            f"{program} doctor {at}": "what interlock finds on this machine",
        }
        width = max(map(len, commands))
        paths = {
            "report": f"{self.folder}/{REPORT}, {run.path}/report.md",
            "documents": f"{self.folder}/docs/feature/{SLUG}/ (memory.md tells the story)",
            "failed test": f"{run.path}/dispatches/{failed}/output.md",
            "the cast": f"{self.folder}/cast/README.md",
        }
        return "\n".join(
            [
                "To look further:\n",
                *(f"  {command:<{width}}  {why}" for command, why in commands.items()),
                "",
                *(f"  {name + ':':<12} {path}" for name, path in paths.items()),
                "",
                "Next, the agent that you have: docs/agents.md",
                'Then, in a repository of yours: interlock run feature "WHAT YOU WANT"',
            ]
        )


def patient(command: Sequence[str], folder: Path) -> int:
    """The exit code of a command; Ctrl-C is for the command, which needs a moment to put its things in order."""
    with subprocess.Popen(command, cwd=folder, env=environment()) as process:
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                continue


def beside_python(program: str) -> str:
    """A program of this installation, as it is called from here."""
    path, here = Path(sys.executable).with_name(program), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def say(text: str) -> None:
    print(f"\n{text}", flush=True)


def spoken(words: Sequence[str]) -> str:
    return " ".join(f'"{word}"' if " " in word else word for word in words)
