//! Tokens without spans, so that parsing can be tested outside of a macro.

/// A token of the source.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A keyword or a name.
    Word(String),
    /// A number or a string, as written.
    Literal(String),
    /// One character of punctuation.
    Sign(char),
    /// `( ... )`
    Parentheses,
    /// `{ ... }`
    Braces,
    /// `[ ... ]`, or a fragment that another macro passed on.
    Group,
}

impl Token {
    /// Whether this is the word `text`.
    pub fn is_word(&self, text: &str) -> bool {
        matches!(self, Self::Word(word) if word == text)
    }
}

/// An invalid use of the attribute.
#[derive(Debug, PartialEq)]
pub struct Misuse {
    /// The index of the offending token.
    pub at: Option<usize>,
    pub message: String,
}

impl Misuse {
    pub fn new(at: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

/// The tokens of `text`, separated by spaces: `()`, `{}` and `[]` are groups.
#[cfg(test)]
pub fn tokens(text: &str) -> Vec<Token> {
    text.split_whitespace()
        .map(|token| match token {
            "()" => Token::Parentheses,
            "{}" => Token::Braces,
            "[]" => Token::Group,
            word if word.starts_with(|first: char| first.is_alphabetic() || first == '_') => {
                Token::Word(word.into())
            }
            literal if literal.starts_with(|first: char| first.is_ascii_digit() || first == '"') => {
                Token::Literal(literal.into())
            }
            sign => Token::Sign(sign.chars().next().expect("no token is empty")),
        })
        .collect()
}
