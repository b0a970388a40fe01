package traffic

import (
	"bytes"
	"time"
)

// nextStage reads the first entry of a Server-Timing header, such as
// gate;dur=0.051, and returns what follows it. An entry without a duration is not
// told.
func nextStage(timing []byte) (name []byte, spent time.Duration, told bool, rest []byte) {
	entry, rest, _ := bytes.Cut(timing, []byte(","))
	name, parameters, more := bytes.Cut(entry, []byte(";"))
	name = bytes.TrimSpace(name)
	for more && !told {
		var parameter []byte
		parameter, parameters, more = bytes.Cut(parameters, []byte(";"))
		if value, is := bytes.CutPrefix(bytes.TrimSpace(parameter), []byte("dur=")); is {
			spent, told = millis(value)
		}
	}
	return name, spent, told && len(name) > 0, rest
}

// millis reads a decimal number of milliseconds.
func millis(text []byte) (time.Duration, bool) {
	const mostDigits = 9 // milliseconds that are days
	whole, part, _ := bytes.Cut(text, []byte("."))
	if len(whole) == 0 || len(whole) > mostDigits {
		return 0, false
	}
	var d time.Duration
	for _, c := range whole {
		if c < '0' || c > '9' {
			return 0, false
		}
		d = 10*d + time.Duration(c-'0')
	}
	d *= time.Millisecond
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
