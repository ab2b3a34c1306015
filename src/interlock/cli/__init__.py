"""The command line: words in; exit code, output and progress out.

Importing is part of an answer's time here.  Whatever is heavy (settings, the engine's host, rich) is imported inside
the command that needs it, and `interlock --version` not even meets typer.

main        the entry                                   run         run, resume, and how a run ended
commands    all commands, and how a function is one     plan        plan, rehearse, validate, the dry run
door        what a command was called with              playbooks   playbooks, new, and what playbooks become
output      where words go                              gates       approve, reject, answer, cancel
failures    errors as words and exit codes              runs        runs, show, report, recover, web
live        a line per event, a terminal's picture      history     logs, watch, why, diff
unattended  who is called; --detach                     workshop    init, doctor, mcp
elsewhere   runs that are not here                      fleet       send, take, fetch, submit, worker, fleet
"""
