"""The verbs for the user's repository: questions that are recorded, and effects that happen once.

A question is no effect: the run does not come into being by it, and after a crash it is simply asked again.  An effect
journals its intent, then happens, then is recorded; where a process died in between, the repository itself says whether
it has happened (EN-10, EN-11).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from interlock.engine.model import plain
from interlock.engine.recording import Recording
from interlock.workspace import Checkout, Commit, Done, Effect, RepositoryStanding, Stash, Unstash, Where


class RepositoryVerbs:
    """What can be asked of the user's repository, and done to it; `interlock.workspace.Repository` says what each
    means."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    # -- questions

    async def _ask(self, question: str, *about: Any) -> Any:
        slot = self._recording.recall(question, {"about": plain(about)})
        if not slot.recorded:
            slot.settle("repository", plain(await getattr(self._recording.world.repository, question)(*about)))
        return slot.value()

    async def where(self) -> Where:
        return Where(**await self._ask("where"))

    async def standing(self, besides: Sequence[str] = ()) -> RepositoryStanding:
        found = await self._ask("standing", besides)
        return RepositoryStanding(**{**found, "busy": tuple(found["busy"]), "changed": tuple(found["changed"])})

    async def changed(self) -> list[str]:
        return list(await self._ask("changed"))

    async def commit_of(self, name: str) -> str:
        return str(await self._ask("commit_of", name))

    async def contains(self, branch: str, commit: str) -> bool:
        return bool(await self._ask("contains", branch, commit))

    async def is_on_a_remote(self, branch: str) -> bool:
        return bool(await self._ask("is_on_a_remote", branch))

    async def default_branch(self) -> str:
        return str(await self._ask("default_branch"))

    async def is_a_name(self, branch: str) -> bool:
        return bool(await self._ask("is_a_name", branch))

    async def submodules(self) -> list[str]:
        return list(await self._ask("submodules"))

    async def tracked(self, paths: Sequence[str]) -> list[str]:
        return list(await self._ask("tracked", paths))

    async def listing(self, without: Sequence[str] = ()) -> str:
        return str(await self._ask("listing", without))

    async def search(self, terms: Sequence[str], *, files: int, largest: int, most: int) -> list[str]:
        return list(await self._ask("search", terms, files, largest, most))

    async def committed(self, path: str) -> str:
        return str(await self._ask("committed", path))

    async def changes_since(self, commit: str) -> list[tuple[str, str]]:
        return [(letter, path) for letter, path in await self._ask("changes_since", commit)]

    async def hooks(self) -> str:
        return str(await self._ask("hooks"))

    async def stashes(self, note: str) -> list[str]:
        return list(await self._ask("stashes", note))

    # -- effects

    async def checkout(self, branch: str, *, create: bool = False) -> Done:
        return await self._do("checkout", Checkout(branch, create))

    async def stash(self, paths: Sequence[str], note: str) -> Done:
        return await self._do("stash", Stash(tuple(paths), note))

    async def unstash(self, note: str) -> Done:
        return await self._do("unstash", Unstash(note))

    async def commit(self, paths: Sequence[str], message: str, texts: Mapping[str, str] | None = None) -> Done:
        return await self._do("commit", Commit(tuple(paths), message, texts or {}))

    async def _do(self, name: str, effect: Effect) -> Done:
        run = self._recording
        slot = run.recall(name, plain(effect))
        if not slot.recorded:
            mark = f"{run.identity.run_id}/{slot.key}"
            run.stop_here(slot.key, name, lambda: effect)
            run.materialize()
            found = None
            if slot.intent("repository.intent"):
                run.world.end_leftovers(f"{mark}:", None, None)
                found = await run.world.repository.done(effect, mark)
            else:
                slot.append("repository.intent", {"effect": name})
            if found is None:
                run.effect()
                found = await run.world.repository.do(effect, mark)
            told = replace(found, problem=run.world.redact(found.problem))
            slot.settle("repository", plain(told), facts={"effect": name})
        done = Done(**slot.value())
        if done.warning:
            run.note("warning", text=done.warning)
        return done
