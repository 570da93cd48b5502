"""A small real LLM server in numpy: the embedded reference target.

It computes a real transformer with random weights on one core, batches continuously, speaks the
OpenAI-compatible HTTP surface, hands KV caches from a prefill to a decode instance, and records
the true emit time of every token. It is an instrument, not a serving product, and imports nothing
else of phasemeter. This package module stays empty of imports, because the number of BLAS threads
must be fixed before numpy is first loaded.

Read in this order: `config`, `shape`, `model`, `schedule`, `engine`, `handoff`, `app`, `serve`.
"""
