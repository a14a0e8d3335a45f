"""`python -m claimdagd`: the same as the command claimdagd."""

import sys

from claimdagd.main import main

if __name__ == "__main__":
    sys.exit(main())
