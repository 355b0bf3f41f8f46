//! What looks into JSON text without reading it: any bytes are survived, and strings end where a
//! byte-by-byte look says.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../src/json"]
#[allow(dead_code)]
mod json {
    pub mod locate;
    pub mod unescape;
}

use json::{locate, unescape};

fuzz_target!(|bytes: &[u8]| {
    let mut text = Vec::new();
    for start in 0..=bytes.len().min(40) {
        let scan = unescape::scan(bytes, start);
        let special = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        let clean = bytes[start..].iter().take_while(|&&byte| !special(byte)).count();
        assert_eq!(scan.end, start + clean);
        assert_eq!(scan.ascii, bytes[start..scan.end].is_ascii());
        if let Ok(whole) = unescape::unescape(bytes, start, scan, &mut text) {
            assert_eq!(bytes[whole.end], b'"');
            assert_eq!(whole.ascii, text.is_ascii());
        }
        locate::first_text(bytes, start, b"type");
        locate::member(bytes, start, b"a");
        locate::element(bytes, start, 2);
    }
});
