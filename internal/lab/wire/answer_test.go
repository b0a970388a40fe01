package wire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pieces are the sizes in which answers come, down to single bytes.
var pieces = []int{0, 1, 2, 3, 7, 64, 1000}

func TestAnswers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a long body ", 10_000)
	for name, c := range map[string]struct {
		text string
		want Answer
		body string
	}{
		"length":        {"HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nhello", Answer{Status: 409}, "hello"},
		"no reason":     {"HTTP/1.1 409\r\nContent-Length: 5\r\n\r\nhello", Answer{Status: 409}, "hello"},
		"empty reason":  {"HTTP/1.1 409 \r\ncontent-length:5\r\n\r\nhello", Answer{Status: 409}, "hello"},
		"no body":       {"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", Answer{Status: 201}, ""},
		"same length":   {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200}, "hi"},
		"no content":    {"HTTP/1.1 204 No Content\r\n\r\n", Answer{Status: 204}, ""},
		"not modified":  {"HTTP/1.1 304 Not Modified\r\nContent-Length: 70\r\n\r\n", Answer{Status: 304}, ""},
		"long":          {fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(long), long), Answer{Status: 200}, long},
		"close":         {"HTTP/1.1 200 OK\r\nConnection: x,  CLOSE \r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200, Close: true}, "hi"},
		"until the end": {"HTTP/1.1 200 OK\r\n\r\n" + long, Answer{Status: 200, Close: true}, long},
		"old":           {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200, Close: true}, "hi"},
		"old, kept":     {"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200}, "hi"},
		"old, until":    {"HTTP/1.0 200 OK\r\n\r\nhi", Answer{Status: 200, Close: true}, "hi"},
		"old, both":     {"HTTP/1.0 200 OK\r\nConnection: keep-alive, close\r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200, Close: true}, "hi"},
		"interim":       {"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nLocation: /no\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Answer{Status: 200}, "hi"},
		"chunks":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n", Answer{Status: 200}, "abc0123456789"},
		"one chunk":     {fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n%x\r\n%s\r\n000\r\n\r\n", len(long), long), Answer{Status: 200}, long},
		"small chunks":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 30_000) + "0\r\n\r\n", Answer{Status: 200}, strings.Repeat("x", 30_000)},
		"trailers":      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nDigest: x\r\nLocation: /no\r\n\r\n", Answer{Status: 200}, "hi"},
		"no chunks":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", Answer{Status: 200}, ""},
		"what is kept": {
			"HTTP/1.1 202 Accepted\r\nLOCATION: /v1/orders/ord_1\r\nretry-after:\t2 \r\nServer-Timing: gate;dur=0.1, engine;dur=2\r\n" +
				"doorbuster-receipt: abc.def\r\nIdempotency-Replayed: true\r\nX-Unknown-To-Us:\r\nContent-Length: 2\r\n\r\nhi",
			Answer{
				Status: 202, Location: []byte("/v1/orders/ord_1"), RetryAfter: []byte("2"), ServerTiming: []byte("gate;dur=0.1, engine;dur=2"),
				Receipt: []byte("abc.def"), Replayed: true,
			},
			"hi",
		},
		"not replayed": {"HTTP/1.1 200 OK\r\nIdempotency-Replayed: false\r\nContent-Length: 0\r\n\r\n", Answer{Status: 200}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range pieces {
				got, err := hear(c.text, piece)
				require.NoError(t, err, "in pieces of %d", piece)
				assert.Equal(t, c.body, string(got.Body), "in pieces of %d", piece)
				got.Body = nil
				assert.Equal(t, &c.want, got, "in pieces of %d", piece)
			}
		})
	}
}

