"""What agents of a flow answer: forms, and what their documents must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from pydantic import Field

from interlock.engine.forms import Claim, Form, Given, Judgement, Unusable, read_form
from interlock.flows.format import Product


class Worked(Form):
    """What an agent says of its work."""

    status: Literal["done", "revise", "blocked"] = Field("done", description="revise: it is not finished.")
    summary: str = Field("", description="What was done; or what is in the way.")
    already_so: list[str] = Field([], description="If nothing had to be changed: the commands that show it.")


class Weighed(Judgement):
    """What a judge says."""

    verdict: Literal["accept", "revise", "blocked"] = "accept"  # type: ignore[assignment] # one word more

    def claim(self, criteria: Sequence[str]) -> Claim:
        claim = super().claim(criteria)
        blocked = (self.summary or "it cannot be judged",) if self.verdict == "blocked" else ()
        return claim.model_copy(update={"blocking": (*claim.blocking, *blocked)})


class Read(Weighed):
    """What a judge says who only reads."""

    def claim(self, criteria: Sequence[str]) -> Claim:
        return super().claim(criteria).model_copy(update={"reads_only": True})


def reader(
    form: type[Form] | None, products: Mapping[str, Product]
) -> Callable[[Given], Form | Unusable | None] | None:
    """Its form, and what its documents must have; only who judges owes the form."""
    asked = {path: one.headings for path, one in products.items() if one.headings}
    if not asked or form is None:
        return None

    def read(given: Given) -> Form | Unusable | None:
        lines = {path: {line.strip() for line in given.outputs.get(path, "").splitlines()} for path in asked}
        missing = [
            f"{path} has no heading {heading!r}"
            for path, headings in asked.items()
            for heading in headings
            if path in given.outputs and heading not in lines[path]
        ]
        found = read_form(form, given.structured, given.text)
        problems = found.problems if isinstance(found, Unusable) and issubclass(form, Judgement) else ()
        if missing or problems:
            return Unusable(problems=(*problems, *missing))
        return None if isinstance(found, Unusable) else found  # type: ignore[return-value] # of that form

    return read


def sample(product: Product) -> str:
    """A document that would do."""
    return "".join(f"{heading}\n\nA line.\n\n" for heading in product.headings)
