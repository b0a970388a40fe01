package obs

import (
	"fmt"
	"io"
	"log/slog"
)

// LogFormats lists the formats of log lines.
func LogFormats() []string { return []string{"text", "json"} }

// NewLogger returns a logger that writes lines of the format (text, json) from
// the level (debug, info, warn, error) up.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("obs: the log level %q is unknown: use debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("obs: the log format %q is unknown: use text or json", format)
}
