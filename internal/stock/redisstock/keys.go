package redisstock

import (
	"strconv"

	"github.com/doorbuster/doorbuster/internal/stock"
)

// group is the name of the judge's group of consumers on every tray.
const group = "judge"

// keys names the keys of one lane. They are made here alone: keys of one call
// that fell into different slots of a cluster would make the client panic.
type keys struct{ base string }

func (c *Counter) keys(l stock.Lane) keys {
	b := make([]byte, 0, len(c.prefix)+40)
	b = append(b, '{')
	b = append(b, c.prefix...)
	b = append(b, ':')
	b = strconv.AppendUint(b, uint64(l.Sale), 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, int64(l.Index), 10)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(l.Salt), 10)
	b = append(b, '}')
	return keys{base: string(b)}
}

func (k keys) meta() string { return k.base + ":meta" }

func (k keys) tray() string { return k.base + ":tray" }

// buyers names the records of an epoch, in decimal.
func (k keys) buyers(epoch string) string { return k.base + ":buyers:" + epoch }

// news is the channel of messages between instances.
func (c *Counter) news() string { return c.prefix + ":news" }
