#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""For tests/bench/bf16_error: how far the gradients in FOLDER, and those of PyTorch's bfloat16 autocast, are from PyTorch's in double on
the same weights and tokens. Prints the relative L2 distance over all tensors: mean and greatest."""
import json
import pathlib
import statistics
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
sys.dont_write_bytecode = True
from gpt2_torch_gpu import Gpt, load_weights, read_safetensors  # noqa: E402


def gradients(run, weights, tokens, double):
    model = Gpt(run)
    load_weights(model, dict(weights))
    shape = (run["batch"], run["context"])
    if double:
        model = model.double()
    with torch.autocast("cpu", torch.bfloat16, enabled=not double):
        loss = model(tokens[:-1].view(shape), tokens[1:].view(shape))
    loss.backward()
    return loss.item(), {name: parameter.grad.double() for name, parameter in model.named_parameters()}


def stored_gradients(run, path):
    model = Gpt(run)
    load_weights(model, read_safetensors(path))
    return {name: parameter.detach().double() for name, parameter in model.named_parameters()}


def print_distance(name, computed, exact):
    distances = [((computed[tensor] - exact[tensor]).norm() / exact[tensor].norm()).item() for tensor in exact]
    print(f"{name:28} mean {statistics.mean(distances):.2e}, greatest {max(distances):.2e}")


def main():
    folder = pathlib.Path(sys.argv[1])
    run = json.loads((folder / "run.json").read_text())
    weights = read_safetensors(folder / "weights.safetensors")
    tokens = torch.frombuffer(bytearray((folder / "tokens.bin").read_bytes()), dtype=torch.int32).to(torch.int64)
    exact_loss, exact = gradients(run, weights, tokens, double=True)
    loss, autocast = gradients(run, weights, tokens, double=False)
    print(f"PyTorch {torch.__version__}: loss in double {exact_loss:.6f}, in autocast {loss:.6f}")
    print_distance("muster in bf16", stored_gradients(run, folder / "gradients.safetensors"), exact)
    print_distance("PyTorch's autocast in bf16", autocast, exact)


main()
