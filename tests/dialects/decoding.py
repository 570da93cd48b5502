"""Decode documents in a row, for the tests of the dialects."""

import json

from phasemeter.core.framing import Frame
from phasemeter.dialects import by_name


def decode_all(name, *documents):
    """Return the events of one response; a document may be text already."""
    decoder = by_name(name).decoder()
    events = []
    for document in documents:
        text = document if isinstance(document, str) else json.dumps(document)
        events.append(decoder.decode(Frame(text)))
    return events


def kinds_of(event):
    return [part.kind for part in event.parts]
