"""Where bytes are stamped: a network backend that notes each socket read, and a timing transport.

Both work over the module object of the client's own family (httpx or httpx2, httpcore or httpcore2) and
import none of them.
"""
