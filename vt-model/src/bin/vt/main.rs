//! The `vt` program: generate with Nemotron-H, and find out what is wrong when tokens are.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod compare;
mod doctor;
mod gate;
mod generate;
mod golden;
mod inspect;
mod load;
mod output;
mod prompts;

use output::Failure;

/// Generates with NVIDIA's Nemotron-H from a Hugging Face folder, and tells which tensor is to blame when two
/// runs differ.
#[derive(Parser)]
#[command(name = "vt", version, arg_required_else_help = true, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  vt generate --model tests/data/lightning --prompt 'count from 17: 17 18' --max-tokens 24
  vt gate --model tests/data/lightning --golden golden.json
  vt compare --model tests/data/lightning --left arch=sm_121a --right arch=sm_90a --prompt 'add: 23 + 45 ='
  vt inspect tests/data/lightning --bandwidth 273

Exit status: 0 fine, 2 wrong usage or input. `vt gate` and `vt compare` have more; see their help.";

#[derive(Subcommand)]
enum Command {
    /// Continue prompts, several in one batch
    Generate(generate::Args),
    /// Compare tokens with a golden file and say how sure the oracle was where they differ
    Gate(gate::Args),
    /// Write a golden file from this program's own run
    Golden(golden::Args),
    /// Run two configurations in lock step and name the first tensor that differs
    Compare(compare::Args),
    /// Show a checkpoint's layers, precisions and bytes, and the speed limit that follows
    Inspect(inspect::Args),
    /// Show this machine and which arms are enabled for which chip
    Doctor(doctor::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Generate(args) => generate::run(&args),
        Command::Gate(args) => gate::run(&args),
        Command::Golden(args) => golden::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Doctor(args) => doctor::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(Failure::Message(message)) => {
            output::note(&format!("error: {}", message.replace(['\n', '\r'], " ")));
            ExitCode::from(2)
        }
        // The reader is gone; what a shell reports for it.
        Err(Failure::BrokenPipe) => ExitCode::from(141),
    }
}
