//! A model file of any bytes beside a valid configuration is refused, without allocating what it claims.
#![no_main]

const CONFIG: &str = include_str!("../../tests/data/lightning/config.json");

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("config.json"), CONFIG).unwrap();
    std::fs::write(dir.path().join("model.safetensors"), bytes).unwrap();
    assert!(vt_model::weights::Weights::load(dir.path(), &|_, _| ()).is_err());
});
