"""Patches are read whole, whatever the files are called and whatever stands in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.documents.patches import patch_parts, spelled

ODD = (
    *("a\nb.py", 'say "so".py', "tab\there", "back\\slash", "esc\x1b[31m.py", "\udcff\udcfe.bin", "x b/x", "x b/x b/x"),
    *(
        "dev/null",
        "-rf",
        "--- a/x",
        "+++ b/y",
        "@@ -1 +1 @@",
        "diff --git a/x b/x",
        "rtl\u202ecod.py",
        "zero\u200bwidth",
    ),
    *(" ", " lead", "trail ", "ä.py", "\r", "a\r\nb", 'quote"', '"', "new file mode 100644", "GIT binary patch"),
)

names = st.text(
    st.one_of(st.sampled_from('ab/ "\\\n\t\r\x1b@+-'), st.characters(exclude_characters="\0")), min_size=1
).map(lambda text: text.encode("utf-8", "replace").decode())


@pytest.mark.req("WB-05", "WB-09")
@pytest.mark.parametrize("path", ODD)
def test_a_file_is_known_by_its_name_in_every_form(path: str) -> None:
    """New, gone, changed, without lines, without text: the part is about that file."""
    old, new = spelled(path, "a/"), spelled(path, "b/")
    first = b"diff --git %s %s\n" % (old, new)
    for rest in (
        b"--- %s\n+++ %s\n@@ -1 +1 @@\n-a\n+b\n" % (old, new),
        b"new file mode 100644\n--- /dev/null\n+++ %s\n@@ -0,0 +1 @@\n+b\n" % new,
        b"deleted file mode 100644\n--- %s\n+++ /dev/null\n@@ -1 +0,0 @@\n-b\n" % old,
        b"old mode 100644\nnew mode 100755\n",
        b"index 1..2\nGIT binary patch\nliteral 0\nHcmV?d00001\n\n",
        b"index 1..2\nBinary files %s and %s differ\n" % (old, new),
    ):
        (part,) = patch_parts(first + rest)
        assert (part.path, part.whole) == (path, first + rest)


@pytest.mark.req("WB-05")
@given(names)
def test_a_name_is_read_as_it_was_spelled(path: str) -> None:
    (part,) = patch_parts(b"diff --git %s %s\nold mode 100644\n" % (spelled(path, "a/"), spelled(path, "b/")))
    assert part.path == path


@pytest.mark.req("WB-05")
@given(
    st.lists(st.sampled_from([b"diff --git a/x b/x\n", b"diff --git x", b"@@ -1 +1 @@\n", b"+a\n", b"-", b"x", b"\n"]))
)
def test_nothing_of_a_patch_is_lost(rows: list[bytes]) -> None:
    """The parts together are the patch, also where it makes no sense."""
    patch = b"".join(rows)
    assert b"".join(part.whole for part in patch_parts(patch)) == patch


@pytest.mark.req("WB-05")
def test_git_spells_names_as_we_do(tmp_path: Path) -> None:
    """Of files with such names git makes the same heads."""
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    paths = [path for path in ODD if "/" not in path]
    for path in paths:
        (tmp_path / path).write_text("x\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "--all"], check=True)
    patch = subprocess.run(["git", "-C", str(tmp_path), "diff", "--cached"], capture_output=True, check=True).stdout
    parts = list(patch_parts(patch))
    assert {part.path for part in parts} == set(paths)
    for part in parts:
        path = part.path or ""
        assert part.head.startswith(b"diff --git %s %s\n" % (spelled(path, "a/"), spelled(path, "b/")))
        assert (part.added, part.removed, part.said("new file mode")) == (1, 0, "100644")
