//! `ptx report`: registers, shared memory, spills and stack of every kernel.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Result, bail};
use jasper_ptx::{cap_blocks, specialize, split};

use super::build::write;
use super::ptxas::{self, Usage};
use super::{CRATES, KernelCrate};
use crate::workspace::Workspace;

/// The name of an architecture, and its compute capability.
type Architecture = (&'static str, (u32, u32));

/// A100; A10 and GeForce 30; L4, L40 and GeForce 40; H200; B200; GeForce 50.
const ARCHITECTURES: [Architecture; 6] = [
    ("sm_80", (8, 0)),
    ("sm_86", (8, 6)),
    ("sm_89", (8, 9)),
    ("sm_90", (9, 0)),
    ("sm_100", (10, 0)),
    ("sm_120", (12, 0)),
];

/// Those that `validate` checks, because all take too long: the one with the fewest blocks per multiprocessor, the one
/// that is measured, and the newest.
const VALIDATED: [&str; 3] = ["sm_86", "sm_90", "sm_120"];

/// Bytes of the rows that kernels are specialized for: few and many loads in narrow and wide tiles, and rows that are
/// not in flight as a whole.
const ROW_BYTES: [u32; 8] = [48, 128, 192, 208, 384, 1024, 3072, 8192];

/// Prints the table, of all kernels or of those whose names begin with one of `entries`.
///
/// # Errors
/// When ptxas cannot be fetched, or as [`report`].
pub fn run(workspace: &Workspace, entries: &[&str]) -> Result<()> {
    report(workspace, &ptxas::fetch(workspace)?, &ARCHITECTURES, entries)
}

/// Prints the table of the architectures that `validate` checks, or returns why ptxas is not available.
///
/// # Errors
/// As [`report`].
pub fn run_if_possible(workspace: &Workspace) -> Result<Option<String>> {
    let validated = ARCHITECTURES.into_iter().filter(|(name, _)| VALIDATED.contains(name));
    match ptxas::fetch(workspace) {
        Ok(ptxas) => report(workspace, &ptxas, &validated.collect::<Vec<_>>(), &[]).map(|()| None),
        Err(error) => Ok(Some(format!("{error:#}"))),
    }
}

/// Assembles the committed PTX for each architecture, with the launch bounds that it is loaded with there, and prints
/// the table.
///
/// # Errors
/// When a kernel does not assemble, spills registers or has a stack frame.
fn report(
    workspace: &Workspace,
    ptxas: &Path,
    architectures: &[Architecture],
    entries: &[&str],
) -> Result<()> {
    let mut slow = Vec::new();
    for kernels in &CRATES {
        let mut columns = vec![Vec::new(); architectures.len()];
        for (arch, row_bytes, usages) in assemble(kernels, workspace, ptxas, architectures, entries)? {
            slow.extend(usages.iter().filter_map(|usage| in_memory(usage, architectures[arch].0, row_bytes)));
            merge(&mut columns[arch], usages);
        }
        println!("{}\n{}", kernels.path(), table(architectures, &columns));
    }
    if !slow.is_empty() {
        bail!("kernels use local memory:\n{}\nUse fewer registers or smaller arrays", slow.join("\n"));
    }
    Ok(())
}

/// What the kernels take on each architecture, given by its number, for rows of each number of bytes.
fn assemble(
    kernels: &KernelCrate,
    workspace: &Workspace,
    ptxas: &Path,
    architectures: &[Architecture],
    entries: &[&str],
) -> Result<Vec<(usize, u32, Vec<Usage>)>> {
    let text = kernels.text(workspace)?;
    let (next, jobs) = (AtomicUsize::new(0), architectures.len() * ROW_BYTES.len());
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(done);
            }
            let (arch, row_bytes) = (job / ROW_BYTES.len(), ROW_BYTES[job % ROW_BYTES.len()]);
            let (name, capability) = architectures[arch];
            let file = kernels.scratch(workspace, &format!("report-{job}"));
            write(&file, specialized(&text, row_bytes, capability, entries).as_bytes())?;
            done.push((arch, row_bytes, ptxas::assemble(ptxas, &file, name)?));
            fs::remove_file(&file)?;
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let done: Result<Vec<Vec<_>>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("a worker does not panic")).collect()
    });
    Ok(done?.into_iter().flatten().collect())
}

