"""`python -m claimdag_client.cli`: the same as the command claimdag."""

import sys

from claimdag_client.cli.main import main

sys.exit(main())
