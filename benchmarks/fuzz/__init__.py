"""Random splits and mutations of recorded responses, against framing, HTTP parsing and decoding."""
