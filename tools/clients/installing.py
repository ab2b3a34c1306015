"""Installing a pinned client from the npm registry that the user's npm is set up for."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from interlock.errors import InterlockError
from tools.clients.catalogue import Client, cache_folder

NODE_NEEDED = 20
PATIENCE_S = 900


class InstallFailed(InterlockError):
    """A client could not be installed."""


def install(client: Client, cache: Path | None = None) -> Path:
    """The client's program, installed if it was not.

    Whole or not at all: it is made beside its place and then renamed.  Of two that install at once, one waits and
    finds it done.

    Raises:
        InstallFailed: node or npm is missing or too old, or npm did not succeed.
    """
    cache = cache or cache_folder()
    if client.installed(cache):
        return client.path(cache)
    from filelock import FileLock  # only here: a call that has nothing to do costs nothing

    npm = _npm()
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f".{client.folder}.lock"):
        if not client.installed(cache):
            _install(client, cache, npm)
    return client.path(cache)


def _install(client: Client, cache: Path, npm: str) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{client.folder}.", dir=cache) as temporary:
        making = Path(temporary) / client.folder
        making.mkdir()
        command = [npm, "install", "--prefix", str(making), "--no-audit", "--no-fund", "--loglevel=error", client.spec]
        try:
            done = subprocess.run(
                command,
                cwd=making,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PATIENCE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _failed(client, f"npm was not done after {PATIENCE_S} s") from error
        if done.returncode != 0:
            raise _failed(client, done.stderr.strip() or f"npm ended with {done.returncode}")
        if not client.path(making.parent).exists():
            raise _failed(client, f"the package has no program {client.program!r}")
        place = cache / client.folder
        if place.exists():  # without its program: left by something else
            shutil.rmtree(place)
        making.rename(place)


def _failed(client: Client, found: str) -> InstallFailed:
    return InstallFailed(
        f"{client.spec} could not be installed",
        found=found,
        remedy="npm needs its registry: check the network and `npm config get registry`",
    )


def _npm() -> str:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing = " and ".join(name for name, found in (("node", node), ("npm", npm)) if found is None)
        raise InstallFailed(
            f"{missing} is missing: the real clients are Node programs",
            remedy=f"install Node {NODE_NEEDED} or later with npm",
        )
    said = subprocess.run([node, "--version"], check=False, capture_output=True, text=True).stdout.strip()
    major = said.removeprefix("v").partition(".")[0]
    if not major.isdigit() or int(major) < NODE_NEEDED:
        raise InstallFailed(
            "node is too old for the real clients", expected=f"{NODE_NEEDED} or later", found=said, where=node
        )
    return npm
