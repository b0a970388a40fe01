package traffic

import (
	"bytes"
	"time"
)

// stage is one entry of a Server-Timing header, such as gate;dur=0.051.
type stage struct {
	name  []byte
	spent time.Duration
	told  bool // it has a name and a duration
}

// nextStage reads the first entry of a header and returns what follows it.
func nextStage(timing []byte) (s stage, rest []byte) {
	entry, rest, _ := bytes.Cut(timing, []byte(","))
	name, parameters, more := bytes.Cut(entry, []byte(";"))
	s.name = bytes.TrimSpace(name)
	for more && !s.told {
		var parameter []byte
		parameter, parameters, more = bytes.Cut(parameters, []byte(";"))
		if value, is := bytes.CutPrefix(bytes.TrimSpace(parameter), []byte("dur=")); is && len(s.name) > 0 {
			s.spent, s.told = millis(value)
		}
	}
	return s, rest
}

// millis reads a decimal number of milliseconds.
func millis(text []byte) (time.Duration, bool) {
	const mostDigits = 9 // milliseconds that are days
	whole, part, _ := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || len(whole) > mostDigits {
		return 0, false
	}
	var n int64
	for _, c := range whole {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	d := time.Duration(n) * time.Millisecond
	unit := time.Millisecond / 10
	for _, c := range part {
		if c < '0' || c > '9' {
			return 0, false
		}
		d += time.Duration(c-'0') * unit
		unit /= 10
	}
	return d, true
}
