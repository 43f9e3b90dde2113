//! Reads expressions from text.
//!
//! ```text
//! any       = every ("or" every)*
//! every     = condition ("and" condition)*
//! condition = "not" condition | "(" any ")" | "true" | "false" | "keys" "(" numbers ")"
//!           | column test
//! test      = ("=" | "!=" | "<>" | "<" | "<=" | ">" | ">=") value
//!           | "is" "not"? "null"
//!           | "not"? ("in" values | "between" value "and" value | "contains" (("any" | "all") values | string))
//! values    = "(" (value ("," value)*)? ")"
//! value     = "true" | "false" | "null" | number | string | "timestamp" string
//! ```

use std::str::FromStr;

use jasper_core::Key;

use super::display::{WORDS, is_name};
use super::{Expression, MAX_DEPTH, Operator, column};
use crate::{ExpressionError, Value, time};

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A name or word without quotes.
    Word(String),
    /// A name in double quotes.
    Name(String),
    Text(String),
    Number(String),
    Symbol(&'static str),
    End,
}

const SYMBOLS: [&str; 10] = ["!=", "<>", "<=", ">=", "=", "<", ">", "(", ")", ","];

struct Parser<'a> {
    text: &'a str,
    /// Where the token starts, and where it ends, in bytes.
    start: usize,
    end: usize,
    token: Token,
    depth: usize,
}

type Result<T> = std::result::Result<T, ExpressionError>;

impl FromStr for Expression {
    type Err = ExpressionError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, start: 0, end: 0, token: Token::End, depth: 0 };
        parser.advance()?;
        let expression = parser.any()?;
        match parser.token {
            Token::End => Ok(expression),
            _ => Err(parser.error("`and`, `or` or the end")),
        }
    }
}

