"""What a run may still spend: a bound, over members side by side and over resumes (LY-16).

Before a call its share is reserved.  The agent is told its limit where it takes one, its stream is followed, and it is
ended when the share is used up; so at most one turn of its model is spent too much.  Tokens are counted like money,
for agents that know no price.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from interlock.agents.runner import Allowance, Usage
from interlock.engine.journal import Line

NOTED = 0.05
"""The part of its share after which what a running call has cost is recorded anew: a crash forgets no more."""


class Budget:
    def __init__(self, lines: Iterable[Line], *, usd: float | None, tokens: int | None) -> None:
        self._usd = usd
        self._tokens = tokens
        self.spent = spent(lines) if usd is not None or tokens is not None else Usage()
        self._shares: dict[str, Allowance] = {}
        self._noted: dict[str, Usage] = {}
        self._freed = asyncio.Event()

    @property
    def reached(self) -> str:
        """Why nothing more may be spent, as a sentence; empty while something is left."""
        usd, used = self.spent.cost_usd or 0.0, tokens_of(self.spent)
        if self._usd is not None and usd >= self._usd:
            return f"budget reached: {usd:.2f} of {self._usd:.2f} USD spent"
        if self._tokens is not None and used >= self._tokens:
            return f"budget reached: {used} of {self._tokens} tokens used"
        return ""

    def facts(self) -> dict[str, Any]:
        usd, used = self.spent.cost_usd or 0.0, tokens_of(self.spent)
        return {
            "spent_usd": usd,
            "budget_usd": self._usd,
            "overshoot_usd": round(max(0.0, usd - self._usd), 6) if self._usd is not None else 0.0,
            "used_tokens": used,
            "budget_tokens": self._tokens,
        }

    async def something_free(self) -> None:
        """Wait while everything that is left is reserved for others, who may not need all of it."""
        while self._shares and not self.reached and self._nothing_free():
            self._freed.clear()
            await self._freed.wait()

    def _nothing_free(self) -> bool:
        usd, tokens = self._left()
        return (usd is not None and usd <= 0) or (tokens is not None and tokens <= 0)

    def _left(self) -> tuple[float | None, int | None]:
        """Money and tokens that are neither spent nor reserved."""
        held = list(self._shares.values())
        usd = tokens = None
        if self._usd is not None:
            usd = self._usd - (self.spent.cost_usd or 0.0) - sum(share.usd or 0.0 for share in held)
        if self._tokens is not None:
            tokens = self._tokens - tokens_of(self.spent) - sum(share.tokens or 0 for share in held)
        return usd, tokens

    def reserve(self, key: str, at_once: int) -> Allowance | None:
        """The share of a call: what is left, divided by how many may still start beside it; None without a budget."""
        if self._usd is None and self._tokens is None:
            return None
        others = max(1, at_once - len(self._shares))
        usd, tokens = self._left()
        usd = None if usd is None else max(0.0, usd) / others
        tokens = None if tokens is None else max(0, tokens) // others
        self._shares[key] = share = Allowance(usd, tokens)
        return share

    def is_news(self, key: str, usage: Usage) -> bool:
        """Whether a running call has cost so much since this was last recorded that it is recorded again."""
        share, last = self._shares.get(key), self._noted.get(key, Usage())
        if share is None:
            return False
        dear = share.usd and (usage.cost_usd or 0.0) - (last.cost_usd or 0.0) >= NOTED * share.usd
        much = share.tokens and tokens_of(usage) - tokens_of(last) >= NOTED * share.tokens
        if dear or much:
            self._noted[key] = usage
        return bool(dear or much)

    def settle(self, key: str, usage: Usage | None, *, exhausted: bool = False) -> Usage:
        """The call has ended and cost this much; the rest of its share is free again. What is counted.

        An agent that stopped at its limit may not say what it took: then it took its share.
        """
        share = self._shares.pop(key, None)
        self._noted.pop(key, None)
        counted = usage or Usage()
        if exhausted and share is not None and usage is None:
            counted = Usage(share.tokens, None, share.usd)
        self.spent = self.spent.plus(counted)
        self._freed.set()
        return counted


def spent(lines: Iterable[Line]) -> Usage:
    """What a run has cost so far: ended dispatches with all their tries, and what is known of those that go on."""
    ended: dict[str | None, Usage] = {}
    tries: dict[str | None, Usage] = {}
    running: dict[str | None, Usage] = {}
    for line in lines:
        match line.event:
            case "dispatch.start" if line.key in running:  # a call that was cut off: it had cost this much
                tries[line.key] = tries.get(line.key, Usage()).plus(running.pop(line.key))
            case "dispatch.spent":
                running[line.key] = usage_in(line.data)
            case "dispatch.try":
                running.pop(line.key, None)
                tries[line.key] = tries.get(line.key, Usage()).plus(usage_in(line.data))
            case "dispatch.end":
                running.pop(line.key, None)
                ended[line.key] = usage_in(line.data)
    total = Usage()
    for usage in (
        *ended.values(),
        *(one for some in (tries, running) for key, one in some.items() if key not in ended),
    ):
        total = total.plus(usage)
    return total


def usage_in(data: Mapping[str, Any]) -> Usage:
    return Usage(data["input_tokens"], data["output_tokens"], data["cost_usd"])


def tokens_of(usage: Usage) -> int:
    return (usage.input_tokens or 0) + (usage.output_tokens or 0)
