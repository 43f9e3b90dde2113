//! `ptx check`: compares the committed PTX with its sources.

use anyhow::{Context, Result, bail, ensure};
use cuda_builder::{Compilers, Difference, Header, INSTALL_HINT};

use super::{CRATES, KernelCrate, REBUILD, report};
use crate::workspace::Workspace;

/// Largest size of a file of PTX, in bytes. The wheel, which contains one, has a limit too, but is optimized, and so
/// small enough, only for a release.
const MAX_SIZE: usize = 2_300_000;

/// Checks, and prints what was skipped.
///
/// # Errors
/// As [`check`].
pub fn run(workspace: &Workspace) -> Result<()> {
    check(workspace)?.iter().for_each(|skipped| println!("{skipped}"));
    Ok(())
}

/// Compares the hashes in the committed PTX with the sources, its size with a limit, and its kernels with the table of
/// registers. Where its compiler is installed, also builds again and compares every byte; otherwise returns why that was
/// skipped.
///
/// # Errors
/// When a file is too large, something differs, or the kernels do not compile.
pub fn check(workspace: &Workspace) -> Result<Option<String>> {
    let mut skipped = None;
    for kernels in &CRATES {
        skipped = compare(workspace, kernels)?.or(skipped);
    }
    report::check(workspace)?;
    Ok(skipped)
}

fn compare(workspace: &Workspace, kernels: &KernelCrate) -> Result<Option<String>> {
    let (path, committed) = (kernels.path(), kernels.text(workspace)?);
    let builder = kernels.builder(workspace);
    let differences = builder.differences(&committed).with_context(|| format!("{path} cannot be checked"))?;
    ensure!(differences.is_empty(), "{path} was built from other sources:{}\n{REBUILD}", list(&differences));
    println!("{path}: matches its sources, by their hashes");
    let size = kernels.committed(workspace)?.len();
    ensure!(size <= MAX_SIZE, "{path} is {size} bytes, more than {MAX_SIZE}");
    println!("{path}: {size} bytes");
    let header = Header::read(&committed)?;
    let compiler = match Compilers::find().version(&header.compiler) {
        Ok(compiler) => compiler.clone(),
        Err(_) => {
            return Ok(Some(format!(
                "the PTX was not built again; its compiler, {}, is not installed; {INSTALL_HINT}",
                header.compiler
            )));
        }
    };
    let built = builder.compiler(compiler).build()?;
    if let Some((line, was, is)) = first_difference(&committed, &built.ptx) {
        bail!("line {line} of the PTX in {path} is `{was}`, and of a new build `{is}`; {REBUILD}");
    }
    ensure!(
        kernels.encode(&built.ptx) == kernels.committed(workspace)?,
        "{path} holds the same PTX in other bytes than a new build; {REBUILD}"
    );
    println!("{path}: built again by {}, the same bytes", header.compiler);
    Ok(None)
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(|difference| format!("\n  {difference}")).collect()
}

/// The first line, counted from 1, in which two texts differ, as it is in both.
fn first_difference<'a>(one: &'a str, other: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut ones, mut others) = (one.lines(), other.lines());
    (1..).find_map(|line| match (ones.next(), others.next()) {
        (None, None) => Some(None),
        (one, other) if one == other => None,
        (one, other) => Some(Some((line, one.unwrap_or("the end"), other.unwrap_or("the end")))),
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\nc\n", "a\nd\nc\n"), Some((2, "b", "d")));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some((2, "the end", "b")));
    }
}
