//! Links between the book and the reference, and links that lead nowhere.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::REFERENCE;

/// Names of the reference, `Type` and `Type::method`, each with its page and anchor below the folder of the reference.
pub type Names = BTreeMap<String, String>;

/// Kinds of items, as the names of rustdoc's pages begin.
const KINDS: [&str; 6] = ["struct.", "enum.", "trait.", "fn.", "type.", "macro."];
/// What the name of a page in a comment begins with, and the folder of the site that has the page.
const FOLDERS: [(&str, &str); 2] = [("docs/src/", "book/"), ("docs/notebook/", "notebook/")];

/// The names of all items. Those of the crate `jasper` precede those of the crates below it.
pub fn names(reference: &Path) -> Result<Names> {
    let mut files: Vec<String> = Vec::new();
    pages(reference, "", &mut files)?;
    files.sort_by_key(|file| (!file.starts_with("jasper/"), file.clone()));
    let mut names = Names::new();
    for file in files {
        let name = file.rsplit('/').next().unwrap_or(&file);
        let Some(name) = KINDS.iter().find_map(|kind| name.strip_prefix(kind)?.strip_suffix(".html")) else {
            continue;
        };
        let html = fs::read_to_string(reference.join(&file))?;
        // An item of a private module has a page that leads to that of its public name.
        if names.contains_key(name) || html.contains("http-equiv=\"refresh\"") {
            continue;
        }
        names.insert(name.to_owned(), file.clone());
        // The sidebar lists the methods of the type itself, not those of its traits.
        for after in html.split("<li><a href=\"#").skip(1) {
            let anchor = after.split('"').next().unwrap_or_default();
            if let Some((_, method)) = anchor.split_once("method.").or_else(|| anchor.split_once("variant."))
            {
                names.entry(format!("{name}::{method}")).or_insert_with(|| format!("{file}#{anchor}"));
            }
        }
    }
    Ok(names)
}

/// A page that lists the public names of the crate `jasper`, so that the search of the book finds them.
pub fn page(names: &Names) -> String {
    let mut page = String::from(
        "# Rust names\n\nEvery public name of the crate `jasper`, with its documentation. [Reference](reference.md) has \
         the other crates.\n",
    );
    for (name, link) in names.iter().filter(|(_, link)| link.starts_with("jasper/")) {
        let _ = match name.split_once("::") {
            None => write!(page, "\n- [{name}]({REFERENCE}{link})"),
            Some((_, method)) => write!(page, ", [{method}]({REFERENCE}{link})"),
        };
    }
    page + "\n"
}

/// Links the names of the book to the reference, and the pages that the reference names to the book.
pub fn connect(site: &Path, names: &Names) -> Result<()> {
    let mut files = Vec::new();
    pages(site, "", &mut files)?;
    for file in files {
        let path = site.join(&file);
        let html = fs::read_to_string(&path).with_context(|| file.clone())?;
        let linked = if file.starts_with("book/") {
            with_names(&html, names)
        } else if file.starts_with("reference/") && !file.starts_with("reference/src/") {
            let root = "../".repeat(file.matches('/').count());
            with_pages(&html, &root, &|target| path.with_file_name(target).exists())
        } else {
            continue;
        };
        if linked != html {
            fs::write(&path, linked)?;
        }
    }
    Ok(())
}

/// A page of the book whose names in `code` are links.
fn with_names(html: &str, names: &Names) -> String {
    let (mut linked, mut rest) = (String::with_capacity(html.len()), html);
    while let Some((before, (code, after))) =
        rest.split_once("<code>").and_then(|(before, rest)| Some((before, rest.split_once("</code>")?)))
    {
        linked.push_str(before);
        let name = code.trim_end_matches("()");
        let python = name.strip_prefix("jasper.").unwrap_or(name);
        let link = match names.get(name) {
            Some(link) => Some(format!("{REFERENCE}{link}")),
            None if ["Index.", "Filter.", "Cluster."].iter().any(|class| python.starts_with(class)) => {
                let end =
                    python.find(|c: char| !c.is_alphanumeric() && !"._".contains(c)).unwrap_or(python.len());
                Some(format!("python-api.html#{}", &python[..end]))
            }
            None => None,
        };
        let in_link = linked.rfind("<a ").is_some_and(|start| !linked[start..].contains("</a>"));
        match link.filter(|_| !in_link) {
            Some(link) => _ = write!(linked, "<a href=\"{link}\"><code>{code}</code></a>"),
            None => _ = write!(linked, "<code>{code}</code>"),
        }
        rest = after;
    }
    linked + rest
}

/// A page of the reference that links to the book. Links without a page, of documentation that comes from other
/// packages, become text.
fn with_pages(html: &str, root: &str, exists: &dyn Fn(&str) -> bool) -> String {
    let book = format!("<h3><a href=\"{root}book/reference.html\">The book</a></h3>");
    let mut html =
        html.replacen("<div class=\"sidebar-elems\">", &format!("<div class=\"sidebar-elems\">{book}"), 1);
    for (folder, to) in FOLDERS {
        let mut pieces = html.split(folder);
        let mut linked = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end =
                piece.find(|c: char| !c.is_alphanumeric() && !"-_.#".contains(c)).unwrap_or(piece.len());
            let target = piece[..end].trim_end_matches('.');
            match target.split_once(".md") {
                Some((page, heading)) => {
                    _ = write!(linked, "<a href=\"{root}{to}{page}.html{heading}\">{folder}{target}</a>");
                    linked.push_str(&piece[target.len()..]);
                }
                None => _ = write!(linked, "{folder}{piece}"),
            }
        }
        html = linked;
    }
    let mut pieces = html.split(" href=\"");
    let mut alive = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (target, after) = piece.split_once('"').unwrap_or((piece, ""));
        match local(target) {
            // Scripts of rustdoc complete the targets with a brace.
            Some((file, _)) if !file.is_empty() && !file.contains(['{', '$']) && !exists(file) => {
                alive += after
            }
            _ => _ = write!(alive, " href=\"{piece}"),
        }
    }
    alive
}

