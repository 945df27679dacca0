#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/bench/gpt2_cpu: whole training steps of GPT-2 124M in PyTorch 2 on the CPU. Usage: gpt2_torch.py fp32|bf16
eager|compiled|onednn STEPS THREADS BATCH CONTEXT [processor]. The same model, clipping and AdamW as bench_gpt2_step. PyTorch's fused
calls are used. With "onednn" its linear layers are computed by its oneDNN also in fp32, where it would otherwise use MKL."""
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

DTYPE, VARIANT, STEPS, THREADS, BATCH, CONTEXT = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:7])
LAYERS, HEADS, WIDTH, VOCABULARY, WARM_UP = 12, 12, 768, 50257, 3


class OnednnLinear(torch.autograd.Function):
    @staticmethod
    def product(rows, weight, bias=None):
        return torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")

    @staticmethod
    def forward(context, x, weight, bias):
        context.save_for_backward(x, weight)
        context.biased = bias is not None
        return OnednnLinear.product(x, weight, bias)

    @staticmethod
    def backward(context, d_out):
        x, weight = context.saved_tensors
        rows = d_out.reshape(-1, d_out.shape[-1])
        d_x = OnednnLinear.product(d_out, weight.t())
        d_weight = OnednnLinear.product(rows.t(), x.reshape(-1, x.shape[-1]).t())
        return d_x, d_weight, rows.sum(0) if context.biased else None


def linear(x, weight, bias=None):
    if VARIANT != "onednn" or DTYPE == "bf16":  # autocast's bf16 linear layers are oneDNN's
        return F.linear(x, weight, bias)
    return OnednnLinear.apply(x, weight, bias)


class Linear(nn.Linear):
    def forward(self, x):
        return linear(x, self.weight, self.bias)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.output = Linear(WIDTH, 3 * WIDTH), Linear(WIDTH, WIDTH)
        self.expand, self.project = Linear(WIDTH, 4 * WIDTH), Linear(4 * WIDTH, WIDTH)
        self.gelu = nn.GELU(approximate="tanh")

    def attention(self, x):
        batch, length, _ = x.shape
        query, key, value = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.qkv(x).split(WIDTH, 2))
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(out.transpose(1, 2).reshape(batch, length, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.project(self.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.Sequential(*[Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.blocks(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])))
        logits = linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    processor = sys.argv[7:] == ["processor"]
    now = (lambda: time.process_time() / THREADS) if processor else time.perf_counter
    torch.set_num_threads(THREADS)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    model = Gpt()
    compute_loss = torch.compile(model) if VARIANT == "compiled" else model
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.99), fused=True)
    data = torch.randint(0, VOCABULARY, (WARM_UP + STEPS, BATCH, CONTEXT + 1))
    taken = []
    for step in range(WARM_UP + STEPS):
        begin = now()
        with torch.autocast("cpu", torch.bfloat16, enabled=DTYPE == "bf16"):
            loss = compute_loss(data[step, :, :-1], data[step, :, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        taken.append(now() - begin)
    seconds = statistics.median(taken[WARM_UP:])
    print(f"{DTYPE} on PyTorch {torch.__version__}, {VARIANT}, {THREADS} threads, {STEPS} steps of {BATCH} x {CONTEXT} tokens")
    print(f"  whole step           {1e3 * seconds:8.1f} ms  {BATCH * CONTEXT / seconds:7.1f} tokens/s (fastest {1e3 * min(taken[WARM_UP:]):.1f} ms)")


main()
