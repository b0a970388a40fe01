package redisconn

import (
	"strconv"
	"strings"
)

// fields reads the lines name:value of INFO.
func fields(text string) map[string]string {
	out := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			out[name] = value
		}
	}
	return out
}

// number reads a count; what is none, or missing, is 0.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// major reads the 7 of 7.0.15; what has none is 0.
func major(version string) int64 {
	first, _, _ := strings.Cut(version, ".")
	return number(first)
}
