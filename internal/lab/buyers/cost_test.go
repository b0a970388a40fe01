package buyers_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/doorbuster/doorbuster/internal/lab/buyers"
	"github.com/doorbuster/doorbuster/internal/lab/traffic"
	"github.com/doorbuster/doorbuster/internal/lab/wire"
)

// refusal is what most of a crowd does and hears.
func refusal() (traffic.Step, wire.Answer) {
	return traffic.Step{Kind: traffic.Buy, Buyer: 3, Click: 1, Target: &wire.Target{Host: "shop.example"}},
		wire.Answer{Status: 409, Body: problem("sold_out")}
}

// TestRefusalsCostNoMemory: a crowd of which nearly everybody is refused must not make
// work for the collector.
func TestRefusalsCostNoMemory(t *testing.T) { //nolint:paralleltest // others' allocations would count
	w := newWorld(t, nil)
	step, answer := refusal()
	request := make([]byte, 0, 1024)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		request = w.script.Request(request[:0], &step)
		w.script.Heard(&step, &answer, nil)
	}))
	assert.Zero(t, w.books.Live(), "and nothing in the books")
}

func BenchmarkRefused(b *testing.B) {
	cast, err := buyers.ReadCast(strings.NewReader("a\nb\nc\nd\n"), 0)
	if err != nil {
		b.Fatal(err)
	}
	script, err := buyers.New(cast, buyers.NewBooks(cast), buyers.Options{Sale: "drop", Run: "r"})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		step, answer := refusal()
		var request []byte
		for pb.Next() {
			request = script.Request(request[:0], &step)
			script.Heard(&step, &answer, nil)
		}
	})
}
