"""What a worker does: integrate runs and references, record them, and put records of them."""
