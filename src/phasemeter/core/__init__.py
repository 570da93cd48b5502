"""The timing core: clock, framing, timeline and the stream meter. Standard library only."""
