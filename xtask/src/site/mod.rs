//! The book, the notebook and the API reference as one website.
//!
//! ```text
//! target/site/book/        docs/src, and pages on the Python API, on Rust names and on vector stores
//! target/site/notebook/    docs/notebook: experiments, outside of the book's navigation and its search
//! target/site/reference/   rustdoc, of every library
//! ```
//!
//! [`links`] connects them: names in the book to their documentation, and pages that the documentation names to the
//! book.

mod links;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo, command, installed};
use crate::python::PYTHON;
use crate::workspace::Workspace;

/// How to install mdbook.
pub const GET_MDBOOK: &str = "install it with `cargo install mdbook`";
/// Pages that the site has and the repository has not; `SUMMARY.md` lists each without its file.
pub const GENERATED: [(&str, &str); 3] =
    [("Python API", "python-api.md"), ("Rust names", "rust-names.md"), ("LangChain and LlamaIndex", STORES)];
const STORES: &str = "vector-stores.md";
/// The page on vector stores, which is that of their package.
const STORES_README: &str = "crates/jasper-python/integrations/README.md";
/// How the book's pages begin a link to the reference.
pub const REFERENCE: &str = "../reference/";
/// Packages that are no libraries for users of the reference.
const WITHOUT_REFERENCE: [&str; 6] =
    ["xtask", "jasper-benches", "jasper-cli", "jasper-fuzz", "jasper-python", "jasper-cuda-std-kernels"];
/// The first page of a folder of the site.
const TO_BOOK: &str = "<!DOCTYPE html><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" content=\"0; url=PAGE\"><a href=\"PAGE\">Jasper</a>\n";

/// Builds the website into `target/site`.
///
/// # Errors
/// When mdbook or Python is not installed, a page does not build, or a link leads nowhere.
pub fn run(workspace: &Workspace) -> Result<()> {
    ensure!(installed("mdbook"), "mdbook is not installed; {GET_MDBOOK}");
    let (site, doc, source) =
        (workspace.target.join("site"), workspace.target.join("doc"), workspace.target.join("book"));
    for old in [&site, &doc, &source] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("{} cannot be removed", old.display()))?;
        }
    }
    let mut libraries = reference(workspace);
    libraries.arg("--lib").args(WITHOUT_REFERENCE.iter().flat_map(|name| ["--exclude", name]));
    process::run(&mut libraries)?;
    copy(&doc, &site.join("reference"))?;
    let names = links::names(&site.join("reference"))?;

    let docs = workspace.root.join("docs");
    for folder in ["src", "notebook"] {
        copy(&docs.join(folder), &source.join(folder))?;
    }
    fs::copy(docs.join("book.toml"), source.join("book.toml"))?;
    for to in [&source, &source.join("notebook")] {
        fs::copy(docs.join("site.css"), to.join("site.css"))?;
    }
    for entry in fs::read_dir(source.join("notebook"))? {
        let page = entry?.path();
        if page.extension().is_some_and(|extension| extension == "md") {
            // The book has another folder there.
            fs::write(&page, fs::read_to_string(&page)?.replace("](../src/", "](../book/"))?;
        }
    }
    let python = process::output(command(PYTHON, &workspace.root).arg("docs/python_api.py"))?;
    fs::write(source.join("src/python-api.md"), python)?;
    fs::write(source.join("src/rust-names.md"), links::page(&names))?;
    fs::copy(workspace.root.join(STORES_README), source.join("src").join(STORES))?;
    let summary = source.join("src/SUMMARY.md");
    fs::write(&summary, with_generated(&fs::read_to_string(&summary)?)?)?;
    for (folder, to) in [(source.clone(), "book"), (source.join("notebook"), "notebook")] {
        let mut mdbook = command("mdbook", &folder);
        process::run(mdbook.arg("build").arg("--dest-dir").arg(site.join(to)))?;
    }
    fs::write(site.join("index.html"), TO_BOOK.replace("PAGE", "book/index.html"))?;
    fs::write(site.join("reference/index.html"), TO_BOOK.replace("PAGE", "../book/reference.html"))?;
    links::connect(&site, &names)?;
    let dead = links::dead(&site)?;
    ensure!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    println!("the site: {}", site.join("index.html").display());
    Ok(())
}

/// The contents of the book, with the files of the pages that are generated.
fn with_generated(summary: &str) -> Result<String> {
    let mut summary = summary.to_owned();
    for (title, file) in GENERATED {
        let draft = format!("[{title}]()");
        ensure!(summary.contains(&draft), "SUMMARY.md does not list {draft}");
        summary = summary.replace(&draft, &format!("[{title}]({file})"));
    }
    Ok(summary)
}

/// Builds the book alone, without what is generated.
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

    #[test]
    fn the_contents_list_the_generated_pages() {
        let workspace = Workspace::load().unwrap();
        let summary = with_generated(&workspace.text("docs/src/SUMMARY.md").unwrap().unwrap()).unwrap();
        assert!(GENERATED.iter().all(|(title, file)| summary.contains(&format!("[{title}]({file})"))));
        assert!(with_generated("- [Python API](other.md)").is_err());
    }
}
