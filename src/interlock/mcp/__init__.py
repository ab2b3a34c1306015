"""The door for programs that speak the Model Context Protocol: an editor's chat, a coding agent, on standard streams.

results     what tools answer, each with its schema; every text and list has an end
desk        the workspace behind the tools: looking is done here, everything else by the command line
attending   waiting with a run, and asking the person at the client where it waits for one
tools       what a client can call
server      the server itself
editors     how a client learns of it: its own file, kept but for one entry

A client's model starts runs and reads them.  It decides nothing: there is no tool for that.  Where the settings allow
it, the client asks its person (elicitation), and what they say is recorded as theirs, bound to what they were shown.
Inside a dispatch the door does not open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.mcp.editors import EDITORS, Editor, Registration, registration
    from interlock.mcp.server import serve

__getattr__ = lazily(__name__, {"editors": "EDITORS Editor Registration registration", "server": "serve"})

__all__ = ["EDITORS", "Editor", "Registration", "registration", "serve"]
