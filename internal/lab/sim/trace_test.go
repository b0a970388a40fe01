package sim

import (
	"hash"
	"hash/fnv"
	"strings"
)

// trace is everything that was decided and answered in a run, as a hash; the text
// is kept only where somebody wants to read it.
type trace struct {
	sum    hash.Hash64
	keep   bool
	lines  []string
	buffer []byte
}

func newTrace(keep bool) trace { return trace{sum: fnv.New64a(), keep: keep} }

func (t *trace) add(parts ...string) {
	t.buffer = t.buffer[:0]
	for _, p := range parts {
		t.buffer = append(t.buffer, p...)
	}
	t.buffer = append(t.buffer, '\n')
	_, _ = t.sum.Write(t.buffer)
	if t.keep {
		t.lines = append(t.lines, strings.Join(parts, ""))
	}
}

// remark is for the reader alone.
func (t *trace) remark(text func() string) {
	if t.keep {
		line := text()
		t.lines = append(t.lines, remarkMark+line[:min(len(line), 400)])
	}
}

// remarkMark begins the lines of remarks.
const remarkMark = "        "
