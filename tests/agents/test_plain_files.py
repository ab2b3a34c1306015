"""Whatever an agent puts in the place of a file: nothing blocks, nothing is followed, nothing of ours is lost."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock.agents import records
from interlock.agents.capped_file import CappedFile
from interlock.agents.plain_files import append_plain, open_plain, read_plain, set_aside, write_plain
from interlock.agents.runner import AgentNews, AgentRequest, FileOutput

KINDS = ("pipe", "socket", "folder", "link", "broken link", "device")


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Callable[[str, Path], Path]]:
    """Puts something there that is no plain file."""
    opened = []
    secret = tmp_path / "secret"
    secret.write_text("of somebody else")

    def put(kind: str, place: Path) -> Path:
        match kind:
            case "pipe":
                os.mkfifo(place)
            case "socket":
                opened.append(socket.socket(socket.AF_UNIX))
                with socket.socket(socket.AF_UNIX) as other:
                    os.chdir(place.parent)
                    other.bind(place.name)
            case "folder":
                place.mkdir()
            case "link":
                place.symlink_to(secret)
            case "broken link":
                place.symlink_to(tmp_path / "new")
            case "device":
                place.symlink_to("/dev/zero")
        return place

    here = Path.cwd()
    yield put
    os.chdir(here)
    for one in opened:
        one.close()
    assert secret.read_text() == "of somebody else"
    assert not (tmp_path / "new").exists()


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_plain_file_is_neither_read_nor_written(
    kind: str, odd: Callable[[str, Path], Path], tmp_path: Path
) -> None:
    """Not even for a moment: opening a pipe would wait for whoever never comes."""
    place = odd(kind, tmp_path / "odd")
    assert read_plain(place, 1000) is None
    assert (FileOutput(place).size, FileOutput(place).tail(10), FileOutput(place).read()) == (0, b"", b"")
    with pytest.raises(OSError, match=r"."):
        os.close(open_plain(place, os.O_WRONLY | os.O_CREAT))
    with pytest.raises(OSError, match=r"."):
        CappedFile(place)


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_is_added_to_comes_back(kind: str, odd: Callable[[str, Path], Path], tmp_path: Path) -> None:
    """What stood in its place is set aside."""
    place = odd(kind, tmp_path / "log")
    append_plain(place, b"one\n")
    append_plain(place, b"two\n")
    assert place.read_bytes() == b"one\ntwo\n"
    assert os.path.lexists(tmp_path / "log.1")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "folder"])
def test_a_new_file_replaces_whatever_stood_there(kind: str, odd: Callable[[str, Path], Path], tmp_path: Path) -> None:
    """It does not go through it."""
    place = odd(kind, tmp_path / "new-file")
    write_plain(place, b"whole")
    assert place.read_bytes() == b"whole"
    assert not place.is_symlink()


def test_a_file_longer_than_the_limit_counts_as_none(tmp_path: Path) -> None:
    """As one that is not there does."""
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert read_plain(tmp_path / "a", 10) == b"x" * 10
    assert read_plain(tmp_path / "a", 9) is None
    assert read_plain(tmp_path / "none", 9) is None


def test_what_is_set_aside_keeps_its_name_and_loses_nothing(tmp_path: Path) -> None:
    """Also where links that lead nowhere have the next numbers."""
    for text in ("one", "two"):
        (tmp_path / "a").write_text(text)
        set_aside(tmp_path / "a")
    (tmp_path / "a.3").symlink_to("nowhere")
    (tmp_path / "a").mkdir()
    set_aside(tmp_path / "a")
    set_aside(tmp_path / "a")
    assert [(tmp_path / f"a.{number}").read_text() for number in (1, 2)] == ["one", "two"]
    assert (tmp_path / "a.3").is_symlink()
    assert (tmp_path / "a.4").is_dir()


# -- in the folders of a dispatch


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_gets_its_room_whatever_the_last_one_left(
    kind: str, odd: Callable[[str, Path], Path], request_for: Callable[..., AgentRequest], tmp_path: Path
) -> None:
    """In the folder that both see, its mode included, and among the records."""
    exchange = tmp_path / "exchange"
    exchange.mkdir()
    request = request_for(exchange=exchange)
    for place in (request.brief_path, request.result_path, request.partial_path, request.output_path):
        odd(kind, place)
    exchange.chmod(0)
    records.prepare(request)
    records.put(exchange, {exchange / "plugin" / "role.md": "a role"})
    assert request.brief_path.read_text() == request.brief
    assert (exchange / "plugin" / "role.md").read_text() == "a role"
    for place in (request.result_path, request.partial_path, request.output_path):
        assert not os.path.lexists(place)
    records.ask_for_partial(request)
    assert request.partial_path.read_text()


@pytest.mark.req("LY-40")
def test_files_for_an_agent_do_not_go_where_its_links_lead(
    request_for: Callable[..., AgentRequest], tmp_path: Path
) -> None:
    """A folder of the last call that is a link now is set aside with what it leads to untouched."""
    exchange, elsewhere = tmp_path / "exchange", tmp_path / "elsewhere"
    elsewhere.mkdir()
    request = request_for(exchange=exchange)
    records.prepare(request)
    (exchange / "plugin").symlink_to(elsewhere)
    records.put(exchange, {exchange / "plugin" / "role.md": "a role"})
    assert list(elsewhere.iterdir()) == []
    assert (exchange / "plugin" / "role.md").read_text() == "a role"


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_in_the_way_of_a_request_goes_without(
    kind: str, odd: Callable[[str, Path], Path], request_for: Callable[..., AgentRequest]
) -> None:
    """Nothing of ours is written where it points."""
    request = request_for()
    odd(kind, request.partial_path)
    records.ask_for_partial(request)


@pytest.mark.req("LY-40")
@pytest.mark.parametrize("kind", KINDS)
def test_the_transcript_goes_on(
    kind: str, odd: Callable[[str, Path], Path], request_for: Callable[..., AgentRequest]
) -> None:
    """Whatever stands in its place."""
    request, heard = request_for(), list[AgentNews]()
    odd(kind, request.folder / "transcript.jsonl")
    records.Transcript(request, heard.append)(AgentNews("text", {"text": "x"}))
    assert '"text": "x"' in (request.folder / "transcript.jsonl").read_text()
    assert heard
