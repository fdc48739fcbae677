//! Chat templates: any template renders within its limits or is an error.
#![no_main]

use vt_model::chat::{ChatOptions, ChatTemplate, chat_message};

libfuzzer_sys::fuzz_target!(|source: &str| {
    let config = [("bos_token".to_string(), "<s>".into())].into_iter().collect();
    if let Ok(template) = ChatTemplate::new(source, &config) {
        let messages = [chat_message("system", "be brief"), chat_message("user", "{{ 1 }} é")];
        let _ = template.render(&messages, &ChatOptions::default());
    }
});
