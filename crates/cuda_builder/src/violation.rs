//! What PTX must not hold: each would make a kernel slow, or wrong on some launches only.

use crate::entries::{Entry, code, entries};

/// A reason to refuse a PTX text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PtxViolation {
    /// A kernel keeps something in local memory: an array that was not unrolled into registers.
    #[error(
        "{kernel} uses local memory (`{code}`); index its arrays by constants only, in loops of constant length"
    )]
    Local {
        /// The kernel.
        kernel: String,
        /// The instruction or directive.
        code: String,
    },
    /// A kernel calls a function that was not inlined.
    #[error("{kernel} calls a function (`{code}`); mark what it calls `#[inline(always)]`")]
    Call {
        /// The kernel.
        kernel: String,
        /// The instruction.
        code: String,
    },
    /// The kernel that has one barrier in Rust has another number of them in PTX.
    #[error(
        "{kernel} has one barrier in Rust and {found} in PTX: the compiler moved it into a branch; build with another compiler"
    )]
    Barriers {
        /// The kernel.
        kernel: String,
        /// Barriers in its PTX.
        found: usize,
    },
    /// The kernel by which barriers are checked is not there.
    #[error("there is no kernel {kernel} to check barriers by; declare it, or name another canary")]
    NoCanary {
        /// The kernel.
        kernel: String,
    },
}

/// Everything that is wrong with `ptx`: of each kind at most one finding a kernel. `canary` names a kernel of the form
/// *if c { write }; barrier; if c { write }*.
pub fn violations(ptx: &str, canary: Option<&str>) -> Vec<PtxViolation> {
    let lines: Vec<&str> = ptx.lines().collect();
    let entries = entries(&lines);
    let mut found = Vec::new();
    for entry in &entries {
        let kernel = entry.name.to_owned();
        let first = |wrong: fn(&str) -> bool| body(&lines, entry).find(|line| wrong(line)).map(str::to_owned);
        found.extend(first(is_local).map(|code| PtxViolation::Local { kernel: kernel.clone(), code }));
        found.extend(first(is_call).map(|code| PtxViolation::Call { kernel, code }));
    }
    if let Some(canary) = canary {
        let kernel = canary.to_owned();
        match entries.iter().find(|entry| entry.name == canary) {
            None => found.push(PtxViolation::NoCanary { kernel }),
            Some(entry) => match body(&lines, entry).filter(|line| is_barrier(line)).count() {
                1 => {}
                count => found.push(PtxViolation::Barriers { kernel, found: count }),
            },
        }
    }
    found
}

/// The statements of a body, comments and blank lines left out.
fn body<'a>(lines: &'a [&str], entry: &Entry<'_>) -> impl Iterator<Item = &'a str> {
    lines[entry.open..entry.close].iter().map(|line| code(line).trim()).filter(|line| !line.is_empty())
}

/// Its operation, without the predicate: `call.uni` of `@%p1 call.uni f;`.
fn operation(statement: &str) -> &str {
    let mut words = statement.split_whitespace().skip_while(|word| word.starts_with('@'));
    words.next().unwrap_or_default().trim_end_matches(';')
}

fn is_local(statement: &str) -> bool {
    operation(statement).split('.').any(|part| part == "local") || statement.contains("__local_depot")
}

fn is_call(statement: &str) -> bool {
    operation(statement).split('.').next() == Some("call")
}

fn is_barrier(statement: &str) -> bool {
    matches!(operation(statement).split('.').next(), Some("bar" | "barrier"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The violations in a kernel with `body`.
    fn violations_of(body: &str) -> Vec<PtxViolation> {
        violations(&format!(".visible .entry k(\n)\n{{\n{body}\n\tret;\n}}\n"), None)
    }

    #[test]
    fn local_memory_and_calls_are_refused() {
        for local in ["\t.local .align 16 .b8 \t__local_depot0[64];", "\tld.local.u32 \t%r1, [%rd1];"] {
            assert!(
                matches!(&violations_of(local)[..], [PtxViolation::Local { kernel, .. }] if kernel == "k"),
                "{local}"
            );
        }
        for call in ["\tcall.uni panic;", "\t@%p1 call (retval0), f;", "\tcall \tf;"] {
            assert!(
                matches!(&violations_of(call)[..], [PtxViolation::Call { code, .. }] if code == call.trim()),
                "{call}"
            );
        }
        assert_eq!(violations_of("\tcall.uni f;\n\tst.local.u32 [%rd1], %r1;\n\tcall.uni g;").len(), 2);
        for good in ["\t// call f", "\tld.shared.u32 %r1, [call];", "$L__local:", "\tbar.sync \t0;"] {
            assert_eq!(violations_of(good), [], "{good}");
        }
    }

    #[test]
    fn a_canary_has_exactly_one_barrier() {
        let canary = |body: &str| {
            let ptx = format!(
                ".visible .entry other()\n{{\n\tbar.sync 0;\n\tbar.sync 0;\n}}\n.visible .entry canary()\n{{\n{body}}}\n"
            );
            violations(&ptx, Some("canary"))
        };
        for good in ["\tbar.sync \t0;\n", "\tbarrier.sync.aligned 0;\n", "\t@%p1 bar.sync 0; // bar.sync\n"] {
            assert_eq!(canary(good), [], "{good}");
        }
        for (bad, found) in [("\tbar.sync 0;\n\tbar.sync 0;\n", 2), ("\tret;\n", 0)] {
            assert_eq!(canary(bad), [PtxViolation::Barriers { kernel: "canary".into(), found }]);
        }
        assert_eq!(violations("", Some("canary")), [PtxViolation::NoCanary { kernel: "canary".into() }]);
    }
}
