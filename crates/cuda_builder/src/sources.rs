//! The files that were compiled, with a hash of each.
//!
//! The list comes from the compiler's dependency files, so files compiled for the host only are not part of it. Comment
//! lines are not hashed: docs can change without a new build.

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

/// A file that decides the PTX.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Relative to the root of the workspace, with `/` between folders.
    pub file: String,
    /// Of its lines of code.
    pub hash: u64,
}

impl Source {
    /// Reads `file` below `root`.
    pub fn read(root: &Path, file: &str) -> io::Result<Self> {
        let text = fs::read_to_string(root.join(file))?;
        Ok(Self { file: file.to_owned(), hash: hash(&text) })
    }

    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(line: &str) -> Option<Self> {
        let (hash, file) = line.split_once(' ')?;
        Some(Self { file: file.to_owned(), hash: u64::from_str_radix(hash, 16).ok()? })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {}", self.hash, self.file)
    }
}

/// FNV-1a, 64 bits.
fn hash(text: &str) -> u64 {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let bytes = lines.flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The files below `root` that a list of dependencies in the form of make names, relative to `root`.
pub fn listed(dependencies: &str, root: &Path) -> Vec<String> {
    let mut files: Vec<String> = dependencies
        .lines()
        .filter_map(|line| line.split_once(": "))
        .flat_map(|(_, files)| words(files))
        .filter_map(|file| {
            let folders = file.strip_prefix(root).ok()?.iter().map(|folder| folder.to_string_lossy());
            Some(folders.collect::<Vec<_>>().join("/"))
        })
        .collect();
    files.sort_unstable();
    files.dedup();
    files
}

/// Splits at spaces; a space behind a backslash belongs to the name.
fn words(line: &str) -> Vec<PathBuf> {
    let escaped = line.replace("\\ ", "\0");
    escaped.split_whitespace().map(|word| PathBuf::from(word.replace('\0', " "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_do_not_count() {
        let code = "fn f() {\n    g(); // why\n}\n";
        assert_eq!(hash(code), hash("//! What.\nfn f() {\n    // How.\n    g(); // why\n}"));
        assert_ne!(hash(code), hash(&code.replace("why", "how")));
        assert_ne!(hash(code), hash(&code.replace("g()", "h()")));
        assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
    }

    #[test]
    fn files_below_the_root_are_listed_once() {
        let dependencies = "/a/target/lib.so: /a/src/lib.rs /a/src/two\\ words.rs /usr/core/lib.rs\n\
                            /a/target/lib.d: /a/src/lib.rs\n\n/a/src/lib.rs:\n";
        assert_eq!(listed(dependencies, Path::new("/a")), ["src/lib.rs", "src/two words.rs"]);
    }

    #[test]
    fn a_source_is_read_back() {
        let source = Source { file: "src/two words.rs".into(), hash: 0x1f };
        assert_eq!(source.to_string(), "000000000000001f src/two words.rs");
        assert_eq!(Source::parse(&source.to_string()).unwrap(), source);
        assert_eq!(Source::parse("src/lib.rs"), None);
        assert!(Source::read(Path::new("/"), "no such file").is_err());
    }
}
