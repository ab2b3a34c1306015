"""What of a change is product, and what says how it is checked (EVID-07): one list, nothing is parsed. Pure.

Product is a file with a source suffix that has no test folder and no test name, and that is named neither by the
command nor, two levels deep, by files without source suffix that it names.  `make`, `npm` and their like name the file
that they read; of such a file those parts count that begin with a word of the command (a target, a script).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

_SHELL = ("sh", "bash", "zsh", "fish", "ps1")
"""Source, but one that a command names is read on as what it does."""
_SOURCE = frozenset(
    (
        *("py", "pyi", "pyx", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "vue", "svelte", "go", "rs", "rb"),
        *("java", "kt", "kts", "scala", "groovy", "clj", "cljs", "c", "h", "cc", "cpp", "cxx", "hh", "hpp", "hxx", "m"),
        *("mm", "swift", "cs", "fs", "vb", "php", "pl", "pm", "lua", "r", "jl", "hs", "ml", "mli", "ex", "exs", "erl"),
        *("dart", "zig", "nim", "d", "lean", "sql", "proto", "graphql", "html", "css", "scss", "sass", "less", "asm"),
        *("s", "cu", "f90", "sol", "tf", *_SHELL),
    )
)
_TEST_FOLDER = re.compile(
    r"tests?|specs?|testing|test_?data|fixtures|e2e|cypress|snapshots|goldens?|__(tests|mocks|snapshots)__",
    re.IGNORECASE,
)
_TEST_NAME = re.compile(
    r"(conftest|noxfile|sitecustomize|usercustomize|setup|tests?|run_?tests)\.py|test[_-].*|.*[_-]tests?\.\w+|.*_spec\.rb"
    r"|.*\.(test|spec|cy|e2e|stories)\.\w+|([A-Z]\w*(Tests?|TestCase|Spec|IT)|Test[A-Z]\w*)\.(java|kt|scala|groovy|cs|php|swift)"
    r"|(jest|vitest|vite|karma|mocha|ava|nyc|eslint|playwright|cypress|wdio|webpack|babel)\.(config|conf|setup)\.[cm]?[jt]s"
    r"|(build|settings)\.gradle\.kts|test_helper\.\w+"
)
_READS = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), ("package.json",)),
    "just": ("justfile", "Justfile"),
    "tox": ("tox.ini",),
}
_WHOLE = ("tox.ini",)
"""Its parts have no names that stand in a command."""
_WORD = re.compile(r"[^\s\"'`;&|()<>{}\[\]=,:$*?!@\\]+")
_STARTED = re.compile(r"(?:^|[\s/;&|(])(?:ba|da|z|k)?sh[ \t]+([\w./-]+)")
_MODULE = re.compile(r"-m[ \t]+([\w.]+)")
_UPWARD = re.compile(r"(\.{0,2}/)*")
_LEVELS = 2
_MOST = 200_000
"""Characters of one file that are read for names."""

Read = Callable[[str], str | None]
"""A file's text, by its path from the top; None where there is none."""


def products(paths: Iterable[str], command: str, cwd: str, read: Read) -> set[str]:
    """The paths that are product for this command, which runs in the folder `cwd` (from the top)."""
    named = names(command, cwd, read)
    return {path for path in paths if is_product(path, named)}


def is_product(path: str, named: Iterable[str] = ()) -> bool:
    """Whether a file is product, where these are what a check names (see `names`)."""
    *folders, name = path.split("/")
    if not _is_source(name) or _TEST_NAME.fullmatch(name) or any(map(_TEST_FOLDER.fullmatch, folders)):
        return False
    return not any(path == one or path.endswith(f"/{one}") for one in named)


def names(command: str, cwd: str, read: Read) -> set[str]:
    """The source files that a command names, itself and by what it names: paths, or their ends."""
    found: set[str] = set()
    seen: set[str] = set()
    folders = [cwd, *(posixpath.join(cwd, word) for word in _words(command))]  # `cd web && npm test`, `make -C lib`
    texts = [(command, folders)]
    for level in range(_LEVELS + 1):
        for text, _ in texts:
            found |= {_UPWARD.sub("", word, count=1) for word in _words(text) if _is_source(word)}
            for module in _MODULE.findall(text):
                found |= {f"{module.replace('.', '/')}{behind}" for behind in (".py", "/__main__.py")}
        leads = chain.from_iterable(_leads(*each) for each in texts if level < _LEVELS)
        texts = [
            (text, [posixpath.dirname(path), cwd]) for path, words in leads if (text := _text(path, words, read, seen))
        ]
    return found


def _leads(text: str, folders: Sequence[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """The files that a text names and that can name more; of some only what begins with these words."""
    words = _words(text)
    started = set(_STARTED.findall(text))
    for word in words:
        only = frozenset(words)
        files = _READS.get(posixpath.basename(word), ())
        if not files and (word in started or "/" in word) and (not _is_source(word) or _suffix(word) in _SHELL):
            files, only = (word,), frozenset()
        for name in files:
            yield from ((posixpath.join(folder, name), frozenset() if name in _WHOLE else only) for folder in folders)


def _text(path: str, words: frozenset[str], read: Read, seen: set[str]) -> str:
    path = posixpath.normpath(path)
    if path in seen or path.startswith(("/", "../")) or path == "." or (text := read(path)) is None:
        return ""
    seen.add(path)
    return _parts(text[:_MOST], set(words)) if words else text[:_MOST]


def _parts(text: str, words: set[str]) -> str:
    """The lines that begin with one of these words, what is indented below them, and what these name in turn."""
    lines = text.replace("\\\n", " ").split("\n")
    taken: set[int] = set()
    for _ in range(len(words) + 20):  # from target to target
        before, deep = len(taken), -1
        for number, line in enumerate(lines):
            indent = len(line) - len(line.lstrip())
            inside = 0 <= deep < indent
            if line.strip() and not inside:
                head, sign, _ = re.split("([:=]|$)", line, maxsplit=1)
                inside = sign != "" and not words.isdisjoint(_words(head))
                deep = indent if inside else -1
            if inside and number not in taken:
                taken.add(number)
                words = words | set(_words(line))
        if len(taken) == before:
            break
    return "\n".join(lines[number] for number in sorted(taken))


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(_WORD.findall(text)))


def _suffix(path: str) -> str:
    return posixpath.splitext(path)[1].removeprefix(".").lower()


def _is_source(path: str) -> bool:
    return _suffix(path) in _SOURCE
