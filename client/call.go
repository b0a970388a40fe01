package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// safety says what may follow a try whose outcome is unknown.
type safety int

const (
	// once: nothing; the call might be carried out twice.
	once safety = iota
	// again: another try; carried out twice it changes nothing more.
	again
)

// call is one request before it is sent.
type call struct {
	method string
	path   []string // segments after the base, escaped here
	query  url.Values
	header http.Header
	body   []byte // JSON; nil for none
	safety safety
	// patience is how much longer than usual a try may take, since the server waits.
	patience time.Duration
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	tries  int
	unsure bool // an earlier try of the call may have been carried out
}

const (
	maxAnswer  = 16 << 20
	jsonType   = "application/json"
	headerKey  = "Idempotency-Key"
	headerTime = "Doorbuster-Time"
)

func get(path ...string) call { return call{method: http.MethodGet, path: path, safety: again} }

func post(safe safety, path ...string) call {
	return call{method: http.MethodPost, path: path, safety: safe}
}

// with returns the call with a JSON body.
func with[T any](k call, body T) (call, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return k, own(ErrInvalid, "the request cannot be written as JSON", "", err)
	}
	k.body = raw
	return k, nil
}

// set returns the call with one more header.
func (k call) set(name, value string) call {
	if k.header == nil {
		k.header = make(http.Header, 1)
	} else {
		k.header = k.header.Clone()
	}
	k.header.Set(name, value)
	return k
}

// fetch sends a call and reads the answer's body as a T.
func fetch[T any](ctx context.Context, c *Client, k call) (T, answer, error) {
	var out T
	a, err := c.do(ctx, k)
	if err != nil || a.status == http.StatusNotModified {
		return out, a, err
	}
	if err := json.Unmarshal(a.body, &out); err != nil {
		return out, a, badAnswer(a, err)
	}
	return out, a, nil
}

// send marshals a body, sends the call and reads the answer as a T.
func send[T, B any](ctx context.Context, c *Client, k call, body B) (T, answer, error) {
	k, err := with(k, body)
	if err != nil {
		var none T
		return none, answer{}, err
	}
	return fetch[T](ctx, c, k)
}

// attempt sends the call once.
func (c *Client) attempt(ctx context.Context, k call) (answer, *Error) {
	ctx, cancel := context.WithTimeout(ctx, c.retry.TryTimeout+k.patience)
	defer cancel()
	req, err := c.request(ctx, k)
	if err != nil {
		return answer{}, err
	}
	resp, doErr := c.http.Do(req)
	if doErr != nil {
		return answer{}, sendError(doErr)
	}
	defer func() { _ = resp.Body.Close() }()
	body, readErr := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if readErr != nil {
		return answer{}, own(ErrNoAnswer, "the answer broke off", "repeat the call; its outcome is unknown", readErr)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body}
	if len(body) > maxAnswer {
		return a, badAnswer(a, errors.New("it is longer than 16 MiB"))
	}
	return a, refusal(a)
}

func (c *Client) request(ctx context.Context, k call) (*http.Request, *Error) {
	if ctx.Err() != nil {
		return nil, own(ErrStopped, "the call was over before it began", "", ctx.Err())
	}
	u := *c.base
	var plain, escaped strings.Builder
	for _, segment := range k.path {
		if segment == "" || segment == "." || segment == ".." {
			return nil, own(ErrInvalid, "an id is empty or made of dots", "name the sale, order or refund", nil)
		}
		plain.WriteString("/" + segment)
		escaped.WriteString("/" + url.PathEscape(segment))
	}
	u.RawPath = c.base.EscapedPath() + escaped.String()
	u.Path += plain.String()
	u.RawQuery = k.query.Encode()
	req, err := http.NewRequestWithContext(ctx, k.method, u.String(), bytes.NewReader(k.body))
	if err != nil {
		return nil, own(ErrInvalid, "the request cannot be built", "", err)
	}
	token, err := c.token(ctx)
	if err != nil {
		return nil, own(ErrStopped, "no token could be had", "", err)
	}
	maps.Copy(req.Header, k.header)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if k.body != nil {
		req.Header.Set("Content-Type", jsonType)
	}
	req.Header.Set("User-Agent", c.agent)
	return req, nil
}

// sendError tells a request that never left from one whose answer is missing.
func sendError(err error) *Error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return own(ErrUnreachable, "the server cannot be reached", "check the address, and that the server runs", err)
	}
	return own(ErrNoAnswer, "no answer came", "repeat the call; its outcome is unknown", err)
}

// refusal returns the error that an answer stands for, or nil for a good one.
func refusal(a answer) *Error {
	if a.status >= 200 && a.status < 300 || a.status == http.StatusNotModified {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	e := &Error{RetryAfter: retryAfter(a.header)}
	if kind != "application/problem+json" || json.Unmarshal(a.body, &e.Problem) != nil || e.Code == "" {
		bad := badAnswer(a, errors.New("status "+strconv.Itoa(a.status)+" without a problem document"))
		bad.RetryAfter = e.RetryAfter
		return bad
	}
	e.Status = a.status
	return e
}

func badAnswer(a answer, err error) *Error {
	e := own(ErrBadAnswer, "the answer is not one of this API", "check that the address is a Doorbuster server and not something in front of it", err)
	e.Status, e.Tries = a.status, a.tries
	return e
}

// retryAfter reads the header as seconds or as a date; 0 if there is none.
func retryAfter(h http.Header) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(0, time.Until(at))
}
