"""`python -m phasemeter`: the command line."""

from phasemeter.cli import main

main()
