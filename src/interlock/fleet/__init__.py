"""Runs on more than one machine: a run moves as one git ref, and PostgreSQL places it.

remote.py    the user's git and a remote: what its refs say, and how one is moved from what it was
carriage.py  a run as a commit: packed, read and checked, laid out again
moving.py    sent, taken, fetched: what a person does to a run between clones; no database
holding.py   the process that works on a run that is carried: checkpoints, fence, words from elsewhere
far.py       runs of elsewhere, looked at and spoken to from any clone
queue.py     procrastinate on PostgreSQL: who is asked to work on what
worker.py    takes runs from the queue, by the commands that a person types
"""
