"""What a command that a person named does: by itself, and through the make targets and package scripts that it names.

Theory of operation.  A command is a line for a shell, and so is each line of a recipe.  `read_recipes` follows them
from one to the next, by names only: nothing is run and no variable is looked up.  What a script starts in turn is not
followed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
"""In the order in which make looks for them."""
PACKAGE = "package.json"

_SHELL = re.compile(r"(ba|da|k|z)?sh")
_INTERPRETER = re.compile(r"python[\d.]*|node|ruby|perl|php|bun|deno")
_SHELL_INLINE, _INLINE = re.compile("-[a-z]*c"), re.compile("-[a-z]*[cemr]")
"""The option after which an interpreter gets a program, or a module, and no script."""
_LOOKS = ("--check", "--test", "--lint", "--syntax-check", "-n", "-l")
"""Options with which an interpreter looks at files, which are what is checked and not what checks."""
_MAKE = ("make", "gmake")
_PACKAGERS = ("npm", "pnpm", "yarn", "bun")
_RUN = ("run", "run-script")
_OF_THEIR_OWN = {"t": "test", "tst": "test", "test": "test", "start": "start"}
"""Scripts that a packager runs without the word for it."""
_BETWEEN = re.compile(r"[;&|()<>\n]+")
_CARRIER = re.compile(r"exec|env|time|timeout|nice|nohup|command|uv|poetry|pipenv|run|\w+=.*")
"""What may stand before the program that a command starts."""
_CARRIED = re.compile(r"-.*|\d+[smhd]?")
"""An option of such a word, or the time that it is given."""
_ELSEWHERE_OPTIONS = re.compile(r"-[CfwI].*|--(directory|file|makefile|prefix|workspace|cwd|dir)(=.*)?")
"""Options with which what stands behind a name is in another folder or file."""
_OPTION = re.compile(r"-.*|\w+=.*|\d+")
_VARIABLE = re.compile(r"\$[({](\w+)[)}]")
_RULE = re.compile(r"([^\s:=][^:=]*)::?(?!=)([^=;]*)(?:;(.*))?")
_ELSEWHERE = re.compile(r"^-?include\b|%", re.MULTILINE)
"""What a makefile has whose targets need not stand in it."""

_Lines = Mapping[str, Sequence[str]]
"""The lines behind each target, or script, of a file."""


@dataclass(frozen=True)
class Recipe:
    """What a command does, as far as names tell."""

    starts: frozenset[str]
    """The files that it starts: named with their folder, or handed to an interpreter."""
    known: bool
    """Whether something stands behind every target and script that it names itself."""


# A command is looked at in every run that has it, and a rehearsal is thousands of them.
@lru_cache(maxsize=256)
def recipe_files(command: str) -> tuple[str, ...]:
    """The files in which the recipes of a command can stand."""
    makers = (*_MAKE, *_PACKAGERS)
    for words in _simple(command):
        if _program(words) in makers:
            return (*MAKEFILES, PACKAGE)
        if found := next(filter(None, map(recipe_files, _inline(words))), ()):
            return found
    return ()


def read_recipes(command: str, texts: Mapping[str, str]) -> Recipe:
    """What a command does.

    Args:
        texts: those of its recipe files that there are, by name.
    """
    return _read(command, next((texts[name] for name in MAKEFILES if name in texts), ""), texts.get(PACKAGE, ""))


@lru_cache(maxsize=256)
def _read(command: str, makefile: str, package: str) -> Recipe:
    targets, scripts = _targets(makefile), _scripts(package)
    starts: set[str] = set()
    seen: set[str] = set()
    waiting = [command]
    while waiting:
        if (line := waiting.pop()) in seen:
            continue
        seen.add(line)
        for words in _simple(line):
            starts.update(path.removeprefix("./") for path in _file(words))
            waiting += _inline(words)
            waiting += [behind for name in _goals(words, targets) for behind in targets.get(name, ())]
            waiting += [behind for name in _asked(words, scripts) for behind in scripts.get(name, ())]
    elsewhere = _ELSEWHERE.search(makefile) is not None
    known = all(
        (elsewhere or targets.keys() >= set(_goals(words, targets))) and scripts.keys() >= set(_asked(words, scripts))
        for words in _simple(command)
    )
    return Recipe(frozenset(starts), known)


def _simple(line: str) -> Iterator[list[str]]:
    """The simple commands of a line, as words that begin with the program."""
    plain = _VARIABLE.sub(lambda found: found[1].lower(), line)
    words: list[str] = []
    for word in (*_words(plain), ";"):
        if not _BETWEEN.fullmatch(word):
            words.append(word)
            continue
        carried = False
        while words and (_CARRIER.fullmatch(words[0]) or (carried and _CARRIED.fullmatch(words[0]))):
            carried = True
            words.pop(0)
        if words:
            yield words
        words = []


def _words(line: str) -> list[str]:
    """The words of a line, and what stands between commands; quotes that nobody closes are letters."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return re.sub(r"([;&|()<>\n]+)", r" ; ", line).replace('"', " ").replace("'", " ").split()


