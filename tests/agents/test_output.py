"""What a program prints is heard line by line, redacted before anybody sees it, and kept within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlock.agents import output
from interlock.agents.output import Kept, Output
from interlock.agents.redaction import Redaction
from tests.agents.conftest import Execute

SECRET = "sk-0123456789-\N{SNOWMAN}-abcdefgh"
SECRETS = Redaction({"API_KEY": SECRET})


async def printed(pieces: Sequence[bytes], redact: Redaction = SECRETS) -> tuple[bytes, list[bytes]]:
    """What is kept and the lines that are heard of output that comes in these pieces."""
    read, write = os.pipe()
    kept, heard = Kept(10**9), list[bytes]()
    out = Output(redact, (kept,), heard.append)
    listening = asyncio.create_task(out.listen(os.fdopen(read, "rb", buffering=0)))
    for piece in pieces:
        os.write(write, piece)
        for _ in range(5):  # looks of the loop: it is read before the next one comes
            await asyncio.sleep(0)
    os.close(write)
    await listening
    out.finish()
    return kept.content, heard


@pytest.mark.req("RUN-18")
@settings(max_examples=40)
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20)), st.data())
def test_lines_come_out_whole_and_clean_however_the_bytes_were_cut(texts: list[str], data: st.DataObject) -> None:
    """Pieces of any size; a secret in several pieces is one secret; the last line needs no end."""
    lines = [text.replace("\n", " ") for text in texts]
    raw = "\n".join(f"{line}{SECRET}" for line in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    pieces = [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) if begin < end]
    kept, heard = asyncio.run(printed(pieces))
    assert [line.decode() for line in heard] == [f"{line}[redacted:API_KEY]" for line in lines]
    assert kept == b"\n".join(heard)


@pytest.mark.req("RUN-18", "RUN-19")
@given(st.integers(0, 70), st.integers(1, 40))
def test_a_line_beyond_all_measure_is_left_out_with_a_mark(before: int, size: int) -> None:
    """Memory stays bounded, nothing of a secret in it is shown, and the next line is heard again."""
    line = b"\xc3\xa4" * before + SECRET.encode() + b"z" * 200
    pieces = [line[begin : begin + size] for begin in range(0, len(line), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "LINE_LIMIT", 64)
        kept, heard = asyncio.run(printed([*pieces, b" its rest\nnext\n"]))
    assert kept == b"[interlock: a line of more than 64 bytes is left out here]\nnext\n"
    assert heard == [b"next"]


@given(st.lists(st.text(st.characters(codec="utf-8"))), st.integers(20, 60))
def test_what_is_kept_is_the_beginning_and_the_end(texts: list[str], limit: int) -> None:
    """Cut in the middle with the number of bytes that are gone; all of it where it fits."""
    raw, kept = "".join(texts).encode(), Kept(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "_CHUNK", 0)
        for text in texts:
            kept.write(text.encode())
    head, mark, tail = kept.content.partition(b"\n[interlock: ")
    if len(raw) <= limit // 2 * 2:
        assert kept.content == raw
    else:
        assert raw.startswith(head)
        assert raw.endswith(tail.partition(b" bytes are left out here]\n")[2])
        assert int(tail.split()[0]) == len(raw) - limit // 2 * 2 and mark


@pytest.mark.req("RUN-19")
async def test_output_over_the_limit_is_cut_with_a_mark_and_the_program_goes_on(
    execute: Execute, tmp_path: Path
) -> None:
    """60 MB leave 50 MB in the transcript and 1 MB in memory, and the program ends by itself."""
    ended = await execute(["sh", "-c", "yes | head -c 60000000; echo fine >&2; exit 4"])
    assert (ended.exit, ended.stderr) == (4, "fine\n")
    assert len(ended.out) < 1_000_100
    with (tmp_path / "out").open("rb") as file:
        assert 50_000_000 <= file.seek(0, os.SEEK_END) < 50_000_100
        file.seek(-100, os.SEEK_END)
        assert file.read().endswith(b"\n[interlock: only the first 50000000 bytes are kept]\n")
