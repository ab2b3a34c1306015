"""The page: runs of some workspaces in a browser, to be seen and steered.

entering  who is let in: tokens, cookies, a proxy in front
guarding  what stands before every answer: Host, Origin, who it is, what the answer may load
index     the runs of a workspace, read anew only when their files changed
live      server-sent events: the parts of a page that changed
renewing  what the fleet has of runs, brought here
acting    what people do, as calls of the command line
starting  the form that starts a run
page      which address shows what
serving   the server

What pages look like is not here: see `interlock.pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.web.serving import Listening, serve

__getattr__ = lazily(__name__, {"serving": "Listening serve"})

__all__ = ["Listening", "serve"]
