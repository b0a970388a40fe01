package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// LogFormats lists the formats of log lines.
func LogFormats() []string { return []string{"text", "json"} }

// NewLogger returns a logger that writes lines of the format (text, json) from
// the level (debug, info, warn, error) up. Of warnings with one text it writes ten in
// a second, and counts the others in the next one.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("obs: the log level %q is unknown: use debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(spare(slog.NewTextHandler(w, opts))), nil
	case "json":
		return slog.New(spare(slog.NewJSONHandler(w, opts))), nil
	}
	return nil, fmt.Errorf("obs: the log format %q is unknown: use text or json", format)
}
