//! Draws the book's figures: plots and tables of the measurements in `docs/measurements`.
//!
//! ```sh
//! cargo run -p jasper-benches --bin figures
//! ```
//!
//! A page marks where a figure goes; the lines between the marks are replaced:
//!
//! ```text
//! <!-- figure: search-recall -->
//! ![..](img/search-recall.svg)
//! <!-- end -->
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`lines`] | the measurements |
//! | [`peers`] | the best of other libraries |
//! | [`plots`] | curves as SVG |
//! | [`tables`] | numbers as Markdown |
//! | [`distributions`] | plots and tables of many kinds of data |
//! | [`page`] | the pages' marks |

#![forbid(unsafe_code)]

mod distributions;
mod lines;
mod page;
mod peers;
mod plots;
mod tables;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use distributions::OnDevice;
use lines::Lines;
use peers::Peers;

/// Folder of the measurements.
const MEASUREMENTS: &str = "docs/measurements";
/// Folder of the pages; their pictures are in `img` below.
const PAGES: &str = "docs/src";
/// Measurements of other libraries.
const PEERS: &str = "benches/peers/h200.json";

/// A plot, and a table below it.
#[derive(Debug, Default, PartialEq)]
struct Figure {
    plot: Option<Plot>,
    /// Markdown, empty without measurements.
    table: String,
}

/// A picture of a page.
#[derive(Debug, PartialEq)]
struct Plot {
    /// Alternative text.
    text: String,
    svg: String,
}

/// Writes every page and plot that differs from the measurements, and prints their names.
///
/// # Errors
/// When a measurement cannot be read, or a page names a figure that does not exist.
fn main() -> Result<()> {
    for (file, text) in stale()? {
        fs::write(root().join(&file), text)?;
        println!("{file}");
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package is in a folder of the workspace")
}

/// Files that differ from the measurements, each with the text it should have.
fn stale() -> Result<Vec<(String, String)>> {
    let lines = Lines::read(&root().join(MEASUREMENTS))?;
    let peers = fs::read_to_string(root().join(PEERS)).context(PEERS)?;
    let figures = figures(lines, &Peers::parse(&peers).context(PEERS)?)?;
    let mut files = Vec::new();
    for (name, figure) in &figures {
        let svg = figure.plot.as_ref().map(|plot| plot.svg.clone());
        files.extend(svg.map(|svg| (format!("{PAGES}/{}", page::picture(name)), svg)));
    }
    for entry in fs::read_dir(root().join(PAGES))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            let file = format!("{PAGES}/{name}");
            let text = fs::read_to_string(root().join(&file))?;
            files.push((file, page::fill(&text, &figures).context(name)?));
        }
    }
    files.retain(|(file, text)| fs::read_to_string(root().join(file)).ok().as_ref() != Some(text));
    Ok(files)
}

/// Every figure, by its name.
fn figures(lines: Lines, peers: &Peers) -> Result<Vec<(String, Figure)>> {
    let [lines, quantized] = &lines.split_by_codes();
    let [cpu, gpu] = [true, false].map(|on_cpu| OnDevice::new(lines, on_cpu));
    let figures = [
        ("search-recall", plots::recall(lines, peers)?, tables::recall(lines, peers, 10)),
        ("search-recall-100", None, tables::recall(lines, peers, 100)),
        ("codes-recall", plots::recall(quantized, peers)?, tables::recall(quantized, peers, 10)),
        ("codes-recall-100", None, tables::recall(quantized, peers, 100)),
        ("codes-many", None, tables::many(quantized)),
        ("search-widths", plots::widths(lines)?, tables::widths(lines)),
        ("search-many", None, tables::many(lines)),
        ("search-latency", None, tables::latency(lines, peers)),
        ("scale", plots::scale(lines)?, tables::scale(lines)),
        ("row-lengths", plots::row_lengths(lines)?, tables::row_lengths(lines)),
        ("search-graphs", None, tables::graphs(lines, peers)),
        ("distributions-cpu", cpu.plot()?, cpu.table()),
        ("distributions-gpu", gpu.plot()?, gpu.table()),
        ("distributions-gpu-codes", None, gpu.codes()),
        ("changes-cpu", None, cpu.changes()),
        ("changes-gpu", None, gpu.changes()),
    ];
    Ok(figures.map(|(name, plot, table)| (name.to_owned(), Figure { plot, table })).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_is_up_to_date() {
        let stale: Vec<String> = stale().unwrap().into_iter().map(|(file, _)| file).collect();
        assert!(stale.is_empty(), "run `cargo run -p jasper-benches --bin figures`: {stale:?}");
    }

    #[test]
    fn without_measurements_figures_are_empty() {
        let figures = figures(Lines::default(), &Peers::default()).unwrap();
        assert!(figures.iter().all(|(_, figure)| *figure == Figure::default()));
    }

    #[test]
    fn every_figure_comes_from_its_lines() {
        for (name, figure) in figures(lines::sample(), &peers::sample()).unwrap() {
            if name.starts_with("codes-") {
                assert_eq!(figure, Figure::default(), "{name}");
            } else {
                assert!(figure.table.starts_with("| "), "{name}: {}", figure.table);
            }
        }
    }
}
