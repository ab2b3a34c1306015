"""The command line: words in; exit code, output and progress out.

Importing is part of an answer's time here.  Whatever is heavy (settings, the engine's host, rich) is imported inside
the command that needs it, and `interlock --version` not even meets typer.
"""
