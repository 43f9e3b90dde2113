//! The Python package: its wheel, and its tests in a fresh virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, command, output};
use crate::workspace::Workspace;

/// The interpreter that builds and tests the package where none is named.
pub const PYTHON: &str = "python3";

/// The package, relative to the root.
const PACKAGE: &str = "crates/jasper-python";

/// The package with the data of `jasper demo`, relative to [`PACKAGE`].
const DEMO: &str = "./demo";

/// The package for vector stores of frameworks, relative to [`PACKAGE`].
const INTEGRATIONS: &str = "./integrations";

/// What the extension module exports. The library defines functions of the CUDA driver: other packages of the process
/// must not call these instead of the driver's.
const EXPORTS: [&str; 1] = ["PyInit__native"];

/// Largest size of the wheel, in bytes. The kernels are 2 MB of it.
const MAX_WHEEL: u64 = 8 << 20;

/// Links with a C library old enough for this tag, whatever the machine has. Compresses as well as the format can, which
/// saves 2%.
const WHEEL_OPTIONS: [&str; 7] =
    ["--profile", "dist", "--zig", "--compatibility", "manylinux_2_28", "--compression-level", "9"];

/// For the interpreter of the environment: by itself, maturin passes over one without a stable ABI.
const NATIVE: [&str; 2] = ["--interpreter", "python"];

/// The linker for [`WHEEL_OPTIONS`].
const ZIG: &str = "ziglang==0.17.1";

/// What checks a wheel: that it needs only the libraries that its tag allows, and only the stable ABI of Python.
const AUDITORS: [&str; 2] = ["auditwheel==6.8.2", "abi3audit==0.0.26"];

/// Builds the wheel for users into `target/wheels`, for this machine or another architecture, and that of the
/// demonstration, which suits all. Free-threaded interpreters have no stable ABI before Python 3.15: for one of them,
/// the wheel is for its version.
///
/// # Errors
/// When there is no Python, the wheel does not build, it is too large, or its symbols are wrong.
pub fn wheel(workspace: &Workspace, interpreter: &str, architecture: Option<&str>) -> Result<()> {
    let triple = architecture.map(|architecture| format!("{architecture}-unknown-linux-gnu"));
    if let Some(missing) = missing(workspace, interpreter) {
        bail!(missing);
    }
    let environment = Environment::new(workspace, interpreter)?;
    environment.pip(&[ZIG.as_ref()])?;
    let target = triple.as_ref().map_or(NATIVE, |triple| ["--target", triple]);
    let options = [&WHEEL_OPTIONS[..], &target].concat();
    let wheel = environment.build(&options, &workspace.target.join("wheels"))?;
    let size = fs::metadata(&wheel)?.len();
    ensure!(size <= MAX_WHEEL, "{} is {size} bytes, more than {MAX_WHEEL}", wheel.display());
    println!("{}: {:.1} MB", wheel.display(), size as f64 / 1e6);
    environment.audit(&wheel)?;
    environment.build_demo(&workspace.target.join("wheels"))?;
    if architecture.is_some_and(|architecture| architecture != std::env::consts::ARCH) {
        return Ok(());
    }
    environment.install(&wheel)?;
    environment.check_exports()
}

/// Builds the package as tests are built, for `interpreter`, installs it, and runs its tests.
///
/// # Errors
/// When there is no Python, or a step fails.
pub fn run(workspace: &Workspace, interpreter: &str) -> Result<()> {
    check(workspace, interpreter)?.map_or(Ok(()), |missing| bail!(missing))
}

/// [`run`], and then the tests with the frameworks of `requirements-frameworks.txt`, which are large, and those of the
/// package for vector stores.
///
/// # Errors
/// When there is no Python, or a step fails.
pub fn run_with_frameworks(workspace: &Workspace) -> Result<()> {
    run(workspace, PYTHON)?;
    let environment = Environment::existing(workspace);
    environment.pip(&["--requirement".as_ref(), "requirements-frameworks.txt".as_ref()])?;
    environment.pip(&["--no-deps".as_ref(), "--no-build-isolation".as_ref(), INTEGRATIONS.as_ref()])?;
    let tests = ["-q", "-p", "no:cacheprovider"];
    process::run(environment.python("pytest").args(tests).args(["-p", "no:asyncio", "frameworks"]))?;
    let mut integrations = environment.python("pytest");
    process::run(integrations.args(tests).arg(format!("{INTEGRATIONS}/tests")))
}

/// [`run`], and then the tests of clusters, with Ray of `requirements-ray.txt`. They start several nodes and kill them.
///
/// # Errors
/// When there is no Python, or a step fails.
pub fn run_with_ray(workspace: &Workspace) -> Result<()> {
    run(workspace, PYTHON)?;
    let environment = Environment::existing(workspace);
    environment.pip(&["--requirement".as_ref(), "requirements-ray.txt".as_ref()])?;
    process::run(environment.python("pytest").args(["-q", "-s", "-p", "no:cacheprovider", "cluster_tests"]))
}

