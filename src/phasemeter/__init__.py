"""phasemeter: a client-side phase meter for streamed LLM responses."""
