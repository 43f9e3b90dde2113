//! What the attribute looks at: tokens without their places, so that the reading of them can be tested as plain code.

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

/// Why the attribute cannot be where it is.
#[derive(Debug, PartialEq)]
pub struct Misuse {
    /// The token to blame, by its number.
    pub at: Option<usize>,
    pub message: String,
}

impl Misuse {
    pub fn new(at: impl Into<Option<usize>>, message: impl Into<String>) -> Self {
        Self { at: at.into(), message: message.into() }
    }
}

/// The tokens of `text`, in which each stands apart: `()`, `{}` and `[]` are groups.
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
