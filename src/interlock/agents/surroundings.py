"""What a program needs to be started where the rest of the machine is hidden: itself, and what it is made of."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

_SYSTEM: Final = frozenset(
    ["bin", "dev", "etc", "lib", "lib32", "lib64", "nix", "opt", "proc", "sbin", "snap", "sys", "usr"]
)
"""Folders at the top that are never hidden."""
_CERTIFICATES: Final = (
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
)
_DEEPEST: Final = 3
"""Scripts whose interpreter is a script."""


def home_of(env: Mapping[str, str]) -> Path | None:
    """The home folder of a program with this environment."""
    home = Path(env.get("HOME") or "~").expanduser()
    return home if home.is_absolute() else None


def program_places(program: str, env: Mapping[str, str]) -> tuple[Path, ...]:
    """The program on PATH, with its package and its interpreter, and the certificates that it is told to trust."""
    found = shutil.which(program, path=env.get("PATH"))
    parts = _parts(Path(found).absolute(), env, _DEEPEST) if found is not None else ()
    return beyond_system((*parts, *named_places(env, _CERTIFICATES)))


def real_start(program: str, env: Mapping[str, str]) -> str:
    """How the program is called where only its package is to be seen: by its real place, if that is a Node package's.

    Such a script finds its parts beside itself; under the name of a link to it, it would find nothing.
    """
    found = shutil.which(program, path=env.get("PATH"))
    real = Path(found).resolve() if found is not None else None
    return str(real) if real is not None and _packages(real) is not None else program


def beyond_system(places: Iterable[Path]) -> tuple[Path, ...]:
    """Those that exist and that are not part of the system, each once."""
    beyond = (place for place in places if place.is_absolute() and _SYSTEM.isdisjoint(place.parts[1:2]))
    return tuple(dict.fromkeys(place for place in beyond if place.exists()))


def named_places(env: Mapping[str, str], variables: Iterable[str]) -> tuple[Path, ...]:
    """Files and folders that these variables name."""
    return beyond_system(Path(env[name]) for name in variables if env.get(name))


def hosts_of(urls: Iterable[str]) -> tuple[str, ...]:
    """``host`` or ``host:port`` of each of these that is an address of the web."""
    return tuple(dict.fromkeys(host for url in urls if (host := _host(url))))


def _host(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        name, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https", "ws", "wss"):
        return ""
    shown = f"[{name}]" if ":" in name else name
    return f"{shown}:{port}" if shown and port else shown


def _parts(place: Path, env: Mapping[str, str], depth: int) -> Iterator[Path]:
    real = place.resolve()
    if (packages := _packages(real)) is not None:
        yield packages
    else:
        yield from (_prefix(one, env) or one for one in (place, real))
    interpreter = _interpreter(real, env)
    if interpreter is not None and depth:
        yield from _parts(interpreter, env, depth - 1)


def _packages(real: Path) -> Path | None:
    """The outermost ``node_modules`` around a file: what a package needs lies beside it."""
    if "node_modules" not in real.parts:
        return None
    return Path(*real.parts[: real.parts.index("node_modules") + 1])


def _prefix(program: Path, env: Mapping[str, str]) -> Path | None:
    """The folder of an interpreter with its library, or of a virtual environment, that a program belongs to."""
    prefix, home = program.parent.parent, home_of(env)
    too_much = prefix == Path("/") or (home is not None and (home / ".local").is_relative_to(prefix))
    if program.parent.name != "bin" or too_much or not beyond_system((prefix,)):
        return None
    library = prefix / "lib"
    whole = (prefix / "pyvenv.cfg").exists() or (library / "node_modules").exists() or any(library.glob("python3*"))
    return prefix if whole else None


def _interpreter(script: Path, env: Mapping[str, str]) -> Path | None:
    """What the first line of a script starts."""
    try:
        with script.open("rb") as file:
            line = file.readline(512).decode(errors="replace")
    except OSError:
        return None
    words = line[2:].split() if line.startswith("#!") else []
    if not words:
        return None
    name = words[0]
    if Path(name).name == "env":
        name = next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")
    found = shutil.which(name, path=env.get("PATH")) if name else None
    return Path(found).absolute() if found is not None else None
