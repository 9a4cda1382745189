"""Compares what gpexplain guesses of the networks of train.py with what it answers when flags say it.

    compare.py GPEXPLAIN OUT FROM TO      # the command, the folder of train.py, seeds

adds a line for each network to OUT/compared.jsonl, leaves out those that are there, and prints a table of all of them. Remove the
file after a change of the command. wrong: the largest difference on test rows is above .005 of a probability, or .02 deviations
of the training targets for a mean. A false alarm is a warning of CODES where the answer is not wrong. Networks whose loss fell in the last
quarter of their training by more than .05 of that of a constant are counted apart, as "unfinished". Wrong where flags say it: a warning of CODES then.
"""

import collections
import json
import os
import subprocess
import sys

CODES = ["bad-fit", "class-order", "guess-unsure", "not-optimum", "overconfident", "target-scaling-unsure", "targets-scaled", "wrong-outputs"]


def answer(command, base, flags):
    """Predictions of the test rows, warnings, and how the rows were scaled; or the error."""
    args = ["predict", "--model", base + ".onnx", "--data", base + ".train.csv", "--test-data", base + ".test.csv", "--json", "--quiet"]
    run = subprocess.run([command, *args, *flags], capture_output=True, text=True)
    if run.returncode:
        return None, [run.stderr.strip()], ""
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    fit = next(r["fit"] for r in rows if "fit" in r)
    rows = [r["probability"] or r.get("observation_mean") or r["mean"] for r in rows if "index" in r]
    return rows, [w["code"] for w in fit["warnings"]], fit["preprocessing"]["origin"]


def compare(command, base, how):
    truth, said, _ = answer(command, base, how["flags"])
    if truth is None:
        return dict(seed=how["seed"], error=said[0])
    guess, warned, origin = answer(command, base, [])
    out = dict(seed=how["seed"], kind=how["kind"], inputs=how["inputs"], targets=how["targets"], norm=how["norm"], ended=how["before"] - how["loss"] < 0.05 * how["constant"], rows=how["rows"], origin=origin, warned=[c for c in warned if c in CODES], true=[c for c in said if c in CODES])
    if guess is None:
        return dict(out, off=None, warned=warned)
    unit = 1.0 if how["kind"] == "classes" else how["sd"]
    out["off"] = max(abs(a - b) for p, q in zip(truth, guess) for a, b in zip(p, q)) / unit if len(truth[0]) == len(guess[0]) else 1e9
    return dict(out, wrong=out["off"] > (0.005 if how["kind"] == "classes" else 0.02))


def main(command, folder, first, last):
    path = os.path.join(folder, "compared.jsonl")
    lines = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    known = {line["seed"] for line in lines}
    with open(path, "a") as f:
        for seed in range(first, last):
            base = os.path.join(folder, str(seed))
            if seed in known or not os.path.exists(base + ".json"):
                continue
            with open(base + ".json") as g:
                how = json.load(g)
            if how is None:
                continue
            lines.append(compare(command, base, how))
            print(json.dumps(lines[-1]), file=f, flush=True)
    table([line for line in lines if first <= line["seed"] < last])


def table(lines):
    count = collections.Counter()
    for line in lines:
        if "error" in line:
            print("seed", line["seed"], line["error"], file=sys.stderr)
            continue
        wrong, warned = line.get("wrong", False), bool(line["warned"])
        groups = [line["kind"], "inputs " + line["inputs"], "targets " + line["targets"], "BatchNorm" if line["norm"] else "no norm", "all"]
        for key in groups if line["ended"] else ["unfinished"]:
            count[key, "networks"] += 1
            count[key, "wrong, silent"] += wrong and not warned
            count[key, "wrong, warned"] += wrong and warned
            count[key, "false alarms"] += warned and not wrong
            count[key, "alarms with flags"] += bool(line["true"])
    columns = ["networks", "wrong, silent", "wrong, warned", "false alarms", "alarms with flags"]
    print("|", " | ".join(["", *columns]), "|\n|" + "---|" * 6)
    for key in sorted({key for key, _ in count}):
        print("|", " | ".join([key, *(str(count[key, c]) for c in columns)]), "|")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
