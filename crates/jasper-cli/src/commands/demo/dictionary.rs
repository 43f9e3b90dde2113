//! The dictionary of the demonstration: entries and words, with their vectors.
//!
//! `data/README.md` describes the files and their origin.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use jasper::MatrixView;
use jasper::attributes::Frame;
use jasper_data::VectorFile;

use crate::ReadFile;

/// The name of the attribute with the kinds of nouns.
pub const KIND: &str = "kind";

/// Entries of a dictionary.
pub struct Entries {
    /// A vector of unit length per entry.
    pub vectors: Vec<f32>,
    /// The text of each entry.
    pub texts: Vec<Entry>,
}

/// The kinds of nouns and the first number of each: WordNet numbers its entries kind by kind, and its file `lexnames` has the
/// names. `top` holds the most general nouns.
pub const KINDS: [(u32, &str); 26] = [
    (0, "top"),
    (33_000, "act"),
    (1_313_000, "animal"),
    (2_665_900, "artifact"),
    (4_615_600, "attribute"),
    (5_216_365, "body"),
    (5_611_300, "cognition"),
    (6_252_138, "communication"),
    (7_283_000, "event"),
    (7_480_000, "feeling"),
    (7_555_800, "food"),
    (7_938_600, "group"),
    (8_489_600, "location"),
    (9_178_000, "motive"),
    (9_186_000, "object"),
    (9_483_000, "person"),
    (11_408_000, "phenomenon"),
    (11_530_000, "plant"),
    (13_240_000, "possession"),
    (13_423_400, "process"),
    (13_575_800, "quantity"),
    (13_780_000, "relation"),
    (13_860_900, "shape"),
    (13_919_900, "state"),
    (14_580_500, "substance"),
    (15_113_000, "time"),
];

/// The text of an entry.
pub struct Entry {
    /// The [kind](KINDS) of noun that it is.
    pub kind: &'static str,
    /// The words of the entry.
    pub words: String,
    /// The definition of the words.
    pub definition: String,
}

/// Entries for the index, further entries for queries and inserts, and words for phrases.
pub struct Dictionary {
    /// 30,000 entries.
    pub base: Entries,
    /// 500 other entries.
    pub held_out: Entries,
    /// Coordinates per vector.
    pub dimension: usize,
    /// Index of each word.
    words: HashMap<String, usize>,
    /// A vector per word, as long as its weight.
    word_vectors: Vec<f32>,
}

impl Dictionary {
    /// Reads and unpacks the dictionary.
    pub fn read(file: ReadFile<'_>) -> Result<Self> {
        let (dimension, mut word_vectors) = rows("words", file)?;
        let mut words = HashMap::new();
        let text = texts("words", file)?;
        for (line, vector) in text.lines().zip(word_vectors.chunks_exact_mut(dimension)) {
            let (word, scale) = line.split_once('\t').context("a word lacks its scale")?;
            let scale: f32 = scale.parse()?;
            vector.iter_mut().for_each(|x| *x *= scale);
            words.insert(word.to_owned(), words.len());
        }
        Ok(Self {
            base: Entries::read("base", file)?,
            held_out: Entries::read("query", file)?,
            dimension,
            words,
            word_vectors,
        })
    }

    /// The vector of a text: the sum of its distinct words' vectors, at unit length; none if no word is known.
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let mut sum = vec![0.0; self.dimension];
        let known = tokens(text).into_iter().filter_map(|word| self.words.get(&word));
        for row in known.collect::<BTreeSet<_>>() {
            let vector = &self.word_vectors[row * self.dimension..][..self.dimension];
            sum.iter_mut().zip(vector).for_each(|(sum, x)| *sum += x);
        }
        unit(&mut sum).then_some(sum)
    }
}

impl Entries {
    fn read(name: &str, file: ReadFile<'_>) -> Result<Self> {
        let (dimension, mut vectors) = rows(name, file)?;
        vectors.chunks_exact_mut(dimension).for_each(|row| {
            unit(row);
        });
        let text = texts(name, file)?;
        let texts: Option<Vec<Entry>> = text.lines().map(Entry::parse).collect();
        let texts = texts.context("an entry lacks its definition")?;
        ensure!(texts.len() * dimension == vectors.len(), "{name}.i8bin: not one row for each text");
        Ok(Self { vectors, texts })
    }

    /// The attributes of the entries: the kind of each.
    pub fn attributes(&self) -> Result<Frame> {
        let kinds = self.texts.iter().map(|entry| entry.kind);
        Ok(Frame::new(self.texts.len()).column(KIND, kinds)?)
    }

    /// The vectors as a matrix.
    pub fn view(&self) -> MatrixView<'_, f32> {
        let dimension = self.vectors.len() / self.texts.len();
        MatrixView::new(&self.vectors, dimension).expect("one row for each text was checked")
    }
}

impl Entry {
    /// Parses a line of sense, words and definition, without the examples after the definition.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(3, '\t');
        let (sense, words, gloss) = (fields.next()?, fields.next()?, fields.next()?);
        let number: u32 = sense.strip_prefix('n')?.parse().ok()?;
        let kind = KINDS[KINDS.partition_point(|kind| kind.0 <= number) - 1].1;
        let definition = gloss.split("; \"").next().unwrap_or(gloss);
        Some(Self { kind, words: words.to_owned(), definition: definition.to_owned() })
    }
}

