//! Links, headings and files named in `code` exist.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::Violation;
use crate::site::{GENERATED, REFERENCE};
use crate::workspace::Workspace;

/// Folders whose files are checked where a page names them in `code`.
const NAMED_FOLDERS: [&str; 6] = [".cargo/", ".ci/", "benches/", "crates/", "docs/", "xtask/"];
/// The table of contents of the book.
const SUMMARY: &str = "docs/src/SUMMARY.md";

/// Checks every page of the repository, the pages that comments name, and that the book's contents list each of its
/// pages.
pub fn check(workspace: &Workspace) -> Result<Vec<Violation>> {
    let mut violations = Vec::new();
    for file in workspace.files.iter().filter(|file| file.ends_with(".md")) {
        let text = workspace.text(file)?.unwrap_or_default();
        violations.extend(check_page(&workspace.root, file, &text));
    }
    for file in workspace.files.iter().filter(|file| file.ends_with(".rs")) {
        let text = workspace.text(file)?.unwrap_or_default();
        violations.extend(check_comments(&workspace.root, file, &text));
    }
    if workspace.files.iter().any(|file| file == SUMMARY) {
        let summary = workspace.text(SUMMARY)?.unwrap_or_default();
        violations.extend(check_contents(&workspace.files, &summary));
    }
    Ok(violations)
}

fn check_contents(files: &[String], summary: &str) -> Vec<Violation> {
    let pages = files.iter().filter_map(|file| file.strip_prefix("docs/src/"));
    let pages = pages.filter(|page| page.ends_with(".md") && *page != "SUMMARY.md");
    let unlisted = pages
        .filter(|page| !summary.contains(&format!("({page})")) && !summary.contains(&format!("(./{page})")));
    unlisted.map(|page| Violation::new(format!("docs/src/{page}"), "the page is not in SUMMARY.md")).collect()
}

/// Checks the pages of the book and of the notebook that the comments of a source file name, with a heading or without.
fn check_comments(root: &Path, file: &str, text: &str) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        let ends = |c: char| !c.is_alphanumeric() && !"-_/.#".contains(c);
        for name in comment.split(ends).filter(|name| name.starts_with("docs/") && name.contains(".md")) {
            if let Some(wrong) = broken(root, file, Path::new(""), name.trim_end_matches('.')) {
                violations.push(Violation::at_line(file, number + 1, wrong));
            }
        }
    }
    violations
}

fn check_page(root: &Path, file: &str, text: &str) -> Vec<Violation> {
    let folder = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut violations = Vec::new();
    for (number, line) in prose(text) {
        let (code, plain) = split_code(line);
        for target in targets(&plain) {
            if let Some(wrong) = broken(root, file, folder, &target) {
                violations.push(Violation::at_line(file, number, wrong));
            }
        }
        for name in code {
            // A placeholder or a pattern names no one file.
            let names_a_file = NAMED_FOLDERS.iter().any(|folder| name.starts_with(folder))
                && !name.contains([' ', '*', '<', '{']);
            if names_a_file && !root.join(name).exists() {
                violations.push(Violation::at_line(file, number, format!("`{name}` does not exist")));
            }
        }
    }
    violations
}

/// The lines outside fenced blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number + 1, line))
    })
}

/// The code spans of a line, and the line without them.
fn split_code(line: &str) -> (Vec<&str>, String) {
    let pieces: Vec<&str> = line.split('`').collect();
    let code = pieces.iter().skip(1).step_by(2).copied().collect();
    let plain: Vec<&str> = pieces.iter().step_by(2).copied().collect();
    (code, plain.join("`"))
}

/// What a line links to or shows: `](target)`, `src="target"`, `href="target"`.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (open, close) in [("](", ')'), ("src=\"", '"'), ("href=\"", '"')] {
        let starts = line.match_indices(open).map(|(at, _)| &line[at + open.len()..]);
        let inner = starts.filter_map(|rest| rest.split(close).next());
        // A title may follow the address.
        found.extend(inner.filter_map(|inner| inner.split_whitespace().next()).map(str::to_owned));
    }
    found
}

