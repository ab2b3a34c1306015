"""The command line: words in; exit code, output and progress out.

Importing is part of an answer's time here.  Whatever is heavy (settings, the engine's host, rich) is imported inside
the command that needs it, and `interlock --version` not even meets typer.

main        the entry                                   run         run, resume, and how a run ended
commands    all commands and the options they share     playbooks   playbooks, new, and what playbooks become
door        what a command was called with              plan        plan, rehearse
output      where words go                              gates       approve, reject, answer, cancel
failures    errors as words and exit codes              runs        runs, show, report, diff
live        the picture on a terminal                   init        init, validate
unattended  who is called; --detach                     doctor      doctor, recover
elsewhere   runs that are not here                      doors       web, mcp
steering    what is said to them                        moving      send, take, fetch
                                                        submit      submit, worker
                                                        fleet       fleet
"""
