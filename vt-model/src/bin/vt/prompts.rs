//! Prompts from the command line, as text or ids.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use vt_model::chat::{ChatOptions, ChatTemplate, chat_message};
use vt_model::config::Config;
use vt_model::tokenizer::Tokenizer;

use crate::output::{Result, fail};

/// Where prompts come from.
#[derive(clap::Args, Clone, Debug)]
#[group(id = "prompt_source", required = true, multiple = true)]
pub(crate) struct PromptArgs {
    /// Text to continue; may be given more than once
    #[arg(long, value_name = "TEXT")]
    prompt: Vec<String>,

    /// File whose text is one prompt, without its last line end; - is standard input
    #[arg(long, value_name = "FILE")]
    prompt_file: Option<PathBuf>,

    /// Prompt as token ids, such as 1,377,376; may be given more than once
    #[arg(long, value_name = "IDS", value_parser = ids)]
    tokens: Vec<Ids>,
}

/// How a text becomes a prompt.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct ChatArgs {
    /// Put each text into the checkpoint's chat template as a user's message; without it a text is taken as it
    /// is, behind the tokenizer's special tokens
    #[arg(long)]
    chat: bool,

    /// System message of the chat
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,

    /// Variable of the chat template, such as enable_thinking=false; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", requires = "chat", value_parser = variable)]
    chat_variable: Vec<(String, Value)>,
}

/// A list of ids: one argument.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ids(pub(crate) Vec<u32>);

/// A prompt.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) text: Option<String>,
    pub(crate) ids: Vec<u32>,
}

impl Prompt {
    /// The text, shortened, or the ids.
    pub(crate) fn label(&self) -> String {
        match &self.text {
            Some(text) => label(text),
            None => label(&format!("{:?}", self.ids)),
        }
    }
}

/// A text in quotes, no longer than a line.
pub(crate) fn label(text: &str) -> String {
    if text.chars().count() <= 60 {
        return format!("{text:?}");
    }
    format!("{:?}…", text.chars().take(60).collect::<String>())
}

impl PromptArgs {
    /// All prompts: texts, the file, then ids.
    pub(crate) fn read(
        &self,
        dir: &Path,
        config: &Config,
        tokenizer: Option<&Tokenizer>,
        chat: &ChatArgs,
    ) -> Result<Vec<Prompt>> {
        let mut texts = self.prompt.clone();
        if let Some(path) = &self.prompt_file {
            texts.push(read(path)?);
        }
        let mut prompts = texts_to_prompts(texts, dir, config, tokenizer, chat)?;
        prompts.extend(self.tokens.iter().map(|ids| Prompt { text: None, ids: ids.0.clone() }));
        for prompt in &prompts {
            check(&prompt.ids, config)?;
        }
        Ok(prompts)
    }
}

/// Texts as prompts, by the chat template or as they are.
pub(crate) fn texts_to_prompts(
    texts: Vec<String>,
    dir: &Path,
    config: &Config,
    tokenizer: Option<&Tokenizer>,
    chat: &ChatArgs,
) -> Result<Vec<Prompt>> {
    let template = if chat.chat { Some(template(dir)?) } else { None };
    let mut prompts = Vec::new();
    for text in texts {
        let Some(tokenizer) = tokenizer else {
            return fail(format!("{}: no tokenizer.json; give prompts by --tokens", dir.display()));
        };
        let ids = match &template {
            None => tokenizer.encode_prompt(&text, config.bos_token_id)?,
            Some(template) => {
                let system = chat.system.iter().map(|system| chat_message("system", system));
                let messages: Vec<_> = system.chain([chat_message("user", &text)]).collect();
                let variables: Map<String, Value> = chat.chat_variable.iter().cloned().collect();
                let options = ChatOptions { add_generation_prompt: true, tools: None, variables };
                tokenizer.encode(&template.render(&messages, &options)?, false)?
            }
        };
        prompts.push(Prompt { text: Some(text), ids });
    }
    Ok(prompts)
}

/// The tokenizer, if the checkpoint has one.
pub(crate) fn tokenizer(dir: &Path) -> Result<Option<Tokenizer>> {
    if dir.join("tokenizer.json").exists() { Ok(Some(Tokenizer::load(dir)?)) } else { Ok(None) }
}

fn template(dir: &Path) -> Result<ChatTemplate> {
    match ChatTemplate::load(dir)? {
        Some(template) => Ok(template),
        None => fail(format!("--chat: {} has no chat template", dir.display())),
    }
}

fn check(ids: &[u32], config: &Config) -> Result<()> {
    if ids.is_empty() {
        return fail("a prompt without tokens");
    }
    match ids.iter().find(|&&id| id as usize >= config.vocab_size) {
        Some(id) => fail(format!("prompt: token id {id}, expected below {}", config.vocab_size)),
        None => Ok(()),
    }
}

/// A file's text without its last line end; `-` is standard input.
pub(crate) fn read(path: &Path) -> Result<String> {
    let mut text = String::new();
    let result = if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).map(drop)
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    if let Err(error) = result {
        return fail(format!("{}: {error}", path.display()));
    }
    let end =
        text.strip_suffix('\n').map_or(text.len(), |text| text.strip_suffix('\r').unwrap_or(text).len());
    text.truncate(end);
    Ok(text)
}

pub(crate) fn ids(text: &str) -> std::result::Result<Ids, String> {
    let ids = text.split(',').map(|id| id.trim().parse().map_err(|_| format!("`{id}` is no token id")));
    ids.collect::<std::result::Result<_, _>>().map(Ids)
}

fn variable(text: &str) -> std::result::Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.into(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value))))
}
