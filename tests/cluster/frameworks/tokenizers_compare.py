#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tokenizers_compare.py MUSTER_TRAIN FOLDER [MEGABYTES]: `muster-train tokenize` against the tokenizers package, with tokenizers of every
known kind trained here, on random Unicode, on every character, on long runs and on a text of files; and the speed of both."""
import array
import glob
import json
import os
import random
import shutil
import subprocess
import sys
import time

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

TRAIN, FOLDER = sys.argv[1], sys.argv[2]
MEGABYTES = float(sys.argv[3]) if len(sys.argv) > 3 else 2
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
CL100K = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
WORDS = ["the", "quick", "über", "naïve", "Привет", "мир", "数据", "训练", "hello", "world", "it's", "we'll", "I've", "2024", "1234567", "λόγος",
         "🙂", "e\u0301", "\tx", "  two", "\n", "\r\n", "    ", "a" * 9, "!!!", "...", "ſ's", "ß", "(", "x=1;"]


def english():
    texts = [open(path, encoding="utf-8", errors="ignore").read() for path in sorted(glob.glob("/usr/share/common-licenses/*")) +
             sorted(glob.glob("/usr/include/*.h"))]
    return "\n".join(texts)


def made(kind, size, text):
    """A trained tokenizer of this kind."""
    byte_level = pre_tokenizers.ByteLevel
    by_split = lambda regex: pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(regex), "isolated"), byte_level(add_prefix_space=False, use_regex=False)])
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    tokenizer.pre_tokenizer = {"gpt2": lambda: byte_level(add_prefix_space=False), "prefix": lambda: byte_level(add_prefix_space=True),
                               "plain": lambda: byte_level(add_prefix_space=False, use_regex=False), "split": lambda: by_split(GPT2),
                               "llama3": lambda: by_split(LLAMA3), "qwen2": lambda: by_split(QWEN2), "cl100k": lambda: by_split(CL100K)}[kind]()
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>"] if kind in ("gpt2", "prefix") else []
    tokenizer.train_from_iterator(text, trainers.BpeTrainer(vocab_size=size, initial_alphabet=byte_level.alphabet(), special_tokens=special,
                                                            show_progress=False))
    if not special:
        tokenizer.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>"])
    tokenizer.add_tokens([AddedToken("<x>", normalized=True), AddedToken("<x>y", normalized=True), AddedToken("x>y", normalized=False)])
    return tokenizer


def random_text(seed, size):
    draw = random.Random(seed)
    pools = [lambda: chr(draw.randrange(0x80)), lambda: chr(draw.randrange(0x80, 0x800)), lambda: chr(draw.randrange(0x800, 0xd800)),
             lambda: chr(draw.randrange(0xe000, 0x110000)), lambda: chr(draw.randrange(0x10000, 0x32000)), lambda: draw.choice("abcABC'sStTdDmM \n019"),
             lambda: draw.choice(" \n\t\r\x0b\x0c\x85\xa0\u180e\u1680\u2000\u200b\u2028\u2029\u202f\u205f\u3000\x1c\ufeff"),
             lambda: draw.choice(["'s", "'S", "'ſ", "'LL", "'re", "'VE", "\u212a", "ﬆ", "'t", "<|endoftext|>", "<x>", "<x>y", "x>y", "<|begin_of_text|>"]),
             lambda: draw.choice(WORDS), lambda: draw.choice("é\u0301\u200d🙂\u0660\u0966\uff11²½Ⅰ\U000e0100")]
    text, count = [], 0
    while count < size:
        pool = draw.choice(pools)
        for _ in range(draw.randrange(1, 9)):
            text.append(pool())
            count += len(text[-1].encode())
    return "".join(text)


def texts():
    yield from ((f"random {seed}", random_text(seed, int(MEGABYTES * 1e6))) for seed in range(3))
    every = [chr(code) for code in range(0x110000) if not 0xd800 <= code < 0xe000]
    yield "every character", "".join(f"a{c}b {c}{c}1{c} '{c}\n" for c in every)
    yield "runs", " " * 300000 + "x" + "\n" * 100001 + "a" * 100000 + "!" * 100000 + "1" * 100000 + " \n" * 50000 + "ab" * 50000 + "\t"
    yield "short", "x"


def ours(path, text, *options):
    with open(f"{FOLDER}/text", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    shutil.rmtree(f"{FOLDER}/shards", ignore_errors=True)
    done = subprocess.run([TRAIN, "tokenize", "--tokenizer", path, "--document-token", "none", "--output", f"{FOLDER}/shards", *options,
                           f"{FOLDER}/text"], check=True, capture_output=True, text=True)
    tokens = array.array("H")
    with open(f"{FOLDER}/shards/tokens_train_000000.bin", "rb") as file:
        tokens.frombytes(file.read()[1024:])
    return tokens.tolist(), float(done.stdout.split(" bytes in ")[1].split(" s ")[0])


def main():
    draw = random.Random(5)
    small = [" ".join(draw.choices(WORDS, k=30)) for _ in range(400)]
    for kind in ("gpt2", "prefix", "plain", "split", "llama3", "qwen2", "cl100k"):
        tokenizer = made(kind, 420, small)
        path = f"{FOLDER}/{kind}.json"
        tokenizer.save(path)
        if kind == "split":  # merges as texts, as older versions wrote them
            saved = json.load(open(path, encoding="utf-8"))
            saved["model"]["merges"] = [" ".join(merge) for merge in saved["model"]["merges"]]
            json.dump(saved, open(path, "w", encoding="utf-8"))
        for name, text in texts():
            if kind == "plain" and name != "short":
                text = text[:100000]  # one piece
            if kind in ("plain", "prefix") and name == "runs":
                continue
            expected = tokenizer.encode(text, add_special_tokens=False).ids
            found, _ = ours(path, text)
            assert found == expected, f"{kind}, {name}: other tokens, first at {next(i for i, (a, b) in enumerate(zip(found, expected)) if a != b)}"
            print(f"equal: {kind}, {name}: {len(found)} tokens of {len(text.encode())} bytes", flush=True)
    text = english()
    tokenizer = made("llama3", 20000, text.split("\n"))
    tokenizer.save(f"{FOLDER}/large.json")
    text *= max(1, int(20e6 / len(text)))
    expected = tokenizer.encode(text[:4000000], add_special_tokens=False).ids
    found, _ = ours(f"{FOLDER}/large.json", text[:4000000])
    assert found == expected, "English text: other tokens"
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    lines = [text[at:at + 10000] for at in range(0, len(text), 10000)]
    seconds = []
    for _ in range(3):
        start = time.time()
        tokenizer.encode_batch_fast(lines, add_special_tokens=False)
        seconds.append((time.time() - start, ours(f"{FOLDER}/large.json", text)[1]))
    theirs, mine = min(s for s, _ in seconds), min(s for _, s in seconds)
    size = len(text.encode()) / 1e6
    print(f"speed: muster-train {size / mine:.1f} MB/s, tokenizers' encode_batch_fast {size / theirs:.1f} MB/s, {os.cpu_count()} CPUs")


main()
