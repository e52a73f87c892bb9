#!/usr/bin/env python3
"""Measures what the expansion's caches save: seven workloads, two machines, the same finalists with and without them.

    ./dev build release && artifacts/expansion-cache/run.py

The finalists are the plans in plans/WORKLOAD.MACHINE.txt, so that changes of the search change no row; --pin writes them anew from
the search (needed when the passes change a graph, and with it the digest that a plan names). `lowc compile --benchmark-expansion
--benchmark-expansion-uncached` times expansion, simplification and cost, in one process that takes turns between the two.
Blocks of mlp-b2 (a Repeat of 1, 3, 27 iterations) are expanded from one and the same plan, taking turns as well.

Writes results.json and results.md beside itself, or into --output-dir. --profile writes profile.txt instead, from `perf`.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import environment, git  # noqa: E402

ROOT = HERE.parents[1]
PLANS = HERE / "plans"
MACHINES = ["ipu21", "mi300x"]
WORKLOADS = {
    "flash-attention-b1": ["--attention", "flash"],
    "flash-attention-b1-f16": ["--attention", "flash"],
    "materialized-attention-b1": ["--attention", "materialized"],
    "materialized-attention-b1-f16": ["--attention", "materialized"],
    "mlp-b1": [],
    "mlp-b1-f16": [],
    "mlp-b2-repeat3": [],
}
# What the implementation that this one follows measured, on another processor, with plans that another search found: milliseconds of its
# finalists, and entries, hits and misses of its copy plans in all of them. All its models are f16; MLP B2 here is FP8.
EARLIER = {
    "flash-attention-b1-f16": {"cached": [869, 831, 1021, 938], "uncached": [900, 860, 980, 934], "copy_plans": [7168, 147712, 7168]},
    "materialized-attention-b1-f16": {"cached": [777, 716, 1332, 1368], "uncached": [744, 729, 1492, 1458], "copy_plans": [9436, 34788, 9436]},
    "mlp-b1-f16": {"cached": [296, 211, 229, 254], "uncached": [292, 215, 238, 244], "copy_plans": [648, 5184, 648]},
    "mlp-b2-repeat3": {"cached": [773], "uncached": [1351], "copy_plans": [967, 2692, 967]},
}
EARLIER_MACHINE = "ipu21"
REPEATED, BLOCKS = "mlp-b2-repeat3", [1, 3, 27]
PEAK_LIMIT = 1 << 30  # resident bytes
REPEAT_LIMIT = 1.10  # slowest over fastest, where that is more than REPEAT_FLOOR
REPEAT_FLOOR = 1.0  # milliseconds
# What glibc gives back to the system after an expansion, only to ask for it again in the next, depends on how large the model was
# that the process read before. Here it keeps all of it, whatever the model's size.
KEEP_MEMORY = {"GLIBC_TUNABLES": f"glibc.malloc.mmap_threshold={1 << 30}:glibc.malloc.trim_threshold={1 << 32}"}


def lowc(arguments, *command, variables=None):
    command = [str(word) for word in command]
    done = subprocess.run([str(arguments.lowc), *command], capture_output=True, text=True, env={**os.environ, **(variables or {})})
    if done.returncode != 0:
        sys.exit(f"run.py: lowc {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def plan_file(workload, machine):
    path = PLANS / f"{workload}.{machine}.txt"
    if not path.exists():
        sys.exit(f"run.py: there is no plans/{path.name}; run.py --pin makes one")
    return path


def plans_of(text):
    return ["low-plan" + plan for plan in text.split("low-plan")[1:]]


def digest_line(plan):
    return next(line for line in plan.splitlines() if line.startswith("graph "))


def pin(arguments, models):
    PLANS.mkdir(exist_ok=True)
    for workload in arguments.workloads:
        for machine in arguments.machines:
            text = lowc(arguments, "compile", models[workload], *WORKLOADS[workload], "--machine", machine, "--finalists", 4,
                        "--print", "finalists")
            (PLANS / f"{workload}.{machine}.txt").write_text(text, encoding="utf-8")
            print(f"{workload} on {machine}: {len(plans_of(text))} plans pinned", file=sys.stderr)


def benchmark(arguments, model, *words, runs, variables=None):
    command = [*words, "--benchmark-expansion", "--benchmark-expansion-uncached", "--runs", str(runs), "--threads", "1", "--json"]
    return json.loads(lowc(arguments, "compile", model, *command, variables=variables))


def lookups(cache):
    return cache["hits"] + cache["misses"]


def saved(cached, uncached):
    return 100 * (1 - cached / uncached)


def measure(arguments, model, workload, machine):
    path = plan_file(workload, machine)
    words = [*WORKLOADS[workload], "--machine", machine, "--plan"]
    report = benchmark(arguments, model, *words, path, runs=arguments.runs)
    cached, uncached = report["modes"]
    earlier = EARLIER.get(workload) if machine == EARLIER_MACHINE else None
    finalists = []
    for i, (with_caches, without) in enumerate(zip(cached["finalists"], uncached["finalists"])):
        counts = {key: with_caches[key] for key in ("shards", "runs", "copies", "transfers", "recipients", "supersteps", "cycles")}
        if any(without[key] != value for key, value in counts.items()):
            sys.exit(f"run.py: {workload} on {machine}: finalist {i} is another one without caches")
        finalist = {
            **counts,
            "cached_milliseconds": statistics.median(with_caches["milliseconds"]),
            "uncached_milliseconds": statistics.median(without["milliseconds"]),
            "cached_runs": with_caches["milliseconds"],
            "uncached_runs": without["milliseconds"],
            "copy_plan_lookups": lookups(with_caches["caches"]["copy_plans"]),
            "copy_descriptor_lookups": lookups(with_caches["caches"]["copy_descriptors"]),
            "caches": with_caches["caches"],
        }
        if earlier and i < len(earlier["cached"]):
            finalist["earlier_cached_milliseconds"], finalist["earlier_uncached_milliseconds"] = earlier["cached"][i], earlier["uncached"][i]
        finalists.append(finalist)
    sums = {mode["mode"]: [sum(times) for times in zip(*(f["milliseconds"] for f in mode["finalists"]))] for mode in (cached, uncached)}
    row = {
        "workload": workload,
        "machine": machine,
        "command": f"lowc compile {workload}.onnx {' '.join(words)} plans/{path.name} --benchmark-expansion "
                   f"--benchmark-expansion-uncached --runs {arguments.runs} --threads 1 --json",
        "finalists": finalists,
        "all_cached_milliseconds": statistics.median(sums["cached"]),
        "all_uncached_milliseconds": statistics.median(sums["uncached"]),
        "caches": cached["caches"],
        "lookups_per_finalist": lookups(cached["caches"]["copy_plans"]) / len(finalists),
        "peak_resident_bytes": report["environment"]["peak_resident_bytes"],
        "lowc": report["environment"]["lowc"],
    }
    if earlier:
        entries, hits, misses = earlier["copy_plans"]
        row["earlier_copy_plans"] = {"entries": entries, "hits": hits, "misses": misses}
        row["earlier_lookups_per_finalist"] = (hits + misses) / len(earlier["cached"])
    return row


def measure_repeats(arguments, folder):
    """The same plan for models of 1, 3 and 27 blocks: milliseconds of its expansion, by machine and blocks."""
    models = {}
    for blocks in BLOCKS:
        models[blocks] = folder / f"blocks-{blocks}.onnx"
        lowc(arguments, "workload", REPEATED, "--repeat", blocks, "-o", models[blocks])
    rows = []
    for machine in arguments.machines:
        plan = plans_of(plan_file(REPEATED, machine).read_text(encoding="utf-8"))[0]
        files = {}
        for blocks in BLOCKS:
            words = ["--machine", machine, "--keep-repeats", "--threads", "1"]
            graph = digest_line(lowc(arguments, "compile", models[blocks], *words, "--finalists", 1, "--print", "plan"))
            files[blocks] = folder / f"blocks-{blocks}.{machine}.txt"
            files[blocks].write_text(plan.replace(digest_line(plan), graph), encoding="utf-8")
        rounds = min(5, arguments.runs)
        runs = -(-arguments.runs // rounds)
        found = {blocks: {"cached": [], "uncached": []} for blocks in BLOCKS}
        for number in range(rounds):
            for i in range(len(BLOCKS)):
                blocks = BLOCKS[(i + number) % len(BLOCKS)]
                report = benchmark(arguments, models[blocks], "--machine", machine, "--keep-repeats", "--plan", files[blocks], runs=runs,
                                   variables=KEEP_MEMORY)
                for mode in report["modes"]:
                    found[blocks][mode["mode"]] += mode["finalists"][0]["milliseconds"]
                found[blocks]["shards"] = report["modes"][0]["finalists"][0]["shards"]
                found[blocks]["peak_resident_bytes"] = report["environment"]["peak_resident_bytes"]
        commands = [f"lowc workload {REPEATED} --repeat BLOCKS -o blocks.onnx",
                    f"{' '.join(f'{name}={value}' for name, value in KEEP_MEMORY.items())} lowc compile blocks.onnx --machine {machine} "
                    f"--keep-repeats --plan FIRST --benchmark-expansion --benchmark-expansion-uncached --runs {runs} --threads 1 --json"]
        row = {"workload": REPEATED, "machine": machine, "commands": commands, "rounds": rounds, "blocks": []}
        for blocks, times in found.items():
            row["blocks"].append({"blocks": blocks, "cached_milliseconds": statistics.median(times["cached"]),
                                  "uncached_milliseconds": statistics.median(times["uncached"]), "cached_runs": times["cached"],
                                  "uncached_runs": times["uncached"], "shards": times["shards"],
                                  "peak_resident_bytes": times["peak_resident_bytes"]})
        medians = [entry["cached_milliseconds"] for entry in row["blocks"]]
        row["ratio"], row["difference_milliseconds"] = max(medians) / min(medians), max(medians) - min(medians)
        rows.append(row)
        print(f"{REPEATED} on {machine}, {', '.join(map(str, BLOCKS))} blocks: {', '.join(f'{time:.2f}' for time in medians)} ms",
              file=sys.stderr, flush=True)
    return rows


def triple(cache):
    return f"{cache['entries']:,} / {cache['hits']:,} / {cache['misses']:,}"


def tables(rows, repeats):
    text = "## Milliseconds of an expansion\n\nMedians. Finalist 0 finds the caches empty. `all`: the finalists one after the other.\n\n"
    text += ("| workload | machine | finalist | cached | uncached | cached / uncached | their cached | their uncached | their ratio |\n"
             "|---|---|---|---|---|---|---|---|---|\n")

    def line(row, name, cached, uncached, earlier):
        their = f"{earlier[0]} | {earlier[1]} | {earlier[0] / earlier[1]:.3f}" if earlier else "| |"
        return f"| {row['workload']} | {row['machine']} | {name} | {cached:.2f} | {uncached:.2f} | {cached / uncached:.3f} | {their} |\n"

    for row in rows:
        for i, one in enumerate(row["finalists"]):
            earlier = (one["earlier_cached_milliseconds"], one["earlier_uncached_milliseconds"]) if "earlier_cached_milliseconds" in one else None
            text += line(row, i, one["cached_milliseconds"], one["uncached_milliseconds"], earlier)
        earlier = EARLIER.get(row["workload"]) if row["machine"] == EARLIER_MACHINE else None
        same = earlier and len(earlier["cached"]) == len(row["finalists"])  # of as many finalists
        text += line(row, "all", row["all_cached_milliseconds"], row["all_uncached_milliseconds"],
                     (sum(earlier["cached"]), sum(earlier["uncached"])) if same else None)
    text += ("\n## Lookups\n\nOf copy plans; entries / hits / misses of all finalists together.\n\n"
             "| workload | machine | copy plans | theirs | hit rate | theirs, a finalist | finalist 0 alone | times theirs "
             "| all, a finalist | times theirs | copy descriptors |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
    for row in rows:
        plans = row["caches"]["copy_plans"]
        earlier = row.get("earlier_copy_plans")
        rate = f"{plans['hits'] / lookups(plans):.3f}" if lookups(plans) else ""
        their = row.get("earlier_lookups_per_finalist")
        first = row["finalists"][0]["copy_plan_lookups"]
        text += (f"| {row['workload']} | {row['machine']} | {triple(plans)} | {triple(earlier) if earlier else ''} | {rate} "
                 f"| {f'{their:,.0f}' if their else ''} | {first:,} | {format(first / their, '.2f') if their else ''} "
                 f"| {row['lookups_per_finalist']:,.0f} | {format(row['lookups_per_finalist'] / their, '.2f') if their else ''} "
                 f"| {triple(row['caches']['copy_descriptors'])} |\n")
    text += ("\n## What was expanded\n\n| workload | machine | finalist | shards | runs | copies | transfers | recipients | supersteps "
             "| copy-plan lookups | recipients a lookup | peak resident MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n")
    for row in rows:
        for i, one in enumerate(row["finalists"]):
            counts = " | ".join(f"{one[key]:,}" for key in ("shards", "runs", "copies", "transfers", "recipients", "supersteps"))
            found = one["copy_plan_lookups"]
            text += (f"| {row['workload']} | {row['machine']} | {i} | {counts} | {found:,} "
                     f"| {format(one['recipients'] / found, '.1f') if found else ''} "
                     f"| {row['peak_resident_bytes'] / 2**20:.0f} |\n")
    if repeats:
        text += ("\n## One body for any number of blocks\n\nThe first finalist of the plan file, its decisions unchanged, for as many blocks.\n\n"
                 "| workload | machine | blocks | cached | uncached | shards | peak resident MiB | slowest / fastest |\n"
                 "|---|---|---|---|---|---|---|---|\n")
        for row in repeats:
            for i, one in enumerate(row["blocks"]):
                text += (f"| {row['workload']} | {row['machine']} | {one['blocks']} | {one['cached_milliseconds']:.2f} "
                         f"| {one['uncached_milliseconds']:.2f} | {one['shards']:,} | {one['peak_resident_bytes'] / 2**20:.0f} "
                         f"| {format(row['ratio'], '.3f') if i == 0 else ''} |\n")
    return text


# Parts of the profile, by the first that a symbol's name matches. What a compiler inlined counts for its caller: the hash and the lookup
# of a copy plan are in assemble(), whose other half decides what each source contributes.
PARTS = [
    ("the system: pages of memory, reading the model", r"\[k\]"),
    ("plans of copies: sources, keys, the cache", r"copy_plan|plan_copy|MatrixGeometries|BoundedCache|CopyPlan|relative_copy|assemble"),
    ("transfers, copies, and their views", r"DistributedExpander::(emit|transfer|exchange_of|end_superstep|begin_superstep|pull)|SourceKey|PullKey"
                                           r"|Recipient|vector<low::View|ShardIndex|low::intersection"),
    ("verification", r"[Vv]erif|StorageRaces|check_tables|low::overlap|byte_box"),
    ("renumbering a finished graph", r"TileGraphFinisher|low::reach"),
    ("simplification", r"implif|conflict_between_tiles"),
    ("cost", r"Accountant|DistinctBytes|low::cost|_cost|work_of|[Tt]raffic|exchange_between"),
    ("interning", r"Intern|Mixer"),
    ("the rest of expansion: operations, shards, constants", r"Expander|TileGraphBuilder|[Cc]onstant|AttentionRuns|part_range"),
    ("libraries without symbols: hashes of the model", r"^\[\.\] 0x|tensor_of_bytes|EVP_|OPENSSL|SHA"),
    ("memory: allocation and copies", r"malloc|free|operator new|operator delete|mem(cpy|move|set|cmp)|_int_"),
]
PROFILED = "ipu21"  # the other machine's expansions are too short


def profile(arguments, models, folder):
    perf = shutil.which("perf")
    if not perf:
        sys.exit("run.py: --profile needs perf, which is not in PATH")
    text = (f"Samples of the CPU clock, cached expansion of the first finalists on {PROFILED}. Reading the model, passes and one warming run "
            f"are in them.\ncommit {git('rev-parse', 'HEAD')}\n")
    for workload in arguments.workloads:
        machine = PROFILED
        plan = folder / "first.txt"
        plan.write_text(plans_of(plan_file(workload, machine).read_text(encoding="utf-8"))[0], encoding="utf-8")
        words = [*WORKLOADS[workload], "--machine", machine, "--benchmark-expansion", "--runs", str(arguments.runs), "--threads", "1"]
        data = folder / "perf.data"
        subprocess.run([perf, "record", "--quiet", "-e", "cpu-clock", "-F", "1999", "-o", data, "--", arguments.lowc, "compile",
                        models[workload], *words, "--plan", plan], check=True, capture_output=True)
        report = subprocess.run([perf, "report", "--stdio", "--no-children", "--percent-limit", "0", "--sort", "symbol",
                                 "--field-separator", "\t", "-i", data], check=True, capture_output=True, text=True).stdout
        symbols = []
        for line in report.splitlines():
            fields = line.split("\t")
            if len(fields) >= 2 and re.fullmatch(r"\s*[0-9.]+%?\s*", fields[0]):
                symbols.append((float(fields[0].strip().rstrip("%")), fields[1].strip()))
        parts = {}
        for share, symbol in symbols:
            name = next((name for name, pattern in PARTS if re.search(pattern, symbol)), "other")
            parts[name] = parts.get(name, 0) + share
        text += f"\n== {workload} on {machine}: lowc compile {workload}.onnx {' '.join(words)} --plan FIRST\n\n"
        text += "".join(f"{share:6.2f}%  {name}\n" for name, share in sorted(parts.items(), key=lambda part: -part[1]))
        text += "\n" + "".join(f"{share:6.2f}%  {symbol[:120]}\n" for share, symbol in symbols[:30])
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowc", type=pathlib.Path, default=ROOT / "build/release/compiler/lowc/lowc")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--workload", dest="workloads", action="append", choices=list(WORKLOADS), help="may be given several times")
    parser.add_argument("--machine", dest="machines", action="append", choices=MACHINES, help="may be given several times")
    parser.add_argument("--pin", action="store_true", help="search anew and write plans/, before measuring")
    parser.add_argument("--profile", action="store_true", help="write profile.txt, and measure nothing")
    parser.add_argument("--output-dir", type=pathlib.Path, default=HERE)
    arguments = parser.parse_args()
    if arguments.runs < 1:
        parser.error("--runs has to be at least 1")
    if not arguments.lowc.exists():
        parser.error("there is no lowc; `./dev build release` builds one, --lowc names another")
    whole = not arguments.workloads and not arguments.machines
    arguments.workloads = arguments.workloads or list(WORKLOADS)
    arguments.machines = arguments.machines or MACHINES
    about = environment(runs=arguments.runs)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        models = {workload: folder / f"{workload}.onnx" for workload in arguments.workloads}
        for workload, path in models.items():
            lowc(arguments, "workload", workload, "-o", path)
        if arguments.pin:
            pin(arguments, models)
        arguments.output_dir.mkdir(parents=True, exist_ok=True)
        if arguments.profile:
            text = profile(arguments, models, folder)
            (arguments.output_dir / "profile.txt").write_text(text, encoding="utf-8")
            print(text, end="")
            return
        rows = []
        for workload in arguments.workloads:
            for machine in arguments.machines:
                rows.append(measure(arguments, models[workload], workload, machine))
                row = rows[-1]
                print(f"{workload} on {machine}: {row['all_cached_milliseconds']:.2f} ms cached, {row['all_uncached_milliseconds']:.2f} ms "
                      "uncached", file=sys.stderr, flush=True)
        repeats = measure_repeats(arguments, folder) if whole or REPEATED in arguments.workloads else []
    about["lowc"] = rows[0]["lowc"]
    document = {"version": 1, "environment": about, "results": rows, "repeats": repeats}
    text = tables(rows, repeats)
    (arguments.output_dir / "results.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    (arguments.output_dir / "results.md").write_text(text, encoding="utf-8")
    print(text, end="")
    bad = [f"{row['workload']} on {row['machine']}: {row['peak_resident_bytes']:,} bytes resident, of {PEAK_LIMIT:,}"
           for row in rows if row["peak_resident_bytes"] >= PEAK_LIMIT]
    bad += [f"{row['workload']} on {row['machine']}: the slowest number of blocks takes {row['ratio']:.2f} times as long as the fastest, "
            f"of {REPEAT_LIMIT:.2f}" for row in repeats
            if row["ratio"] > REPEAT_LIMIT and row["difference_milliseconds"] > REPEAT_FLOOR]
    if bad:
        sys.exit("run.py: " + "\n        ".join(bad))


if __name__ == "__main__":
    main()
