//! Figures put into pages, between a line that names one and a line that ends it.

use anyhow::{Context, Result};

use crate::Figure;

const OPEN: &str = "<!-- figure: ";
const CLOSE: &str = " -->";
const END: &str = "<!-- end -->";

/// Where the picture of a figure is, as pages see it.
pub fn picture(name: &str) -> String {
    format!("img/{name}.svg")
}

/// The page with its figures as they are now.
///
/// # Errors
/// When it names a figure that is not among `figures`, or one has no end.
pub fn fill(page: &str, figures: &[(String, Figure)]) -> Result<String> {
    let mut filled = String::with_capacity(page.len());
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        filled += line;
        filled.push('\n');
        let Some(name) = line.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE)) else { continue };
        let known = figures.iter().find(|(known, _)| known == name);
        let (_, figure) = known.with_context(|| format!("there is no figure {name}"))?;
        lines.find(|line| *line == END).with_context(|| format!("the figure {name} has no line {END}"))?;
        filled += &figure.markdown(name);
        filled += END;
        filled.push('\n');
    }
    Ok(filled)
}

impl Figure {
    /// Picture and table, between empty lines.
    fn markdown(&self, name: &str) -> String {
        let plot = self.plot.as_ref().map(|plot| format!("\n![{}]({})\n", plot.text, picture(name)));
        let table = (!self.table.is_empty()).then(|| format!("\n{}", self.table));
        let parts: String = plot.into_iter().chain(table).collect();
        if parts.is_empty() { parts } else { parts + "\n" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plot;

    fn figures() -> Vec<(String, Figure)> {
        let plot = Plot { text: "speed".into(), svg: String::new() };
        vec![
            ("both".into(), Figure { plot: Some(plot), table: "| a |\n| --- |\n".into() }),
            ("none".into(), Figure::default()),
        ]
    }

    #[test]
    fn figures_take_the_place_of_older_ones() {
        let page = "# Page\n<!-- figure: both -->\nold\n<!-- end -->\ntext\n<!-- figure: none -->\nold\n<!-- end -->\n";
        let expected = "# Page\n<!-- figure: both -->\n\n![speed](img/both.svg)\n\n| a |\n| --- |\n\n<!-- end -->\ntext\n\
                        <!-- figure: none -->\n<!-- end -->\n";
        let filled = fill(page, &figures()).unwrap();
        assert_eq!(filled, expected);
        assert_eq!(fill(&filled, &figures()).unwrap(), filled, "twice is once");
    }

    #[test]
    fn mistakes_are_told() {
        let error = |page: &str| fill(page, &figures()).unwrap_err().to_string();
        assert_eq!(error("<!-- figure: other -->\n<!-- end -->\n"), "there is no figure other");
        assert_eq!(error("<!-- figure: both -->\ntext\n"), "the figure both has no line <!-- end -->");
        assert_eq!(fill("no figure\n", &figures()).unwrap(), "no figure\n");
    }
}
