//! One table of versions, lints and package fields: the root manifest.

use anyhow::Result;

use super::Violation;
use crate::workspace::Workspace;

/// Fields that every package takes from the root.
const INHERITED: [&str; 4] = ["version", "edition", "rust-version", "license"];

/// Checks the manifest of every package.
pub fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for package in &workspace.packages {
        let text = workspace.text(&package.manifest)?.unwrap_or_default();
        violations.extend(check_manifest(&package.manifest, &text));
    }
    Ok(violations)
}

/// Reads line by line: manifests of this repository have one entry per line.
fn check_manifest(file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut inherited = Vec::new();
    let mut table = "";
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            table = line.trim_matches(['[', ']']);
            continue;
        }
        let (key, value) = line.split_once('=').map_or((line, ""), |(key, value)| (key.trim(), value.trim()));
        let from_root =
            (key.ends_with(".workspace") && value == "true") || value.contains("workspace = true");
        match table {
            "package" if from_root => inherited.push(key.trim_end_matches(".workspace").to_owned()),
            "lints" if key == "workspace" && value == "true" => inherited.push("lints".to_owned()),
            // Its own tests' features: a version here would have to be published before the package.
            "dev-dependencies" if value.contains("path = \".\"") => {}
            _ if table.ends_with("dependencies") && !from_root => violations.push(Violation::at_line(
                file,
                number + 1,
                format!("{key} names its own version; put that into the table of the root manifest and write `{key}.workspace = true`"),
            )),
            _ if table.contains("dependencies.") => violations.push(Violation::at_line(
                file,
                number + 1,
                format!("write [{table}] as one line of its table of dependencies"),
            )),
            _ => {}
        }
    }
    for field in INHERITED.into_iter().chain(["lints"]) {
        if !inherited.iter().any(|had| had == field) {
            violations.push(Violation::new(
                file,
                format!("{field} does not come from the root; write `workspace = true`"),
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[package]
name = \"sample\"
version.workspace = true
edition.workspace = true
rust-version.workspace = true
license = { workspace = true }

[dependencies]
# why
half.workspace = true
rand = { workspace = true, optional = true }

[features]
random = [\"dep:rand\"]

[lints]
workspace = true
";

    fn violations(text: &str) -> Vec<String> {
        check_manifest("Cargo.toml", text).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn inherited_fields_pass() {
        assert!(violations(GOOD).is_empty(), "{:?}", violations(GOOD));
        let itself = "\n[dev-dependencies]\nsample = { path = \".\", features = [\"random\"] }\n";
        assert!(violations(&format!("{GOOD}{itself}")).is_empty());
    }

    #[test]
    fn versions_of_its_own_are_found() {
        for (good, bad) in [
            ("half.workspace = true", "half = \"2\""),
            ("half.workspace = true", "half = { version = \"2\" }"),
            ("half.workspace = true", "half = { path = \"../half\" }"),
        ] {
            let found = violations(&GOOD.replace(good, bad));
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].starts_with("Cargo.toml:10: half names its own version"), "{found:?}");
        }
        let found = violations(&format!("{GOOD}\n[target.'cfg(unix)'.dependencies]\nlibc = \"0.2\"\n"));
        assert_eq!(found.len(), 1, "{found:?}");
        let found = violations(&format!("{GOOD}\n[dependencies.libc]\nversion = \"0.2\"\n"));
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn fields_of_its_own_are_found() {
        let found = violations(&GOOD.replace("edition.workspace = true", "edition = \"2021\""));
        assert_eq!(found, ["Cargo.toml: edition does not come from the root; write `workspace = true`"]);
        let found = violations(&GOOD.replace("[lints]\nworkspace = true", ""));
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
