package redislimit

import (
	"context"
	_ "embed" // the scripts

	"github.com/redis/rueidis"
)

//go:embed lua/check.lua
var checkSource string

//go:embed lua/refund.lua
var refundSource string

//go:embed lua/slot.lua
var slotSource string

// scripts are sent by their hash, and whole to a server that has forgotten them.
type scripts struct{ check, refund, slot *rueidis.Lua }

func newScripts() scripts {
	return scripts{
		check: rueidis.NewLuaScript(checkSource), refund: rueidis.NewLuaScript(refundSource), slot: rueidis.NewLuaScript(slotSource),
	}
}

// execute sends a batch of jobs: as one script, or each job as one of its own, where
// keys may not lie together.
func (l *Limiter) execute(ctx context.Context, jobs []*job) {
	if l.sharded {
		l.pipeline(ctx, jobs)
		return
	}
	n := 0
	for _, j := range jobs {
		n += len(j.keys)
	}
	keys, args := make([]string, 0, n), make([]string, 0, n)
	for _, j := range jobs {
		keys, args = append(keys, j.keys...), append(args, j.args...)
	}
	text, err := l.lua.check.Exec(ctx, l.client, keys, args).ToString()
	for _, j := range jobs {
		size := len(j.keys) * replySize
		if err == nil && len(text) < size {
			err = errShape
		}
		if j.err = err; err == nil {
			j.answers, j.err = readAnswers(text[:size], len(j.keys))
			text = text[size:]
		}
	}
}

// pipeline sends jobs side by side.
func (l *Limiter) pipeline(ctx context.Context, jobs []*job) {
	cmds := make(rueidis.Commands, 0, len(jobs))
	for _, j := range jobs {
		cmds = append(cmds, l.client.B().Evalsha().Sha1(l.checkHash).Numkeys(int64(len(j.keys))).Key(j.keys...).Arg(j.args...).Build())
	}
	for i, r := range l.client.DoMulti(ctx, cmds...) {
		j := jobs[i]
		text, err := r.ToString()
		if said, ok := rueidis.IsRedisErr(err); ok && said.IsNoScript() {
			text, err = l.lua.check.Exec(ctx, l.client, j.keys, j.args).ToString()
		}
		if j.err = err; err == nil {
			j.answers, j.err = readAnswers(text, len(j.keys))
		}
	}
}
