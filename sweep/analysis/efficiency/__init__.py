"""What accuracy costs."""