impl Parser<'_> {
    /// Reads the next token.
    fn advance(&mut self) -> Result<Token> {
        let rest = self.text[self.end..].trim_start();
        self.start = self.text.len() - rest.len();
        let first = rest.chars().next();
        let (token, len) = match first {
            None => (Token::End, 0),
            Some(quote @ ('\'' | '"')) => self.quoted(rest, quote)?,
            Some(first) if first.is_ascii_digit() || first == '-' || first == '+' || first == '.' => {
                let len = number_len(rest);
                (Token::Number(rest[..len].into()), len)
            }
            Some(first) if is_name(first) => {
                let len = rest.find(|character| !is_name(character)).unwrap_or(rest.len());
                (Token::Word(rest[..len].into()), len)
            }
            Some(_) => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
                Some(symbol) => (Token::Symbol(symbol), symbol.len()),
                None => return Err(self.error("a column, a value or an operator")),
            },
        };
        self.end = self.start + len;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn quoted(&self, rest: &str, quote: char) -> Result<(Token, usize)> {
        let mut content = String::new();
        let mut characters = rest.char_indices().skip(1).peekable();
        while let Some((index, character)) = characters.next() {
            if character != quote {
                content.push(character);
            } else if characters.next_if(|&(_, next)| next == quote).is_some() {
                content.push(quote);
            } else {
                let token = if quote == '"' { Token::Name(content) } else { Token::Text(content) };
                return Ok((token, index + 1));
            }
        }
        let expected = if quote == '"' { "a closing double quote" } else { "a closing quote" };
        let position = self.text.chars().count();
        Err(ExpressionError::Syntax { position, expected, found: "the end".into() })
    }

    fn error(&self, expected: &'static str) -> ExpressionError {
        let rest = &self.text[self.start..];
        let len = if self.end > self.start {
            self.end - self.start
        } else {
            rest.chars().next().map_or(0, char::len_utf8)
        };
        let found = if rest.is_empty() { "the end".into() } else { format!("`{}`", &rest[..len]) };
        ExpressionError::Syntax { position: self.text[..self.start].chars().count(), expected, found }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(found) if found.eq_ignore_ascii_case(word))
    }

    /// Skips a word, if it is there.
    fn word(&mut self, word: &str) -> Result<bool> {
        let is_there = self.is_word(word);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn symbol(&mut self, symbol: &'static str) -> Result<bool> {
        let is_there = self.token == Token::Symbol(symbol);
        if is_there {
            self.advance()?;
        }
        Ok(is_there)
    }

    fn expect(&mut self, symbol: &'static str, expected: &'static str) -> Result<()> {
        if self.symbol(symbol)? { Ok(()) } else { Err(self.error(expected)) }
    }

    fn any(&mut self) -> Result<Expression> {
        let mut parts = vec![self.every()?];
        while self.word("or")? {
            parts.push(self.every()?);
        }
        Ok(Expression::disjunction(parts))
    }

    fn every(&mut self) -> Result<Expression> {
        let mut parts = vec![self.condition()?];
        while self.word("and")? {
            parts.push(self.condition()?);
        }
        Ok(Expression::conjunction(parts))
    }

    fn condition(&mut self) -> Result<Expression> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ExpressionError::Depth(MAX_DEPTH));
        }
        let condition = if self.word("not")? {
            self.condition()?.not()
        } else if self.symbol("(")? {
            let inner = self.any()?;
            self.expect(")", "`)`, `and` or `or`")?;
            inner
        } else if self.word("true")? {
            Expression::all()
        } else if self.word("false")? {
            Expression::all().not()
        } else if self.word("keys")? {
            Expression::keys(self.list(Self::key)?)
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Expression> {
        let is_column = match &self.token {
            Token::Word(word) => !WORDS.iter().any(|other| other.eq_ignore_ascii_case(word)),
            token => matches!(token, Token::Name(_)),
        };
        if !is_column {
            return Err(self.error("a column, `not` or `(`"));
        }
        let (Token::Word(name) | Token::Name(name)) = self.advance()? else { unreachable!("checked above") };
        let name = column(name);
        if let Token::Symbol(symbol) = self.token
            && let Some(operator) = operator(symbol)
        {
            self.advance()?;
            let value = self.value()?;
            if value.is_null() && !matches!(operator, Operator::Eq | Operator::Ne) {
                return Err(self.error("a value other than null before this"));
            }
            return Ok(name.compare(operator, value));
        }
        if self.word("is")? {
            let is_negated = self.word("not")?;
            if !self.word("null")? {
                return Err(self.error("`null`"));
            }
            return Ok(if is_negated { name.is_null().not() } else { name.is_null() });
        }
        let is_negated = self.word("not")?;
        let test = if self.word("in")? {
            name.is_in(self.list(Self::value)?)
        } else if self.word("between")? {
            let least = self.value()?;
            if !self.word("and")? {
                return Err(self.error("`and`"));
            }
            name.clone().ge(least).and(name.le(self.value()?))
        } else if self.word("contains")? {
            if self.word("any")? {
                name.contains_any(self.list(Self::string)?)
            } else if self.word("all")? {
                name.contains_all(self.list(Self::string)?)
            } else {
                name.contains_any([self.string()?])
            }
        } else {
            return Err(self.error("an operator, `in`, `between`, `contains` or `is`"));
        };
        Ok(if is_negated { test.not() } else { test })
    }

    fn list<T>(&mut self, item: fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        self.expect("(", "`(`")?;
        let mut items = Vec::new();
        if self.symbol(")")? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.symbol(",")? {
                self.expect(")", "`,` or `)`")?;
                return Ok(items);
            }
        }
    }

    fn string(&mut self) -> Result<String> {
        let Token::Text(text) = &self.token else { return Err(self.error("a string in quotes")) };
        let text = text.clone();
        self.advance()?;
        Ok(text)
    }

    fn key(&mut self) -> Result<Key> {
        let key = match &self.token {
            Token::Number(text) => text.parse().ok(),
            _ => None,
        };
        let key = key.ok_or_else(|| self.error("a key"))?;
        self.advance()?;
        Ok(key)
    }

    fn value(&mut self) -> Result<Value> {
        let value = match &self.token {
            Token::Text(text) => Value::from(text.as_str()),
            Token::Number(text) => number(text).ok_or_else(|| self.error("a number"))?,
            _ if self.is_word("true") => Value::from(true),
            _ if self.is_word("false") => Value::from(false),
            _ if self.is_word("null") => Value::Null,
            _ if self.is_word("timestamp") => {
                self.advance()?;
                let time = match &self.token {
                    Token::Text(text) => time::parse(text),
                    _ => None,
                };
                Value::Timestamp(time.ok_or_else(|| self.error("a time in quotes, such as '2024-03-01'"))?)
            }
            _ => return Err(self.error("a value; strings are in single quotes")),
        };
        self.advance()?;
        Ok(value)
    }
}

fn operator(symbol: &str) -> Option<Operator> {
    use Operator::*;
    let symbol = if symbol == "<>" { "!=" } else { symbol };
    [Eq, Ne, Lt, Le, Gt, Ge].into_iter().find(|operator| operator.as_str() == symbol)
}

