"""What of a change is product, and what says how it is checked (EVID-07): one list, nothing is parsed. Pure.

Product is a file with a source suffix that has no test folder and no test name, and that is named neither by the
command nor, two levels deep, by files without source suffix that it names.  `make`, `npm` and their like name the file
that they read, and of it the parts that have a word of the command (a target, a script) at the beginning of a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

SOURCE = frozenset(
    f".{suffix}"
    for suffix in (
        *("py", "pyi", "pyx", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "go", "rs", "rb"),
        *("java", "kt", "kts", "scala", "groovy", "clj", "cljs", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m"),
        *("mm", "swift", "cs", "fs", "vb", "php", "pl", "pm", "lua", "r", "jl", "hs", "ml", "mli", "ex", "exs", "erl"),
        *("dart", "zig", "nim", "d", "lean", "sql", "proto", "graphql", "html", "css", "scss", "sass", "less", "sh"),
        *("bash", "zsh", "fish", "ps1", "asm", "s", "cu", "f90", "sol", "wat", "tf"),
    )
)
_SHELL = frozenset({".sh", ".bash", ".zsh", ".fish", ".ps1"})
"""Source, but one that a command names is read as what it does."""
_TEST_FOLDERS = frozenset(
    ["test", "tests", "spec", "specs", "__tests__", "testing", "testdata", "test_data", "__snapshots__", "snapshots", "golden", "goldens", "fixtures", "__mocks__", "e2e", "cypress", "features"]
)
_TEST_NAME = re.compile(
    r"(conftest|noxfile|sitecustomize|usercustomize|test|tests|runtests|run_tests)\.py|test[_-].*|.*[_-]tests?\.\w+"
    r"|.*_spec\.\w+|.*\.(test|spec|cy|e2e|snap|stories)\.\w+|.*(Test|Tests|TestCase|Spec|IT)\.\w+|Test[A-Z]\w*\.\w+"
    r"|.*\.(config|conf|setup|workspace)\.[cm]?[jt]s|test_helper\.\w+|build\.gradle\.kts|settings\.gradle\.kts|setup\.py"
)
_READS = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun", "npx"), ("package.json",)),
    **dict.fromkeys(("tox", "pytest"), ("tox.ini",)),
    **{"just": ("justfile", "Justfile"), "task": ("Taskfile.yml", "Taskfile.yaml"), "rake": ("Rakefile",)},
}
_WORD = re.compile(r"[^\s\"'`;&|()<>{}\[\]=,:$*?!\\]+")
_MODULE = re.compile(r"-m[ \t]+([\w.]+)")
_LEVELS = 2
_MOST = 200_000
"""Characters of one file that are read for names."""


def products(paths: Iterable[str], command: str, cwd: str, read: Callable[[str], str | None]) -> set[str]:
    """The paths that are product for this command.

    Args:
        cwd: the folder, from the top, in which the command runs.
        read: a file's text, by its path from the top; None where there is none.
    """
    named = names(command, cwd, read)
    return {path for path in paths if is_product(path, named)}


def is_product(path: str, named: Iterable[str]) -> bool:
    """Whether a file is product, where these names are what a check names (see `names`)."""
    place = PurePosixPath(path)
    if place.suffix.lower() not in SOURCE or _TEST_NAME.fullmatch(place.name):
        return False
    if not _TEST_FOLDERS.isdisjoint(part.lower() for part in place.parts[:-1]):
        return False
    return not any(path == name or path.endswith(f"/{name}") for name in named)


def names(command: str, cwd: str, read: Callable[[str], str | None]) -> set[str]:
    """The files that a command names, itself and by the files without source suffix that it names, as path or end."""
    found: set[str] = set()
    texts = [command]
    seen: set[str] = set()
    words: set[str] = set()
    for level in range(_LEVELS + 1):
        new = [word for text in texts for word in _words(text)]
        words |= {word for word in new if re.fullmatch(r"[\w.-]+", word)}
        found |= {path for word in new if ((path := _path(word)) and "." in path.rpartition("/")[2]) or "/" in word}
        texts = []
        for word in new if level < _LEVELS else ():
            known = _READS.get(PurePosixPath(word).name)
            for name in known or ((word,) if PurePosixPath(word).suffix not in SOURCE - _SHELL else ()):
                for path in dict.fromkeys((_path(f"{cwd}/{name}"), _path(name))):
                    if path and path not in seen and (text := read(path)) is not None:
                        seen.add(path)
                        texts.append("\n".join(_parts(text[:_MOST], words)) if known else text[:_MOST])
    return {_path(name) or name for name in found}
