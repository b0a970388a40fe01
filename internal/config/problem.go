package config

import (
	"fmt"
	"strings"
)

// Problem is one mistake in the configuration.
type Problem struct {
	Key     string `json:"key,omitempty"`    // empty where no key is concerned
	Source  string `json:"source,omitempty"` // such as "shop.yaml:12" or "DOORBUSTER_API_LISTEN"; empty for a default
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String returns the problem in one line, without the hint.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source + ": ")
	}
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Error is every mistake of a configuration, at least one.
type Error struct {
	Problems []Problem
}

// Error returns the mistakes in lines.
func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the configuration has %d mistakes", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  " + p.String())
	}
	return b.String()
}

// problems gathers mistakes.
type problems []Problem

func (p *problems) add(key, source, message, hint string) {
	*p = append(*p, Problem{Key: key, Source: source, Message: message, Hint: hint})
}

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return &Error{Problems: *p}
}
