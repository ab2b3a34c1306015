"""interlock runs development processes with coding agents as a program."""

__version__ = "0.1.0"
