package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/doorbuster/doorbuster/client"
)

const maxSaleFile = 1 << 20

// readSale reads the description of one sale, YAML or JSON, from a file or, for
// "-", from standard input. Unknown members are refused.
func readSale(s *session, path string) (client.NewSale, error) {
	raw, err := readInput(s, path)
	if err != nil {
		return client.NewSale{}, err
	}
	doc, err := toJSON(raw)
	if err != nil {
		return client.NewSale{}, &usageError{message: path + err.Error(), hint: "a sale is described in YAML or JSON, as in examples/sale.yaml"}
	}
	var n client.NewSale
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&n); err != nil {
		return client.NewSale{}, describe(path, raw, err)
	}
	if n.ID == "" {
		return client.NewSale{}, &usageError{message: path + ": the sale has no id", hint: "name it with the member sale, such as sale: summer-drop-1"}
	}
	return n, nil
}

func readInput(s *session, path string) ([]byte, error) {
	in := s.In
	if path != "-" {
		f, err := os.Open(path) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, &usageError{message: "the file cannot be opened: " + err.Error(), hint: "name a file after -f, or - for standard input"}
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxSaleFile+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxSaleFile {
		return nil, &usageError{message: path + ": the file is longer than 1 MiB", hint: "a sale has at most 100 items"}
	}
	return raw, nil
}

// toJSON turns the one document of a YAML file, of which JSON is a kind, into
// JSON. Errors begin with the place.
func toJSON(raw []byte) ([]byte, error) {
	file, err := parser.ParseBytes(raw, 0)
	if err != nil {
		return nil, errors.New(yamlFault(err))
	}
	documents := 0
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType && doc.Body.Type() != ast.NullType {
			documents++
		}
	}
	if documents != 1 {
		return nil, fmt.Errorf(": the file holds %d documents, not one", documents)
	}
	doc, err := yaml.YAMLToJSON(raw)
	if err != nil {
		return nil, errors.New(yamlFault(err))
	}
	return doc, nil
}

func yamlFault(err error) string {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil {
		return ": " + err.Error()
	}
	return fmt.Sprintf(":%d: %s", e.GetToken().Position.Line, e.GetMessage())
}

// describe puts an error of the JSON decoder into words about the file.
func describe(path string, raw []byte, err error) error {
	hint := "see examples/sale.yaml for the members of a sale"
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &usageError{message: fmt.Sprintf("%s%s: %s cannot be a %s", path, lineOf(raw, lastPart(e.Field)), e.Field, e.Value), hint: hint}
	}
	if _, name, found := strings.Cut(err.Error(), "unknown field "); found {
		name = strings.Trim(name, `"`)
		return &usageError{message: fmt.Sprintf("%s%s: a sale has no member %s", path, lineOf(raw, name), plain(name)), hint: hint}
	}
	return &usageError{message: path + ": " + err.Error(), hint: hint}
}

func lastPart(field string) string { return field[strings.LastIndexByte(field, '.')+1:] }

// lineOf returns ":N" for the first line of the file that names a member.
func lineOf(raw []byte, name string) string {
	pattern, err := regexp.Compile(`(?m)^[\s{\[,-]*["']?` + regexp.QuoteMeta(name) + `["']?\s*:`)
	if err != nil {
		return ""
	}
	at := pattern.FindIndex(raw)
	if at == nil {
		return ""
	}
	before := raw[:at[1]]
	return fmt.Sprintf(":%d", bytes.Count(before, []byte("\n"))+1)
}
