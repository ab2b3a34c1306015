"""`python -m interlock.demo`: a person, their unsaved work, an agent that does ordinary harm, and a judge that lies.

Everything is real but the models: the repository, the layers, the checks, the command line.  The agents are a script
that does what is written in it, as coding agents do it every day.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from interlock.cli.typed import PROGRAM

LIB = "def add(a, b):\n    return a - b\n\n\ndef sub(a, b):\n    return a + b\n"
CHECK = """\
import sys

import lib

wanted = sys.argv[1:] or ["add"]
wrong = [name for name, right in (("add", lib.add(2, 3) == 5), ("sub", lib.sub(5, 3) == 2)) if not right]
wrong = [name for name in wrong if name in wanted]
print(f"wrong: {', '.join(wrong)}" if wrong else "all right")
sys.exit(bool(wrong))
"""
AGENT = """\
# An agent without a model. It gets the brief on standard input, and does what is written here.
brief=$(cat)
case "$INTERLOCK_AGENT-$INTERLOCK_ATTEMPT" in
  builder-1)
    git stash -u -q; git reset -q --hard; rm -f notes.txt README.md    # as agents do, to have a clean start
    sed -i 's/return a - b/return a + b/' lib.py                       # half of what was asked for
    echo "Both are right now." ;;
  builder-2)
    sed -i '6s/return a + b/return a - b/' lib.py
    echo "Now sub, too." ;;
  reviewer-1)                                                          # it says that it ran what it did not run
    echo '```json'
    echo '{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}],'
    echo ' "checks": [{"command": "python3 check.py add sub", "result": "green"}]}'
    echo '```' ;;
  *)
    echo '```json'
    echo '{"verdict": "accept", "summary": "add and sub are right",'
    echo ' "criteria": [{"criterion": "the request", "met": true}],'
    echo ' "checks": [{"command": "python3 check.py add sub", "result": "green"}]}'
    echo '```' ;;
esac
"""
SETTINGS = """\
runner = "mine"
[runners.mine]
type = "command"
argv = ["sh", "agent.sh"]
[commands]
test = "python3 check.py"
"""


class Tour:
    """A terminal in a folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("INTERLOCK_", "GIT_"))}
        self.env = {**kept, "PATH": f"{Path(sys.executable).parent}:{kept.get('PATH', os.defpath)}"}

    def says(self, *lines: str) -> None:
        print("", *(f"# {line}" for line in lines), sep="\n", flush=True)

    def types(self, *words: str, ok: int = 0) -> None:
        """A command with what it prints; another end than that is this demo's."""
        print(f"\n$ {shlex.join(words)}", flush=True)
        argv = [*PROGRAM, *words[1:]] if words[0] == "interlock" else [*words]
        code = subprocess.run(argv, cwd=self.top, env=self.env, check=False).returncode
        if code != ok:
            sys.exit(f"demo: that ended with {code}, not with {ok}")

    def write(self, path: str, text: str) -> None:
        (self.top / path).write_text(text, "utf-8")

    def git(self, *words: str) -> None:
        who = ("-c", "user.name=You", "-c", "user.email=you@example.org")
        subprocess.run(["git", *who, *words], cwd=self.top, env=self.env, check=True, capture_output=True)


def project(tour: Tour) -> None:
    """A repository with a fault, and a person's unsaved work in it."""
    tour.top.mkdir(parents=True)
    for path, text in {
        "lib.py": LIB,
        "check.py": CHECK,
        "agent.sh": AGENT,
        "README.md": "# Numbers\n",
        ".gitignore": "__pycache__/\n",
    }.items():
        tour.write(path, text)
    tour.git("init", "-q", "-b", "main")
    tour.git("add", "-A")
    tour.git("commit", "-q", "-m", "first")
    tour.write("interlock.toml", SETTINGS)
    tour.write("README.md", "# Numbers\n\nA line that is in no commit.\n")
    tour.write("notes.txt", "Nobody but you knows of this file.\n")


def main() -> None:
    asked = argparse.ArgumentParser(prog="python -m interlock.demo", description=__doc__)
    asked.add_argument("folder", nargs="?", default="demo", type=Path, help="made anew; demo, if not given")
    top = asked.parse_args().folder.absolute()
    if top.exists() and not (top / ".interlock").is_dir():
        sys.exit(f"demo: {top} is there, and is none of ours; name another folder")
    shutil.rmtree(top, ignore_errors=True)
    tour = Tour(top)
    project(tour)
    tour.says("A project of yours: one file changed and one new, neither in any commit. Its check is red.")
    tour.types("git", "status", "--short")
    tour.types("python3", "check.py", ok=1)
    tour.says(
        "You ask. The agent begins with `git stash`, `git reset --hard` and `rm` of your notes, and mends half of it.",
        "The reviewer accepts it, and says that it ran a command and saw it green. interlock runs it: it is red.",
    )
    tour.types("interlock", "Make add and sub right")
    tour.says("Your work is as it was. The agent's is delivered, and can be taken out again.")
    tour.types("git", "status", "--short")
    tour.types("cat", "notes.txt")
    tour.types("interlock", "diff")
    tour.types("interlock", "undo", "latest")
    tour.types("interlock", "apply", "latest")
    tour.says("A whole process: research, design, reviews, waves of implementers, verification. Agents by script.")
    tour.types("interlock", "run", "feature", "Greet people by their name", "--runner", "scripted")
    tour.says(f"All of it lies in {os.path.relpath(top)}. See it again: cd {os.path.relpath(top)} && interlock show")


if __name__ == "__main__":
    main()
