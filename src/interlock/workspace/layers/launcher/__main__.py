"""Entry of the launcher; what takes time to compile is in its other modules, which Python keeps compiled."""

import os
import sys

if __name__ == "__main__":
    # At the end: nothing here may take the place of a standard module.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    if sys.argv[1] == "--nursery":
        __import__("launcher.nursery").nursery.serve(int(sys.argv[2]))
    __import__("launcher.supervise").supervise.main(sys.argv[1:])
