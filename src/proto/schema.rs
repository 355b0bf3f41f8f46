//! The form of the wire table: what a `.proto` file says of a message, and no more.

use super::table::{Id, KEYS};

/// A message.
#[derive(Debug)]
pub struct Message {
    pub id: Id,
    /// All fields are the arms of one oneof. (No message has a oneof beside other fields.)
    pub union: bool,
    /// By number, ascending, which is also the order on the wire.
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    pub number: u32,
    pub name: &'static str,
    /// The key in JSON, as its index in [`KEYS`].
    pub key: u16,
    pub label: Label,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// A scalar that reads as empty (or zero) when it is absent, and is not written when it is so.
    Implicit,
    /// Present or absent.
    Optional,
    Repeated,
}

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Str,
    Int64,
    Bool,
    Enum,
    /// `google.protobuf.Value`: any JSON value.
    Value,
    /// `google.protobuf.Struct`: a JSON object.
    Struct,
    Message(&'static Message),
}

/// One line of the table.
pub const fn field(number: u32, name: &'static str, key: u16, label: Label, kind: Kind) -> Field {
    Field { number, name, key, label, kind }
}

impl Field {
    /// The key in JSON: `messageId`.
    pub fn key_text(&self) -> &'static str {
        KEYS[self.key as usize]
    }
}

impl Message {
    /// The index of the field with this number. Numbers are given out without gaps, so the field
    /// is nearly always where its number says.
    #[inline]
    pub fn find(&self, number: u32) -> Option<usize> {
        let guess = number.wrapping_sub(1) as usize;
        match self.fields.get(guess) {
            Some(field) if field.number == number => Some(guess),
            _ => self.fields.iter().position(|field| field.number == number),
        }
    }

    /// The index of the field with this name, also for use in constants.
    ///
    /// # Panics
    /// If the message has none.
    pub const fn position(&self, name: &str) -> usize {
        let mut at = 0;
        while at < self.fields.len() {
            if same(self.fields[at].name.as_bytes(), name.as_bytes()) {
                return at;
            }
            at += 1;
        }
        panic!("no such field")
    }
}

const fn same(left: &[u8], right: &[u8]) -> bool {
    let mut at = 0;
    while at < left.len() && at < right.len() && left[at] == right[at] {
        at += 1;
    }
    at == left.len() && at == right.len()
}
