"""`transformers serve` with random weights made in memory, and with a scheduler that can be chosen.

Runs in the server's own environment, so it imports nothing of ours. Two things that the command does not
offer are put in place before it starts: the weights come from the model's configuration and not from a
file, and the scheduler of continuous batching is the one asked for.
"""

from __future__ import annotations

import argparse

import torch
import transformers
from transformers.cli.serve import Serve
from transformers.cli.serving.model_manager import ModelManager
from transformers.generation.continuous_batching.scheduler import SCHEDULER_MAPPING


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--policy", choices=["fifo", "prefill_first"], required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--max-batch-tokens", type=int, required=True)
    parser.add_argument("--num-blocks", type=int)
    parser.add_argument("--memory-share", type=float, help="of the free memory, for the cache")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    # The command always asks for the default one, by this name.
    SCHEDULER_MAPPING["fifo"] = SCHEDULER_MAPPING[given.policy]
    print(f"scheduler {SCHEDULER_MAPPING['fifo'].__name__}", flush=True)
    ModelManager._load_model = random_model
    Serve(
        force_model=given.model,
        continuous_batching=True,
        device=given.device,
        dtype=given.dtype,
        cb_max_batch_tokens=given.max_batch_tokens,
        cb_num_blocks=given.num_blocks,
        cb_max_memory_percent=given.memory_share,
        host=given.host,
        port=given.port,
    )


def random_model(
    self: ModelManager, model_id_and_revision: str, **ignored: object
) -> transformers.PreTrainedModel:
    """Return a model of the folder's shape with random weights, made on its device."""
    folder = model_id_and_revision.rpartition("@")[0]
    config = transformers.AutoConfig.from_pretrained(folder)
    torch.manual_seed(0)
    with torch.device(self.device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=self.dtype)
    with torch.no_grad():
        # The end mark is no text; it loses against thousands of random logits.
        model.get_output_embeddings().weight[-1] = 0
    model.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    model.name_or_path = folder
    return model.eval()


if __name__ == "__main__":
    main()
