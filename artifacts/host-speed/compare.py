#!/usr/bin/env python3
"""Compares the speed of compiled packages on the host with ONNX Runtime's CPU provider.

    ./dev build release && artifacts/host-speed/compare.py

Each round times every model in turn, first by `lowc bench`, then by ONNX Runtime, with equally many threads on the same
cores, so that whatever else the machine does falls on both. The medians over all runs of all rounds are compared. ONNX Runtime's CPU
provider multiplies no FP8 matrices: our FP8 models are compared with the same network in f32. The i8 model it has itself.

Each round also measures what the processor reaches (peaks.cpp): multiply-adds of f32, dot products of bf16 and of i8, and
reads of as many bytes as each model has parameters. A model's bound is the longer of two times: its multiply-adds at these
peaks, those of FP8 and i8 as dot products where the processor has them; and one read of its parameters.

Writes results.json and results.md beside itself, or into --output-dir. ONNX Runtime is taken from a virtual environment in
build/host-speed, which is made and filled from PyPI when it is not there.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import checked_arguments, enter_environment, environment, output_of, study_parser  # noqa: E402

ROOT = HERE.parents[1]
WORK = ROOT / "build" / "host-speed"
PACKAGES = {"onnxruntime": "onnxruntime", "numpy": "numpy"}

# Ours, ONNX Runtime's, runs a round of each, and which part of our multiply-adds is one of which dot products: of
# attention its three projections, 3 * 1152 of 3 * 1152 + 2 * 729 multiply-adds an element.
PAIRS = [
    ("mlp-row1", "mlp-row1-f32", 200, 1, "bf16"),
    ("mlp-row1-f32", "mlp-row1-f32", 200, 0, None),
    ("mlp-b1", "mlp-b1-f32", 10, 1, "bf16"),
    ("mlp-b1-i8", "mlp-b1-i8", 10, 1, "i8"),
    ("mlp-b1-f32", "mlp-b1-f32", 10, 0, None),
    ("mlp-b2-repeat3", "mlp-b2-repeat3-f32", 3, 1, "bf16"),
    ("mlp-b2-repeat3-f32", "mlp-b2-repeat3-f32", 3, 0, None),
    ("flash-attention-b1", "flash-attention-b1-f32", 5, 3456 / (3456 + 2 * 729), "bf16"),
    ("flash-attention-b1-f32", "flash-attention-b1-f32", 5, 0, None),
]


def make_models(lowc, names):
    WORK.mkdir(parents=True, exist_ok=True)
    for name in names:
        subprocess.run([lowc, "workload", name, "-o", WORK / f"{name}.onnx"], check=True, stdout=subprocess.DEVNULL)


def build_peaks():
    program = WORK / "peaks"
    compiler = os.environ.get("CXX", "clang++-19")
    subprocess.run([compiler, "-std=c++20", "-O2", "-pthread", HERE / "peaks.cpp", "-o", program], check=True)
    return program


def compile_model(lowc, name, threads):
    """Its parameters in bytes, and the predicted milliseconds."""
    line = output_of(lowc, "compile", WORK / f"{name}.onnx", "-o", WORK / f"{name}.low", "--threads", threads)
    return {
        "parameter_bytes": int(re.search(r"parameters (\d+) bytes", line)[1]),
        "predicted_milliseconds": float(re.search(r"predicted ([0-9.]+) ms", line)[1]),
    }


def medians(peaks):
    """Of the rounds' answers, field by field."""
    first = peaks[0]
    if isinstance(first, dict):
        return {key: medians([peak[key] for peak in peaks]) for key in first}
    return statistics.median(peaks)


def bound(gflop, dot_part, dots, parameter_bytes, peaks):
    f32 = peaks["f32_gflops"]
    rate = dots and peaks[f"{dots}_gflops"] or f32
    arithmetic = gflop * (dot_part / rate + (1 - dot_part) / f32)
    return 1e3 * max(arithmetic, parameter_bytes * 1e-9 / peaks["read_gbytes"][str(parameter_bytes)])


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


def table(rows, peaks):
    lines = [
        f"f32 multiply-adds {peaks['f32_gflops']:.0f} GFLOP/s; dot products of bf16 {peaks['bf16_gflops']:.0f}, of i8 "
        f"{peaks['i8_gflops']:.0f} GFLOP/s; reads of "
        + ", ".join(f"{int(size) / 1e6:.1f} MB {rate:.0f} GB/s" for size, rate in peaks["read_gbytes"].items()),
        "",
        "| low | ms | GFLOP/s | of its bound | predicted ms | ONNX Runtime | ms | GFLOP/s | times as fast |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        ours, other = row["low"], row["onnxruntime"]
        lines.append(
            f"| {ours['model']} | {ours['median_milliseconds']:.3f} | {ours['gflops']:.1f} "
            f"| {row['share_of_bound']:.0%} | {row['predicted_milliseconds']:.3f} | {other['model']} | {other['median_milliseconds']:.3f} | {other['gflops']:.1f} | {row['ratio']:.2f} |"
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
    parser = study_parser(__doc__, HERE, rounds=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", action="append", help="our model's name; may be given several times")
    arguments = checked_arguments(parser)
    cores = sorted(os.sched_getaffinity(0))
    if not 1 <= arguments.threads <= len(cores):
        parser.error(f"--threads has to be 1 to {len(cores)}, the cores that this process may use")
    pairs = [pair for pair in PAIRS if not arguments.only or pair[0] in arguments.only]
    if not pairs:
        parser.error(f"--only has to name one of {', '.join(pair[0] for pair in PAIRS)}")

    enter_environment(WORK / "venv", PACKAGES)
    import onnxruntime

    os.sched_setaffinity(0, cores[: arguments.threads])  # children inherit it
    about = environment(threads=arguments.threads, onnxruntime=onnxruntime.__version__, rounds=arguments.rounds)
    make_models(arguments.lowc, sorted({name for pair in pairs for name in pair[:2]}))
    compiled = {pair[0]: compile_model(arguments.lowc, pair[0], arguments.threads) for pair in pairs}
    peaks_program = build_peaks()
    sizes = sorted({known["parameter_bytes"] for known in compiled.values()})
    peaks = []
    times = [([], []) for _ in pairs]
    gflop = {}
    for number in range(arguments.rounds):
        peaks.append(json.loads(output_of(peaks_program, arguments.threads, *sizes)))
        for (ours, other, runs, _, _), (our_times, other_times) in zip(pairs, times):
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

    reached = medians(peaks)
    rows = []
    for (ours, other, _, dot_part, dots), (our_times, other_times) in zip(pairs, times):
        row = {"low": summary(ours, our_times, gflop[ours]), "onnxruntime": summary(other, other_times, gflop[ours])}
        row |= compiled[ours]
        row["bound_milliseconds"] = bound(gflop[ours], dot_part, dots, row["parameter_bytes"], reached)
        row["share_of_bound"] = row["bound_milliseconds"] / row["low"]["median_milliseconds"]
        row["ratio"] = row["onnxruntime"]["median_milliseconds"] / row["low"]["median_milliseconds"]
        rows.append(row)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    document = {"version": 2, "environment": about, "peaks": reached, "results": rows}
    (arguments.output_dir / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (arguments.output_dir / "results.md").write_text(table(rows, reached), encoding="utf-8")
    print(table(rows, reached), end="")


if __name__ == "__main__":
    main()
