//! Files at the top level, and no absolute paths of one machine in any file.

use anyhow::Result;

use super::Violation;
use crate::workspace::{TOP_LEVEL, Workspace};

/// First folders of absolute paths that exist on one machine only.
const LOCAL_FOLDERS: [&str; 4] = ["home", "root", "tmp", "work"];

/// Checks the path and the text of every file.
pub fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut violations: Vec<Violation> =
        workspace.files.iter().filter_map(|file| check_place(file)).collect();
    for file in &workspace.files {
        if let Some(text) = workspace.text(file)? {
            violations.extend(check_text(file, &text));
        }
    }
    Ok(violations)
}

fn check_place(file: &str) -> Option<Violation> {
    let top = file.split('/').next().unwrap_or(file);
    let known = top.starts_with('.') || TOP_LEVEL.contains(&top);
    (!known).then(|| {
        Violation::new(file, "the top level holds only what CONTRIBUTING.md lists; move it into a folder")
    })
}

fn check_text(file: &str, text: &str) -> Vec<Violation> {
    let lines = text.lines().enumerate();
    let found = lines.filter_map(|(number, line)| Some((number, local_path(line)?)));
    found
        .map(|(number, path)| {
            Violation::at_line(file, number + 1, format!("{path} is a path of one machine"))
        })
        .collect()
}

/// The first path on the line that starts in one of [`LOCAL_FOLDERS`].
fn local_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        // A slash after a name is inside a longer path or an address.
        let inside = line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/}>*".contains(c));
        let (folder, rest) = line[at + 1..].split_once('/')?;
        let end = rest.find(|c: char| c.is_whitespace() || "\"'`)]}>,;".contains(c)).unwrap_or(rest.len());
        (!inside && LOCAL_FOLDERS.contains(&folder)).then(|| &line[at..at + 1 + folder.len() + 1 + end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unexpected_top_level_files_are_found() {
        for good in ["README.md", "crates/a/src/lib.rs", ".ci/run"] {
            assert_eq!(check_place(good), None, "{good}");
        }
        for bad in ["notes.txt", "scripts/run.sh"] {
            assert!(check_place(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn local_paths_are_found() {
        for folder in LOCAL_FOLDERS {
            let path = format!("/{folder}/data/base.fbin");
            for line in [
                format!("open {path}"),
                format!("`{path}`"),
                format!("--base={path}"),
                format!("(\"{path}\")"),
            ] {
                assert_eq!(local_path(&line), Some(path.as_str()), "{line}");
                assert_eq!(
                    check_text("a.md", &format!("\n{line}")),
                    [Violation::at_line("a.md", 2, format!("{path} is a path of one machine"))]
                );
            }
            for line in [
                format!("target{path}"),
                format!("https://host.org{path}"),
                format!("a /{folder} b"),
                format!("/usr{path}"),
            ] {
                assert_eq!(local_path(&line), None, "{line}");
            }
        }
    }
}
