//! The operations of the protocol, on one store.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::iterator::{Keys, RowIterator};
use crate::scan::Scan;
use crate::store::{Bug, Partition, Store};
use crate::windows::{self, RETENTION_MS, Span, WINDOW_SIZE_MS};
use crate::wire::{Failure, Reply, Request, decoded, encoded, invalid, list, null, text};

const PROTOCOL: u64 = 2;

/// What the command line says.
#[derive(Default)]
pub struct Options {
    /// Where the store is, whatever the client says.
    pub directory: Option<PathBuf>,
    /// Whether the store has windows, and not plain keys.
    pub has_windows: bool,
    pub bug: Option<Bug>,
}

pub struct Host {
    options: Options,
    store: Option<Store>,
    iterators: HashMap<u64, RowIterator>,
    last_iterator: u64,
    /// How many records came too late for their window since the store was opened.
    dropped: u64,
}

impl Host {
    pub fn new(options: Options) -> Self {
        Self {
            options,
            store: None,
            iterators: HashMap::new(),
            last_iterator: 0,
            dropped: 0,
        }
    }

    /// Do what a request asks for.
    pub fn answer(&mut self, request: &Request) -> Reply {
        if !request.field("on").is_null() {
            let message = "there are no transactions and no views";
            return Err(Failure::new("unsupported", message));
        }
        match request.text("op")? {
            "hello" => self.hello(request),
            "open" => self.open(request),
            "close" => {
                self.close();
                Ok(Value::Null)
            }
            "is_open" => Ok(json!(self.store.is_some())),
            "flush" => self.opened().map(|_| Value::Null),
            "commit" => self.commit(request),
            "committed_offset" => self.committed_offset(request),
            "next" => self.next(request),
            "peek_next_key" => Ok(self.iterator(request)?.peek_next_key()?),
            "close_iterator" => self.close_iterator(request),
            "approximate_num_uncommitted_entries" => {
                Ok(json!(self.opened()?.num_uncommitted_entries()))
            }
            "approximate_num_uncommitted_bytes" => {
                Ok(json!(self.opened()?.num_uncommitted_bytes()))
            }
            op if self.options.has_windows => self.on_windows(op, request),
            op => self.on_keys(op, request),
        }
    }

    fn on_keys(&mut self, op: &str, request: &Request) -> Reply {
        match op {
            "get" => self.get(request),
            "put" => self.put(request),
            "delete" => self.delete(request),
            "put_if_absent" => self.put_if_absent(request),
            // Restored records are staged, too: nobody reads beside the owner of the store.
            "put_all" | "restore" => self.put_all(request.list("entries")?),
            "all" | "range" => self.range(request, false),
            "reverse_all" | "reverse_range" => self.range(request, true),
            "prefix_scan" => self.prefix_scan(request),
            "approximate_num_entries" => Ok(json!(self.opened()?.num_entries()?)),
            _ => Err(unknown(op)),
        }
    }

    fn on_windows(&mut self, op: &str, request: &Request) -> Reply {
        let (forward, reverse) = match op.strip_prefix("backward_") {
            Some(forward) => (forward, true),
            None => (op, false),
        };
        match forward {
            "put" if !reverse => self.put_into_window(request),
            "restore" => self.restore_windows(request.list("entries")?),
            "fetch" => self.fetch(request),
            "fetch_between" => {
                let key = Some(request.bytes("key")?);
                let span = Span {
                    key_from: key.clone(),
                    key_to: key,
                    time_from: request.time("time_from")?,
                    time_to: request.time("time_to")?,
                };
                self.scan_windows(span, Keys::Starts, reverse)
            }
            "fetch_range" | "fetch_all" => {
                let span = Span {
                    key_from: request.bytes_or_null("from")?,
                    key_to: request.bytes_or_null("to")?,
                    time_from: request.time("time_from")?,
                    time_to: request.time("time_to")?,
                };
                self.scan_windows(span, Keys::Windowed, reverse)
            }
            "all" => {
                let span = Span {
                    key_from: None,
                    key_to: None,
                    time_from: 0,
                    time_to: i64::MAX,
                };
                self.scan_windows(span, Keys::Windowed, reverse)
            }
            "dropped_records" => self
                .opened()
                .map(|_| Value::Null)
                .map(|_| json!(self.dropped)),
            _ => Err(unknown(op)),
        }
    }
}

