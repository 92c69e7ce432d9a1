"""`python -m posnmt`."""

from posnmt.cli.main import main

main()
