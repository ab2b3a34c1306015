"""A reader at a shell: types the marked blocks of a page into one folder, one after the other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests import own_python
from tests.docs.pages import DOCS, Block, files_of

PATIENCE_S = 600.0


class Reader:
    def __init__(self, folder: Path, programs: Path, **environ: str) -> None:
        self.folder = folder
        self.typed: list[Block] = []
        self._printed = ""
        self._environ = {**surroundings(programs, folder.parent / "home"), **environ}

    def follow(self, page_blocks: Iterator[Block]) -> None:
        """Do what the page says; an AssertionError names the line that is not true."""
        for block in page_blocks:
            for page in filter(None, [block.marks.get("uses")]):
                self._write(files_of(DOCS / page))
            if "file" in block.marks:
                self._write({block.marks["file"]: block.text})
            if "test" in block.marks:
                self._type(block)
            if "shows" in block.marks:
                self._compare(block)

    def _write(self, files: Mapping[str, str]) -> None:
        for path, text in files.items():
            (self.folder / path).write_text(text, "utf-8")

    def _type(self, block: Block) -> None:
        how = block.marks["test"]
        expected = int(found[1]) if (found := re.search(r"exit (\d+)", how)) else 0
        shell = subprocess.Popen(
            ["bash", "-euc", block.text if "interrupt" not in how else f"exec {block.text}"],
            cwd=self.folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            if "interrupt" in how:
                self._wait_for_an_agent(shell)
                shell.send_signal(signal.SIGINT)
            self._printed, _ = shell.communicate(timeout=PATIENCE_S)
        finally:
            shell.kill()
        assert shell.returncode == expected, f"{block}: exit {shell.returncode}, not {expected}\n{self._printed}"
        self.typed.append(block)

    def _wait_for_an_agent(self, shell: subprocess.Popen[str]) -> None:
        """Until the journal of a run that has not ended says that an agent works."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and shell.poll() is None:
            journals = [path.read_text("utf-8") for path in self.folder.glob(".interlock/runs/*/journal.jsonl")]
            if any('"dispatch.running"' in text and '"run.end"' not in text for text in journals):
                return
            time.sleep(0.02)
        raise AssertionError("no agent was started")

    def _compare(self, block: Block) -> None:
        """Every line was printed, in this order; numbers, ids and spaces may differ."""
        at = 0
        for line in block.text.splitlines():
            found = re.compile(loosely(line)).search(self._printed, at)
            assert found, f"{block}: was not printed: {line!r}\n{self._printed}"
            at = found.end()


def loosely(line: str) -> str:
    """A pattern for a printed line in which times, counts and the ends of run ids are free."""
    pieces = re.split(r"(-\d{8}-\d{6}-[0-9a-f]{4}|\d+(?:\.\d+)?|\s+)", line.strip())
    free = {"-": r"-\d{8}-\d{6}-[0-9a-f]{4}", " ": r"\s+"}
    return "".join(
        free[" "]
        if piece.isspace()
        else free["-"]
        if piece.startswith("-2")
        else r"\d+(?:\.\d+)?"
        if re.fullmatch(r"\d+(?:\.\d+)?", piece)
        else re.escape(piece)
        for piece in pieces
    )


def surroundings(programs: Path, home: Path) -> dict[str, str]:
    """The reader's environment: `interlock` and `python` are those of these tests, nothing else is inherited."""
    programs.mkdir(parents=True)
    home.mkdir()
    for name, words in {"interlock": "-m interlock", "python": "", "python3": ""}.items():
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', "utf-8")
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        **own_python.SHOWN,
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
