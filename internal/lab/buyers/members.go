package buyers

import "bytes"

// members calls yield with each member of a JSON object, name and value as they stand
// in the text, until yield returns false. It reports whether the text, as far as it was
// read, is an object: what is nested is stepped over, not examined. It is several times
// faster than a decoder, which is what a crowd needs that reads the same few words a
// hundred thousand times a second.
func members(text []byte, yield func(name, value []byte) bool) bool {
	rest, ok := after(text, '{')
	if !ok {
		return false
	}
	if _, empty := after(rest, '}'); empty {
		return true
	}
	for {
		var name, value []byte
		if name, rest, ok = token(rest); !ok || len(name) < 2 || name[0] != '"' {
			return false
		}
		if rest, ok = after(rest, ':'); !ok {
			return false
		}
		if value, rest, ok = token(rest); !ok {
			return false
		}
		if !yield(name[1:len(name)-1], value) {
			return true
		}
		if _, over := after(rest, '}'); over {
			return true
		}
		if rest, ok = after(rest, ','); !ok {
			return false
		}
	}
}

// after returns what follows a mark and the space before it.
func after(text []byte, mark byte) ([]byte, bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 || text[0] != mark {
		return text, false
	}
	return text[1:], true
}

// token returns the JSON value at the beginning of a text and what follows.
func token(text []byte) (value, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 {
		return nil, nil, false
	}
	var end int
	switch text[0] {
	case '"':
		end = closing(text)
	case '{', '[':
		end = nested(text)
	default:
		end = bytes.IndexAny(text, ",}] \t\r\n")
	}
	if end <= 0 {
		return nil, nil, false
	}
	return text[:end], text[end:], true
}

// closing returns where a string that begins a text is over, 0 if it is not.
func closing(text []byte) int {
	end := bytes.IndexByte(text[1:], '"') + 1
	if end > 0 && bytes.IndexByte(text[1:end], '\\') < 0 {
		return end + 1
	}
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// nested returns where an object or array that begins a text is over, 0 if it is not.
func nested(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			n := closing(text[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
		}
	}
	return 0
}

// plain returns the text of a JSON string that has no escapes, as no word of the API
// has; nil for everything else.
func plain(value []byte) []byte {
	if len(value) < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return nil
	}
	return value[1 : len(value)-1]
}

// whole returns a JSON number that is an integer of at most 18 digits.
func whole(value []byte) (int64, bool) {
	digits := bytes.TrimPrefix(value, []byte{'-'})
	if len(digits) == 0 || len(digits) > 18 {
		return 0, false
	}
	var n int64
	for _, d := range digits {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0')
	}
	if len(digits) < len(value) {
		n = -n
	}
	return n, true
}
