"""What an agent says and does while it works, in the words for people. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.telemetry.lines import lined, printable


def doing(kind: str, data: Mapping[str, object]) -> str:
    """The last thing an agent did, in a few words; empty for what changes nothing of that."""
    match kind:
        case "text" | "thought":
            lines = str(data.get("text", "")).strip().splitlines()
            return printable(lines[-1], 80) if lines else ""
        case "tool":
            return _tool(data)
        case "plan":
            return _plan(data.get("entries"))
        case "waiting":
            return printable(f"waits: {data.get('why', '')}", 80)
        case "warning":
            return printable(f"warns: {data.get('text', '')}", 80)
        case "partial.requested":
            return "time is up: asked for partial results"
        case "started" | "ended" | "session" | "usage":
            return ""
    texts = [value for value in data.values() if isinstance(value, str) and value.strip()]
    return printable(" ".join([kind, *texts]), 80)


def spoken_news(kind: str, data: Mapping[str, object]) -> str:
    """What an agent said or did, for a line of its own: its words at some length, else as `doing` has it."""
    return lined(str(data.get("text", "")), 1000) if kind in ("text", "thought") else doing(kind, data)


def _tool(data: Mapping[str, object]) -> str:
    """The tool and what it is about; how it ended only where that is worth a look."""
    if data.get("state") == "done":
        return ""
    ended = f" {data['state']}" if data.get("state") in ("failed", "refused") else ""
    return printable(f"{data.get('name') or 'tool'}{ended} {data.get('subject') or ''}".rstrip(), 80)


def _plan(entries: object) -> str:
    """How far the agent's own plan is, and what it is at."""
    steps = (
        [entry for entry in entries if isinstance(entry, list) and len(entry) == 2] if isinstance(entries, list) else []
    )
    if not steps:
        return ""
    done = sum(state == "completed" for _, state in steps)
    now = next((text for text, state in steps if state == "in_progress"), "")
    return printable(f"plan {done}/{len(steps)}{f': {now}' if now else ''}", 80)


def tokens(data: Mapping[str, object]) -> int | None:
    known = [data.get(name) for name in ("input_tokens", "output_tokens")]
    counts = [count for count in known if isinstance(count, int)]
    return sum(counts) if counts else None
