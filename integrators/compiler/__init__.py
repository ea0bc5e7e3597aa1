"""What compiles kernels: the decorator, lanes, views of memory, and where machine code is kept."""
