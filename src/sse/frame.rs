//! One event as one frame of `text/event-stream`: a single `data` line and a blank line, ended by
//! LF alone, as AG-UI 1.0 asks of producers. JSON has no raw line break, so one line is enough.

/// What comes before the JSON document.
#[inline]
pub fn open(out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
}

/// What comes after it.
#[inline]
pub fn close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}
