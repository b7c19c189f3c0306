"""`python -m narrows`."""

from narrows.cli.main import main

main()
