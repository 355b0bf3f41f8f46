//! The SSE parser: any stream, cut anywhere, gives the same events as the stream in one piece.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/sse/parse.rs"]
#[allow(dead_code)]
mod parse;

use parse::{Parser, TooLarge};

type Outcome = (Vec<(Vec<u8>, Vec<u8>, Vec<u8>, Option<u64>, u64)>, Option<TooLarge>, String);

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, limit: usize) -> Outcome {
    let mut parser = Parser::new(limit);
    let mut frames = Vec::new();
    for piece in pieces {
        let fed = parser.feed(piece, |frame| {
            assert!(frame.data.len() <= limit);
            let texts = [frame.data, frame.event, frame.id].map(<[u8]>::to_vec);
            let [data, event, id] = texts;
            frames.push((data, event, id, frame.retry, frame.offset));
            Ok(())
        });
        if let Err(error) = fed {
            return (frames, Some(error), String::new());
        }
    }
    let rest = format!("{:?}", parser.rest());
    (frames, None, rest)
}

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (limit, size, stream) = input;
    let limit = if limit < 64 { usize::from(limit) } else { 1 << 20 };
    let whole = read(std::iter::once(stream), limit);
    assert_eq!(read(stream.chunks(1), limit), whole);
    assert_eq!(read(stream.chunks(usize::from(size) + 1), limit), whole);
    let (start, end) = stream.split_at(stream.len().min(usize::from(size)));
    assert_eq!(read([start, end].into_iter(), limit), whole);
});