def _program(words: Sequence[str]) -> str:
    return words[0].rpartition("/")[2]


def _file(words: Sequence[str]) -> Sequence[str]:
    """The file that a simple command starts, or none."""
    program = _program(words)
    shell = _SHELL.fullmatch(program)
    if shell or _INTERPRETER.fullmatch(program):
        inline = _SHELL_INLINE if shell else _INLINE
        if any(inline.fullmatch(word) or word in _LOOKS for word in words[1:]):
            return ()
        return [word for word in words[1:] if not word.startswith("-") and word not in _RUN][:1]
    return words[:1] if "/" in words[0] else ()


def _inline(words: Sequence[str]) -> list[str]:
    """The line that a shell is handed."""
    if not _SHELL.fullmatch(_program(words)) or not any(map(_SHELL_INLINE.fullmatch, words[1:])):
        return []
    return [" ".join(word for word in words[1:] if not word.startswith("-"))]


def _goals(words: Sequence[str], targets: _Lines) -> Sequence[str]:
    """The targets that make is asked for; the first one where none is named."""
    if _program(words) not in _MAKE or any(map(_ELSEWHERE_OPTIONS.fullmatch, words)):
        return ()
    named = [word for word in words[1:] if not _OPTION.fullmatch(word)]
    return named or [name for name in targets if not name.startswith(".")][:1] or [""]


def _asked(words: Sequence[str], scripts: _Lines) -> Sequence[str]:
    """The script that a packager is asked for; none where it is asked for something else."""
    if _program(words) not in _PACKAGERS or any(map(_ELSEWHERE_OPTIONS.fullmatch, words)):
        return ()
    names = [word for word in words[1:] if not word.startswith("-")]
    for before, name in pairwise(names):
        if before in _RUN:
            return [name]
    own = [_OF_THEIR_OWN[name] for name in names[:1] if name in _OF_THEIR_OWN]
    return own or [name for name in names if name in scripts][:1]


def _targets(text: str) -> dict[str, list[str]]:
    """Each target of a makefile, and the lines behind it; what it needs is made as if somebody asked for it."""
    found: dict[str, list[str]] = {}
    here: list[list[str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("\t"):
            for lines in here:
                lines.append(line.strip().lstrip("@+-"))
        elif rule := _RULE.fullmatch(line.partition("#")[0]):
            here = [found.setdefault(name, []) for name in rule[1].split()]
            for lines in here:
                lines += [*(f"make {name}" for name in rule[2].split()), *((rule[3],) if rule[3] else ())]
    return found


def _scripts(text: str) -> dict[str, list[str]]:
    """Each script of a package, with what belongs before and behind it; none where it cannot be read."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    said = data.get("scripts") if isinstance(data, dict) else None
    lines = {name: line for name, line in said.items() if isinstance(line, str)} if isinstance(said, dict) else {}
    return {name: [lines[one] for one in (f"pre{name}", name, f"post{name}") if one in lines] for name in lines}
