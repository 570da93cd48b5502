"""Time every client of the process, and the token counts that nobody asked for.

Needs PHASEMETER_BASE_URL (for instance http://127.0.0.1:8000/v1) and PHASEMETER_MODEL.
"""

import os

import httpx2
import openai

import phasemeter

phasemeter.instrument(inject_usage=True)

url, model = os.environ["PHASEMETER_BASE_URL"], os.environ["PHASEMETER_MODEL"]
question = [{"role": "user", "content": "Why is the sky blue?"}]
with openai.OpenAI(base_url=url, api_key=os.getenv("OPENAI_API_KEY", "none")) as client:
    stream = client.chat.completions.create(model=model, messages=question, stream=True)
    for chunk in stream:
        print(chunk.choices[0].delta.content or "", end="")  # no chunk without choices is seen
print("\ntokens", phasemeter.timeline(stream).usage.output_tokens)

body = {"model": model, "messages": question, "stream": True}
with httpx2.stream("POST", f"{url}/chat/completions", json=body) as response:
    response.read()
print("stamps by", phasemeter.timeline(response).stamp_source)

for group in phasemeter.snapshot()["groups"]:
    ttft = group["metrics"]["ttft"]
    print(f"{group['model']}: {ttft['count']} requests, ttft p50 {ttft['p50']:.1f} {ttft['unit']}")
