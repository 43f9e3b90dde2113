//! Launch bounds: how many threads a block has at most, and how many blocks share a multiprocessor.
//!
//! Rust has no attribute for them. `#[kernel(max_threads = 128, min_blocks = 8)]` leaves a comment in the assembly,
//! `//@kernel NAME max_threads=128,min_blocks=8`, which becomes two directives of the entry here.

use std::collections::BTreeMap;

use crate::entries::entries;
use crate::error::BuildError;

const MARKER: &str = "//@kernel ";

/// Takes the markers out of `ptx` and gives their kernels the directives.
pub fn insert(ptx: &str) -> Result<String, BuildError> {
    let mut bounds = BTreeMap::new();
    let mut lines = Vec::new();
    for line in ptx.lines() {
        match line.trim().strip_prefix(MARKER) {
            Some(marker) => {
                let (name, directives) =
                    parse(marker).ok_or_else(|| BuildError::Marker { line: line.trim().to_owned() })?;
                bounds.insert(name, directives);
            }
            None => lines.push(line),
        }
    }
    let mut out = String::with_capacity(ptx.len());
    let mut bodies = entries(&lines).into_iter().peekable();
    for (at, line) in lines.iter().enumerate() {
        if let Some(entry) = bodies.next_if(|entry| entry.open == at) {
            out.push_str(&bounds.remove(entry.name).unwrap_or_default());
        }
        out.push_str(line);
        out.push('\n');
    }
    match bounds.into_keys().next() {
        Some(name) => Err(BuildError::NoSuchKernel { name: name.to_owned() }),
        None => Ok(out),
    }
}

/// The kernel that a marker names, and its directives.
fn parse(marker: &str) -> Option<(&str, String)> {
    let (name, bounds) = marker.split_once(' ')?;
    let directives = bounds.split(',').map(|bound| {
        let (key, value) = bound.split_once('=')?;
        let value: u32 = value.trim().parse().ok()?;
        match key.trim() {
            "max_threads" => Some(format!(".maxntid {value}, 1, 1\n")),
            "min_blocks" => Some(format!(".minnctapersm {value}\n")),
            _ => None,
        }
    });
    Some((name, directives.collect::<Option<String>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
.version 8.0
\t//@kernel fast max_threads=128,min_blocks=8
.visible .entry plain(
)
{
\tret;
}
.visible .entry fast(
)
{
\tret;
}
";

    #[test]
    fn a_marker_becomes_directives_of_its_kernel() {
        let expected = PTX
            .replace("\t//@kernel fast max_threads=128,min_blocks=8\n", "")
            .replace("fast(\n)\n{", "fast(\n)\n.maxntid 128, 1, 1\n.minnctapersm 8\n{");
        assert_eq!(insert(PTX).unwrap(), expected);
        let threads_only = insert(&PTX.replace(",min_blocks=8", "")).unwrap();
        assert_eq!(threads_only, expected.replace(".minnctapersm 8\n", ""));
    }

    #[test]
    fn markers_that_lead_nowhere_are_errors() {
        for bad in ["fast max_threads=many", "fast max_threads", "fast threads=1", "fast"] {
            let ptx = PTX.replace("fast max_threads=128,min_blocks=8", bad);
            let error = insert(&ptx).unwrap_err();
            assert!(matches!(&error, BuildError::Marker { line } if line.ends_with(bad)), "{bad}: {error}");
        }
        let error = insert(&PTX.replace("//@kernel fast", "//@kernel slow")).unwrap_err();
        assert!(matches!(error, BuildError::NoSuchKernel { name } if name == "slow"));
    }
}
