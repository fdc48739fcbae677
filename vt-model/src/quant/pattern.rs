//! Names of modules as the rules have them.

/// Excludes modules.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pattern {
    /// `*` stands for any characters, `?` for one.
    Glob(String),
    /// A module's name without the model's prefix, or part of one.
    Name(String),
}

impl Pattern {
    /// A name or glob; nothing for one with sets of characters, which no known file has.
    pub(super) fn new(name: &str) -> Option<Pattern> {
        match name {
            _ if name.contains('[') || name.is_empty() => None,
            _ if name.contains(['*', '?']) => Some(Pattern::Glob(name.into())),
            _ => Some(Pattern::Name(strip(name).into())),
        }
    }

    /// Whether this excludes a module, by its full name or the one without prefix. A name also excludes what it is
    /// a part of, as a whole component: `mixer.gate` is in `layers.1.mixer.gate`, `layers.1` not in `layers.12`.
    pub(super) fn excludes(&self, module: &str, bare: &str) -> bool {
        match self {
            Pattern::Glob(pattern) => {
                let own = strip(pattern).as_bytes();
                glob(pattern.as_bytes(), module.as_bytes()) || glob(own, bare.as_bytes())
            }
            Pattern::Name(name) => bare.match_indices(name.as_str()).any(|(at, _)| {
                let (before, after) = (&bare[..at], &bare[at + name.len()..]);
                (before.is_empty() || before.ends_with('.')) && (after.is_empty() || after.starts_with('.'))
            }),
        }
    }
}

/// A name without what ModelOpt 0.47 appends: `.\0backbone.pt_name_sentinel`.
pub(super) fn plain(name: &str) -> &str {
    name.split_once(".\0").map_or(name, |(name, _)| name)
}

/// A name without the model's prefix, which differs between producers.
pub(super) fn strip(name: &str) -> &str {
    let prefixes = ["language_model.model.", "model.language_model.", "backbone.", "model."];
    prefixes.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
}

/// Whether a glob fits a name whole: at a mismatch, the last `*` takes one more character.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}