/// The operations on windows.
impl Host {
    fn put_into_window(&mut self, request: &Request) -> Reply {
        let start = request.time("window_start")?;
        let key = request.bytes("key")?;
        let value = request.bytes_or_null("value")?;
        if start < 0 {
            return Err(invalid(format!("the window starts at {start}, before 0")));
        }
        self.put_unless_expired(&key, start, value)?;
        Ok(Value::Null)
    }

    fn restore_windows(&mut self, entries: &[Value]) -> Reply {
        for entry in entries {
            let (raw, value) = entry_of(entry)?;
            let window = windows::window_of_record(&raw);
            let (key, start) = window.ok_or_else(|| invalid("the key of a record is too short"))?;
            self.put_unless_expired(key, start, value)?;
        }
        Ok(Value::Null)
    }

    fn put_unless_expired(
        &mut self,
        key: &[u8],
        start: i64,
        value: Option<Vec<u8>>,
    ) -> Result<(), Failure> {
        if !windows::put(self.opened()?, key, start, value)? {
            self.dropped += 1;
        }
        Ok(())
    }

    fn fetch(&mut self, request: &Request) -> Reply {
        let start = request.time("window_start")?;
        let value = windows::fetch(self.opened()?, &request.bytes("key")?, start)?;
        Ok(encoded(value.as_deref()))
    }

    fn scan_windows(&mut self, span: Span, keys: fn(Span) -> Keys, reverse: bool) -> Reply {
        let rows = windows::scan(self.opened()?, &span, reverse)?;
        Ok(self.keep(rows, keys(span)))
    }
}

/// The operations themselves, each with the arguments that the request brings.
impl Host {
    fn hello(&self, request: &Request) -> Reply {
        if request.number("protocol")? < PROTOCOL {
            let message = "this host needs version 2 of the protocol";
            return Err(Failure::new("unsupported", message));
        }
        let mut capabilities = json!({"transactional": true, "durability": "power"});
        if self.options.has_windows {
            capabilities["kind"] = json!("window");
            capabilities["retention_ms"] = json!(RETENTION_MS);
            capabilities["window_size_ms"] = json!(WINDOW_SIZE_MS);
            capabilities["expiry"] = json!("record");
            capabilities["scan_order"] = json!("time");
            capabilities["prefix_scan"] = json!(false);
            capabilities["entry_count"] = json!(false);
        }
        Ok(json!({
            "protocol": PROTOCOL,
            "name": "redb",
            "version": env!("CARGO_PKG_VERSION"),
            "reopens": self.options.directory.is_none(),
            "capabilities": capabilities,
        }))
    }

    fn open(&mut self, request: &Request) -> Reply {
        if self.store.is_some() {
            return Err(Failure::new("invalid-state", "the store is open already"));
        }
        // The command line has the last word, so that the host can be tried by hand.
        let directory = match &self.options.directory {
            Some(directory) => directory.clone(),
            None => PathBuf::from(request.text("directory")?),
        };
        self.store = Some(Store::open(&directory, self.options.bug)?);
        self.dropped = 0;
        Ok(Value::Null)
    }

    fn close(&mut self) {
        // A scan keeps the database open, and with it the lock of its file.
        self.iterators.clear();
        self.store = None;
    }

    fn get(&mut self, request: &Request) -> Reply {
        let value = self.opened()?.get(&request.bytes("key")?)?;
        Ok(encoded(value.as_deref()))
    }

    fn put(&mut self, request: &Request) -> Reply {
        let store = self.opened()?;
        store.put(request.bytes("key")?, request.bytes_or_null("value")?);
        Ok(Value::Null)
    }

    fn delete(&mut self, request: &Request) -> Reply {
        let store = self.opened()?;
        let key = request.bytes("key")?;
        let old = store.get(&key)?;
        store.put(key, None);
        Ok(encoded(old.as_deref()))
    }

