package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzAnswer: what is read as an answer is read by net/http as the same, and it does
// not matter in what pieces it comes.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		"HTTP/1.1 409 Conflict\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nrest",
		"HTTP/1.1 202 Accepted\r\nLocation: /x\r\nRetry-After: 1\r\nDoorbuster-Receipt: y\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, piece int) {
		whole, err := hear(string(text), 0)
		pieces, err2 := hear(string(text), max(1, piece%100))
		if err != nil {
			require.True(t, errors.Is(err, ErrAnswer) || errors.Is(err, ErrHungUp), "%v", err)
			return
		}
		// Bytes that nobody asked for are seen only if they come with the rest.
		if err2 == nil {
			require.Equal(t, whole, pieces)
		}
		r := bufio.NewReader(bytes.NewReader(text))
		theirs, err := http.ReadResponse(r, nil)
		for err == nil && theirs.StatusCode < http.StatusOK {
			theirs, err = http.ReadResponse(r, nil)
		}
		require.NoError(t, err)
		body, err := io.ReadAll(theirs.Body)
		require.NoError(t, err)
		require.NoError(t, theirs.Body.Close())
		require.Equal(t, theirs.StatusCode, whole.Status)
		require.Equal(t, string(body), string(whole.Body))
		require.Equal(t, theirs.Close || theirs.ContentLength < 0 && theirs.TransferEncoding == nil, whole.Close)
		for name, value := range map[string][]byte{
			"Location": whole.Location, "Retry-After": whole.RetryAfter, "Server-Timing": whole.ServerTiming, "Doorbuster-Receipt": whole.Receipt,
		} {
			values := theirs.Header[name]
			if value == nil {
				require.Empty(t, values, name)
			} else {
				require.Equal(t, values[len(values)-1], string(value), name)
			}
		}
	})
}
