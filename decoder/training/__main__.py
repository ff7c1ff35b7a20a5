"""`python -m decoder.training`."""

from __future__ import annotations

import sys

from decoder.training import main

if __name__ == "__main__":
    sys.exit(main())
