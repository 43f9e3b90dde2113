//! The book and the API reference as one website.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo, command, installed};
use crate::workspace::Workspace;

/// How to install mdbook.
pub const GET_MDBOOK: &str = "install it with `cargo install mdbook`";

/// Builds the book into `target/site` and the reference into `target/site/reference`.
///
/// # Errors
/// When mdbook is not installed, or a page does not build.
pub fn run(workspace: &Workspace) -> Result<()> {
    ensure!(installed("mdbook"), "mdbook is not installed; {GET_MDBOOK}");
    let site = workspace.target.join("site");
    process::run(book(workspace).arg("--dest-dir").arg(&site))?;
    process::run(&mut reference(workspace))?;
    copy(&workspace.target.join("doc"), &site.join("reference"))?;
    println!("the book: {}", site.join("index.html").display());
    println!("the reference: {}", site.join("reference/jasper/index.html").display());
    Ok(())
}

/// Builds the book.
pub fn book(workspace: &Workspace) -> Command {
    let mut mdbook = command("mdbook", &workspace.root);
    mdbook.args(["build", "docs"]);
    mdbook
}

/// Builds the reference of every package, warnings denied.
pub fn reference(workspace: &Workspace) -> Command {
    let mut doc = cargo(&workspace.root);
    deny_warnings(doc.args(["doc", "--workspace", "--no-deps"]));
    doc
}

/// Makes warnings of rustdoc errors.
pub fn deny_warnings(doc: &mut Command) -> &mut Command {
    doc.env("RUSTDOCFLAGS", "-D warnings")
}

/// Copies the folder `from` into `to`.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("{} cannot be read", from.display()))? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_copied_whole() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/b/page.html"), "new").unwrap();
        fs::create_dir_all(to.join("a/b")).unwrap();
        fs::write(to.join("a/b/page.html"), "old").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("a/b/page.html")).unwrap(), "new");
        assert!(copy(&folder.path().join("none"), &to).is_err());
    }
}
