package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// document is the part of openapi.yaml that the checks look at.
type document struct {
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Responses map[string]response `json:"responses"`
		Headers   map[string]header   `json:"headers"`
		Schemas   map[string]struct {
			Enum []string `json:"enum"`
		} `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID        string                `json:"operationId"`
	Tags      []string              `json:"tags"`
	Security  []map[string][]string `json:"security"`
	Responses map[string]response   `json:"responses"`
	Codes     map[string][]string   `json:"x-codes"`
	Body      *struct {
		Content map[string]media `json:"content"`
	} `json:"requestBody"`
}

type response struct {
	Ref     string            `json:"$ref"`
	Headers map[string]header `json:"headers"`
	Content map[string]media  `json:"content"`
}

type header struct {
	Ref      string          `json:"$ref"`
	Required bool            `json:"required"`
	Schema   json.RawMessage `json:"schema"`
}

type media struct {
	Schema struct {
		Ref string `json:"$ref"`
	} `json:"schema"`
}

// spec checks answers against the document.
type spec struct {
	document
	compiler *jsonschema.Compiler

	mu      sync.Mutex
	schemas map[string]*jsonschema.Schema
	covered map[string]map[int]bool // statuses seen, by operation
}

const specURL = "https://doorbuster.invalid/openapi.json"

func loadSpec(tb testing.TB) *spec {
	tb.Helper()
	text, err := os.ReadFile("openapi.yaml")
	require.NoError(tb, err)
	raw, err := yaml.YAMLToJSON(text)
	require.NoError(tb, err)
	s := &spec{compiler: jsonschema.NewCompiler(), schemas: make(map[string]*jsonschema.Schema), covered: make(map[string]map[int]bool)}
	require.NoError(tb, json.Unmarshal(raw, &s.document))
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	require.NoError(tb, err)
	s.compiler.DefaultDraft(jsonschema.Draft2020)
	s.compiler.AssertFormat()
	require.NoError(tb, s.compiler.AddResource(specURL, parsed))
	return s
}

func (s *spec) schema(pointer string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sch := s.schemas[pointer]; sch != nil {
		return sch, nil
	}
	sch, err := s.compiler.Compile(specURL + pointer)
	if err == nil {
		s.schemas[pointer] = sch
	}
	return sch, err
}

func (s *spec) validate(pointer string, body []byte) error {
	sch, err := s.schema(pointer)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	return sch.Validate(value)
}

// find returns the operation that a request belongs to.
func (s *spec) find(method, path string) (operation, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	parts := strings.Split(path, "/")
	for pattern, methods := range s.Paths {
		if op, ok := methods[strings.ToLower(method)]; ok && matches(strings.Split(pattern, "/"), parts) {
			return op, true
		}
	}
	return operation{}, false
}

func matches(pattern, parts []string) bool {
	if len(pattern) != len(parts) {
		return false
	}
	for i, p := range pattern {
		if p != parts[i] && (!strings.HasPrefix(p, "{") || parts[i] == "") {
			return false
		}
	}
	return true
}

// check returns what is wrong with an answer.
func (s *spec) check(r *http.Request, status int, h http.Header, body []byte) error {
	op, known := s.find(r.Method, r.URL.EscapedPath())
	switch {
	case r.Method == http.MethodOptions:
		if status != http.StatusNoContent || h.Get("Allow") == "" {
			return fmt.Errorf("OPTIONS answered %d", status)
		}
		return nil
	case !known && status != http.StatusNotFound && status != http.StatusMethodNotAllowed:
		return fmt.Errorf("an answer %d to %s %s, which is not documented", status, r.Method, r.URL.Path)
	case !known:
		return s.checkProblem([]string{"not_found", "method_not_allowed"}, status, h, body)
	}
	s.cover(op.ID, status)
	documented, ok := op.Responses[strconv.Itoa(status)]
	if !ok {
		return fmt.Errorf("%s answered %d, which is not documented: %s", op.ID, status, body)
	}
	if documented.Ref != "" {
		documented = s.Components.Responses[documented.Ref[strings.LastIndex(documented.Ref, "/")+1:]]
	}
	if err := s.checkHeaders(documented, h); err != nil {
		return fmt.Errorf("%s %d: %w", op.ID, status, err)
	}
	if status >= http.StatusBadRequest {
		return s.checkProblem(op.Codes[strconv.Itoa(status)], status, h, body)
	}
	return s.checkBody(op.ID, documented, r, h, body)
}

func (s *spec) checkBody(id string, documented response, r *http.Request, h http.Header, body []byte) error {
	if len(documented.Content) == 0 {
		if len(body) > 0 {
			return fmt.Errorf("%s: a body where none is documented: %s", id, body)
		}
		return nil
	}
	m, ok := documented.Content[h.Get("Content-Type")]
	if !ok {
		return fmt.Errorf("%s: the type %q is not documented", id, h.Get("Content-Type"))
	}
	if m.Schema.Ref == "" || r.Method == http.MethodHead {
		return nil
	}
	if err := s.validate(m.Schema.Ref, body); err != nil {
		return fmt.Errorf("%s: %w: %s", id, err, body)
	}
	return nil
}

func (s *spec) checkHeaders(documented response, h http.Header) error {
	for name, want := range documented.Headers {
		if want.Ref != "" {
			component := want.Ref[strings.LastIndex(want.Ref, "/")+1:]
			want = s.Components.Headers[component]
			want.Ref = "#/components/headers/" + component + "/schema"
		}
		values := h.Values(name)
		if len(values) == 0 {
			if want.Required {
				return fmt.Errorf("the header %s is missing", name)
			}
			continue
		}
		value, err := json.Marshal(values[0])
		if err != nil {
			return err
		}
		if err := s.validate(want.Ref, value); len(values) > 1 || err != nil {
			return fmt.Errorf("the header %s: %v: %w", name, values, err)
		}
	}
	if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") == "" || h.Get("X-Request-Id") == "" {
		return fmt.Errorf("a security header is missing: %v", h)
	}
	return nil
}

func (s *spec) checkProblem(codes []string, status int, h http.Header, body []byte) error {
	if h.Get("Content-Type") != "application/problem+json" {
		return fmt.Errorf("%d is no problem document but %q", status, h.Get("Content-Type"))
	}
	if err := s.validate("#/components/schemas/Problem", body); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	var p struct {
		Status int
		Code   string
	}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if p.Status != status || !slices.Contains(codes, p.Code) {
		return fmt.Errorf("the code %q is not documented for %d: %v", p.Code, status, codes)
	}
	return nil
}

func (s *spec) cover(id string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered[id] == nil {
		s.covered[id] = make(map[int]bool)
	}
	s.covered[id][status] = true
}

// checked is a transport under which every answer is checked. Streams are
// checked up to their header.
type checked struct {
	t    testing.TB
	spec *spec
	next http.RoundTripper
}

func (c *checked) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	var body []byte
	if resp.Header.Get("Content-Type") != "text/event-stream" {
		body, err = io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := c.spec.check(r, resp.StatusCode, resp.Header, body); err != nil {
		c.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
	return resp, nil
}

func TestRoutesAndDocumentAgree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	documented := make(map[string]operation)
	for path, methods := range w.spec.Paths {
		for method, op := range methods {
			require.NotEmpty(t, op.ID)
			documented[strings.ToUpper(method)+" "+path] = op
		}
	}
	tags := map[bool]string{true: "admin", false: ""}
	for _, line := range w.api.Table() {
		name := line.Method + " " + line.Pattern
		op, ok := documented[name]
		require.True(t, ok, "%s is not documented", name)
		delete(documented, name)
		require.Equal(t, line.Operation, op.ID, name)
		_, open := op.Codes["401"]
		require.Equal(t, line.Public, !open, "%s: security", name)
		require.Equal(t, line.Public, len(op.Security) == 0, "%s: security", name)
		if line.Shop {
			require.Equal(t, []string{"shop"}, op.Tags, name)
		}
		if line.Admin {
			require.Equal(t, []string{tags[line.Admin]}, op.Tags, name)
		}
		for status := range op.Codes {
			require.Contains(t, op.Responses, status, name)
		}
		for status := range op.Responses {
			if status >= "400" {
				require.NotEmpty(t, op.Codes[status], "%s: %s has no codes", name, status)
			}
		}
	}
	require.Empty(t, slices.Collect(maps.Keys(documented)), "documented but not served")
}

func TestDocumentIsServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.call(t, nobody, "GET /openapi.yaml", "")
	require.Equal(t, http.StatusOK, a.status)
	want, err := os.ReadFile("openapi.yaml")
	require.NoError(t, err)
	require.Equal(t, string(want), string(a.body))
}

// Every example of a request that the tests send and the server accepts must be
// valid by the document's own schema, and every schema must compile.
func TestSchemasCompile(t *testing.T) {
	t.Parallel()
	s := loadSpec(t)
	for name := range s.Components.Schemas {
		_, err := s.schema("#/components/schemas/" + name)
		require.NoError(t, err, name)
	}
	require.NoError(t, s.validate("#/components/schemas/Attempt", []byte(`{"quantity":1,"expected_amount":100,"currency":"EUR"}`)))
	require.Error(t, s.validate("#/components/schemas/Attempt", []byte(`{"quantity":0}`)))
	require.Error(t, s.validate("#/components/schemas/Restock", []byte(`{"add":1,"stock":2}`)))
	require.Error(t, s.validate("#/components/schemas/Problem", []byte(`{"type":"about:blank","title":"x","status":409,"code":"insufficient"}`)))
}
