package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// EnvPrefix begins the name of every environment variable that sets a key.
const EnvPrefix = "DOORBUSTER_"

// Field describes one key of the configuration.
type Field struct {
	Key     string // dotted, as in api.listen
	Default string // empty for none; lists are separated by commas
	Doc     string
	Flag    string // name of the key's own flag, without hyphens; empty for most
	Section bool   // a group of keys; it has no value itself

	value  reflect.Value
	isURL  bool // may hold a password
	isList bool
}

// Env returns the name of the environment variable that sets the key.
func (f *Field) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(f.Key, ".", "_"))
}

// Kind returns what a value of the key is, for people.
func (f *Field) Kind() string {
	switch f.value.Interface().(type) {
	case int:
		return "number"
	case time.Duration:
		return "duration"
	case []string, []netip.Prefix:
		return "list"
	}
	return "text"
}

// Fields describes every key, in the order of the struct, each section before
// its keys.
func Fields() []Field {
	var c Config
	return c.fields()
}

// fields returns the keys bound to the values of c.
func (c *Config) fields() []Field { return collect("", reflect.ValueOf(c).Elem()) }

func collect(prefix string, v reflect.Value) []Field {
	var out []Field
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		f := Field{
			Key: prefix + tag.Get("key"), Default: tag.Get("default"), Doc: tag.Get("doc"), Flag: tag.Get("flag"),
			value: v.Field(i), isURL: tag.Get("secret") == "url",
		}
		f.Section = f.value.Kind() == reflect.Struct
		f.isList = f.value.Kind() == reflect.Slice
		inner := f.Default
		if f.Section {
			f.Default = ""
		}
		out = append(out, f)
		if f.Section {
			out = append(out, withDefaults(collect(f.Key+".", f.value), inner)...)
		}
	}
	return out
}

// withDefaults gives the keys of a section the defaults that its own tag names,
// as "queue=256 wait=2s": sections of one type may start differently.
func withDefaults(fields []Field, defaults string) []Field {
	for pair := range strings.FieldsSeq(defaults) {
		name, value, _ := strings.Cut(pair, "=")
		for i := range fields {
			if strings.HasSuffix(fields[i].Key, "."+name) {
				fields[i].Default = value
			}
		}
	}
	return fields
}

// set reads a value from text: one word for most keys, any number for a list.
func (f *Field) set(words []string) error {
	if !f.isList && len(words) != 1 {
		return errors.New("a single value is wanted here, not a list")
	}
	switch target := f.value.Addr().Interface().(type) {
	case *string:
		*target = words[0]
	case *int:
		return setNumber(target, words[0])
	case *time.Duration:
		return setDuration(target, words[0])
	case *[]string:
		*target = append([]string{}, words...)
	case *[]netip.Prefix:
		return setPrefixes(target, words)
	default:
		return fmt.Errorf("%s: the type %s has no parser", f.Key, f.value.Type())
	}
	return nil
}

func setNumber(target *int, word string) error {
	n, err := strconv.ParseInt(word, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a whole number, such as 256", word)
	}
	*target = int(n)
	return nil
}

func setDuration(target *time.Duration, word string) error {
	d, err := time.ParseDuration(word)
	if err != nil {
		return fmt.Errorf("%q is not a duration, such as 500ms, 10s or 2m", word)
	}
	*target = d
	return nil
}

func setPrefixes(target *[]netip.Prefix, words []string) error {
	out := make([]netip.Prefix, 0, len(words))
	for _, w := range words {
		p, err := netip.ParsePrefix(w)
		if addr, addrErr := netip.ParseAddr(w); addrErr == nil && addr.Zone() == "" {
			p, err = addr.Prefix(addr.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is not a network, such as 10.0.0.0/8 or 192.0.2.7", w)
		}
		out = append(out, p.Masked())
	}
	*target = out
	return nil
}

// words returns the value as text that set reads again, passwords masked.
func (f *Field) words() []string {
	switch v := f.value.Interface().(type) {
	case int:
		return []string{strconv.Itoa(v)}
	case time.Duration:
		return []string{v.String()}
	case []string:
		return slices.Clone(v)
	case []netip.Prefix:
		out := make([]string, len(v))
		for i := range v {
			out[i] = v[i].String()
		}
		return out
	}
	text := f.value.String()
	if f.isURL {
		text = maskURL(text)
	}
	return []string{text}
}

const masked = "********"

// maskURL hides what may be a secret in a URL: the password and the values of
// the query. What looks like a URL but cannot be read is hidden whole.
func maskURL(text string) string {
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	u, err := url.Parse(text)
	if err != nil {
		return scheme + "://" + masked
	}
	plain := *u
	plain.User, plain.RawQuery = nil, ""
	if u.User == nil && u.RawQuery == "" {
		return scheme + "://" + rest
	}
	out := plain.Scheme + "://"
	if u.User != nil {
		out += u.User.Username()
		if _, set := u.User.Password(); set {
			out += ":" + masked
		}
		out += "@"
	}
	out += plain.Host + plain.EscapedPath()
	if u.RawQuery != "" {
		out += "?" + masked
	}
	return out
}

// splitList reads the text of a list outside the file: words between commas.
func splitList(text string) []string {
	var out []string
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}
