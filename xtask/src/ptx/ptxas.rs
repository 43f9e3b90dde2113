//! NVIDIA's assembler, ptxas: downloads it from the Python package index, runs it and parses its output.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{command, installed, run};
use crate::workspace::Workspace;

/// The package that holds it.
const PACKAGE: &str = "nvidia-cuda-nvcc";
/// The version whose figures are comparable.
pub const VERSION: &str = "13.0.88";
/// Its place in that package.
const MEMBER: &str = "nvidia/cu13/bin/ptxas";
/// Takes one file out of an archive.
const EXTRACT: &str = "import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extract(sys.argv[2], sys.argv[3])";

/// Resources of one kernel on one architecture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The kernel.
    pub kernel: String,
    /// Registers per thread.
    pub registers: u32,
    /// Static shared memory per block, in bytes.
    pub shared: u32,
    /// Register spills: bytes stored and loaded.
    pub spills: u32,
    /// Stack frame per thread, in bytes.
    pub stack: u32,
}

/// The program, downloaded on first use: 37 MB.
///
/// # Errors
/// When Python is missing or the package index cannot be reached.
pub fn fetch(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("tools").join(format!("ptxas-{VERSION}"));
    let program = folder.join(MEMBER);
    if program.is_file() {
        return Ok(program);
    }
    ensure!(installed("python3"), "python3 is not installed; it fetches ptxas from the Python package index");
    let wheels = folder.join("wheels");
    fs::create_dir_all(&wheels).with_context(|| format!("{} cannot be written", wheels.display()))?;
    let mut pip = command("python3", &wheels);
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", "."]);
    run(pip.arg(format!("{PACKAGE}=={VERSION}")))
        .context("ptxas cannot be fetched; it needs pip and the Python package index")?;
    let wheel = fs::read_dir(&wheels)?.next().context("pip left no package")??.path();
    run(command("python3", &folder).args(["-c", EXTRACT]).arg(&wheel).arg(MEMBER).arg("."))?;
    fs::remove_dir_all(&wheels)?;
    allow_running(&program)?;
    Ok(program)
}

#[cfg(unix)]
fn allow_running(program: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(program, fs::Permissions::from_mode(0o755))?)
}

#[cfg(not(unix))]
fn allow_running(_program: &Path) -> Result<()> {
    Ok(())
}

/// Assembles `ptx` for `arch` with the program `ptxas` and returns what each kernel takes, by name.
///
/// # Errors
/// When it does not assemble; what ptxas prints is passed on.
pub fn assemble(ptxas: &Path, ptx: &Path, arch: &str) -> Result<Vec<Usage>> {
    let folder = ptx.parent().unwrap_or(Path::new("."));
    let mut assembler = command(ptxas, folder);
    // Without an output file it would leave one beside the PTX.
    assembler.args(["--verbose", "--output-file", "/dev/null"]).arg(format!("--gpu-name={arch}")).arg(ptx);
    let output = assembler.output().with_context(|| format!("{} does not start", ptxas.display()))?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{} does not assemble for {arch}:\n{said}", ptx.display());
    }
    let mut usages = read(&said);
    usages.sort_by(|a, b| a.kernel.cmp(&b.kernel));
    Ok(usages)
}

/// Parses the output of `ptxas --verbose`.
fn read(said: &str) -> Vec<Usage> {
    let mut usages: Vec<Usage> = Vec::new();
    for line in said.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let kernel = rest.split('\'').next().unwrap_or(rest).to_owned();
            usages.push(Usage { kernel, ..Usage::default() });
        } else if let Some(usage) = usages.last_mut() {
            usage.stack += number_before(line, " bytes stack frame");
            usage.spills +=
                number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
            usage.registers += number_before(line, " registers");
            usage.shared += number_before(line, " bytes smem");
        }
    }
    usages
}

/// The number in front of `unit`, 0 if the line has none.
fn number_before(line: &str, unit: &str) -> u32 {
    let before = line.find(unit).map(|at| &line[..at]);
    before.and_then(|text| text.rsplit([' ', ',']).next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_ptxas_is_parsed() {
        let said = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scan' for 'sm_80'
ptxas info    : Function properties for scan
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 1 barriers, 128 bytes smem, 368 bytes cmem[0]
ptxas info    : Compile time = 3.214 ms
ptxas info    : Compiling entry function 'sort' for 'sm_80'
ptxas info    : Function properties for sort
    64 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 64 bytes cumulative stack size, 368 bytes cmem[0]
";
        let scan = Usage { kernel: "scan".into(), registers: 20, shared: 128, ..Usage::default() };
        let sort = Usage { kernel: "sort".into(), registers: 255, shared: 0, spills: 28, stack: 64 };
        assert_eq!(read(said), [scan, sort]);
    }
}
