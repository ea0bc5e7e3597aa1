"""The compiler of kernels: the decorator, element types, views of memory, and a disk cache."""
