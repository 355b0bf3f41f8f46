//! JSON Lines: any stream, cut anywhere, gives the same lines as the stream in one piece.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/json/ndjson.rs"]
#[allow(dead_code)]
mod ndjson;

use ndjson::{LineTooLong, Lines};

type Outcome = (Vec<(Vec<u8>, u64)>, Option<LineTooLong>, Option<(Vec<u8>, u64)>);

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> Outcome {
    let mut lines = Lines::new(limit);
    let mut found = Vec::new();
    for piece in pieces {
        let fed = lines.feed(piece, |line, start| {
            assert!(line.len() <= limit);
            found.push((line.to_vec(), start));
            Ok(())
        });
        if let Err(error) = fed {
            return (found, Some(error), None);
        }
    }
    let rest = lines.rest().map(|(line, start)| (line.to_vec(), start));
    (found, None, rest)
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (limit, size, stream) = input;
    let limit = if limit < 64 { usize::from(limit) } else { 1 << 20 };
    let whole = read(std::iter::once(stream), limit);
    assert_eq!(read(stream.chunks(1), limit), whole);
    assert_eq!(read(stream.chunks(usize::from(size) + 1), limit), whole);
    for (line, start) in &whole.0 {
        // Each stands where it is said to stand.
        assert!(stream[usize::try_from(*start).unwrap()..].starts_with(line));
    }
});
