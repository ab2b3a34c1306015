"""The real coding agents: pinned, installed outside the repository, and set up for the scripted model."""

from tools.clients.catalogue import CLIENTS, HEADLESS, Client, cache_folder, client
from tools.clients.headless import Invocation, headless
from tools.clients.homes import KEY, MODELS, environment
from tools.clients.installing import InstallFailed, install

__all__ = [
    "CLIENTS",
    "HEADLESS",
    "KEY",
    "MODELS",
    "Client",
    "InstallFailed",
    "Invocation",
    "cache_folder",
    "client",
    "environment",
    "headless",
    "install",
]
