"""The command `ledgerstone`: one module per subcommand, put together in `main`."""
