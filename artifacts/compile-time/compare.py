#!/usr/bin/env python3
"""Compares how long compiling takes with IREE: from an ONNX file to what runs on this machine's processor.

    ./dev build release && artifacts/compile-time/compare.py

Each round compiles every model in turn, first by `lowc compile` for all targets of the host, then, where the model is one
that IREE reads, by `iree-import-onnx` and `iree-compile` for the processor at hand alone. All write to the same folder,
which is emptied first, and use all cores. The medians over all rounds are compared.

Writes results.json and results.md beside itself, or into --output-dir. IREE is taken from a virtual environment in
build/compile-time, which is made and filled from PyPI when it is not there.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import checked_arguments, enter_environment, environment, output_of, study_parser  # noqa: E402

ROOT = HERE.parents[1]
WORK = ROOT / "build" / "compile-time"

# IREE reads no quantization to FP8.
MODELS = [("mlp-b2-repeat3", False), ("mlp-b2-repeat3-f32", True)]
IREE_TARGET = [
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
]


def seconds(*commands):
    """Of the commands one after another, in an empty folder."""
    folder = WORK / "out"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin = time.perf_counter()
    for command in commands:
        subprocess.run([str(word) for word in command], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def iree(model):
    bin = pathlib.Path(sys.prefix) / "bin"
    return [
        [bin / "iree-import-onnx", model, "--opset-version", 17, "-o", "model.mlir"],
        [bin / "iree-compile", "model.mlir", *IREE_TARGET, "-o", "model.vmfb"],
    ]


def table(results):
    lines = ["| model | low | IREE, import and compile | times as fast |", "|---|---|---|---|"]
    for row in results:
        other = row.get("iree")
        lines.append(
            f"| {row['model']} | {row['low']['median_seconds']:.2f} s | "
            + (f"{other['median_seconds']:.2f} s | {row['ratio']:.1f} |" if other else "reads no FP8 | |")
        )
    return "\n".join(lines) + "\n"


def summary(times):
    return {"median_seconds": statistics.median(times), "seconds": [round(value, 3) for value in times]}


def main():
    arguments = checked_arguments(study_parser(__doc__, HERE, rounds=9))
    enter_environment(WORK / "venv", {"iree": "iree-base-compiler", "onnx": "onnx"})
    lowc = arguments.lowc.resolve()
    about = environment(
        rounds=arguments.rounds,
        iree=output_of(pathlib.Path(sys.prefix) / "bin" / "iree-compile", "--version").splitlines()[1].strip(),
        clang=output_of("clang++-19", "--version").splitlines()[0],
    )
    times = {name: ([], []) for name, _ in MODELS}
    for name, _ in MODELS:
        subprocess.run([lowc, "workload", name, "-o", WORK / f"{name}.onnx"], check=True, stdout=subprocess.DEVNULL)
    for number in range(arguments.rounds):
        for name, reads in MODELS:
            model = WORK / f"{name}.onnx"
            times[name][0].append(seconds([lowc, "compile", model, "-o", "model.low"]))
            if reads:
                times[name][1].append(seconds(*iree(model)))
            print(f"round {number + 1} of {arguments.rounds}: {name} {times[name][0][-1]:.2f} s", file=sys.stderr)
    results = []
    for name, reads in MODELS:
        ours, theirs = times[name]
        row = {"model": name, "low": summary(ours)}
        if reads:
            row |= {"iree": summary(theirs), "ratio": statistics.median(theirs) / statistics.median(ours)}
        results.append(row)
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "environment": about, "results": results}
    (arguments.output_dir / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (arguments.output_dir / "results.md").write_text(table(results), encoding="utf-8")
    print(table(results), end="")


if __name__ == "__main__":
    main()
