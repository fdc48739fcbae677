//! Text to token ids and back, from a checkpoint's `tokenizer.json`.
//!
//! Ids equal those of Hugging Face's tokenizers. [`Stream`] turns ids into text while they are produced and
//! never gives half a character.

use std::path::Path;

use serde_json::Value;

/// A tokenizer that cannot be read, or text that it cannot take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct TokenizerError {
    /// The file.
    pub path: String,
    /// What is wrong.
    pub reason: String,
}

type Result<T, E = TokenizerError> = std::result::Result<T, E>;

fn failed(path: impl ToString, reason: impl ToString) -> TokenizerError {
    TokenizerError { path: path.to_string(), reason: reason.to_string() }
}

/// The tokenizers crate panics on some malformed files: such a panic is an error here.
fn guarded<T>(path: &str, call: impl FnOnce() -> Result<T, tokenizers::Error>) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|e| failed(path, e)),
        Err(_) => Err(failed(path, "malformed: the tokenizer does not hold together")),
    }
}

/// A checkpoint's tokenizer.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    path: String,
    add_bos: Option<bool>,
}

impl Tokenizer {
    /// Reads `tokenizer.json` of a checkpoint's folder, and `add_bos_token` of `tokenizer_config.json` if
    /// there is one.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("tokenizer.json");
        let bytes = std::fs::read(&path).map_err(|e| failed(path.display(), e))?;
        let mut tokenizer = Tokenizer::from_bytes(&path.display().to_string(), &bytes)?;
        let path = dir.join("tokenizer_config.json");
        if path.exists() {
            let bytes = std::fs::read(&path).map_err(|e| failed(path.display(), e))?;
            let config: Value = serde_json::from_slice(&bytes).map_err(|e| failed(path.display(), e))?;
            tokenizer.add_bos = config.get("add_bos_token").and_then(Value::as_bool);
        }
        Ok(tokenizer)
    }

    /// A tokenizer from the bytes of a `tokenizer.json`; `path` names it in errors. Truncation and padding
    /// that the file may ask for are left out: a prompt is taken as it is.
    pub fn from_bytes(path: &str, bytes: &[u8]) -> Result<Self> {
        let inner = guarded(path, || {
            let mut inner = tokenizers::Tokenizer::from_bytes(bytes)?;
            inner.with_padding(None);
            inner.with_truncation(None)?;
            Ok(inner)
        })?;
        Ok(Tokenizer { inner, path: path.to_owned(), add_bos: None })
    }

    /// Number of ids, added tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The token of an id, as the vocabulary spells it.
    pub fn token(&self, id: u32) -> Option<String> {
        self.inner.id_to_token(id)
    }

    /// The id of a token, as the vocabulary spells it.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// Ids of `text`. With `special`, the tokens that the tokenizer puts around a text are there too; special
    /// tokens written out in the text become their ids either way, as a chat template needs.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        guarded(&self.path, || Ok(self.inner.encode_fast(text, special)?.get_ids().to_vec()))
    }

    /// Ids of a raw prompt: with the tokenizer's special tokens, and begun with `bos` (the model's
    /// `bos_token_id`) if the tokenizer itself adds none and `add_bos_token` is not false.
    pub fn encode_prompt(&self, text: &str, bos: Option<u32>) -> Result<Vec<u32>> {
        let mut ids = self.encode(text, true)?;
        if let Some(bos) = bos.filter(|bos| self.add_bos != Some(false) && ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Text of ids, without special tokens. Bytes that are no UTF-8 become U+FFFD, unknown ids nothing.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        guarded(&self.path, || self.inner.decode(ids, true))
    }

    /// A stream of text that begins with the next id.
    pub fn stream(&self) -> Stream<'_> {
        Stream { tokenizer: self, window: Vec::new(), sent: 0 }
    }
}

/// Window length at which a stream forgets ids, and how many it keeps: some decoders treat the first token
/// of a text differently.
const WINDOW: (usize, usize) = (24, 8);

/// Ids to text, piece by piece. All pieces and the last from [`Stream::finish`] make the text of all ids.
#[derive(Clone, Debug)]
pub struct Stream<'a> {
    tokenizer: &'a Tokenizer,
    window: Vec<u32>,
    /// Bytes of the window's text that were given out.
    sent: usize,
}

impl Stream<'_> {
    /// Takes the next id and gives the text that is certain now, perhaps none.
    pub fn push(&mut self, id: u32) -> Result<String> {
        self.window.push(id);
        let text = self.tokenizer.decode(&self.window)?;
        // An unfinished character is at most three bytes, which decode to one U+FFFD at the end.
        let certain = text.strip_suffix('\u{fffd}').unwrap_or(&text).len();
        let piece = text.get(self.sent..certain).unwrap_or_default().to_owned();
        self.sent = self.sent.max(certain);
        if self.window.len() >= WINDOW.0 && certain == text.len() {
            self.window.drain(..self.window.len() - WINDOW.1);
            self.sent = self.tokenizer.decode(&self.window)?.len();
        }
        Ok(piece)
    }

    /// What is left: an unfinished character as U+FFFD.
    pub fn finish(&mut self) -> Result<String> {
        let text = self.tokenizer.decode(&self.window)?;
        let piece = text.get(self.sent..).unwrap_or_default().to_owned();
        self.window.clear();
        self.sent = 0;
        Ok(piece)
    }
}
