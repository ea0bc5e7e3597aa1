"""What implicit steps and coupled inertias are solved with."""
