"""A repository, a person and agents that act as told: whole runs of `task` by the real world."""

from __future__ import annotations

import asyncio
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

from interlock.app import Place, Watcher, playbook_named
from interlock.engine.runs import Entry
from interlock.engine.view import View

CHECK = "sh check.sh"
AGENT = """\
# acts as the file of its role and attempt says; silent: the best that its form allows
act="acts/$INTERLOCK_AGENT-$INTERLOCK_ATTEMPT.sh"
[ -f "$act" ] || act="acts/$INTERLOCK_AGENT.sh"
cat > /dev/null
[ -f "$act" ] && exec sh "$act"
case "$INTERLOCK_AGENT" in
  builder) sed -i 's/a - b/a + b/' lib.py; echo "I mended add." ;;
  reviewer)
    echo '```json'
    echo '{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}]}'
    echo '```' ;;
esac
"""
ACCEPTS = """\
cat <<'END'
```json
{"verdict": "accept", "criteria": [{"criterion": "the request", "met": true}], "checks": []}
```
END
"""


class Bench:
    """A small project in which `add` subtracts, with one check that shows it."""

    def __init__(self, top: Path, *, git: bool = True, mode: str = "auto") -> None:
        self.top = top
        top.mkdir(parents=True)
        self.write("lib.py", "def add(a, b):\n    return a - b\n\n\ndef name():\n    return 'x'\n")
        self.write("notes.txt", "one\ntwo\nthree\n")
        self.write("check.sh", "grep -q 'a + b' ./*.py\n")
        self.write("agent.sh", AGENT)
        self.write(".gitignore", ".venv/\n*.cache\n__pycache__/\n")
        self.write(
            "interlock.toml",
            'runner = "mine"\n[runners.mine]\ntype = "command"\nargv = ["sh", "agent.sh"]\n'
            f'[commands]\ntest = "{CHECK}"\n[sandbox]\nmode = "{mode}"\n',
        )
        self.git = git
        if git:
            self.run_git("init", "-q", "-b", "main")
            self.commit("first")

    @classmethod
    def there(cls, top: Path) -> Bench:
        """The one that somebody made."""
        bench = cls.__new__(cls)
        bench.top, bench.git = top, (top / ".git").is_dir()
        return bench

    # the person

    def write(self, path: str, text: str | bytes) -> None:
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(text.encode() if isinstance(text, str) else text)
        self.age(path)

    def age(self, path: str, seconds: int = 5) -> None:
        """Fresh files are racy for git, which hides faults of stat data."""
        place = self.top / path
        status = place.stat()
        os.utime(place, ns=(status.st_atime_ns, status.st_mtime_ns - seconds * 10**9))

    def read(self, path: str) -> str:
        return (self.top / path).read_text()

    def run_git(self, *args: str) -> str:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        env |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        who = ["-c", "user.name=P", "-c", "user.email=p@example.org"]
        done = subprocess.run(["git", *who, *args], cwd=self.top, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.run_git("config", "user.name", "P")
        self.run_git("config", "user.email", "p@example.org")
        self.run_git("add", "-A")
        self.run_git("commit", "-q", "-m", message)

    def act(self, who: str, script: str) -> None:
        """What an agent does: `builder`, or `builder-2` for its second attempt."""
        self.write(f"acts/{who}.sh", textwrap.dedent(script))

    # the run

    def place(self, **options: Any) -> Place:
        return Place(self.top, options)

    def run(self, request: str = "Make add right", *, watcher: Watcher | None = None, **inputs: Any) -> View:
        self.entry, view = asyncio.run(self.start(request, watcher=watcher, **inputs))
        return view

    async def start(
        self, request: str = "Make add right", *, watcher: Watcher | None = None, **inputs: Any
    ) -> tuple[Entry, View]:
        playbook = playbook_named("task")
        made = playbook.inputs.model_validate({"request": request, **inputs})
        return await self.place().run(playbook, made, watcher or Watcher())

    def resume(self, **options: Any) -> View:
        place = self.place()
        return asyncio.run(place.resume(place.runs.find("latest"), Watcher(), **options))

    def calls(self, view: View) -> list[str]:
        return [f"{call.agent}:{call.calls}" for call in view.calls.values()]
