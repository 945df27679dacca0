# SPDX-License-Identifier: Apache-2.0
"""A strict reader of Prometheus' text format, version 0.0.4 (prometheus.io, "Exposition formats")."""
import re

METRIC = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"')
SAMPLE = re.compile(rf"({METRIC})(?:\{{(.*)\}})? (\S+)")


def labels_of(text):
    labels, at = {}, 0
    while text:
        found = LABEL.match(text, at)
        assert found, f"bad label in {text!r} at {at}"
        assert found[1] not in labels and not found[1].startswith("__"), text
        labels[found[1]] = found[2].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
        at = found.end()
        if at == len(text):
            break
        assert text[at] == ",", f"no comma in {text!r} at {at}"
        at += 1
    return labels


def parse(text):
    """{family: (type, {labels as a sorted tuple: value})}"""
    assert text.endswith("\n"), "the last line does not end"
    families, current, helped = {}, None, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ")[2]
            assert helped not in families, f"{helped} comes twice"
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name == helped and name not in families, f"HELP and TYPE of {name}"
            assert kind in ("counter", "gauge"), kind
            assert name.endswith("_total") == (kind == "counter"), f"{name} is a {kind}"
            families[name], current = (kind, {}), name
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample and sample[1] == current, f"not a sample of {current}: {line!r}"
            labels = tuple(sorted(labels_of(sample[2] or "").items()))
            assert labels not in families[current][1], f"twice: {line}"
            families[current][1][labels] = float(sample[3])
    return families
