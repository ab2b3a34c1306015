"""Agents that misbehave, simulated and real, and what is checked after each of their runs."""
