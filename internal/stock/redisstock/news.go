package redisstock

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/doorbuster/doorbuster/internal/sale"
	"github.com/doorbuster/doorbuster/internal/stock"
)

const (
	// idsPerMessage keeps messages below the size of a client's buffers.
	idsPerMessage = 1000
	// relisten is the pause before a lost subscription is asked for again.
	relisten = 100 * time.Millisecond

	letterJudged     = 'j'
	letterSellsAgain = 's'
	newsHead         = 1 + 4 // letter, sale
)

// Tell implements stock.Counter. Many ids go in several messages.
func (c *Counter) Tell(ctx context.Context, m stock.Message) error {
	letter := byte(letterJudged)
	switch m.Kind {
	case stock.KindJudged:
	case stock.KindSellsAgain:
		letter = letterSellsAgain
	case stock.KindGap:
		return nil // nothing that can be told
	}
	ids := m.IDs
	for {
		end := min(idsPerMessage, len(ids))
		b := binary.BigEndian.AppendUint32([]byte{letter}, uint32(m.Sale))
		for i := range end {
			b = append(b, ids[i][4:]...)
		}
		if err := c.publish(ctx, string(b)); err != nil {
			return err
		}
		if ids = ids[end:]; len(ids) == 0 {
			return nil
		}
	}
}

func (c *Counter) publish(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if err := c.client.Do(ctx, c.client.B().Publish().Channel(c.news()).Message(text).Build()).Error(); err != nil {
		return unavailable("tell", err)
	}
	return nil
}

// readNews reads a message; another program's is nobody's.
func readNews(text string) (stock.Message, bool) {
	if len(text) < newsHead || (len(text)-newsHead)%idTail != 0 {
		return stock.Message{}, false
	}
	m := stock.Message{Sale: sale.Number(binary.BigEndian.Uint32([]byte(text[1:])))}
	switch text[0] {
	case letterJudged:
		m.Kind = stock.KindJudged
	case letterSellsAgain:
		m.Kind = stock.KindSellsAgain
	default:
		return stock.Message{}, false
	}
	for rest := range slices.Chunk([]byte(text[newsHead:]), idTail) {
		var id sale.OrderID
		copy(id[:4], text[1:])
		copy(id[4:], rest)
		m.IDs = append(m.IDs, id)
	}
	return m, true
}

// Listen implements stock.Counter.
func (c *Counter) Listen(ctx context.Context, fn func(stock.Message)) error {
	var turn sync.Mutex // confirmations and messages come from different goroutines
	tell := func(m stock.Message) {
		turn.Lock()
		defer turn.Unlock()
		if ctx.Err() == nil {
			fn(m)
		}
	}
	// The client subscribes again by itself after a lost connection; each
	// confirmation means that messages may have been missed before it.
	heard := rueidis.WithOnSubscriptionHook(ctx, func(s rueidis.PubSubSubscription) {
		if s.Kind == "subscribe" {
			tell(stock.Message{Kind: stock.KindGap})
		}
	})
	for {
		err := c.client.Receive(heard, c.client.B().Subscribe().Channel(c.news()).Build(), func(p rueidis.PubSubMessage) {
			if m, ok := readNews(p.Message); ok {
				tell(m)
			}
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end that was asked for
		}
		if errors.Is(err, rueidis.ErrClosing) {
			return unavailable("listen", err)
		}
		pause := time.NewTimer(relisten)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
	}
}
