"""Kernel sources: plain Python functions over pointers, compiled by `kernels.build`.

Pure. The broker never imports this package, it only loads the object file made from it; the build
and the tests do. What a kernel may and may not do is in ../README.md.
"""
