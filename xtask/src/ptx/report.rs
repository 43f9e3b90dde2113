//! `ptx report`: registers, shared memory, spills and stack of every kernel.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, bail};

use super::CRATES;
use super::build::write;
use super::ptxas::{self, Usage};
use crate::workspace::Workspace;

/// A100, H200, B200.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

/// Prints the table.
///
/// # Errors
/// When ptxas cannot be fetched, or as [`report`].
pub fn run(workspace: &Workspace) -> Result<()> {
    report(workspace, &ptxas::fetch(workspace)?)
}

/// Prints the table, or returns why ptxas is not available.
///
/// # Errors
/// As [`report`].
pub fn run_if_possible(workspace: &Workspace) -> Result<Option<String>> {
    match ptxas::fetch(workspace) {
        Ok(ptxas) => report(workspace, &ptxas).map(|()| None),
        Err(error) => Ok(Some(format!("{error:#}"))),
    }
}

/// Assembles the committed PTX for every architecture and prints the table.
///
/// # Errors
/// When a kernel does not assemble, spills registers or has a stack frame.
fn report(workspace: &Workspace, ptxas: &Path) -> Result<()> {
    let mut slow = Vec::new();
    for kernels in &CRATES {
        let ptx = kernels.scratch(workspace, "report");
        write(&ptx, kernels.text(workspace)?.as_bytes())?;
        let columns = ARCHITECTURES
            .into_iter()
            .map(|arch| ptxas::assemble(ptxas, &ptx, arch))
            .collect::<Result<Vec<Vec<Usage>>>>()?;
        println!("{}\n{}", kernels.path(), table(&columns));
        slow.extend(in_memory(&columns));
    }
    if !slow.is_empty() {
        bail!("kernels use local memory: {}; use fewer registers or smaller arrays", slow.join(", "));
    }
    Ok(())
}

/// One row per kernel: registers on each architecture, then the maximum of the others.
fn table(columns: &[Vec<Usage>]) -> String {
    let kernels = columns.first().map_or(&[][..], Vec::as_slice);
    let width = kernels.iter().map(|usage| usage.kernel.len()).max().unwrap_or(0).max("kernel".len());
    let mut table = format!("{:width$}", "kernel");
    for title in ARCHITECTURES.into_iter().chain(["shared", "spills", "stack"]) {
        let _ = write!(table, "  {title:>6}");
    }
    table.push('\n');
    for (row, usage) in kernels.iter().enumerate() {
        let _ = write!(table, "{:width$}", usage.kernel);
        let most =
            |what: fn(&Usage) -> u32| columns.iter().map(|column| what(&column[row])).max().unwrap_or(0);
        let registers = columns.iter().map(|column| column[row].registers);
        let rest = [most(|usage| usage.shared), most(|usage| usage.spills), most(|usage| usage.stack)];
        for figure in registers.chain(rest) {
            let _ = write!(table, "  {figure:>6}");
        }
        table.push('\n');
    }
    table
}

/// The kernels that use local memory, each with where and how much.
fn in_memory(columns: &[Vec<Usage>]) -> Vec<String> {
    let usages = ARCHITECTURES
        .into_iter()
        .zip(columns)
        .flat_map(|(arch, column)| column.iter().map(move |u| (arch, u)));
    usages
        .filter(|(_, usage)| usage.spills > 0 || usage.stack > 0)
        .map(|(arch, Usage { kernel, spills, stack, .. })| {
            format!("{kernel} on {arch} ({spills} bytes of spills, {stack} of stack)")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(kernel: &str, registers: u32, spills: u32) -> Usage {
        Usage { kernel: kernel.into(), registers, spills, ..Usage::default() }
    }

    #[test]
    fn the_table_has_a_row_for_each_kernel() {
        let columns = [
            vec![usage("distances", 20, 0), usage("sort", 64, 0)],
            vec![usage("distances", 22, 0), usage("sort", 70, 8)],
            vec![usage("distances", 22, 0), usage("sort", 72, 0)],
        ];
        let expected = "\
kernel      sm_80   sm_90  sm_100  shared  spills   stack
distances      20      22      22       0       0       0
sort           64      70      72       0       8       0
";
        assert_eq!(table(&columns), expected);
        assert_eq!(in_memory(&columns), ["sort on sm_90 (8 bytes of spills, 0 of stack)"]);
    }
}
