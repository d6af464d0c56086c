"""The programs: ``python -m cascade_decoding run`` is ``cascade run``."""

from __future__ import annotations

import signal
import sys

from ._lib import command_main, lab_main as _lab_main


def main() -> int:
    """The command line of this process. The package installs it as ``cascade``."""
    # As in the program: Ctrl-C is its own affair, or ends it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_main(["cascade", *sys.argv[1:]])


def lab_main() -> int:
    """The command line of this process. The package installs it as ``cascade-lab``."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _lab_main(["cascade-lab", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
