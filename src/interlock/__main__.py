"""`python -m interlock` is the command `interlock`."""

import os
import sys

try:  # with nothing but what Python has loaded itself: it would look for all else in the folder one stands in
    here = os.getcwd()  # noqa: PTH109
except OSError:  # it is gone
    here = ""
if sys.path[:1] == [here]:
    del sys.path[0]  # in a clone that is somebody's code, and nobody trusts it

from interlock.cli.main import main

main()
