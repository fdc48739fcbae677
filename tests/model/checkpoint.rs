//! Safetensors files and their index, broken in every way: always an error that names the file, never a panic.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use vt_model::weights::Weights;

use crate::support::checkpoint::{Precision, Synthetic, tiny};

const FILE: &str = "model.safetensors";

fn error(dir: &Path) -> String {
    Weights::load(dir, &|_, _| ()).map(drop).expect_err("an error").to_string()
}

/// A folder with a good checkpoint, its file's header and data.
fn good() -> (tempfile::TempDir, Value, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    Synthetic::new(tiny(), Precision::Mixed).write(dir.path());
    let bytes = std::fs::read(dir.path().join(FILE)).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    (dir, header, bytes[8 + length..].to_vec())
}

fn write(dir: &Path, header: &str, data: &[u8]) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(dir.join(FILE), bytes).unwrap();
}

/// Wants an error that names the file and every one of `words`, once `change` was at the header.
#[track_caller]
fn refused(change: impl Fn(&mut Value), words: &[&str]) {
    let (dir, mut header, data) = good();
    change(&mut header);
    write(dir.path(), &header.to_string(), &data);
    let error = error(dir.path());
    for word in words.iter().chain(&[FILE]) {
        assert!(error.contains(word), "{error}: no {word}");
    }
}

mod header {
    use super::*;

    const NAME: &str = "backbone.layers.0.mixer.norm.weight";

    #[test]
    fn good_is_good() {
        let (dir, header, data) = good();
        write(dir.path(), &header.to_string(), &data);
        Weights::load(dir.path(), &|_, _| ()).unwrap();
    }

    #[test]
    fn offsets_and_shapes() {
        let offsets = |from: u64, to: u64| move |h: &mut Value| h[NAME]["data_offsets"] = json!([from, to]);
        refused(offsets(0, u64::MAX / 2), &[NAME, "within"]);
        refused(offsets(64, 0), &[NAME, "data at bytes 64 to 0"]);
        refused(offsets(1, 65), &["data at bytes"]);
        let shape = |shape: Value| move |h: &mut Value| h[NAME]["shape"] = shape.clone();
        refused(shape(json!([33])), &[NAME, "bytes", "[33]"]);
        refused(shape(json!([u64::MAX / 2, 4])), &[NAME, "bytes"]);
        refused(shape(json!([-1])), &[NAME]);
        refused(shape(json!("32")), &[NAME]);
    }

    #[test]
    fn types_and_fields() {
        refused(|h| h[NAME]["dtype"] = json!("F7"), &[NAME, "F7"]);
        refused(|h| drop(h[NAME].as_object_mut().unwrap().remove("shape")), &[NAME, "shape"]);
        refused(|h| h[NAME] = json!(3), &[NAME]);
        refused(|h| *h = json!([]), &["header"]);
    }

    #[test]
    fn gaps_and_twins() {
        let (dir, header, data) = good();
        let longer = [&data[..], &[0; 8]].concat();
        write(dir.path(), &header.to_string(), &longer);
        assert!(error(dir.path()).contains("bytes of data, expected the"));
        let text = header.to_string();
        let twin = format!("{},\"{NAME}\":{}}}", &text[..text.len() - 1], header[NAME]);
        write(dir.path(), &twin, &data);
        let error = error(dir.path());
        assert!(error.contains(NAME) && error.contains("twice"), "{error}");
    }

    #[test]
    fn truncated() {
        let (dir, ..) = good();
        let path = dir.path().join(FILE);
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 7, 8, 100, bytes.len() / 2, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(error(dir.path()).contains(FILE));
        }
    }

    #[test]
    fn lengths_that_lie() {
        let (dir, ..) = good();
        let path = dir.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        for length in [u64::MAX, u64::MAX - 7, 1 << 40, 100_000_001, bytes.len() as u64 - 7, 0, 1] {
            bytes[..8].copy_from_slice(&length.to_le_bytes());
            std::fs::write(&path, &bytes).unwrap();
            assert!(error(dir.path()).contains(FILE));
        }
    }

    #[test]
    fn nested_without_end() {
        let (dir, ..) = good();
        write(dir.path(), &"{\"a\":".repeat(100_000), &[]);
        assert!(error(dir.path()).contains(FILE));
    }

    #[test]
    fn no_file_and_no_regular_file() {
        let (dir, ..) = good();
        std::fs::remove_file(dir.path().join(FILE)).unwrap();
        assert!(error(dir.path()).contains(FILE));
        std::fs::create_dir(dir.path().join(FILE)).unwrap();
        assert!(error(dir.path()).contains("not a regular file"));
    }
}

