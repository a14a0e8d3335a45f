"""The program claimdag, also as `python -m claimdag_client.cli`.

Ctrl-C while modules load or the interpreter leaves would print where Python was. Therefore SIGINT ends the process
without a word until the command line can catch KeyboardInterrupt, and again once it has returned.
"""

import sys
from signal import SIG_DFL, SIG_IGN, SIGINT, default_int_handler, getsignal, signal


def main() -> int:
    """Run the command line of this process. Returns its exit status."""
    if getsignal(SIGINT) is SIG_IGN:
        # A background job of a shell: Ctrl-C at the terminal is not meant for it.
        from claimdag_client.cli.main import main as run

        return run()
    signal(SIGINT, SIG_DFL)
    from claimdag_client.cli.main import main as run

    try:
        try:
            signal(SIGINT, default_int_handler)
            return run()
        finally:
            signal(SIGINT, SIG_DFL)
    except KeyboardInterrupt:
        signal(SIGINT, SIG_DFL)
        return 130


if __name__ == "__main__":
    sys.exit(main())