    fn put_if_absent(&mut self, request: &Request) -> Reply {
        let store = self.opened()?;
        let key = request.bytes("key")?;
        let existing = store.get(&key)?;
        if existing.is_none() {
            store.put(key, request.bytes_or_null("value")?);
        }
        Ok(encoded(existing.as_deref()))
    }

    /// Stage all of a batch, or none of it if a key is null.
    fn put_all(&mut self, entries: &[Value]) -> Reply {
        let store = self.opened()?;
        let mut checked = Vec::with_capacity(entries.len());
        for entry in entries {
            checked.push(entry_of(entry)?);
        }
        for (key, value) in checked {
            store.put(key, value);
        }
        Ok(Value::Null)
    }

    fn commit(&mut self, request: &Request) -> Reply {
        let store = self.opened()?;
        let mut offsets = Vec::new();
        for entry in request.list("offsets")? {
            let [topic, number, offset] = list(entry, "an offset")?.as_slice() else {
                return Err(invalid("an offset must be [topic, partition, offset]"));
            };
            offsets.push((partition(topic, number)?, offset.as_i64()));
        }
        store.commit(&offsets)?;
        Ok(Value::Null)
    }

    fn committed_offset(&mut self, request: &Request) -> Reply {
        let partition = partition(request.field("topic"), request.field("partition"))?;
        Ok(json!(self.opened()?.committed_offset(&partition)?))
    }

    fn range(&mut self, request: &Request, reverse: bool) -> Reply {
        let from = request.bytes_or_null("from")?;
        let to = request.bytes_or_null("to")?;
        let low = from.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let high = to.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let scan = self.opened()?.scan(low, high, reverse)?;
        Ok(self.keep(scan, Keys::Plain))
    }

    fn prefix_scan(&mut self, request: &Request) -> Reply {
        let prefix = request.bytes("prefix")?;
        let end = prefix_end(&prefix);
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let scan = self.opened()?.scan(Bound::Included(&prefix), high, false)?;
        Ok(self.keep(scan, Keys::Plain))
    }

    fn keep(&mut self, scan: Scan, keys: Keys) -> Value {
        self.last_iterator += 1;
        let iterator = RowIterator::new(scan, keys);
        self.iterators.insert(self.last_iterator, iterator);
        json!(self.last_iterator)
    }

    fn next(&mut self, request: &Request) -> Reply {
        let limit = usize::try_from(request.number("limit")?).unwrap_or(usize::MAX);
        let rows = self.iterator(request)?.page(limit)?;
        let done = rows.len() < limit;
        Ok(json!({"rows": rows, "done": done}))
    }

    fn close_iterator(&mut self, request: &Request) -> Reply {
        self.iterators.remove(&request.number("iterator")?);
        Ok(Value::Null)
    }

    fn iterator(&mut self, request: &Request) -> Result<&mut RowIterator, Failure> {
        let iterator = self.iterators.get_mut(&request.number("iterator")?);
        iterator.ok_or_else(|| Failure::new("invalid-state", "the iterator is not open"))
    }

    fn opened(&mut self) -> Result<&mut Store, Failure> {
        let store = self.store.as_mut();
        store.ok_or_else(|| Failure::new("invalid-state", "the store is not open"))
    }
}

fn unknown(op: &str) -> Failure {
    Failure::new("unsupported", format!("no operation {op:?}"))
}

/// The key and the value of an entry: bytes, and bytes or null.
fn entry_of(entry: &Value) -> Result<(Vec<u8>, Option<Vec<u8>>), Failure> {
    let entry = list(entry, "an entry")?;
    let key = entry.first().unwrap_or(&Value::Null);
    let value = entry.get(1).unwrap_or(&Value::Null);
    let key = decoded(key, "key")?.ok_or_else(|| null("a key"))?;
    Ok((key, decoded(value, "value")?))
}

fn partition(topic: &Value, number: &Value) -> Result<Partition, Failure> {
    let number = number
        .as_i64()
        .and_then(|number| i32::try_from(number).ok());
    Ok(Partition {
        topic: text(topic, "topic")?.to_owned(),
        number: number.ok_or_else(|| invalid("partition must be a 32-bit number"))?,
    })
}

/// The smallest key after all that start with a prefix, if there is one.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}
