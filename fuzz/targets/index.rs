//! An index of any text, with no shard beside it, is refused.
#![no_main]

const CONFIG: &str = include_str!("../../tests/data/lightning/config.json");

libfuzzer_sys::fuzz_target!(|text: &str| {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), CONFIG).unwrap();
    std::fs::write(dir.path().join("model.safetensors.index.json"), text).unwrap();
    assert!(vt_model::weights::Weights::load(dir.path(), &|_, _| ()).is_err());
});