mod index {
    use super::*;

    const INDEX: &str = "model.safetensors.index.json";

    /// Wants an error with `words`, once `change` was at the index of two shards.
    #[track_caller]
    fn refused(change: impl Fn(&mut Value), words: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        Synthetic::new(tiny(), Precision::Bf16).write_sharded(dir.path(), 2);
        let path = dir.path().join(INDEX);
        let mut index = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut index);
        std::fs::write(&path, index.to_string()).unwrap();
        let error = error(dir.path());
        for word in words {
            assert!(error.contains(word), "{error}: no {word}");
        }
    }

    #[test]
    fn shards_stay_in_the_folder() {
        for name in ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", ".", "", "a\\b", "a\0b"] {
            refused(|i| i["weight_map"]["lm_head.weight"] = json!(name), &["weight_map.lm_head.weight"]);
        }
        refused(|i| i["weight_map"]["lm_head.weight"] = json!(3), &["weight_map.lm_head.weight", INDEX]);
    }

    #[test]
    fn index_and_shards_agree() {
        let other = json!("model-00001-of-00002.safetensors");
        let second = "backbone.layers.0.mixer.A_log";
        refused(|i| i["weight_map"][second] = other.clone(), &[second, INDEX]);
        refused(|i| i["weight_map"]["x.weight"] = other.clone(), &["x.weight", "missing", INDEX]);
        let forget = |i: &mut Value| drop(i["weight_map"].as_object_mut().unwrap().remove("lm_head.weight"));
        refused(forget, &["lm_head.weight", "surplus", ".safetensors"]);
        refused(|i| i["weight_map"]["x"] = json!("y.safetensors"), &["y.safetensors"]);
        refused(|i| *i = json!({}), &["weight_map", INDEX]);
        refused(|i| i["weight_map"] = json!([]), &["weight_map", INDEX]);
    }

    #[test]
    fn a_tensor_in_two_shards() {
        let dir = tempfile::tempdir().unwrap();
        Synthetic::new(tiny(), Precision::Bf16).write_sharded(dir.path(), 2);
        let (first, second) = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors");
        std::fs::copy(dir.path().join(first), dir.path().join(second)).unwrap();
        let error = error(dir.path());
        assert!(error.contains(second) && error.contains(first), "{error}");
    }
}

mod hostile {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (dir, ..) = good();
            std::fs::write(dir.path().join(FILE), &bytes).unwrap();
            prop_assert!(error(dir.path()).contains(FILE));
            let length = (bytes.len() as u64).to_le_bytes();
            std::fs::write(dir.path().join(FILE), [&length[..], &bytes].concat()).unwrap();
            prop_assert!(error(dir.path()).contains(FILE));
        }

        /// A changed byte anywhere gives a model or an error.
        #[test]
        fn changed_bytes(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4)) {
            let (dir, header, data) = good();
            let mut text = header.to_string().into_bytes();
            for (at, byte) in changes {
                let at = at.index(text.len());
                text[at] = byte;
            }
            write(dir.path(), &String::from_utf8_lossy(&text), &data);
            let _ = Weights::load(dir.path(), &|_, _| ());
        }

        /// Numbers of the header replaced by others.
        #[test]
        fn changed_numbers(which in any::<prop::sample::Index>(), number in prop_oneof![any::<u64>(), 0u64..4096]) {
            let (dir, header, data) = good();
            let text = header.to_string();
            let numbers: Vec<(usize, &str)> = text.match_indices(|c: char| c.is_ascii_digit()).collect();
            let (at, _) = numbers[which.index(numbers.len())];
            let text = format!("{}{number}{}", &text[..at], &text[at + 1..]);
            write(dir.path(), &text, &data);
            let _ = Weights::load(dir.path(), &|_, _| ());
        }

        #[test]
        fn random_index(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (dir, ..) = good();
            let path = dir.path().join("model.safetensors.index.json");
            std::fs::write(&path, &bytes).unwrap();
            prop_assert!(error(dir.path()).contains("index.json"));
        }
    }
}
