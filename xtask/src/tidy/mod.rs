//! The rules of this repository that no compiler checks.
//!
//! | module | rules |
//! | --- | --- |
//! | [`layers`] | which package may depend on which |
//! | [`manifests`] | one table of versions, lints and package fields |
//! | [`sources`] | module docs and a maximum length for every source file; unsafe code only in listed packages |
//! | [`links`] | links, headings and files named in pages exist |
//! | [`tree`] | files at the top level; no absolute paths of one machine |
//!
//! Each rule is a function that returns its violations, tested with good and bad samples.

mod layers;
mod links;
mod manifests;
mod sources;
mod tree;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// A broken rule.
#[derive(Debug, PartialEq)]
pub struct Violation {
    /// A file or package, with a line where one is known.
    location: String,
    /// What is wrong and how to fix it.
    what: String,
}

impl Violation {
    fn new(location: impl Into<String>, what: impl Into<String>) -> Self {
        Self { location: location.into(), what: what.into() }
    }

    fn at_line(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{file}:{line}"), what)
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.what)
    }
}

/// Checks every rule and prints the violations.
///
/// # Errors
/// When there is a violation, or a file cannot be read.
pub fn run(workspace: &Workspace) -> Result<()> {
    let violations = check(workspace)?;
    for violation in &violations {
        eprintln!("{violation}");
    }
    match violations.len() {
        0 => println!("tidy: {} packages, {} files", workspace.packages.len(), workspace.files.len()),
        count => bail!("{count} violations"),
    }
    Ok(())
}

fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut violations = layers::check(&workspace.packages);
    violations.extend(manifests::check(workspace)?);
    violations.extend(sources::check(workspace)?);
    violations.extend(links::check(workspace)?);
    violations.extend(tree::check(workspace)?);
    Ok(violations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let violations = check(&Workspace::load().unwrap()).unwrap();
        let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
