"""`python -m interlock` is the command `interlock`."""

from interlock.cli.main import main

main()
