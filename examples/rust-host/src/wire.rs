//! What is on the wire: one JSON object a line, with bytes in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

/// What an operation gives back: its answer, or why there is none.
pub type Reply = Result<Value, Failure>;

/// An error as the protocol names it.
#[derive(Debug)]
pub struct Failure {
    pub kind: &'static str,
    pub message: String,
}

impl Failure {
    pub fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    pub fn json(&self) -> Value {
        json!({"kind": self.kind, "message": self.message})
    }
}

impl From<redb::Error> for Failure {
    fn from(error: redb::Error) -> Self {
        Self::new("io", format!("redb: {error}"))
    }
}

/// A line from the client: an operation with its arguments.
pub struct Request(Map<String, Value>);

impl Request {
    pub fn parse(line: &str) -> Result<Self, Failure> {
        match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            _ => Err(invalid("the line is no JSON object")),
        }
    }

    pub fn id(&self) -> Value {
        self.field("id").clone()
    }

    pub fn field(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or(&Value::Null)
    }

    pub fn text(&self, name: &str) -> Result<&str, Failure> {
        text(self.field(name), name)
    }

    pub fn number(&self, name: &str) -> Result<u64, Failure> {
        let number = self.field(name).as_u64();
        number.ok_or_else(|| invalid(format!("{name} must be a number")))
    }

    /// A time in milliseconds.
    pub fn time(&self, name: &str) -> Result<i64, Failure> {
        let time = self.field(name).as_i64();
        time.ok_or_else(|| invalid(format!("{name} must be a time in milliseconds")))
    }

    pub fn bytes(&self, name: &str) -> Result<Vec<u8>, Failure> {
        self.bytes_or_null(name)?.ok_or_else(|| null(name))
    }

    pub fn bytes_or_null(&self, name: &str) -> Result<Option<Vec<u8>>, Failure> {
        decoded(self.field(name), name)
    }

    pub fn list(&self, name: &str) -> Result<&Vec<Value>, Failure> {
        list(self.field(name), name)
    }
}

pub fn invalid(message: impl Into<String>) -> Failure {
    Failure::new("invalid-argument", message)
}

pub fn null(what: &str) -> Failure {
    Failure::new("null-argument", format!("{what} is null; give bytes"))
}

pub fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let text = value.as_str();
    text.ok_or_else(|| invalid(format!("{name} must be a string")))
}

pub fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, Failure> {
    let list = value.as_array();
    list.ok_or_else(|| invalid(format!("{name} must be a list")))
}

/// Bytes from base64; `null` is no bytes at all.
pub fn decoded(value: &Value, name: &str) -> Result<Option<Vec<u8>>, Failure> {
    if value.is_null() {
        return Ok(None);
    }
    let bytes = STANDARD.decode(text(value, name)?);
    bytes
        .map(Some)
        .map_err(|error| invalid(format!("{name} is no base64: {error}")))
}

/// Bytes as base64, and no bytes as `null`.
pub fn encoded(bytes: Option<&[u8]>) -> Value {
    bytes.map_or(Value::Null, |bytes| json!(STANDARD.encode(bytes)))
}
