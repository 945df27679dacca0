#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transformers_compare.py MUSTER_TRAIN PRINT_LOGITS FOLDER: weights go both ways between muster-train and transformers, with the same
logits to 1e-5, the same loss and the same greedy text; and the speed of generation of both."""
import array
import os
import re
import shutil
import subprocess
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

TRAIN, PRINT_LOGITS, FOLDER = sys.argv[1:4]
os.chdir(FOLDER)
torch.manual_seed(3)
# On a busy machine the threads of such small operations wait longer for each other than they compute.
all_threads = torch.get_num_threads()
torch.set_num_threads(1)


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def logits_of(path, tokens):
    return torch.tensor([[float(number) for number in line.split()] for line in run(PRINT_LOGITS, path, *tokens).splitlines()])


def same_logits(model, path, tokens):
    with torch.no_grad():
        expected = model(tokens[None]).logits[0]
    difference = (logits_of(path, tokens.tolist()) - expected).abs().max().item()
    print(f"{path}: largest difference of logits {difference:.2e}")
    assert difference < 1e-5, path


def same_loss(model, path, tokens, data="text"):
    context, total = model.config.max_position_embeddings, 0.0
    with torch.no_grad():
        for at in range(0, len(tokens) - 1, context):
            part = tokens[at:at + context + 1]
            total += torch.nn.functional.cross_entropy(model(part[None, :-1]).logits[0], part[1:], reduction="sum").item()
    expected = total / (len(tokens) - 1)
    found = float(re.search(r"^loss ([0-9.]+)", run(TRAIN, "evaluate", path, "--data", data), re.M).group(1))
    print(f"{path}: loss {found}, transformers {expected:.6f}")
    assert abs(found - expected) < 2e-6


def bytes_of(text):
    return torch.tensor(list(text.encode()))


def same_greedy(model, path, prompt, count):
    tokens = torch.tensor([list(prompt.encode())])
    expected = bytes(model.generate(tokens, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)[0].tolist())
    found = subprocess.run([TRAIN, "generate", path, "--prompt", prompt, "--tokens", str(count), "--temperature", "0"], check=True,
                           capture_output=True).stdout
    assert found == expected, (found, expected)
    print(f"{path}: the same {count} greedy tokens")


def from_muster(name, *options):
    text = "".join(f"line {i} of a text that is long enough to learn something from\n" for i in range(300))
    open("text", "w").write(text)
    run(TRAIN, "--device=cpu", "--no-mfu", "--data", "text", "--layers", 3, "--width", 32, "--context", 48, "--steps", 120, "--output", name, *options)
    run(TRAIN, "export", name, "--output", f"{name}-exported")
    model = AutoModelForCausalLM.from_pretrained(f"{name}-exported").eval()
    # Of its text: on tokens that it never saw, float rounding alone can be larger, in transformers too.
    tokens = torch.tensor(list(text.encode()))[500:548]
    same_logits(model, name, tokens)
    same_loss(model, name, bytes_of(text))
    same_greedy(model, name, "line 7 of", 39)
    tokenizer = AutoTokenizer.from_pretrained(f"{name}-exported")
    assert tokenizer("any é text\n").input_ids == list("any é text\n".encode())
    assert tokenizer.decode(list("any é text\n".encode())) == "any é text\n"
    run(TRAIN, "export", name, "--dtype=bf16", "--output", f"{name}-bf16")
    rounded = AutoModelForCausalLM.from_pretrained(f"{name}-bf16", dtype="auto")
    assert rounded.dtype == torch.bfloat16
    for (of, exact), part in zip(model.named_parameters(), rounded.parameters()):
        assert torch.equal(exact.bfloat16(), part), of
    same_logits(rounded.float().eval(), f"{name}-bf16", tokens)
    # Through transformers and back: the same bytes.
    model.save_pretrained(f"{name}-saved")
    for source, to in ((name, "first"), (f"{name}-saved", "second")):
        run(TRAIN, "export", source, "--format=safetensors", "--output", f"{name}-{to}.safetensors")
    first, second = (load_file(f"{name}-{to}.safetensors") for to in ("first", "second"))
    assert first.keys() == second.keys() and all(torch.equal(first[tensor], second[tensor]) for tensor in first)


def random_llama(**changes):
    sizes = dict(num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, hidden_size=48, intermediate_size=70,
                 max_position_embeddings=40, vocab_size=301, rms_norm_eps=1e-4, bos_token_id=None, eos_token_id=None,
                 rope_parameters={"rope_type": "default", "rope_theta": 500.0})
    return LlamaForCausalLM(LlamaConfig(**{**sizes, **changes}))


# Pairs of each kind: one that keeps its frequency, one between, and two that are slowed down.
SCALED = {"max_position_embeddings": 128, "rope_parameters": {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64}}


def random_gpt2():
    return GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=3, n_embd=48, n_positions=40, vocab_size=301, bos_token_id=None, eos_token_id=None))


def from_transformers(kind, make):
    for name, dtype, shard in (("fp32", torch.float32, "5GB"), ("bf16", torch.bfloat16, "5GB"), ("fp16", torch.float16, "5GB"),
                               ("sharded", torch.float32, "30KB")):
        model, name = make(), f"{kind}-{name}"
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.05 * torch.randn_like(parameter))
        model.to(dtype).save_pretrained(name, max_shard_size=shard)
        assert os.path.exists(f"{name}/model.safetensors.index.json") == name.endswith("sharded")
        tokens = torch.randint(301, (40,))
        # Read again: .to() has also rounded the frequencies of rotary positions.
        same_logits(AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval(), name, tokens)
        run(TRAIN, "export", name, "--output", f"{name}-back")
        same_logits(AutoModelForCausalLM.from_pretrained(f"{name}-back").eval(), name, tokens)


def trains_on(name):
    """A run that starts from transformers' weights begins with their loss."""
    model = random_llama(vocab_size=256)
    model.save_pretrained(name)
    train_a_little(name, "text")
    same_loss(model.eval(), f"{name}-run", bytes_of(open("text").read()))


