"""What of the work of all rounds stands: the files that differ now, and what any round did to tests and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from interlock.engine import Checks, Report, Run, changed_since


async def standing_files(run: Run, checks: Checks, works: Sequence[Report]) -> tuple[str, ...]:
    """What all rounds together changed: a file that is as it was before the first of them is not among it."""
    now = set((await changed_since(run, checks.baseline["tree"])).paths)
    return tuple(path for path in files_of(works) if path in now)


def weakened_still(works: Sequence[Report], files: Sequence[str]) -> Iterator[str]:
    """What any round did to tests and checks, as long as the file in question is not as it was."""
    for work in works:
        for text in work.weakened:
            named = [path for path in work.changes if path in text]
            if not named or any(path in files for path in named):
                yield f"{work.member} {text}"


def unweighed(works: Sequence[Report], files: Sequence[str]) -> list[str]:
    """What only a reviewer could weigh, where there is none: that nothing needs changing, and weakened tests."""
    unchanged = works[-1].noticed if works[-1].no_change else ()
    return list(dict.fromkeys((*unchanged, *weakened_still(works, files))))


def files_of(works: Sequence[Report]) -> tuple[str, ...]:
    """What was changed in all rounds whose work was taken over."""
    return tuple(dict.fromkeys(path for work in works for path in work.changes))
