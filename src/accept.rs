//! Content negotiation: what an `Accept` header asks for (RFC 9110 section 12.5.1, and the AG-UI
//! page on transports).

/// The media type of the binary transport, as AG-UI 1.0 names it.
pub const PROTOBUF: &str = "application/vnd.ag-ui.event+proto";
/// An older name of the same, still in the wild.
pub const PROTOBUF_OLD: &str = "application/x-ag-ui";
/// The content type of Server-Sent Events.
pub const SSE: &str = "text/event-stream";

/// How events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Sse,
    /// Frames of protobuf, with the content type that was asked for.
    Protobuf(&'static str),
}

impl Format {
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Sse => SSE,
            Self::Protobuf(name) => name,
        }
    }
}

/// The format that a header asks for: protobuf if it names that with a q above 0, else SSE. Which
/// is preferred is not asked. With `wildcards`, `*/*` and `application/*` name it too, unless the
/// type itself is refused with a q of 0: the more specific range counts. An entry whose weight is
/// not a valid qvalue is ignored.
pub fn negotiate(accept: &str, wildcards: bool) -> Format {
    // The q of each: what the header says last, if it says so twice.
    let (mut named, mut old, mut range, mut any) = (None, None, None, None);
    for element in elements(accept, ',') {
        let mut parts = elements(element, ';');
        let name = trim(parts.next().unwrap_or_default()).to_ascii_lowercase();
        let place = match name.as_str() {
            PROTOBUF => &mut named,
            PROTOBUF_OLD => &mut old,
            "application/*" => &mut range,
            "*/*" => &mut any,
            _ => continue,
        };
        let mut weights = parts.filter_map(weight);
        match weights.next().unwrap_or(Some(true)) {
            Some(wanted) if weights.all(|weight| weight.is_some()) => *place = Some(wanted),
            _ => {}
        }
    }
    match (named, old) {
        (Some(true), _) => Format::Protobuf(PROTOBUF),
        (_, Some(true)) => Format::Protobuf(PROTOBUF_OLD),
        (None, None) if wildcards && range.or(any) == Some(true) => Format::Protobuf(PROTOBUF),
        _ => Format::Sse,
    }
}

/// Whether a parameter, if it is a weight, is above 0. `Some(None)`: its value is not a qvalue.
#[expect(clippy::option_option, reason = "no weight and a bad one are not the same")]
fn weight(parameter: &str) -> Option<Option<bool>> {
    let (name, value) = match parameter.split_once('=') {
        Some((name, value)) => (name, value.trim_end_matches(OWS)),
        None => (parameter, ""),
    };
    if !trim(name).eq_ignore_ascii_case("q") {
        return None;
    }
    // No white space is allowed before the "=".
    Some(if name.ends_with(OWS) { None } else { qvalue(value) })
}

/// Whether a qvalue (RFC 9110 section 12.4.2) is above 0: `0` or `1`, with up to three decimals,
/// which are all 0 after a 1.
fn qvalue(text: &str) -> Option<bool> {
    let (one, decimals) = match text.as_bytes() {
        [digit @ (b'0' | b'1')] => (*digit == b'1', &[][..]),
        [digit @ (b'0' | b'1'), b'.', decimals @ ..] => (*digit == b'1', decimals),
        _ => return None,
    };
    let all_zero = decimals.iter().all(|digit| *digit == b'0');
    let valid =
        decimals.len() <= 3 && if one { all_zero } else { decimals.iter().all(u8::is_ascii_digit) };
    valid.then_some(one || !all_zero)
}

/// Optional white space (RFC 9110 section 5.6.3).
const OWS: [char; 2] = [' ', '\t'];

fn trim(text: &str) -> &str {
    text.trim_matches(OWS)
}

