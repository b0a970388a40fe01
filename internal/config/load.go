package config

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Sources say where the configuration comes from. The zero value is the
// embedded default.
type Sources struct {
	// File is the path of a YAML file; empty for none.
	File string
	// Environ is the environment, as os.Environ returns it.
	Environ []string
	// Flags come last, in order.
	Flags []Flag
}

// Flag is a key set on the command line.
type Flag struct {
	Name  string // as the user wrote it, such as --api-listen, for messages
	Key   string
	Value string // lists are separated by commas
}

// Loaded is a valid configuration and where each key was said.
type Loaded struct {
	Config
	// Origins names the source of every key that is not at its default.
	Origins map[string]string
}

// assignment is one key said in one source.
type assignment struct {
	key    string
	words  []string
	source string
}

// Load reads the sources in order and checks the outcome. The error is an
// *Error that lists every mistake.
func Load(s Sources) (Loaded, error) {
	var found problems
	var said []assignment
	if s.File != "" {
		said = append(said, readFile(s.File, &found)...)
	}
	said = append(said, readEnviron(s.Environ, &found)...)
	said = append(said, readFlags(s.Flags, &found)...)
	return build(said, found)
}

// Default returns the configuration that is served without any source.
func Default() Config {
	l, err := build(nil, nil)
	if err != nil {
		panic("config: a default is wrong: " + err.Error()) // a mistake in a tag, seen by every test
	}
	return l.Config
}

func build(said []assignment, found problems) (Loaded, error) {
	l := Loaded{Origins: make(map[string]string)}
	byKey := make(map[string]*Field)
	fields := l.fields()
	for i := range fields {
		f := &fields[i]
		if f.Section {
			continue
		}
		byKey[f.Key] = f
		if f.Default != "" {
			said = slices.Insert(said, 0, assignment{key: f.Key, words: f.split(f.Default)})
		}
	}
	broken := make(map[string]bool)
	for _, a := range said {
		f := byKey[a.key]
		if a.source != "" {
			l.Origins[a.key] = a.source
		}
		if err := f.set(a.words); err != nil {
			broken[a.key] = true
			found.add(a.key, a.source, err.Error(), "")
		}
	}
	if l.Ledger.URL == "" {
		l.Ledger.URL = sqliteScheme + filepath.Join(l.DataDir, "doorbuster.db")
	}
	if l.Fast.DefaultPath == "" {
		l.Fast.DefaultPath = "direct"
		if l.Redis.URL != "" {
			l.Fast.DefaultPath = "fast"
		}
	}
	var checked problems
	l.check(&checked)
	for _, p := range checked {
		if !broken[p.Key] {
			p.Source = l.Origins[p.Key]
			found = append(found, p)
		}
	}
	return l, found.err()
}

// split returns the words of a value that was written as one text.
func (f *Field) split(text string) []string {
	if f.isList {
		return splitList(text)
	}
	return []string{text}
}

// Bounds of a file: no configuration is that long or nested, and the parser's
// time grows with the square of the depth of brackets.
const (
	maxFile     = 64 << 10
	maxBrackets = 1000
)

func readFile(path string, found *problems) []assignment {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		hint := "check its permissions"
		if errors.Is(err, fs.ErrNotExist) {
			hint = "check the path; without a file the built-in defaults are used"
		}
		found.add("", path, "the file cannot be opened: "+reason(err), hint)
		return nil
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		found.add("", path, "the file cannot be read: "+reason(err), "check that it is a file")
		return nil
	case len(raw) > maxFile:
		found.add("", path, "the file is longer than 64 KiB", "check that it is a configuration file")
		return nil
	case bytes.Count(raw, []byte("["))+bytes.Count(raw, []byte("{")) > maxBrackets:
		found.add("", path, "the file has more than 1000 opening brackets", "check that it is a configuration file")
		return nil
	}
	return parseYAML(path, raw, found)
}

// reason returns the cause of a file error without the path, which stands
// before it already.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func readFlags(flags []Flag, found *problems) []assignment {
	fields := leaves()
	var out []assignment
	for _, fl := range flags {
		f, known := fields[fl.Key]
		if !known {
			found.add("", fl.Name, "there is no key "+quoted(fl.Key), didYouMean(fl.Key, keys(fields)))
			continue
		}
		out = append(out, assignment{key: f.Key, words: f.split(fl.Value), source: fl.Name})
	}
	return out
}

// leaves returns every key that has a value, by its name.
func leaves() map[string]Field {
	out := make(map[string]Field)
	for _, f := range Fields() {
		if !f.Section {
			out[f.Key] = f
		}
	}
	return out
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func quoted(text string) string {
	const longest = 80
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	return `"` + strings.ToValidUTF8(strings.Map(visible, text), "?") + `"`
}

func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}
