"""What a method keeps, measured; and where it is stable."""
