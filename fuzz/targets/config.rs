//! `config.json`: any text is a configuration or an error.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = vt_model::config::Config::from_json(text, "config.json".as_ref());
});
