"""What runs recorded, as HTML: views are plain data, templates show them; no server, no request, no cookie.

address     where each page is
shelf       a workspace as pages need it; who looks; what a run is about
board, run, dispatch, gate, start   a view for each page, and what builds it
timeline, spending, diffs, transcript, documents, prose   what views are made of
rendering   views as pages, their live parts, the run page as one file
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy import lazily

if TYPE_CHECKING:
    from interlock.pages.board import EVERYTHING, BoardQuery, BoardView, ListedRun, board_view, listed, unreadable
    from interlock.pages.changing import whole_patch
    from interlock.pages.dispatch import DispatchView, dispatch_view
    from interlock.pages.gate import GateView, gate_view
    from interlock.pages.rendering import PageView, StaticFile, one_file, one_file_of, parts, render, static_file
    from interlock.pages.run import RunView, run_view
    from interlock.pages.shelf import Shelf, Visit, headline, out_of_reach
    from interlock.pages.start import FieldKind, Foresight, FormField, MessageView, Offer, StartForm, StartView

__getattr__ = lazily(
    __name__,
    {
        "board": "EVERYTHING BoardQuery BoardView ListedRun board_view listed unreadable",
        "changing": "whole_patch",
        "dispatch": "DispatchView dispatch_view",
        "gate": "GateView gate_view",
        "rendering": "PageView StaticFile one_file one_file_of parts render static_file",
        "run": "RunView run_view",
        "shelf": "Shelf Visit headline out_of_reach",
        "start": "FieldKind Foresight FormField MessageView Offer StartForm StartView",
    },
)

__all__ = [
    "EVERYTHING",
    "BoardQuery",
    "BoardView",
    "DispatchView",
    "FieldKind",
    "Foresight",
    "FormField",
    "GateView",
    "ListedRun",
    "MessageView",
    "Offer",
    "PageView",
    "RunView",
    "Shelf",
    "StartForm",
    "StartView",
    "StaticFile",
    "Visit",
    "board_view",
    "dispatch_view",
    "gate_view",
    "headline",
    "listed",
    "one_file",
    "one_file_of",
    "out_of_reach",
    "parts",
    "render",
    "run_view",
    "static_file",
    "unreadable",
    "whole_patch",
]
