//! The book's figures, from measurements: lines of JSON in `docs/measurements` become plots and tables of its pages.
//!
//! A page says where a figure goes, and keeps what was put there:
//!
//! ```text
//! <!-- figure: search-recall -->
//! ![..](img/search-recall.svg)
//! <!-- end -->
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`lines`] | what was measured |
//! | [`plots`] | curves as SVG |
//! | [`tables`] | numbers as Markdown |
//! | [`page`] | figures put into pages |

mod lines;
mod page;
mod plots;
mod tables;

use std::fs;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use lines::Lines;

/// Where measurements are kept.
const MEASUREMENTS: &str = "docs/measurements";
/// Where pages are, and their pictures below.
const PAGES: &str = "docs/src";
/// What the peers reach, for the plots.
const PEERS: &str = "benches/peers/h200.json";

/// A plot, and a table below it.
#[derive(Debug, Default, PartialEq)]
struct Figure {
    /// SVG, where there is something to draw.
    plot: Option<Plot>,
    /// Markdown; nothing where there is nothing to say.
    table: String,
}

/// A picture of a page.
#[derive(Debug, PartialEq)]
struct Plot {
    /// What it shows, for who cannot see it.
    text: String,
    svg: String,
}

/// Draws all figures and puts them into their pages. Says which files that changed.
///
/// # Errors
/// When a measurement cannot be read, or a page names a figure that does not exist.
pub fn run(workspace: &Workspace) -> Result<()> {
    for (file, text) in changed(workspace)? {
        fs::write(workspace.root.join(&file), text)?;
        println!("{file}");
    }
    Ok(())
}

/// The files that are not what the measurements make of them, and what they should hold.
fn changed(workspace: &Workspace) -> Result<Vec<(String, String)>> {
    let lines = Lines::read(&workspace.root.join(MEASUREMENTS))?;
    let peers = fs::read_to_string(workspace.root.join(PEERS)).context(PEERS)?;
    let figures = figures(lines, &serde_json::from_str(&peers).context(PEERS)?)?;
    let mut files = Vec::new();
    for (name, figure) in &figures {
        let svg = figure.plot.as_ref().map(|plot| plot.svg.clone());
        files.extend(svg.map(|svg| (format!("{PAGES}/{}", page::picture(name)), svg)));
    }
    for file in workspace.files.iter().filter(|file| file.starts_with(PAGES) && file.ends_with(".md")) {
        let text = workspace.text(file)?.unwrap_or_default();
        files.push((file.clone(), page::fill(&text, &figures).with_context(|| file.clone())?));
    }
    files.retain(|(file, text)| fs::read_to_string(workspace.root.join(file)).ok().as_ref() != Some(text));
    Ok(files)
}

/// Every figure, by its name.
fn figures(lines: Lines, peers: &serde_json::Value) -> Result<Vec<(String, Figure)>> {
    let [lines, coded] = &lines.parted();
    let of_recall = |lines| {
        Ok::<_, anyhow::Error>(Figure {
            plot: plots::recall(lines, peers)?,
            table: tables::recall(lines, 10),
        })
    };
    let mut figures = vec![
        ("search-recall".to_owned(), of_recall(lines)?),
        ("search-recall-100".to_owned(), Figure { plot: None, table: tables::recall(lines, 100) }),
        ("codes-recall".to_owned(), of_recall(coded)?),
        ("codes-recall-100".to_owned(), Figure { plot: None, table: tables::recall(coded, 100) }),
        ("codes-many".to_owned(), Figure { plot: None, table: tables::many(coded) }),
        ("search-widths".to_owned(), Figure { plot: plots::widths(lines)?, table: tables::widths(lines) }),
        ("search-many".to_owned(), Figure { plot: None, table: tables::many(lines) }),
        ("search-latency".to_owned(), Figure { plot: None, table: tables::latency(lines) }),
        ("search-graphs".to_owned(), Figure { plot: None, table: tables::graphs(lines) }),
    ];
    for name in VARIANTS {
        let figure = Figure { plot: plots::variants(lines, name)?, table: tables::variants(lines, name) };
        figures.push((figure_name(name), figure));
    }
    Ok(figures)
}

/// The name of the figure of a table of variants.
fn figure_name(variants: &str) -> String {
    format!("search-{}", variants.replace(' ', "-"))
}

/// Tables of variants, as the program that measures them names them.
const VARIANTS: [&str; 10] = [
    "filter of seen ids",
    "expansions a step",
    "threads a query",
    "queries a block",
    "loads",
    "tile width",
    "ablation",
    "grid",
    "sums",
    "start region",
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_book_shows_what_was_measured() {
        let stale: Vec<String> =
            changed(&Workspace::load().unwrap()).unwrap().into_iter().map(|(file, _)| file).collect();
        assert!(stale.is_empty(), "run `cargo xtask figures`: {stale:?}");
    }

    #[test]
    fn without_measurements_figures_are_empty() {
        let figures = figures(Lines::default(), &json!({})).unwrap();
        assert_eq!(figures.len(), 9 + VARIANTS.len());
        assert!(figures.iter().all(|(_, figure)| *figure == Figure::default()));
    }

    #[test]
    fn every_figure_comes_from_its_lines() {
        // Of the tables of variants, the first alone.
        let not_measured: Vec<String> = VARIANTS[1..].iter().map(|name| figure_name(name)).collect();
        for (name, figure) in figures(lines::sample(), &json!({})).unwrap() {
            if name.starts_with("codes-") || not_measured.contains(&name) {
                assert_eq!(figure, Figure::default(), "{name}");
            } else {
                assert!(figure.table.starts_with("| "), "{name}: {}", figure.table);
            }
        }
    }
}
