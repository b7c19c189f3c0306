"""`python -m narrows`, and what the command `narrows` starts."""

import sys


def start() -> None:
    """Run the command line; an interruption while it is being imported is one too."""
    try:
        from narrows.cli.main import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()


if __name__ == "__main__":
    start()