/// Every link of a page of the book or of the notebook to a file or a heading that does not exist.
pub fn dead(site: &Path) -> Result<Vec<String>> {
    let (mut files, mut dead) = (Vec::new(), Vec::new());
    pages(site, "", &mut files)?;
    // That page holds all others, whose links it changes; that of errors is shown in any folder.
    let skipped = |file: &str| {
        ["reference/", "book/print", "book/404", "notebook/print", "notebook/404"]
            .iter()
            .any(|skipped| file.starts_with(skipped))
    };
    for file in files.iter().filter(|file| !skipped(file)) {
        let path = site.join(file);
        let html = fs::read_to_string(&path)?;
        for target in html.split(" href=\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            let Some((name, heading)) = local(target) else { continue };
            let to = if name.is_empty() { path.clone() } else { path.with_file_name(name) };
            let found = match heading {
                None | Some("") => to.exists(),
                Some(heading) => {
                    fs::read_to_string(&to).is_ok_and(|html| html.contains(&format!("id=\"{heading}\"")))
                }
            };
            if !found {
                dead.push(format!("{file}: {target}"));
            }
        }
    }
    dead.dedup();
    Ok(dead)
}

/// File and heading of a link that stays on the site.
fn local(target: &str) -> Option<(&str, Option<&str>)> {
    let elsewhere =
        target.contains("://") || ["mailto:", "data:", "javascript:"].iter().any(|it| target.starts_with(it));
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    (!elsewhere).then_some((file.split('?').next().unwrap_or(file), heading))
}

/// The pages below `folder`, relative to it.
fn pages(folder: &Path, prefix: &str, found: &mut Vec<String>) -> Result<()> {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    entries.sort_unstable();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            pages(&path, &format!("{prefix}{name}/"), found)?;
        } else if name.ends_with(".html") {
            found.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_from_the_pages_of_the_reference() {
        let folder = tempfile::tempdir().unwrap();
        let page = "<li><a href=\"#method.build\" title=\"build\">build</a></li><a href=\"#method.clone\">";
        for (name, text) in [
            ("jasper/struct.Index.html", page),
            ("below/struct.Index.html", ""),
            ("below/fn.f.html", ""),
            ("below/fn.g.html", "<meta http-equiv=\"refresh\">"),
        ] {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        }
        let names = names(folder.path()).unwrap();
        assert_eq!(names.keys().collect::<Vec<_>>(), ["Index", "Index::build", "f"]);
        assert_eq!(names["Index::build"], "jasper/struct.Index.html#method.build");
        assert!(super::page(&names).ends_with(
            "jasper/struct.Index.html), [build](../reference/jasper/struct.Index.html#method.build)\n"
        ));
    }

    #[test]
    fn names_in_code_are_linked_once() {
        let names = Names::from([("Index".to_owned(), "jasper/struct.Index.html".to_owned())]);
        let html = "<p><code>Index</code> <a href=\"x\"><code>Index</code></a> <code>none</code> <code>Index.build(x)</code>";
        let expected = "<p><a href=\"../reference/jasper/struct.Index.html\"><code>Index</code></a> \
                        <a href=\"x\"><code>Index</code></a> <code>none</code> \
                        <a href=\"python-api.html#Index.build\"><code>Index.build(x)</code></a>";
        assert_eq!(with_names(html, &names), expected);
    }

    #[test]
    fn pages_are_linked_and_dead_links_are_text() {
        let html = "<div class=\"sidebar-elems\">(docs/src/gpu.md#rust). docs/notebook/a.md docs/src/*.md <a href=\"none.html\">n</a>\
                    <a href=\"some.html\">s</a><a href=\"#here\">h</a>";
        let expected = "<div class=\"sidebar-elems\"><h3><a href=\"../../book/reference.html\">The book</a></h3>\
                        (<a href=\"../../book/gpu.html#rust\">docs/src/gpu.md#rust</a>). \
                        <a href=\"../../notebook/a.html\">docs/notebook/a.md</a> docs/src/*.md <a>n</a>\
                        <a href=\"some.html\">s</a><a href=\"#here\">h</a>";
        assert_eq!(with_pages(html, "../../", &|target| target != "none.html"), expected);
    }

    #[test]
    fn dead_links_are_found() {
        let site = tempfile::tempdir().unwrap();
        fs::create_dir_all(site.path().join("book")).unwrap();
        fs::write(site.path().join("book/b.html"), "<h1 id=\"b\">").unwrap();
        let links =
            ["b.html", "b.html#b", "b.html#c", "#here", "none.html", "https://none.org", "../index.html"];
        let page: String = links.iter().map(|link| format!("<a href=\"{link}\">")).collect();
        fs::write(site.path().join("book/a.html"), page).unwrap();
        fs::write(site.path().join("index.html"), "").unwrap();
        assert_eq!(
            dead(site.path()).unwrap(),
            ["book/a.html: b.html#c", "book/a.html: #here", "book/a.html: none.html"]
        );
    }
}