/// The parts of a list, as they stand between `separator`, but not between quotes.
fn elements(list: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    list.split(move |c| {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => {}
        }
        c == separator && !quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content_type(accept: &str) -> &'static str {
        negotiate(accept, false).content_type()
    }

    #[test]
    fn protobuf_is_what_is_named() {
        for accept in [
            "application/vnd.ag-ui.event+proto",
            "text/event-stream, application/vnd.ag-ui.event+proto",
            "application/vnd.ag-ui.event+proto;q=0.1, text/event-stream;q=1.0",
            "APPLICATION/VND.AG-UI.EVENT+PROTO",
            " application/vnd.ag-ui.event+proto ; v=1 ; Q=0.001 ",
            "text/plain;x=\"a,b\\\",c\", application/vnd.ag-ui.event+proto",
            "application/vnd.ag-ui.event+proto;x=\";q=0\"",
            "application/vnd.ag-ui.event+proto, */*;q=0",
            ",,application/vnd.ag-ui.event+proto,",
            "application/vnd.ag-ui.event+proto;v=\"1;q=0\";q=1.000",
            "application/vnd.ag-ui.event+proto\t;\tq=1.",
            "application/vnd.ag-ui.event+proto;q=0.5;ext=0",
            "application/vnd.ag-ui.event+proto;q=2, application/vnd.ag-ui.event+proto;q=1",
            "application/x-ag-ui, application/vnd.ag-ui.event+proto",
        ] {
            assert_eq!(content_type(accept), PROTOBUF, "{accept}");
        }
        for accept in
            ["application/x-ag-ui", "application/vnd.ag-ui.event+proto;q=0, Application/X-AG-UI"]
        {
            assert_eq!(content_type(accept), PROTOBUF_OLD, "{accept}");
        }
    }

    #[test]
    fn everything_else_is_sse() {
        for accept in [
            "",
            "*/*",
            "application/*",
            "text/event-stream",
            "application/json",
            "application/vnd.ag-ui.event+proto;q=0",
            "application/vnd.ag-ui.event+proto;q=0.000, text/event-stream",
            "application/vnd.ag-ui.event+protobuf",
            "text/plain;x=\"application/vnd.ag-ui.event+proto\"",
            "text/plain;x=\", application/vnd.ag-ui.event+proto",
            "application/vnd.ag-ui.event+proto; q = 0",
        ] {
            assert_eq!(content_type(accept), SSE, "{accept}");
        }
    }

    #[test]
    fn an_entry_with_an_invalid_weight_is_ignored() {
        for q in [
            "q=\"0\"",
            "q=\"1\"",
            "q=2",
            "q=.5",
            "q=0.0001",
            "q=1.001",
            "q=-1",
            "q=+1",
            "q=1e0",
            "q=nan",
            "q=inf",
            "q=nonsense",
            "q=",
            "q",
            "q =1",
            "q= 1",
            "q=01",
            "q=0,5",
            "Q=1.0000",
            "q=1;q=x",
            "q=\u{661}",
        ] {
            let accept = format!("application/vnd.ag-ui.event+proto;v=1;{q}");
            assert_eq!(content_type(&accept), SSE, "{accept}");
            let accept = format!("application/x-ag-ui, {accept}");
            assert_eq!(content_type(&accept), PROTOBUF_OLD, "{accept}");
            let accept = format!("*/*;{q}");
            assert_eq!(negotiate(&accept, true).content_type(), SSE, "{accept}");
        }
    }

    #[test]
    fn wildcards_if_wanted() {
        for (accept, expected) in [
            ("*/*", PROTOBUF),
            ("application/*;q=0.5", PROTOBUF),
            ("*/*;q=0", SSE),
            ("application/*;q=0, */*", SSE),
            ("*/*, application/vnd.ag-ui.event+proto;q=0", SSE),
            ("*/*, application/x-ag-ui;q=0", SSE),
            ("text/*", SSE),
            ("application/x-ag-ui, */*", PROTOBUF_OLD),
        ] {
            assert_eq!(negotiate(accept, true).content_type(), expected, "{accept}");
        }
    }
}
