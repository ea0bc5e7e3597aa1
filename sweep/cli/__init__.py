"""The command `sweep`: one file a subcommand. Only this package imports click."""
