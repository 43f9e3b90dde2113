//! The program of the command `jasper`.

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::io;
use std::process::ExitCode;

/// Defines a function that returns files of the dictionary, which are part of the program.
macro_rules! embed {
    ($($name:literal),*) => {
        fn dictionary(name: &str) -> io::Result<Cow<'static, [u8]>> {
            match name {
                $($name => Ok(Cow::Borrowed(include_bytes!(concat!(
                    env!("CARGO_MANIFEST_DIR"),
                    "/data/wordnet-demo/",
                    $name
                )))),)*
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
    };
}

embed!("base.i8bin", "base.tsv.gz", "query.i8bin", "query.tsv.gz", "words.i8bin", "words.tsv.gz");

fn main() -> ExitCode {
    jasper_cli::run(std::env::args_os(), &dictionary).into()
}
