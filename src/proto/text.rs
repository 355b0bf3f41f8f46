//! The code points of a str as UTF-8, without the copy that CPython would keep in the str.

/// Half of a surrogate pair, which UTF-8 cannot carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoneSurrogate;

/// How many bytes the code points take in UTF-8.
pub fn utf8_len<T: Copy + Into<u32>>(points: &[T]) -> usize {
    let extra = |point: u32| {
        usize::from(point > 0x7f) + usize::from(point > 0x7ff) + usize::from(point > 0xffff)
    };
    points.iter().map(|&point| 1 + extra(point.into())).sum()
}

/// Appends the code points as UTF-8.
pub fn push_utf8<T: Copy + Into<u32>>(
    out: &mut Vec<u8>,
    points: &[T],
) -> Result<(), LoneSurrogate> {
    for &point in points {
        let point = point.into();
        if point < 0x80 {
            out.push(point as u8);
        } else {
            let char = char::from_u32(point).ok_or(LoneSurrogate)?;
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point() {
        for point in 0..=0x0010_ffff_u32 {
            let mut out = Vec::new();
            let pushed = push_utf8(&mut out, &[point]);
            match char::from_u32(point) {
                Some(char) => {
                    assert_eq!(pushed, Ok(()));
                    assert_eq!(out, char.to_string().as_bytes());
                    assert_eq!(out.len(), utf8_len(&[point]));
                }
                None => assert_eq!(pushed, Err(LoneSurrogate)),
            }
        }
    }

    #[test]
    fn mixed_text() {
        let text = "a\u{e9}\u{20ac}\u{1f378}z";
        let points: Vec<u32> = text.chars().map(u32::from).collect();
        let mut out = b"x".to_vec();
        push_utf8(&mut out, &points).unwrap();
        assert_eq!(&out[1..], text.as_bytes());
        assert_eq!(utf8_len(&points), text.len());
    }
}
