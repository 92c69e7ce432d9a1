"""`python -m posnmt`."""

from posnmt.cli import main

main()
