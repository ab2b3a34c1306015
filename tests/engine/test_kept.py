"""Documents that a process keeps as YAML: held to a model, changed by the value, and a person's part of them."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.forms import Form, Given, Unusable
from interlock.engine.kept import Kept, load, put, reads, watch
from interlock.engine.run import Call, Outcome, Run
from interlock.errors import BadInput
from tests.engine.bench import WRITER, Bench, small

FILE = "state.yaml"
TEXT = '# ours and mine\nn: 0\nname: "x"   # mine\nparts:\n  - {done: false, mine: 1}\nmore: {a: 1}\n'


class Part(Kept):
    done: bool = False


class State(Kept):
    n: int
    name: str = ""
    parts: list[Part] = []


class Verdict(Form):
    passes: bool


async def keeping(run: Run, inputs: Any) -> Outcome:
    """Keeps a document, of which people may change the name, while somebody works."""
    watch(run, FILE, State, ("name",))
    state = await load(run, State, FILE)
    await run.dispatch(Call(WRITER))
    await put(run, FILE, {"n": state.n + 1, "parts": {0: {"done": True}}, "more": {"a": 2}})
    state = await load(run, State, FILE)
    return Outcome.complete(f"{state.n} {state.name} {state.parts[0].done}")


@pytest.mark.req("PERSON-04")
@pytest.mark.parametrize(("old", "new", "why"), [('"x"', '"y"', "1 y True"), ("n: 0", "n: 7", "expected 0, found 7")])
def test_values_are_put_one_by_one_and_what_people_may_not_change_stops_it(old: str, new: str, why: str) -> None:
    bench = Bench(small(keeping), files={FILE: TEXT.encode()}, commands=())
    meddled = TEXT.replace(old, new)
    bench.cast.moments["called"] = [lambda: bench.world.files.update({FILE: meddled.encode()})]
    view = bench.start()
    assert why in view.why
    kept = meddled.replace("n: 0", "n: 1").replace("false", "true").replace("a: 1", "a: 2")
    assert bench.text(FILE) == (kept if "True" in why else meddled)


@pytest.mark.req("CLI-05")
@pytest.mark.parametrize(
    ("text", "why"), [("n: 0\n", "is not there any more"), ("- a list\n", "is not there any more"), ("n: 0\nx\n", ":3")]
)
def test_what_people_took_away_or_broke_meanwhile_is_named(text: str, why: str) -> None:
    bench = Bench(small(keeping), files={FILE: TEXT.encode()}, commands=())
    bench.cast.moments["called"] = [lambda: bench.world.files.update({FILE: text.encode()})]
    view = bench.start()
    assert (view.status, why in view.why, FILE in view.why) == ("stopped", True, True), view.why


@pytest.mark.req("RUN-11", "CLI-05")
def test_one_that_cannot_be_used_is_told_with_its_line() -> None:
    with pytest.raises(BadInput) as error:
        Bench(small(keeping), files={FILE: b"n: many\n"}, commands=()).start()
    assert (error.value.where, error.value.found) == (f"{FILE}:1:1", '"many" (text)')


@pytest.mark.req("EVID-01", "EVID-02")
def test_an_answer_that_is_a_document_is_told_all_that_is_wrong_with_it() -> None:
    read = reads(Verdict, "a/b.yaml")
    assert read(Given(None, "", {})) == Unusable(problems=("ERROR: b.yaml is missing",))
    assert read(Given(None, "", {"a/b.yaml": "passes: yes\n"})) == Verdict(passes=True)
