//! The options of the attribute: launch bounds.

use std::fmt;
use std::ops::RangeInclusive;

use crate::token::{Misuse, Token};

const MAX_THREADS: RangeInclusive<u32> = 1..=1024;
const MIN_BLOCKS: RangeInclusive<u32> = 1..=32;

/// The launch bounds.
#[derive(Debug, PartialEq)]
pub struct Bounds {
    max_threads: u32,
    min_blocks: Option<u32>,
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max_threads={}", self.max_threads)?;
        self.min_blocks.map_or(Ok(()), |blocks| write!(f, ",min_blocks={blocks}"))
    }
}

/// Parses `max_threads = N, min_blocks = M` in any order, both optional.
pub fn read(tokens: &[Token]) -> Result<Option<Bounds>, Misuse> {
    let (mut max_threads, mut min_blocks) = (None, None);
    let mut at = 0;
    while at < tokens.len() {
        let end = tokens[at..]
            .iter()
            .position(|token| *token == Token::Sign(','))
            .map_or(tokens.len(), |len| at + len);
        let value = match tokens.get(at + 1..end).unwrap_or_default() {
            [Token::Sign('='), value @ ..] => value,
            _ => &[],
        };
        let is_given_twice = match &tokens[at] {
            word if word.is_word("max_threads") => {
                max_threads.replace(number(value, MAX_THREADS, at)?).is_some()
            }
            word if word.is_word("min_blocks") => {
                min_blocks.replace(number(value, MIN_BLOCKS, at)?).is_some()
            }
            _ => {
                return Err(Misuse::new(
                    at,
                    "the options of a kernel are `max_threads = N` and `min_blocks = M`",
                ));
            }
        };
        if is_given_twice {
            return Err(Misuse::new(at, "this option was given before; remove one"));
        }
        at = end + 1;
    }
    if max_threads.is_none() && min_blocks.is_some() {
        return Err(Misuse::new(0, "`min_blocks` means nothing to the assembler without `max_threads`"));
    }
    Ok(max_threads.map(|max_threads| Bounds { max_threads, min_blocks }))
}

fn number(value: &[Token], range: RangeInclusive<u32>, at: usize) -> Result<u32, Misuse> {
    let number = match value {
        [Token::Literal(number)] => number.parse().ok().filter(|number| range.contains(number)),
        _ => None,
    };
    let (least, most) = range.into_inner();
    number.ok_or_else(|| Misuse::new(at, format!("write `= N` after this, N from {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::tokens;

    #[test]
    fn bounds_are_written_as_the_build_tool_reads_them() {
        let written = |text| read(&tokens(text)).unwrap().map(|bounds| bounds.to_string());
        assert_eq!(written(""), None);
        assert_eq!(written("max_threads = 128"), Some("max_threads=128".into()));
        assert_eq!(
            written("min_blocks = 8 , max_threads = 1024 ,"),
            Some("max_threads=1024,min_blocks=8".into())
        );
    }

    #[test]
    fn what_is_wrong_is_blamed_and_explained() {
        let wrong = |text| {
            let misuse = read(&tokens(text)).unwrap_err();
            (misuse.at.unwrap(), misuse.message)
        };
        assert_eq!(wrong("max_threads = 0"), (0, "write `= N` after this, N from 1 to 1024".into()));
        assert_eq!(wrong("max_threads = 32 , min_blocks = 33").1, "write `= N` after this, N from 1 to 32");
        assert_eq!(wrong("max_threads = WIDTH").1, "write `= N` after this, N from 1 to 1024");
        assert_eq!(wrong("max_threads"), (0, "write `= N` after this, N from 1 to 1024".into()));
        assert_eq!(
            wrong("threads = 32").1,
            "the options of a kernel are `max_threads = N` and `min_blocks = M`"
        );
        assert_eq!(wrong("max_threads = 32 min_blocks = 1").1, "write `= N` after this, N from 1 to 1024");
        let twice = "max_threads = 32 , max_threads = 64";
        assert_eq!(wrong(twice), (4, "this option was given before; remove one".into()));
        assert_eq!(
            wrong("min_blocks = 2").1,
            "`min_blocks` means nothing to the assembler without `max_threads`"
        );
    }
}
