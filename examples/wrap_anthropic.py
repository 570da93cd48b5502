"""Time one streamed answer of a Messages API through the anthropic client, thinking told apart.

Needs PHASEMETER_BASE_URL (for instance https://api.anthropic.com) and PHASEMETER_MODEL.
"""

import os

import anthropic

import phasemeter

url, key = os.environ["PHASEMETER_BASE_URL"], os.getenv("ANTHROPIC_API_KEY", "none")
client = phasemeter.wrap(anthropic.Anthropic(base_url=url, api_key=key))
with client.messages.stream(
    model=os.environ["PHASEMETER_MODEL"],
    max_tokens=256,
    messages=[{"role": "user", "content": "Why is the sky blue?"}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)

timing = phasemeter.timeline(stream)
kinds = [event.kind for event in timing.events]
print(f"\noutcome {timing.outcome}, {timing.usage.output_tokens} tokens")
print(f"token events: {', '.join(f'{kinds.count(kind)} {kind}' for kind in sorted(set(kinds)))}")
