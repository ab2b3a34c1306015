"""The protocols that coding agents speak to models."""

from tools.model_server.dialects.anthropic import Anthropic
from tools.model_server.dialects.chat import ChatCompletions
from tools.model_server.dialects.dialect import Dialect, Event, Ids, Refused
from tools.model_server.dialects.gemini import Gemini
from tools.model_server.dialects.responses import Responses

__all__ = ["Anthropic", "ChatCompletions", "Dialect", "Event", "Gemini", "Ids", "Refused", "Responses"]
