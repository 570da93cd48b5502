"""Time one streamed answer and print its phases.

Needs PHASEMETER_BASE_URL (for instance http://127.0.0.1:8000/v1) and PHASEMETER_MODEL.
"""

import os

import openai

import phasemeter

url, key = os.environ["PHASEMETER_BASE_URL"], os.getenv("OPENAI_API_KEY", "none")
client = phasemeter.wrap(openai.OpenAI(base_url=url, api_key=key))
stream = client.chat.completions.create(
    model=os.environ["PHASEMETER_MODEL"],
    messages=[{"role": "user", "content": "Why is the sky blue?"}],
    stream=True,
)
for chunk in stream:
    print(chunk.choices[0].delta.content or "" if chunk.choices else "", end="", flush=True)

timing = phasemeter.timeline(stream)
print(f"\noutcome {timing.outcome}, stamps by {timing.stamp_source}")
if timing.prefill_s is not None:
    gaps_ms = [gap_ns / 1e6 for gap_ns, _ in timing.gaps()]
    print(
        f"prefill {timing.prefill_s * 1000:.1f} ms, decode {(timing.decode_s or 0) * 1000:.1f} ms"
    )
    print(f"{len(gaps_ms)} gaps, longest {max(gaps_ms, default=0):.1f} ms")
