package httpapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/doorbuster/doorbuster/internal/sale"
)

func badHeader(name, message, hint string) *sale.Error {
	return &sale.Error{Code: codeBadHeader, Message: message, Hint: hint, Field: name}
}

// idempotencyKey returns the key of a request. The header is a string of RFC
// 8941, as the draft of that name has it, or the same without quotes: "abc" and
// abc are one key.
func idempotencyKey(h http.Header) (string, error) {
	values := h[headerKey]
	if len(values) > 1 {
		return "", badHeader(headerKey, "the header is given more than once", "send one key")
	}
	if len(values) == 0 || values[0] == "" {
		return "", &sale.Error{
			Code: sale.CodeKeyRequired, Message: "the request has no idempotency key", Field: headerKey,
			Hint: "send Idempotency-Key with one random value per click, for example a UUID, and repeat it on retries; or a pass in Doorbuster-Pass",
		}
	}
	key := values[0]
	if key[0] == '"' {
		var ok bool
		if key, ok = unquote(key); !ok {
			return "", sale.Invalid(headerKey, "the quotes of the key do not match", `send "key" or key`)
		}
	}
	return key, sale.CheckIdempotencyKey(key)
}

// clickOf returns what names the click of a request: its idempotency key, or the pass
// that stands in the place of one.
func clickOf(h http.Header) (key, pass string, err error) {
	passes := h[headerPass]
	switch {
	case len(passes) == 0, len(passes) == 1 && passes[0] == "":
		key, err = idempotencyKey(h)
		return key, "", err
	case len(passes) > 1:
		return "", "", badHeader(headerPass, "the header is given more than once", "send one pass")
	case len(h[headerKey]) > 0:
		return "", "", badHeader(headerPass, "a pass stands in the place of the idempotency key, and both are given", "send one of Doorbuster-Pass and Idempotency-Key")
	}
	return "", passes[0], nil
}

// unquote reads a string of RFC 8941, section 3.3.3.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	if !strings.ContainsAny(s, `"\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			return "", false
		case '\\':
			i++
			if i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), true
}

// maxWait bounds how long a buyer may ask us to wait for the judge.
const maxWait = 20 * time.Second

// preferredWait returns the seconds of Prefer: wait=N (RFC 7240), at most 20, and
// whether there is such a preference; what cannot be read is ignored, as the RFC
// asks.
func preferredWait(h http.Header) (time.Duration, bool) {
	for _, line := range h["Prefer"] {
		for part := range strings.SplitSeq(line, ",") {
			preference, _, _ := strings.Cut(part, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				return 0, false
			}
			return min(time.Duration(n)*time.Second, maxWait), true
		}
	}
	return 0, false
}

// receiptOf returns the receipt of a queued order that a request brings; empty for
// none. Whether it is a good one is for the engine to say.
func receiptOf(h http.Header) (string, error) {
	values := h[headerReceipt]
	if len(values) == 0 {
		return "", nil
	}
	const hint = "send it as it came, or leave it out"
	if len(values) > 1 {
		return "", badHeader(headerReceipt, "the header is given more than once", hint)
	}
	text := values[0]
	if len(text) > maxReceipt {
		return "", badHeader(headerReceipt, "this is too long for a receipt", hint)
	}
	for i := range len(text) {
		if text[i] < '!' || text[i] > '~' {
			return "", badHeader(headerReceipt, "a receipt is visible ASCII without spaces", hint)
		}
	}
	return text, nil
}

// maxReceipt is longer than any receipt of ours.
const maxReceipt = 1024

// ifMatch returns the version of a sale that a request insists on: 0 for
// If-Match: * and without the header.
func ifMatch(h http.Header) (version int64, given bool, err error) {
	values := h["If-Match"]
	if len(values) == 0 {
		return 0, false, nil
	}
	const hint = `send the ETag as it was read, such as "7"`
	if len(values) > 1 {
		return 0, true, badHeader("If-Match", "the header is given more than once", hint)
	}
	tag := values[0]
	if tag == "*" {
		return 0, true, nil
	}
	if strings.HasPrefix(tag, "W/") { // a weak tag never matches strongly
		return 0, true, sale.Invalid("If-Match", "the tag is weak", hint)
	}
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, true, badHeader("If-Match", "this is not one ETag in quotes", hint)
	}
	version, err = strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	if err != nil || version < 1 {
		return 0, true, &sale.Error{Code: sale.CodeVersionMismatch, Message: "no version ever had this ETag", Hint: hint}
	}
	return version, true, nil
}

// mustMatch is ifMatch for acts that overwrite what somebody may have changed.
func mustMatch(h http.Header) (int64, error) {
	version, given, err := ifMatch(h)
	if err == nil && !given {
		err = &sale.Error{
			Code: codeNoPrecondition, Message: "the request does not say which version it changes", Field: "If-Match",
			Hint: "read it and send its ETag in If-Match",
		}
	}
	return version, err
}

// noneMatch reports whether If-None-Match names the tag or any.
func noneMatch(h http.Header, tag string) bool {
	for _, line := range h["If-None-Match"] {
		if line == tag {
			return true
		}
		for part := range strings.SplitSeq(line, ",") {
			if part = strings.TrimSpace(part); part == "*" || strings.TrimPrefix(part, "W/") == tag {
				return true
			}
		}
	}
	return false
}
