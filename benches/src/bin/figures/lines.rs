//! Measurements: one JSON object per line.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

/// All lines, in the order of files and lines.
#[derive(Debug, Default)]
pub struct Lines(Vec<Value>);

/// A data set in some element type, and the codes it was searched with: the row of most tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject<'a> {
    /// `sift-1m`
    pub set: &'a str,
    /// `u8`
    pub element: &'a str,
    /// `mixed:1`; nothing where distances are exact.
    pub codes: &'a str,
}

impl Lines {
    /// Reads every `.jsonl` file of a folder that may not exist. Other lines, such as progress messages, are
    /// skipped.
    ///
    /// # Errors
    /// When a file cannot be read, or a line that begins as JSON is none.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut files = Vec::new();
        if folder.exists() {
            for entry in fs::read_dir(folder)? {
                files.push(entry?.path());
            }
        }
        files.retain(|file| file.extension().is_some_and(|ending| ending == "jsonl"));
        files.sort_unstable();
        let mut lines = Self::default();
        for file in files {
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            lines.add(&text).with_context(|| file.display().to_string())?;
        }
        Ok(lines)
    }

    fn add(&mut self, text: &str) -> Result<()> {
        for line in text.lines().filter(|line| line.starts_with('{')) {
            self.0.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
        Ok(())
    }

    /// The lines of one kind.
    pub fn kind<'a>(&'a self, what: &str) -> Vec<&'a Value> {
        self.0.iter().filter(|line| line["what"] == what).collect()
    }

    /// Settings of all systems of one run, as `benches/peers/compare.py` writes them.
    pub fn systems(&self) -> Vec<&Value> {
        self.0.iter().filter(|line| line["system"].is_string()).collect()
    }

    /// Splits into lines of `gpu_search` by codes, and all others.
    pub fn split_by_codes(self) -> [Self; 2] {
        let devices: Vec<Value> = self.kind("device").into_iter().cloned().collect();
        let is_by_codes = |line: &Value| line["codes"].is_string() && line["what"] != "codes";
        let (quantized, exact) = self.0.into_iter().partition(is_by_codes);
        [Self(exact), Self([devices, quantized].concat())]
    }

    /// The name of the GPU that was measured.
    pub fn device(&self) -> String {
        let device = self.kind("device").first().and_then(|line| line["name"].as_str());
        device.unwrap_or("a GPU").to_owned()
    }
}

/// The text of a field; nothing where it is none.
pub fn text<'a>(line: &'a Value, field: &str) -> &'a str {
    line[field].as_str().unwrap_or_default()
}

/// The number of a field, or of an array element; 0 where it is none.
pub fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// The subjects of `lines`, each once, in the order of appearance.
pub fn subjects<'a>(lines: &[&'a Value]) -> Vec<Subject<'a>> {
    let mut subjects = Vec::new();
    for line in lines {
        let subject = Subject::from_line(line);
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    subjects
}

/// Different values of a field, in the order of appearance.
pub fn distinct<'a>(lines: &[&'a Value], field: &str) -> Vec<&'a Value> {
    let mut values = Vec::new();
    for line in lines {
        if !values.contains(&&line[field]) {
            values.push(&line[field]);
        }
    }
    values
}

impl<'a> Subject<'a> {
    /// The subject of a line.
    pub fn from_line(line: &'a Value) -> Self {
        Self { set: text(line, "set"), element: text(line, "element"), codes: text(line, "codes") }
    }

    /// Whether a line has this subject.
    pub fn matches(self, line: &Value) -> bool {
        Subject::from_line(line) == self
    }

    /// The element type and codes: `f16`, or `f16, mixed:1`.
    pub fn vectors(self) -> String {
        let Self { element, codes, .. } = self;
        if codes.is_empty() { element.to_owned() } else { format!("{element}, {codes}") }
    }
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {}", self.set, self.vectors())
    }
}

/// Measurements of two data sets.
#[cfg(test)]
pub fn sample() -> Lines {
    let mut lines = Lines::default();
    lines.add(include_str!("sample.jsonl")).unwrap();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_files_are_read_and_messages_are_not() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.jsonl"), "{\"what\": \"device\", \"name\": \"second\"}\n").unwrap();
        fs::write(
            folder.path().join("a.jsonl"),
            "  1.0 s  said\n{\"what\": \"device\", \"name\": \"first\"}\n",
        )
        .unwrap();
        fs::write(folder.path().join("c.txt"), "{").unwrap();
        let lines = Lines::read(folder.path()).unwrap();
        assert_eq!((lines.kind("device").len(), lines.device()), (2, "first".into()));
        assert!(Lines::read(&folder.path().join("none")).unwrap().kind("device").is_empty());
        fs::write(folder.path().join("d.jsonl"), "{\"what\": \n").unwrap();
        let error = format!("{:#}", Lines::read(folder.path()).unwrap_err());
        assert!(error.contains("d.jsonl"), "{error}");
    }

    #[test]
    fn subjects_keep_their_order() {
        let lines = sample();
        let of: Vec<String> = subjects(&lines.kind("front")).iter().map(Subject::to_string).collect();
        assert_eq!(of, ["sift-1m, u8", "deep-1m, f16"]);
    }
}
