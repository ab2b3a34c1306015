"""The pictures of the pages in docs/images: real runs, shown by a real browser.

scenes      workspaces with real runs: one went well, one had trouble, one has 60 tasks, one waits, one is at work
speaking    an agent that says and does things, for the run at work
__main__    the command: python -m tools.pictures [FOLDER]
"""
