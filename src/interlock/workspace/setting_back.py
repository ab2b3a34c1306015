"""What of an agent's result is no work: an older version of what the person has not committed.

Theory of operation.  In a layer unsaved work is a commit, so that git's ways to throw changes away give it back.  What
is left is an agent that takes an older version on purpose or by habit (`git checkout HEAD~1 -- f`, `rm`).  A path is
looked at when the person's version is in no commit and the result changed it.  Three kinds are told apart, the last two
by lines:

* the result *is* a version that git had, or nothing: set back, unless the content stands elsewhere (a move);
* it is an edit *on top of* such a version: what the person had changed is undone, and it lies nearer to that version
  than to what was shown; then that version is its base, and the edit is put onto the present one;
* anything else is a change like any other.

All is compared in the clean spelling, where history lies; what is given back is raw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from interlock.workspace.git import LINK, Entry
from interlock.workspace.trees import Trees
from interlock.workspace.values import EMPTY, Tree

_VERSIONS = 200
"""So many versions of a file are compared line by line."""
_TEXT = 4 << 20

Lines = Counter[bytes]


@dataclass(frozen=True)
class Mended:
    """A result without what was set back."""

    tree: Tree
    set_back: tuple[str, ...] = ()
    """Where it differs from the result."""
    clashes: tuple[str, ...] = ()
    """Those of them whose edit could not be put onto the present version."""
    changed: tuple[str, ...] = ()
    """Where it really changes, or moves, what the person has not committed."""


def is_set_back(head: Entry | None, now: Entry | None, result: Entry | None, had: Iterable[str]) -> bool:
    """Whether a result, which changed the path, takes back what the person has not committed (`now`, not `head`)."""
    if now in (head, result):
        return False
    if result is None:
        return True
    if now is not None and result[1] == now[1]:
        return head is not None and result[0] == head[0]  # the mode alone
    return (head is not None and result[1] == head[1]) or result[1] in had


def older_base(now: Lines, head: Lines, shown: Lines, result: Lines, versions: Mapping[str, Lines]) -> tuple[str, bool]:
    """The version that the result is an edit of, if it is one of an older version, and whether that is certain.

    It is where something of the person's is undone, it lies nearer to a version than to what was shown, and it has
    lines of that version again.  A version that has no line of its own can be told by the merge alone.
    """
    lost, again = ((now - head) & shown) - result, (head - now) & (result - shown)
    distances = {name: _distance(result, version) for name, version in versions.items()} if lost or again else {}
    nearest = min(distances, key=lambda name: distances[name], default="")
    if not nearest or distances[nearest] >= _distance(result, shown):
        return "", False
    only_there = versions[nearest] - shown
    if only_there and not only_there & result:
        return "", False
    return nearest, bool(only_there)


def mend(
    trees: Trees,
    *,
    head: Tree,
    now: Tree,
    shown: Tree,
    result: Tree,
    own: Mapping[str, str],
    clean: tuple[Tree, Tree, Tree] | None = None,
) -> Mended:
    """A layer's result with what was set back given back, and edits on an older version put on the present one.

    Args:
        head: what is committed, in the clean spelling.
        own: path to blob of what this run delivered (see `owned`): changing that again sets no person's work back.
        clean: the clean spelling of `now`, `shown` and `result`, where that differs.
    """
    now_clean, shown_clean, result_clean = clean or (now, shown, result)
    touched = [delta.path for delta in trees.deltas(shown, result)]
    unsaved = trees.deltas(head, now_clean, touched) if touched else []
    delivered = [delta.path for delta in unsaved if delta.path in own]
    present = trees.entries(now, delivered) if delivered else {}
    suspects = {one.path: one for one in unsaved if present.get(one.path, (0, None))[1] != own.get(one.path, "")}
    if not suspects:
        return Mended(result)
    moved = _moved(trees, shown_clean, result_clean)
    spots = [*suspects, *moved.values()]
    sides = [trees.entries(tree, spots) for tree in (now_clean, shown, shown_clean, result, result_clean)]
    places = {path: path if path in sides[-1] else moved.get(path, path) for path in suspects}
    had = trees.had([path for path, place in places.items() if place in sides[-1]])
    back: list[str] = []
    clashes: list[str] = []
    changes: dict[str, Entry | None] = {}
    for path, delta in suspects.items():
        place = places[path]
        versions = [*(side.get(path) for side in sides[:3]), *(side.get(place) for side in sides[3:])]
        if is_set_back(delta.old, delta.new, versions[-1], had.get(path, ())):
            back.append(path)
            continue
        entry, clash = _rebased(trees, delta.old, [*had.get(path, ())], versions)
        if place != path and (entry or clash):
            back.append(path)  # an older version was moved
        elif clash:
            clashes.append(path)
        elif entry:
            changes[path] = entry
    tree = trees.graft(trees.tree_of(result, changes), shown, [*back, *clashes])
    changed = sorted(suspects.keys() - {*back, *clashes})
    return Mended(tree, tuple(sorted((*back, *clashes, *changes))), tuple(clashes), tuple(changed))


def _rebased(
    trees: Trees, head: Entry | None, had: Sequence[str], sides: Sequence[Entry | None]
) -> tuple[Entry | None, bool]:
    """An edit on the present version, where it is one of an older; and whether the two clash.

    Args:
        had: the versions that git had.
        sides: of the person's tree, what was shown (raw and clean) and the result (raw and clean).
    """
    there = [entry for entry in (head, *sides) if entry]
    if len(there) <= len(sides) or any(mode == LINK for mode, _ in there):
        return None, False
    names = dict.fromkeys((there[0][1], *had[:_VERSIONS]))
    texts = dict(trees.blobs((*(blob for _, blob in there), *names)))
    if there[0][1] not in texts or any(len(text) > _TEXT or b"\0" in text[:8000] for text in texts.values()):
        return None, False
    committed, now, shown_raw, shown, result_raw, result = (texts[blob] for _, blob in there)
    versions = {name: _lines(texts[name]) for name in names if name in texts}
    base, certain = older_base(_lines(now), _lines(committed), _lines(shown), _lines(result), versions)
    if not base:
        return None, False
    spelled = _raw_like(texts[base], shown, shown_raw)
    merged = None if spelled is None else trees.merge_texts(spelled, shown_raw, result_raw)
    if merged is not None:
        return (there[-2][0], trees.write(merged)), False
    return None, certain or spelled is None or not _is_change(trees, spelled, shown_raw, result_raw)


def _is_change(trees: Trees, base: bytes, shown: bytes, result: bytes) -> bool:
    """Whether each of the person's lines that are not there any more has others in its place: then it was changed by
    an agent that saw it, like any other line."""
    clashes = trees.clashes(base, shown, result)
    replaced = [_lines(mine) for mine, old, new in clashes if new.count(b"\n") > old.count(b"\n")]
    return not _lines(shown) - _lines(result) - _lines(base) - sum(replaced, Lines())


def free(trees: Trees, *, base: Tree, now: Tree, shown: Tree, result: Tree) -> tuple[Tree, tuple[str, ...]]:
    """A result without what the person wrote while the agent worked (`base` to `now`): it shows through the layer, and
    may lie in the result. And the paths where the two cannot be told apart, on which the result is as `shown` again."""
    meanwhile = {delta.path: delta for delta in trees.deltas(base, now) if delta.new is not None}
    both = [delta for delta in trees.deltas(shown, result, list(meanwhile)) if delta.new and delta.path in meanwhile]
    if not both:
        return result, ()
    paths = [delta.path for delta in both]
    started, present, left = (trees.graft(EMPTY, tree, paths) for tree in (base, now, result))
    merged, clashes = trees.merge_for(present, left, started)
    freed = trees.graft(result, merged, [path for path in paths if path not in clashes])
    return trees.graft(freed, shown, clashes), clashes


def owned(trees: Trees, own: Mapping[str, str], *, head: Tree, before: Tree, after: Tree) -> dict[str, str]:
    """`own` after one more delivery: path to blob of what a run delivered, without files that hold unsaved lines of the
    person."""
    unsaved = {delta.path for delta in trees.deltas(head, before)}
    deltas = trees.deltas(before, after)
    unsaved -= {delta.path for delta in deltas if delta.old is not None and own.get(delta.path) == delta.old[1]}
    carried = {new for old, new in _moved(trees, before, after).items() if old in unsaved}
    found = dict(own)
    for delta in deltas:
        if delta.new is not None and delta.path not in unsaved and delta.path not in carried:
            found[delta.path] = delta.new[1]
        else:
            found.pop(delta.path, None)
    return found


def _moved(trees: Trees, old: Tree, new: Tree) -> dict[str, str]:
    """What stands elsewhere now, by git's rule for renames."""
    words = ("-r", "-z", "-M", "--diff-filter=R", "--name-status", "--no-ext-diff")
    fields = trees.git.names("diff-tree", *words, old, new)
    return dict(zip(fields[1::3], fields[2::3], strict=True))


def _lines(text: bytes) -> Lines:
    return Counter(text.splitlines())


def _distance(one: Lines, other: Lines) -> int:
    return (one - other).total() + (other - one).total()


def _raw_like(text: bytes, clean: bytes, raw: bytes) -> bytes | None:
    """A text of history as it would lie on disk, told by another version of the file; None where nobody can tell."""
    if raw == clean:
        return text
    return text.replace(b"\n", b"\r\n") if raw == clean.replace(b"\n", b"\r\n") else None
