#!/usr/bin/env python3
"""Compares the speed of compiled packages on the host with ONNX Runtime's CPU provider.

    ./dev build release && artifacts/host-speed/compare.py

Each round times every model in turn, first by `lowc bench`, then by ONNX Runtime, with equally many threads on the same
cores, so that whatever else the machine does falls on both. The medians over all runs of all rounds are compared. ONNX Runtime's CPU
provider multiplies no FP8 matrices: our FP8 models are compared with the same network in f32.

Writes results.json and results.md beside itself, or into --output-dir. ONNX Runtime is taken from a virtual environment in
build/host-speed, which is made and filled from PyPI when it is not there.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import environment  # noqa: E402

ROOT = HERE.parents[1]
WORK = ROOT / "build" / "host-speed"
PACKAGES = ["onnxruntime", "numpy"]

# Ours, ONNX Runtime's, and runs a round of each.
PAIRS = [
    ("mlp-row1", "mlp-row1-f32", 200),
    ("mlp-row1-f32", "mlp-row1-f32", 200),
    ("mlp-b1", "mlp-b1-f32", 10),
    ("mlp-b1-f32", "mlp-b1-f32", 10),
    ("mlp-b2-repeat3", "mlp-b2-repeat3-f32", 3),
    ("mlp-b2-repeat3-f32", "mlp-b2-repeat3-f32", 3),
    ("flash-attention-b1", "flash-attention-b1-f32", 5),
    ("flash-attention-b1-f32", "flash-attention-b1-f32", 5),
]


def enter_environment():
    """Goes on in the virtual environment, if this interpreter has no ONNX Runtime."""
    if all(importlib.util.find_spec(package) for package in PACKAGES):
        return
    python = WORK / "venv" / "bin" / "python"
    if pathlib.Path(sys.prefix) == WORK / "venv":
        sys.exit("compare.py: onnxruntime cannot be imported from build/host-speed/venv; remove that folder and try again")
    if not python.exists():
        venv.create(WORK / "venv", with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    os.execv(python, [str(python), *sys.argv])


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def make_models(lowc, names):
    WORK.mkdir(parents=True, exist_ok=True)
    for name in names:
        subprocess.run([lowc, "workload", name, "-o", WORK / f"{name}.onnx"], check=True, stdout=subprocess.DEVNULL)


class OnnxRuntime:
    """One session for each model, and the same input for all runs."""

    def __init__(self, name, threads):
        import numpy
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(WORK / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
        model_input = self.session.get_inputs()[0]
        self.feed = {model_input.name: numpy.random.default_rng(0).standard_normal(model_input.shape, numpy.float32)}

    def milliseconds(self, runs):
        self.session.run(None, self.feed)  # warms up, as lowc does
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            self.session.run(None, self.feed)
            times.append((time.perf_counter() - begin) * 1e3)
        return times


def table(rows):
    lines = [
        "| low | ms | GFLOP/s | ONNX Runtime | ms | GFLOP/s | times as fast |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, other = row["low"], row["onnxruntime"]
        lines.append(
            f"| {ours['model']} | {ours['median_milliseconds']:.3f} | {ours['gflops']:.1f} "
            f"| {other['model']} | {other['median_milliseconds']:.3f} | {other['gflops']:.1f} | {row['ratio']:.2f} |"
        )
    return "\n".join(lines) + "\n"


def summary(model, milliseconds, gflop):
    median = statistics.median(milliseconds)
    return {
        "model": model,
        "median_milliseconds": median,
        "minimum_milliseconds": min(milliseconds),
        "gflops": gflop / median * 1e3,
        "milliseconds": [round(value, 4) for value in milliseconds],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowc", type=pathlib.Path, default=ROOT / "build/release/compiler/lowc/lowc")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", help="our model's name; may be given several times")
    parser.add_argument("--output-dir", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds has to be at least 1")
    if not arguments.lowc.exists():
        parser.error("there is no lowc; `./dev build release` builds one, --lowc names another")
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= arguments.threads <= len(cores):
        parser.error(f"--threads has to be 1 to {len(cores)}, the cores that this process may use")
    pairs = [pair for pair in PAIRS if not arguments.only or pair[0] in arguments.only]
    if not pairs:
        parser.error(f"--only has to name one of {', '.join(pair[0] for pair in PAIRS)}")

    enter_environment()
    import onnxruntime

    os.sched_setaffinity(0, cores[: arguments.threads])  # children inherit it
    about = environment(threads=arguments.threads, onnxruntime=onnxruntime.__version__, rounds=arguments.rounds)
    make_models(arguments.lowc, sorted({name for pair in pairs for name in pair[:2]}))
    for ours in {pair[0] for pair in pairs}:
        output_of(arguments.lowc, "compile", WORK / f"{ours}.onnx", "-o", WORK / f"{ours}.low")
    times = [([], []) for _ in pairs]
    gflop = {}
    for number in range(arguments.rounds):
        for (ours, other, runs), (our_times, other_times) in zip(pairs, times):
            report = json.loads(
                output_of(arguments.lowc, "bench", WORK / f"{ours}.low", "--json", "--threads", arguments.threads, "--runs", runs)
            )
            our_times += report["milliseconds"]
            gflop[ours] = report["gflop"]
            about["target"] = report["target"]
            # Made late and dropped at once: threads of a session may spin for a while after a run.
            session = OnnxRuntime(other, arguments.threads)
            other_times += session.milliseconds(runs)
            del session
            print(f"round {number + 1} of {arguments.rounds}: {ours} {statistics.median(report['milliseconds']):.3f} ms, "
                  f"ONNX Runtime {statistics.median(other_times[-runs:]):.3f} ms", file=sys.stderr)

    rows = []
    for (ours, other, _), (our_times, other_times) in zip(pairs, times):
        row = {"low": summary(ours, our_times, gflop[ours]), "onnxruntime": summary(other, other_times, gflop[ours])}
        row["ratio"] = row["onnxruntime"]["median_milliseconds"] / row["low"]["median_milliseconds"]
        rows.append(row)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "environment": about, "results": rows}
    (arguments.output_dir / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (arguments.output_dir / "results.md").write_text(table(rows), encoding="utf-8")
    print(table(rows), end="")


if __name__ == "__main__":
    main()