def train_a_little(name, data):
    run(TRAIN, "--device=cpu", "--no-mfu", "--data", data, "--validation-fraction", 0, "--init-from", name, "--batch", 2, "--steps", 2,
        "--warmup", 0, "--learning-rate", "1e-9", "--min-learning-rate", "0", "--output", f"{name}-run")


def like_llama3(name):
    """A vocabulary that needs four bytes a token, in llm.c's shard of Llama 3's kind, and scaled rotary positions."""
    vocabulary = 70001
    model = random_llama(vocab_size=vocabulary, **SCALED).eval()
    model.save_pretrained(name)
    tokens = torch.randint(vocabulary, (300,))
    header = array.array("i", [20240801, 7, len(tokens)] + 253 * [0])
    with open("wide.bin", "wb") as shard:
        shard.write(header.tobytes() + array.array("I", tokens.tolist()).tobytes())
    same_logits(model, name, tokens[:6])
    same_loss(model, name, tokens, "wide.bin")
    train_a_little(name, "wide.bin")
    same_loss(model, f"{name}-run", tokens, "wide.bin")
    run(TRAIN, "export", f"{name}-run", "--output", f"{name}-back")
    exported = AutoModelForCausalLM.from_pretrained(f"{name}-back").eval()
    assert exported.config.rope_parameters == model.config.rope_parameters
    same_logits(exported, f"{name}-run", tokens[:6])


def speed():
    torch.set_num_threads(all_threads)
    model = GPT2LMHeadModel(GPT2Config(bos_token_id=None, eos_token_id=None)).eval()
    model.save_pretrained("gpt2")
    prompt = "The licenses for most software are designed to take away your freedom. " * 4
    done = subprocess.run([TRAIN, "generate", "gpt2", "--tokenizer", "bytes", "--prompt", prompt, "--tokens", "64", "--temperature", "0"],
                          check=True, capture_output=True)
    print("muster-train:", done.stderr.decode().strip())
    tokens = torch.tensor([list(prompt.encode())])
    seconds = []
    for count in (1, 65):
        start = time.time()
        model.generate(tokens, max_new_tokens=count, min_new_tokens=count, do_sample=False, pad_token_id=0)
        seconds.append(time.time() - start)
    print(f"transformers: read {tokens.shape[1]} tokens in {seconds[0]:.3f} s, generated 64 in {seconds[1] - seconds[0]:.3f} s "
          f"({64 / (seconds[1] - seconds[0]):.1f} tokens/s), {torch.get_num_threads()} threads")


from_muster("gpt2-run", "--heads", 2)
from_muster("llama-run", "--model=llama", "--heads", 4, "--kv-heads", 2, "--mlp-width", 88, "--rotary-theta", 700)
from_muster("tied-run", "--model=llama", "--heads", 2, "--tied-output", "--norm-epsilon", "1e-4")
from_transformers("gpt2", random_gpt2)
from_transformers("llama", random_llama)
from_transformers("scaled-llama", lambda: random_llama(**SCALED))
from_transformers("tied-llama", lambda: random_llama(tie_word_embeddings=True, num_key_value_heads=6))
trains_on("start")
like_llama3("llama3")
speed()
shutil.rmtree("gpt2")
