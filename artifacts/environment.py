"""Where a study's numbers come from: what each of its results.json says of the machine and of the sources."""

import os
import pathlib
import platform
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]


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
        "uncommitted_changes": git("status", "--porcelain", "--untracked-files=no") != "",
        **of_the_study,
    }
