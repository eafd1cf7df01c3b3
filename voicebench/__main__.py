"""``python -m voicebench``."""

import sys

from voicebench.cli import main

if __name__ == "__main__":
    sys.exit(main())
