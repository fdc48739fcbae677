//! Precision rules: any text is rules or an error, and rules answer for any module.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| {
    let (rules, module) = text.split_once('\n').unwrap_or((text, "backbone.layers.1.mixer.experts.3.up_proj"));
    if let Ok(config) = vt_model::quant::QuantConfig::from_json(rules, "hf_quant_config.json".as_ref()) {
        let _ = config.resolve(module);
    }
});
