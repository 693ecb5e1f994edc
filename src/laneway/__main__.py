"""`python -m laneway` is the command `laneway`."""

from __future__ import annotations

from laneway.cli.main import main

if __name__ == "__main__":
    main()