/// Length of what is meant as a number.
fn number_len(text: &str) -> usize {
    let mut last = ' ';
    let end = text.find(|character: char| {
        let is_sign = (character == '-' || character == '+') && matches!(last, ' ' | 'e' | 'E');
        last = character;
        !(character.is_ascii_alphanumeric() || character == '.' || is_sign)
    });
    end.unwrap_or(text.len())
}

fn number(text: &str) -> Option<Value> {
    if text.contains(['.', 'e', 'E']) {
        // `inf` and `nan` have no digit at their start.
        return text.parse::<f64>().ok().map(Value::from);
    }
    text.parse::<i64>().ok().map(Value::from)
}

#[cfg(test)]
mod tests {
    use super::super::tests::any_expression;
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> String {
        match text.parse::<Expression>() {
            Ok(expression) => expression.to_string(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn text_is_parsed() {
        for (text, expected) in [
            ("year >= 2020 and lang in ('en', 'de')", None),
            (
                "not (tags contains any ('a','b') or price is null)",
                Some("not (tags contains any ('a', 'b') or price is null)"),
            ),
            ("a=1 or b=2 and c=3", Some("a = 1 or b = 2 and c = 3")),
            ("(a=1 or b=2) AND NOT c<>3", Some("(a = 1 or b = 2) and not (c != 3)")),
            ("a between -1 and 2.5", Some("a >= -1 and a <= 2.5")),
            ("a not between 1 and 2", Some("not (a >= 1 and a <= 2)")),
            ("tags contains 'it''s' and tags contains all ('x')", None),
            ("tags not contains 'x'", Some("not (tags contains 'x')")),
            ("\"a b\" = null or \"\"\"\" is not null", Some("\"a b\" is null or \"\"\"\" is not null")),
            (
                "at > '2024-03-01' and at < timestamp '2024-03-02'",
                Some("at > '2024-03-01' and at < timestamp '2024-03-02T00:00:00Z'"),
            ),
            (
                "a not in () and b in (1, -2.0, true, 1e3)",
                Some("a not in () and b in (1, -2.0, true, 1000.0)"),
            ),
            ("keys(3, 1, 18446744073709551614)", Some("keys(1, 3, 18446744073709551614)")),
            ("true or false", None),
            ("not not a = 1", Some("a = 1")),
            ("größe < 1 and doc.lang = 'de' and timestamp = 1", None),
        ] {
            assert_eq!(parsed(text), expected.unwrap_or(text));
        }
    }

    #[test]
    fn errors_say_what_is_expected_where() {
        for (text, expected) in [
            ("", "expected a column, `not` or `(` at character 1, found the end"),
            (
                "year",
                "expected an operator, `in`, `between`, `contains` or `is` at character 5, found the end",
            ),
            ("year = ", "expected a value; strings are in single quotes at character 8, found the end"),
            ("year = de", "expected a value; strings are in single quotes at character 8, found `de`"),
            ("ö = 1 lang", "expected `and`, `or` or the end at character 7, found `lang`"),
            ("(a = 1", "expected `)`, `and` or `or` at character 7, found the end"),
            ("a = 'x", "expected a closing quote at character 7, found the end"),
            ("a ~ 1", "expected a column, a value or an operator at character 3, found `~`"),
            ("a = 1x", "expected a number at character 5, found `1x`"),
            ("a = 99999999999999999999", "expected a number at character 5, found `99999999999999999999`"),
            ("a in 1", "expected `(` at character 6, found `1`"),
            ("a in (1 2)", "expected `,` or `)` at character 9, found `2`"),
            ("tags contains 3", "expected a string in quotes at character 15, found `3`"),
            ("and = 1", "expected a column, `not` or `(` at character 1, found `and`"),
            ("keys(-1)", "expected a key at character 6, found `-1`"),
            (
                "a = timestamp 'now'",
                "expected a time in quotes, such as '2024-03-01' at character 15, found `'now'`",
            ),
        ] {
            assert_eq!(parsed(text), expected);
        }
        assert_eq!(parsed(&"(".repeat(100_000)), "an expression may be nested 100 deep");
    }

    proptest! {
        #[test]
        fn displayed_expressions_are_parsed(expression in any_expression()) {
            prop_assert_eq!(expression.to_string().parse(), Ok(expression));
        }

        #[test]
        fn any_text_is_parsed_or_refused(text in "([a-c]|and|or|not|in|[()'\"=<>,0-9.eé -]){0,30}") {
            if let Ok(expression) = text.parse::<Expression>() {
                prop_assert_eq!(expression.to_string().parse(), Ok(expression));
            }
        }
    }
}
