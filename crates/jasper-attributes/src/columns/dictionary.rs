//! The strings of a column, each stored once.

use crate::DecodeError;
use crate::bytes::{Reader, put_str};
use crate::cow::{HashIndex, Lists, RowSet, hash_text};
use crate::value::MAX_LEN;

/// Numbers strings from 1 on. A string keeps its code as long as a row has it: copies of columns on devices have codes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dictionary {
    texts: Lists<u8>,
    codes: HashIndex,
    /// Codes without a string, for the next ones.
    free: RowSet,
    /// How many strings there were after the last sweep.
    kept: usize,
}

impl Dictionary {
    /// The largest code that ever had a string.
    pub(crate) fn largest(&self) -> usize {
        self.codes.len() + self.free.len()
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
            let free = self.free.iter().next();
            let new =
                || u32::try_from(self.largest() + 1).expect("a column has fewer than 4 billion strings");
            let code = free.unwrap_or_else(new);
            self.free.remove(code);
            self.texts.set(code, Some(text.as_bytes()));
            self.codes.insert(hash_text(text), code);
            code
        })
    }

    /// Frees the codes that none of the rows has, once there are twice as many strings as after the last time. Then it takes
    /// no longer than adding these, but for a multiple of rows.
    pub(super) fn sweep(&mut self, rows: usize, used: impl Iterator<Item = u32>) {
        let spare = if cfg!(test) { 0 } else { 1024 + rows / 8 };
        if self.codes.len() <= 2 * self.kept + spare {
            return;
        }
        let mut is_used = vec![false; self.largest() + 1];
        used.for_each(|code| is_used[code as usize] = true);
        for code in 1..is_used.len() as u32 {
            if !is_used[code as usize]
                && let Some(text) = self.texts.get(code)
            {
                let text = str::from_utf8(text).expect("texts are UTF-8");
                self.codes.remove(hash_text(text), code);
                self.texts.set(code, None);
                self.free.insert(code);
            }
        }
        self.kept = self.codes.len();
    }

    /// Writes the strings of the codes that rows have, in the order of the first row of each: equal rows have equal bytes,
    /// whatever strings there were before. Returns their new codes, by code.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>, of_rows: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut codes = vec![0; self.largest() + 1];
        let mut used = Vec::new();
        for code in of_rows {
            let new = &mut codes[code as usize];
            if *new == 0 {
                used.push(code);
                *new = used.len() as u32;
            }
        }
        bytes.extend((used.len() as u32).to_le_bytes());
        used.iter().for_each(|&code| put_str(bytes, self.text(code)));
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
        let kept = codes.len();
        let texts = Lists::collect(texts.into_iter().map(|text| text.map(str::as_bytes)));
        Ok(Self { texts, codes, free: RowSet::default(), kept })
    }

    pub(super) fn memory(&self) -> usize {
        self.texts.memory() + self.codes.memory() + self.free.memory()
    }
}
