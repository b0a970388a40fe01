package httpapi

import (
	"bytes"
	"errors"
	"mime"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/doorbuster/doorbuster/client"
	"github.com/doorbuster/doorbuster/internal/sale"
)

// DecodeAttempt reads the body of a buy. Members that are unknown, given twice,
// of another type, or numbers with fraction, exponent or overflow are refused
// (CodeInvalid, CodeInvalidQuantity); what is not JSON is malformed.
func DecodeAttempt(body []byte, into *client.Attempt) error {
	if err := unmarshal(body, into); err != nil {
		return err
	}
	if into.Quantity < 1 { // missing and null included
		return sale.InvalidQuantity(sale.MaxPerUserLimit)
	}
	return nil
}

// decode reads a JSON body as strictly, and insists on every member that is not
// optional (omitempty) in T.
func decode[T any](x *exchange, into *T) error {
	if err := x.wantJSON(); err != nil {
		return err
	}
	if err := unmarshal(x.body, into); err != nil {
		return err
	}
	d := jsontext.NewDecoder(bytes.NewReader(x.body))
	if field := absent(d, reflect.TypeFor[T](), ""); field != "" {
		return sale.Invalid(field, "this member is missing", "see the request in /openapi.yaml")
	}
	return nil
}

func unmarshal[T any](body []byte, into *T) error {
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return bodyError(body, err)
	}
	if text := bytes.TrimLeft(body, " \t\r\n"); text[0] != '{' {
		return notAnObject()
	}
	return nil
}

func notAnObject() error {
	return sale.Invalid("", "the body is not a JSON object", "see the request in /openapi.yaml")
}

// wantJSON refuses bodies that are not declared to be JSON.
func (x *exchange) wantJSON() error {
	if enc := x.r.Header["Content-Encoding"]; len(enc) > 0 && !strings.EqualFold(enc[0], "identity") {
		return &sale.Error{Code: codeUnsupportedType, Message: "the body is encoded", Hint: "send it without Content-Encoding"}
	}
	kind := x.r.Header["Content-Type"]
	if len(kind) == 1 && kind[0] == typeJSON {
		return nil
	}
	if len(kind) == 1 {
		media, params, err := mime.ParseMediaType(kind[0])
		charset, named := params["charset"]
		if err == nil && media == typeJSON && (!named || strings.EqualFold(charset, "utf-8")) {
			return nil
		}
	}
	return &sale.Error{Code: codeUnsupportedType, Message: "the body is not declared to be JSON", Hint: "send Content-Type: application/json"}
}

// bodyError tells what is wrong with a body that could not be decoded.
func bodyError(body []byte, err error) error {
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		field := fieldOf(wrong.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return sale.Invalid(field, "this member is unknown", "names are compared exactly; see the request in /openapi.yaml")
		case field == "quantity":
			return sale.InvalidQuantity(sale.MaxPerUserLimit)
		case field == "":
			return notAnObject()
		}
		return sale.Invalid(field, "this member is not of the right type", "numbers are whole, without fraction, exponent or quotes, and within 64 bits")
	}
	if wrong, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return sale.Invalid(fieldOf(wrong.JSONPointer), "this member is given twice", "send each member once")
	}
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if _, first := d.ReadValue(); first == nil && len(bytes.TrimSpace(body[d.InputOffset():])) > 0 {
		return sale.Invalid("", "something follows the JSON object", "send one object and nothing else")
	}
	return &sale.Error{Code: codeMalformed, Message: "the body is not JSON", Hint: "send one JSON object in UTF-8"}
}

// fieldOf writes a JSON pointer as the name of a member: items.price.
func fieldOf(p jsontext.Pointer) string {
	var names []string
	for token := range p.Tokens() {
		if token != "" && !isDigit(token[0]) { // places in a list are left out
			names = append(names, token)
		}
	}
	return strings.Join(names, ".")
}

// absent returns the name of the first member that T requires and the value,
// which T has been decoded from, lacks or gives as null.
func absent(d *jsontext.Decoder, t reflect.Type, path string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && d.PeekKind() == '[':
		found := ""
		_, _ = d.ReadToken()
		for d.PeekKind() != ']' {
			found = first(found, absent(d, t.Elem(), path))
		}
		_, _ = d.ReadToken()
		return found
	case t.Kind() == reflect.Struct && d.PeekKind() == '{':
		return absentMember(d, t, path)
	}
	_ = d.SkipValue()
	return ""
}

func absentMember(d *jsontext.Decoder, t reflect.Type, path string) string {
	found := ""
	given := make(map[string]bool, t.NumField())
	types := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		types[name] = f.Type
	}
	_, _ = d.ReadToken()
	for d.PeekKind() != '}' {
		token, _ := d.ReadToken()
		name := token.String()
		given[name] = d.PeekKind() != 'n'
		found = first(found, absent(d, types[name], path+name+"."))
	}
	_, _ = d.ReadToken()
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !given[name] && !strings.Contains(options, "omitempty") {
			found = first(found, path+name)
		}
	}
	return found
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// render writes an answer as JSON. Its types are those of package client, which
// hold nothing that JSON cannot carry.
func render[T any](v T) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // becomes a 503 with a log line
	}
	return raw
}
