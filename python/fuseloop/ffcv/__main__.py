"""Runs an unchanged FFCV script: ``python -m fuseloop.ffcv SCRIPT [ARGUMENTS]``, or ``-m MODULE [ARGUMENTS]``."""

from __future__ import annotations

import os
import runpy
import sys

import fuseloop.ffcv

_USAGE = "usage: python -m fuseloop.ffcv SCRIPT [ARGUMENTS], or python -m fuseloop.ffcv -m MODULE [ARGUMENTS]"


def main() -> None:
    arguments = sys.argv[1:]
    is_module = arguments[:1] == ["-m"]
    arguments = arguments[is_module:]
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if arguments else _USAGE)
    fuseloop.ffcv.install()
    # Processes that the script starts get this path, and with it this package as `ffcv`.
    shim = os.path.join(os.path.dirname(os.path.abspath(fuseloop.ffcv.__file__)), "_path")
    sys.path[0] = os.getcwd() if is_module else os.path.dirname(os.path.abspath(arguments[0]))
    sys.path.insert(1, shim)
    sys.argv = arguments
    if is_module:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
        return
    if not os.path.isfile(arguments[0]):
        sys.exit(f"{arguments[0]}: there is no such script\n{_USAGE}")
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
