"""The playbooks of a workspace: what there is, and each of them when it is asked for, once it may be used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING

from interlock import playbooks
from interlock.engine.definition import Nothing, Playbook, Provenance
from interlock.engine.identity import Identity
from interlock.engine.keys import sha256
from interlock.errors import ConfigInvalid, InterlockError
from interlock.finding import loading
from interlock.finding.bundle import MOST_FILES, is_no_part, read
from interlock.finding.places import FoundPlaybook, Origin, Whereabouts
from interlock.finding.reading import Asks, told
from interlock.finding.trust import Consent, TrustRecords, nobody

if TYPE_CHECKING:
    from interlock.settings import SettingsTable


@dataclass(frozen=True)
class Offered:
    """A playbook as a list shows it."""

    found: FoundPlaybook
    purpose: str = ""
    inputs: tuple[Asks, ...] | None = None
    """None: they are not known before it is loaded."""
    distrust: str = ""
    """Why a person has to trust it before it is used: it is new, or it changed."""
    problem: InterlockError | None = None
    """Why it cannot be used."""
    hides: tuple[FoundPlaybook, ...] = ()
    """Others of its name, which do not count."""

    @property
    def trusted(self) -> bool:
        return not self.distrust

    @property
    def why_not(self) -> str:
        """Why it cannot be started as it is now; empty: it can."""
        return self.distrust or ("" if self.problem is None else self.problem.what)


class Library:
    """All playbooks that can be asked for in a workspace.

    Args:
        given: playbooks that the program itself brings along; they come before all others.
        consent: asks a person whether code of the workspace may be used.
        anywhere: what the user trusts at another place may be used here too.
    """

    def __init__(
        self,
        root: Path,
        environ: Mapping[str, str],
        *,
        consent: Consent = nobody,
        given: tuple[Playbook, ...] = (),
        anywhere: bool = False,
    ) -> None:
        self.root = root
        self.places = Whereabouts(root)
        self.trust = TrustRecords(root, environ, anywhere)
        self.consent = consent
        self._loaded: dict[tuple[Origin, str, str], Playbook] = {}
        self._given = {one.name: one for one in given}

    # -- looking: nothing of a workspace is executed

    def names(self) -> list[str]:
        """Those that can be asked for by name, in the order in which they count."""
        return list(dict.fromkeys(one.name for one in self.places))

    def listing(self) -> list[Offered]:
        """Every playbook by name, with what it says of itself; the code of a workspace is read, never executed."""
        first: dict[str, list[FoundPlaybook]] = {}
        for found in self.places:
            first.setdefault(found.name, []).append(found)
        return [replace(self._listed(found), hides=tuple(hidden)) for found, *hidden in first.values()]

    def _listed(self, found: FoundPlaybook) -> Offered:
        try:
            if found.path is None:
                playbook = self._load(found, nobody)
                asked = (*playbook.questions(playbook.inputs), *playbook.questions(playbook.flags))
                return Offered(found, playbook.summary, tuple(map(Asks.of, asked)))
            bundle = read(found.path)
            distrust = self.trust.doubt(found.name, bundle)
            about = next((one for one in told(bundle, found.place) if one.name == found.name), None)
            return Offered(found, about.purpose if about else "", about.inputs if about else None, distrust)
        except InterlockError as problem:
            return Offered(found, distrust=problem.what if found.origin.needs_trust else "", problem=problem)

    def find(self, word: str, here: Path | None = None) -> FoundPlaybook:
        """The playbook that somebody means, seen from a folder."""
        return self.places.find(word, here or self.root)

    def namesakes(self, word: str) -> list[str]:
        """What is to be known of a name that is taken twice; nothing for any other."""
        first, *hidden = [one for one in self.places if one.name == word] or [self.find(word)]
        return [f"{word} is taken twice: {first} counts, {one} does not" for one in hidden]

    def has(self, identity: Identity) -> bool:
        """Whether the playbook of a run is here; whether it may be used is another question."""
        try:
            return identity.playbook in self._given or self._of_run(identity) is not None
        except InterlockError:
            return False

    def needs_trust(self, identity: Identity) -> str:
        """The digest of the files that somebody has to trust before a run's playbook is used; empty: none."""
        if identity.playbook in self._given:
            return ""
        found = self._of_run(identity)
        return read(found.path).digest if found.path is not None and found.origin.needs_trust else ""

    # -- loading: what may be used, once

    def load(self, word: str, here: Path | None = None) -> Playbook:
        """The playbook that somebody means; `ConfigInvalid` when there is none, or nobody trusts it."""
        return self._given.get(word) or self._load(self.find(word, here), self.consent)

    def again(self, identity: Identity, *, ask: bool = True) -> Playbook:
        """The playbook of a run, from where it came from when the run began.

        Args:
            ask: a person may be asked whether it may be used; else what is not trusted is `ConfigInvalid`.
        """
        given = self._given.get(identity.playbook)
        return given or self._load(self._of_run(identity), self.consent if ask else nobody)

    def steps_of(self, identity: Identity) -> Mapping[str, str]:
        """What people call the steps of a run's playbook; none of one that is not here any more, or not trusted."""
        try:
            return self.again(identity, ask=False).steps
        except InterlockError:
            return {}

    def documents_of(self, identity: Identity) -> tuple[str, ...]:
        """Patterns of the documents that belong to a run's playbook; none of one that is not here, or not trusted."""
        try:
            playbook = self.again(identity, ask=False)
            inputs = playbook.parse_inputs(identity.inputs)
            return (*playbook.documents(inputs), *playbook.state(inputs))
        except InterlockError:
            return ()

    def _of_run(self, identity: Identity) -> FoundPlaybook:
        match identity.source:
            case {"origin": Origin.PATH, "place": str(place)}:
                path = place.removesuffix(f":{identity.playbook}")
                return self.places.at(self.root / path, "" if path == place else identity.playbook)
            case {"origin": str(origin), "place": str(place)}:
                for found in self.places:
                    if (found.origin, found.name) == (origin, identity.playbook):
                        return found
                raise ConfigInvalid(
                    f"the playbook {identity.playbook} of run {identity.run_id} is not here any more",
                    expected=f"{origin} {place}",
                    remedy="Put it back where it was when the run began.",
                )
        return self.find(identity.playbook)  # the run began when nobody noted it

    def _load(self, found: FoundPlaybook, consent: Consent) -> Playbook:
        slot = (found.origin, found.place, found.only)
        if slot not in self._loaded:
            made = self._of_package(found) if found.path is None else self._of_workspace(found, found.path, consent)
            self._loaded[slot] = made
        return self._loaded[slot]

    def _of_workspace(self, found: FoundPlaybook, path: Path, consent: Consent) -> Playbook:
        bundle = read(path)
        self.trust.require(found.name, bundle, consent)
        where = f"{found.place}/{bundle.main}" if bundle.is_folder else found.place
        only = found.only or (found.name if found.origin is Origin.WORKSPACE and not bundle.is_folder else "")
        playbook = loading.loaded(
            bundle, only=only, where=where, find=lambda name: self._load(self.find(name), consent)
        )
        place = f"{found.place}:{playbook.name}" if found.only else found.place
        called = {
            f"{other.name}: {path}": digest
            for other in playbook.all_called
            for path, digest in (other.source.files.items() if other.source else ())
        }
        source = Provenance(found.origin, place, {**bundle.digests, **called})
        return self._named(replace(playbook, source=source), found, where)

    def _of_package(self, found: FoundPlaybook) -> Playbook:
        if found.entry is None:
            playbook = playbooks.load(found.name)
        else:
            try:
                playbook = found.entry.load()
            except InterlockError:
                raise
            except (Exception, SystemExit) as error:
                raise loading.failed(error, f"{found.place}: {found.entry.value}") from error
            if not isinstance(playbook, Playbook):
                raise ConfigInvalid(
                    f"the entry point {found.name} is no playbook",
                    where=f"{found.place}: {found.entry.value}",
                    expected="what @playbook(...) makes",
                    found=type(playbook).__name__,
                )
            playbook = self._named(loading.checked(playbook, found.place), found, f"{found.place}: {found.entry.value}")
        return replace(playbook, source=Provenance(found.origin, found.place, digests(playbook)))

    def _named(self, playbook: Playbook, found: FoundPlaybook, where: str) -> Playbook:
        if found.origin is not Origin.PATH and playbook.name != found.name:
            raise ConfigInvalid(
                f"what is found as {found.name} calls itself {playbook.name}",
                where=where,
                expected=found.name,
                found=playbook.name,
                remedy="Give both the same name: runs, settings and roles are found by it.",
            )
        return playbook

    # -- what follows from what is loaded

    def tables(self) -> dict[str, type[SettingsTable] | None]:
        """The tables of settings that playbooks of one's own have; None for one that is not loaded yet."""
        from interlock.settings import is_taken

        shipped = {one.name for (origin, *_), one in self._loaded.items() if origin is Origin.SHIPPED}
        others = [one.name for one in self.places if one.origin is not Origin.SHIPPED and one.name not in shipped]
        own: dict[str, type[SettingsTable] | None] = dict.fromkeys(name for name in others if not is_taken(name))
        for playbook in self._own:
            own.pop(playbook.name, None)
            if playbook.settings is not Nothing:
                own[playbook.name] = playbook.settings
        return own

    def homes(self) -> dict[str, tuple[str, Traversable]]:
        """Place and folder of each playbook of one's own that is loaded: its roles are there."""
        return {one.name: (one.source.place if one.source else "", one.folder) for one in self._own}

    @property
    def _own(self) -> list[Playbook]:
        return [one for (origin, *_), one in self._loaded.items() if origin is not Origin.SHIPPED]


def digests(playbook: Playbook) -> dict[str, str]:
    """The digest of every file of a playbook's package; of none where it is a module that stands alone."""
    if not sys.modules[playbook.function.__module__].__package__:
        return {}
    found, pending = dict[str, str](), [("", playbook.folder)]
    while pending and len(found) <= MOST_FILES:
        above, here = pending.pop()
        for entry in here.iterdir():
            if is_no_part(entry.name):
                continue
            if entry.is_dir():
                pending.append((f"{above}{entry.name}/", entry))
            else:
                found[f"{above}{entry.name}"] = sha256(entry.read_bytes())
    return dict(sorted(found.items())) if len(found) <= MOST_FILES else {}
