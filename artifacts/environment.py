"""What studies share: where their numbers come from, which each results.json says, and what they compare with."""

import argparse
import importlib.util
import os
import pathlib
import platform
import subprocess
import sys
import venv

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ":!artifacts/*/results.*"  # what studies wrote changes no other's numbers


def git(*arguments):
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True)
        return done.stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def environment(**of_the_study):
    cpu = platform.processor()
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                cpu = line.split(":", 1)[1].strip()
                break
    return {
        "cpu": cpu,
        "cores_online": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "load_average_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "commit": git("rev-parse", "HEAD"),
        "uncommitted_changes": git("status", "--porcelain", "--untracked-files=no", "--", ".", RESULTS) != "",
        **of_the_study,
    }


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def study_parser(document, folder, rounds):
    """The options of a study that times lowc in rounds; checked_arguments() reads them."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lowc", type=pathlib.Path, default=ROOT / "build/release/compiler/lowc/lowc")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--output-dir", type=pathlib.Path, default=folder)
    return parser


def checked_arguments(parser):
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error("--rounds has to be at least 1")
    if not arguments.lowc.exists():
        parser.error("there is no lowc; `./dev build release` builds one, --lowc names another")
    return arguments


def enter_environment(folder, packages):
    """Goes on in the virtual environment in this folder, which has the packages of PyPI: module -> package."""
    if all(importlib.util.find_spec(module) for module in packages):
        return
    python = folder / "bin" / "python"
    if pathlib.Path(sys.prefix) == folder:
        sys.exit(f"{' and '.join(packages)} cannot be imported from {folder}; remove that folder and try again")
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages.values()],
                   check=True)
    os.execv(python, [str(python), *sys.argv])