/// Dimension and values of a file of vectors.
fn rows(name: &str, file: ReadFile<'_>) -> Result<(usize, Vec<f32>)> {
    let name = format!("{name}.i8bin");
    let bytes = file(&name)?;
    let file = VectorFile::from_bytes(name, &bytes)?;
    let rows = file.load_as::<f32>()?;
    Ok((file.dimension(), rows.view().rows().flatten().copied().collect()))
}

/// The lines of a packed file.
fn texts(name: &str, file: ReadFile<'_>) -> Result<String> {
    let mut text = String::new();
    GzDecoder::new(&*file(&format!("{name}.tsv.gz"))?).read_to_string(&mut text)?;
    Ok(text)
}

/// Scales a vector to unit length; false if it is zero.
fn unit(row: &mut [f32]) -> bool {
    let norm = row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt();
    if norm > 1e-12 {
        row.iter_mut().for_each(|x| *x = (f64::from(*x) / norm) as f32);
    }
    norm > 1e-12
}

/// Stop words.
const STOP_WORDS: &str = "a an the of or and to in for with by on as at is are be that which who whom it its from this these \
    those such into one s not you he she they his her their was were has have had been some any but no so if than then \
    can will would may also very used especially usually often eg ie etc i";

/// The words of a text, in lower case and in the singular.
fn tokens(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let pieces = lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    let words = pieces.map(|piece| piece.trim_start_matches(|c: char| c.is_ascii_digit()));
    words
        .filter(|word| word.len() > 1 && !STOP_WORDS.split_ascii_whitespace().any(|stop| stop == *word))
        .map(singular)
        .collect()
}

fn singular(word: &str) -> String {
    let ends = |ending: &[&str]| ending.iter().any(|ending| word.ends_with(ending));
    let shorter = |by: usize| &word[..word.len() - by];
    if word.len() > 4 && ends(&["ies"]) {
        format!("{}y", shorter(3))
    } else if word.len() > 4 && ends(&["sses", "shes", "ches", "xes"]) {
        shorter(2).to_owned()
    } else if word.len() > 3 && ends(&["s"]) && !ends(&["ss", "us", "is"]) {
        shorter(1).to_owned()
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::path::Path;
    use std::{fs, io};

    use super::*;
    use jasper::Metric;
    use jasper_core::no_progress;
    use jasper_data::{GroundTruth, ThreadPoolBuilder, exact_knn};

    fn file(name: &str) -> io::Result<Cow<'static, [u8]>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordnet-demo");
        fs::read(Path::new(folder).join(name)).map(Cow::Owned)
    }

    #[test]
    fn texts_become_words() {
        assert_eq!(tokens("A knife, used by surgeons"), ["knife", "surgeon"]);
        assert_eq!(
            tokens("Boxes of 2nd-hand BERRIES; glasses, a bus's gas"),
            ["box", "nd", "hand", "berry", "glass", "bus", "gas"]
        );
        assert!(tokens("it is, of the, x 12").is_empty());
    }

    #[test]
    fn the_dictionary_is_the_one_its_truth_was_made_from() {
        let dictionary = Dictionary::read(&file).unwrap();
        let (base, queries) = (dictionary.base.view(), dictionary.held_out.view());
        assert_eq!((base.len(), queries.len(), dictionary.words.len()), (30_000, 500, 12_000));
        let known = GroundTruth::from_bytes("gt.ibin", &file("gt.ibin").unwrap()).unwrap();
        let pool = ThreadPoolBuilder::new().build().unwrap();
        let truth = exact_knn(base, queries, 10, Metric::Cosine, &pool, &mut no_progress).unwrap();
        // The distances of both differ slightly, because rows were rounded to unit length in different ways, so near
        // ties may change places.
        let same = truth.ids().iter().zip(known.ids()).filter(|(a, b)| a == b).count();
        assert!(same >= 4_990, "{same}");
    }

    #[test]
    fn nouns_are_of_the_kinds_that_wordnet_says() {
        let dictionary = Dictionary::read(&file).unwrap();
        let kinds = |words: &str| {
            let of_words = dictionary.base.texts.iter().filter(|entry| entry.words == words);
            of_words.map(|entry| entry.kind).collect::<Vec<_>>()
        };
        for (words, kind) in [
            ("windowpane, Scophthalmus aquosus", "animal"),
            ("aba", "artifact"),
            ("technophilia", "feeling"),
            ("soul food", "food"),
            ("array", "group"),
            ("wyvern, wivern", "person"),
            ("zygospore", "plant"),
            ("24/7", "time"),
        ] {
            assert_eq!(kinds(words), [kind], "{words}");
        }
        let used = dictionary.base.texts.iter().map(|entry| entry.kind).collect::<BTreeSet<_>>();
        assert_eq!(used.len(), KINDS.len());
    }

    #[test]
    fn phrases_meet_the_entries_they_describe() {
        let dictionary = Dictionary::read(&file).unwrap();
        let nearest = |phrase: &str| {
            let query = dictionary.embed(phrase).unwrap();
            let dot = |row: &[f32]| row.iter().zip(&query).map(|(a, b)| a * b).sum::<f32>();
            let best = dictionary
                .base
                .view()
                .rows()
                .map(dot)
                .enumerate()
                .max_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap();
            (dictionary.base.texts[best.0].words.clone(), (best.1 * 100.0).round())
        };
        let (words, similarity) = nearest("a storm with strong wind and rain");
        assert!(words.starts_with("storm"), "{words}");
        assert_eq!(similarity, 88.0);
        assert_eq!(nearest("a knife used by surgeons"), ("lancet, lance".to_owned(), 72.0));
        assert!(dictionary.embed("xyzzy").is_none());
    }
}
