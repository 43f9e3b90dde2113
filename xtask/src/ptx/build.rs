//! `ptx build`: compiles the crates of kernels.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use cuda_builder::{BuildOutput, Compiler, Compilers, CudaBuilder, Header};

use super::{CRATES, KernelCrate};
use crate::workspace::Workspace;

/// Writes the PTX that is committed, by the compiler of the committed one if it is installed.
///
/// # Errors
/// When there is no compiler, the kernels do not compile, or their PTX is refused.
pub fn run(workspace: &Workspace) -> Result<()> {
    for kernels in &CRATES {
        let built = build(workspace, kernels, kernels.builder(workspace))?;
        let (path, bytes) = (kernels.path(), kernels.encode(&built.ptx));
        write(&workspace.root.join(&path), &bytes)?;
        println!("{path}: {} kernels, {} KiB", built.kernels.len(), bytes.len().div_ceil(1024));
    }
    Ok(())
}

/// Writes PTX with line information, as text, into the build folder: it holds paths of this machine.
///
/// # Errors
/// As [`run`].
pub fn run_with_lines(workspace: &Workspace) -> Result<()> {
    for kernels in &CRATES {
        let built = build(workspace, kernels, kernels.builder(workspace).generate_line_info(true))?;
        let file = kernels.scratch(workspace, "with-lines");
        write(&file, built.ptx.as_bytes())?;
        println!("{}: {} kernels", file.display(), built.kernels.len());
    }
    Ok(())
}

/// Writes `file`, in a folder that is made where it does not exist.
pub fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(file.parent().unwrap_or(Path::new("")))?;
    fs::write(file, bytes).with_context(|| format!("{} cannot be written", file.display()))
}

fn build(workspace: &Workspace, kernels: &KernelCrate, builder: CudaBuilder) -> Result<BuildOutput> {
    let compiler = compiler(workspace, kernels)?;
    println!("{}: by {compiler}", kernels.path());
    Ok(builder.compiler(compiler).build()?)
}

/// The compiler of the committed PTX if it is installed, since another one changes every byte; else the first.
fn compiler(workspace: &Workspace, kernels: &KernelCrate) -> Result<Compiler> {
    let compilers = Compilers::find();
    let first = compilers.first()?;
    let Some(header) = kernels.text(workspace).ok().and_then(|ptx| Header::read(&ptx).ok()) else {
        return Ok(first.clone());
    };
    let same = compilers.version(&header.compiler).unwrap_or_else(|error| {
        println!("{error}");
        first
    });
    Ok(same.clone())
}
