"""The command line with a playbook that needs people: `python toy_cli.py run toy ...`.

This program puts `toy.py` into the list of playbooks, as a shipped one would stand there, and then is the command line.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # also where it is run by path

import hasty  # type: ignore[import-not-found]
import relay  # type: ignore[import-not-found]
import toy  # type: ignore[import-not-found]

from interlock import playbooks


def install() -> None:
    shipped, simulate = playbooks.load, toy.simulate
    ours = {"toy": toy.toy, "hasty": hasty.hasty, "relay": relay.relay}

    def load(name: str) -> Any:
        return ours.get(name) or shipped(name)

    def attended(*how: Any) -> Any:
        if "TOY_INTERRUPTS" in os.environ:  # somebody presses Ctrl-C while the path is played
            signal.raise_signal(signal.SIGINT)
        return simulate(*how)

    toy.simulate = attended
    playbooks.load = load
    playbooks.NAMES = (*playbooks.NAMES, *ours)


if __name__ == "__main__":
    install()
    from interlock.cli.main import main

    sys.argv[0] = "interlock"
    main()
