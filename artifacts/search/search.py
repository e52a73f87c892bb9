#!/usr/bin/env python3
"""Measures the search: every workload on every machine.

    ./dev build release && artifacts/search/search.py

For each workload and machine: the median time of the search alone, how many candidates it evaluated, and the cycles of what it found, as
it predicts them and as the expanded graph has them. Where enumerating all plans is within reach, the cycles of the best of them, and
how many times as long the search's plan takes (1: none is better). All of it is `lowc compile --benchmark-search --exhaustive`.

Writes results.json and results.md beside itself, or into --output-dir.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import environment  # noqa: E402

ROOT = HERE.parents[1]


def lowc(arguments, *command):
    return subprocess.run([str(word) for word in (arguments.lowc, *command)], capture_output=True, text=True)


def output_of(arguments, *command):
    done = lowc(arguments, *command)
    if done.returncode != 0:
        sys.exit(f"search.py: lowc {' '.join(str(word) for word in command)}: {done.stderr.strip()}")
    return done.stdout


def measure(arguments, model, workload, machine):
    """One row: what lowc reports, or why there is nothing to report."""
    command = ["compile", f"{workload}.onnx", "--machine", machine, "--benchmark-search", "--exhaustive", "--json",
               "--runs", str(arguments.runs), "--threads", str(arguments.threads)]
    done = lowc(arguments, command[0], model, *command[2:])
    row = {"workload": workload, "machine": machine, "command": "lowc " + " ".join(command)}
    if done.returncode != 0:
        message = done.stderr.strip().removeprefix("lowc: ").removeprefix(f"{model}: ")
        if done.returncode != 4:  # 4: unsupported
            sys.exit(f"search.py: {row['command']}: {message}")
        return {**row, "not_planned": message}
    return {**row, **json.loads(done.stdout)["machines"][0]}


def table(rows):
    lines = [
        "| workload | machine | search ms | candidates | searched cycles | chosen cycles, expanded | exhaustive best | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    notes = {}
    for row in rows:
        begin = f"| {row['workload']} | {row['machine']} |"
        if "not_planned" in row:
            lines.append(f"{begin} not planned: {row['not_planned']} | | | | | |")
            continue
        line = (f"{begin} {row['median_milliseconds']:.2f} | {row['candidates']} | {row['searched_cycles']:.0f} "
                f"| {row['expanded_cycles']:.0f} |")
        if row.get("exhaustive_cycles") is not None:
            line += f" {row['exhaustive_cycles']:.0f} | {row['ratio']:.4f} |"
        elif "not_exhaustive" not in row:
            line += " none as good was found | |"
        else:
            line += f" [{notes.setdefault(row['not_exhaustive'], len(notes) + 1)}] | |"
        lines.append(line)
    text = "\n".join(lines) + "\n"
    return text + "".join(f"\n[{number}] {note}\n" for note, number in notes.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowc", type=pathlib.Path, default=ROOT / "build/release/compiler/lowc/lowc")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workload", action="append", help="one of `lowc workload --list`; may be given several times")
    parser.add_argument("--machine", action="append", help="one of `lowc machines`; may be given several times")
    parser.add_argument("--output-dir", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    if not arguments.lowc.exists():
        parser.error("there is no lowc; `./dev build release` builds one, --lowc names another")
    about = environment(threads=arguments.threads, runs=arguments.runs)
    workloads = output_of(arguments, "workload", "--list").split()
    machines = [machine["name"] for machine in json.loads(output_of(arguments, "machines", "--json"))["machines"]]
    for given, known in ((arguments.workload, workloads), (arguments.machine, machines)):
        for name in given or []:
            if name not in known:
                parser.error(f"\"{name}\" is none of {', '.join(known)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for workload in arguments.workload or workloads:
            model = pathlib.Path(folder) / f"{workload}.onnx"
            output_of(arguments, "workload", workload, "-o", model)
            for machine in arguments.machine or machines:
                rows.append(measure(arguments, model, workload, machine))
                row = rows[-1]
                print(f"{workload} on {machine}: "
                      + (row.get("not_planned") or f"{row['median_milliseconds']:.2f} ms, ratio {row.get('ratio', 'unknown')}"),
                      file=sys.stderr, flush=True)
            model.unlink()
    arguments.output_dir.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "environment": about, "results": rows}
    (arguments.output_dir / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (arguments.output_dir / "results.md").write_text(table(rows), encoding="utf-8")
    print(table(rows), end="")
    bad = [f"{row['workload']} on {row['machine']}" for row in rows if not 0.99 < row.get("ratio", 1) <= 1.02]
    if bad:
        sys.exit(f"search.py: the search and the enumeration disagree by more than 2%: {', '.join(bad)}")


if __name__ == "__main__":
    main()
