"""Files may be called as git lets them be called: their names survive keys, briefs, journal, objects and logs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.contracts import Artifact, Contract
from interlock.documents import Store
from interlock.documents.paths import spoken
from interlock.engine import Dispatch
from interlock.engine.brief import Heading, render
from interlock.engine.facts import completed, last_number
from interlock.engine.journal import Journal, MemoryMedium
from interlock.engine.keys import sha256
from interlock.engine.objects import MemoryObjects, pack, unpack

GENESIS = sha256(b"run.json")
NAMES = [
    "app/[id]/page.txt",
    "what?.md",
    "*.md",
    "with space.md",
    "two\nlines.md",
    "tab\tand\rreturn",
    "caf\udce9.md",
    "quote\"back\\slash`tick'.md",
    "\x1b]0;title\x07.md",
    "\u202egnp.md",
    "x" * 255,
    "ä" * 127,
    "-rf",
    " ",
]
HEADING = Heading(
    run_key="k",
    playbook="toy",
    step="s",
    attempt=1,
    session="sess",
    deadline="2026-01-04T12:30:00Z",
    timeout_s=60.0,
    role="none",
)
BACK = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
KINDS = {True: "surrogateescape", False: "surrogatepass"}
any_text = st.text(st.characters(codec=None) | st.characters(categories=["Cs"]), max_size=2000)


@pytest.mark.req("LY-31")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_brief_names_a_file_so_that_it_can_be_found(name: str) -> None:
    """One line for each path, in text that any client can be sent; a plain name stands as it is."""
    spec = Dispatch("maker", "Write it.", Contract((Artifact(name),)), inputs=(name,))
    brief = render(spec, HEADING)
    assert brief.encode()
    lines = [line for line in brief.splitlines() if line.startswith("- ") and spoken(name) in line]
    assert len(lines) >= 3  # input, output, what may be changed
    assert all(line.isprintable() for line in lines)
    if name in ("app/[id]/page.txt", "what?.md", "with space.md", "x" * 255):
        assert f"- `{name}`" in lines


@pytest.mark.req("LY-31")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_git_finds_a_file_by_the_name_that_is_spoken(name: str, tmp_path: Path) -> None:
    """Whoever reads it in a brief or a report can hand it to git, quotes and all."""
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("x")
    command = ["git", "hash-object", "--stdin-paths"]
    said = subprocess.run(command, cwd=tmp_path, input=spoken(name).encode() + b"\n", capture_output=True, check=True)
    assert said.stdout.strip() == b"c1b0730e0133447badcfd47fd144e254807b06e1"


@pytest.mark.req("LY-31", "LY-43")
@given(any_text)
def test_what_is_spoken_is_printable_and_tells_names_apart(name: str) -> None:
    """Two different paths are never spoken alike: the name can be had back."""
    said = spoken(name)
    assert said.isprintable()
    if said == name:
        assert not said.startswith('"')
        return
    quoted = said[1:-1].encode().decode("latin-1")
    plain = re.sub(r"\\([0-7]{3}|.)", lambda found: BACK.get(found[1]) or chr(int(found[1], 8)), quoted)
    raw = plain.encode("latin-1")
    assert raw == b"".join(char.encode("utf-8", KINDS["\udc80" <= char <= "\udcff"]) for char in name)


@pytest.mark.req("LY-31", "EN-08")
@given(any_text, st.integers(1, 6))
def test_any_text_survives_the_journal_and_its_objects(text: str, times: int) -> None:
    """Names that are not UTF-8, half characters, texts long enough to be stored elsewhere: all come back equal."""
    value = {"path": text, "paths": [text * times, {text: text * 3}], "long": text * 40}
    objects = MemoryObjects()
    medium = MemoryMedium()
    journal = Journal(medium, run_id="toy-1", genesis=GENESIS, clock=lambda: "2026-01-04T12:00:00+00:00")
    journal.append("note", key=text[:50], data={"out": pack(value, objects)})
    again = Journal(MemoryMedium(medium.load()), run_id="toy-1", genesis=GENESIS, clock=str)
    assert unpack(again.lines[0].data["out"], objects) == value
    assert again.lines[0].key == text[:50]
    assert again.lines[0].to_bytes() == medium.load()


@pytest.mark.req("LY-43", "LY-31")
@given(any_text)
def test_a_journal_has_no_control_character(text: str) -> None:
    """Whoever shows the file in a terminal is safe: it is printable ASCII, line by line."""
    medium = MemoryMedium()
    Journal(medium, run_id="toy-1", genesis=GENESIS, clock=lambda: "now").append(text, key=text, data={text: [text]})
    assert all(0x20 <= byte < 0x7F for byte in medium.load().removesuffix(b"\n"))


@pytest.mark.req("LY-31")
def test_a_log_can_tell_of_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    """The line is written with an escape; the document can be written, and the next line follows."""
    medium = MemoryMedium()
    journal = Journal(medium, run_id="toy-1", genesis=GENESIS, clock=lambda: "now")
    journal.append("file", data={"path": "caf\udce9.md"})
    journal.append("file", data={"path": "café.md"})
    log = completed("", journal.lines, lambda line: line.data)
    Store(tmp_path, tmp_path / "attic").write("log.jsonl", log)
    assert [json.loads(line)["path"] for line in log.splitlines()] == ["caf\udce9.md", "café.md"]
    assert "café.md" in log
    assert last_number(log) == {"toy-1": 2}


@pytest.mark.req("LY-31")
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_document_of_any_name_is_read_written_listed_and_set_aside(name: str, tmp_path: Path) -> None:
    """Also a second time, when its place in the attic is taken and its name has no room for a number."""
    store = Store(tmp_path, tmp_path / ".interlock/attic")
    for text in ("one", "two", "three"):
        store.write(name, text)
        assert store.read(name).text == text
        assert name in store.list(".", "**/*")
        place = store.set_aside(name, "run/key#1")
        assert store.read(place).text == text
        assert not os.path.lexists(tmp_path / name)
    kept = sorted(path.read_text() for path in (tmp_path / ".interlock/attic").rglob("*") if path.is_file())
    assert kept == ["one", "three", "two"]


@pytest.mark.req("LY-31")
def test_a_file_deep_below_something_deep_finds_a_place_in_the_attic(tmp_path: Path) -> None:
    """The path with the run's key before it would be longer than a path may be."""
    store = Store(tmp_path, tmp_path / ".interlock/attic")
    deep = "/".join(["d" * 200] * 14) + "/a.md"
    store.write(deep, "kept")
    place = store.set_aside(deep, "/".join(["k" * 200] * 5))
    assert store.read(place).text == "kept"
