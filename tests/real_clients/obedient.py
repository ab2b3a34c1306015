"""An agent of the `command` runner that does what its brief says, in the same directives as the scripted model."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from tools.model_server import directives
from tools.model_server.steps import Edit, Refuse, Say, Shell, Sleep, Write


def main() -> int:
    brief = sys.stdin.read()
    Path(os.environ["HOME"], "received").write_text(brief, "utf-8")
    for step in directives.program(brief):
        match step:
            case Write(path, content):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).write_text(content, "utf-8")
            case Edit(path, old, new):
                Path(path).write_text(Path(path).read_text("utf-8").replace(old, new), "utf-8")
            case Shell(command):
                subprocess.run(["bash", "-c", command], check=False)
            case Say(text):
                print(text)
            case Sleep(seconds):
                time.sleep(seconds)
            case Refuse(status, message):
                print(f"API Error: {status} {message}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
