//! The strings of a column, each stored once.

use crate::DecodeError;
use crate::bytes::{Reader, put_str};
use crate::cow::{HashIndex, Lists, hash_text};
use crate::value::MAX_LEN;

/// Numbers strings from 1 on. A string keeps its code; one that no row has any more is dropped when a file is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    texts: Lists<u8>,
    codes: HashIndex,
}

impl Dictionary {
    /// Number of strings, and the largest code.
    pub(crate) fn len(&self) -> usize {
        self.codes.len()
    }

    pub(crate) fn text(&self, code: u32) -> &str {
        str::from_utf8(self.texts.get(code).expect("the code is one of the dictionary"))
            .expect("texts are UTF-8")
    }

    /// The code of a string, if it has one.
    pub(crate) fn code(&self, text: &str) -> Option<u32> {
        self.codes.find(hash_text(text), |code| self.texts.get(code) == Some(text.as_bytes()))
    }

    /// The code of a string, which gets one if it has none.
    pub(crate) fn add(&mut self, text: &str) -> u32 {
        self.code(text).unwrap_or_else(|| {
            let code = u32::try_from(self.len() + 1).expect("a column has fewer than 4 billion strings");
            self.texts.set(code, Some(text.as_bytes()));
            self.codes.insert(hash_text(text), code);
            code
        })
    }

    /// Writes the strings that are used. Returns their new codes, by code.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, is_used: &[bool]) -> Vec<u32> {
        let mut codes = vec![0; is_used.len()];
        let used = is_used.iter().enumerate().filter(|(_, is_used)| **is_used).map(|(code, _)| code);
        bytes.extend((used.clone().count() as u32).to_le_bytes());
        for (code, new) in used.zip(1..) {
            codes[code] = new;
            put_str(bytes, self.text(code as u32));
        }
        codes
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut texts = vec![None];
        for _ in 0..reader.u32()? {
            let text = reader.str()?;
            if text.len() > MAX_LEN {
                return Err(reader.error("a string is too long"));
            }
            texts.push(Some(text));
        }
        let codes = (0..).zip(&texts).skip(1).flat_map(|(code, text)| Some((hash_text((*text)?), code)));
        let codes = HashIndex::distinct(codes, |a, b| texts[a as usize] == texts[b as usize])
            .ok_or_else(|| reader.error("a column has a string twice"))?;
        Ok(Self { texts: Lists::collect(texts.into_iter().map(|text| text.map(str::as_bytes))), codes })
    }

    pub(super) fn memory(&self) -> usize {
        self.texts.memory() + self.codes.memory()
    }
}