/// The kernels as they are compiled for rows of `row_bytes`; those that do not depend on it with the first length only.
fn specialized(text: &str, row_bytes: u32, capability: (u32, u32), entries: &[&str]) -> String {
    let specializations = gpu_kernels::specializations(row_bytes);
    let (head, kernels) = split(text);
    let mut ptx = head.to_owned();
    let is_asked = |name: &str| entries.is_empty() || entries.iter().any(|&entry| name.starts_with(entry));
    for (entry, kernel) in kernels.into_iter().filter(|(name, _)| is_asked(name)) {
        match specializations.iter().find(|(specialized, _)| *specialized == entry) {
            Some((_, how)) => ptx += &specialize(kernel, &how.constants, how.min_blocks_on(capability)),
            None if row_bytes == ROW_BYTES[0] => {
                ptx += &cap_blocks(kernel, gpu_kernels::max_blocks(capability))
            }
            None => {}
        }
    }
    ptx
}

/// Keeps the most that each kernel takes.
fn merge(most: &mut Vec<Usage>, usages: Vec<Usage>) {
    for usage in usages {
        match most.binary_search_by(|known| known.kernel.cmp(&usage.kernel)) {
            Ok(at) => {
                let known = &mut most[at];
                known.registers = known.registers.max(usage.registers);
                known.shared = known.shared.max(usage.shared);
                known.spills = known.spills.max(usage.spills);
                known.stack = known.stack.max(usage.stack);
            }
            Err(at) => most.insert(at, usage),
        }
    }
}

/// One row per kernel: registers on each architecture, then the maximum of the others.
fn table(architectures: &[Architecture], columns: &[Vec<Usage>]) -> String {
    let kernels = columns.first().map_or(&[][..], Vec::as_slice);
    let width = kernels.iter().map(|usage| usage.kernel.len()).max().unwrap_or(0).max("kernel".len());
    let mut table = format!("{:width$}", "kernel");
    for title in architectures.iter().map(|(name, _)| *name).chain(["shared", "spills", "stack"]) {
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

/// Says where and how much local memory a kernel uses, if it does.
fn in_memory(usage: &Usage, arch: &str, row_bytes: u32) -> Option<String> {
    let Usage { kernel, spills, stack, .. } = usage;
    (*spills > 0 || *stack > 0).then(|| {
        format!("{kernel} on {arch}, rows of {row_bytes} bytes: {spills} bytes of spills, {stack} of stack")
    })
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
            vec![usage("distances", 20, 0), usage("sort", 64, 0)],
            vec![usage("distances", 21, 0), usage("sort", 65, 0)],
            vec![usage("distances", 22, 0), usage("sort", 70, 8)],
            vec![usage("distances", 22, 0), usage("sort", 72, 0)],
            vec![usage("distances", 22, 0), usage("sort", 72, 0)],
        ];
        let expected = "\
kernel      sm_80   sm_86   sm_89   sm_90  sm_100  sm_120  shared  spills   stack
distances      20      20      21      22      22      22       0       0       0
sort           64      64      65      70      72      72       0       8       0
";
        assert_eq!(table(&ARCHITECTURES, &columns), expected);
    }

    #[test]
    fn the_most_of_all_lengths_counts() {
        let mut most = Vec::new();
        merge(&mut most, vec![usage("sort", 64, 0), usage("reach", 20, 0)]);
        merge(&mut most, vec![usage("sort", 60, 8)]);
        assert_eq!(most, [usage("reach", 20, 0), usage("sort", 64, 8)]);
        assert_eq!(in_memory(&most[0], "sm_90", 48), None);
        let said = in_memory(&most[1], "sm_90", 48).unwrap();
        assert_eq!(said, "sort on sm_90, rows of 48 bytes: 8 bytes of spills, 0 of stack");
    }
}
