//! The header of numpy files: reads versions 1 to 3, writes version 1.
//!
//! Layout: `\x93NUMPY`, major and minor version, the length of the dictionary (u16 in version 1, u32 after), the
//! dictionary as a Python literal padded with blanks, the values.

use crate::error::{NpyError, ReadCause};
use crate::read_at::ReadAt;

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Size of magic, version and length in version 1.
const PREFIX: usize = 10;
/// Longest header that is read.
pub(crate) const MAX_HEADER_BYTES: u64 = PREFIX as u64 + 2 + u16::MAX as u64;
/// Size of the headers that we write: room for any shape, and a multiple of 64 as numpy requires.
const WRITTEN: usize = 128;

/// A parsed header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Type of the values, such as `<f4`.
    pub(crate) descr: String,
    pub(crate) shape: Vec<u64>,
    /// Offset of the first value in bytes.
    pub(crate) first: u64,
}

impl Header {
    /// Reads the header of a file of `size` bytes. The caller checks the values after it.
    pub(crate) fn read(source: &impl ReadAt, size: u64) -> Result<Self, ReadCause> {
        let mut prefix = [0; PREFIX + 2];
        let needed = |needed: u64| {
            if needed <= size { Ok(()) } else { Err(ReadCause::ShortHeader { needed, held: size }) }
        };
        needed(PREFIX as u64)?;
        source.read_exact_at(&mut prefix[..PREFIX], 0)?;
        if !prefix.starts_with(MAGIC) {
            return Err(NpyError::Magic.into());
        }
        let (start, len) = match prefix[6] {
            1 => (PREFIX, u64::from(u16::from_le_bytes([prefix[8], prefix[9]]))),
            2 | 3 => {
                needed(prefix.len() as u64)?;
                source.read_exact_at(&mut prefix[PREFIX..], PREFIX as u64)?;
                let word = prefix[8..].try_into().map_err(|_| NpyError::Magic)?;
                (prefix.len(), u64::from(u32::from_le_bytes(word)))
            }
            version => return Err(NpyError::Version(version).into()),
        };
        // Checked before allocating. Headers of arrays of numbers take about a hundred bytes.
        let len = u16::try_from(len).map_err(|_| NpyError::LongHeader(len))?;
        let first = start as u64 + u64::from(len);
        needed(first)?;
        let mut dictionary = vec![0; usize::from(len)];
        source.read_exact_at(&mut dictionary, start as u64)?;
        let (descr, shape) = Parser { text: &dictionary, at: 0 }.dictionary()?;
        Ok(Self { descr, shape, first })
    }

    /// A header for values of type `descr`, of 128 bytes for any shape.
    pub(crate) fn write(descr: &str, shape: &[usize]) -> Vec<u8> {
        let dimensions: String = shape.iter().map(|length| format!("{length}, ")).collect();
        let shape = if let [_] = shape { dimensions.trim_end() } else { dimensions.trim_end_matches(", ") };
        let dictionary = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
        let mut bytes = Vec::from(MAGIC);
        bytes.extend([1, 0]);
        bytes.extend(((WRITTEN - PREFIX) as u16).to_le_bytes());
        bytes.extend(dictionary.bytes());
        bytes.resize(WRITTEN - 1, b' ');
        bytes.push(b'\n');
        bytes
    }
}

