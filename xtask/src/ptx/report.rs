//! `ptx report`: registers and shared memory of every kernel, and that none spills.
//!
//! All architectures and lengths of rows take minutes, so the result is committed beside the PTX: a row per kernel, with
//! a checksum of what was assembled. Only kernels that have changed since are assembled again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use jasper_ptx::{cap_blocks, specialize, split};

use super::build::write;
use super::ptxas::{self, Usage};
use super::{CRATES, KernelCrate};
use crate::workspace::Workspace;

/// A100; A10 and GeForce 30; L4, L40 and GeForce 40; H200; B200; GeForce 50: the names of the architectures, and their
/// compute capabilities.
const ARCHITECTURES: [(&str, (u32, u32)); 6] = [
    ("sm_80", (8, 0)),
    ("sm_86", (8, 6)),
    ("sm_89", (8, 9)),
    ("sm_90", (9, 0)),
    ("sm_100", (10, 0)),
    ("sm_120", (12, 0)),
];

/// Bytes of the rows that kernels are specialized for: few and many loads in narrow and wide tiles, and rows that are
/// not in flight as a whole.
const ROW_BYTES: [u32; 8] = [48, 128, 192, 208, 384, 1024, 3072, 8192];

/// The name of the file, beside the PTX.
const FILE: &str = "registers.txt";

/// What a kernel takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    /// The checksum of what was assembled.
    checksum: u32,
    /// Registers per thread on each of [`ARCHITECTURES`].
    registers: [u32; ARCHITECTURES.len()],
    /// Static shared memory per block, in bytes.
    shared: u32,
}

/// The rows of kernels, by name.
type Table = BTreeMap<String, Row>;

/// Without `entries`, assembles the kernels that have changed, and writes and prints the table; otherwise assembles those
/// whose names begin with one of `entries`, and only prints what they take.
///
/// # Errors
/// When ptxas cannot be fetched, or a kernel does not assemble, spills registers or has a stack frame.
pub fn run(workspace: &Workspace, entries: &[&str]) -> Result<()> {
    let is_asked = |name: &str| entries.iter().any(|&entry| name.starts_with(entry));
    let mut slow = Vec::new();
    for kernels in &CRATES {
        let text = kernels.text(workspace)?;
        let mut table = if entries.is_empty() { committed(kernels, workspace)? } else { Table::new() };
        let checksums = checksums(&text);
        table.retain(|name, row| checksums.get(name) == Some(&row.checksum));
        let changed: Vec<&String> = if entries.is_empty() {
            checksums.keys().filter(|&name| !table.contains_key(name)).collect()
        } else {
            checksums.keys().filter(|name| is_asked(name)).collect()
        };
        for (arch, row_bytes, usage) in assemble(kernels, workspace, &text, &changed)? {
            slow.extend(in_memory(&usage, ARCHITECTURES[arch].0, row_bytes));
            let row = table.entry(usage.kernel).or_default();
            row.registers[arch] = row.registers[arch].max(usage.registers);
            row.shared = row.shared.max(usage.shared);
        }
        for (name, row) in &mut table {
            row.checksum = checksums[name];
        }
        println!("{}\n{}", kernels.path(), print(&table));
        if entries.is_empty() && slow.is_empty() {
            write(&kernels.beside(workspace, FILE), print(&table).as_bytes())?;
        }
    }
    ensure!(
        slow.is_empty(),
        "kernels use local memory:\n{}\nUse fewer registers or smaller arrays",
        slow.join("\n")
    );
    Ok(())
}

/// Checks that the committed table is that of the committed PTX.
///
/// # Errors
/// When a kernel has changed since.
pub fn check(workspace: &Workspace) -> Result<()> {
    for kernels in &CRATES {
        let (table, checksums) = (committed(kernels, workspace)?, checksums(&kernels.text(workspace)?));
        let is_same = |(name, row): (&String, &Row)| checksums.get(name) == Some(&row.checksum);
        if table.len() != checksums.len() || !table.iter().all(is_same) {
            bail!(
                "kernels in {} have changed; run `cargo xtask ptx report` and commit {FILE}",
                kernels.path()
            );
        }
    }
    Ok(())
}

/// The committed table of a crate; none if there is no file yet.
fn committed(kernels: &KernelCrate, workspace: &Workspace) -> Result<Table> {
    let path = kernels.beside(workspace, FILE);
    if !path.exists() {
        return Ok(Table::new());
    }
    let text = fs::read_to_string(&path)?;
    read(&text).with_context(|| format!("{} is no table of registers", path.display()))
}

/// A checksum of all that is assembled of each kernel, by name.
fn checksums(text: &str) -> BTreeMap<String, u32> {
    let (mut sums, (_, kernels)) = (BTreeMap::new(), split(text));
    for (_, capability) in ARCHITECTURES {
        for row_bytes in ROW_BYTES {
            for (entry, ptx) in specialized(&kernels, row_bytes, capability) {
                let sum: &mut u32 = sums.entry(entry.to_owned()).or_default();
                *sum = crc32c::crc32c_append(*sum, ptx.as_bytes());
            }
        }
    }
    sums
}

