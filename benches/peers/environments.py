"""Virtual environments with the other libraries, pinned to one version each, installed from PyPI."""
import os, shutil, subprocess, sys

PACKAGES = {
    "main": ["numpy==2.4.6", "hnswlib==0.8.0", "faiss-cpu==1.15.1", "usearch==2.26.6", "scann==1.4.2"],
    # diskannpy 0.7.0 needs this numpy, which needs Python 3.9 to 3.11.
    "diskannpy": ["numpy==1.25.0", "diskannpy==0.7.0"],
    # What the peers of COMMITS are built with: see README.md.
    "sources": ["numpy==2.4.6", "pybind11==2.13.6", "setuptools==80.9.0", "wheel==0.45.1"],
}
PYTHONS = {"main": ["python3.12", "python3.11", "python3.13"], "diskannpy": ["python3.10", "python3.11"]}
PYTHONS["sources"] = PYTHONS["main"]
# Peers that are not on PyPI, and the commits that were measured.
COMMITS = {"pyglass": "8c69018", "symphonyqg": "6124ddb"}


def environment_of(system):
    return "diskannpy" if system == "diskannpy" else "sources" if system in COMMITS else "main"


def version_of(system):
    """The commit of a competitor, or the version that PACKAGES names."""
    if system in COMMITS:
        return COMMITS[system]
    package = "faiss-cpu" if system.startswith("faiss") else system
    return next(p.split("==")[1] for packages in PACKAGES.values() for p in packages if p.startswith(package + "=="))


def python_of(environment, folder):
    """The interpreter of an environment, created in `folder` if it does not exist."""
    path = os.path.join(folder, environment)
    interpreter = os.path.join(path, "bin", "python")
    stamp = os.path.join(path, "installed")
    wanted = "\n".join(PACKAGES[environment])
    if os.path.exists(stamp) and open(stamp).read() == wanted:
        return interpreter
    for python in PYTHONS[environment]:
        if shutil.which(python) is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
            continue
        shutil.rmtree(path, ignore_errors=True)
        print(f"installing {environment} with {python}: {' '.join(PACKAGES[environment])}", file=sys.stderr, flush=True)
        made = subprocess.run([python, "-m", "venv", path]).returncode == 0
        if made and subprocess.run([interpreter, "-m", "pip", "install", "--quiet", *PACKAGES[environment]]).returncode == 0:
            with open(stamp, "w") as file:
                file.write(wanted)
            return interpreter
    sys.exit(f"{environment}: none of {', '.join(PYTHONS[environment])} could install {', '.join(PACKAGES[environment])}")
