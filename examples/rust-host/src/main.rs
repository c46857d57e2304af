//! A state store on redb behind the store host protocol of streamproof: see `README.md`.

mod host;
mod iterator;
mod scan;
mod store;
mod windows;
mod wire;

use std::env;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::host::{Host, Options};
use crate::store::Bug;
use crate::wire::Request;

const USAGE: &str = "usage: redb-host [--kind window] [--dir DIRECTORY] [--bug offsets-first]";

fn main() -> ExitCode {
    let host = match options(env::args().skip(1)) {
        Ok(options) => Host::new(options),
        Err(wrong) => {
            eprintln!("redb-host: {wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match serve(host) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("redb-host: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut found = Options::default();
    while let Some(option) = arguments.next() {
        match (option.as_str(), arguments.next()) {
            ("--dir", Some(path)) => found.directory = Some(PathBuf::from(path)),
            ("--kind", Some(name)) if name == "window" => found.has_windows = true,
            ("--bug", Some(name)) if name == "offsets-first" => found.bug = Some(Bug::OffsetsFirst),
            (_, value) => return Err(format!("{option} {}?", value.unwrap_or_default())),
        }
    }
    Ok(found)
}

/// Answer one line after the other until there are no more: a reply is written once what was asked
/// for is done, and flushed at once.
fn serve(mut host: Host) -> io::Result<()> {
    let mut replies = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let reply = match Request::parse(&line?) {
            Ok(request) => reply(&request, &mut host),
            Err(failure) => json!({"id": null, "error": failure.json()}),
        };
        writeln!(replies, "{reply}")?;
        replies.flush()?;
    }
    Ok(())
}

fn reply(request: &Request, host: &mut Host) -> Value {
    match host.answer(request) {
        Ok(answer) => json!({"id": request.id(), "ok": answer}),
        Err(failure) => json!({"id": request.id(), "error": failure.json()}),
    }
}
