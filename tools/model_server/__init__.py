"""A scripted model on loopback: real coding agents work with it, without a network and without a key."""

from tools.model_server.conversation import Usage
from tools.model_server.script import Rule, Script
from tools.model_server.script_file import load, parse
from tools.model_server.server import Entry
from tools.model_server.serving import Serving, serving
from tools.model_server.steps import Edit, Meanwhile, Program, Refuse, Say, Shell, Sleep, Spend, Use, Write

__all__ = [
    "Edit",
    "Entry",
    "Meanwhile",
    "Program",
    "Refuse",
    "Rule",
    "Say",
    "Script",
    "Serving",
    "Shell",
    "Sleep",
    "Spend",
    "Usage",
    "Use",
    "Write",
    "load",
    "parse",
    "serving",
]