/// Why a link from `file` is broken, if it is. URLs are not followed.
fn broken(root: &Path, file: &str, folder: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    // The site has these, and checks their links.
    if target.starts_with(REFERENCE) || GENERATED.iter().any(|(_, page)| target.starts_with(page)) {
        return None;
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path = if path.is_empty() { PathBuf::from(file) } else { joined(folder, Path::new(path)) };
    if !root.join(&path).exists() {
        return Some(format!("{target} does not exist"));
    }
    let heading = heading?;
    let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
    let known =
        prose(&text).any(|(_, line)| line.starts_with('#') && slug(line.trim_start_matches('#')) == heading);
    (!known).then(|| format!("{} has no heading #{heading}", path.display()))
}

/// `path` relative to `folder`, with `..` resolved.
fn joined(folder: &Path, path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in folder.join(path).components() {
        match part {
            Component::ParentDir => {
                whole.pop();
            }
            Component::CurDir => {}
            part => whole.push(part),
        }
    }
    whole
}

/// The anchor that mdbook generates for a heading.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/src/img")).unwrap();
        fs::write(
            root.path().join("docs/src/other.md"),
            "# Other page: `names`\n```\n# not a heading\n```\n",
        )
        .unwrap();
        fs::write(root.path().join("docs/src/img/one.svg"), "").unwrap();
        fs::write(root.path().join("docs/src/page.md"), text).unwrap();
        check_page(root.path(), "docs/src/page.md", text).iter().map(Violation::to_string).collect()
    }

    #[test]
    fn what_exists_passes() {
        let page = "# Here\n[a](other.md) [b](./other.md#other-page-names) [c](#here) ![d](img/one.svg \"title\")\n\
                    [e](https://example.org/x) [f](../../docs) `docs/src/other.md` `crates/*` `docs/<name>.md` `[g](no.md)`\n\
                    ```text\n[h](no.md)\n```\n<img src=\"img/one.svg\">\n";
        assert!(violations(page).is_empty(), "{:?}", violations(page));
    }

    #[test]
    fn what_does_not_exist_is_found() {
        for (bad, expected) in [
            ("[a](no.md)", "docs/src/page.md:1: no.md does not exist"),
            ("[a](../other.md)", "docs/src/page.md:1: ../other.md does not exist"),
            ("<img src=\"no.svg\">", "docs/src/page.md:1: no.svg does not exist"),
            ("[a](other.md#none)", "docs/src/page.md:1: docs/src/other.md has no heading #none"),
            (
                "[a](other.md#not-a-heading)",
                "docs/src/page.md:1: docs/src/other.md has no heading #not-a-heading",
            ),
            ("[a](#none)", "docs/src/page.md:1: docs/src/page.md has no heading #none"),
            ("`crates/none/src/lib.rs`", "docs/src/page.md:1: `crates/none/src/lib.rs` does not exist"),
        ] {
            assert_eq!(violations(bad), [expected]);
        }
    }

    #[test]
    fn pages_that_comments_name_exist() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/src")).unwrap();
        fs::write(root.path().join("docs/src/page.md"), "# Some heading\n").unwrap();
        let text = "// See docs/src/page.md.\n//! (docs/src/page.md#some-heading).\n/// docs/src/page.md#no, docs/src/no.md\n";
        let found = check_comments(root.path(), "src/lib.rs", text);
        let found: Vec<_> = found.iter().map(Violation::to_string).collect();
        let expected = ["docs/src/page.md has no heading #no", "docs/src/no.md does not exist"];
        assert_eq!(found, expected.map(|wrong| format!("src/lib.rs:3: {wrong}")));
    }

    #[test]
    fn pages_outside_the_contents_are_found() {
        let files = ["docs/src/SUMMARY.md", "docs/src/a.md", "docs/src/b.md", "README.md"].map(str::to_owned);
        let found = check_contents(&files, "- [A](a.md)\n- [C](c.md)\n");
        assert_eq!(found, [Violation::new("docs/src/b.md", "the page is not in SUMMARY.md")]);
    }
}
