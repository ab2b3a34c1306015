"""`python -m interlock.demo`"""

import sys

from interlock.demo.tour import main

sys.exit(main(sys.argv[1:]))
