"""A repository, a person and agents that act as told: whole runs by the real world."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self
from unittest import mock

from interlock.app import Place, Watcher, playbook_named
from interlock.cli.main import answer
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
DIES = """
import asyncio, importlib, os, signal, sys
from pathlib import Path
from interlock.app import Watcher

module, name, top, at = sys.argv[1:]
bench, seen = getattr(importlib.import_module(module), name).there(Path(top)), 0

def told(view, key):
    global seen
    seen += 1
    if seen == int(at):
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(bench.begin(Watcher(told=told)))
"""


@dataclass(frozen=True)
class Answer:
    """How one call of the command line ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Bench:
    """A small project in which `add` subtracts, with one check that shows it."""

    playbook: ClassVar[str] = "task"
    asked: ClassVar[Mapping[str, Any]] = {"request": "Make add right"}

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
            self.introduce()
            self.commit("first")

    @classmethod
    def there(cls, top: Path) -> Self:
        """The one that somebody made."""
        bench = cls.__new__(cls)
        bench.top, bench.git = top, (top / ".git").is_dir()
        return bench

    @classmethod
    def clone(cls, of: Bench, top: Path, *how: str) -> Self:
        """Another one's, by the same person."""
        of.run_git("clone", "-q", *how, ".", str(top))
        made = cls.there(top)
        made.introduce()
        return made

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

    def introduce(self) -> None:
        """Say in this repository who they are."""
        with (self.top / ".git" / "config").open("a") as config:
            config.write("[user]\n\tname = P\n\temail = p@example.org\n")

    def commit(self, message: str) -> None:
        self.run_git("add", "-A")
        self.run_git("commit", "-q", "-m", message)

    def act(self, who: str, script: str) -> None:
        """What an agent does: `builder`, or `builder-2` for its second attempt."""
        self.write(f"acts/{who}.sh", textwrap.dedent(script))

    def types(self, *words: str) -> Answer:
        """What a person types at this folder who has trusted nothing yet, as this process does it."""
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        data = mock.patch.dict(os.environ, XDG_DATA_HOME=f"{self.top}-data")
        with contextlib.chdir(self.top), data, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = answer(words)
        return Answer(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]

    def trust(self) -> None:
        """The person has read the settings, which lie in a commit (OWN-06)."""
        assert self.types("playbooks", "trust", "interlock.toml").code == 0

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

    async def begin(self, watcher: Watcher | None = None, **given: Any) -> View:
        """The playbook of this kind of project."""
        playbook, place = playbook_named(self.playbook), self.place()
        flags = None
        if playbook.flags is not None:
            flags = playbook.flags.model_validate(
                {name: given.pop(name) for name in [*given] if name in playbook.flags.model_fields}
            )
        inputs = place.inputs(playbook, {**self.asked, **given})
        self.entry, view = await place.run(playbook, inputs, watcher or Watcher(), flags=flags)
        return view

    def killed_at(self, event: int) -> bool:
        """Begins it in a process that is killed at that event; False: it had ended before."""
        words = [type(self).__module__, type(self).__name__, str(self.top), str(event)]
        program, house = [sys.executable, "-c", DIES, *words], Path(__file__).parents[2]
        done = subprocess.run(program, cwd=house, stderr=subprocess.DEVNULL, check=False)
        assert done.returncode in (0, -signal.SIGKILL)
        return done.returncode != 0

    def resume(self, **options: Any) -> View:
        place = self.place()
        return asyncio.run(place.resume(place.runs.find("latest"), Watcher(), **options))

    def calls(self, view: View) -> list[str]:
        return [f"{call.agent}:{call.calls}" for call in view.calls.values()]
