"""Load generation: plan first, drive from non-blocking sockets, append records as they finish."""
