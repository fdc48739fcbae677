//! Golden files: any bytes are goldens or an error; what is read can be written and read again.
#![no_main]

use vt_model::golden::Golden;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(golden) = Golden::parse(bytes) {
        let again = Golden::parse(golden.to_json().as_bytes()).unwrap();
        assert_eq!(again.to_json(), golden.to_json());
    }
});
