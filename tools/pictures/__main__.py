"""python -m tools.pictures [FOLDER]: makes real runs, shows their pages to Chromium, and keeps what it sees.

Without a folder, the few pictures of docs/images are made anew. With one, every page at every width, in dark and light,
goes there: for looking at them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from interlock.engine.folder import KnownRun, known_runs
from interlock.engine.glances import running
from interlock.pages import (
    FieldKind,
    Foresight,
    FormField,
    GateView,
    PageView,
    Shelf,
    StartForm,
    StartView,
    Visit,
    board_view,
    dispatch_view,
    gate_view,
    listed,
    one_file_of,
    render,
    run_view,
    static_file,
)
from interlock.telemetry import waiting_gate
from tests.browser import launched, tab
from tools.pictures import scenes

IMAGES = Path(__file__).parents[2] / "docs" / "images"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
VISIT = Visit("ann", "token", workspaces=("purse", "ledger"))
PHONE = 390
SIZES = tuple((width, dark) for width in (1440, 1024, PHONE) for dark in (False, True))
HEIGHT = 900


@dataclass(frozen=True)
class Shot:
    """A picture that is kept: of which page, how wide, how much of it."""

    page: str
    width: int
    dark: bool
    height: int = HEIGHT

    @property
    def name(self) -> str:
        return f"{self.page}-{'phone' if self.width == PHONE else 'wide'}{'-dark' if self.dark else ''}.png"


KEPT = (
    Shot("board", 1440, dark=False, height=640),
    Shot("run", 1440, dark=False, height=1000),
    Shot("many", 1440, dark=True, height=1000),
    Shot("dispatch", 1440, dark=True, height=1000),
    Shot("gate", PHONE, dark=False),
    Shot("work", PHONE, dark=True),
)


def pages(base: Path) -> Iterator[tuple[str, str]]:
    """Name and HTML of each page, of runs made in this folder."""
    purse, ledger = (scenes.prepare(base / name) for name in ("purse", "ledger"))
    troubled, many = scenes.had_trouble(purse), scenes.sixty_tasks(ledger)
    well, waiting = scenes.went_well(purse), scenes.waits(ledger)
    first, second = Shelf.of("purse", purse), Shelf.of("ledger", ledger)
    with scenes.at_work(purse) as working:
        _heard(working)
        yield "work", show(run_view(first, working, "process 1"))
        rows = [listed(shelf, one, running(shelf.root).get(one.identity.run_id)) for shelf in (first, second)
                for one in known_runs(shelf.root)]  # fmt: skip
        yield "board", show(board_view(rows))
        said = dispatch_view(first, working, "round-1/work/builder#1", holder="process 1")
        yield "transcript", show(said)
    view = run_view(first, well, None)
    yield "run", show(view)
    yield "trouble", show(run_view(first, troubled, None))
    yield "many", show(run_view(second, many, None))
    key = next(one.key for one in view.dispatches if one.retries)
    yield "dispatch", show(dispatch_view(first, well, key))
    yield "waits", show(run_view(second, waiting, None))
    yield "gate", show(_gate(second, waiting))
    yield "start", show(START)
    yield "report", one_file_of(first, well)


def show(view: PageView) -> str:
    return render(view, VISIT).replace(" data-stream=", " data-without-stream=")  # nothing is live in a picture


def _gate(shelf: Shelf, known: KnownRun) -> GateView:
    waiting = waiting_gate(known.folder.lines())
    assert waiting is not None
    return gate_view(shelf, known, waiting)


def _heard(known: KnownRun) -> None:
    """Wait until the agent has said what it says."""
    for _ in range(600):
        if any(b"tests.test_entries" in path.read_bytes() for path in known.folder.path.rglob("transcript.jsonl")):
            return
        time.sleep(0.1)
    raise TimeoutError("the agent said nothing")


START = StartView(
    "purse",
    (),
    StartForm(
        "task",
        "One agent does it, checks run, a reviewer judges; what fails goes back, three rounds at most.",
        (
            FormField("request", "Request", "What is to be done.", FieldKind.TEXT, scenes.WORKED_ON, required=True),
            FormField("check", "Checks", "Commands that must pass.", FieldKind.LIST, "make test", main=False),
            FormField("rounds", "Rounds", "Rounds of work, at most.", FieldKind.NUMBER, "3", main=False),
            FormField("review", "A reviewer judges the change", "", FieldKind.FLAG, "true", main=False),
        ),
        plan=Foresight(
            (
                ("Stages", ("work -> checks -> review",)),
                ("Calls of agents", ("2 to 6, as its rehearsal counted",)),
            )
        ),
    ),
)


@contextmanager
def served(found: dict[str, str]) -> Iterator[str]:
    """The pages at an address, under the policy that the server has."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urlsplit(self.path).path.strip("/")
            file = static_file(name.removeprefix("static/"))
            body = file.content if file else found.get(name, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("content-type", file.media_type if file else "text/html; charset=utf-8")
            if not name.startswith("report"):
                self.send_header("content-security-policy", POLICY)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        found = dict(pages(Path(folder)))
    shots = KEPT if not arguments else [Shot(page, width, dark) for page in found for width, dark in SIZES]
    target = Path(arguments[0]) if arguments else IMAGES
    target.mkdir(parents=True, exist_ok=True)
    with served(found) as address, launched() as browser:
        for shot in shots:
            with tab(browser, width=shot.width, height=shot.height, dark=shot.dark) as page:
                page.goto(f"{address}/{shot.page}")
                wide = page.evaluate("document.documentElement.scrollWidth")
                name = (
                    shot.name if not arguments else f"{shot.page}-{shot.width}-{'dark' if shot.dark else 'light'}.png"
                )
                page.screenshot(path=target / name, full_page=bool(arguments))
                print(f"{target / name}: {wide} wide")
    if not arguments:
        _compress([target / shot.name for shot in shots])
    return 0


def _compress(images: list[Path]) -> None:
    """Few colours are enough for pages; where the program is not there, they stay as they are."""
    try:
        subprocess.run(["pngquant", "--force", "--ext", ".png", "--speed", "1", *map(str, images)], check=False)
    except FileNotFoundError:
        print("pngquant is not installed: the pictures are larger than they need to be")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
