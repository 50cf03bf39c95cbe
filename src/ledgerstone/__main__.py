"""`python -m ledgerstone` is the command `ledgerstone`. Shell; the commands are in cli/."""

from ledgerstone.cli.main import main

if __name__ == "__main__":
    main()
