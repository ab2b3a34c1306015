"""What a run needs, what a worker has: one repository by every address, nothing missing that is not named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.fleet.needs import NAME_BYTES, Means, Needs, lacking, place_of, queue_name
from interlock.fleet.orders import Order

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
LISTS = st.lists(WORDS, max_size=3).map(tuple)
NEEDS = st.builds(Needs, repository=WORDS, labels=LISTS, programs=LISTS, playbook=WORDS, files=WORDS)
HOSTS = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z]{2,5})?", fullmatch=True)
PATHS = st.lists(st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True), min_size=1, max_size=3).map("/".join)


@given(HOSTS, PATHS, st.from_regex(r"[a-z]{1,5}(:[A-Za-z0-9%]{1,6})?", fullmatch=True), st.integers(1, 65535))
def test_every_address_of_a_repository_has_one_place(host: str, path: str, user: str, port: int) -> None:
    """Ways, users, passwords, ports and endings make no difference; a password is in no place."""
    expected = f"{host}/{path}"
    for address in (
        f"git@{host}:{path}.git",
        f"{host}:{path}",
        f"ssh://git@{host}/{path}",
        f"ssh://git@{host}:{port}/{path}.git/",
        f"https://{user}@{host}/{path}.git",
        f"HTTPS://{host.upper()}:{port}//{path}",
        f"git://{host}/{path}",
        expected,
    ):
        assert place_of(address) == expected


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("/srv/app.git", "/srv/app"),
        ("/srv/app/.git", "/srv/app"),
        ("file:///srv/app.git", "/srv/app"),
        ("file://localhost/srv/app", "/srv/app"),
        ("git@[::1]:team/app", "[::1]/team/app"),
        ("ssh://git@[::1]:22/team/app", "[::1]/team/app"),
        ("https://ada:p@ss@host/team/app", "host/team/app"),
        ("https://host", "host"),
        ("git@host:~ada/app.git", "host/~ada/app"),
        ("/", "/"),
        ("", ""),
        (".git", ".git"),
    ],
)
def test_odd_addresses_have_a_place_too(address: str, place: str) -> None:
    """Paths of this machine, numbers for hosts, nothing at all."""
    assert place_of(address) == place


@given(st.text(max_size=40))
def test_any_text_has_a_place_and_it_is_its_own(address: str) -> None:
    """Nothing raises, and the place of a place is that place."""
    place = place_of(address)
    assert place_of(place) == place


@given(WORDS, NEEDS, WORDS, NEEDS)
def test_a_name_is_short_and_says_queue_and_needs(queue: str, needs: Needs, other: str, others: Needs) -> None:
    """PostgreSQL can announce it; the same needs have one name in any order, others another."""
    name = queue_name(queue, needs)
    assert len(name.encode()) <= NAME_BYTES
    again = Needs(needs.repository, needs.labels[::-1], needs.programs[::-1], needs.playbook, needs.files)
    assert queue_name(queue, again) == name
    same = (queue, needs.to_json()) == (other, others.to_json())
    assert (queue_name(other, others) == name) is same


@given(NEEDS, WORDS, WORDS, WORDS, st.none() | st.dictionaries(WORDS, WORDS, max_size=2))
def test_an_order_is_what_was_written(
    needs: Needs, key: str, about: str, by: str, message: dict[str, str] | None
) -> None:
    """`from_json(to_json(x)) == x`, as far as the order of needs means nothing."""
    needs = Needs.from_json(needs.to_json())
    order = Order("r1", "feature", key, about, needs, "night", 7, by, message)
    assert Order.from_json(order.to_json()) == order


@given(NEEDS, WORDS, st.frozensets(WORDS, max_size=3), st.frozensets(WORDS, max_size=3), st.frozensets(WORDS))
def test_nothing_is_missing_exactly_when_everything_is_there(
    needs: Needs, queue: str, labels: frozenset[str], queues: frozenset[str], programs: frozenset[str]
) -> None:
    """Total, and exact: each need is met, or is named."""
    means = Means(
        name="w",
        repositories={needs.repository: "address"},
        labels=labels,
        queues=queues,
        has_program=lambda program: program in programs,
        trusts=lambda files: files in programs,
    )
    met = (
        (not queues or queue in queues)
        and set(needs.labels) <= labels
        and all(set(one.split("|")) & programs for one in needs.programs)
        and (not needs.files or needs.files in programs)
    )
    assert (not lacking(queue, needs, means)) is met
    elsewhere = Means(name="w", repositories={}, has_program=means.has_program, trusts=means.trusts)
    assert f"repository {needs.repository}" in lacking(queue, needs, elsewhere)


@pytest.mark.req("WK-16")
def test_each_thing_that_is_missing_is_named() -> None:
    """What a worker lacks is said in words, for `fleet`."""
    needs = Needs("h/app", ("gpu", "big"), ("claude|codex", "make"), "ours", "0123")
    means = Means(
        name="w",
        repositories={"h/other": "git@h:other"},
        labels=frozenset({"big"}),
        queues=frozenset({"night"}),
        has_program=lambda program: program == "make",
        trusts=lambda _files: False,
    )
    assert lacking("default", needs, means) == (
        "queue default",
        "repository h/app",
        "label gpu",
        "program claude or codex",
        "trust in playbook ours",
    )


def test_what_a_later_version_asks_for_is_not_taken() -> None:
    """A need that this version does not know is not met by it."""
    needs = Needs.from_json({"repository": "h/app", "memory": "64 GB", "later": []})
    means = Means(name="w", repositories={"h/app": "a"}, has_program=lambda _: True, trusts=lambda _: True)
    assert lacking("default", needs, means) == ("a version of interlock that knows what 'memory' means",)
