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
/// type itself is refused with a q of 0: the more specific range counts.
pub fn negotiate(accept: &str, wildcards: bool) -> Format {
    // The q of each: what the header says last, if it says so twice.
    let (mut named, mut old, mut range, mut any) = (None, None, None, None);
    for element in elements(accept, ',') {
        let mut parts = elements(element, ';');
        let name = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let place = match name.as_str() {
            PROTOBUF => &mut named,
            PROTOBUF_OLD => &mut old,
            "application/*" => &mut range,
            "*/*" => &mut any,
            _ => continue,
        };
        *place = Some(parts.find_map(weight).unwrap_or(true));
    }
    match (named, old) {
        (Some(true), _) => Format::Protobuf(PROTOBUF),
        (_, Some(true)) => Format::Protobuf(PROTOBUF_OLD),
        (None, None) if wildcards && range.or(any) == Some(true) => Format::Protobuf(PROTOBUF),
        _ => Format::Sse,
    }
}

/// Whether a parameter is a weight, and above 0. A weight that cannot be read counts as 1.
fn weight(parameter: &str) -> Option<bool> {
    let (name, value) = parameter.split_once('=')?;
    let is_weight = name.trim().eq_ignore_ascii_case("q");
    is_weight.then(|| value.trim().parse::<f32>().map_or(true, |q| q > 0.0))
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
            "application/vnd.ag-ui.event+proto;q=nonsense",
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