func TestAnswersThatCannotBeRead(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, c := range map[string]struct {
		text, says string
	}{
		"another protocol":      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "it begins with"},
		"another version":       {"HTTP/2.0 200 OK\r\n\r\n", "it begins with"},
		"a version of tomorrow": {"HTTP/1.2 200 OK\r\n\r\n", "it begins with"},
		"short":                 {"HTTP/1.1 20\r\n\r\n", "it begins with"},
		"four digits":           {"HTTP/1.1 2000 OK\r\n\r\n", "it begins with"},
		"a status of letters":   {"HTTP/1.1 2xx OK\r\n\r\n", "its status is"},
		"a status too low":      {"HTTP/1.1 099 OK\r\n\r\n", "its status is"},
		"bare line feeds":       {"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi\r\n\r\n", "it begins with"},
		"a bare line feed":      {ok + "A: b\nContent-Length: 2\r\n\r\nhi", "a header line"},
		"no colon":              {ok + "Content-Length 2\r\n\r\nhi", "a header line"},
		"no name":               {ok + ": x\r\n\r\n", "a header line"},
		"a blank before":        {ok + " A: x\r\n\r\n", "a header line"},
		"a blank in the name":   {ok + "Content-Length : 2\r\n\r\nhi", "a header line"},
		"a control character":   {ok + "A: x\x00\r\n\r\n", "a header line"},
		"a bare return":         {ok + "Connection: close\rContent-Length: 0\r\n\r\n", "a header line"},
		"a reason with a bell":  {"HTTP/1.1 200 \a\r\n\r\n", "it begins with"},
		"folded":                {ok + "A: x\r\n  y\r\n\r\n", "a header line"},
		"length of letters":     {ok + "Content-Length: two\r\n\r\nhi", "its length"},
		"length below zero":     {ok + "Content-Length: -2\r\n\r\nhi", "its length"},
		"no length":             {ok + "Content-Length:\r\n\r\nhi", "its length"},
		"two lengths":           {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi!", "its length"},
		"a list of lengths":     {ok + "Content-Length: 2, 2\r\n\r\nhi", "its length"},
		"too long":              {ok + "Content-Length: 1048577\r\n\r\n", "longer than 1048576 bytes"},
		"far too long":          {ok + "Content-Length: 99999999999999999999999\r\n\r\n", "longer than 1048576 bytes"},
		"endless":               {ok + "\r\n" + strings.Repeat("x", maxBody+2), "longer than 1048576 bytes"},
		"endless header":        {ok + strings.Repeat("A: b\r\n", maxHeader), "its header is longer"},
		"a long header":         {ok + strings.Repeat("A: b\r\n", maxHeader/6) + "\r\n", "its header is longer"},
		"interim for ever":      {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 17) + ok + "\r\n", "interim answers only"},
		"switched":              {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "switches"},
		"another coding":        {ok + "Transfer-Encoding: gzip, chunked\r\n\r\n", "transfer coding"},
		"chunked twice":         {ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "transfer coding"},
		"chunked with a length": {ok + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "it is chunked"},
		"old and chunked":       {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "it is chunked"},
		"a chunk of letters":    {ok + "Transfer-Encoding: chunked\r\n\r\nxy\r\n", "the size of a chunk"},
		"a chunk of no size":    {ok + "Transfer-Encoding: chunked\r\n\r\n;a\r\n", "the size of a chunk"},
		"a chunk too short":     {ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhi\r\n0\r\n\r\n", "the size of a chunk"},
		"a chunk too long":      {ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nhi\r\n0\r\n\r\n", "a chunk is longer"},
		"a chunk far too long":  {ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n", "longer than 1048576 bytes"},
		"chunks for ever":       {ok + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("40000\r\n"+strings.Repeat("x", 0x40000)+"\r\n", 5), "longer than 1048576 bytes"},
		"a long line":           {ok + "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 1000) + "\r\n", "a line between chunks is longer"},
		"a bare line feed more": {ok + "Transfer-Encoding: chunked\r\n\r\n2\nhi\r\n0\r\n\r\n", "a line between chunks"},
		"endless trailers":      {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("A: b\r\n", maxHeader), "its trailers are longer"},
		"a bad trailer":         {ok + "Transfer-Encoding: chunked\r\n\r\n0\r\nnot a trailer\r\n\r\n", "a trailer is"},
		"more than was asked":   {ok + "Content-Length: 2\r\n\r\nhi!", "1 bytes follow it"},
		"another answer":        {ok + "Content-Length: 2\r\n\r\nhi" + ok, "17 bytes follow it"},
		"a body of nothing":     {"HTTP/1.1 204 No Content\r\n\r\nhi", "2 bytes follow it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range pieces {
				if piece != 0 && strings.Contains(c.says, "bytes follow it") {
					continue // they have not come when the answer is over
				}
				_, err := hear(c.text, piece)
				require.ErrorIs(t, err, ErrAnswer, "in pieces of %d", piece)
				require.ErrorContains(t, err, c.says, "in pieces of %d", piece)
			}
		})
	}
}

// Wherever the server hangs up, a part of an answer is none.
func TestHungUp(t *testing.T) {
	t.Parallel()
	for _, whole := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nA: b\r\n\r\n",
	} {
		for n := range len(whole) {
			_, err := hear(whole[:n], 0)
			require.ErrorIs(t, err, ErrHungUp, "%q", whole[:n])
		}
		_, err := hear(whole, 0)
		require.NoError(t, err)
	}
}

// The characters of a name, as RFC 9110 lists them.
func TestTokens(t *testing.T) {
	t.Parallel()
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	for c := range 256 {
		want := c < 128 && strings.ContainsRune("!#$%&'*+-.^_`|~"+letters, rune(c))
		assert.Equal(t, want, isToken([]byte{byte(c)}), "%q", byte(c))
	}
	assert.False(t, isToken(nil))
}
