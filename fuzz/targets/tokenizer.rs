//! Tokenizer files: any bytes are a tokenizer or an error; a tokenizer takes any text and any ids.
#![no_main]

use vt_model::tokenizer::Tokenizer;

libfuzzer_sys::fuzz_target!(init: {
    // Panics of the tokenizers crate are caught and become errors; one that is not caught still ends the run.
    std::panic::set_hook(Box::new(|_| ()));
}, |bytes: &[u8]| {
    if let Ok(tokenizer) = Tokenizer::from_bytes("tokenizer.json", bytes) {
        let _ = tokenizer.encode("count from 17: é 漢 \u{0}", true);
        let mut stream = tokenizer.stream();
        for id in [0, 1, 255, u32::MAX] {
            let _ = stream.push(id);
        }
        let _ = stream.finish();
    }
});