/// A parser for the Python literal in numpy headers.
struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn dictionary(mut self) -> Result<(String, Vec<u64>), NpyError> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect(b'{', "a dictionary")?;
        while !self.eat(b'}') {
            let key = self.string()?;
            self.expect(b':', "a colon")?;
            let new = match key.as_str() {
                "descr" => descr.replace(self.descr()?).is_none(),
                "fortran_order" => fortran_order.replace(self.boolean()?).is_none(),
                "shape" => shape.replace(self.tuple()?).is_none(),
                _ => false,
            };
            if !new {
                return Err(self.error("each of descr, fortran_order and shape once"));
            }
            if !self.eat(b',') {
                self.expect(b'}', "a comma or the end of the dictionary")?;
                break;
            }
        }
        self.blanks();
        if self.at != self.text.len() {
            return Err(self.error("nothing after the dictionary"));
        }
        match (descr, fortran_order, shape) {
            (Some(_), Some(true), Some(_)) => Err(NpyError::FortranOrder),
            (Some(descr), Some(false), Some(shape)) => Ok((descr, shape)),
            _ => Err(self.error("each of descr, fortran_order and shape once")),
        }
    }

    /// A type name. Record types, which are lists, are rejected.
    fn descr(&mut self) -> Result<String, NpyError> {
        if self.eat(b'[') {
            let known = "plain numbers, one column of the record at a time";
            return Err(NpyError::Type { found: "record".into(), known });
        }
        self.string()
    }

    fn string(&mut self) -> Result<String, NpyError> {
        let quote = if self.eat(b'"') { b'"' } else { b'\'' };
        if quote == b'\'' {
            self.expect(quote, "a string")?;
        }
        let rest = &self.text[self.at..];
        let len =
            rest.iter().position(|&byte| byte == quote).ok_or_else(|| self.error("the end of a string"))?;
        self.at += len + 1;
        Ok(String::from_utf8_lossy(&rest[..len]).into_owned())
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.blanks();
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.error("True or False"))
    }

    fn tuple(&mut self) -> Result<Vec<u64>, NpyError> {
        let mut lengths = Vec::new();
        self.expect(b'(', "a tuple")?;
        while !self.eat(b')') {
            lengths.push(self.number()?);
            if !self.eat(b',') {
                self.expect(b')', "a comma or the end of the tuple")?;
                break;
            }
        }
        Ok(lengths)
    }

    fn number(&mut self) -> Result<u64, NpyError> {
        self.blanks();
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(&self.text[self.at..self.at + digits]).unwrap_or_default();
        let number = text.parse().map_err(|_| self.error("a number below 2^64"))?;
        self.at += digits;
        Ok(number)
    }

    fn blanks(&mut self) {
        self.at += self.text[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    }

    fn eat(&mut self, byte: u8) -> bool {
        self.blanks();
        let found = self.text.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.eat(byte) { Ok(()) } else { Err(self.error(expected)) }
    }

    fn error(&self, expected: &'static str) -> NpyError {
        NpyError::Syntax { at: self.at, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(dictionary: &str) -> Result<(String, Vec<u64>), NpyError> {
        Parser { text: dictionary.as_bytes(), at: 0 }.dictionary()
    }

    #[test]
    fn reads_what_it_writes_in_every_shape() {
        for shape in [&[][..], &[7], &[3, 4], &[usize::MAX, usize::MAX]] {
            let bytes = Header::write("<f4", shape);
            assert_eq!((bytes.len(), bytes[127]), (128, b'\n'));
            let header = Header::read(&&bytes[..], 128).unwrap();
            let shape = shape.iter().map(|&length| length as u64).collect();
            assert_eq!(header, Header { descr: "<f4".into(), shape, first: 128 });
        }
    }

    #[test]
    fn reads_versions_two_and_three() {
        let one = Header::write("|u1", &[2, 2]);
        for version in [2, 3] {
            let mut bytes = [MAGIC, &[version, 0][..], &118_u32.to_le_bytes()].concat();
            bytes.extend(&one[PREFIX..]);
            assert_eq!(Header::read(&&bytes[..], 130).unwrap().first, 130);
        }
    }

    #[test]
    fn reads_other_spellings() {
        let expected = Ok(("<f4".to_owned(), vec![3, 4]));
        assert_eq!(parse("{'shape':(3,4),'fortran_order':False,'descr':'<f4'}"), expected);
        assert_eq!(
            parse("{ \"shape\" : ( 3 , 4 , ) , 'fortran_order': False , 'descr': '<f4' , }\n  \n"),
            expected
        );
    }

    #[test]
    fn refuses_what_it_cannot_mean() {
        use NpyError::{FortranOrder, Syntax, Type};
        let error = |text| parse(text).unwrap_err();
        assert_eq!(error("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }"), FortranOrder);
        let records = "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }";
        assert!(matches!(error(records), Type { .. }));
        for text in [
            "",
            "{",
            "{}",
            "{'descr'}",
            "{'descr': '<f4'}",
            "{'descr': '<f4",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551616,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} more",
            "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'colour': 'red'}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
        ] {
            assert!(matches!(error(text), Syntax { .. }), "{text}");
        }
    }
}
