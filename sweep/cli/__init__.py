"""The command `sweep`: a file a subcommand, in a folder a group. Only here click is imported."""
