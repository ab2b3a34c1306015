"""How a person asks for a run: the types of a playbook say what can be said, and what becomes of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Annotated, Any, Literal

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from interlock import playbooks
from interlock.cli.playbooks import parameters
from interlock.documents import Store
from interlock.engine import Asking, Option
from interlock.engine.asking import completed, questions, spoken
from interlock.errors import ConfigInvalid


@dataclass(frozen=True)
class Settings:
    strict: bool = False
    colour: str = "red"


@dataclass(frozen=True)
class Inputs:
    request: Annotated[str, Option("What.", argument=True)]
    own: int = 7
    slug: Annotated[str, Option("Its name.")] = ""
    strict: Annotated[bool, Option("Strictly.", setting="strict", variable="STRICT")] = False
    colour: Annotated[Literal["red", "green"], Option("Which.", setting="colour")] = "red"
    quick: Annotated[bool, Option("Quickly.")] = False
    careful: Annotated[bool, Option("Carelessly.")] = True
    most: Annotated[int | None, Option("At most.", name="at-most", at_least=1)] = None
    check: Annotated[list[str], Option("To pass.")] = field(default_factory=list)


def asking(*, environ: dict[str, str] | None = None, strict: bool = False) -> Asking:
    documents: Any = None
    return Asking(documents, Settings(strict=strict), environ or {})


@pytest.mark.req("OW-03")
def test_what_can_be_said_follows_from_the_types() -> None:
    """Names, kinds, several times or not, choices, required or not; a field without an option is nobody's to say."""
    found = {one.field: (one.words, one.kind, one.many, one.choices, one.required) for one in questions(Inputs)}
    assert found == {
        "request": ("--request", str, False, (), True),
        "slug": ("--slug", str, False, (), False),
        "strict": ("--strict/--no-strict", bool, False, (), False),
        "colour": ("--colour", str, False, ("red", "green"), False),
        "quick": ("--quick", bool, False, (), False),
        "careful": ("--no-careful", bool, False, (), False),
        "most": ("--at-most", int, False, (), False),
        "check": ("--check", str, True, (), False),
    }


@pytest.mark.req("OW-03")
def test_a_type_that_nobody_can_say_is_a_fault_of_the_playbook() -> None:
    """It shows when the playbook is looked at, not when somebody uses the option."""

    @dataclass(frozen=True)
    class Odd:
        what: Annotated[dict[str, str] | None, Option("No.")] = None

    with pytest.raises(TypeError, match="what: nobody can say a dict"):
        questions(Odd)


@pytest.mark.req("OW-03", "FT-17")
def test_the_word_goes_before_the_variable_before_the_setting() -> None:
    """For a switch with all three; another word in the variable is refused by its name."""
    for word, variable, setting in product((None, True, False), (None, "", "true", "False"), (True, False)):
        expected = setting if not variable else variable.lower() == "true"
        expected = expected if word is None else word
        environ = {} if variable is None else {"STRICT": variable}
        found = completed(questions(Inputs), {"request": "x", "strict": word}, asking(environ=environ, strict=setting))
        assert found["strict"] is expected
    with pytest.raises(ConfigInvalid, match='STRICT must be true or false; found "maybe"') as caught:
        completed(questions(Inputs), {}, asking(environ={"STRICT": "maybe"}))
    assert caught.value.exit_code == 2


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=5)
INPUTS = st.builds(
    Inputs,
    request=st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    slug=st.just("") | WORDS,
    strict=st.booleans(),
    colour=st.sampled_from(["red", "green"]),
    quick=st.booleans(),
    careful=st.booleans(),
    most=st.none() | st.integers(1, 9),
    check=st.lists(WORDS, max_size=3),
)


@pytest.mark.req("OW-03")
@given(INPUTS)
def test_what_is_told_to_be_typed_asks_for_the_same_again(inputs: Inputs) -> None:
    """The command that is printed for a run, typed at a door made from the same types, comes to the same inputs."""
    heard: dict[str, Any] = {}

    def listen(**said: Any) -> None:
        heard.update(said)

    import inspect

    listen.__signature__ = inspect.Signature(parameters(questions(Inputs)))  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command()(listen)
    typer.main.get_command(app).main(args=spoken(questions(Inputs), asdict(inputs)), standalone_mode=False)
    taken = {
        one.field: " ".join(value) if one.option.argument else not value if one.denies and value else value
        for one in questions(Inputs)
        if (value := heard[one.field]) is not None
    }
    assert Inputs(**completed(questions(Inputs), taken, asking())) == inputs


def test_what_a_setting_could_say_is_told_in_any_case() -> None:
    """The command that is told asks for the same, whatever the settings say by then."""
    assert spoken(questions(Inputs), asdict(Inputs("x"))) == ["x", "--no-strict", "--colour", "red"]


@pytest.mark.req("OW-01", "OW-03")
@pytest.mark.parametrize("name", playbooks.NAMES)
def test_every_playbook_can_be_asked_for_as_its_first_example_says(name: str, tmp_path: Any) -> None:
    """What is said about it at every door stands in its own folder."""
    playbook = playbooks.load(name)
    argument = next((one.field for one in questions(playbook.inputs) if one.option.argument), None)
    said = {argument: playbook.first.strip('"')} if argument else {}
    asked = playbook.asked(said, Asking(Store(tmp_path, tmp_path / "attic"), playbook.settings()))
    assert isinstance(asked.inputs, playbook.inputs)
    assert playbook.key(asked.inputs)
    for kind in (playbook.inputs, playbook.flags, playbook.moves):
        assert all(one.option.help.endswith(".") for one in questions(kind))
