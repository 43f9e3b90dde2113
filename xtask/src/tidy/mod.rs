//! The rules of the house that no compiler checks.
//!
//! | module | rules |
//! | --- | --- |
//! | [`layers`] | who may use whom |
//! | [`manifests`] | one table of versions, lints and package fields |
//! | [`sources`] | a header and a bounded length for every source file, unsafe code only where it is needed |
//! | [`links`] | what the pages point at exists |
//! | [`tree`] | what lies at the top level; no paths of one machine |
//!
//! Each rule is a function of plain values that returns what it finds, with a bad sample in its tests.

mod layers;
mod links;
mod manifests;
mod sources;
mod tree;

use std::fmt;

use anyhow::{Result, bail};

use crate::workspace::Workspace;

/// Something to mend.
#[derive(Debug, PartialEq)]
pub struct Finding {
    /// A file or package, with a line where one is known.
    place: String,
    /// What is wrong there and how to mend it.
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    fn at_line(file: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{file}:{line}"), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Applies every rule and prints what they find.
///
/// # Errors
/// When a rule finds something, or a file cannot be read.
pub fn run(workspace: &Workspace) -> Result<()> {
    let findings = check(workspace)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} packages, {} files", workspace.packages.len(), workspace.files.len()),
        count => bail!("{count} things to tidy"),
    }
    Ok(())
}

fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = layers::check(&workspace.packages);
    findings.extend(manifests::check(workspace)?);
    findings.extend(sources::check(workspace)?);
    findings.extend(links::check(workspace)?);
    findings.extend(tree::check(workspace)?);
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        let findings = check(&Workspace::load().unwrap()).unwrap();
        let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(lines.is_empty(), "\n{}", lines.join("\n"));
    }
}