/// What some kernels take on each architecture, given by its number, for rows of each number of bytes.
fn assemble(
    kernels: &KernelCrate,
    workspace: &Workspace,
    text: &str,
    names: &[&String],
) -> Result<Vec<(usize, u32, Usage)>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let ptxas = ptxas::fetch(workspace)?;
    let (head, mut chosen) = split(text);
    chosen.retain(|(entry, _)| names.iter().any(|name| *name == entry));
    let (next, jobs) = (AtomicUsize::new(0), ARCHITECTURES.len() * ROW_BYTES.len());
    let work = || {
        let mut done = Vec::new();
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            if job >= jobs {
                return Ok(done);
            }
            let (arch, row_bytes) = (job / ROW_BYTES.len(), ROW_BYTES[job % ROW_BYTES.len()]);
            let (name, capability) = ARCHITECTURES[arch];
            let ptx: String = specialized(&chosen, row_bytes, capability).map(|(_, ptx)| ptx).collect();
            if ptx.is_empty() {
                continue;
            }
            let file = kernels.scratch(workspace, &format!("report-{job}"));
            write(&file, format!("{head}{ptx}").as_bytes())?;
            let usages = ptxas::assemble(&ptxas, &file, name)?;
            done.extend(usages.into_iter().map(|usage| (arch, row_bytes, usage)));
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
fn specialized<'a>(
    kernels: &'a [(&'a str, &'a str)],
    row_bytes: u32,
    capability: (u32, u32),
) -> impl Iterator<Item = (&'a str, String)> {
    let specializations: BTreeMap<_, _> = gpu_kernels::specializations(row_bytes).into_iter().collect();
    kernels.iter().filter_map(move |&(entry, kernel)| match specializations.get(entry) {
        Some(how) => Some((entry, specialize(kernel, &how.constants, how.min_blocks_on(capability)))),
        None if row_bytes == ROW_BYTES[0] => {
            Some((entry, cap_blocks(kernel, gpu_kernels::max_blocks(capability))))
        }
        None => None,
    })
}

/// The table as text.
fn print(table: &Table) -> String {
    let width = table.keys().map(String::len).max().unwrap_or(0).max("kernel".len());
    let mut text = format!("ptxas {}\n{:width$}", ptxas::VERSION, "kernel");
    for title in ARCHITECTURES.iter().map(|(name, _)| *name).chain(["shared"]) {
        let _ = write!(text, "  {title:>6}");
    }
    text += "  checksum\n";
    for (name, Row { checksum, registers, shared }) in table {
        let _ = write!(text, "{name:width$}");
        for figure in registers.iter().chain([shared]) {
            let _ = write!(text, "  {figure:>6}");
        }
        let _ = writeln!(text, "  {checksum:08x}");
    }
    text
}

/// The table of a text that [`print()`] has made; none if it is by another version of ptxas.
fn read(text: &str) -> Result<Table> {
    let row = |line: &str| -> Option<(String, Row)> {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let mut row = Row::default();
        for figure in row.registers.iter_mut().chain([&mut row.shared]) {
            *figure = words.next()?.parse().ok()?;
        }
        row.checksum = u32::from_str_radix(words.next()?, 16).ok()?;
        Some((name, row))
    };
    let mut lines = text.lines();
    if lines.next() != Some(&format!("ptxas {}", ptxas::VERSION)) {
        return Ok(Table::new());
    }
    lines.skip(1).map(|line| row(line).with_context(|| format!("`{line}`"))).collect()
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

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let row = |sm_90, checksum| Row { checksum, registers: [20, 20, 21, sm_90, 22, 22], shared: 128 };
        let table = Table::from([("distances".into(), row(22, 7)), ("sort".into(), row(70, u32::MAX))]);
        let rows = "\
kernel      sm_80   sm_86   sm_89   sm_90  sm_100  sm_120  shared  checksum
distances      20      20      21      22      22      22     128  00000007
sort           20      20      21      70      22      22     128  ffffffff
";
        let text = format!("ptxas {}\n{rows}", ptxas::VERSION);
        assert_eq!(print(&table), text);
        assert_eq!(read(&text).unwrap(), table);
        assert!(read(&format!("ptxas {}\nkernel\nsort 20 20", ptxas::VERSION)).is_err());
        assert_eq!(read(&text.replacen("ptxas", "ptxas 0", 1)).unwrap(), Table::new());
    }

    #[test]
    fn spills_are_told() {
        let usage = |spills| Usage { kernel: "sort".into(), registers: 60, spills, ..Usage::default() };
        assert_eq!(in_memory(&usage(0), "sm_90", 48), None);
        let said = in_memory(&usage(8), "sm_90", 48).unwrap();
        assert_eq!(said, "sort on sm_90, rows of 48 bytes: 8 bytes of spills, 0 of stack");
    }
}
