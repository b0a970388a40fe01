package config

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// WriteYAML writes the configuration as a file that Load reads again, passwords
// masked, with the source of every key that is not at its default.
func (l *Loaded) WriteYAML(w io.Writer) error {
	var b strings.Builder
	for _, f := range l.fields() {
		depth := strings.Count(f.Key, ".")
		indent, name := strings.Repeat("  ", depth), f.Key[strings.LastIndex(f.Key, ".")+1:]
		if f.Section {
			if depth == 0 {
				b.WriteString("\n")
			}
			fmt.Fprintf(&b, "%s%s:\n", indent, name)
			continue
		}
		fmt.Fprintf(&b, "%s%s: %s", indent, name, f.literal())
		if origin := l.Origins[f.Key]; origin != "" {
			b.WriteString("  # " + strings.Map(visible, origin))
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// literal returns the value in YAML.
func (f *Field) literal() string {
	words := f.words()
	for i := range words {
		words[i] = yamlText(words[i])
	}
	if f.isList {
		return "[" + strings.Join(words, ", ") + "]"
	}
	return words[0]
}

// yamlText returns text plain where it cannot be taken for anything else, and
// quoted as JSON, which YAML reads too, elsewhere.
func yamlText(text string) string {
	plain := text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./:_-") == "" &&
		!strings.HasPrefix(text, "-") && !strings.HasSuffix(text, ":") && !strings.HasPrefix(text, ":")
	if plain {
		return text
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return `""` // a string is always written
	}
	return string(raw)
}

// Value is one key of a printed configuration.
type Value struct {
	Key    string   `json:"key"`
	Value  []string `json:"value"`            // one text, or the entries of a list
	Source string   `json:"source,omitempty"` // empty for the default
}

// Values lists every key with its value, passwords masked.
func (l *Loaded) Values() []Value {
	var out []Value
	for _, f := range l.fields() {
		if f.Section {
			continue
		}
		out = append(out, Value{Key: f.Key, Value: append([]string{}, f.words()...), Source: l.Origins[f.Key]})
	}
	return out
}
