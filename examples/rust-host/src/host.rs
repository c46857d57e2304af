//! The operations of the protocol, on one store.

use std::collections::HashMap;
use std::ops::Bound;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::scan::Scan;
use crate::store::{Bug, Partition, Store};
use crate::wire::{Failure, Reply, Request, decoded, encoded, invalid, list, null, text};

const PROTOCOL: u64 = 1;

pub struct Host {
    directory: Option<PathBuf>,
    bug: Option<Bug>,
    store: Option<Store>,
    scans: HashMap<u64, Scan>,
    last_scan: u64,
}

impl Host {
    pub fn new(directory: Option<PathBuf>, bug: Option<Bug>) -> Self {
        Self {
            directory,
            bug,
            store: None,
            scans: HashMap::new(),
            last_scan: 0,
        }
    }

    /// Do what a request asks for.
    pub fn answer(&mut self, request: &Request) -> Reply {
        if !request.field("on").is_null() {
            let message = "there are no transactions and no views";
            return Err(Failure::new("unsupported", message));
        }
        match request.text("op")? {
            "hello" => hello(request),
            "open" => self.open(request),
            "close" => {
                self.close();
                Ok(Value::Null)
            }
            "get" => self.get(request),
            "put" => self.put(request),
            "delete" => self.delete(request),
            "put_if_absent" => self.put_if_absent(request),
            // Restored records are staged, too: nobody reads beside the owner of the store.
            "put_all" | "restore" => self.put_all(request.list("entries")?),
            "flush" => self.opened().map(|_| Value::Null),
            "commit" => self.commit(request),
            "committed_offset" => self.committed_offset(request),
            "all" | "range" => self.range(request, false),
            "reverse_all" | "reverse_range" => self.range(request, true),
            "prefix_scan" => self.prefix_scan(request),
            "next" => self.next(request),
            "close_iterator" => self.close_iterator(request),
            "approximate_num_entries" => Ok(json!(self.opened()?.num_entries()?)),
            "approximate_num_uncommitted_entries" => {
                Ok(json!(self.opened()?.num_uncommitted_entries()))
            }
            "approximate_num_uncommitted_bytes" => {
                Ok(json!(self.opened()?.num_uncommitted_bytes()))
            }
            other => Err(Failure::new(
                "unsupported",
                format!("no operation {other:?}"),
            )),
        }
    }
}

/// The operations themselves, each with the arguments that the request brings.
impl Host {
    fn open(&mut self, request: &Request) -> Reply {
        if self.store.is_some() {
            return Err(Failure::new("invalid-state", "the store is open already"));
        }
        // The command line has the last word, so that the host can be tried by hand.
        let directory = match &self.directory {
            Some(directory) => directory.clone(),
            None => PathBuf::from(request.text("directory")?),
        };
        self.store = Some(Store::open(&directory, self.bug)?);
        Ok(Value::Null)
    }

    fn close(&mut self) {
        // A scan keeps the database open, and with it the lock of its file.
        self.scans.clear();
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
            let entry = list(entry, "an entry")?;
            let key = entry.first().unwrap_or(&Value::Null);
            let value = entry.get(1).unwrap_or(&Value::Null);
            let key = decoded(key, "key")?.ok_or_else(|| null("a key"))?;
            checked.push((key, decoded(value, "value")?));
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
        Ok(self.keep(scan))
    }

    fn prefix_scan(&mut self, request: &Request) -> Reply {
        let prefix = request.bytes("prefix")?;
        let end = prefix_end(&prefix);
        let high = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let scan = self.opened()?.scan(Bound::Included(&prefix), high, false)?;
        Ok(self.keep(scan))
    }

    fn keep(&mut self, scan: Scan) -> Value {
        self.last_scan += 1;
        self.scans.insert(self.last_scan, scan);
        json!(self.last_scan)
    }

    fn next(&mut self, request: &Request) -> Reply {
        let scan = self.scans.get_mut(&request.number("iterator")?);
        let scan = scan.ok_or_else(|| Failure::new("invalid-state", "the iterator is not open"))?;
        let limit = usize::try_from(request.number("limit")?).unwrap_or(usize::MAX);
        let rows = scan.page(limit)?;
        let done = rows.len() < limit;
        let rows: Vec<Value> = rows
            .iter()
            .map(|(key, value)| json!([encoded(Some(key)), encoded(Some(value))]))
            .collect();
        Ok(json!({"rows": rows, "done": done}))
    }

    fn close_iterator(&mut self, request: &Request) -> Reply {
        self.scans.remove(&request.number("iterator")?);
        Ok(Value::Null)
    }

    fn opened(&mut self) -> Result<&mut Store, Failure> {
        let store = self.store.as_mut();
        store.ok_or_else(|| Failure::new("invalid-state", "the store is not open"))
    }
}

fn hello(request: &Request) -> Reply {
    if request.number("protocol")? < PROTOCOL {
        return Err(Failure::new(
            "unsupported",
            "version 1 is the oldest there is",
        ));
    }
    Ok(json!({
        "protocol": PROTOCOL,
        "name": "redb",
        "version": env!("CARGO_PKG_VERSION"),
        "capabilities": {"transactional": true, "durability": "power"},
    }))
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
