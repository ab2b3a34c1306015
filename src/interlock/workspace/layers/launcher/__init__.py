"""The launcher: starts a program in its layer, and leaves its exit beside it.

A program of its own, run by path with ``python -I -S``, so that its start costs as little as possible: it imports
nothing of interlock and little of the standard library.  Two processes of it are there while a program runs:

- the *supervisor* (`supervise`) stays outside, where no signal of the program reaches it; it watches the engine and
  the program, and writes ``exit.json``;
- the *first process* of the namespaces (`first`, `inside`) makes the mounts, gives up all it could, starts the program
  and takes care of orphans.  When it ends, the kernel ends everything that is left in there.

With bubblewrap, that program takes the place of the first process.  For a private copy there is the supervisor alone.
Mostly supervisors are not started but forked, by a process that waits for that (`nursery`), and have the namespaces
ready before they are told what to run.
"""