/// What [`run`] does, or why it cannot be done.
///
/// # Errors
/// When a step fails.
pub fn check(workspace: &Workspace, interpreter: &str) -> Result<Option<String>> {
    if let Some(missing) = missing(workspace, interpreter) {
        return Ok(Some(missing));
    }
    let environment = Environment::new(workspace, interpreter)?;
    let wheels = tempfile::tempdir_in(&workspace.target)?;
    let wheel = environment.build(&[&["--profile", "dev"], &NATIVE[..]].concat(), wheels.path())?;
    environment.install(&wheel)?;
    environment.check_exports()?;
    environment.pip(&["--no-deps".as_ref(), "--no-build-isolation".as_ref(), DEMO.as_ref()])?;
    process::run(environment.python("pytest").args(["-q", "-p", "no:cacheprovider"]))?;
    // Compares the stubs with the module.
    process::run(environment.python("mypy.stubtest").arg("jasper._native"))?;
    process::run(environment.python("mypy").args([
        "--strict",
        "--cache-dir",
        "/dev/null",
        "--package",
        "jasper",
    ]))?;
    Ok(None)
}

/// What has to be installed first.
fn missing(workspace: &Workspace, interpreter: &str) -> Option<String> {
    let script = "import sys, ensurepip, venv; assert sys.version_info >= (3, 10)";
    let found = output(
        command(interpreter, &workspace.root).args(["-c", script]).stderr(std::process::Stdio::null()),
    );
    found.err().map(|_| {
        format!("{interpreter} must be Python 3.10 or later with venv, such as Debian's package python3-venv")
    })
}

/// A virtual environment with the packages of `requirements.txt`.
struct Environment {
    package: PathBuf,
    bin: PathBuf,
    target: PathBuf,
}

impl Environment {
    /// The one that is there.
    fn existing(workspace: &Workspace) -> Self {
        let target = workspace.target.clone();
        Self { package: workspace.root.join(PACKAGE), bin: target.join("python/bin"), target }
    }

    /// Makes it anew.
    fn new(workspace: &Workspace, interpreter: &str) -> Result<Self> {
        let folder = workspace.target.join("python");
        process::run(command(interpreter, &workspace.root).args(["-m", "venv", "--clear"]).arg(&folder))?;
        let environment = Self::existing(workspace);
        environment.pip(&["--requirement".as_ref(), "requirements.txt".as_ref()])?;
        Ok(environment)
    }

    /// A module of Python that runs as a program, in the folder of the package.
    fn python(&self, module: &str) -> Command {
        let mut python = command(self.bin.join("python"), &self.package);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(self.bin.clone()).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path).expect("the target folder has no colon in its path");
        python.args(["-m", module]).env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }

    fn pip(&self, packages: &[&Path]) -> Result<()> {
        let options = ["install", "--quiet", "--disable-pip-version-check"];
        process::run(self.python("pip").args(options).args(packages))
    }

    /// Builds the wheel into `folder` and returns its path.
    fn build(&self, options: &[&str], folder: &Path) -> Result<PathBuf> {
        let mut maturin = self.python("maturin");
        maturin.args(["build", "--quiet", "--target-dir"]).arg(&self.target).args(options);
        process::run(maturin.arg("--out").arg(folder))?;
        let wheels = fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        wheels
            .into_iter()
            .max_by_key(|wheel| wheel.metadata().and_then(|file| file.modified()).ok())
            .context("no wheel")
    }

    /// Builds the wheel of the data of the demonstration into `folder`.
    fn build_demo(&self, folder: &Path) -> Result<()> {
        let options =
            ["wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"];
        process::run(self.python("pip").args(options).arg("--wheel-dir").arg(folder).arg(DEMO))
    }

    fn install(&self, wheel: &Path) -> Result<()> {
        self.pip(&["--force-reinstall".as_ref(), "--no-deps".as_ref(), wheel])
    }

    /// Checks the wheel with the [`AUDITORS`].
    fn audit(&self, wheel: &Path) -> Result<()> {
        self.pip(&AUDITORS.map(Path::new))?;
        process::run(self.python("auditwheel").arg("show").arg(wheel))?;
        if !wheel.to_string_lossy().contains("-abi3-") {
            return Ok(());
        }
        process::run(self.python("abi3audit").args(["--strict", "--summary"]).arg(wheel))
    }

    /// Checks that the module exports what Python needs, and nothing else.
    fn check_exports(&self) -> Result<()> {
        let script = "import jasper._native; print(jasper._native.__file__)";
        let module = output(command(self.bin.join("python"), &self.package).args(["-c", script]))?;
        let symbols = output(command("nm", &self.package).args(["-D", "--defined-only", module.trim()]))?;
        let exports: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
        ensure!(exports == EXPORTS, "{} exports {exports:?}, expected {EXPORTS:?}", module.trim());
        Ok(())
    }
}
