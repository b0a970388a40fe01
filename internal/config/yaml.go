package config

import (
	"errors"
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// parseYAML reads a file as a list of assignments. Only the plain part of YAML
// is spoken: mappings, lists and scalars. Scalars are taken as the text they
// are, so that no or 1e3 is never something else than it looks.
func parseYAML(name string, raw []byte, found *problems) []assignment {
	file, err := parser.ParseBytes(raw, 0)
	if err != nil {
		found.add("", at(name, syntaxLine(err)), "this is not YAML: "+syntaxMessage(err), "")
		return nil
	}
	w := walker{name: name, fields: Fields(), found: found, seen: make(map[string]bool)}
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if documents++; documents > 1 {
			found.add("", at(name, line(doc.Body)), "a second document begins here", "put everything into one")
			break
		}
		w.section("", doc.Body)
	}
	return w.out
}

func syntaxLine(err error) int {
	if e, ok := errors.AsType[yaml.Error](err); ok && e.GetToken() != nil {
		return e.GetToken().Position.Line
	}
	return 0
}

func syntaxMessage(err error) string {
	if e, ok := errors.AsType[yaml.Error](err); ok {
		return e.GetMessage()
	}
	return err.Error()
}

func at(name string, line int) string {
	if line <= 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, line)
}

func line(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return 0
	}
	return n.GetToken().Position.Line
}

// walker turns a document into assignments.
type walker struct {
	name   string
	fields []Field
	found  *problems
	seen   map[string]bool
	out    []assignment
}

func (w *walker) wrong(key string, n ast.Node, message, hint string) {
	w.found.add(key, at(w.name, line(n)), message, hint)
}

// section walks the mapping that holds the keys below prefix.
func (w *walker) section(prefix string, n ast.Node) {
	switch m := n.(type) {
	case *ast.MappingNode:
		for _, v := range m.Values {
			w.entry(prefix, v)
		}
	case *ast.MappingValueNode:
		w.entry(prefix, m)
	case *ast.NullNode:
		// A section whose keys are all commented out.
	default:
		w.wrong(prefix, n, "keys are wanted here, one a line", "write them indented, as in \"listen: 127.0.0.1:8080\"")
	}
}

func (w *walker) entry(prefix string, v *ast.MappingValueNode) {
	name, ok := scalar(v.Key)
	if !ok {
		w.wrong(prefix, v.Key, "this is not a plain key", "")
		return
	}
	key := name
	if prefix != "" {
		key = prefix + "." + name
	}
	f := w.field(key)
	switch {
	case f == nil:
		w.wrong("", v.Key, "there is no key "+quoted(key), didYouMean(key, names(w.fields)))
	case w.seen[key]:
		w.wrong(key, v.Key, "the key is said twice", "keep one of the two")
	case f.Section:
		w.seen[key] = true
		w.section(key, v.Value)
	default:
		w.seen[key] = true
		w.value(f, v)
	}
}

func (w *walker) field(key string) *Field {
	for i := range w.fields {
		if w.fields[i].Key == key {
			return &w.fields[i]
		}
	}
	return nil
}

func names(fields []Field) []string {
	out := make([]string, len(fields))
	for i := range fields {
		out[i] = fields[i].Key
	}
	return out
}

func (w *walker) value(f *Field, v *ast.MappingValueNode) {
	a := assignment{key: f.Key, source: at(w.name, line(v.Key))}
	list, isList := v.Value.(*ast.SequenceNode)
	switch {
	case isList && !f.isList:
		w.wrong(f.Key, v.Key, "a single value is wanted here, not a list", "")
		return
	case isList:
		for _, n := range list.Values {
			word, ok := scalar(n)
			if !ok {
				w.wrong(f.Key, n, "an entry of the list is not a plain value", "")
				return
			}
			a.words = append(a.words, word)
		}
	case f.isList:
		w.wrong(f.Key, v.Key, "a list is wanted here", "write it as [a, b], or one entry a line after a hyphen")
		return
	default:
		word, ok := scalar(v.Value)
		if !ok {
			w.wrong(f.Key, v.Key, "a plain value is wanted here", "remove the key to take its default")
			return
		}
		a.words = []string{word}
	}
	w.out = append(w.out, a)
}

// scalar returns the text of a plain node; false for null and everything else.
func scalar(n ast.Node) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}
