"""The page's path for a Ray cluster of several machines, on hosts of their own.

All commands of the page are run, except `ray stop`: it would end every Ray on this machine, since hosts share the
numbers of processes. The hosts are removed with what runs on them.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from hosts import Hosts, namespaces
from processes import SOURCE, until

from sojourn import Trace

pytest.importorskip("ray")
PAGE = Path(__file__).parents[2] / "docs" / "live-ray.md"
LONG = 300.0  # seconds that Ray may take to start on a busy machine
UPDATES = 40
OWN_TMP = "mkdir -p /tmp/ray tmp && mount --bind tmp /tmp/ray && "  # a host has its own; the mount is its own too


def blocks():
    """The code blocks of the page's section, in order."""
    section = PAGE.read_text().partition("## On several machines")[2].partition("\n## ")[0]
    found = re.findall(r"^ *```\w*\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)
    return [re.sub(r"^    ", "", text, flags=re.MULTILINE).replace("\\\n", "").strip() for text in found]


def actors(hosts, name):
    """How many processes with clients there are on a host."""
    lines = []
    for pid in hosts.processes(name):
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_text())
        except OSError:  # it has ended
            continue
    return sum(line.startswith("ray::Clients") for line in lines)


@pytest.mark.slow
@pytest.mark.skipif(bool(namespaces()), reason=f"a second Ray on the same addresses finds the first: {namespaces()}")
def test_the_pages_path_for_a_ray_cluster_works_on_hosts_of_their_own(tmp_path):
    token, start, run = blocks()[:3]
    make, told = token.splitlines()
    head, other = start.splitlines()
    homes = {name: tmp_path / name for name in ("one", "two")}
    where = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        **dict([told.removeprefix("export ").split("=")]),
    }
    with Hosts("one", "two") as hosts:

        def done(name, command):
            home = homes[name]
            log = home / "said.txt"
            started = hosts.start(name, f"sh -c '{OWN_TMP}exec {command}'", home, HOME=str(home), **where)
            until(lambda: started.poll() is not None, LONG, lambda: log.read_text())
            assert started.returncode == 0, log.read_text()

        for home in homes.values():
            home.mkdir()
        done("one", make)
        shutil.copytree(homes["one"] / ".ray", homes["two"] / ".ray")
        assert hosts.address("one") == "10.0.0.1"  # as on the page
        done("one", head)
        done("two", other)
        (homes["one"] / "fleet.csv").write_text("name,count,rate\nfast,2,4\nslow,2,2\n")
        done("one", "sojourn plan fleet.csv --time 2h --out plan.json")
        # nobody waits two hours for a test, and two hosts of two cores have no room for eight actors
        run = run.replace("--time 2h", f"--steps {UPDATES}").replace("--processes 8", "--processes 2")
        log = homes["one"] / "run.txt"
        running = hosts.start(
            "one", f"sh -c '{OWN_TMP}exec {run}'", homes["one"], "run.txt", HOME=str(homes["one"]), **where
        )
        seen = dict.fromkeys(homes, False)

        def over():
            for name in homes:
                seen[name] = seen[name] or actors(hosts, name) > 0
            return running.poll() is not None

        until(over, LONG, lambda: log.read_text())
        assert running.returncode == 0, log.read_text()
    assert seen == {"one": True, "two": True}  # the clients were on both
    trace = Trace.load(homes["one"] / "live" / "trace.parquet")
    assert int(trace.applied.sum()) == UPDATES
    assert (homes["one"] / "live" / "model.safetensors").exists()
