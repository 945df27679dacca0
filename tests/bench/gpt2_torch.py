#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/bench/gpt2_cpu: whole training steps of GPT-2 124M in PyTorch on the CPU (Debian: python3-torch and
libopenblas0-pthread). Usage: gpt2_torch.py fp32|bf16 STEPS THREADS [processor]. The same model, batch, clipping and AdamW
as bench_gpt2_step. PyTorch's fused calls are used where it has them."""
import math
import statistics
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

LAYERS, HEADS, WIDTH, CONTEXT, VOCABULARY, BATCH, WARM_UP = 12, 12, 768, 64, 50257, 4, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.expand, self.project = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.gelu = nn.GELU(approximate="tanh")
        self.register_buffer("later", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1), persistent=False)

    def attention(self, x):
        batch, length, _ = x.shape
        query, key, value = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.qkv(x).split(WIDTH, 2))
        if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2.0 on
            out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(2, 3) * (1 / math.sqrt(WIDTH // HEADS))
            out = scores.masked_fill(self.later[:length, :length], -math.inf).softmax(3) @ value
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
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def main():
    dtype, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    processor = sys.argv[4:] == ["processor"]
    now = (lambda: time.process_time() / threads) if processor else time.perf_counter
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    torch.set_flush_denormal(True)
    model = Gpt()
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, betas=(0.9, 0.99))
    data = torch.randint(0, VOCABULARY, (WARM_UP + steps, BATCH, CONTEXT + 1))
    taken = []
    for step in range(WARM_UP + steps):
        begin = now()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            loss = model(data[step, :, :-1], data[step, :, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()
        taken.append(now() - begin)
    seconds = statistics.median(taken[WARM_UP:])
    print(f"{dtype} on PyTorch {torch.__version__}, {threads} threads, {steps} steps of {BATCH} x {CONTEXT} tokens")
    print(f"  whole step           {1e3 * seconds:8.1f} ms  {BATCH * CONTEXT / seconds:7.1f} tokens/s (fastest {1e3 * min(taken[WARM_UP:]):.1f} ms)")


main()
