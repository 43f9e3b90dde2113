//! `ptx build`: compiles the crates of kernels.

use std::path::Path;

use anyhow::Result;
use cuda_builder::{Built, Compiler, Compilers, CudaBuilder, Header};

use super::{CRATES, KernelCrate};
use crate::workspace::Workspace;

/// Writes the PTX that is committed, by the compiler of the one that is there if it is installed.
///
/// # Errors
/// When there is no compiler, the kernels do not compile, or their PTX is refused.
pub fn run(workspace: &Workspace) -> Result<()> {
    for kernels in &CRATES {
        let file = workspace.root.join(kernels.ptx());
        build(workspace, kernels, kernels.builder(workspace), &file)?;
    }
    Ok(())
}

/// Writes PTX that names the lines of its sources, into the build folder: it holds paths of this machine.
///
/// # Errors
/// As [`run`].
pub fn run_with_lines(workspace: &Workspace) -> Result<()> {
    for kernels in &CRATES {
        let builder = kernels.builder(workspace).generate_line_info(true);
        build(workspace, kernels, builder, &kernels.with_lines(workspace))?;
    }
    Ok(())
}

fn build(workspace: &Workspace, kernels: &KernelCrate, builder: CudaBuilder, file: &Path) -> Result<()> {
    let compiler = compiler(workspace, kernels)?;
    println!("{}: by {compiler}", kernels.ptx());
    let Built { ptx, kernels, .. } = builder.compiler(compiler).copy_to(file).build()?;
    println!("{}: {} kernels, {} KiB", file.display(), kernels.len(), ptx.len().div_ceil(1024));
    Ok(())
}

/// The compiler of the committed PTX if it is installed, since another one changes every byte; else the first.
fn compiler(workspace: &Workspace, kernels: &KernelCrate) -> Result<Compiler> {
    let compilers = Compilers::find();
    let first = compilers.first()?;
    let Some(header) = kernels.committed(workspace).ok().and_then(|ptx| Header::read(&ptx).ok()) else {
        return Ok(first.clone());
    };
    let same = compilers.version(&header.compiler).unwrap_or_else(|error| {
        println!("{error}");
        first
    });
    Ok(same.clone())
}
