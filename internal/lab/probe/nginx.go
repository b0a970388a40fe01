package probe

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/doorbuster/doorbuster/internal/sale"
)

// nginx is a proxy, seen through its page stub_status.
type nginx struct{ page }

func newNginx(status string) (*nginx, error) {
	p, err := newPage("nginx", status, "")
	if err != nil {
		return nil, err
	}
	return &nginx{p}, nil
}

func (n *nginx) read(ctx context.Context) (reading, error) {
	body, err := n.get(ctx)
	if err != nil {
		return reading{}, err
	}
	return readStatus(string(body))
}

var errNoStatus = errors.New("what it says is no status of nginx")

// readStatus reads the page:
//
//	Active connections: 291
//	server accepts handled requests
//	 16630948 16630948 31070465
//	Reading: 6 Writing: 179 Waiting: 106
func readStatus(text string) (reading, error) {
	var numbers []float64
	for word := range strings.FieldsSeq(text) {
		if n, err := strconv.ParseUint(word, 10, 64); err == nil {
			numbers = append(numbers, float64(n))
		}
	}
	if !strings.HasPrefix(text, "Active connections:") || len(numbers) != 7 {
		return reading{}, errNoStatus
	}
	return reading{figures: []figure{
		{name: "active", unit: "1", value: numbers[0]},
		{name: "accepts/s", unit: "1/s", kind: rate, value: numbers[1]},
		// Connections that it took and had no place for.
		{name: "dropped/s", unit: "1/s", kind: rate, value: numbers[1] - numbers[2]},
		{name: "requests/s", unit: "1/s", kind: rate, value: numbers[3]},
		{name: "reading", unit: "1", value: numbers[4]},
		{name: "writing", unit: "1", value: numbers[5]},
		{name: "waiting", unit: "1", value: numbers[6]},
	}}, nil
}

func (n *nginx) refusal(err error) *sale.Error {
	return unreachable("nginx tells no status at "+n.url.Redacted(), "give the URL of a location with stub_status that this machine may read", err)
}
