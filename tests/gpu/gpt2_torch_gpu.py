#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The steps of bench_gpt2_gpu in PyTorch: gpt2_torch_gpu.py FOLDER [STEPS], with the weights, tokens, settings and losses that the
benchmark wrote to FOLDER. The model is nanoGPT's with biases and GPT-2's GELU (tanh), trained as nanoGPT trains on one GPU: bfloat16
autocast, flash attention, fused AdamW, torch.compile where it works, TF32 products. Prints both losses and the time of each step when
it ends, then the greatest difference of the losses, and tokens/s of the median step. Without a GPU it computes on the CPU.
TORCH_COMPILE=0: without torch.compile. Needs PyTorch alone. Exit code 1 if a loss differs by more than 0.05."""
import contextlib
import json
import math
import os
import pathlib
import statistics
import struct
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

TOLERATED = 0.05  # of a loss, after tens of steps in bfloat16


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.expand, self.project = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        batch, length, width = x.shape
        parts = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in self.qkv(x).split(width, 2))
        query, key, value = parts
        if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2.0 on
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            out = (query @ key.transpose(2, 3) / math.sqrt(width // self.heads)).masked_fill(later, -math.inf).softmax(3) @ value
        return self.output(out.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.project(F.gelu(self.expand(self.mlp_norm(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, run):
        super().__init__()
        self.token_embedding = nn.Embedding(run["vocabulary"], run["width"])
        self.position_embedding = nn.Embedding(run["context"], run["width"])
        self.layers = nn.ModuleList(Block(run["width"], run["heads"]) for _ in range(run["layers"]))
        self.final_norm = nn.LayerNorm(run["width"])

    def forward(self, tokens, targets):
        x = self.token_embedding(tokens) + self.position_embedding.weight[:tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        logits = F.linear(self.final_norm(x), self.token_embedding.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))


def read_safetensors(path):
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            piece = bytearray(data[8 + length + begin:8 + length + end])
            tensors[name] = torch.frombuffer(piece, dtype=torch.float32).reshape(entry["shape"])
    return tensors


def load_weights(model, tensors):
    """Each parameter of the model by its name in a checkpoint of muster-train."""
    names = {"token_embedding.weight": "token_embedding", "position_embedding.weight": "position_embedding"}
    for name, parameter in model.named_parameters():
        stored = names.get(name, name)
        if "norm." in stored:
            stored = stored.replace("norm.weight", "norm.gain")
        for linear, part in (("qkv", "attention"), ("output", "attention"), ("expand", "mlp"), ("project", "mlp")):
            stored = stored.replace(f".{linear}.", f".{part}.{linear}.")
        with torch.no_grad():
            parameter.copy_(tensors.pop(stored))
    if tensors:
        raise SystemExit(f"the model has no place for {', '.join(tensors)}")


def make_optimizer(model, run, device):
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": run["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    fused = {"fused": True} if device == "cuda" else {}
    return torch.optim.AdamW(groups, lr=run["learning_rate"], betas=(run["beta1"], run["beta2"]), eps=run["epsilon"], **fused)


def compiled(model, device):
    """The model, compiled if PyTorch can, and a word on it."""
    if device != "cuda" or os.environ.get("TORCH_COMPILE") == "0" or not hasattr(torch, "compile"):
        return model, "not compiled"
    return torch.compile(model), "compiled"


def train(model, optimizer, run, tokens, device, steps):
    print("step  muster     PyTorch           ms", flush=True)
    rows = run["batch"] * run["context"]
    shape = (run["batch"], run["context"])
    losses, seconds = [], []
    for step in range(steps):
        begin = time.perf_counter()
        piece = tokens[step * rows:(step + 1) * rows + 1].to(device, torch.int64, non_blocking=True)
        with torch.autocast(device, torch.bfloat16) if device == "cuda" else contextlib.nullcontext():
            loss = model(piece[:-1].view(shape), piece[1:].view(shape))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), run["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
        ours = run["losses"][step] if step < len(run["losses"]) else math.nan
        print(f"{step:4}  {ours:.5f}  {losses[-1]:.5f}  {1e3 * seconds[-1]:9.2f}", flush=True)
    return losses, seconds


def main():
    folder = pathlib.Path(sys.argv[1])
    run = json.loads((folder / "run.json").read_text())
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else len(run["losses"])
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    model = Gpt(run).to(device)
    load_weights(model, read_safetensors(folder / "weights.safetensors"))
    tokens = torch.frombuffer(bytearray((folder / "tokens.bin").read_bytes()), dtype=torch.int32)
    optimizer = make_optimizer(model, run, device)
    fast, how = compiled(model, device)
    name = torch.cuda.get_device_name() if device == "cuda" else "the CPU, in float32"
    print(f"PyTorch {torch.__version__} on {name}, {how}: {run['batch']} sequences of {run['context']} tokens", flush=True)
    losses, seconds = train(fast, optimizer, run, tokens, device, steps)
    difference = max(abs(ours - theirs) for ours, theirs in zip(run["losses"], losses))
    median = statistics.median(seconds[run["warm_up"]:])
    rate = run["batch"] * run["context"] / median
    memory = f", {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB" if device == "cuda" else ""
    print(f"greatest difference of a loss: {difference:.5f}")
    print(f"PyTorch {1e3 * median:.2f} ms a step, {rate:.0f} tokens/s{memory}; muster {run['tokens_per_second']:.0f} tokens/s: "
          f"{run['tokens_per_second'] / rate:.2f} times PyTorch's")
    sys.exit(0 if difference <= TOLERATED else 1)


if __name__ == "__main__":
    main()
