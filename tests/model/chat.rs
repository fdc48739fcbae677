//! Chat templates: what transformers gives, and templates that mean harm.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use vt_model::chat::{ChatOptions, ChatTemplate, chat_message, strftime};

use crate::support::oracle::root;

fn render(source: &str) -> Result<String, String> {
    let config = json!({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "pad_token": null});
    let template = ChatTemplate::new(source, config.as_object().unwrap()).map_err(|e| e.to_string())?;
    let messages = [chat_message("user", "hi <b>'é'</b>"), chat_message("assistant", "yo")];
    let tool = json!({"z": 1, "a": [true, null, 1.0], "f": {"name": "é\"\n"}});
    let variables = json!({"deep": 3}).as_object().unwrap().clone();
    let options = ChatOptions { add_generation_prompt: true, tools: Some(json!([tool])), variables };
    template.render(&messages, &options).map_err(|e| e.to_string())
}

/// Expected texts are what jinja2 3.1 gives in transformers' environment.
mod vs_transformers {
    use super::*;

    #[test]
    fn chatml() {
        let source = "{%- for m in messages %}\n    {{- '<|im_start|>' + m.role + '\\n' + m['content'] + '<|im_end|>\\n' }}\n{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|im_start|>assistant\\n' }}\n{%- endif %}\n";
        let expected = "<|im_start|>user\nhi <b>'é'</b><|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n<|im_start|>assistant\n";
        assert_eq!(render(source).unwrap(), expected);
    }

    #[test]
    fn special_tokens_and_variables() {
        assert_eq!(render("{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ deep }}").unwrap(), "<s></s>3");
    }

    #[test]
    fn blocks_are_trimmed() {
        assert_eq!(render("a\n  {% if true %}\n  b\n  {% endif %}\nc\n").unwrap(), "a\n  b\nc");
    }

    #[test]
    fn loop_controls_and_namespace() {
        let source = "{% set ns = namespace(n=0) %}{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}";
        assert_eq!(render(source).unwrap(), "8");
    }

    #[test]
    fn generation_blocks_are_transparent() {
        let source =
            "{% for m in messages %}{%- generation -%} {{ m.content[:2] }} {% endgeneration %}\n{% endfor %}";
        assert_eq!(render(source).unwrap(), "hi yo ");
    }

