package redisconn

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Info returns what one server tells of itself: the fields of INFO. The error is of
// Trouble.
func Info(ctx context.Context, node rueidis.Client) (map[string]string, error) {
	text, err := node.Do(ctx, node.B().Info().Build()).ToString()
	if err != nil {
		return nil, Trouble("INFO", err)
	}
	return fields(text), nil
}

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
