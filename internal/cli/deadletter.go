package cli

import (
	"context"

	"github.com/doorbuster/doorbuster/client"
)

// deadletterCmd decides about slips that could not be judged.
type deadletterCmd struct {
	List   letterListCmd   `cmd:"" help:"List dead letters in the order in which they were parked."`
	Replay letterReplayCmd `cmd:"" help:"Have a slip judged now that has no order, not even a rejected one; it competes afresh."`
	Drop   letterDropCmd   `cmd:"" help:"Close a letter for good; its units went back when it was parked."`
}

type letterListCmd struct {
	jsonFlag
	remote
	Sale  string `placeholder:"SALE" help:"Only letters of this sale."`
	State string `placeholder:"STATE" help:"Only letters in this state: open, replayed or dropped."`
	Limit int    `default:"100" help:"Most letters to list; 0 lists all."`
}

// Run lists.
func (c *letterListCmd) Run(ctx context.Context, s *session) error {
	q := client.LetterQuery{Sale: c.Sale, State: c.State}
	letters, err := listing(ctx, s, &c.remote, c.Limit, func(ctx context.Context, api *client.Client, after string, limit int) (client.Page[client.DeadLetter], error) {
		q.After, q.Limit = after, limit
		return api.DeadLetters(ctx, q)
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, letters)
	}
	rows := [][]string{{"LETTER", "SALE", "STATE", "PARKED AT", "ORDER", "USER", "PLACE", "CAUSE"}}
	for i := range letters {
		l := &letters[i]
		order, user := "-", "-"
		if l.Attempt != nil {
			order, user = l.Attempt.Order, l.Attempt.User
		}
		rows = append(rows, []string{l.ID, l.Sale, l.State, instant(l.ParkedAt), order, user, l.Place, l.Cause})
	}
	return table(s.Out, rows)
}

// oneLetter is embedded by commands about one dead letter.
type oneLetter struct {
	jsonFlag
	remote
	Letter string `arg:"" help:"Id of the letter (dlq_...)."`
}

type letterReplayCmd struct{ oneLetter }

// Run replays, and shows the order that came of it.
func (c *letterReplayCmd) Run(ctx context.Context, s *session) error {
	var o client.Order
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		o, err = api.ReplayLetter(ctx, c.Letter)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, o)
	}
	return say(s.Out, "replayed %s: order %s of %s is %s", c.Letter, o.ID, plain(o.User), stateOf(&o))
}

type letterDropCmd struct{ oneLetter }

// Run drops.
func (c *letterDropCmd) Run(ctx context.Context, s *session) error {
	var l client.DeadLetter
	err := c.call(ctx, s, func(ctx context.Context, api *client.Client) (err error) {
		l, err = api.DropLetter(ctx, c.Letter)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(s.Out, l)
	}
	return say(s.Out, "dropped %s", l.ID)
}
