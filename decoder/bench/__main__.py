"""`python -m decoder.bench`."""

from __future__ import annotations

import sys

from decoder.bench import main

if __name__ == "__main__":
    sys.exit(main())
