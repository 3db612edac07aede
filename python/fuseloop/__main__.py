"""The command ``fuseloop``, in this interpreter: ``python -m fuseloop demo``."""

from __future__ import annotations

import signal
import sys

from ._fuseloop import run_command

__all__ = ["main"]


def main() -> None:
    """Runs the command with the arguments of this process, and ends the process with its exit code."""
    # Python would turn Ctrl-C into an exception, and raise it when the command is done.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(run_command(["fuseloop", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
