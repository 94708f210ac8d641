"""`python -m vedette.listeners`: the process of a listener, as the hub starts it."""

import sys

from vedette.listeners.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
