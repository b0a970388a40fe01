package strategy_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/doorbuster/doorbuster/internal/lab/strategy"
)

// crowd is a plain one: it knows HTTP and the words of the answers.
type crowd struct {
	shops []*shop

	mu        sync.Mutex
	told      map[string]int64 // answers to buys, by their code
	won       []string         // orders that buyers were told of
	cancelled int
}

// door is the crowd's connections.
var door = &http.Client{
	Timeout:   20 * time.Second,
	Transport: &http.Transport{MaxConnsPerHost: 1000, MaxIdleConnsPerHost: 1000},
}

// rush sends all buyers at once. Each fifth clicks twice, each tenth winner cancels.
func (c *crowd) rush(buyers int) {
	var all sync.WaitGroup
	for i := range buyers {
		for click := range 2 {
			if click == 1 && i%5 != 0 {
				continue
			}
			all.Go(func() {
				order := c.buy(i+click, fmt.Sprintf("buyer-%d", i))
				if order != "" && i%10 == 5 {
					c.cancel(order)
				}
			})
		}
	}
	all.Wait()
	for i, order := range c.won { // afterwards too
		if i%10 == 7 {
			all.Go(func() { c.cancel(order) })
		}
	}
	all.Wait()
}

// linger sends buyers one after the other until nothing is left, and returns how many
// got something.
func (c *crowd) linger(ctx context.Context) int {
	won, refused := 0, 0
	for i := 0; refused < 2 && ctx.Err() == nil; i++ {
		if c.buy(i, fmt.Sprintf("late-%d", i)) != "" {
			won, refused = won+1, 0
		} else {
			refused++
		}
	}
	return won
}

// buy returns the order that the buyer was told of, or nothing.
func (c *crowd) buy(at int, buyer string) string {
	var o struct {
		Order, State, Code string
	}
	status := c.post(at, "/v1/sales/lab-test/orders", buyer, `{"quantity":1}`, &o)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case status == http.StatusCreated && o.State == "reserved":
		c.told["reserved"]++
		c.won = append(c.won, o.Order)
		return o.Order
	case o.Code != "":
		c.told[o.Code]++
	default:
		c.told["unanswered"]++
	}
	return ""
}

func (c *crowd) cancel(order string) {
	var o struct{ State string }
	for at := range c.shops {
		if c.post(at, "/v1/orders/"+order+"/cancel", "x", "", &o) == http.StatusOK && o.State == "cancelled" {
			c.mu.Lock()
			c.cancelled++
			c.mu.Unlock()
			return
		}
	}
}

// post returns the status, or 0 without an answer.
func (c *crowd) post(at int, path, buyer, body string, into any) int {
	url := c.shops[at%len(c.shops)].url + path
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body)) //nolint:noctx // the client has a timeout
	if err != nil {
		panic(err)
	}
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + buyer + `"}`))
	req.Header.Set("Authorization", "Bearer e30."+claims+".c2ln")
	req.Header.Set("Idempotency-Key", "click-of-"+buyer)
	resp, err := door.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(raw, into) != nil {
		return 0
	}
	return resp.StatusCode
}

// lost returns how many of the orders that buyers were told of are not in the books.
func (c *crowd) lost(b *strategy.Books) int64 {
	known := map[string]bool{}
	for _, o := range b.Orders {
		known[o.ID] = true
	}
	var n int64
	for _, order := range c.won {
		if !known[order] {
			n++
		}
	}
	return n
}
