#!/usr/bin/env python3
"""Compares Jasper with other CPU libraries in one run: see README.md beside this file."""
import argparse, json, os, statistics, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", required=True, metavar="FOLDER", help="sets as files.py describes them")
    parser.add_argument("--systems", nargs="+", metavar="NAME", help="some of: jasper, jasper-codes, and the competitors of systems.py")
    parser.add_argument("--jasper", default=os.path.join(ROOT, "target/release/jasper"), metavar="COMMAND")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", default=os.path.join(ROOT, "local/peers.jsonl"), metavar="FILE", help="one JSON object a (set, system, setting) is added")
    parser.add_argument("--environments", default=os.path.join(ROOT, "local/peers"), metavar="FOLDER", help="where the competitors are installed")
    parser.add_argument("--python", action="append", default=[], metavar="ENVIRONMENT=INTERPRETER", help="use this instead of installing")
    return parser.parse_args()


def in_environment(args):
    """Restarts this program in the main environment, which has numpy."""
    from environments import PACKAGES, environment_of, python_of

    pythons = dict(pair.split("=", 1) for pair in args.python)
    systems = args.systems or []
    for environment in PACKAGES:
        wanted = not systems or environment == "main" or environment in map(environment_of, systems)
        if wanted and environment not in pythons:
            pythons[environment] = python_of(environment, args.environments)
    if os.path.abspath(sys.executable) != os.path.abspath(pythons["main"]):
        given = [part for name, python in pythons.items() for part in ("--python", f"{name}={python}")]
        os.execv(pythons["main"], [pythons["main"], os.path.abspath(__file__), *sys.argv[1:], *given])
    return pythons


class Peer:
    """A process of systems.py."""

    def __init__(self, name, python, data, args):
        environment = dict(os.environ, OMP_WAIT_POLICY="passive", OMP_NUM_THREADS=str(args.threads), OPENBLAS_NUM_THREADS="1")
        self.log = open(f"{args.out}.{name}.log", "w")
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "systems.py"), name, data.folder, "--threads", str(args.threads),
             "--queries", str(len(data.queries))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=environment, text=True)
        self.built = self.next_line()

    def next_line(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"it ended; see {self.log.name}")
        return json.loads(line)

    def round(self, first):
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        return self.next_line()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.log.close()


def measure(data, names, pythons, args):
    """Builds every system, then asks one after another, round by round; gives the lines of the set."""
    from environments import environment_of
    from jasper_command import FORMS, Jasper

    live = {}
    for name in names:
        try:
            live[name] = Jasper(name, args.jasper, data, args.threads) if name in FORMS else Peer(name, pythons[environment_of(name)], data, args)
        except (OSError, RuntimeError) as error:
            print(f"{data.name}, {name}: left out: {error}", file=sys.stderr, flush=True)
            continue
        built = live[name].built
        print(f"{data.name}, {name}: built in {built['build_seconds']:.1f} s, CPU {built['build_cpu_seconds']:.1f} s, "
              f"peak {built['peak_mb']} MB; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    rounds = {name: [] for name in live}
    for number in range(args.rounds):
        for name, system in live.items():
            rounds[name].append(system.round(number == 0))
    for system in live.values():
        system.close()
    return [line for name, system in live.items() for line in lines_of(data, name, system.built, rounds[name], args)]


def lines_of(data, name, built, rounds, args):
    from environments import version_of
    from jasper_command import FORMS
    from systems import K

    own = "this" if name in FORMS else version_of(name)
    same = dict(
        set=data.name, points=len(data.base), dimension=data.base.shape[1], dtype=data.dtype.name, metric=data.metric,
        system=name, version=own, threads=args.threads, queries=len(data.queries), k=K, rounds=args.rounds,
        **{key: value for key, value in built.items() if key != "settings"})
    for setting, label in enumerate(built["settings"]):
        measured = [r[setting] for r in rounds]
        speeds = [len(data.queries) / m["seconds"] for m in measured]
        cpu = [args.threads * len(data.queries) / m["cpu_seconds"] for m in measured if m["cpu_seconds"]]
        yield dict(
            same, setting=label, recall=data.recall(measured[0]["ids"], K), qps=statistics.median(speeds),
            qps_best=max(speeds), qps_worst=min(speeds), qps_cpu=statistics.median(cpu) if cpu else None)


def main():
    args = parse()
    pythons = in_environment(args)
    from figures import report
    from jasper_command import FORMS
    from files import Set
    from systems import SYSTEMS

    names = args.systems or [*FORMS, *SYSTEMS]
    unknown = set(names) - {*FORMS, *SYSTEMS}
    if unknown:
        sys.exit(f"--systems {' '.join(sorted(unknown))}: known are {' '.join([*FORMS, *SYSTEMS])}")
    os.makedirs(os.path.dirname(os.path.abspath(args.out)), exist_ok=True)
    lines = []
    for folder in args.sets:
        measured = measure(Set(folder, args.queries), names, pythons, args)
        with open(args.out, "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in measured)
        lines += measured
    report(lines)


if __name__ == "__main__":
    main()