    #[test]
    fn tojson_keeps_order_and_escapes_no_html() {
        assert_eq!(
            render("{{ tools | tojson }}").unwrap(),
            r#"[{"z": 1, "a": [true, null, 1.0], "f": {"name": "é\"\n"}}]"#
        );
        assert_eq!(render("{{ {'b': '<>&', 'a': 1} | tojson }}").unwrap(), r#"{"b": "<>&", "a": 1}"#);
        assert_eq!(
            render("{{ {'b': [], 'a': {}} | tojson(sort_keys=true) }}").unwrap(),
            r#"{"a": {}, "b": []}"#
        );
        assert_eq!(
            render("{{ [1, {'a': 2}] | tojson(indent=2) }}").unwrap(),
            "[\n  1,\n  {\n    \"a\": 2\n  }\n]"
        );
        assert_eq!(render("{{ 'é🦀' | tojson(ensure_ascii=true) }}").unwrap(), r#""\u00e9\ud83e\udd80""#);
        assert_eq!(render("{{ {'a': [1]} | tojson(separators=(',', ':')) }}").unwrap(), r#"{"a":[1]}"#);
        assert_eq!(
            render("{{ [1e-5, 1e16, 0.5, 3.0, -0.0001] | tojson }}").unwrap(),
            "[1e-05, 1e+16, 0.5, 3.0, -0.0001]"
        );
    }

    #[test]
    fn values_print_as_in_python() {
        assert_eq!(
            render("{{ [true, none, 'a\\'b', {'k': 1.0}] }} {{ true }}").unwrap(),
            "[True, None, \"a'b\", {'k': 1.0}] True"
        );
        assert_eq!(render("{{ missing }}|").unwrap(), "|");
    }

    #[test]
    fn python_methods() {
        let source = "{{ ' a,b '.strip().split(',')[-1] }}{{ 'Xy'.startswith('X') }}{% for k, v in {'q': 1}.items() %}{{ k }}{{ v }}{% endfor %}{{ {'a': 2}.get('c', 7) }}{{ 'a'.upper() }}";
        assert_eq!(render(source).unwrap(), "bTrueq17A");
    }

    #[test]
    fn raise_exception_is_an_error() {
        let error = render("{{ raise_exception('roles must\\nalternate') }}").unwrap_err();
        assert!(error.contains("roles must alternate"), "{error}");
    }

    #[test]
    fn dates() {
        assert_eq!(strftime("%d %b %Y", 1_721_952_000), "26 Jul 2024");
        assert_eq!(
            strftime("%A %-d %B %Y %H:%M:%S %j %p %y", 951_782_400),
            "Tuesday 29 February 2000 00:00:00 060 AM 00"
        );
        assert_eq!(strftime("%F %T %j %a %I", 4_102_444_799), "2099-12-31 23:59:59 365 Thu 11");
        assert_eq!(strftime("%F", 0), "1970-01-01");
        assert_eq!(strftime("%Q %-Q %", 0), "%Q %-Q %");
        let year: u32 = render("{{ strftime_now('%Y') }}").unwrap().parse().unwrap();
        assert!((2024..3000).contains(&year));
    }
}

mod files {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    fn of(files: &[(&str, &str)]) -> Result<Option<String>, String> {
        let template = ChatTemplate::load(folder(files).path()).map_err(|e| e.to_string())?;
        Ok(template.map(|t| t.render(&[], &ChatOptions::default()).unwrap()))
    }

    #[test]
    fn in_every_place() {
        let string = ("tokenizer_config.json", r#"{"chat_template": "string", "bos_token": "B"}"#);
        assert_eq!(of(&[string]), Ok(Some("string".into())));
        assert_eq!(of(&[string, ("chat_template.jinja", "file {{ bos_token }}")]), Ok(Some("file B".into())));
        let list =
            r#"{"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": "d"}]}"#;
        assert_eq!(of(&[("tokenizer_config.json", list)]), Ok(Some("d".into())));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("tokenizer_config.json", r#"{"chat_template": null}"#)]), Ok(None));
        assert!(ChatTemplate::load(&root().join("tests/data/lightning")).unwrap().is_none());
    }

    #[test]
    fn malformed() {
        for text in [
            "{",
            "[]",
            r#"{"chat_template": 7}"#,
            r#"{"chat_template": []}"#,
            r#"{"chat_template": "{% if"}"#,
        ] {
            assert!(of(&[("tokenizer_config.json", text)]).is_err(), "{text}");
        }
    }
}

mod hostile {
    use super::*;

    fn refused(source: &str) -> String {
        let start = Instant::now();
        let error = render(source).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}: {source:.60}", start.elapsed());
        assert!(!error.contains('\n'), "{error}");
        error
    }

    #[test]
    fn loops_end() {
        let nested = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}";
        assert!(refused(nested).contains("fuel"));
        assert!(refused("{% for a in range(10000000000) %}{% endfor %}").contains("range"));
        refused(
            "{{ range(99999) | map('string') | join | length }}{% for a in range(99999) %}{{ 'x' * 100000 }}{% endfor %}",
        );
    }

    #[test]
    fn recursion_ends() {
        refused("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
        refused(&format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)));
        refused(&"{% if true %}".repeat(50_000));
        refused("{% include 'chat_template' %}");
        refused("{% include '/etc/passwd' %}");
    }

    #[test]
    fn values_that_hold_themselves() {
        let cycle = "{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = ns %}";
        for end in ["{{ ns | tojson }}", "{{ ns }}", "{{ [ns] }}"] {
            let _ = render(&format!("{cycle}{end}"));
        }
        refused(&format!("{cycle}{{{{ ns | tojson }}}}"));
    }

    #[test]
    fn output_is_bounded() {
        refused("{{ 'x' * 10000000000 }}");
        refused(
            "{% set ns = namespace(s='x' * 1000) %}{% for a in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
        );
        refused("{{ '%1000000000d' | format(1) }}{{ 'x' * 10000000000 }}");
    }

    #[test]
    fn a_long_source_and_deep_values() {
        let error = ChatTemplate::new(&"x".repeat(2 << 20), &Map::new()).unwrap_err().to_string();
        assert!(error.contains("expected at most"), "{error}");
        let deep = (0..1000).fold(json!(1), |inner, _| json!([inner]));
        let template = ChatTemplate::new("{{ messages }}", &Map::new()).unwrap();
        assert!(template.render(&[deep], &ChatOptions::default()).is_err());
    }

    #[test]
    fn wrong_types_are_errors() {
        refused("{{ messages.nothing.more }}");
        refused("{{ 1 / 0 }}{{ 'a' + 1 }}");
        refused("{{ messages | tojson(indent=99999999) }}");
        refused("{{ missing | tojson }}");
        let template = ChatTemplate::new("{{ messages[0].role }}", &Map::new()).unwrap();
        assert_eq!(template.render(&[Value::Null], &ChatOptions::default()).unwrap(), "", "as in jinja2");
    }
}
